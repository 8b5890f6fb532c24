"""What loops and branches carry: values in the homes of the nodes that take them."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.reduce import whole
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.nodes import Node


def carried(x: Expansion, node: Node, like: Node) -> Value:
    """A node's value in the form in which ``like`` has it in the block that takes it."""
    if node.is_index:
        return x.index(node)
    home = x.home(like)
    assert home is not None, like
    return x.registers(node, home)


def define_carried(x: Expansion, node: Node, value: Value) -> None:
    if node.is_index:
        x.define_index(node, value)
    else:
        x.define(node, value)


def define_results(x: Expansion, node: Node, finals: Sequence[Value]) -> None:
    for number in range(len(node.regions[0].results)):
        result, value = x.result_of(node, number), finals[number]
        if result.op == "result":
            if node.op == "loop":
                value = whole(x, node.regions[0].params[1 + number], value)
            define_carried(x, result, value)
