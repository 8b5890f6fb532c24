"""Numbers of four bits, two in a byte, and scales that blocks of elements share."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

from gizml_tile.dtypes import F32, I8, I32, MASK, U8, DType
from gizml_tile.lifting import axis_of_tile, describe, flag
from gizml_tile.operators import Operators
from gizml_tile.tracing import article, fail, noun

if TYPE_CHECKING:
    from gizml_tile.tile import Tile

# OCP Microscaling Formats (MX) 1.0, section 5.4.1: E8M0 is a power of two's exponent, without a sign or a
# zero; all ones are NaN.
_FRACTION_BITS = 23  # of F32
_NAN_SCALE = 255
_LEAST_SCALE = 1 << _FRACTION_BITS - 1  # the bits of 2^-127, which is subnormal


class Packed(Operators):
    """What tiles of quantised numbers can do, all of it made of operations on bits and of moves."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[builtins.int, builtins.int]: ...

        @property
        def dtype(self) -> DType: ...

        @property
        def T(self) -> Tile: ...

    def unpack4(self, axis: object, *, signed: builtins.bool = True) -> Tile:
        """The numbers of four bits in bytes: I8 of -8 to 7, or U8 of 0 to 15 if not ``signed``.

        Each byte of an I8 or U8 tile holds two that are neighbours along the axis, the first in the lower
        bits: [R, C].unpack4(1) is [R, 2 * C]. Plans tell of it as the ``interleave`` of both halves. A weight
        block is read in bytes, half as long::

            w = p.read(weights, [BK // 2, BN])[k, j].unpack4(0)    # [BK, BN]
        """
        tile, along = self._bytes("unpack4"), axis_of_tile(axis, "unpack4")
        signed = flag(signed, "signed")
        if signed:
            low, high = tile.shl(28).shr(28), tile.shl(24).shr(28)
        else:
            low, high = tile.and_(15), tile.shr(4).and_(15)
        kind = I8 if signed else U8
        return low.to(kind).interleave(high.to(kind), along)  # type: ignore[no-any-return]

    def pack4(self, axis: object) -> Tile:
        """The lower four bits of integers, two neighbours along an axis in a byte: undoes ``unpack4``.

        The first of each two is in the lower bits; the result is U8, half as long along the axis. Numbers
        that four bits do not hold wrap.
        """
        tile: Any = self
        if not self.dtype.is_integer:
            fail(f"pack4 takes integers, found {self._what()}; round and convert it, as in x.round().to(I8)")
        along = axis_of_tile(axis, "pack4")
        if self.shape[along] % 2:
            fail(f"pack4 needs an even size along axis {along}, found {list(self.shape)}; two go in a byte")
        first, second = tile.deinterleave(along)
        return first.and_(15).or_(second.and_(15).shl(4)).to(U8)  # type: ignore[no-any-return]

    def scale_blocks(self, scales: object, axis: object) -> Tile:
        """Each element times the scale of its block along an axis, in F32.

        ``scales`` has the tile's shape but for the axis, along which each of them serves so many neighbours
        as the tile has more: [R, 128] with scales [R, 4] along axis 1 has blocks of 32. They are floats, or
        U8 that are exponents: E8M0, 2^(e - 127), where 255 is NaN. A product of OCP's MX types, FP8 with such
        a scale for 32 elements of k, is exact until its sums::

            x = X[i, k].scale_blocks(XS[i, k], 1).to(BF16)         # [BM, BK], scales [BM, BK // 32]
            w = W[k, j].scale_blocks(WS[k, j], 0).to(BF16)         # [BK, BN], scales [BK // 32, BN]
            acc += x @ w
        """
        from gizml_tile.tile import Tile

        along = axis_of_tile(axis, "scale_blocks")
        if not isinstance(scales, Tile):
            fail(
                f"scale_blocks takes a tile of scales, found {describe(scales)}; by one number multiply with "
                "*"
            )
        if self.dtype is MASK:
            fail(f"scale_blocks does not take {self._what()}; convert it with .to(F32)")
        if not (scales.dtype.is_float or scales.dtype is U8):
            found = article(noun(scales._node))
            fail(f"scale_blocks takes scales of a float type, or U8 for exponents, found {found}")
        size, count = self.shape[along], scales.shape[along]
        if size % count or self.shape[1 - along] != scales.shape[1 - along]:
            fail(
                f"scale_blocks along axis {along} of {list(self.shape)} needs scales of "
                f"{_scales(self.shape, along)}, found {list(scales.shape)}"
            )
        tile: Any = self
        if along == 0:
            return tile.T.scale_blocks(scales.T, 1).T  # type: ignore[no-any-return]
        numbers = tile if tile.dtype.is_float else tile.to(F32)
        powers = _powers(scales) if scales.dtype is U8 else scales
        blocks = numbers.reshape([-1, size // count])
        return blocks.mul(powers.reshape([-1, 1])).reshape(self.shape)  # type: ignore[no-any-return]

    def _bytes(self, what: str) -> Any:
        if self.dtype not in (I8, U8):
            fail(f"{what} takes bytes (I8 or U8), found {self._what()}; read the packed tensor as tile.U8")
        return self


def _scales(shape: tuple[builtins.int, builtins.int], along: builtins.int) -> str:
    """The shapes that scales for blocks of a tile may have."""
    rows, columns = shape
    if along == 0:
        return f"[n, {columns}], where n divides {rows}"
    return f"[{rows}, n], where n divides {columns}"


def _powers(exponents: Any) -> Any:
    """2^(e - 127) of E8M0."""
    bits = exponents.to(I32).shl(_FRACTION_BITS)
    bits = exponents.eq(0).select(_LEAST_SCALE, bits)
    return exponents.eq(_NAN_SCALE).select(math.nan, bits.bitcast(F32))
