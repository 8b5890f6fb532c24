"""Loops in which a product takes what is computed of another's result, by groups of four warps."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.expand.carried import carried, define_carried, define_results
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.issue import issue
from gizml_tile.lowering.expand.specialised.ring import BulkRing, bulk_rings
from gizml_tile.lowering.expand.specialised.rotated import ExpandNodes, Rotated
from gizml_tile.lowering.expand.specialised.together import among_others
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.nodes import Node


def is_chained(x: Expansion, product: Node) -> bool:
    """Whether a product stands in a loop with chained products."""
    assert x.plan.specialised is not None
    return any(product in loop.regions[0].nodes for loop in x.plan.specialised.chained)


def expand_chained_loop(x: Expansion, loop: Node, expand: ExpandNodes) -> None:
    """A loop whose products wait for their own blocks and give them back."""
    assert x.plan.specialised is not None
    rotation, rings = x.plan.specialised.chained[loop], bulk_rings(x, loop)
    params = loop.regions[0].params[1:]
    inits = [carried(x, init, param) for init, param in zip(loop.args[3:], params, strict=True)]
    with x.memory.repeated(), among_others(x, loop, rings):
        if rotation is None:
            finals = _in_order(x, loop, rings, inits, expand)
        else:
            finals = Rotated(x, loop, rotation, rings, inits, expand).turns()
        for ring, state in zip(rings, finals[len(inits) :], strict=True):
            ring.state = state
    define_results(x, loop, finals)


def _in_order(
    x: Expansion, loop: Node, rings: Sequence[BulkRing], inits: Sequence[Value], expand: ExpandNodes
) -> Sequence[Value]:
    """One turn after the other."""
    start, stop, step = (x.index(arg) for arg in loop.args[:3])
    region = loop.regions[0]

    def turn(counter: Value, values: tuple[Value, ...]) -> Sequence[Value]:
        with x.block():
            x.define_index(region.params[0], counter)
            for ring, state in zip(rings, values[len(inits) :], strict=True):
                ring.state = state
            for param, value in zip(region.params[1:], values, strict=False):
                define_carried(x, param, value)
            expand(x, region.nodes)
            results = [carried(x, *pair) for pair in zip(region.results, region.params[1:], strict=True)]
            return [*results, *(ring.state for ring in rings)]

    return x.build.loop(start, stop, step, [*inits, *(ring.state for ring in rings)], turn)


def expand_chained_product(x: Expansion, product: Node) -> Value:
    """``c + a @ b`` in the layout of the groups' result; it is there when this returns."""
    rings = [ring for loop in x.plan.specialised.chained for ring in bulk_rings(x, loop)]  # type: ignore[union-attr]
    rings = [ring for ring in rings if ring.users]
    for ring in rings:
        if ring.users[0] is product:
            ring.take()
    total = issue(x, product)
    x.build.emit("group_wait", attr=0)
    for ring in rings:
        if ring.users[-1] is product:
            ring.give()
    return total
