"""Linear layouts at every place: the laws that the compiler leans on."""

from itertools import product

import pytest

from gizml_tile.layout import Linear, blocked, reorder_registers, vector_width

ACCUMULATOR = Linear.of(
    (64, 32),
    register=[(0, 1), (8, 0), (0, 8), (0, 16)],
    lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
    warp=[(16, 0), (32, 0)],
)
SWIZZLED = Linear.of((4, 8), register=[(0, 1), (1, 2)], lane=[(2, 4), (0, 4), (1, 0)])
REPEATED = Linear.of(
    (4, 4), register=[(0, 1), (0, 1), (0, 0)], lane=[(1, 1), (1, 0), (0, 2)], warp=[(0, 0), (2, 0), (2, 2)]
)
LAYOUTS = [
    ACCUMULATOR,
    SWIZZLED,
    REPEATED,
    ACCUMULATOR.slice(0),
    ACCUMULATOR.slice(1),
    blocked((16, 32), vector=4, warps=4),
    blocked((2, 4), vector=8, warps=2),
    blocked((32, 8), order=(0, 1), vector=2, warps=2),
]


def holders(layout):
    """Every holder's numbers with the element it holds."""
    for numbers in product(*(range(layout.size(name)) for name in layout.names)):
        holder = dict(zip(layout.names, numbers, strict=True))
        yield holder, layout.apply(**holder)


def places(shape):
    return set(product(range(shape[0]), range(shape[1])))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_apply_is_linear_over_bits(layout):
    for name in layout.names:
        at = [layout.apply(**{name: number}) for number in range(layout.size(name))]
        assert at == list(layout.table(name))
        for first, second in product(range(layout.size(name)), repeat=2):
            row, column = at[first]
            assert at[first ^ second] == (row ^ at[second][0], column ^ at[second][1])


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_table_moves_by_the_other_inputs(layout):
    for lane in range(layout.size("lane")):
        assert layout.table(lane=lane) == tuple(
            layout.apply(register=register, lane=lane) for register in range(layout.size("register"))
        )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_surjective_and_injective_by_counting(layout):
    held = [place for _, place in holders(layout)]
    assert layout.is_surjective == (set(held) == places(layout.shape))
    assert layout.is_injective == (len(held) == len(set(held)))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_holders_without_free_bits_store_each_element_once(layout):
    masks = {name: layout.free_bits(name) for name in layout.names}
    stored = [
        place for holder, place in holders(layout) if all(holder[name] & masks[name] == 0 for name in masks)
    ]
    assert sorted(stored) == sorted({place for _, place in holders(layout)})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_without_replicas_a_thread_holds_each_element_once(layout):
    kept = layout.without_replicas()
    for lane in range(layout.size("lane")):
        assert sorted(kept.table(lane=lane)) == sorted(set(layout.table(lane=lane)))


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.is_surjective], ids=str)
def test_inverse_finds_a_holder_without_free_bits(layout):
    inverse = layout.invert()
    for row, column in places(layout.shape):
        holder = inverse.apply(row, column)
        assert layout.apply(**holder) == (row, column)
        assert all(holder[name] & layout.free_bits(name) == 0 for name in layout.names)


def test_no_inverse_where_a_place_has_no_holder():
    with pytest.raises(ValueError, match="no holder"):
        Linear.of((2, 2), register=[(0, 1)]).invert()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_transpose_slice_and_reshape_keep_the_holders(layout):
    flat = (1, layout.elements)
    for holder, (row, column) in holders(layout):
        assert layout.transposed().apply(**holder) == (column, row)
        assert layout.slice(0).apply(**holder) == (0, column)
        assert layout.slice(1).apply(**holder) == (row, 0)
        assert layout.reshaped(flat).apply(**holder) == (0, row * layout.shape[1] + column)
    assert layout.transposed().transposed() == layout
    assert layout.reshaped(flat).reshaped(layout.shape) == layout


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_compose_with_a_map_of_places(layout):
    rows, columns = layout.shape
    row_bits, column_bits = rows.bit_length() - 1, columns.bit_length() - 1
    offsets = Linear.of(
        (1, rows * columns),
        row=[(0, columns << bit | (1 << bit) % columns) for bit in range(row_bits)],
        column=[(0, 1 << bit) for bit in range(column_bits)],
    )
    composed = offsets.compose(layout)
    for holder, (row, column) in holders(layout):
        assert composed.apply(**holder) == offsets.apply(row=row, column=column)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_splits_means_that_thread_and_register_add(layout):
    zero = {"register": 0}
    for axis in (0, 1):
        adds = all(
            layout.apply(**holder)[axis]
            == layout.apply(**holder | zero)[axis] + layout.apply(register=holder["register"])[axis]
            for holder, _ in holders(layout)
        )
        assert layout.splits(axis) == adds


@pytest.mark.parametrize("rows, columns", list(product((1, 2, 16, 64), repeat=2)))
@pytest.mark.parametrize("vector, warps, order", [(1, 1, (1, 0)), (4, 4, (1, 0)), (8, 2, (0, 1))])
def test_blocked_holds_every_element_and_reads_in_order(rows, columns, vector, warps, order):
    layout = blocked((rows, columns), order, vector, 32, warps)
    assert layout.is_surjective
    assert (layout.bits("lane"), layout.size("warp")) == (5, warps)
    assert layout.free_bits("register") == 0
    width, permutation = vector_width(layout, order[0])
    assert width >= min(vector, (rows, columns)[order[0]])
    ordered = reorder_registers(layout, permutation)
    fast = [place[order[0]] for place in ordered.table()]
    assert fast[:width] == list(range(width))
    # neighbouring lanes follow each other along the contiguous axis until it ends
    extent = (rows, columns)[order[0]]
    for lane in range(min(32, max(extent // vector, 1))):
        assert layout.apply(lane=lane)[order[0]] == lane * min(vector, extent)


def test_blocked_example():
    assert str(blocked((64, 64), vector=8, warps=4)) == (
        "[64, 64] register (0,1) (0,2) (0,4) (16,0) (32,0); lane (0,8) (0,16) (0,32) (1,0) (2,0); "
        "warp (4,0) (8,0)"
    )


def test_blocked_across_holds_a_small_block_in_each_thread():
    layout = blocked((64, 64), vector=4, warps=4, across=4)
    assert set(layout.table()[:16]) == set(product(range(4), range(4)))
    assert layout.is_surjective and layout.is_injective


def test_slice_example():
    sliced = ACCUMULATOR.slice(1)
    assert sliced.free_bits("lane") == 0b00011
    assert sliced.free_bits("register") == 0b1101
    assert sliced.without_replicas().table() == ((0, 0), (8, 0))


def test_vector_width_takes_registers_in_any_order():
    layout = Linear.of((4, 8), register=[(1, 0), (0, 2), (0, 1), (2, 0)], lane=[(0, 4)])
    assert vector_width(layout, 1) == (4, (2, 1, 0, 3))
    assert vector_width(layout, 0) == (4, (0, 3, 1, 2))
    assert reorder_registers(layout, (2, 1, 0, 3)).table()[:4] == ((0, 0), (0, 1), (0, 2), (0, 3))


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Linear.of((3, 4)), r"powers of two, found \[3, 4\]"),
        (lambda: Linear.of((2, 4), lane=[(2, 0)]), r"lane basis \(2, 0\) is outside of \[2, 4\]"),
        (lambda: ACCUMULATOR.apply(lane=32), "lane 32 is outside of 0 to 31"),
        (lambda: ACCUMULATOR.slice(2), "found 2"),
        (lambda: ACCUMULATOR.reshaped((4, 4)), "not as many elements"),
        (lambda: ACCUMULATOR.rename("thread", "lane"), "there is no input thread"),
        (lambda: ACCUMULATOR.compose(ACCUMULATOR), "only a map of row and column composes"),
        (lambda: blocked((4, 4), vector=3), "vector must be a power of two, found 3"),
        (lambda: blocked((4, 4), order=(1, 1)), "order names both axes"),
        (lambda: reorder_registers(ACCUMULATOR, (0, 1)), "each of the 4 register bits once"),
    ],
)
def test_errors_say_what_is_wrong(make, text):
    with pytest.raises(ValueError, match=text):
        make()
