"""Loops and branches, and every node of a block in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gizml_tile.lowering.expand.carried import carried, define_carried, define_results
from gizml_tile.lowering.expand.combine import expand_combining
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.elements import expand_gather, expand_scatter, load_element
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.histogram import expand_histogram
from gizml_tile.lowering.expand.in_memory import expand_chain
from gizml_tile.lowering.expand.memory import expand_put, expand_read, meet
from gizml_tile.lowering.expand.moves import expand_move
from gizml_tile.lowering.expand.overlaps import expand_overlap
from gizml_tile.lowering.expand.parked import park
from gizml_tile.lowering.expand.products import expand_product
from gizml_tile.lowering.expand.reduce import expand_reduce
from gizml_tile.lowering.expand.sort import expand_sort
from gizml_tile.lowering.expand.specialised import (
    TurnAhead,
    add_columns,
    add_first,
    cluster_of,
    expand_chained_loop,
    fetch_early,
    first_alone,
    give_once,
    is_shared,
    keep,
    read_beside,
    store_in_bulk,
    take_once,
    turns_of,
)
from gizml_tile.lowering.expand.staging import last_uses, open_ring, stage_here
from gizml_tile.lowering.expand.values import make_tile
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import UNIFORM, TileLayout
from gizml_tile.nodes import EARLY, MOVES, Node, Region


def expand_region(x: Expansion, region: Region) -> None:
    """Every node of a region, in program order."""
    cluster, nodes = cluster_of(x), region.nodes
    if cluster is None or cluster.columns or cluster.loop not in nodes:
        expand_nodes(x, nodes)
        return
    after = nodes.index(cluster.loop) + 1
    expand_nodes(x, nodes[: after - 1])
    with x.at(cluster.loop):
        sums = _turns(x, cluster.loop)
        add_first(x, cluster.loop, sums, lambda: expand_nodes(x, nodes[after:]))


def expand_nodes(x: Expansion, nodes: Sequence[Node]) -> None:
    """Nodes of a region, in program order."""
    deferred = frozenset[Node]()
    if x.plan.specialised is not None:
        deferred = x.plan.specialised.deferred | x.plan.specialised.computed
    ends = last_uses(x.plan, nodes)
    for node in nodes:
        if node not in x.plan.bypassed and node not in deferred:
            with x.at(node):
                _expand_node(x, node)
                if node in x.kept:
                    keep(x, node)
        for read in ends.get(node, ()):
            x.memory.idle(x.shared(read).buffer)


def _expand_node(x: Expansion, node: Node) -> None:
    match node.op:
        case "loop":
            if x.plan.specialised is not None and node in x.plan.specialised.chained:
                expand_chained_loop(x, node, expand_nodes)
            else:
                _expand_loop(x, node)
            if x.plan.specialised is not None:
                give_once(x, node)
        case "cond":
            _expand_cond(x, node)
        case "result":
            pass  # defined by its loop or branch
        case "put":
            if node.args[0] in x.plan.chains:
                expand_chain(x, node)
            elif x.plan.specialised is not None and node in x.plan.specialised.stores:
                store_in_bulk(x, node, x.plan.specialised.stores[node])
            else:
                expand_put(x, node)
        case "read":
            _expand_read(x, node)
        case "gather":
            layout = x.plan.accesses[node].layout
            _define_read(x, node, expand_gather(x, node, layout), layout)
        case "scatter":
            expand_scatter(x, node)
        case "element":
            meet(x, node)
            x.define_index(node, load_element(x, node))
        case "dot":
            _define(x, node, expand_product(x, node))
        case "sum" | "max" | "min":
            value = expand_reduce(x, node)
            _define(x, node, value)
            x.reduced(value)
        case "reduce" | "scan" | "sort":
            expand = expand_sort if node.op == "sort" else expand_combining
            for number, value in enumerate(expand(x, node)):
                part = x.part_of(node, number)
                if part is not None:
                    _define(x, part, value)
        case "histogram":
            _define(x, node, expand_histogram(x, node))
        case "part":
            pass  # defined with what it is a part of
        case _ if node.op in MOVES or node.op == "transpose":
            _define_in(x, node, *expand_move(x, node))
        case _:
            home = x.home(node)
            if node in x.plan.parked:
                assert home is not None
                x.parked[node] = partial(park(x, node, home).value, x)
            elif node.is_tile and home is not None and not all(arg.is_index for arg in node.args):
                _define(x, node, make_tile(x, node, home))


def _define(x: Expansion, node: Node, value: Value) -> None:
    home = x.home(node)
    assert home is not None, node
    x.define(node, x.build.spread(value, home.registers))


def _expand_read(x: Expansion, node: Node) -> None:
    stage = x.plan.stages.get(node)
    if x.plan.specialised is not None and node in x.plan.specialised.turn_ahead:
        return  # in the turn before
    overlap = x.plan.overlaps.get(node)
    if overlap is not None:
        if node is overlap.reads[0]:
            for read, value in zip(overlap.reads, expand_overlap(x, overlap), strict=True):
                _define_read(x, read, value, x.plan.accesses[read].layout)
    elif stage is None:
        layout = x.plan.accesses[node].layout
        _define_read(x, node, expand_read(x, node, layout), layout)
    elif node in x.rings and stage.loop is None:
        take_once(x, node)
    elif x.plan.specialised is not None and node in x.plan.specialised.beside:
        _define(x, node, read_beside(x, node))
    elif stage.loop is None:
        stage_here(x, node)
    else:
        meet(x, node)  # its blocks were copied before; what else is pending meets here


def _define_read(x: Expansion, node: Node, value: Value, layout: TileLayout) -> None:
    if node.shape == (1, 1):
        x.define(node, value)
    else:
        _define_in(x, node, value, layout)


def _define_in(x: Expansion, node: Node, value: Value, layout: TileLayout) -> None:
    """Define a node whose registers come in another layout than its home, perhaps."""
    home = x.home(node)
    assert home is not None, node
    x.define(node, value, layout)
    if layout.linear != home.linear:
        x.define(node, convert(x, value, layout, home))


def _expand_loop(x: Expansion, node: Node) -> None:
    finals = _turns(x, node)
    if is_shared(x, node):
        add_columns(x, node, finals)
    else:
        define_results(x, node, finals)


def _turns(x: Expansion, node: Node) -> Sequence[Value]:
    """All turns of a loop, or those that a workgroup takes; gives what is carried at last."""
    region = node.regions[0]
    inits = [carried(x, init, param) for init, param in zip(node.args[3:], region.params[1:], strict=True)]
    inits = first_alone(x, node, inits)
    fetch_early(x, node)
    start, stop, step = turns_of(x, node)
    turn_ahead = TurnAhead.of(x, node)
    inits += turn_ahead.first(start, stop, step)
    ring = open_ring(x, node)
    if ring is not None:
        inits.append(ring.begin(start, stop, step))

    def body(counter: Value, values: tuple[Value, ...]) -> Sequence[Value]:
        with x.block():
            following = turn_ahead.next(counter, stop, step)
            if ring is not None:
                ring.turn(counter, stop, step, values[-1])
            ahead = []
            if ring is not None and not ring.asynchronous:
                ahead = ring.load(counter, stop, step)
            x.define_index(region.params[0], counter)
            for param, value in zip(region.params[1:], values, strict=False):
                define_carried(x, param, value)
            first = len(region.results)
            turn_ahead.define(values[first : first + len(following)])
            expand_region(x, region)
            results = [
                carried(x, result, param)
                for result, param in zip(region.results, region.params[1:], strict=True)
            ]
            results += following
            if ring is not None:
                if ahead:
                    ring.store(ahead, values[-1])
                results.append(ring.next(values[-1]))
            return results

    with x.memory.repeated():
        flag = len(region.results) - 1 if node.attr == EARLY else None
        finals = x.build.loop(start, stop, step, inits, body, flag)
    if ring is not None:
        ring.end(finals[-1])
    return finals[: len(region.results)]


def _expand_cond(x: Expansion, node: Node) -> None:
    likes = [x.result_of(node, number) for number in range(len(node.regions[0].results))]

    def arm(region: Region) -> Sequence[Value]:
        begin()
        with x.block():
            expand_region(x, region)
            return [carried(x, *pair) for pair in zip(region.results, likes, strict=True)]

    mask = x.value(node.args[0], UNIFORM)
    with x.memory.branched() as begin:
        finals = x.build.branch(mask, lambda: arm(node.regions[0]), lambda: arm(node.regions[1]))
    define_results(x, node, finals)
