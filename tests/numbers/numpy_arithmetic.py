"""The operations of the shared mathematics in NumPy, for any shape: what every device has to equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gizml_tile.lowering.math import clamp_by_select, scale_in_two_steps

Array = NDArray[np.generic]


class NumpyArithmetic:
    """float32 arrays, int32 arrays for their bits, bool arrays for masks; broadcasting as NumPy does."""

    def constant(self, value: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(value, np.float32)

    def add(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.add(a, b)

    def sub(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.subtract(a, b)

    def mul(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.multiply(a, b)

    def div(self, a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.divide(a, b)

    def reciprocal(self, a: Array) -> Array:
        return self.div(self.constant(1.0), a)

    def sqrt(self, a: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.sqrt(a)

    def negate(self, a: Array) -> Array:
        return np.negative(a)

    def absolute(self, a: Array) -> Array:
        return np.abs(a)

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        return fma(a, b, c)

    def less(self, a: Array, b: Array) -> Array:
        return np.less(a, b)

    def greater(self, a: Array, b: Array) -> Array:
        return np.greater(a, b)

    def equal(self, a: Array, b: Array) -> Array:
        return np.equal(a, b)

    def select(self, mask: Array, yes: Array, no: Array) -> Array:
        return np.where(mask, yes, no)

    def bits_constant(self, value: int) -> Array:
        return np.asarray(value, np.int32)

    def as_bits(self, a: Array) -> Array:
        return np.ascontiguousarray(a).view(np.int32)

    def from_bits(self, bits: Array) -> Array:
        return np.ascontiguousarray(bits).view(np.float32)

    def bits_add(self, a: Array, b: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.add(a, b)

    def bits_sub(self, a: Array, b: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.subtract(a, b)

    def bits_and(self, a: Array, b: Array) -> Array:
        return np.bitwise_and(a, b)

    def bits_or(self, a: Array, b: Array) -> Array:
        return np.bitwise_or(a, b)

    def bits_xor(self, a: Array, b: Array) -> Array:
        return np.bitwise_xor(a, b)

    def bits_mul(self, a: Array, b: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.multiply(a, b)

    def bits_product(self, a: Array, b: Array) -> tuple[Array, Array]:
        product = np.asarray(np.asarray(a).view(np.uint32).astype(np.uint64) * np.asarray(b).view(np.uint32))
        upper, lower = (each.astype(np.uint32) for each in (product >> np.uint64(32), product))
        return np.asarray(upper).view(np.int32), np.asarray(lower).view(np.int32)

    def shift_left(self, a: Array, count: int) -> Array:
        return np.left_shift(a, np.int32(count))

    def shift_left_by(self, a: Array, count: Array) -> Array:
        return np.left_shift(a, count)

    def shift_right(self, a: Array, count: int) -> Array:
        return np.right_shift(a, np.int32(count))

    def shift_right_logical(self, a: Array, count: int) -> Array:
        return np.right_shift(np.asarray(a).view(np.uint32), np.uint32(count)).view(np.int32)

    def shift_right_logical_by(self, a: Array, count: Array) -> Array:
        return np.right_shift(np.asarray(a).view(np.uint32), np.asarray(count).view(np.uint32)).view(np.int32)

    def bits_less(self, a: Array, b: Array) -> Array:
        return np.less(a, b)

    def bits_select(self, mask: Array, yes: Array, no: Array) -> Array:
        return np.where(mask, yes, no)

    def bits_to_float(self, bits: Array) -> Array:
        return np.asarray(bits).astype(np.float32)

    def float_to_bits(self, a: Array) -> Array:
        return np.asarray(a).astype(np.int32)

    def at_most(self, a: Array, high: float) -> Array:
        return np.fmin(a, np.float32(high))

    def clamp(self, a: Array, low: float, high: float) -> Array:
        return clamp_by_select(self, a, low, high)

    def scale(self, a: Array, exponent: Array, exponent_bits: Array) -> Array:
        return scale_in_two_steps(self, a, exponent_bits)

    def seldom(self, mask: Array, usual: Array, rare: Callable[[], Array]) -> Array:
        return np.where(mask, rare(), usual)


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of float32 arrays with one rounding.

    The product is exact in float64. The sum is rounded to odd there (where it is inexact its last bit
    is set), which makes the second rounding, to float32, the only one that counts.
    """
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        addend = np.asarray(c, np.float64)
        total = np.atleast_1d(product + addend)
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        even = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
        bits += np.where(even, np.where((error > 0) == (total > 0), 1, -1), 0)
        return total.astype(np.float32).reshape(np.broadcast_shapes(product.shape, addend.shape))
