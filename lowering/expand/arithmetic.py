"""The shared mathematics as instructions of the kernel IR."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import F32, F64, I32, I64, DType
from gizml_tile.lowering.expand.chunks import extreme
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.math import clamp_by_select
from gizml_tile.target import Target

# The bits of 1.0.
_ONE_BITS = 0x3F800000


class KernelArithmetic:
    """The operations of `math.Arithmetic` on F32 and I32 values of any count, appended to a builder.

    With F64 as the type of floats, on those and I64.
    """

    def __init__(self, build: Builder, target: Target, dtype: DType = F32) -> None:
        self._build = build
        self._target = target
        self._floats, self._bits = dtype, I64 if dtype is F64 else I32

    def constant(self, value: float) -> Value:
        return self._build.constant(value, self._floats)

    def add(self, a: Value, b: Value) -> Value:
        return self._build.map("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self._build.map("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self._build.map("mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        return self._build.map("div", a, b)

    def reciprocal(self, a: Value) -> Value:
        one = self.constant(1.0)
        if self._floats is F64 or not self._target.can("near_reciprocal"):
            return self.div(one, a)
        near = self._build.map("reciprocal", a)
        return self.fma(near, self.fma(self.negate(a), near, one), near)

    def sqrt(self, a: Value) -> Value:
        return self._build.map("sqrt", a)

    def negate(self, a: Value) -> Value:
        return self._build.map("neg", a)

    def absolute(self, a: Value) -> Value:
        return self._build.map("abs", a)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self._build.map("fma", a, b, c)

    def less(self, a: Value, b: Value) -> Value:
        return self._build.map("lt", a, b)

    def greater(self, a: Value, b: Value) -> Value:
        return self._build.map("gt", a, b)

    def equal(self, a: Value, b: Value) -> Value:
        return self._build.map("eq", a, b)

    def select(self, mask: Value, yes: Value, no: Value) -> Value:
        return self._build.map("select", mask, yes, no)

    def bits_constant(self, value: int) -> Value:
        return self._build.constant(value, self._bits)

    def as_bits(self, a: Value) -> Value:
        return self._build.bitcast(a, self._bits)

    def from_bits(self, bits: Value) -> Value:
        return self._build.bitcast(bits, self._floats)

    def bits_add(self, a: Value, b: Value) -> Value:
        return self._build.map("add", a, b)

    def bits_sub(self, a: Value, b: Value) -> Value:
        return self._build.map("sub", a, b)

    def bits_and(self, a: Value, b: Value) -> Value:
        return self._build.map("and", a, b)

    def bits_or(self, a: Value, b: Value) -> Value:
        return self._build.map("or", a, b)

    def bits_xor(self, a: Value, b: Value) -> Value:
        return self._build.map("xor", a, b)

    def bits_mul(self, a: Value, b: Value) -> Value:
        return self._build.map("mul", a, b)

    def bits_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        return self._build.map("high", a, b), self._build.map("mul", a, b)

    def shift_left(self, a: Value, count: int) -> Value:
        return self._build.map("shl", a, self.bits_constant(count))

    def shift_left_by(self, a: Value, count: Value) -> Value:
        return self._build.map("shl", a, count)

    def shift_right(self, a: Value, count: int) -> Value:
        return self._build.map("shr", a, self.bits_constant(count))

    def shift_right_logical(self, a: Value, count: int) -> Value:
        return self._build.map("ushr", a, self.bits_constant(count))

    def shift_right_logical_by(self, a: Value, count: Value) -> Value:
        return self._build.map("ushr", a, count)

    def bits_less(self, a: Value, b: Value) -> Value:
        return self._build.map("lt", a, b)

    def bits_select(self, mask: Value, yes: Value, no: Value) -> Value:
        return self._build.map("select", mask, yes, no)

    def bits_to_float(self, bits: Value) -> Value:
        return self._build.convert(bits, self._floats)

    def float_to_bits(self, a: Value) -> Value:
        return self._build.convert(a, self._bits)

    def at_most(self, a: Value, high: float) -> Value:
        return self._build.map("min", a, self.constant(high))

    def clamp(self, a: Value, low: float, high: float) -> Value:
        if self._floats is F64 or not self._target.can("nan_minimum"):
            return clamp_by_select(self, a, low, high)
        below = self._build.map("minimum", a, self.constant(high))
        return self._build.map("maximum", below, self.constant(low))

    def scale(self, a: Value, exponent: Value, exponent_bits: Value) -> Value:
        # Two products as in `scale_in_two_steps`: adding to the exponent's bits would save one, but `a` may
        # be 0, and half of the exponent can take what is as small as 2^-40 below the normal numbers. The
        # factors' bits are a shift and a sum, in this order one instruction of many GPUs.
        half = self.shift_right(exponent_bits, 1)
        one = self.bits_constant(_ONE_BITS)
        factors = [
            self.from_bits(self.bits_add(self.shift_left(part, 23), one))
            for part in (half, self.bits_sub(exponent_bits, half))
        ]
        return self.mul(self.mul(a, factors[0]), factors[1])

    def seldom(self, mask: Value, usual: Value, rare: Callable[[], Value]) -> Value:
        build = self._build
        count = max(mask.count, usual.count)
        (result,) = build.branch(
            extreme(build, "or", mask),
            lambda: [build.spread(build.select(mask, rare(), usual), count)],
            lambda: [build.spread(usual, count)],
            apart=True,
        )
        return result
