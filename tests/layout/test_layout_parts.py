"""Layouts of parts and of tiles joined: every holder has the element that it should, by brute force."""

from __future__ import annotations

import random
from itertools import product

import pytest

from gizml_tile.layout import Linear, blocked
from gizml_tile.layout.parts import alone, around, halves, joined, line, part, turned

LAYOUTS = [
    blocked((8, 64), (1, 0), 4, 32, 4),
    blocked((64, 8), (0, 1), 2, 32, 2),
    blocked((1, 64), (1, 0), 2, 32, 1),
    blocked((16, 16), (1, 0), 8, 32, 4),
    Linear.of((8, 4), register=[(0, 1), (4, 2)], lane=[(1, 0), (2, 0), (0, 2)], warp=[(0, 0)]),
    Linear.of((4, 8), register=[(0, 1), (0, 4), (2, 0)], lane=[(0, 2), (1, 0)], warp=[]),
]


def strides(size):
    """Everything that may be taken of an axis in steps of 1, 2 or 4 either way."""
    counts = [1 << bit for bit in range(size.bit_length())]
    for start, step, count in product(range(size), (1, 2, 4, -1, -2), counts):
        last = start + step * (count - 1)
        if 0 <= last < size and not (count == 1 and step != 1):
            yield start, step, count


def threads(layout):
    return product(range(layout.size("lane")), range(layout.size("warp")))


def ascending(stride):
    start, step, count = stride
    return sorted(start + step * number for number in range(count))


@pytest.mark.parametrize("whole", LAYOUTS, ids=str)
def test_registers_of_a_part_hold_it(whole):
    found = 0
    choices = random.Random(0)
    pairs = list(product(*map(strides, whole.shape)))
    pairs = [(rows, columns) for rows, columns in pairs if rows[2] * columns[2] * 4 >= whole.elements]
    for rows, columns in choices.sample(pairs, min(len(pairs), 300)):
        inner = part(whole, rows, columns)
        if inner is None:
            continue
        found += 1
        row_of, column_of = ascending(rows), ascending(columns)
        assert inner.linear.shape == (rows[2], columns[2])
        for lane, warp in threads(whole):
            held, here = whole.table(lane=lane, warp=warp), inner.linear.table(lane=lane, warp=warp)
            assert [held[register] for register in inner.registers] == [
                (row_of[row], column_of[column]) for row, column in here
            ]
    assert found


@pytest.mark.parametrize("whole", LAYOUTS, ids=str)
def test_a_row_or_column_is_held_by_the_threads_that_are_told(whole):
    """All of it, by threads whose own part of the coordinate is the one that is told, and by no others."""
    turned_both_ways = any(all(basis) for basis in whole.bases("register"))
    rows, columns = whole.shape
    for axis, place in [*((0, row) for row in range(rows)), *((1, column) for column in range(columns))]:
        held = line(whole, axis, place)
        assert (held is None) == turned_both_ways
        if held is None:
            continue
        assert held == line(whole, axis, place - whole.shape[axis])
        reached = set()
        for lane, warp in threads(whole):
            own = whole.apply(lane=lane, warp=warp)[axis]
            table, here = whole.table(lane=lane, warp=warp), held.linear.table(lane=lane, warp=warp)
            of_line = [each for each in table if each[axis] == place]
            if own != held.thread:
                assert not of_line
                continue
            assert [table[register] for register in held.registers] == of_line
            assert [each[1 - axis] for each in of_line] == [each[1 - axis] for each in here]
            reached.update(of_line)
        assert len(reached) == whole.shape[1 - axis]


@pytest.mark.parametrize("inner", LAYOUTS, ids=str)
def test_a_tile_laid_out_around_a_part_keeps_it(inner):
    rows, columns = inner.shape
    cases = {
        (2 * rows, columns): ((rows, 1, rows), (0, 1, columns)),
        (rows, 4 * columns): ((0, 1, rows), (2 * columns, 1, columns)),
        (rows, 2 * columns): ((rows - 1, -1, rows), (1, 2, columns)),
    }
    for shape, strides in cases.items():
        whole = around(inner, shape, *strides)
        assert whole is not None and whole.is_surjective
        kept = part(whole, *strides)
        assert kept is not None and kept.linear == inner
    assert around(inner, (4 * rows, columns), (rows // 2, 1, rows), (0, 1, columns)) is None or rows == 1


@pytest.mark.parametrize("half", LAYOUTS, ids=str)
def test_joined_tiles_come_apart_again(half):
    for axis, in_turn in product((0, 1), (False, True)):
        whole = joined(half, axis, in_turn)
        assert whole.is_surjective
        assert halves(whole, axis, in_turn) == (half, half.bits("register"))
        for lane, warp in threads(half):
            held = half.table(lane=lane, warp=warp)
            both = whole.table(lane=lane, warp=warp)
            for number, place in enumerate(both):
                tile, register = divmod(number, len(held))
                expected = list(held[register])
                size = half.shape[axis]
                expected[axis] = 2 * expected[axis] + tile if in_turn else expected[axis] + tile * size
                assert place == tuple(expected)


def test_halves_that_threads_tell_apart_are_none():
    layout = LAYOUTS[0]
    assert alone(layout, 1, 1) == 0
    assert halves(layout, 1, in_turn=False) is None
    assert part(layout, (0, 1, 8), (32, 1, 32)) is None
    # The register (4, 2) moves two bits at once.
    assert alone(LAYOUTS[4], 0, 4) is None


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_turned_holders_hold_the_mirrored_element(layout):
    rows, columns = layout.shape
    for mask in ((rows - 1, 0), (0, columns - 1), (rows - 1, columns - 1)):
        found = turned(layout, mask)
        if found is None:
            assert any(layout.bases("warp"))
            continue
        register, lane = found
        for each, warp in threads(layout):
            here = layout.table(lane=each, warp=warp)
            there = layout.table(lane=each ^ lane, warp=warp)
            for number, (row, column) in enumerate(here):
                assert there[number ^ register] == (row ^ mask[0], column ^ mask[1])
