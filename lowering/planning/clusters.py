"""Whether a cluster of workgroups runs each program, where there are fewer programs than multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.planning.brought import FEWEST_SLOTS, slots_beside
from gizml_tile.lowering.planning.plan import Cluster
from gizml_tile.lowering.planning.room import SIZES
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import EFFECTS, Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

WORKGROUPS = "workgroups"
ONE = "one"
_PARTS = {2: "half", 4: "a quarter", 8: "an eighth"}
_ROWS = 64  # of a product by four warps


def plan_cluster(state: Planning) -> None:
    """Decide how many workgroups share a program's turns."""
    forced = state.forced.get(WORKGROUPS)
    if state.specialised is None:
        one = Candidate(ONE, True, "each program by itself")
        why = "warps have no roles"
        choose(WORKGROUPS, [one, *(Candidate(_name(size), False, why) for size in SIZES)], forced)
        return
    (first, *_) = (*state.specialised.loops, *state.dots)
    shared = _share_columns(state)
    registers = _registers(state, first) if first in state.specialised.loops else 0
    clusters = [Cluster(first, size, size in shared, registers) for size in SIZES]
    candidates = {each.size: _candidate(state, each) for each in clusters}
    one = Candidate(ONE, True, "each program by itself")
    fitting = [candidates[size] for size in reversed(SIZES) if size <= state.signature.room]
    ordered = [*fitting, one, *(each for each in candidates.values() if each not in fitting)]
    chosen = choose(WORKGROUPS, ordered, forced, first.place)
    state.chose(first, WORKGROUPS, Choice(tuple(ordered), chosen))
    for cluster in clusters:
        if _name(cluster.size) == chosen:
            state.specialised = replace(state.specialised, cluster=cluster, persistent=False)


def _name(size: int) -> str:
    return f"cluster of {size}"


def _candidate(state: Planning, cluster: Cluster) -> Candidate:
    why = next(_refusals(state, cluster), None)
    stores = "each stores its columns" if cluster.columns else "the first does what follows"
    told = f"{_PARTS[cluster.size]} of the turns each, {stores}"
    return Candidate(_name(cluster.size), why is None, why or told)


def _refusals(state: Planning, cluster: Cluster) -> Iterator[str]:
    """Why workgroups cannot share a program's turns, if something is in the way."""
    found = state.specialised
    assert found is not None
    if not state.target.can("cluster"):
        yield f"{state.target.arch} has no clusters"
    if found.teams > 1:
        yield "teams have programs of their own"
    if found.chained:
        yield "a product takes what is computed of another"
    if len(found.loops) != 1:
        yield "the program has not just one loop"
    (loop, *_) = found.loops or state.dots
    if loop.op == "loop" and loop.args[2].op != "index":
        yield "the loop's step is no constant"
    if loop.op == "loop" and not adds_up(loop):
        yield "the loop carries more than sums of what its turns give"
    before = _before(state, loop)
    if any(node.op in EFFECTS or any(each.op in EFFECTS for each in _inside(node)) for node in before):
        yield "the program stores before the loop has ended"
    sums = cluster.received_bytes(state.warps * state.target.facts.lanes)
    if slots_beside(state, sums) < max(state.program.stages, FEWEST_SLOTS):
        yield f"{sums} bytes of sums leave too little workgroup memory for blocks"


def _inside(node: Node) -> Iterator[Node]:
    for region in node.regions:
        yield from region.walk()


def _before(state: Planning, loop: Node) -> list[Node]:
    """The nodes of the program up to a loop, and the loop."""
    nodes = list(state.program.body.nodes)
    return nodes[: nodes.index(loop) + 1] if loop in nodes else nodes


def adds_up(loop: Node) -> bool:
    """Whether what a loop carries are sums, to which each turn adds something that rests on no sum."""
    (region,) = loop.regions
    params = region.params[1:]
    resting: set[Node] = set(params)
    for node in region.walk():
        used = {*node.args, *(each for inner in node.regions for each in inner.results)}
        if used & resting:
            resting.add(node)
    added: set[Node] = set()
    for param, result in zip(params, region.results, strict=True):
        if not param.is_tile or param.dtype not in (F32, I32):
            return False
        total: Node | None = result
        while total is not None and total is not param:
            added.add(total)
            total = _added_to(total, resting)
        if total is None:
            return False
    return resting <= added | set(params)


def _added_to(node: Node, resting: set[Node]) -> Node | None:
    """The sum to which a node adds something else; None where it does not."""
    if node.op in ("dot", "fma") and len(node.args) == 3 and not resting & {*node.args[:2]}:
        return node.args[2]
    if node.op == "add":
        sums = [arg for arg in node.args if arg in resting]
        return sums[0] if len(sums) == 1 else None
    return None


def _registers(state: Planning, loop: Node) -> int:
    """The registers of a thread that hold a loop's sums."""
    sums = [state.classes.get(param) for param in loop.regions[0].params[1:]]
    return sum(1 if each is None else state.layouts[each].registers for each in sums)


def _share_columns(state: Planning) -> frozenset[int]:
    """The sizes of clusters of which each workgroup can store some columns alone.

    That is where sums go nowhere but through elementwise operations to the copy engine, panel by panel.
    """
    found = state.specialised
    assert found is not None
    if len(found.loops) != 1 or not found.stores:
        return frozenset()
    (loop,) = found.loops
    after = state.program.body.nodes[len(_before(state, loop)) :]
    sums = {node for node in after if node.op == "result"}
    # What is not stored by columns, or carried in other registers than products have, is for one alone.
    results = {node.shape for node in state.dots}
    alike = all(param.shape in results for param in loop.regions[0].params if param.is_tile)
    apart = alike and all(
        node in found.deferred
        or node in found.stores
        or node in sums
        or (node.op not in EFFECTS and node.shape in ((), (1, 1)))
        for node in after
        if node.op != "const"
    )
    kinds = ("const", "value", "scalar")
    parts = [arg for node in (*found.stores, *found.deferred) if node.op != "read" for arg in _tiles(node)]
    if not apart or any(store.turned for store in found.stores.values()):
        return frozenset()
    if any(
        each not in found.deferred and each not in sums and each.op not in kinds and each.shape != (1, 1)
        for each in parts
    ):
        return frozenset()
    columns = {store.layout.linear.shape[1] // store.tile.shape[1] for store in found.stores.values()}
    rows = {store.layout.linear.shape[0] // found.groups for store in found.stores.values()}
    return frozenset(size for size in SIZES if rows == {_ROWS} and all(each % size == 0 for each in columns))


def _tiles(node: Node) -> list[Node]:
    return [arg for arg in node.args if arg.is_tile]

