"""Accesses that nothing comes between: reductions in memory, and compare-and-swap."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, F16, F32, F64, I32, I64, U32, U64, DType
from gizml_tile.lowering.emit.ptx.addresses import address, written
from gizml_tile.lowering.emit.ptx.memory import VECTORS, guards_of, lowest, pieces_of
from gizml_tile.lowering.emit.ptx.packing import elements, stretched
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Instruction

# By type and operation what follows the name of the instruction; halves come in pairs where several move.
_FORMS = {
    ("add", F64): "f64",
    ("add", F32): "f32",
    ("add", F16): "noftz.f16",
    ("add", BF16): "noftz.bf16",
    ("add", I32): "u32",
    ("max", I32): "s32",
    ("min", I32): "s32",
    ("add", I64): "u64",
    ("max", I64): "s64",
    ("min", I64): "s64",
    **{(combine, dtype): dtype.text for combine in ("add", "max", "min") for dtype in (U32, U64)},
}


def _atomic(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None
    dtype, combine, width = value.dtype, access.combine, access.width
    words = stretched(writer, value, width * len(access.places))
    found = elements(words, dtype, width * len(access.places))
    step = max(width * dtype.bits // 32, 1) if dtype.bits < 64 else width
    guards = guards_of(writer, masks, len(access.places))
    for number, (guard, place) in enumerate(zip(guards, access.places, strict=True)):
        where = written(*address(writer, access.space, access.memory, offsets, place))
        space = "global" if access.space == GLOBAL else "shared"
        name = f"{guard}red.{space}.{combine}"
        if width * dtype.bits < 32:
            half = _half(writer, lowest(writer, found[number], dtype))
            writer.lines.append(f"{name}.{_FORMS[combine, dtype]} {where}, {half};")
            continue
        run = writer.all_named(words[number * step : number * step + step], "d" if dtype.bits == 64 else "r")
        ((piece, _),) = pieces_of(run, max(dtype.bits, 32))
        form = _FORMS[combine, dtype]
        if dtype.bits < 32:
            flush, _, kind = form.partition(".")
            form = f"{flush}{VECTORS[len(piece)]}.{kind}x2"
        else:
            form = f"{VECTORS[len(piece)]}.{form}".removeprefix(".")
        operand = piece[0] if len(piece) == 1 else f"{{{', '.join(piece)}}}"
        writer.lines.append(f"{name}.{form} {where}, {operand};")
    return ()


def _update(writer: Writer, instruction: Instruction) -> Words:
    """The new value is made and swapped for what it was made of, until that is what is there."""
    access, (offset, *masks), (block,) = instruction.attr, instruction.args, instruction.blocks
    assert isinstance(access, Access)
    param, result = block.params[0], block.results[0]
    dtype = param.dtype
    assert dtype is not None
    where = written(*address(writer, access.space, access.memory, offset, access.places[0]))
    again, end = writer.label(), writer.label()
    if masks:
        writer.lines.append(f"@!{writer.words(masks[0])[0]} bra {end};")
    bits = dtype.bits
    old = writer.fresh(dtype, 1)
    writer.values[param] = old
    if bits < 32:
        seen = writer.register("h")
        writer.lines += (f"ld.relaxed.gpu.global.b16 {seen}, {where};", f"cvt.u32.u16 {old[0]}, {seen};")
    else:
        writer.lines.append(f"ld.relaxed.gpu.global.b{bits} {old[0]}, {where};")
    writer.lines.append(f"{again}:")
    with writer.loop():
        writer.block(block)
        new = _new(writer, result, dtype)
        differs = writer.register("p")
        if bits < 32:
            mine, found = _half(writer, old[0]), writer.register("h")
            swap = f"atom.global.cas.b16 {found}, {where}, {mine}, {_half(writer, new)};"
            writer.lines += (swap, f"setp.ne.s16 {differs}, {found}, {mine};")
            writer.lines.append(f"cvt.u32.u16 {old[0]}, {found};")
        else:
            found = writer.register("d" if bits == 64 else "r")
            writer.lines += (
                f"atom.global.cas.b{bits} {found}, {where}, {old[0]}, {new};",
                f"setp.ne.s{bits} {differs}, {found}, {old[0]};",
                f"mov.b{bits} {old[0]}, {found};",
            )
    writer.lines += (f"@{differs} bra {again};", f"{end}:")
    return ()


def _new(writer: Writer, result: Instruction, dtype: DType) -> str:
    """A register with the new element in its lowest bits."""
    words = writer.words(result)
    if dtype.bits < 32:
        return lowest(writer, (words[0], 0), dtype)
    return writer.named(words[0], "d" if dtype.bits == 64 else "r")


def _half(writer: Writer, word: str) -> str:
    """A register of 16 bits with the lowest ones of a word."""
    made = writer.register("h")
    writer.lines.append(f"cvt.u16.u32 {made}, {word};")
    return made


RULES: dict[str, Rule] = {"atomic": _atomic, "update": _update}
