"""Products of what lies together in 32 bits: pairs of BF16 add to F32, pairs of I16 and fours of I8 to I32.

The instruction for bytes takes some without signs times some with signs. Where both operands are of one
kind, those of the left one turn their highest bit: to the instruction they are then ``left + 0x80``, modulo
256 and in the other kind, and the product comes out larger by that of the byte 0x80 with the right operand.
That is the same for all rows, so totals start below by as much. All of it is exact modulo 2^32.
"""

from __future__ import annotations

from gizml_tile.lowering.emit.cpu.builder import Function
from gizml_tile.lowering.emit.cpu.shapes import BYTE_PRODUCTS, DotShape

# The byte 0x80 four times.
TURNED = 0x80808080 - (1 << 32)
# The sum of two products of I16 in each lane of I32, by the number of lanes.
_PAIR_PRODUCTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
# Few columns: the vector is filled up.
_LEAST_LANES = 4


def turned(b: Function, shape: DotShape, left: str) -> str:
    """Left bytes with their highest bits turned."""
    return b.emit(f"xor <{shape.vector} x i32> {left}, splat (i32 {TURNED})")


def multiply_add_together(b: Function, shape: DotShape, left: str, right: str, total: str) -> str:
    """Adds the products in each lane; left bytes are ``turned`` already where they must be."""
    lanes, wide = shape.vector, max(shape.vector, _LEAST_LANES)
    left, right, total = (_resized(b, shape.lane, each, lanes, wide) for each in (left, right, total))
    if shape.mode == "bf16_dot":
        name = f"avx512bf16.dpbf16ps.{32 * wide}"
        sums = _call(b, name, shape.lane, wide, f"<{2 * wide} x bfloat>", [left, right], total)
    elif shape.mode == "i16_dot":
        products = _call(b, _PAIR_PRODUCTS[wide], shape.lane, wide, f"<{2 * wide} x i16>", [left, right])
        sums = b.emit(f"add <{wide} x i32> {total}, {products}")
    else:
        operands = [left, right] if BYTE_PRODUCTS[shape.mode][0] else [right, left]
        name = f"avx512.vpdpbusd.{32 * wide}"
        sums = _call(b, name, shape.lane, wide, f"<{4 * wide} x i8>", operands, total)
    return _resized(b, shape.lane, sums, wide, lanes)


def _call(
    b: Function, name: str, lane: str, lanes: int, kind: str, operands: list[str], total: str | None = None
) -> str:
    """What an instruction makes of a total, where it takes one, and operands of this kind."""
    of = f"<{lanes} x {lane}>"
    totals = [] if total is None else [of]
    b.module.declare(f"llvm.x86.{name}", f"{of} @llvm.x86.{name}({', '.join([*totals, kind, kind])})")
    arguments = [f"{of} {total}" for _ in totals]
    arguments += [f"{kind} {b.emit(f'bitcast {of} {each} to {kind}')}" for each in operands]
    return b.call(of, f"llvm.x86.{name}", *arguments)


def _resized(b: Function, lane: str, value: str, lanes: int, wanted: int) -> str:
    """A vector with more lanes behind its own, or fewer of them."""
    if lanes == wanted:
        return value
    kind, numbers = f"<{lanes} x {lane}>", ", ".join(f"i32 {min(place, lanes)}" for place in range(wanted))
    return b.emit(f"shufflevector {kind} {value}, {kind} zeroinitializer, <{wanted} x i32> <{numbers}>")
