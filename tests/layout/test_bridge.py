"""From strided layouts to linear ones and back, and how both are drawn."""

from itertools import product

import pytest
from small_layouts import COMPACT, POWERS, table

import gizml_tile as tile
from gizml_tile import layout as public
from gizml_tile.layout import (
    CoordSwizzle,
    E,
    Layout,
    Linear,
    Swizzle,
    blocked,
    cosize,
    draw,
    from_linear,
    get_leaves,
    make_composed_layout,
    make_identity_layout,
    make_layout_tv,
    rank,
    size,
    staged,
    to_linear,
)


def test_every_layout_of_powers_of_two_without_carries_has_a_linear_form():
    served = 0
    for layout in POWERS:
        names = tuple("abc"[: rank(layout)])
        extent = 1 << (cosize(layout) - 1).bit_length()
        xors = all(
            layout(first ^ second) == layout(first) ^ layout(second)
            for first, second in product(range(size(layout)), repeat=2)
        )
        if not xors:
            with pytest.raises(ValueError, match="carry from bit to bit"):
                to_linear(layout, names)
            continue
        served += 1
        linear = to_linear(layout, names)
        assert linear.shape == (extent, 1)
        for index, result in enumerate(table(layout)):
            coordinate, numbers = index, {}
            for name in names:
                coordinate, numbers[name] = divmod(coordinate, linear.size(name))
            assert linear.apply(**numbers) == (result, 0)
    assert served > 100


def test_there_and_back_is_the_same_function():
    for layout in [each for each in COMPACT if size(each) in (2, 4, 8)]:
        back = from_linear(to_linear(layout, tuple("abc"[: rank(layout)])))
        assert table(back) == table(layout)


def test_threads_and_values_become_lanes_and_registers():
    shape, layout = make_layout_tv(Layout((4, 8), (8, 1)), Layout((2, 2), (1, 2)))
    linear = to_linear(layout, ("lane", "register"), shape)
    assert linear.is_surjective
    for lane, register in product(range(32), range(4)):
        row, column = linear.apply(lane=lane, register=register)
        assert row + shape[0] * column == layout(lane, register)
    assert table(from_linear(linear)) == table(layout)


def test_a_swizzled_layout_has_a_linear_form_that_strides_cannot_tell():
    swizzled = make_composed_layout(Swizzle(2, 0, 3), Layout((8, 8), (8, 1)))
    linear = to_linear(swizzled, ("row", "column"))
    for row, column in product(range(8), repeat=2):
        assert linear.apply(row=row, column=column) == (swizzled(row, column), 0)
    with pytest.raises(ValueError, match="share a bit, so strides cannot tell it"):
        from_linear(linear)


def test_results_that_are_coordinates_are_the_places():
    layout = Layout((2, 4, 2), (E(1), 2 * E(0), E(0)))
    linear = to_linear(layout, ("register", "lane", "warp"))
    assert linear == Linear.of((8, 2), register=[(0, 1)], lane=[(2, 0), (4, 0)], warp=[(1, 0)])


@pytest.mark.parametrize("rows, row_bytes", [(32, 128), (16, 256), (32, 64), (32, 32)])
def test_staged_rows_are_a_swizzle_of_the_algebra(rows, row_bytes):
    place = staged(rows, row_bytes)
    bits = place.mask.bit_length()
    shift = row_bytes.bit_length() - 1 + place.shift - 4
    swizzled = make_composed_layout(Swizzle(bits, 4, shift), Layout((rows, row_bytes), (row_bytes, 1)))
    for row, byte in product(range(rows), range(row_bytes)):
        assert place.offset(row, byte) == swizzled(row, byte)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: to_linear(Layout((2, 2), (1, 2)), ("lane",)), "2 modes for the names lane"),
        (
            lambda: to_linear(Layout((3, 2), (1, 4)), ("a", "b")),
            "extents of a linear layout are powers of two",
        ),
        (
            lambda: to_linear(make_composed_layout(Swizzle(1, 0, 1), 1, Layout(4, 1)), ("a",)),
            "an offset is not linear",
        ),
        (
            lambda: to_linear(make_identity_layout((2, 2, 2)), ("a", "b", "c")),
            "a place has a row and a column",
        ),
        (
            lambda: to_linear(
                make_composed_layout(CoordSwizzle(1, 0, (0,), 0, (1,)), make_identity_layout((2, 2))),
                ("a", "b"),
            ),
            "has no linear form",
        ),
        (lambda: to_linear(Layout((2, 8), (1, 2)), ("a", "b"), (4, 2)), r"outside of \[4, 2\]"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_drawings_show_what_stands_where():
    assert lines(draw(Layout((2, 3), (3, 1)))) == ["0 1 2", "0 0 1 2", "1 3 4 5"]
    assert lines(draw(Layout(3, 2))) == ["0 1 2", "0 0 2 4"]
    assert lines(draw(make_identity_layout((2, 2)))) == ["0 1", "0 (0,0) (0,1)", "1 (1,0) (1,1)"]
    assert lines(draw(make_composed_layout(Swizzle(1, 0, 1), Layout((2, 2), (2, 1))))) == [
        "0 1",
        "0 0 1",
        "1 3 2",
    ]
    layout = blocked((2, 4), vector=2, lanes=4, warps=2)
    assert lines(draw(layout)) == ["0 1 2 3", "0 0:0+ 0:1+ 1:0+ 1:1+", "1 2:0+ 2:1+ 3:0+ 3:1+"]
    assert lines(draw(Linear.of((1, 2), register=[]))) == ["0 1", "0 0:0 -"]
    assert lines(draw(staged(2, 8).linear(4))) == ["0 1", "0 0 1", "1 2 3"]
    assert lines(draw(Linear.of((2, 2), row=[(0, 1)], column=[(1, 0)])))[1:] == [
        "0 (0,0) (1,0)",
        "1 (0,1) (1,1)",
    ]
    assert lines(draw(Linear.of((1, 2), register=[(0, 1)], part=[(0, 0)])))[1:] == ["0 0/0:0+ 0/0:1+"]


def test_drawings_are_cut_to_a_limit():
    text = draw(Layout((100, 100), (100, 1)), limit=(2, 3))
    assert lines(text) == ["0 1 2 ...", "0 0 1 2 ...", "1 100 101 102 ...", "..."]


def test_columns_of_a_drawing_line_up():
    widths = {len(line) for line in draw(Layout((4, 16), (16, 1))).splitlines()}
    assert len(widths) == 1


def test_every_public_name_is_there():
    assert tile.layout is public
    assert len(set(public.__all__)) == len(public.__all__)
    for name in public.__all__:
        value = getattr(public, name)
        assert value is not None
        if callable(value) and getattr(value, "__module__", "").startswith("gizml_tile"):
            assert value.__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        public.nothing


def test_leaves_of_a_linear_form_are_steps_of_one_bit_or_more():
    linear = blocked((8, 16), vector=4, lanes=8, warps=2)
    layout = from_linear(linear)
    assert sorted(table(layout)) == list(range(128))
    assert all(extent & extent - 1 == 0 for extent in get_leaves(layout.shape))
