"""Divides and products of every small layout, and what they are used for."""

from itertools import product

import pytest
from small_layouts import COMPACT, EVERY, coordinates, table

from gizml_tile.layout import (
    Layout,
    Swizzle,
    blocked_product,
    complement,
    composition,
    cosize,
    flat_divide,
    flat_product,
    get_leaves,
    logical_divide,
    logical_product,
    make_composed_layout,
    make_identity_layout,
    make_layout_tv,
    make_ordered_layout,
    make_tile,
    raked_product,
    rank,
    recast_layout,
    size,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)

TILES = [Layout(2, 1), Layout(4, 1), Layout(2, 2), Layout((2, 2), (1, 4)), Layout((2, 2), (4, 1))]
MATRICES = [layout for layout in EVERY if rank(layout) == 2][::9]
SMALL = [layout for layout in COMPACT if size(layout) <= 24][::3]


def served(operation, *arguments):
    try:
        return operation(*arguments)
    except ValueError:
        return None


def test_a_divide_has_the_tile_inside_and_the_tiles_outside():
    found = 0
    for layout, tile in product(EVERY[::7], TILES):
        divided = served(logical_divide, layout, tile)
        if divided is None or size(layout) % size(tile):
            continue
        rest = complement(tile, size(layout))
        if cosize(tile) > size(layout) or size(divided) != size(layout):
            continue
        found += 1
        assert rank(divided) == 2
        for inside, which in product(range(size(tile)), range(size(rest))):
            assert divided(inside, which) == layout(tile(inside) + rest(which)), f"{layout} by {tile}"
        assert sorted(table(divided)) == sorted(table(layout))
    assert found > 200


def test_divides_of_powers_of_two_are_always_served():
    for layout in COMPACT[::3]:
        if size(layout) in (8, 64):
            for tile in TILES:
                assert sorted(table(logical_divide(layout, tile))) == list(range(size(layout)))


def tile_coordinates(layout, down, across):
    """(row in tile, column in tile, tile row, tile column, index) of every element."""
    rows, columns = layout.shape
    rows, columns = (size(extent) for extent in (rows, columns))
    for row, column in product(range(rows), range(columns)):
        yield row % down, column % across, row // down, column // across, layout(row, column)


def test_divides_by_mode_regroup_the_parts():
    found = 0
    for layout, (down, across) in product(MATRICES, ((1, 2), (2, 1), (2, 2), (2, 3))):
        rows, columns = (size(extent) for extent in layout.shape)
        divides = [
            served(divide, layout, make_tile(down, across))
            for divide in (logical_divide, zipped_divide, tiled_divide, flat_divide)
        ]
        if rows % down or columns % across or None in divides:
            continue
        found += 1
        logical, zipped, tiled, flat = divides
        for i, j, which_i, which_j, index in tile_coordinates(layout, down, across):
            assert logical((i, which_i), (j, which_j)) == index
            assert zipped((i, j), (which_i, which_j)) == index
            assert tiled((i, j), which_i, which_j) == index
            assert flat(i, j, which_i, which_j) == index
    assert found > 150


MATRIX = Layout((4, 8), (1, 4))
PAIR = Layout((2, 2), (1, 2))


@pytest.mark.parametrize(
    "found, expected",
    [
        (logical_divide(MATRIX, Layout((2, 4), (1, 2))), "((2,4),4):((1,2),8)"),
        (logical_divide(Layout(24, 1), 4), "(4,6):(1,4)"),
        (logical_divide(MATRIX, make_tile(2, 4)), "((2,2),(4,2)):((1,2),(4,16))"),
        (logical_divide(MATRIX, make_tile(None, 4)), "(4,(4,2)):(1,(4,16))"),
        (logical_divide(MATRIX, None), "(4,8):(1,4)"),
        (
            logical_divide(make_identity_layout((4, 8)), Layout((2, 4), (1, 2))),
            "((2,(2,2)),4):((E0,(2E0,E1)),2E1)",
        ),
        (logical_divide(Layout(10, 1), 4), "(4,3):(1,4)"),
        (zipped_divide(MATRIX, make_tile(2, 4)), "((2,4),(2,2)):((1,4),(2,16))"),
        (zipped_divide(MATRIX, make_tile(2)), "((2),(2,8)):((1),(2,4))"),
        (zipped_divide(MATRIX, make_tile(None, 4)), "((4,4),(1,2)):((1,4),(0,16))"),
        (tiled_divide(MATRIX, make_tile(2, 4)), "((2,4),2,2):((1,4),2,16)"),
        (flat_divide(MATRIX, make_tile(2, 4)), "(2,4,2,2):(1,4,2,16)"),
        (flat_divide(MATRIX, Layout((2, 4), (1, 2))), "(2,4,4):(1,2,8)"),
        (zipped_divide(Layout((64, 32), (32, 1)), (16, 16)), "((16,16),(4,2)):((32,1),(512,16))"),
        (logical_product(MATRIX, PAIR), "((4,8),(2,2)):((1,4),(32,64))"),
        (logical_product(Layout((6, 9), (9, 1)), Layout(9, 1)), "((6,9),9):((9,1),54)"),
        (logical_product(MATRIX, 3), "((4,8),3):((1,4),32)"),
        (logical_product(Layout(4, 1), 3), "(4,3):(1,4)"),
        (logical_product(Layout((2, 2), (4, 1)), 6), "((2,2),(2,3)):((4,1),(2,8))"),
        (logical_product(MATRIX, make_tile(2, None)), "((4,2),8):((1,4),4)"),
        (zipped_product(MATRIX, PAIR), "((4,8),(2,2)):((1,4),(32,64))"),
        (tiled_product(MATRIX, PAIR), "((4,8),2,2):((1,4),32,64)"),
        (flat_product(MATRIX, PAIR), "(4,8,2,2):(1,4,32,64)"),
        (blocked_product(MATRIX, PAIR), "((4,2),(8,2)):((1,32),(4,64))"),
        (blocked_product(Layout((3, 6), (6, 1)), Layout((4, 5), (1, 4))), "((3,4),(6,5)):((6,18),(1,72))"),
        (blocked_product(Layout(8, 1), Layout(4, 1)), "(8,4):(1,8)"),
        (raked_product(MATRIX, PAIR), "((2,4),(2,8)):((32,1),(64,4))"),
        (raked_product(Layout(8, 1), 4), "(4,8):(8,1)"),
        (tile_to_shape(Layout((2, 2), (2, 1)), (4, 6)), "((2,2),(2,3)):((2,4),(1,8))"),
        (tile_to_shape(Layout((2, 2), (2, 1)), (4, 6), (1, 0)), "((2,2),(2,3)):((2,12),(1,4))"),
    ],
)
def test_examples(found, expected):
    assert str(found) == expected


def test_a_product_repeats_the_layout_in_the_order_of_the_pattern():
    found = 0
    patterns = [3, Layout(3, 1), PAIR, Layout((2, 3), (3, 1)), Layout(2, 3)]
    for layout, pattern in product(SMALL, patterns):
        made = logical_product(layout, pattern)
        order = table(pattern) if isinstance(pattern, Layout) else list(range(pattern))
        for place, (which, number) in product(range(size(layout)), enumerate(order)):
            assert made(place, which) == layout(place) + size(layout) * number
        found += 1
    assert found > 100


def test_a_product_fills_the_gaps_of_the_layout():
    found = 0
    for layout in EVERY[::3]:
        made = served(logical_product, layout, 4)
        if made is None:
            continue
        found += 1
        assert table(composition(made, Layout(size(layout), 1))) == table(layout)
        reached = len(set(table(layout)))
        assert len(set(table(made))) == 4 * reached, f"{layout}: {made}"
    assert found > 300


def test_blocked_and_raked_products_place_every_repeat():
    patterns = [PAIR, Layout((2, 3), (3, 1)), Layout((1, 2), (0, 1))]
    for layout, pattern in product([each for each in SMALL if rank(each) == 2], patterns):
        blocked, raked = blocked_product(layout, pattern), raked_product(layout, pattern)
        rows, columns = (size(extent) for extent in layout.shape)
        down, across = pattern.shape
        for i, j, p, q in product(range(rows), range(columns), range(down), range(across)):
            index = layout(i, j) + size(layout) * pattern(p, q)
            assert blocked(i + rows * p, j + columns * q) == index
            assert raked(p + down * i, q + across * j) == index


def test_a_block_tiles_a_shape_in_any_order():
    block = Layout((2, 4), (4, 1))
    for order in ((0, 1), (1, 0)):
        made = tile_to_shape(block, (6, 8), order)
        repeats = make_ordered_layout((3, 2), order)
        for row, column in product(range(6), range(8)):
            assert made(row, column) == block(row % 2, column % 4) + 8 * repeats(row // 2, column // 4)
    assert size(tile_to_shape(block, (5, 5))) == 6 * 8
    swizzled = make_composed_layout(Swizzle(1, 0, 2), block)
    made = tile_to_shape(swizzled, (4, 4))
    assert table(made) == [Swizzle(1, 0, 2)(index) for index in table(tile_to_shape(block, (4, 4)))]


def test_composed_layouts_divide_as_their_outer_part_does():
    swizzle, outer = Swizzle(2, 0, 3), Layout((8, 8), (8, 1))
    layout = make_composed_layout(swizzle, outer)
    for operation in (
        logical_divide,
        zipped_divide,
        tiled_divide,
        flat_divide,
        zipped_product,
        blocked_product,
    ):
        tile = PAIR if operation in (zipped_product, blocked_product) else make_tile(2, 4)
        assert table(operation(layout, tile)) == [swizzle(index) for index in table(operation(outer, tile))]


@pytest.mark.parametrize(
    "threads, values",
    [
        (Layout((4, 1), (1, 1)), Layout((1, 8), (1, 1))),
        (Layout((4, 8), (8, 1)), Layout((2, 2), (1, 2))),
        (Layout((4, 8), (1, 4)), Layout((2, 4), (4, 1))),
        (Layout(((2, 2), 4), ((1, 8), 2)), Layout((2, (2, 2)), (2, (4, 1)))),
        (Layout(8, 1), Layout(4, 1)),
    ],
)
def test_threads_and_values_cover_a_tile(threads, values):
    tile, layout = make_layout_tv(threads, values)
    assert layout.shape[0] == size(threads) or size(layout[None, 0]) == size(threads)
    place_of = {}
    for thread_place, value_place in product(coordinates(threads.shape), coordinates(values.shape)):
        # Along each axis a thread's values stand together.
        place = []
        for mode in range(rank(threads)):
            whole_t, whole_v = (each.shape if rank(each) > 1 else (each.shape,) for each in (threads, values))
            part_t, part_v = (
                each if isinstance(each, tuple) else (each,) for each in (thread_place, value_place)
            )
            inside = Layout(whole_v[mode], make_layout_strides(whole_v[mode]))(part_v[mode])
            outside = Layout(whole_t[mode], make_layout_strides(whole_t[mode]))(part_t[mode])
            place.append(inside + size(whole_v[mode]) * outside)
        index = place[0] if len(place) == 1 else place[0] + tile[0] * place[1]
        place_of[threads(thread_place), values(value_place)] = index
    for (thread, value), index in place_of.items():
        assert layout(thread, value) == index
    assert sorted(table(layout)) == list(range(size(threads) * size(values)))


def make_layout_strides(shape):
    return make_ordered_layout(shape, 0).stride


def test_thread_value_example():
    tile, layout = make_layout_tv(Layout((4, 1), (1, 4)), Layout((1, 8), (1, 1)))
    assert (tile, str(layout)) == ((4, 8), "(4,8):(1,4)")


def bits_of(layout, width):
    """The bits of memory that each element covers."""
    return [frozenset(range(index * width, (index + 1) * width)) for index in table(layout)]


def test_recasting_keeps_the_memory_whole():
    wider = narrower = 0
    for layout in EVERY[::4]:
        for old, new in ((16, 32), (8, 32), (32, 16), (32, 8), (16, 16)):
            try:
                made = recast_layout(layout, old, new)
            except ValueError as error:
                assert "recast_layout" in str(error)
                continue
            wider += new > old
            narrower += new < old
            assert frozenset().union(*bits_of(made, new)) == frozenset().union(*bits_of(layout, old)), layout
            assert size(made) * new == size(layout) * old
            assert len(get_leaves(made.shape)) == len(get_leaves(layout.shape))
    assert wider > 80
    assert narrower > 250


def test_recasting_there_and_back():
    for layout in EVERY[::2]:
        try:
            wide = recast_layout(layout, 16, 32)
            back = recast_layout(wide, 32, 16)
        except ValueError:
            continue
        assert sorted(table(back)) == sorted(table(layout))


def test_recasting_follows_a_swizzle():
    """A swizzle in elements moves whole elements, so its base shifts with their size."""
    for mask, base, shift in ((3, 3, 3), (2, 2, 3), (1, 4, 2)):
        layout = make_composed_layout(Swizzle(mask, base, shift), 32, Layout((8, 64), (64, 1)))
        for old, new in ((16, 32), (16, 64), (32, 16), (8, 8), (32, 8)):
            made = recast_layout(layout, old, new)
            bits = {8: 3, 16: 4, 32: 5, 64: 6}
            assert made.inner == Swizzle(mask, base + bits[old] - bits[new], shift)
            wide, narrow = (layout, made) if old > new else (made, layout)
            ratio = max(old, new) // min(old, new)
            whole = table(wide)
            parts = table_by_columns(narrow, ratio)
            assert parts == [[ratio * index + part for part in range(ratio)] for index in whole]


def table_by_columns(layout, ratio):
    """The indices of each ratio neighbouring columns, in the order of ``table``."""
    columns = layout.shape[1] // ratio
    return [
        [layout(row, ratio * column + part) for part in range(ratio)]
        for column, row in product(range(columns), range(8))
    ]


@pytest.mark.parametrize(
    "found, expected",
    [
        (recast_layout(Layout((2, 3, 4), (1, 2, 4)), 16, 32), "(1,3,4):(1,1,2)"),
        (recast_layout(Layout((2, 3, 4), (1, 2, 4)), 32, 16), "(4,3,4):(1,4,8)"),
        (recast_layout(Layout(15, 1), 24, 40), "9:1"),
        (recast_layout(Layout((8, 4), (1, 16)), 8, 32), "(2,4):(1,4)"),
        (recast_layout(Layout((8, 4), (0, 1)), 8, 32), "(8,1):(0,1)"),
    ],
)
def test_recast_examples(found, expected):
    assert str(found) == expected


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: make_tile([4, 8]),
            r"a part of a tile is a number, a layout, None or a tuple of them, found \[4, 8\]",
        ),
        (lambda: logical_divide(MATRIX, 0), "expected a layout, a number or a tuple of them, found 0"),
        (lambda: logical_divide(MATRIX, "4"), "found '4'"),
        (lambda: zipped_divide(MATRIX, (2, 2, 2)), "a tile of 3 parts is for as many modes or more"),
        (lambda: make_layout_tv(Layout(4, 2), Layout(2, 1)), "needs threads and values without gaps"),
        (lambda: recast_layout(Layout(3, 1), 16, 32), "3:1 of 3:1 cuts elements 2 times as wide"),
        (lambda: recast_layout(Layout(4, 4), 16, 64), "does not fill elements 4 times as wide"),
        (lambda: recast_layout(Layout(4, 2), 32, 16), "no mode of stride 1 to multiply by 2"),
        (lambda: recast_layout(Layout(4, 1), 0, 16), "needs sizes in bits, found 0 and 16"),
        (
            lambda: recast_layout(make_composed_layout(Swizzle(1, 1, 1), Layout(16, 1)), 8, 32),
            "moves parts of elements 4 times as wide",
        ),
        (
            lambda: recast_layout(make_composed_layout(Swizzle(1, 1, 1), 1, Layout(16, 1)), 8, 16),
            "offset 1 is inside",
        ),
        (
            lambda: recast_layout(make_composed_layout(Layout(16, 1), Layout(16, 1)), 8, 16),
            "cannot follow 16:1",
        ),
        (lambda: recast_layout(make_identity_layout((4, 4)), 8, 16), "needs strides that are numbers"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
