"""Rounding up or down by chance, made of operations on bits."""

from __future__ import annotations

from typing import Any

from gizml_tile.dtypes import F32, F64, I32, U32, DType
from gizml_tile.lifting import describe
from gizml_tile.nodes import broadcast
from gizml_tile.rounding import FLOAT_FORMATS
from gizml_tile.tracing import Value, fail

_DIGITS, _LEAST_NORMAL = 24, -126  # of F32


def round_randomly(tile: Any, kind: DType, random: object) -> Any:
    """A float tile rounded to a type of fewer bits by random ones, as ``Tile.to`` says."""
    if tile.dtype is F64 and kind.is_float:
        fail(f"random rounds F32 and narrower floats, found {describe(tile)}; convert it with .to(F32)")
    if not tile.dtype.is_float or not kind.is_float or kind in (F32, F64):
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
    dropped = _DIGITS - digits
    x = tile.to(F32)
    bits = x.bitcast(I32)
    noise = random.bitcast(I32).and_((1 << dropped) - 1)  # type: ignore[attr-defined]
    rounded = bits.add(noise).and_(-1 << dropped).bitcast(F32)
    least = smallest + digits - 1
    if least > _LEAST_NORMAL:
        # Subnormal numbers of the type have fewer bits, but all one unit.
        whole = x.abs().mul(2.0 ** (dropped - smallest)).to(I32)
        size = whole.add(noise).shr(dropped).to(F32).mul(2.0**smallest)
        rounded = x.abs().lt(2.0**least).select(size.copysign(x), rounded)
    return x.isfinite().select(rounded, x).to(kind)
