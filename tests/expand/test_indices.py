"""Which program of the grid a line's number stands for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from expansion_kernels import LANES, empty_program, expansion, give, run, take

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.expand import indices
from gizml_tile.lowering.planning.signature import Signature
from gizml_tile.nodes import Region, TileProgram, make

REGISTERS = 4


def places(lines, sizes, group, monkeypatch):
    """The place along each axis, for each of some numbers in the line of a grid's programs."""
    empty = empty_program(I32, I64, I64, I64)
    ids = tuple(make("id", attr=axis) for axis in range(3))
    program = TileProgram("test", empty.tensors, (), (), Region((), ids, ()))
    signature = Signature((("unit",),) * 4, (16,) * 4, (), len(sizes), False, False)
    x = expansion(program, signature=signature)
    monkeypatch.setattr(indices, "size_of", lambda x, axis: x.build.constant(sizes[axis], I32))
    found = []
    for first in range(0, len(lines), LANES * REGISTERS):
        part = np.zeros(LANES * REGISTERS, np.int32)
        some = lines[first : first + len(part)]
        part[: len(some)] = some
        arrays = [part, *(np.zeros(len(part), np.int64) for _ in ids)]
        x = expansion(program, signature=signature)
        indices.define_ids(x, group, take(x, 0, REGISTERS, I32))
        for number, node in enumerate(ids):
            give(x, 1 + number, x.build.spread(x.index(node), REGISTERS))
        assert not [each for each in run(x, *arrays) if not each.is_cost]
        found += list(zip(*(map(int, each[: len(some)]) for each in arrays[1:]), strict=True))
    return found


def in_groups(sizes, group):
    """The programs as the docstring tells their order."""
    rows, columns, outer = (*sizes, 1, 1)[:3]
    for plane, first in itertools.product(range(outer), range(0, columns, group)):
        last = min(first + group, columns)
        yield from ((row, column, plane) for row in range(rows) for column in range(first, last))


@pytest.mark.parametrize("sizes", [(3, 4), (1, 1), (5, 8), (4, 17), (1, 9, 3), (6, 5, 2)])
@pytest.mark.parametrize("group", [2, 8])
def test_groups_go_through_all_programs(sizes, group, monkeypatch):
    expected = list(in_groups(sizes, group))
    assert len(set(expected)) == np.prod(sizes)
    assert places(list(range(len(expected))), sizes, group, monkeypatch) == expected


@pytest.mark.parametrize(
    "sizes", [(2**28 + 3, 7), (2**29 + 5, 3), (2**30, 1), (2**31 - 1, 1), (2, 2**30 - 1), (2**20, 3, 600)]
)
def test_numbers_of_many_programs_do_not_overflow(sizes, monkeypatch):
    rows, columns, outer = (*sizes, 1)[:3]
    total, group = rows * columns * outer, 8
    edges = [0, 1, rows, columns, rows * columns, group * rows, total // 2, total]
    random = np.random.default_rng(0).integers(0, total, 64)
    near = (edge + step for edge in edges for step in (-1, 0, 1))
    lines = [*(line for line in near if 0 <= line < total), *map(int, random)]
    expected = []
    for line in lines:
        plane, within = divmod(line, rows * columns)
        first = within // (group * rows) * group
        row, column = divmod(within - first * rows, min(group, columns - first))
        expected.append((row, first + column, plane))
    assert places(lines, sizes, group, monkeypatch) == expected
