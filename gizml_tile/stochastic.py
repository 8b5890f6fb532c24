"""Rounding up or down by chance, made of operations on bits."""

from __future__ import annotations

from typing import Any

from gizml_tile.dtypes import F32, F64, I32, I64, U32, DType
from gizml_tile.lifting import describe
from gizml_tile.nodes import broadcast
from gizml_tile.rounding import FLOAT_FORMATS
from gizml_tile.tracing import Value, fail

# The bits of a random number.
_RANDOM = 32


def round_randomly(tile: Any, kind: DType, random: object) -> Any:
    """A float tile rounded to a type of fewer bits by random ones, as ``Tile.to`` says."""
    source = F64 if tile.dtype is F64 else F32
    if not tile.dtype.is_float or not kind.is_float or kind.bits >= source.bits:
        fail(
            f"random rounds floats to a float type of fewer bits, found {describe(tile)} to {kind}; leave "
            "random out"
        )
    if not isinstance(random, Value) or random._node.dtype not in (I32, U32) or not random._node.is_tile:
        fail(f"random takes a U32 tile, as p.random(seed, offset, shape) gives, found {describe(random)}")
    if broadcast(tile.shape, random._node.shape) != tile.shape:
        fail(
            f"random has the tile's shape {list(tile.shape)} (or 1 along an axis), found {describe(random)}; "
            "draw it with p.random(seed, offset, x.shape)"
        )
    digits, smallest, _ = FLOAT_FORMATS[kind]
    all_digits, least_of_all, _ = FLOAT_FORMATS[source]
    dropped, whole = all_digits - digits, I64 if source is F64 else I32
    drawn = min(dropped, _RANDOM)
    x = tile.to(source)
    bits = x.bitcast(whole)
    drawn_bits: Any = random
    noise = drawn_bits.bitcast(U32).to(I64) if source is F64 else drawn_bits.bitcast(I32)
    noise = noise.and_((1 << drawn) - 1)
    if dropped > drawn:
        noise = noise.shl(dropped - drawn)
    rounded = bits.add(noise).and_(-1 << dropped).bitcast(source)
    least = smallest + digits - 1
    if least > least_of_all + all_digits - 1:
        # Subnormal numbers of the type have fewer bits, but all one unit.
        units = x.abs().mul(2.0 ** (dropped - smallest)).to(whole)
        size = units.add(noise).shr(dropped).to(source).mul(2.0**smallest)
        rounded = x.abs().lt(2.0**least).select(size.copysign(x), rounded)
    return x.isfinite().select(rounded, x).to(kind)
