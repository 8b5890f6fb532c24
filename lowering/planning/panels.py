"""How the copy engine lays a block in workgroup memory, and how matrix operations of four warps find it."""

from __future__ import annotations

from gizml_tile.dtypes import DType
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.planning.plan import SharedTile

SPANS = (128, 64, 32)
_CHUNK_BYTES = 16
_LINE_BYTES = 128


def span_of(dtype: DType, extent: int) -> int:
    """The bytes of a row that one panel has, for ``extent`` elements along the contiguous axis."""
    return min(SPANS[0], extent * dtype.bytes)


def panel_tile(dtype: DType, shape: tuple[int, int], fast_axis: int = 1) -> SharedTile:
    """A tile in panels of up to 128 bytes of each row, one after the other.

    In a panel the row follows the row before, and the 16-byte chunks of each 128 bytes are exchanged as the
    copy engine does it (CUDA driver API, CUtensorMapSwizzle): chunk number XOR line number, in as many
    bits as the row has chunks. The tile begins at a multiple of 1024 bytes.
    """
    fast, slow = shape[fast_axis], shape[1 - fast_axis]
    span = span_of(dtype, fast)
    width = span // dtype.bytes

    def place(offset: int) -> int:
        byte = offset * dtype.bytes
        line = byte // _LINE_BYTES & span // _CHUNK_BYTES - 1
        return (byte ^ line * _CHUNK_BYTES) // dtype.bytes

    inside, panels = bit_length(width), bit_length(fast // width)
    along = tuple(1 << bit for bit in range(inside)) + tuple(slow * width << bit for bit in range(panels))
    across = tuple(place(width << bit) for bit in range(bit_length(slow)))
    rows, columns = (across, along) if fast_axis == 1 else (along, across)
    what = "rows" if fast_axis == 1 else "columns"
    return SharedTile(
        dtype, shape, rows, columns, f"panels of {span} bytes of {what}, 16-byte chunks exchanged by line"
    )
