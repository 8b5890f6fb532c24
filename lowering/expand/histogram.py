"""Counts of values: workgroup memory with one number for each, to which every thread adds its elements."""

from __future__ import annotations

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import holder
from gizml_tile.lowering.expand.shared import load_shared
from gizml_tile.lowering.expand.storage import convert, to_math
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.along import counting_layout
from gizml_tile.lowering.planning.plan import UNIFORM, SharedTile
from gizml_tile.nodes import Node


def expand_histogram(x: Expansion, node: Node) -> Value:
    """The registers of the counts in their home."""
    build, bins = x.build, node.shape[1]
    counts = x.memory.allocate("counts", I32, bins)
    x.memory.before_write(counts)
    _clear(x, counts, bins)
    # Everyone's zeros are there before anyone adds, and everyone has added before anyone looks.
    x.memory.before_read(counts)
    _add(x, node.args[0], counts, bins)
    x.memory.in_place(counts)
    x.memory.before_read(counts)
    tile = SharedTile(I32, (1, bins), (), tuple(1 << bit for bit in range(bins.bit_length() - 1)), "a row")
    home = UNIFORM if bins == 1 else x.home(node)
    assert home is not None, node
    found = load_shared(x, counts, tile, None, home)
    x.memory.release(counts)
    return build.spread(found, home.registers)


def _clear(x: Expansion, counts: int, bins: int) -> None:
    build, threads = x.build, x.plan.threads
    offsets = build.add(build.thread(), build.constant(list(range(0, bins, threads)), I32))
    within = build.map("lt", offsets, build.constant(bins, I32)) if bins < threads else None
    places = tuple((number, 0) for number in range(offsets.count))
    zeros = build.spread(build.constant(0, I32), len(places))
    build.store(Access(WORKGROUP, counts, 1, places), zeros, offsets, within)


def _add(x: Expansion, operand: Node, counts: int, bins: int) -> None:
    """One more for each element that is a bin, by one of its holders."""
    build = x.build
    layout = counting_layout(operand, x.home, x.target, x.plan.warps)
    value = to_math(build, x.target, x.registers(operand, layout))
    mine: Value | None
    if operand.shape == (1, 1):
        mine = build.map("eq", build.thread(), build.constant(0, I32))
    else:
        linear = layout.linear
        mine = holder(build, linear.free_bits("lane"), linear.free_bits("warp"))
    dtype = value.dtype
    assert dtype is not None
    low = build.map("ge", value, build.constant(0, dtype))
    high = build.map("lt", value, build.constant(bins, dtype))
    counted = build.both(mine, low, high)
    assert counted is not None
    offsets = convert(build, x.target, value, I32)
    access = Access(WORKGROUP, counts, 1, tuple((n, 0) for n in range(offsets.count)), combine="add")
    build.atomic(access, build.constant(1, I32), offsets, counted)
