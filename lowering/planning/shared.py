"""How an operand lies in workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import DType
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.planning.plan import SharedTile

_CHUNK_BYTES = 16
_BANK_BYTES = 128
# So many bits of a row's number move its chunks: three neighbouring bits of the first four always reach
# different banks, which 8 rows in a row need, and every second or fourth row.
_SWIZZLED_BITS = 4


def shared_tile(dtype: DType, shape: tuple[int, int], fast_axis: int) -> SharedTile:
    """A tile in workgroup memory, contiguous along ``fast_axis`` in 16-byte chunks swizzled by row.

    A row is what lies along the fast axis. Row ``r`` keeps its chunk ``c`` at place ``c ^ s(r)`` of each
    128 bytes, where ``s`` is a linear map of the bits of ``r``, so without bank conflicts are: writes of
    whole rows in 16-byte pieces; reads of one chunk of 8 rows (8x8 matrices, transposed or not); reads of
    single 4-byte elements in fragments of TF32 along either axis; and reads of one chunk of every
    fourth row.
    """
    slow = shape[1 - fast_axis]
    row_bytes = shape[fast_axis] * dtype.bytes
    chunks = max(min(row_bytes, _BANK_BYTES) // _CHUNK_BYTES, 1)
    swizzle = _swizzle(slow, chunks, first=1 if dtype.bytes == 4 else 0)
    chunk = _CHUNK_BYTES // dtype.bytes
    fast_bases = tuple(1 << bit for bit in range(bit_length(shape[fast_axis])))
    slow_bases = tuple((shape[fast_axis] << bit) + moved * chunk for bit, moved in enumerate(swizzle))
    rows, columns = (slow_bases, fast_bases) if fast_axis == 1 else (fast_bases, slow_bases)
    what = "rows" if fast_axis == 1 else "columns"
    swizzled = f", 16-byte chunks swizzled by {what[:-1]}" if any(swizzle) else ""
    return SharedTile(dtype, shape, rows, columns, f"{what} of {row_bytes} bytes{swizzled}")


def _swizzle(rows: int, chunks: int, first: int) -> list[int]:
    """Which chunk bits each bit of a row's number flips.

    Rows that lie in the same 128 bytes need no swizzle against each other. ``first`` is the chunk bit
    that the first swizzled row bit flips: F32 elements are read 8 neighbours at a time, two chunks.
    """
    bits = bit_length(chunks)
    together = bit_length(_BANK_BYTES // (chunks * _CHUNK_BYTES))
    return [
        1 << (row - together + first) % bits if bits and together <= row < _SWIZZLED_BITS else 0
        for row in range(bit_length(rows))
    ]
