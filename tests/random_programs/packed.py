"""Scales of blocks in random programs: what they are called with, how written, what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from intervals import Value, floats, nothing, to, where
from programs import Type
from reference import multiply

from gizml_tile.dtypes import BF16, F32, FP8, MASK, U8, math_dtype

if TYPE_CHECKING:
    from writer import Writer

NAMES = frozenset({"scale_blocks"})


def draw(writer: Writer) -> str:
    """A tile whose blocks have scales, of floats or as exponents, as FP8 operands of products have them."""
    a = writer.pick(lambda t: t.dtype not in (None, MASK) and _is_reshaped(t.shape))
    if a is None:
        a = writer.read(FP8, (8, 16))
    return scaled(writer, a, writer.random.randrange(2))


def scaled(writer: Writer, a: str, axis: int) -> str:
    """A tile with scales along an axis, read from a tensor of its own."""
    shape = writer.names[a].shape
    counts = [count for count in (1, 2, 4, 8) if shape[axis] % count == 0]
    count = writer.random.choice(counts)
    kind = writer.random.choice([U8, U8, writer.owner.real_dtype(), BF16])
    scales = writer.read(kind, (count, shape[1]) if axis == 0 else (shape[0], count))
    return writer.emit("scale_blocks", Type(writer.real(a, scales), shape), a, scales, attr=axis)


def _is_reshaped(shape: tuple[int, int]) -> bool:
    return all(size & (size - 1) == 0 for size in shape)


def evaluate(a: Value, scales: Value, axis: int) -> Value:
    """Each element times the scale of its block."""
    times = a.shape[axis] // scales.shape[axis]
    lo, hi = (np.repeat(end, times, axis) for end in (scales.lo, scales.hi))
    if scales.dtype is U8:
        with np.errstate(all="ignore"):
            powers = [np.where(end == 255, np.nan, np.exp2(end - 127.0)) for end in (lo, hi)]
        factors = where(lo == hi, floats(powers[0]), nothing(lo.shape))
    else:
        factors = Value(math_dtype(scales.dtype), lo, hi)
    return multiply(a if a.dtype.is_float else to(a, F32), factors)
