"""Panels in workgroup memory are laid out as the copy engine writes them."""

import numpy as np
import pytest

from gizml_tile.dtypes import BF16, F32, FP8
from gizml_tile.lowering.planning.panels import panel_tile, span_of


@pytest.mark.parametrize("dtype", [FP8, BF16, F32], ids=str)
@pytest.mark.parametrize("shape", [(64, 16), (64, 32), (128, 64), (32, 256)])
@pytest.mark.parametrize("axis", [0, 1])
def test_offsets(dtype, shape, axis):
    lines, extent = shape
    tile = panel_tile(dtype, shape if axis == 1 else shape[::-1], axis)
    span = span_of(dtype, extent)
    width = span // dtype.bytes
    line, place = np.indices(shape)
    byte = place // width * lines * span + line * span + place % width * dtype.bytes
    # PTX ISA, "Swizzling modes": bits of the 16-byte chunk XOR bits of the 128-byte line.
    byte ^= (byte >> 7 & (span // 16 - 1)) << 4
    for one in range(lines):
        for other in range(0, extent, 5):
            where = (one, other) if axis == 1 else (other, one)
            assert tile.offset(*where) * dtype.bytes == byte[one, other]


def test_a_panel_is_128_bytes_at_most():
    assert [span_of(BF16, extent) for extent in (16, 32, 64, 256)] == [32, 64, 128, 128]
