"""Vector accesses of a thread, matrices of a warp, and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import MASK, U8, DType
from gizml_tile.lowering.emit.ptx.addresses import address, element_type, written
from gizml_tile.lowering.emit.ptx.immediates import immediate, packed
from gizml_tile.lowering.emit.ptx.packing import Element, elements, gather
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    Instruction,
    MatrixAccess,
)

# Measured on an H200: no cache hint was faster than the plain access, also for what is used once.
_SPACES = {GLOBAL: "global", WORKGROUP: "shared"}
VECTORS = {1: "", 2: ".v2", 4: ".v4"}
_WIDEST = 16  # bytes of one access


def guards_of(writer: Writer, masks: Sequence[Instruction], accesses: int) -> list[str]:
    """The predicate prefix of each access."""
    if not masks:
        return [""] * accesses
    names = writer.words(masks[0])
    prefixes = [f"@{name} " for name in names]
    return prefixes if len(prefixes) == accesses else prefixes * accesses


def pieces_of(words: Words, bits: int) -> list[tuple[Words, int]]:
    """Words in runs that one instruction moves, each with its distance in bytes from the first."""
    step = _WIDEST * 8 // bits
    return [(words[first : first + step], first * bits // 8) for first in range(0, len(words), step)]


def _operand(words: Words) -> str:
    return words[0] if len(words) == 1 else f"{{{', '.join(words)}}}"


Where = Callable[[tuple[int, int]], tuple[str, int]]


def _load(writer: Writer, instruction: Instruction) -> Words:
    access, offsets = instruction.attr, instruction.args[0]
    assert isinstance(access, Access)
    return load_vectors(
        writer,
        instruction,
        f"ld.{_SPACES[access.space]}",
        lambda place: address(writer, access.space, access.memory, offsets, place),
        instruction.args[1:],
    )


def load_vectors(
    writer: Writer, instruction: Instruction, mnemonic: str, where_is: Where, masks: Sequence[Instruction]
) -> Words:
    """Vector loads of an `Access`, each of whose places ``where_is`` tells."""
    access, dtype = instruction.attr, instruction.dtype
    assert isinstance(access, Access) and dtype is not None
    stored = U8 if dtype is MASK else dtype
    size = access.width * stored.bytes
    guards = guards_of(writer, masks, len(access.places))
    pad = _pad(access, stored) if masks else ""
    found: list[Element] = []
    for guard, place in zip(guards, access.places, strict=True):
        where = where_is(place)
        words = writer.fresh(stored, access.width)
        bits = max(stored.bits, 32)
        if guard:
            writer.lines += [f"mov.b{bits} {word}, {pad};" for word in words]
        if size < 4:
            writer.lines.append(f"{guard}{mnemonic}.b{8 * size} {words[0]}, {written(*where)};")
        else:
            for piece, distance in pieces_of(words, bits):
                vector = VECTORS[len(piece)]
                writer.lines.append(
                    f"{guard}{mnemonic}{vector}.b{bits} {_operand(piece)}, {written(*where, distance)};"
                )
        found += elements(words, stored, access.width)
    return _truths(writer, found) if dtype is MASK else gather(writer, found, stored)


def _pad(access: Access, dtype: DType) -> str:
    """A word of what masked accesses give."""
    if dtype.bits >= 32:
        return immediate(access.pad, dtype)
    return packed((access.pad,) * (32 // dtype.bits), dtype)


def _truths(writer: Writer, found: Sequence[Element]) -> Words:
    """A predicate for each byte that is not zero."""
    made = writer.registers("p", len(found))
    for out, (word, slot) in zip(made, found, strict=True):
        byte = writer.register("r")
        writer.lines += (
            f"and.b32 {byte}, {word}, {0xFF << 8 * slot};",
            f"setp.ne.s32 {out}, {byte}, 0;",
        )
    return made


def _store(writer: Writer, instruction: Instruction) -> Words:
    access, (_, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access)
    store_vectors(
        writer,
        instruction,
        f"st.{_SPACES[access.space]}",
        lambda place: address(writer, access.space, access.memory, offsets, place),
        masks,
    )
    return ()


def store_vectors(
    writer: Writer, instruction: Instruction, mnemonic: str, where_is: Where, masks: Sequence[Instruction]
) -> None:
    """Vector stores of an `Access`, each of whose places ``where_is`` tells."""
    access, value = instruction.attr, instruction.args[0]
    assert isinstance(access, Access) and value.dtype is not None
    stored = U8 if value.dtype is MASK else value.dtype
    words = _bytes_of_masks(writer, value) if value.dtype is MASK else writer.words(value)
    guards = guards_of(writer, masks, len(access.places))
    size, bits = access.width * stored.bytes, max(stored.bits, 32)
    found = elements(words, stored, value.count)
    step = max(size * 8 // bits, 1)
    for number, (guard, place) in enumerate(zip(guards, access.places, strict=True)):
        where = where_is(place)
        if size < 4:
            word = lowest(writer, found[number * access.width], stored)
            writer.lines.append(f"{guard}{mnemonic}.b{8 * size} {written(*where)}, {word};")
            continue
        for piece, distance in pieces_of(words[number * step : number * step + step], bits):
            vector = VECTORS[len(piece)]
            writer.lines.append(
                f"{guard}{mnemonic}{vector}.b{bits} {written(*where, distance)}, {_operand(piece)};"
            )


def _bytes_of_masks(writer: Writer, value: Instruction) -> Words:
    names = writer.words(value)
    ones = writer.registers("r", len(names))
    writer.lines += [f"selp.b32 {out}, 1, 0, {name};" for out, name in zip(ones, names, strict=True)]
    return gather(writer, [(one, 0) for one in ones], U8)


def lowest(writer: Writer, element: Element, dtype: DType) -> str:
    """A register whose lowest bits are an element, as narrow stores take it."""
    word, slot = element
    word = writer.named(word)
    if not slot:
        return word
    made = writer.register("r")
    writer.lines.append(f"shr.u32 {made}, {word}, {slot * dtype.bits};")
    return made


def _matrix_form(access: MatrixAccess) -> str:
    transposed = ".trans" if access.transposed else ""
    return f"sync.aligned.m8n8.x{access.matrices}{transposed}.shared.b16"


def _matrix_load(writer: Writer, instruction: Instruction) -> Words:
    access = instruction.attr
    assert isinstance(access, MatrixAccess)
    found: list[str] = []
    for place in access.places:
        where = address(writer, WORKGROUP, access.memory, instruction.args[0], place)
        words = writer.registers("r", access.matrices)
        writer.lines.append(f"ldmatrix.{_matrix_form(access)} {{{', '.join(words)}}}, {written(*where)};")
        found += words
    return tuple(found)


def _matrix_store(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets) = instruction.attr, instruction.args
    assert isinstance(access, MatrixAccess)
    words = writer.all_named(writer.words(value))
    for number, place in enumerate(access.places):
        where = address(writer, WORKGROUP, access.memory, offsets, place)
        piece = words[number * access.matrices : (number + 1) * access.matrices]
        writer.lines.append(f"stmatrix.{_matrix_form(access)} {written(*where)}, {{{', '.join(piece)}}};")
    return ()


def _copy(writer: Writer, instruction: Instruction) -> Words:
    copy, (to, source, *masks) = instruction.attr, instruction.args
    assert isinstance(copy, Copy)
    size = copy.width * element_type(writer, GLOBAL, copy.tensor).bytes
    step = min(size, _WIDEST)
    if step not in (4, 8, 16):
        raise LookupError(f"PTX has no entry for the instruction 'copy' of {size} bytes")
    # Only the 16-byte form may pass by the first cache, which it does.
    mnemonic = f"cp.async.{'cg' if step == 16 else 'ca'}.shared.global"
    sizes = _copied_sizes(writer, masks, step, len(copy.to_places))
    for taken, to_place, from_place in zip(sizes, copy.to_places, copy.from_places, strict=True):
        target = address(writer, WORKGROUP, copy.buffer, to, to_place)
        origin = address(writer, GLOBAL, copy.tensor, source, from_place)
        for distance in range(0, size, step):
            writer.lines.append(
                f"{mnemonic} {written(*target, distance)}, {written(*origin, distance)}, {step}{taken};"
            )
    return ()


def _copied_sizes(writer: Writer, masks: Sequence[Instruction], step: int, accesses: int) -> list[str]:
    """How much of each copy is read, the rest being zeros: nothing to say where there is no mask."""
    if not masks:
        return [""] * accesses
    names = writer.words(masks[0])
    sizes = writer.registers("r", len(names))
    writer.lines += [f"selp.b32 {out}, {step}, 0, {name};" for out, name in zip(sizes, names, strict=True)]
    taken = [f", {each}" for each in sizes]
    return taken if len(taken) == accesses else taken * accesses


def _copy_commit(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("cp.async.commit_group;")
    return ()


def _copy_wait(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append(f"cp.async.wait_group {instruction.attr};")
    return ()


RULES: dict[str, Rule] = {
    "load": _load,
    "store": _store,
    "matrix_load": _matrix_load,
    "matrix_store": _matrix_store,
    "copy": _copy,
    "copy_commit": _copy_commit,
    "copy_wait": _copy_wait,
}
