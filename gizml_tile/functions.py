"""The functions of numbers: each element of the result is made of one element of each operand."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from gizml_tile.dtypes import F32, F64, I32, I64, MASK, DType, integer_range, math_dtype
from gizml_tile.lifting import describe, flag, lift, number, storage_type, unread_hint
from gizml_tile.nodes import APPROXIMABLE, Const, broadcast
from gizml_tile.operators import Operators
from gizml_tile.tracing import Many, Value, fail

if TYPE_CHECKING:
    from gizml_tile.tile import Tile


class Functions(Operators):
    """Functions of tiles, element by element.

    Those of floats compute in F32 and give F32, the same bits on every device. "Within 3 ulp" holds for
    every argument. Where a function takes ``approx=True``, or after ``p.approx()``, a GPU may use its own
    function instead, whose error is said; elsewhere that changes nothing.

    Of F64 they compute in F64 and give F64: all of them are there, within 3 ulp of that (``gelu`` and
    ``gelu_erf`` too) and never approximately.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[builtins.int, builtins.int]: ...

        @property
        def dtype(self) -> DType: ...

        def _make(self, op: str, operands: tuple[Any, ...], attr: Any = None) -> Tile: ...

        def _operate(self, op: str, left: object, right: object, attr: Any = None) -> Any: ...

    def exp(self, *, approx: builtins.bool = False) -> Tile:
        """e to the power of self, within 3 ulp; approximately within about 2 + |x| ulp."""
        return self._function("exp", approx)

    def exp2(self, *, approx: builtins.bool = False) -> Tile:
        """2 to the power of self, within 3 ulp; approximately within 2 ulp where it is no subnormal."""
        return self._function("exp2", approx)

    def expm1(self) -> Tile:
        """e^x - 1, within 3 ulp also where x is nearly 0."""
        return self._function("expm1")

    def log(self, *, approx: builtins.bool = False) -> Tile:
        """The natural logarithm, within 3 ulp; approximately also, but for x from 1/2 to 2 within 2^-22."""
        return self._function("log", approx)

    def log2(self, *, approx: builtins.bool = False) -> Tile:
        """The logarithm to base 2, within 3 ulp; approximately also, but for x from 1/2 to 2 within 2^-22."""
        return self._function("log2", approx)

    def log1p(self) -> Tile:
        """The natural logarithm of 1 + x, within 3 ulp also where x is nearly 0."""
        return self._function("log1p")

    def sin(self, *, approx: builtins.bool = False) -> Tile:
        """The sine, within 3 ulp of every float; approximately within 2^-20 + 2^-22 |x|."""
        return self._function("sin", approx)

    def cos(self, *, approx: builtins.bool = False) -> Tile:
        """The cosine, within 3 ulp of every float; approximately within 2^-20 + 2^-22 |x|."""
        return self._function("cos", approx)

    def tanh(self, *, approx: builtins.bool = False) -> Tile:
        """The hyperbolic tangent, within 3 ulp; approximately within 2^-11 of it."""
        return self._function("tanh", approx)

    def sigmoid(self, *, approx: builtins.bool = False) -> Tile:
        """1 / (1 + e^-x), within 3 ulp; approximately within about 4 + |x| ulp."""
        return self._function("sigmoid", approx)

    def silu(self, *, approx: builtins.bool = False) -> Tile:
        """x / (1 + e^-x), within 3 ulp, -0 for -infinity; approximately within about 5 + |x| ulp."""
        return self._function("silu", approx)

    def softplus(self) -> Tile:
        """log(1 + e^x), within 3 ulp."""
        return self._function("softplus")

    def erf(self) -> Tile:
        """The error function, within 3 ulp."""
        return self._function("erf")

    def gelu(self, *, approx: builtins.bool = False) -> Tile:
        """GELU in its tanh form, within 3.5 ulp; approximately within about 5 + 4 x^2 ulp."""
        return self._function("gelu", approx)

    def gelu_erf(self) -> Tile:
        """GELU in its erf form, within 3.5 ulp."""
        return self._function("gelu_erf")

    def relu(self) -> Tile:
        """The larger of self and 0; 0 for a NaN."""
        return self._function("relu")

    def sqrt(self) -> Tile:
        """The square root, correctly rounded."""
        return self._function("sqrt")

    def rsqrt(self) -> Tile:
        """1 / sqrt(x): a division of the rounded root."""
        return self._function("rsqrt")

    def reciprocal(self, *, approx: builtins.bool = False) -> Tile:
        """1 / x, correctly rounded; approximately within 1 ulp where neither is subnormal."""
        return self._function("reciprocal", approx)

    def floor(self) -> Tile:
        """Rounded down to an integer, as a float."""
        return self._function("floor")

    def ceil(self) -> Tile:
        """Rounded up to an integer, as a float."""
        return self._function("ceil")

    def trunc(self) -> Tile:
        """Rounded toward zero to an integer, as a float."""
        return self._function("trunc")

    def round(self) -> Tile:
        """Rounded to the nearest integer, as a float; of two the even one, as Python's ``round``."""
        return self._function("round")

    def sign(self) -> Tile:
        """1 or -1; a zero (with its sign) and a NaN stay."""
        if self.dtype is MASK:
            fail(f"sign does not take {self._what()}; convert it with .to(F32)")
        negative = self._operate("lt", self, 0).select(-1, self)
        return self._operate("gt", self, 0).select(1, negative)  # type: ignore[no-any-return]

    def clamp(self, low: object = None, high: object = None) -> Tile:
        """``maximum(low)``, then ``minimum(high)``; None leaves one out. A NaN gives low, or else high."""
        if low is None and high is None:
            fail("clamp takes a lower or an upper bound, found neither; write x.clamp(0, 1)")
        for bound in (low, high):
            if bound is not None and not isinstance(bound, Value | Many) and number(bound) is None:
                fail(
                    f"the bounds of clamp are tiles, indices and numbers, found "
                    f"{describe(bound)}{unread_hint(bound)}"
                )
        above: Any = self if low is None else self._operate("maximum", self, low)
        return above if high is None else above.minimum(high)  # type: ignore[no-any-return]

    def mod(self, other: object) -> Tile:
        """self % other as in Python, with the sign of other.

        Of floats the remainder is exact; where the signs differ it is the rounded sum with other. NaN where
        self is infinite or other is 0; of integers 0 where other is 0.
        """
        return self._operate("floormod", self, other)  # type: ignore[no-any-return]

    def fma(self, factor: object, addend: object) -> Tile:
        """self * factor + addend of floats with one rounding."""
        from gizml_tile.tile import Tile

        trace = self._block.trace
        kinds = [each.dtype for each in (self, factor, addend) if isinstance(each, Tile)]
        beside = F64 if F64 in kinds else self.dtype
        nodes = [trace.use(self), *(lift(trace, each, beside, "fma") for each in (factor, addend))]
        found = [node.dtype for node in nodes]
        if not all(dtype is not None and dtype.is_float for dtype in found):
            fail(
                f"fma takes floats, found {', '.join(map(describe, (self, factor, addend)))}; for integers "
                "write a * b + c"
            )
        if broadcast(*(node.shape for node in nodes)) is None:
            shapes = ", ".join(str(list(node.shape)) for node in nodes)
            fail(f"fma needs sizes that are equal or 1, found {shapes}; take blocks of one shape")
        operands = tuple(each for each in (self, factor, addend) if isinstance(each, Value))
        return Tile(trace.blocks[-1], trace.record("fma", tuple(nodes), (False, False)), operands)

    def pow(self, exponent: object, *, approx: builtins.bool = False) -> Tile:
        """self ** exponent: products for integers of -8 to 8, sqrt for 0.5, rsqrt for -0.5, else C's ``pow``.

        That is within 3 ulp for all pairs of floats. A negative base has powers with integers alone, NaN with
        others; 1 ** y and x ** 0 are 1, also where the other is NaN. Approximately it is within about
        2 + 2 |y log2(x)| ulp, with x from 1/2 to 2 about 3 |y| more. Of integers exponents are 0 to 8.
        """
        if self.dtype is MASK:
            fail(f"** does not take {self._what()}; convert it with .to(F32)")
        host = number(exponent)
        if isinstance(host, float) and host.is_integer():
            host = int(host)
        if type(host) is int and -8 <= host <= 8:
            return self._integer_power(host)
        if not self.dtype.is_float:
            fail(
                f"** of {self._what()} takes an integer exponent of 0 to 8, found {describe(exponent)}; "
                "convert it with .to(F32)"
            )
        if host == 0.5:
            return self.sqrt()
        if host == -0.5:
            return self.rsqrt()
        return self._power(self, exponent, approx)

    def _power(self, base: object, exponent: object, approx: builtins.bool = False) -> Tile:
        approximate = self._block.trace.approximation(flag(approx, "approx"))
        doubled = F64 in (getattr(each, "dtype", None) for each in (base, exponent))
        return self._operate("pow", base, exponent, approximate and not doubled)  # type: ignore[no-any-return]

    def _integer_power(self, exponent: int) -> Tile:
        kind = math_dtype(self.dtype)
        if exponent < 0 and not kind.is_float:
            fail(f"** of {self._what()} takes no negative exponent; convert it with .to(F32)")
        if exponent == 0:
            return self._make("const", (), Const(self.shape, kind, 1.0 if kind.is_float else 1))
        power = _products(self, builtins.abs(exponent))
        return self._operate("div", 1.0, power) if exponent < 0 else power  # type: ignore[no-any-return]

    def copysign(self, sign: object) -> Tile:
        """The size of self with the sign of another float, also of a zero."""
        from gizml_tile.tile import Tile

        size, trace = self._float("copysign"), self._block.trace
        other = Tile(trace.blocks[-1], lift(trace, sign, self.dtype, "copysign"))._float("copysign")
        kind, whole = (F64, I64) if F64 in (size.dtype, other.dtype) else (F32, I32)
        highest = integer_range(whole)[0]
        bits = size.to(kind).bitcast(whole).and_(~highest)
        signs = other.to(kind).bitcast(whole).and_(highest)
        return bits.or_(signs).bitcast(kind)  # type: ignore[no-any-return]

    def isnan(self) -> Tile:
        """The mask of what is no number."""
        x = self._float("isnan")
        return x.ne(x)  # type: ignore[no-any-return]

    def isinf(self) -> Tile:
        """The mask of both infinities."""
        return self._float("isinf").abs().eq(float("inf"))  # type: ignore[no-any-return]

    def isfinite(self) -> Tile:
        """The mask of numbers that are not infinite."""
        return self._float("isfinite").abs().lt(float("inf"))  # type: ignore[no-any-return]

    def popcount(self) -> Tile:
        """How many bits of integers are set, of those that mathematics has: 32, or 64 of I64 and U64."""
        return self._integers("popcount")

    def clz(self) -> Tile:
        """How many zero bits integers begin with, of 32, or 64 of I64 and U64; of 0 all."""
        return self._integers("clz")

    def mulhi(self, other: object, *, unsigned: builtins.bool = False) -> Tile:
        """The upper 32 bits of the product of integers of 32 bits, with their signs or as ``unsigned``.

        U32 have no signs anyway.
        """
        return self._operate("mulhi", self, other, flag(unsigned, "unsigned"))  # type: ignore[no-any-return]

    def bitcast(self, dtype: object) -> Tile:
        """The same bits as another type of the same width: F32, I32 and U32, F16, BF16, I16 and
        U16, FP8, E5M2, I8 and U8, F64, I64 and U64.

        Of a NaN they are those of some NaN.
        """
        kind = storage_type(dtype, "bitcast")
        if MASK in (kind, self.dtype) or kind.bits != self.dtype.bits:
            fail(
                f"bitcast takes types of the same width, found {self._what()} to {kind}; "
                "convert values with .to(dtype)"
            )
        return self._make("bitcast", (self,), kind)

    def __pow__(self, exponent: object, modulus: object = None) -> Tile:
        if modulus is not None:
            fail(f"pow() of {self._what()} takes no third argument; write x.pow(n).mod(m)")
        return self.pow(exponent)

    def __rpow__(self, base: object) -> Tile:
        if not self.dtype.is_float:
            fail(f"** takes no exponents in {self._what()}; convert it with .to(F32)")
        return self.exp2() if number(base) == 2 else self._power(base, self)

    def __round__(self, digits: object = None) -> Tile:
        if digits is not None:
            fail(f"round() of {self._what()} takes no digits; write (x * 10 ** n).round() / 10 ** n")
        return self.round()

    def __floor__(self) -> Tile:
        return self.floor()

    def __ceil__(self) -> Tile:
        return self.ceil()

    def __trunc__(self) -> Tile:
        return self.trunc()

    def _function(self, op: str, approx: builtins.bool = False) -> Tile:
        self._float(op)
        if op in APPROXIMABLE:
            approximate = self._block.trace.approximation(flag(approx, "approx"))
            return self._make(op, (self,), approximate and self.dtype is not F64)
        return self._make(op, (self,))

    def _integers(self, op: str) -> Tile:
        if not self.dtype.is_integer:
            fail(f"{op} takes integers, found {self._what()}; write x.bitcast(I32) for a float's bits")
        return self._make(op, (self,))

    def _float(self, op: str) -> Any:
        """The tile itself in F32, if it is of a float type."""
        if not self.dtype.is_float:
            way = ".maximum(0)" if op == "relu" and self.dtype.is_integer else ".to(F32)"
            fail(f"{op} takes floats, found {self._what()}; write x{way}")
        return self


def _products(base: Any, exponent: int) -> Any:
    """Repeated squaring, the low bit of the exponent first."""
    result, square = None, base
    while True:
        if exponent & 1:
            result = square if result is None else result.mul(square)
        exponent >>= 1
        if not exponent:
            break
        square = square.mul(square)
    assert result is not None
    kind = math_dtype(result.dtype)
    return result if result.dtype is kind else result.to(kind)
