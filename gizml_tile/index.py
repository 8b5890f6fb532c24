"""Index: a uniform 64-bit integer, such as a program id, a size or a loop counter."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, NoReturn

from gizml_tile.dtypes import F32, MATHEMATICAL
from gizml_tile.lifting import describe, integer, lift_index, number, storage_type, unread_hint
from gizml_tile.nodes import COMPARISONS, Node
from gizml_tile.operators import Operators
from gizml_tile.tracing import Block, Value, fail

if TYPE_CHECKING:
    from gizml_tile.tile import Tile

_DIVISIONS = frozenset({"div", "rem", "floordiv", "floormod"})
_BITWISE = frozenset({"and_", "or_", "xor", "shl", "shr"})


class Index(Operators):
    """A uniform 64-bit integer that wraps; methods and operators take Python integers as well.

    Beside a tile it becomes a tile.
    """

    __slots__ = ()

    _example = "i"
    _habits = "INDEX"
    _made_by = "p.int(n) makes an index, and p.id(axis) and loops give some"

    def __init__(self, block: Block, node: Node) -> None:
        self._block = block
        self._node = node

    def k(self, value: object) -> Index:
        """An integer constant in this index's program."""
        trace = self._block.trace
        trace.use(self)
        return Index(trace.blocks[-1], trace.record("index", (), integer(value, "k")))

    def add(self, other: object) -> Any:
        """self + other."""
        return self._operate("add", self, other)

    def sub(self, other: object) -> Any:
        """self - other."""
        return self._operate("sub", self, other)

    def mul(self, other: object) -> Any:
        """self * other."""
        return self._operate("mul", self, other)

    def div(self, other: object) -> Any:
        """self / other truncated toward zero; 0 where other is 0 at run time."""
        return self._operate("div", self, other)

    def rem(self, other: object) -> Any:
        """The remainder of ``div``, with the sign of self; 0 where other is 0 at run time."""
        return self._operate("rem", self, other)

    def floordiv(self, other: object) -> Any:
        """self // other, rounded down; 0 where other is 0 at run time."""
        return self._operate("floordiv", self, other)

    def floormod(self, other: object) -> Any:
        """self % other, with the sign of other; 0 where other is 0 at run time."""
        return self._operate("floormod", self, other)

    def minimum(self, other: object) -> Any:
        """The smaller of self and other."""
        return self._operate("minimum", self, other)

    def maximum(self, other: object) -> Any:
        """The larger of self and other."""
        return self._operate("maximum", self, other)

    def lt(self, other: object) -> Tile:
        """The [1, 1] mask of self < other, which a branch may take."""
        return self._compare("lt", other)

    def le(self, other: object) -> Tile:
        """The [1, 1] mask of self <= other."""
        return self._compare("le", other)

    def gt(self, other: object) -> Tile:
        """The [1, 1] mask of self > other."""
        return self._compare("gt", other)

    def ge(self, other: object) -> Tile:
        """The [1, 1] mask of self >= other."""
        return self._compare("ge", other)

    def eq(self, other: object) -> Tile:
        """The [1, 1] mask of self == other."""
        return self._compare("eq", other)

    def ne(self, other: object) -> Tile:
        """The [1, 1] mask of self != other."""
        return self._compare("ne", other)

    def neg(self) -> Index:
        """-self."""
        return self._unary("neg")

    def abs(self) -> Index:
        """The absolute value."""
        return self._unary("abs")

    def pow(self, exponent: object) -> Index:
        """self ** n for n of 0 to 8, as products."""
        host = number(exponent)
        if type(host) is not int or not 0 <= host <= 8:
            fail(
                f"** of an index takes an integer exponent of 0 to 8, found {describe(exponent)}; "
                "for exp and log make a tile with i.value()"
            )
        if host == 0:
            return self.k(1)
        result: Index | None = None
        square = self
        while host:
            if host & 1:
                result = square if result is None else result.mul(square)
            host >>= 1
            if host:
                square = square.mul(square)
        assert result is not None
        return result

    def value(self, dtype: object = F32) -> Tile:
        """The index as a [1, 1] tile: F32 (exact up to 2^24), F64 (2^53), I64, or I32, U32 and U64 (wrap)."""
        from gizml_tile.tile import Tile

        kind = storage_type(dtype, "value")
        if kind not in MATHEMATICAL:
            known = "F32, F64, I32, I64, U32 or U64"
            fail(f"value gives {known}, found {kind}; convert with .value().to({kind})")
        trace = self._block.trace
        return Tile(trace.blocks[-1], trace.record("value", (trace.use(self),), kind))

    def to(self, dtype: object) -> Tile:
        """Not a method of indices: the error names ``value``."""
        fail(f"an index becomes a tile with i.value({describe(dtype)})")

    def select(self, yes: object, no: object) -> NoReturn:
        """Not a method of indices: the error names comparisons."""
        fail("select needs a mask, found an index; make one by comparing, as in i.lt(n)")

    def and_(self, other: object) -> NoReturn:
        """Not a method of indices: the error names the way out."""
        self._no_bits("and_")

    def or_(self, other: object) -> NoReturn:
        """Not a method of indices: the error names the way out."""
        self._no_bits("or_")

    def not_(self) -> NoReturn:
        """Not a method of indices: the error names the way out."""
        self._no_bits("not_")

    def __neg__(self) -> Index:
        return self.neg()

    def __abs__(self) -> Index:
        return self.abs()

    def __invert__(self) -> NoReturn:
        self._no_bits("~")

    def __matmul__(self, other: object) -> NoReturn:
        fail(f"dot needs two tiles, found an index and {describe(other)}")

    def __rmatmul__(self, other: object) -> NoReturn:
        fail(f"dot needs two tiles, found {describe(other)} and an index")

    def __pow__(self, exponent: object) -> Index:
        return self.pow(exponent)

    def __rpow__(self, base: object) -> NoReturn:
        fail(f"{describe(base)} ** index: make a tile with i.value() and use exp2 or exp")

    def __repr__(self) -> str:
        return "<Index>"

    def _unary(self, op: str) -> Index:
        trace = self._block.trace
        return Index(trace.blocks[-1], trace.record(op, (trace.use(self),)))

    def _compare(self, op: str, other: object) -> Tile:
        result: Tile = self._operate(op, self, other)
        return result

    def _no_bits(self, op: str) -> NoReturn:
        fail(
            f"{op} takes masks or integer tiles, found an index; compare it (i.lt(n)) for a mask, or make an "
            "integer tile with i.value(I64)"
        )

    def _operate(self, op: str, left: object, right: object) -> Any:
        from gizml_tile.tile import Tile

        other = right if left is self else left
        trace = self._block.trace
        if isinstance(other, Tile):
            return other._operate(op, left, right)
        if op == "truediv":
            fail(
                "/ does not take two indices; write // for the rounded-down quotient, or i.value() / x "
                "for a float"
            )
        if op in _BITWISE:
            self._no_bits(op)
        host = None if isinstance(other, Value) else number(other)
        if isinstance(host, float):
            fail(f"{op} of an index and {host!r}: indices are integers; make a tile with i.value()")
        if op in _DIVISIONS and other is right and host == 0:
            fail(f"{op} by 0 has no result; divide by another number")
        if host is None and not isinstance(other, Value):
            hint = "; to test for None write `is None`" if other is None else unread_hint(other)
            fail(f"{op} takes an index, an integer or a tile, found {describe(other)}{hint}")
        if isinstance(host, builtins.bool):
            other = int(host)
            left, right = (left, other) if left is self else (other, right)
        a = lift_index(trace, left, op)
        b = lift_index(trace, right, op)
        node = trace.record(op, (a, b))
        if op in COMPARISONS:
            return Tile(trace.blocks[-1], node)
        return Index(trace.blocks[-1], node)
