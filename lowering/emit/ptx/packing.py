"""Elements in hardware registers: finding them, and bringing any of them together in order."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import DType
from gizml_tile.lowering.emit.ptx.immediates import immediate, packed
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer, elements_of_word, register_class
from gizml_tile.lowering.kernel_ir.instructions import Instruction, Number

Element = tuple[str, int]  # a word, and which of its elements


def elements(words: Words, dtype: DType, count: int) -> list[Element]:
    """The elements of a value, in order."""
    per = elements_of_word(dtype)
    return [(words[number // per], number % per) for number in range(count)]


def gather(writer: Writer, found: Sequence[Element], dtype: DType) -> Words:
    """Words that hold elements in order: whole words as they are, others put together from bytes."""
    per = elements_of_word(dtype)
    if per == 1:
        return tuple([word for word, _ in found])
    return tuple([_word(writer, found[first : first + per], per) for first in range(0, len(found), per)])


def _word(writer: Writer, group: Sequence[Element], per: int) -> str:
    first = group[0][0]
    if all(each == (first, slot) for slot, each in enumerate(group)):
        return first
    sources = list(dict.fromkeys(word for word, _ in group))
    if len(sources) > 2:
        low, high = _word(writer, group[:2], per), _word(writer, group[2:], per)
        return permuted(writer, low, high, 0x5410)
    # prmt takes bytes 0 to 3 of its first operand and 4 to 7 of its second, four bits for each.
    size, selector = 4 // per, 0
    for byte in range(4):
        word, slot = group[byte // size] if byte // size < len(group) else group[0]
        selector |= (4 * sources.index(word) + size * slot + byte % size) << 4 * byte
    return permuted(writer, sources[0], sources[-1], selector)


def permuted(writer: Writer, low: str, high: str, selector: int) -> str:
    """Four bytes of two words: each hexadecimal digit names a byte, plus 8 for its sign spread over it."""
    made = writer.register("r")
    writer.lines.append(f"prmt.b32 {made}, {low}, {high}, 0x{selector:04X};")
    return made


def stretched(writer: Writer, value: Instruction, count: int) -> Words:
    """A value's words, with one register repeated to ``count``."""
    words = writer.words(value)
    if value.count == count:
        return words
    assert value.count == 1, f"{value} stretches to {count} registers"
    assert value.dtype is not None
    return gather(writer, [(words[0], 0)] * count, value.dtype)


def _constant(writer: Writer, instruction: Instruction) -> Words:
    dtype, attr = instruction.dtype, instruction.attr
    assert dtype is not None
    numbers: tuple[Number, ...] = attr if isinstance(attr, tuple) else (attr,)  # type: ignore[assignment]
    if dtype.name == "MASK":
        return tuple([truth(writer, bool(number)) for number in numbers])
    per = elements_of_word(dtype)
    if per == 1:
        return tuple([immediate(number, dtype) for number in numbers])
    return tuple([packed(numbers[first : first + per], dtype) for first in range(0, len(numbers), per)])


def truth(writer: Writer, value: bool) -> str:
    """A predicate that is always set, or never."""
    return writer.once(("truth", value), "p", f"mov.pred {{}}, {int(value)};")


def _pick(writer: Writer, instruction: Instruction) -> Words:
    value, chosen = instruction.args[0], instruction.attr
    assert value.dtype is not None and isinstance(chosen, tuple)
    found = elements(writer.words(value), value.dtype, value.count)
    return gather(writer, [found[register] for register in chosen], value.dtype)  # type: ignore[index]


def _join(writer: Writer, instruction: Instruction) -> Words:
    assert instruction.dtype is not None
    per = elements_of_word(instruction.dtype)
    if all(value.count % per == 0 for value in instruction.args[:-1]):
        return tuple([word for value in instruction.args for word in writer.words(value)])
    found = [
        element
        for value in instruction.args
        for element in elements(writer.words(value), instruction.dtype, value.count)
    ]
    return gather(writer, found, instruction.dtype)


def _bitcast(writer: Writer, instruction: Instruction) -> Words:
    # Immediates are written by type, so they go through registers.
    assert instruction.dtype is not None
    return writer.all_named(writer.words(instruction.args[0]), register_class(instruction.dtype))


def _again(writer: Writer, instruction: Instruction) -> Words:
    """Every word XOR a zero of which the assembler does not know: minus the lowest bit of n (n + 1)."""
    value, other = instruction.args
    (word,) = writer.all_named(writer.words(other))
    key = ("zero", word)
    zero = writer.cached(key)
    if zero is None:
        zero = writer.keep(key, writer.register("r"))
        writer.lines += (
            f"mad.lo.s32 {zero}, {word}, {word}, {word};",
            f"and.b32 {zero}, {zero}, 1;",
            f"neg.s32 {zero}, {zero};",
        )
    words = writer.all_named(writer.words(value))
    made = writer.registers("r", len(words))
    writer.lines += [f"xor.b32 {new}, {old}, {zero};" for new, old in zip(made, words, strict=True)]
    return made


def _select(writer: Writer, instruction: Instruction) -> Words:
    mask, yes, no = instruction.args
    dtype, count = instruction.dtype, instruction.count
    assert dtype is not None
    masks, ones, zeros = (stretched(writer, value, count) for value in (mask, yes, no))
    if dtype.name == "MASK":
        return tuple([_select_mask(writer, *each) for each in zip(masks, ones, zeros, strict=True)])
    per = elements_of_word(dtype)
    return tuple(
        [
            _select_word(writer, masks[number * per : number * per + per], one, zero, dtype)
            for number, (one, zero) in enumerate(zip(ones, zeros, strict=True))
        ]
    )


def _select_mask(writer: Writer, mask: str, one: str, zero: str) -> str:
    yes, no, made = writer.registers("p", 3)
    writer.lines += (
        f"and.pred {yes}, {mask}, {one};",
        f"not.pred {no}, {mask};",
        f"and.pred {no}, {no}, {zero};",
        f"or.pred {made}, {yes}, {no};",
    )
    return made


def _select_word(writer: Writer, masks: Words, one: str, zero: str, dtype: DType) -> str:
    """One word of a select; where its elements' masks differ, from a word for each mask."""
    kind = "d" if dtype.bits == 64 else "r"
    chosen = {}
    for mask in dict.fromkeys(masks):
        chosen[mask] = writer.register(kind)
        writer.lines.append(f"selp.b{64 if kind == 'd' else 32} {chosen[mask]}, {one}, {zero}, {mask};")
    return gather(writer, [(chosen[mask], slot) for slot, mask in enumerate(masks)], dtype)[0]


RULES: dict[str, Rule] = {
    "constant": _constant,
    "pick": _pick,
    "join": _join,
    "bitcast": _bitcast,
    "again": _again,
    "select": _select,
}
