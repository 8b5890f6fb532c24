"""How an operand lies in workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import DType
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.planning.plan import SharedTile

_CHUNK_BYTES = 16
_LINE_BYTES = 128  # what all banks hold once: 8 chunks
# Which of a line's three place bits a row's bits flip, by the chunks of a row, over and over. What comes
# first is where the rows of one line lie anyway. Any three neighbouring row bits reach 8 places, any two
# of the first three reach 4 pairs of neighbouring places or, in the long rows of a line, 4 places.
_FLIPS = {1: (1, 2, 4), 2: (2, 4, 1), 4: (4, 2, 1), 8: (2, 4, 1)}
# Further bits would keep the repeats of a fragment from being constants in addresses.
_SWIZZLED_BITS = 4


def shared_tile(dtype: DType, shape: tuple[int, int], fast_axis: int) -> SharedTile:
    """A tile in workgroup memory, contiguous along ``fast_axis`` in 16-byte chunks swizzled by row.

    A row is what lies along the fast axis. Each line of 128 bytes has its 8 chunks at places that depend
    on the row, by exclusive or, so without bank conflicts are: writes of whole rows in 16-byte pieces;
    reads of one chunk of 8 rows (8x8 matrices, transposed or not); reads of two chunks of 4 rows, and
    of one chunk of every second or fourth row, as in fragments whose elements are gathered one by one.
    """
    fast, slow = shape[fast_axis], shape[1 - fast_axis]
    row_bytes = fast * dtype.bytes
    flips = _flips(slow, row_bytes)
    chunk = _CHUNK_BYTES // dtype.bytes
    fast_bases = tuple(1 << bit for bit in range(bit_length(fast)))
    slow_bases = tuple((fast << bit) + moved * chunk for bit, moved in enumerate(flips))
    rows, columns = (slow_bases, fast_bases) if fast_axis == 1 else (fast_bases, slow_bases)
    what = "row" if fast_axis == 1 else "column"
    swizzled = f", 16-byte chunks swizzled by {what}" if any(flips) else ""
    return SharedTile(dtype, shape, rows, columns, f"{what}s of {row_bytes} bytes{swizzled}")


def _flips(rows: int, row_bytes: int) -> list[int]:
    """Which place bits each bit of a row's number flips; none for the rows of one line."""
    bits = range(bit_length(rows))
    if row_bytes < _CHUNK_BYTES:
        return [0 for _ in bits]
    chunks = min(row_bytes, _LINE_BYTES) // _CHUNK_BYTES
    first = bit_length(_LINE_BYTES // _CHUNK_BYTES // chunks)
    return [_FLIPS[chunks][bit % 3] if first <= bit < _SWIZZLED_BITS else 0 for bit in bits]
