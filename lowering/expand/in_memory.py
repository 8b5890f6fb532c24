"""Elementwise operations on tiles in workgroup memory, slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gizml_tile.layout import Access as Side
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import store_block, view_of
from gizml_tile.lowering.expand.shared import load_side, moved_registers, shared_side, store_side
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import Chain
from gizml_tile.nodes import Node

# Registers that go from workgroup memory to a tensor at once.
_AT_ONCE = 32


def expand_chain(x: Expansion, put: Node) -> None:
    """Make a put's tile in workgroup memory, over an operand that nothing else needs, and store it."""
    chain = x.plan.chains[put.args[0]]
    shared = _made(x, chain, put)
    x.memory.before_read(shared.buffer)
    layout = x.plan.accesses[put].layout.linear
    side = shared_side(layout, shared.tile)

    def given(registers: Sequence[int]) -> Value:
        wanted = set(registers)
        part = replace(side, groups=tuple(each for each in side.groups if wanted.intersection(each[1])))
        loaded = load_side(x.build, shared.buffer, part, shared.tile.dtype)
        moved = moved_registers(part)
        return x.build.pick(loaded, [moved.index(register) for register in registers])

    store_block(x, put, given, _AT_ONCE)
    if chain.results[put][1] is None:
        x.memory.release(shared.buffer)


def _made(x: Expansion, chain: Chain, put: Node) -> Shared:
    """The tile of a put in workgroup memory."""
    result = put.args[0]
    tile, over = chain.results[put]
    if over is None:
        buffer = x.memory.allocate("elementwise result", tile.dtype, tile.elements)
        x.memory.before_write(buffer)
    else:
        buffer = x.shared(over).buffer
        x.memory.in_place(buffer)
    dtype = x.program.tensors[view_of(put).tensor].dtype
    side = shared_side(chain.layout.linear, tile)
    for first in range(0, chain.layout.registers, chain.vector):
        value = storage.convert(x.build, x.target, _slice(x, chain, result, first, {}), dtype)
        stored = x.build.spread(storage.to_storage(x.build, value), chain.vector)
        store_side(x.build, buffer, _within(side, first, chain.vector), stored)
    return Shared(buffer, tile, None)


def _slice(x: Expansion, chain: Chain, node: Node, first: int, known: dict[Node, Value]) -> Value:
    """The registers of a tile from ``first`` on that a thread works on at once, or one for all."""
    if node in known:
        return known[node]
    if node in x.plan.stages:
        shared = x.shared(node)
        side = _within(shared_side(chain.layout.linear, shared.tile), first, chain.vector)
        loaded = load_side(x.build, shared.buffer, side, shared.tile.dtype, shared.base)
        moved = moved_registers(side)
        value = x.build.pick(loaded, [moved.index(number) for number in range(chain.vector)])
    elif node in x.plan.chains:
        with x.at(node):
            args = [_slice(x, chain, arg, first, known) for arg in node.args]
            value = expand_elementwise(x.build, x.target, node, args)
    else:
        value = x.operand(node, chain.layout)
        if value.count > 1:
            value = x.build.pick(value, range(first, first + chain.vector))
    known[node] = value
    return value


def _within(side: Side, first: int, count: int) -> Side:
    """The part of a side that moves ``count`` registers from ``first`` on, which are counted from there."""
    groups = [
        (offset, tuple(register - first for register in registers))
        for offset, registers in side.groups
        if first <= registers[0] < first + count
    ]
    return replace(side, groups=tuple(groups))
