"""Tiles that are made where they are wanted, and elementwise operations in their home."""

from __future__ import annotations

from gizml_tile.dtypes import I32, math_dtype
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import fragment_from_shared
from gizml_tile.lowering.expand.functions import power
from gizml_tile.lowering.expand.places import coordinate
from gizml_tile.lowering.expand.random import expand_random
from gizml_tile.lowering.expand.specialised.masks import guarded_select
from gizml_tile.lowering.expand.storage import convert
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.lowering.planning.scales import scaled
from gizml_tile.nodes import Const, Node, Scalar


def make_tile(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """A tile's registers in a layout, from its operands in the same layout."""
    build = x.build
    with x.at(node):
        match node.op:
            case "const":
                assert isinstance(node.attr, Const)
                return _constant(x, node.attr)
            case "iota":
                assert isinstance(node.attr, Const)
                return _iota(x, node.attr, layout)
            case "value":
                return expand_elementwise(build, x.target, node, [x.index(node.args[0])])
            case "scalar":
                assert isinstance(node.attr, Scalar)
                return x.scalar(x.program.scalars.index(node.attr), node.attr.dtype)
            case "random":
                return expand_random(x, node, layout)
            case "read":
                # A block that products take from workgroup memory, and something computes on.
                return fragment_from_shared(x, x.shared(node), layout)
        if all(arg.is_index for arg in node.args):
            return x.index(node)
        if x.plan.specialised is not None and node in x.plan.specialised.guarded:
            return guarded_select(x, node, layout)
        if x.plan.specialised is not None and node in x.plan.specialised.powers:
            larger, less = node.args[0].args
            tile, factor = scaled(larger) or (larger, 1.0)
            return power(build, x.operand(tile, layout), factor, x.operand(less, layout))
        return expand_elementwise(build, x.target, node, [x.operand(arg, layout) for arg in node.args])


def _constant(x: Expansion, const: Const) -> Value:
    if const.dtype.is_float:
        # Held as it would be in memory, so that later operations see a storage type's rounded value.
        wide = x.build.constant(float(const.value), math_dtype(const.dtype))
        return convert(x.build, x.target, wide, const.dtype)
    return x.build.constant(const.value, const.dtype)


def _iota(x: Expansion, const: Const, layout: TileLayout) -> Value:
    assert isinstance(const.value, int)
    thread, registers = coordinate(x.build, layout.linear, const.value)
    number = x.build.add(thread, x.build.constant(registers, I32))
    return convert(x.build, x.target, x.build.spread(number, layout.registers), const.dtype)
