"""Values whose registers are taken several times are converted once."""

from pass_kernels import after, body

from gizml_tile.dtypes import F32
from gizml_tile.lowering.passes.conversions import convert_once


def parts(*picks):
    def write(b):
        x = b.give(6)
        for pick in picks:
            b.keep(b.convert(b.pick(x, pick), F32))

    return write


def test_parts_that_overlap_are_converted_once():
    names = body(after(convert_once, parts([0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5])))
    assert names.count("convert") == 1


def test_parts_with_nothing_in_common_stay():
    names = body(after(convert_once, parts([0, 1, 2], [3, 4, 5])))
    assert names.count("convert") == 2


def test_a_part_of_a_large_value_stays():
    names = body(after(convert_once, parts([0], [1])))
    assert names.count("convert") == 2
