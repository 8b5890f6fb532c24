"""Nested tuples and the modes of layouts."""

import pytest
from small_layouts import EVERY, coordinates, table

from gizml_tile.layout import (
    E,
    Layout,
    Swizzle,
    append,
    ceil_div,
    depth,
    dice,
    elem_less,
    equal,
    get_,
    get_leaves,
    get_shape,
    get_stride,
    group,
    int_tuple_add,
    int_tuple_div,
    int_tuple_mod,
    int_tuple_mul,
    int_tuple_product,
    int_tuple_product_each,
    int_tuple_product_like,
    int_tuple_sub,
    joined,
    make_composed_layout,
    make_coord,
    make_int_tuple,
    make_layout,
    make_shape,
    make_stride,
    prepend,
    rank,
    select,
    shape_div,
    size,
    slice,
    slice_and_offset,
    take,
)

NESTED = Layout((4, (2, 8)), (16, (8, 1)))


@pytest.mark.parametrize(
    "found, expected",
    [
        (make_shape(8, 16), (8, 16)),
        (make_shape(9, (4, 8)), (9, (4, 8))),
        (make_shape(8), 8),
        (make_stride(1, (0, 8)), (1, (0, 8))),
        (make_coord(None, 3), (None, 3)),
        (make_int_tuple((4, 8), 2), ((4, 8), 2)),
        (rank(NESTED), 2),
        (rank(8), 1),
        (depth(NESTED), 2),
        (depth(8), 0),
        (depth((4, 8)), 1),
        (size((4, (2, 8))), 64),
        (get_shape(NESTED), (4, (2, 8))),
        (get_stride(NESTED), (16, (8, 1))),
        (get_leaves((4, (2, 8))), (4, 2, 8)),
        (get_((4, (2, 8)), 1), (2, 8)),
        (get_((4, (2, 8)), 1, 0), 2),
        (get_(8, 0), 8),
        (get_(NESTED, 1), Layout((2, 8), (8, 1))),
        (take((2, 3, 4, 5), 1, 3), (3, 4)),
        (select((2, 3, 4), (2, 0)), (4, 2)),
        (select(NESTED, (1, 0)), Layout(((2, 8), 4), ((8, 1), 16))),
        (group((2, 3, 4), 1, 3), (2, (3, 4))),
        (group(Layout((2, 3, 4), (1, 2, 6)), 0, 2), Layout(((2, 3), 4), ((1, 2), 6))),
        (append((2, 3), 4), (2, 3, 4)),
        (append((2, 3), 1, n=4), (2, 3, 1, 1)),
        (append(8, 1, n=3), (8, 1, 1)),
        (append((2, 3), 1, n=2), (2, 3)),
        (prepend((2, 3), 4), (4, 2, 3)),
        (prepend(8, 1, n=2), (1, 8)),
        (append(Layout(8, 1), Layout(4, 8)), Layout((8, 4), (1, 8))),
        (prepend(Layout(8, 1), Layout(4, 8), n=2), Layout((4, 8), (8, 1))),
        (joined(Layout(8, 1), Layout((2, 2), (8, 16))), Layout((8, (2, 2)), (1, (8, 16)))),
        (int_tuple_add((4, 8), (2, 2)), (6, 10)),
        (int_tuple_sub((4, (8, 1)), (2, (2, 1))), (2, (6, 0))),
        (int_tuple_mul((4, 8), 2), (8, 16)),
        (int_tuple_div((4, 8), (2, 3)), (2, 2)),
        (int_tuple_div((2 * E(0), 8 * E(1)), (2, 4)), (E(0), 2 * E(1))),
        (int_tuple_mod((5, 8), (2, 4)), (1, 0)),
        (int_tuple_product((4, (2, 3))), 24),
        (int_tuple_product_each(((2, 3), (4, 5))), (6, 20)),
        (int_tuple_product_each(8), 8),
        (int_tuple_product_like(((2, 3), (4, 5)), (0, (0, 0))), (6, (4, 5))),
        (shape_div((4, 8), (2, 2)), (2, 4)),
        (shape_div((4, 8), 8), (1, 4)),
        (shape_div((4, 8), 2), (2, 8)),
        (shape_div(16, (2, 2)), 4),
        (shape_div((4, 8), (8, 8)), (1, 1)),
        (ceil_div((5, 7), (2, 3)), (3, 3)),
        (ceil_div((5, 7), 8), (1, 4)),
        (ceil_div(7, (2, 2)), 2),
        (elem_less((1, (2, 3)), (2, (3, 4))), True),
        (elem_less((1, (2, 4)), (2, (3, 4))), False),
        (elem_less((1, 2), 3), True),
        (equal((1, (2, 3)), (1, (2, 3))), True),
        (equal((1, 2, 3), (1, (2, 3))), False),
        (equal((1, 2), (1, 3)), False),
    ],
)
def test_examples(found, expected):
    assert found == expected


def wildcards(shape):
    """Every coordinate of a shape with any of its parts left open."""
    if not isinstance(shape, tuple):
        return [None, *range(shape)]
    ways = [()]
    for mode in shape:
        ways = [(*way, part) for way in ways for part in wildcards(mode)]
    return [None, *ways]


def test_a_slice_runs_over_the_open_modes_of_a_layout():
    for layout in [each for each in EVERY if size(each) <= 12 and rank(each) > 1][::7]:
        places = coordinates(layout.shape)
        for coordinate in wildcards(layout.shape):
            fixed = get_leaves(expanded(coordinate, layout.shape))
            inside = [
                place
                for place in places
                if all(want in (None, have) for want, have in zip(fixed, get_leaves(place), strict=True))
            ]
            part, offset = slice_and_offset(layout, coordinate)
            assert [offset + index for index in table(part)] == [layout(place) for place in inside]
            assert size(part) * size(dice(layout, coordinate)) == size(layout)


def expanded(coordinate, shape):
    """The coordinate with a part for each leaf."""
    if not isinstance(shape, tuple):
        return coordinate
    parts = coordinate if isinstance(coordinate, tuple) else (coordinate,) * len(shape)
    return tuple(expanded(part, mode) for part, mode in zip(parts, shape, strict=True))


def test_slice_and_dice_examples():
    assert slice((4, (2, 8)), (None, (1, None))) == (4, 8)
    assert dice((4, (2, 8)), (None, (1, None))) == 2
    assert NESTED[None, 3] == Layout(4, 16)
    assert NESTED[1, (None, None)] == Layout((2, 8), (8, 1))
    assert slice(NESTED, (None, (0, None))) == Layout((4, 8), (16, 1))
    assert size(slice(NESTED, (1, (1, 1)))) == 1


def test_slicing_a_composed_layout_moves_its_offset():
    layout = make_composed_layout(Swizzle(2, 0, 3), make_layout((8, 8), (8, 1)))
    for row in range(8):
        part = layout[row, None]
        assert [part(column) for column in range(8)] == [layout(row, column) for column in range(8)]
    twice = make_composed_layout(Layout(64, 2), layout)
    assert table(twice[3, None]) == [2 * layout(3, column) for column in range(8)]
    assert table(select(layout, (1, 0))) == table(Layout(64, 1)) or table(select(layout, (1, 0))) == [
        layout(row, column) for row in range(8) for column in range(8)
    ]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: get_((2, 3), 2), r"there is no mode 2 in \(2,3\)"),
        (lambda: group((2, 3), 1, 3), "group 1 to 3 does not fit the 2 modes"),
        (lambda: append((2, 3, 4), 1, n=2), r"\(2,3,4\) has more than 2 modes"),
        (lambda: append(NESTED, 4), "a layout grows by a layout, found 4"),
        (lambda: slice(NESTED, (None, 1, 2)), "does not fit"),
        (lambda: slice(NESTED, (None, (1, None, 2))), "does not fit"),
        (
            lambda: get_stride(make_composed_layout(Swizzle(1, 0, 1), NESTED)),
            "only a plain layout has a stride",
        ),
        (lambda: int_tuple_add((1, 2), (1, 2, 3)), "int_tuple_add needs tuples that nest alike"),
        (lambda: elem_less((1, 2), (1, 2, 3)), "elem_less needs tuples that nest alike"),
        (lambda: shape_div(6, 4), "neither of 6 and 4 divides the other"),
        (lambda: int_tuple_product_like((2, 3), (1, 2, 3)), "has no place for each leaf"),
        (lambda: make_shape(True), "expected a whole number"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
