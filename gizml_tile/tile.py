"""Tile: an immutable block of values; each method records one operation."""

from __future__ import annotations

from typing import Any

from gizml_tile.along import AlongAxis
from gizml_tile.dtypes import F32, F64, MASK, DType, math_dtype
from gizml_tile.elementwise import binary
from gizml_tile.functions import Functions
from gizml_tile.lifting import (
    constant,
    describe,
    lift,
    number,
    storage_type,
    unread_hint,
)
from gizml_tile.nodes import Const, Node, broadcast, promote
from gizml_tile.packed import Packed
from gizml_tile.shaping import Shaping
from gizml_tile.stochastic import round_randomly
from gizml_tile.tracing import Block, Many, Value, article, fail, is_uniform, noun

_PRECISIONS = ("f32", "tf32")


class Tile(Functions, AlongAxis, Shaping, Packed):
    """A block of values: ``shape`` is (rows, columns), ``dtype`` the storage type of its values.

    Values of float types are computed with in F32, those of integer types in I32, I64, U32 or U64. F64 is
    computed with in F64, also beside narrower floats, which widen exactly; ``to(F32)`` asks for F32 again.
    Wherever a method takes another tile, an index or a Python number does as well; a number beside an F64
    tile keeps all of its bits.
    """

    __slots__ = ("_uniform",)

    _habits = "TILE"
    _made_by = "tiles come from p.zeros([rows, columns]), p.full, p.iota and from blocks that are read"

    def __init__(self, block: Block, node: Node, operands: tuple[Value, ...] = ()) -> None:
        self._block = block
        self._node = node
        self._uniform = is_uniform(node, operands)

    @property
    def dtype(self) -> DType:
        """The storage type: what the values were read as, F32 (or F64) after mathematics, MASK for a mask."""
        assert self._node.dtype is not None
        return self._node.dtype

    def k(self, value: object, dtype: object = F32) -> Tile:
        """A constant [1, 1] tile in this tile's program."""
        kind = storage_type(dtype, "k")
        return self._make("const", (), Const((1, 1), kind, constant(value, kind, "k")))

    def add(self, other: object) -> Tile:
        """self + other, element by element; size 1 stretches to any size."""
        return self._operate("add", self, other)

    def sub(self, other: object) -> Tile:
        """self - other, element by element."""
        return self._operate("sub", self, other)

    def mul(self, other: object) -> Tile:
        """self * other, element by element."""
        return self._operate("mul", self, other)

    def div(self, other: object) -> Tile:
        """self / other for floats, element by element (for integers see ``floordiv`` and ``rem``)."""
        return self._operate("div", self, other)

    def rem(self, other: object) -> Tile:
        """The remainder of integers with the sign of self; 0 where other is 0."""
        return self._operate("rem", self, other)

    def floordiv(self, other: object) -> Tile:
        """self // other of integers, rounded down; 0 where other is 0."""
        return self._operate("floordiv", self, other)

    def floormod(self, other: object) -> Tile:
        """self % other of integers, with the sign of other; 0 where other is 0."""
        return self._operate("floormod", self, other)

    def maximum(self, other: object) -> Tile:
        """The larger of self and other; a NaN loses against a number, -0 is smaller than +0."""
        return self._operate("maximum", self, other)

    def minimum(self, other: object) -> Tile:
        """The smaller of self and other; a NaN loses against a number, -0 is smaller than +0."""
        return self._operate("minimum", self, other)

    def lt(self, other: object) -> Tile:
        """The mask of self < other; a NaN compares false."""
        return self._operate("lt", self, other)

    def le(self, other: object) -> Tile:
        """The mask of self <= other; a NaN compares false."""
        return self._operate("le", self, other)

    def gt(self, other: object) -> Tile:
        """The mask of self > other; a NaN compares false."""
        return self._operate("gt", self, other)

    def ge(self, other: object) -> Tile:
        """The mask of self >= other; a NaN compares false."""
        return self._operate("ge", self, other)

    def eq(self, other: object) -> Tile:
        """The mask of self == other (of masks too); a NaN compares false."""
        return self._operate("eq", self, other)

    def ne(self, other: object) -> Tile:
        """The mask of self != other (of masks too); a NaN compares true."""
        return self._operate("ne", self, other)

    def and_(self, other: object) -> Tile:
        """Both masks, or the bits that two integers share."""
        return self._operate("and_", self, other)

    def or_(self, other: object) -> Tile:
        """Either mask, or the bits of either integer."""
        return self._operate("or_", self, other)

    def xor(self, other: object) -> Tile:
        """The bits in which two integers differ; of masks the same as ``ne``."""
        return self._operate("xor", self, other)

    def shl(self, other: object) -> Tile:
        """Integers moved left by other bits; by less than 0 or all bits or more gives 0."""
        return self._operate("shl", self, other)

    def shr(self, other: object) -> Tile:
        """Integers moved right by other bits, keeping the sign; by less than 0 or all bits or more
        gives 0, or -1 where negative."""
        return self._operate("shr", self, other)

    def not_(self) -> Tile:
        """The mask that is true where self is false, or the inverted bits of integers."""
        if self.dtype.is_float:
            fail(f"not_ takes a mask or integers, found {self._what()}; make a mask with x.eq(0)")
        return self._make("not_", (self,))

    def select(self, yes: object, no: object) -> Any:
        """For a mask: yes where it is true, else no; two equal types keep the type.

        Where the mask compares indices and yes and no are indices, so is the result. Of two tuples each pair
        is chosen from: ``best, place = (x, i) if x > best else (best, place)``.
        """
        from gizml_tile.index import Index

        if isinstance(yes, tuple) and isinstance(no, tuple):
            if len(yes) != len(no):
                fail(f"select chooses from two tuples of one length, found {len(yes)} and {len(no)} values")
            return tuple(self.select(*pair) for pair in zip(yes, no, strict=True))
        for each in (yes, no):
            if isinstance(each, Many):
                return each.repeated(self).select(yes, no)
        if self.dtype is not MASK:
            fail(f"select needs a mask, found {self._what()}; make one by comparing, as in x.gt(0)")
        trace = self._block.trace
        integers = [isinstance(each, Index) or type(number(each)) is int for each in (yes, no)]
        if all(integers) and (self._uniform or isinstance(yes, Index) or isinstance(no, Index)):
            if not self._uniform:
                fail(
                    f"select of two indices needs a comparison of indices, found {self._what()} of data; "
                    "select tiles, as in m.select(i.value(), j.value())"
                )
            from gizml_tile.lifting import lift_index

            nodes = (trace.use(self), lift_index(trace, yes, "select"), lift_index(trace, no, "select"))
            return Index(trace.blocks[-1], trace.record("select", nodes))
        beside = [each.dtype if isinstance(each, Tile) else None for each in (yes, no)]
        hosts = [number(each) for each in (yes, no)]
        if beside == [None, None] and all(isinstance(each, bool) for each in hosts):
            beside = [MASK, MASK]
        mask = trace.use(self)
        left = lift(trace, yes, beside[1], "select")
        right = lift(trace, no, beside[0], "select")
        assert left.dtype is not None and right.dtype is not None
        if left.dtype is not right.dtype and promote(left.dtype, right.dtype) is None:
            fail(
                f"select needs two types that mix, found {article(noun(left))} and {article(noun(right))}; "
                "convert one with .to(dtype)"
            )
        if broadcast(mask.shape, left.shape, right.shape) is None:
            fail(
                f"select needs shapes whose sizes are equal or 1, found mask {list(mask.shape)}, "
                f"{list(left.shape)} and {list(right.shape)}"
            )
        operands = tuple(each for each in (self, yes, no) if isinstance(each, Value))
        node = trace.record("select", (mask, left, right))
        return Tile(trace.blocks[-1], node, operands)

    def neg(self) -> Tile:
        """-self, element by element."""
        return self._arithmetic("neg")

    def abs(self) -> Tile:
        """The absolute value, element by element."""
        if self.dtype.is_unsigned:
            return self._make("to", (self,), math_dtype(self.dtype))
        return self._arithmetic("abs")

    def to(self, dtype: object, *, random: object = None) -> Tile:
        """The values as a store to ``dtype`` and a load give them.

        To a float type rounds once to nearest even (FP8 saturates at 448; F16, BF16 and E5M2 overflow
        to infinity); a float to an integer truncates toward zero and saturates, NaN gives 0; an integer
        to a narrower one wraps; a mask gives 0 and 1.

        With ``random``, a U32 tile as ``p.random`` gives, a float is rounded up or down to a narrower float
        type by chance: of F32's 24 bits k are dropped (16 to BF16, 13 to F16, 20 to FP8, 21 to E5M2), the
        lowest k random bits are added to them in the size of the number, and the k bits cleared. Of F64's 53
        bits 29 more are, of which the 32 uppermost have random bits added. Where the type has its subnormal
        numbers (all but BF16 of F32) the size is cut to units of 2^-k of their spacing first. Overflow is as
        without it, infinities and NaN stay.
        """
        kind = storage_type(dtype, "to")
        if random is not None:
            return round_randomly(self, kind, random)  # type: ignore[no-any-return]
        if kind is MASK and self.dtype is not MASK:
            fail(f"to(MASK) does not take {self._what()}; compare instead, as in x.ne(0)")
        return self._make("to", (self,), kind)

    def dot(self, other: object, *, precision: str = "f32") -> Tile:
        """The matrix product [M, K] x [K, N] in F32, or in I32 for two 8-bit integer tiles.

        Where one of them is F64 it is in F64, within K * 2^-53 of |a| @ |b|.

        ``precision="tf32"`` allows a GPU to round F32 operands to TF32. Units that sum products of FP8 in
        fewer bits than F32 serve where F32 additions of their partial sums keep the error of a long product
        within K * 2^-24 of |a| @ |b|, or where ``p.variant("dot", "group_matrix")`` asks for them.
        """
        if isinstance(other, Many):
            return other.each(lambda each: self.dot(each, precision=precision))  # type: ignore[no-any-return]
        if not isinstance(other, Tile):
            hint = "; use * with a number" if number(other) is not None else unread_hint(other)
            fail(f"dot needs two tiles, found {describe(self)} and {describe(other)}{hint}")
        if not isinstance(precision, str) or precision not in _PRECISIONS:
            fail(f'the precision of dot is "f32" or "tf32", found {describe(precision)}')
        trace = self._block.trace
        a, b = trace.use(self), trace.use(other)
        floats = self.dtype.is_float and other.dtype.is_float
        bytes_ = all(each.is_integer and each.bits == 8 for each in (self.dtype, other.dtype))
        if not floats and not bytes_:
            fail(
                f"dot takes two float tiles or two 8-bit integer tiles, found {article(noun(a))} and "
                f"{article(noun(b))}; convert with .to(dtype)"
            )
        if a.shape[1] != b.shape[0]:
            hint = (
                "transpose the second: other.T"
                if a.shape[1] == b.shape[1]
                else f"read the second in blocks of [{a.shape[1]}, {b.shape[1]}]"
            )
            fail(
                f"dot needs [.., {a.shape[1]}] x [{a.shape[1]}, ..], found {list(a.shape)} x "
                f"{list(b.shape)}; {hint}"
            )
        if F64 in (a.dtype, b.dtype):
            # What is narrower widens exactly.
            a, b = (each if each.dtype is F64 else trace.record("to", (each,), F64) for each in (a, b))
        return Tile(trace.blocks[-1], trace.record("dot", (a, b), precision))

    def __matmul__(self, other: object) -> Tile:
        return self.dot(other)

    def __rmatmul__(self, other: object) -> Tile:
        hint = "; use * with a number" if number(other) is not None else unread_hint(other)
        fail(f"dot needs two tiles, found {describe(other)} and {self._what()}{hint}")

    def __neg__(self) -> Tile:
        return self.neg()

    def __abs__(self) -> Tile:
        return self.abs()

    def __invert__(self) -> Tile:
        return self.not_()

    def __repr__(self) -> str:
        return f"<Tile {list(self.shape)} {self.dtype}>"

    def _make(self, op: str, operands: tuple[Tile, ...], attr: Any = None) -> Tile:
        trace = self._block.trace
        if not operands:
            trace.use(self)
        node = trace.record(op, tuple([trace.use(each) for each in operands]), attr)
        return Tile(trace.blocks[-1], node, operands)

    def _arithmetic(self, op: str) -> Tile:
        if self.dtype is MASK:
            fail(f"{op} does not take {self._what()}; masks take and_, or_, not_, or .to(F32)")
        return self._make(op, (self,))

    def _operate(self, op: str, left: object, right: object, attr: Any = None) -> Tile:
        if isinstance(right, Many):
            return right.each(lambda each: self._operate(op, left, each, attr))  # type: ignore[no-any-return]
        trace = self._block.trace
        node = binary(trace, op, left, right, attr)
        operands = tuple(each for each in (left, right) if isinstance(each, Value))
        return Tile(trace.blocks[-1], node, operands)
