"""Coalescing, composing, complements and inverses: their laws on every small layout."""

from itertools import pairwise

import pytest
from small_layouts import COMPACT, EVERY, POWERS, STRIDED, table

from gizml_tile.layout import (
    E,
    Layout,
    Swizzle,
    coalesce,
    complement,
    composition,
    cosize,
    get_leaves,
    left_inverse,
    make_composed_layout,
    make_identity_layout,
    make_tile,
    rank,
    right_inverse,
    size,
)


def test_coalescing_keeps_the_function_and_leaves_no_modes_to_merge():
    for layout in EVERY:
        small = coalesce(layout)
        assert table(small) == table(layout)
        leaves = list(zip(get_leaves(small.shape), get_leaves(small.stride), strict=True))
        assert small.shape == 1 or all(extent > 1 for extent, _ in leaves)
        for (extent, step), (_, following) in pairwise(leaves):
            assert extent * step != following
    assert str(coalesce(Layout((2, 4), (1, 2)))) == "8:1"
    assert str(coalesce(Layout((2, (1, 6)), (1, (6, 2))))) == "12:1"


def test_coalescing_by_a_profile_keeps_the_top_modes():
    for layout in EVERY:
        if rank(layout) > 1:
            kept = coalesce(layout, (1,) * rank(layout))
            assert rank(kept) == rank(layout)
            assert table(kept) == table(layout)
    assert str(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1))) == "(2,6):(1,2)"
    swizzled = make_composed_layout(Swizzle(1, 0, 1), Layout((2, 4), (1, 2)))
    assert str(coalesce(swizzled)) == "S<1,0,1> o 0 o 8:1"


def composed_or_none(first, second):
    try:
        return composition(first, second)
    except ValueError as error:
        assert "is no layout" in str(error)
        return None


def test_composition_is_the_function_of_the_function():
    """Wherever the inner results stay inside of the outer layout; beyond it only the tiles' bounds count."""
    found = refused = 0
    for first in [*COMPACT[:60:4], *STRIDED[::120]]:
        for second in STRIDED[::17]:
            if cosize(second) > size(first):
                continue
            result = composed_or_none(first, second)
            if result is None:
                refused += 1
                continue
            found += 1
            assert table(result) == [first(index) for index in table(second)], f"{first} after {second}"
    assert found > refused > 0


def test_composition_of_powers_of_two_is_always_a_layout():
    for first in POWERS[::7]:
        for second in POWERS[::5]:
            once = len(set(table(second))) * zero_extents(second) == size(second)
            if once and cosize(second) <= size(first):
                result = composition(first, second)
                assert table(result) == [first(index) for index in table(second)]
                if rank(second) > 1:
                    assert [size(part) for part in modes(result)] == [size(part) for part in modes(second)]


def modes(layout):
    return layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)


def test_composition_refuses_only_what_no_strides_can_tell():
    """A refused leaf really has steps that differ, in a way that no split of its extent explains."""
    first, second = Layout((4, 3), (1, 10)), Layout(3, 3)
    with pytest.raises(ValueError, match=r"\(4,3\):\(1,10\) after 3:3 is no layout: 3:3 does not fit"):
        composition(first, second)
    assert [first(index) for index in table(second)] == [0, 3, 12]
    first, second = Layout((2, 2), (2, 1)), Layout((2, 2), (1, 1))
    with pytest.raises(ValueError, match="overlaps other modes"):
        composition(first, second)
    assert [first(index) for index in table(second)] == [0, 2, 2, 1]
    # Inside of one mode nothing has to divide.
    assert str(composition(Layout((10, 3), (2, 50)), Layout(3, 3))) == "3:6"


@pytest.mark.parametrize(
    "first, second, expected",
    [
        (Layout((6, 9), (19, 69)), Layout((6, 3), (3, 1)), "((2,3),3):((57,69),19)"),
        (Layout((4, 8), (1, 4)), Layout((2, 4), (1, 2)), "(2,4):(1,2)"),
        (Layout((4, 8), (1, 4)), 8, "8:1"),
        (
            Layout((12, (4, 8)), (59, (13, 1))),
            make_tile(Layout(3, 4), Layout(8, 2)),
            "(3,(2,4)):(236,(26,1))",
        ),
        (Layout((12, (4, 8)), (59, (13, 1))), make_tile(3, 8), "(3,(4,2)):(59,(13,1))"),
        (Layout((4, 8), (1, 4)), make_tile(None, 2), "(4,2):(1,4)"),
        (Layout((4, 8), (1, 4)), make_tile(2), "(2,8):(1,4)"),
        (make_identity_layout((4, 8)), Layout((2, 4), (1, 8)), "(2,4):(E0,2E1)"),
        (Layout((4, 8), (10, 100)), make_identity_layout((4, 8)), "(4,8):(10,100)"),
        (Layout((4, 8), (10, 100)), Layout((8, 2), (E(1), 2 * E(0))), "(8,2):(100,20)"),
    ],
)
def test_composition_examples(first, second, expected):
    assert str(composition(first, second)) == expected


def test_composition_with_swizzles():
    swizzle, layout = Swizzle(1, 0, 2), Layout((4, 2), (2, 1))
    assert table(composition(swizzle, layout)) == [swizzle(index) for index in table(layout)]
    swizzled = composition(swizzle, Layout((4, 8), (8, 1)))
    rows = Layout((2, 8), (2, 4))
    assert table(composition(swizzled, rows)) == [swizzled(index) for index in table(rows)]
    outer = Layout((4, 8), (8, 1))
    assert table(composition(outer, composition(swizzle, layout))) == [
        outer(swizzle(index)) for index in table(layout)
    ]


def test_a_complement_fills_the_gaps_once_and_in_order():
    for layout in EVERY[::3]:
        reached = sorted(set(table(layout)))
        steps = [step for step in get_leaves(layout.stride) if step]
        for target in (1, cosize(layout), 24, 2 * cosize(layout)):
            try:
                rest = complement(layout, target)
            except ValueError as error:
                assert "overlap" in str(error)
                assert steps
                continue
            together = sorted(index + other for index in reached for other in table(rest))
            assert together == list(range(len(together))), f"{layout} with {rest}"
            assert len(together) >= target
            assert table(rest) == sorted(table(rest))
            assert rest == coalesce(rest)
    assert str(complement(Layout(4, 2), 24)) == "(2,3):(1,8)"
    assert str(complement(Layout((3, 2), (2, 1)), 12)) == "2:6"
    assert str(complement(Layout(4, 1))) == "1:0"
    assert str(complement(Layout(4, 1), (4, 8))) == "8:4"


def test_a_complement_is_refused_only_where_none_exists():
    for layout in POWERS:
        reached = sorted(set(table(layout)))
        # In powers of two the gaps can be filled exactly where no index is reached twice by its strides.
        twice = len(reached) * zero_extents(layout) != size(layout)
        if twice:
            with pytest.raises(ValueError, match="overlap"):
                complement(layout, 64)
        else:
            complement(layout, 64)


def zero_extents(layout):
    product = 1
    for extent, step in zip(get_leaves(layout.shape), get_leaves(layout.stride), strict=True):
        product *= extent if step == 0 else 1
    return product


def test_the_right_inverse_finds_the_coordinate_of_each_index():
    for layout in EVERY:
        inverse = right_inverse(layout)
        assert [layout(place) for place in table(inverse)] == list(range(size(inverse)))
    for layout in COMPACT:
        assert size(right_inverse(layout)) == size(layout)
    assert str(right_inverse(Layout((4, 8), (8, 1)))) == "(8,4):(4,1)"
    assert str(right_inverse(Layout((4, 8), (1, 8)))) == "4:1"
    assert str(right_inverse(Layout(4, 2))) == "1:0"


def test_the_left_inverse_gives_each_coordinate_back():
    served = 0
    for layout in EVERY:
        try:
            inverse = left_inverse(layout)
        except ValueError:
            continue
        served += 1
        assert [inverse(index) for index in table(layout)] == list(range(size(layout))), layout
    assert served > len(COMPACT) + 200
    assert str(left_inverse(Layout(4, 2))) == "(2,4):(0,1)"
    for layout in POWERS:
        if len(set(table(layout))) == size(layout):
            left_inverse(layout)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: coalesce(Layout(4, 1), (1, 1)), "has more modes than 4:1"),
        (lambda: composition(Layout(4, 1), (2, 2)), "a tile of 2 parts is for as many modes or more"),
        (lambda: complement(make_identity_layout((2, 2)), 8), "complement needs strides that are numbers"),
        (lambda: complement(Layout((2, 2), (1, 1)), 8), r"the strides of \(2,2\):\(1,1\) overlap at 2:1"),
        (lambda: left_inverse(Layout((2, 2), (1, 0))), "needs a layout that reaches no index twice"),
        (lambda: left_inverse(Layout((4, 4), (1, 2))), "overlap at 4:2"),
        (lambda: right_inverse(make_identity_layout((2, 2))), "right_inverse needs strides that are numbers"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
