"""Elementwise operations on tiles in workgroup memory, slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gizml_tile.layout import Access as Side
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import store_block, view_of
from gizml_tile.lowering.expand.shared import load_side, moved_registers, shared_side, store_side
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import Chain, SharedTile
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
    # What comes from registers may move through workgroup memory, with barriers of its own: before all else.
    _bring(x, chain, result, set())
    if over is None:
        buffer = x.memory.allocate("elementwise result", tile.dtype, tile.elements)
        x.memory.before_write(buffer)
    else:
        buffer = x.shared(over).buffer
        x.memory.in_place(buffer)
    dtype = x.program.tensors[view_of(put).tensor].dtype
    for first in range(0, chain.layout.registers, chain.vector):
        value = storage.convert(x.build, x.target, _slice(x, chain, result, first, {}), dtype)
        stored = x.build.spread(storage.to_storage(x.build, value), chain.vector)
        store_side(x.build, buffer, _side(chain, tile, first), stored)
    return Shared(buffer, tile, None)


def _bring(x: Expansion, chain: Chain, node: Node, seen: set[Node]) -> None:
    """Have the operands that are not in workgroup memory in the layout in which threads work."""
    if node in seen or node in x.plan.stages:
        return
    seen.add(node)
    if node in x.plan.chains:
        for arg in node.args:
            _bring(x, chain, arg, seen)
    else:
        x.operand(node, chain.layout)


def _slice(x: Expansion, chain: Chain, node: Node, first: int, known: dict[Node, Value]) -> Value:
    """The registers of a tile from ``first`` on that a thread works on at once, or one for all."""
    if node in known:
        return known[node]
    if node in x.plan.stages:
        shared = x.shared(node)
        side = _side(chain, shared.tile, first)
        with x.at(node):
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


def _side(chain: Chain, tile: SharedTile, first: int) -> Side:
    """How a thread loads or stores the registers from ``first`` on that it works on at once."""
    linear = chain.layout.linear
    bits = bit_length(chain.vector)
    side = shared_side(linear.with_bases("register", linear.bases("register")[:bits]), tile)
    start = tile.offset(*linear.table("register")[first])
    return replace(side, groups=tuple((offset ^ start, registers) for offset, registers in side.groups))
