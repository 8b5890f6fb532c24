"""Products: their operands' way to the fragments of the matrix units."""

from __future__ import annotations

from gizml_tile.dtypes import DType
from gizml_tile.layout import Linear, Renaming, Unchanged, blocked
from gizml_tile.lowering.expand.convert import cheapest, convert, perform
from gizml_tile.lowering.expand.dot import expand_dot
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.sources import Registers, Shared, Source
from gizml_tile.lowering.expand.specialised.chained import expand_chained_product, is_chained
from gizml_tile.lowering.expand.specialised.product import expand_group_product
from gizml_tile.lowering.expand.storage import convert as convert_dtype
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import Dot, TileLayout
from gizml_tile.lowering.planning.shared import shared_tile
from gizml_tile.nodes import Node


def expand_product(x: Expansion, node: Node) -> Value:
    """A product in the home of its node; what it adds to is moved to the product's layout first."""
    dot = x.plan.dots[node]
    home = x.home(node)
    assert home is not None
    if dot.groups and is_chained(x, node):
        return expand_chained_product(x, node)
    if dot.groups:
        return expand_group_product(x, node)
    sources: list[Source] = []
    scratch: list[int] = []
    for arg, layout, dtype in zip(node.args[:2], (dot.a, dot.b), dot.operands, strict=True):
        sources.append(_source(x, dot, arg, layout, dtype, scratch))
    c = x.registers(node.args[2], dot.c) if len(node.args) == 3 else None
    x.memory.before_read(*scratch)
    result = expand_dot(x, node, sources[0], sources[1], c)
    for buffer in scratch:
        x.memory.release(buffer)
    return result if home.linear == dot.c.linear else convert(x, result, dot.c, home)


def _source(
    x: Expansion, dot: Dot, arg: Node, layout: TileLayout, dtype: DType, scratch: list[int]
) -> Source:
    """Where an operand is taken from: its block in workgroup memory, its registers, or a buffer for it."""
    found = operand(arg)
    home = x.home(found.node)
    if found.node in x.plan.stages and (home is None or _turned(home, found.transposed) != layout.linear):
        shared = x.shared(found.node)
        return shared.transposed() if found.transposed else shared
    if home is None or found.node.shape == (1, 1):
        # Made where it is wanted: in the fragments, or in any spread on its way to a buffer.
        shape = (arg.shape[0], arg.shape[1])
        spread = blocked(shape, lanes=x.target.facts.lanes, warps=x.plan.warps)
        there = layout if dot.atom is not None else TileLayout("blocked", spread)
        own = there.transposed() if found.transposed else there
    else:
        own = home
        there = home.transposed() if found.transposed else home
    value = x.registers(found.node, own)
    assert value.dtype is not None
    way = cheapest(there.linear, layout.linear, value.dtype.bytes, x.target.facts.banks)
    if dot.atom is not None and isinstance(way, Unchanged | Renaming):
        return Registers(convert_dtype(x.build, x.target, perform(x, value, way), dtype), layout)
    tile = shared_tile(value.dtype, (arg.shape[0], arg.shape[1]), 1)
    buffer = x.memory.allocate("operand of a product", value.dtype, tile.elements)
    scratch.append(buffer)
    x.memory.before_write(buffer)
    store_shared(x, buffer, tile, None, value, there)
    return Shared(buffer, tile, None)


def _turned(home: TileLayout, transposed: bool) -> Linear:
    return home.linear.transposed() if transposed else home.linear
