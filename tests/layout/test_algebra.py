"""Layouts of shapes and strides as functions: every coordinate of every small one."""

import pytest
from small_layouts import COMPACT, EVERY, SHAPES, STRIDED, coordinates, table

from gizml_tile.layout import (
    ComposedLayout,
    CoordSwizzle,
    E,
    Layout,
    Swizzle,
    coprofile,
    coshape,
    cosize,
    crd2idx,
    get_1d_coord,
    get_flat_coord,
    get_leaves,
    idx2crd,
    make_composed_layout,
    make_coord,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_ordered_layout,
    size,
)


def dot(coordinate, stride):
    """The meaning of a layout, from scratch."""
    return sum(number * step for number, step in zip(get_leaves(coordinate), get_leaves(stride), strict=True))


def test_a_coordinate_maps_to_the_sum_of_its_numbers_times_their_strides():
    for layout in EVERY[::2]:
        places = coordinates(layout.shape)
        assert size(layout) == len(places)
        for index, coordinate in enumerate(places):
            assert layout(coordinate) == layout(index) == dot(coordinate, layout.stride), layout
            if isinstance(coordinate, tuple):
                assert layout(*coordinate) == layout(index)


def test_partial_coordinates_unpack_where_the_shape_nests():
    layout = Layout(((2, 3), (4, 5)), ((1, 2), (6, 24)))
    for first in range(6):
        for second in range(20):
            expected = layout((first % 2, first // 2), (second % 4, second // 4))
            assert layout(first, second) == layout((first % 2, first // 2), second) == expected


def test_cosize_is_one_more_than_the_largest_index():
    for layout in EVERY:
        assert cosize(layout) == coshape(layout) == 1 + max(table(layout))
        assert coprofile(layout) == 0


def test_an_index_gives_its_coordinate_back():
    for layout in COMPACT:
        for coordinate in coordinates(layout.shape):
            index = layout(coordinate)
            assert idx2crd(index, layout) == coordinate
            assert get_flat_coord(index, layout) == get_leaves(coordinate)
            assert layout(get_1d_coord(index, layout)) == index
    assert idx2crd(9, Layout((4, 8), (1, 4))) == (1, 2)
    assert idx2crd(9, (4, 8)) == (1, 2)
    assert idx2crd(3, Layout((4, 2), (1, 0))) == (3, 0)


def test_ordered_layouts_are_compact_and_the_smallest_order_is_fastest():
    for layout in COMPACT:
        made = make_ordered_layout(layout.shape, layout.stride)
        assert sorted(table(made)) == list(range(size(layout)))
        if all(extent > 1 for extent in get_leaves(layout.shape)):
            assert made == layout
        assert crd2idx(size(layout) - 1, layout.shape) == size(layout) - 1
        assert table(make_layout(layout.shape)) == list(range(size(layout)))
    assert str(make_ordered_layout((4, 8), (1, 0))) == "(4,8):(8,1)"
    assert str(make_ordered_layout(((2, 2), 8), (1, 0))) == "((2,2),8):((8,16),1)"
    assert str(make_ordered_layout(((2, 2), 8), ((2, 0), 1))) == "((2,2),8):((16,1),2)"


def test_a_layout_like_another_is_compact_and_keeps_the_order_of_strides():
    for layout in STRIDED:
        made = make_layout_like(layout)
        extents, old, new = (get_leaves(each) for each in (layout.shape, layout.stride, made.stride))
        packed = 1
        for extent, step, kept in zip(extents, old, new, strict=True):
            assert (step == 0) == (kept == 0)
            packed *= extent if step else 1
        assert sorted(set(table(made))) == list(range(packed))
        order = sorted(range(len(old)), key=lambda leaf: (old[leaf], leaf))
        assert order == sorted(range(len(old)), key=lambda leaf: (old[leaf] > 0, new[leaf], leaf)) or any(
            extent == 1 for extent in extents
        )
    assert str(make_layout_like(Layout((4, 8, 2), (0, 32, 8)))) == "(4,8,2):(0,2,1)"


def test_the_identity_gives_the_coordinate_itself():
    for shape in SHAPES:
        identity = make_identity_layout(shape)
        assert table(identity) == coordinates(shape)
        assert coshape(identity) == shape
    assert str(make_identity_layout((4, 8))) == "(4,8):(E0,E1)"
    assert coprofile(make_identity_layout((4, (2, 8)))) == (0, (0, 0))
    assert idx2crd((3, 5), make_identity_layout((4, 8))) == (3, 5)


def test_basis_strides_add_along_their_axis():
    layout = Layout((4, 2, 8), (E(0), 4 * E(0), E(1)))
    assert layout(3, 1, 5) == (7, 5)
    assert (coshape(layout), coprofile(layout)) == ((8, 8), (0, 0))


@pytest.mark.parametrize(
    "mask, base, shift", [(0, 0, 0), (1, 0, 1), (2, 0, 2), (2, 1, 3), (3, 4, 3), (2, 0, -2), (1, 2, -4)]
)
def test_a_swizzle_xors_one_field_of_bits_into_another(mask, base, shift):
    swizzle = Swizzle(mask, base, shift)
    images = []
    for index in range(1024):
        source = base + max(shift, 0) if shift >= 0 else base
        target = base if shift >= 0 else base - shift
        bits = [index >> source + bit & 1 for bit in range(mask)]
        expected = index
        for bit, flip in enumerate(bits):
            expected ^= flip << target + bit
        assert swizzle(index) == expected
        assert swizzle(swizzle(index)) == index
        images.append(swizzle(index))
    assert sorted(images) == list(range(1024))


def test_composed_layouts_add_an_offset_and_apply_the_inner_part():
    inner, outer = Swizzle(2, 0, 3), Layout((8, 8), (8, 1))
    layout = make_composed_layout(inner, 5, outer)
    assert table(layout) == [inner(5 + index) for index in table(outer)]
    assert cosize(layout) == 1 + max(table(layout))
    assert make_composed_layout(inner, outer) == make_composed_layout(inner, 0, outer)
    chained = make_composed_layout(Layout(100, 3), layout)
    assert table(chained) == [3 * index for index in table(layout)]
    assert str(layout) == "S<2,0,3> o 5 o (8,8):(8,1)"
    assert size(layout) == 64


def test_coordinate_swizzles_flip_one_number_by_another():
    swizzle = CoordSwizzle(3, 0, (1,), 0, (2,))
    layout = make_composed_layout(swizzle, make_identity_layout((4, 8, 8)))
    for row, middle, column in coordinates((4, 8, 8)):
        assert layout(row, middle, column) == (row, middle, column ^ middle)
    moved = make_composed_layout(swizzle, (0, 1, 0), make_identity_layout((4, 4, 8)))
    assert moved(1, 2, 0) == (1, 3, 3)
    assert str(swizzle) == "CS<3,0,[1],0,[2]>"


def test_coordinates_may_be_anything_that_adds_and_multiplies():
    class Symbol(str):
        def __mul__(self, other):
            return Symbol(f"{self}*{other}")

        def __add__(self, other):
            return Symbol(f"{self}+{other}")

        def __radd__(self, other):
            return Symbol(f"{other}+{self}")

    assert Layout((4, 8), (1, 4))(Symbol("i"), Symbol("j")) == "0+i*1+j*4"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: make_layout((4, 8), 1), r"shape \(4,8\) and stride 1 must nest alike"),
        (lambda: make_layout((4, (2, 2)), (1, 2)), "must nest alike"),
        (lambda: make_layout((4, 0), (1, 4)), "an extent is a whole number from 1, found 0"),
        (lambda: make_layout(4, -1), "a stride is 0 or more, found -1"),
        (lambda: make_layout([4, 8], (1, 4)), r"expected a whole number or a tuple of them, found \[4, 8\]"),
        (lambda: make_layout((4, 8), (E(0), 3)), "all numbers or all basis elements"),
        (lambda: make_ordered_layout((4, 8), (0, 1, 2)), "must name each mode"),
        (lambda: make_ordered_layout(4, (0, 1)), "nested deeper than the shape"),
        (lambda: Layout((4, 8), (1, 4))(1, 2, 3), r"coordinate \(1,2,3\) does not fit the shape \(4,8\)"),
        (lambda: Layout((4, 8), (1, 4))((1, 1), 2), "does not fit the shape"),
        (lambda: Layout((4, 8), (1, 4))(None, 2), r"coordinate \(_,2\) does not fit"),
        (lambda: Layout(4, 1)(make_coord(None)), "does not fit"),
        (lambda: idx2crd(0, ComposedLayout(Swizzle(0, 0, 0), 0, Layout(4, 1))), "not defined for a composed"),
        (lambda: Swizzle(3, 0, 2), "a shift of at least mask"),
        (lambda: make_composed_layout(Swizzle(1, 0, 1)), "takes inner, maybe an offset, and outer"),
        (lambda: make_composed_layout(Layout(4, 1), 4), "the outer layout comes last, found 4"),
        (lambda: make_composed_layout(4, Layout(4, 1)), "the inner part is a swizzle or a layout, found 4"),
        (lambda: CoordSwizzle(1, 0, (0,), 0, (0,)), "needs two modes"),
        (lambda: make_layout_like(make_identity_layout((2, 2))), "needs strides that are numbers"),
        (lambda: E(), "takes the number of an axis"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
