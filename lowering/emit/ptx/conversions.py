"""Conversions between all storage types, by way of F32, F64 and integers of 32 and 64 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    MASK,
    U8,
    U16,
    DType,
    integer_range,
)
from gizml_tile.lowering.emit.ptx.immediates import immediate
from gizml_tile.lowering.emit.ptx.packing import elements, gather, permuted
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import Instruction

_SMALL_INTEGERS = (I8, U8, I16, U16)


def _convert(writer: Writer, instruction: Instruction) -> Words:
    value, to, count = instruction.args[0], instruction.dtype, instruction.count
    assert value.dtype is not None and to is not None
    if to is MASK:
        raise LookupError(f"PTX has no entry for the instruction 'convert' from {value.dtype} to {to}")
    words = writer.words(value)
    if value.dtype is FP8 and to is F16:
        return _fp8_to_f16(writer, words, count)
    if value.dtype is E5M2 and to is F16:
        return _e5m2_to_f16(writer, words, count)
    source, wide = _widened(writer, words, value.dtype, count, to)
    return _narrowed(writer, _crossed(writer, wide, source, to), to)


def _each(writer: Writer, text: str, words: Sequence[str], kind: str = "r") -> Words:
    """One instruction with one operand for each word."""
    made = writer.registers(kind, len(words))
    writer.lines += [f"{text} {out}, {word};" for out, word in zip(made, words, strict=True)]
    return made


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Neighbours; a last one without a neighbour pairs with itself."""
    for first in range(0, len(words), 2):
        yield words[first], words[min(first + 1, len(words) - 1)]


# To F32 or an integer of 32 or 64 bits


def _widened(writer: Writer, words: Words, dtype: DType, count: int, to: DType) -> tuple[DType, Words]:
    """The type in registers of their own, and the registers."""
    if dtype is MASK:
        wide = F32 if to.is_float else to if to.bits == 64 else I32
        made = writer.fresh(wide, count)
        one, zero = immediate(1, wide), immediate(0, wide)
        writer.lines += [
            f"selp.b{wide.bits} {out}, {one}, {zero}, {mask};" for out, mask in zip(made, words, strict=True)
        ]
        return wide, made
    if dtype is BF16:
        return F32, _bf16_to_f32(writer, words, count)
    if dtype is F16:
        return F32, _f16_to_f32(writer, words, count)
    if dtype is FP8:
        return F32, _f16_to_f32(writer, _fp8_to_f16(writer, words, count), count)
    if dtype in _SMALL_INTEGERS:
        return I32, _extended(writer, words, dtype, count)
    return dtype, words


def _bf16_to_f32(writer: Writer, words: Words, count: int) -> Words:
    made = writer.registers("r", count)
    for number, out in enumerate(made):
        word = words[number // 2]
        writer.lines.append(
            f"and.b32 {out}, {word}, 0xFFFF0000;" if number % 2 else f"shl.b32 {out}, {word}, 16;"
        )
    return made


def _halves(writer: Writer, words: Words, count: int) -> Words:
    """16-bit registers with the halves of words."""
    halves = writer.registers("h", 2 * len(words))
    for number, word in enumerate(words):
        writer.lines.append(f"mov.b32 {{{halves[2 * number]}, {halves[2 * number + 1]}}}, {word};")
    return halves[:count]


def _f16_to_f32(writer: Writer, words: Words, count: int) -> Words:
    return _each(writer, "cvt.f32.f16", _halves(writer, words, count))


def _fp8_to_f16(writer: Writer, words: Words, count: int) -> Words:
    _require(writer, "fp8_convert", FP8)
    return _each(writer, "cvt.rn.f16x2.e4m3x2", _halves(writer, words, -(-count // 2)))


def _e5m2_to_f16(writer: Writer, words: Words, count: int) -> Words:
    """The upper halves of F16: two by one permutation of bytes, with zeros below them."""
    pairs = range(-(-count // 2))
    return tuple([permuted(writer, words[pair // 2], "0", (0x1404, 0x3424)[pair % 2]) for pair in pairs])


def _extended(writer: Writer, words: Words, dtype: DType, count: int) -> Words:
    """Small integers with their sign or zeros above, each by one permutation of bytes."""
    made = []
    for word, slot in elements(words, dtype, count):
        if dtype is I16:
            made.append(permuted(writer, word, word, 0xBB32 if slot else 0x9910))
        elif dtype is U16:
            made.append(permuted(writer, word, "0", 0x4432 if slot else 0x4410))
        elif dtype is I8:
            made.append(permuted(writer, word, word, 0x1110 * (8 | slot) | slot))
        else:
            made.append(permuted(writer, word, "0", 0x4440 | slot))
    return tuple(made)


# Between F32 and integers of 32 and 64 bits


def _crossed(writer: Writer, words: Words, source: DType, to: DType) -> Words:
    """The values in the register type that ``to`` is made of."""
    if F64 in (source, to):
        return _of_double(writer, words, source, to)
    if to.is_float:
        if source is F32:
            return words
        # Up to 2^24 integers are exact in F32, and past it F16 and FP8 are at their largest; BF16 would
        # be rounded twice.
        if to is BF16:
            return _rounded_to_odd(writer, words, source)
        return _each(writer, f"cvt.rn.f32.{_sign(source)}{source.bits}", words)
    bits = max(to.bits, 32)
    if source is F32:
        return _truncated(writer, words, to)
    if bits > source.bits:
        sign = _sign(source)
        return _each(writer, f"cvt.{sign}64.{sign}32", words, "d")
    return _each(writer, "cvt.u32.u64", words) if bits < source.bits else words


def _of_double(writer: Writer, words: Words, source: DType, to: DType) -> Words:
    """Between F64 and F32 or integers of 32 or 64 bits, of which a NaN would be the smallest (or 2^63)."""
    kind = "d" if to.bits == 64 else "r"
    if to is F64:
        text = "cvt.f64.f32" if source is F32 else f"cvt.rn.f64.{_sign(source)}{source.bits}"
        return _each(writer, text, words, kind)
    if to is F32:
        return _each(writer, "cvt.rn.f32.f64", words)
    made = writer.registers(kind, len(words))
    for out, word in zip(made, words, strict=True):
        strange = writer.register("p")
        writer.lines += (
            f"cvt.rzi.{_sign(to)}{to.bits}.f64 {out}, {word};",
            f"setp.nan.f64 {strange}, {word}, {word};",
            f"selp.b{to.bits} {out}, 0, {out}, {strange};",
        )
    return made


def _sign(dtype: DType) -> str:
    """How PTX says whether an integer type has a sign."""
    return "u" if dtype.is_unsigned else "s"


def _rounded_to_odd(writer: Writer, words: Words, source: DType) -> Words:
    """Integers in F32, inexact ones with their last bit set, so that one more rounding is the only one."""
    whole, kind = f"s{source.bits}", "d" if source.bits == 64 else "r"
    made = []
    for word in words:
        near, odd, out = writer.registers("r", 3)
        back, inexact = writer.register(kind), writer.register("p")
        writer.lines += (
            f"cvt.rz.f32.{whole} {near}, {word};",
            f"cvt.rzi.{whole}.f32 {back}, {near};",
            f"setp.ne.{whole} {inexact}, {back}, {word};",
            f"or.b32 {odd}, {near}, 1;",
            f"selp.b32 {out}, {odd}, {near}, {inexact};",
        )
        made.append(out)
    return tuple(made)


def _truncated(writer: Writer, words: Words, to: DType) -> Words:
    """Floats as integers: PTX saturates, and gives 0 for a NaN, but 2^63 in 64 bits."""
    if to.bits < 64:
        sign = _sign(to) if to.bits == 32 else "s"
        whole = _each(writer, f"cvt.rzi.{sign}32.f32", words)
        if to.bits == 32:
            return whole
        low, high = integer_range(to)
        bounded = writer.registers("r", len(whole))
        for out, word in zip(bounded, whole, strict=True):
            writer.lines += (f"max.s32 {out}, {word}, {low};", f"min.s32 {out}, {out}, {high};")
        return bounded
    made = writer.registers("d", len(words))
    for out, word in zip(made, words, strict=True):
        strange = writer.register("p")
        writer.lines += (
            f"cvt.rzi.{_sign(to)}64.f32 {out}, {word};",
            f"setp.nan.f32 {strange}, {word}, {word};",
            f"selp.b64 {out}, 0, {out}, {strange};",
        )
    return made


# From F32 and I32 to packed types


def _narrowed(writer: Writer, words: Words, to: DType) -> Words:
    if to is F16:
        return _f32_to_f16(writer, words)
    if to is BF16:
        _require(writer, "bf16_convert", BF16)
        return _packed_pairs(writer, "cvt.rn.bf16x2.f32", words)
    if to is FP8:
        _require(writer, "fp8_convert", FP8)
        return _f32_to_fp8(writer, words)
    if to in _SMALL_INTEGERS:
        return gather(writer, [(word, 0) for word in words], to)
    return words


def _packed_pairs(writer: Writer, text: str, words: Words, kind: str = "r") -> Words:
    made = writer.registers(kind, -(-len(words) // 2))
    # The first operand lands in the upper half.
    writer.lines += [
        f"{text} {out}, {high}, {low};" for out, (low, high) in zip(made, _pairs(words), strict=True)
    ]
    return made


def _f32_to_f16(writer: Writer, words: Words) -> Words:
    if writer.kernel.target.arch != "sm_75":
        return _packed_pairs(writer, "cvt.rn.f16x2.f32", words)
    return _joined_halves(writer, _each(writer, "cvt.rn.f16.f32", words, "h"))


def _f32_to_fp8(writer: Writer, words: Words) -> Words:
    return _joined_halves(writer, _packed_pairs(writer, "cvt.rn.satfinite.e4m3x2.f32", words, "h"))


def _joined_halves(writer: Writer, halves: Words) -> Words:
    made = writer.registers("r", -(-len(halves) // 2))
    writer.lines += [
        f"mov.b32 {out}, {{{low}, {high}}};" for out, (low, high) in zip(made, _pairs(halves), strict=True)
    ]
    return made


def _require(writer: Writer, ability: str, dtype: DType) -> None:
    if not writer.kernel.target.can(ability):
        raise LookupError(f"{writer.kernel.target} has no instruction that converts {dtype} ({ability})")


RULES: dict[str, Rule] = {"convert": _convert}
