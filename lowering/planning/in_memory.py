"""Elementwise operations on tiles that stay in workgroup memory, for those that are large for registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gizml_tile.dtypes import MASK, U8
from gizml_tile.layout import Linear
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.planning.classes import Class
from gizml_tile.lowering.planning.plan import Chain, SharedTile, TileLayout
from gizml_tile.lowering.planning.registers import thread_registers, tile_registers
from gizml_tile.lowering.planning.shared import shared_tile
from gizml_tile.lowering.planning.stages import fast_axis, stage_in_place
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import ALONG, Node, View

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

ELEMENTWISE = "elementwise"
REGISTERS, WORKGROUP = "registers", "workgroup"
_VECTOR_BYTES = 16
# A tile of more registers leaves few for what is computed on it, and few threads beside.
_COMFORTABLE_REGISTERS = 128


@dataclass(frozen=True, slots=True)
class Partition:
    """How threads share the elements of a tile: ``outer`` times, each takes ``vector`` neighbours.

    ``guarded`` tells that there are fewer elements than that, and some threads have none.
    """

    outer: int
    threads: int
    vector: int
    guarded: bool

    def __str__(self) -> str:
        guard = ", guarded" if self.guarded else ""
        return f"outer {self.outer}, threads {self.threads}, vec {self.vector}{guard}"


def partition(elements: int, threads: int, extents: Sequence[int], widest_bytes: int) -> Partition:
    """The partition of a tile whose operands have runs of ``extents`` elements that are contiguous.

    The vector is the widest up to 16 bytes of the widest type that divides the elements of each thread and
    every operand's run; it is 1 where the threads do not divide the elements.
    """
    if elements % threads:
        return Partition(-(-elements // threads), threads, 1, True)
    share = elements // threads
    vector = _VECTOR_BYTES // widest_bytes
    while share % vector or any(extent % vector for extent in extents):
        vector //= 2
    return Partition(share // vector, threads, vector, False)


def plan_in_memory(state: Planning) -> None:
    """Decide which elementwise operations work on tiles in workgroup memory, and take those out of "
    "registers."""
    for each in dict.fromkeys(state.classes.values()):
        computed = [node for node in each.nodes if node.op != "read" and node.op not in _TIED]
        if computed:
            _plan_class(state, each, computed[-1])


# What has tiles in registers, whatever is computed on them.
_TIED = ALONG | frozenset("param result part dot transpose gather random".split())


def _plan_class(state: Planning, each: Class, result: Node) -> None:
    forced = state.forced.get(ELEMENTWISE)
    refusal = _why_not(state, each)
    if refusal is not None and forced is None:
        return
    needed = max(tile_registers(node, state.layouts[each]) for node in each.nodes)
    limit = thread_registers(state.target, state.warps)
    fits = f"{needed} of the {limit} registers of a thread"
    candidates = [Candidate(REGISTERS, needed <= limit, fits)]
    if refusal is not None:
        candidates.append(Candidate(WORKGROUP, False, refusal))
        choose(ELEMENTWISE, candidates, forced, result.place)
        return
    chain, parts = _chain(state, each)
    candidates.insert(0 if needed > _COMFORTABLE_REGISTERS else 1, Candidate(WORKGROUP, True, str(parts)))
    chosen = choose(ELEMENTWISE, candidates, forced, result.place)
    state.chose(result, ELEMENTWISE, Choice(tuple(candidates), chosen))
    if chosen == WORKGROUP:
        del state.layouts[each]
        state.chains.update(dict.fromkeys(each.nodes, chain))
        for node in _reads(each):
            stage_in_place(state, node)


def _why_not(state: Planning, each: Class) -> str | None:
    """Why tiles cannot stay in workgroup memory from their reads to their puts; None where they can."""
    tied = next((node for node in each.nodes if node.op in _TIED), None)
    if tied is not None:
        return f"a {tied.op} has tiles of this layout in registers"
    reads, puts = _reads(each), _puts(state, each)
    for node in each.nodes:
        for user, number in state.uses.of(node):
            if not (state.classes.get(user) is each or (user.op == "put" and number == 0)):
                return f"a {user.op} takes what is computed"
    if not reads or not puts:
        return f"nothing is {'put' if reads else 'read'}"
    if any(isinstance(put.attr, View) and put.attr.shape != each.shape for put in puts):
        return "a put stretches the tile"
    if len({state.uses.region[node] for node in (*reads, *puts)}) > 1:
        return "a read and a put stand in different blocks of the program"
    if any(node.dtype is MASK for node in reads):
        return "masks are not computed on in workgroup memory"
    tiles = [_tile(state, node) for node in reads]
    tiles += [tile for tile, over in _results(state, each).values() if over is None]
    needed = sum(tile.elements * tile.dtype.bytes for tile in tiles)
    staged = sum(
        stage.slots * stage.tile.elements * stage.tile.dtype.bytes for stage in state.stages.values()
    )
    room = state.target.facts.workgroup_memory - staged
    if needed > room:
        return f"the tiles take {needed} bytes of workgroup memory and there are {room}"
    return None


def _reads(each: Class) -> list[Node]:
    return [node for node in each.nodes if node.op == "read"]


def _puts(state: Planning, each: Class) -> list[Node]:
    return [user for node in each.nodes for user, _ in state.uses.of(node) if user.op == "put"]


def _tile(state: Planning, node: Node) -> SharedTile:
    """How the block of a read or put lies in workgroup memory: contiguous where it is in the tensor."""
    view = node.attr
    assert isinstance(view, View)
    dtype = state.program.tensors[view.tensor].dtype
    fast = fast_axis(state.signature, node)
    return shared_tile(U8 if dtype is MASK else dtype, view.shape, 1 if fast is None else fast)


def _results(state: Planning, each: Class) -> dict[Node, tuple[SharedTile, Node | None]]:
    """Where each put's tile is made: over the block of a read of its type, if nothing else is put.

    Threads without elements of their own load others', which must not change meanwhile.
    """
    results: dict[Node, tuple[SharedTile, Node | None]] = {}
    puts = _puts(state, each)
    busy = each.shape[0] * each.shape[1] >= state.warps * state.target.facts.lanes
    for put in puts:
        tile = _tile(state, put)
        same = [node for node in _reads(each) if node.dtype is tile.dtype]
        if busy and same and len(puts) == 1:
            results[put] = _tile(state, same[0]), same[0]
        else:
            results[put] = tile, None
    return results


def _chain(state: Planning, each: Class) -> tuple[Chain, Partition]:
    results = _results(state, each)
    tiles = [*(_tile(state, node) for node in _reads(each)), *(tile for tile, _ in results.values())]
    first = next(iter(results))
    fast = fast_axis(state.signature, first)
    axis = 1 if fast is None else fast
    lanes = state.target.facts.lanes
    parts = partition(
        each.shape[0] * each.shape[1],
        lanes * state.warps,
        [_run(tile, axis) for tile in tiles],
        max(tile.dtype.bytes for tile in tiles),
    )
    linear = _spread(each.shape, axis, parts.vector, lanes, state.warps)
    return Chain(TileLayout(f"workgroup memory, {parts}", linear), parts.vector, results), parts


def _run(tile: SharedTile, axis: int) -> int:
    """Neighbours along an axis that are neighbours in memory, as far as the tile's bits show."""
    bases = (tile.rows, tile.columns)[axis]
    run = 0
    while run < len(bases) and bases[run] == 1 << run:
        run += 1
    return 1 << run


def _spread(shape: tuple[int, int], axis: int, vector: int, lanes: int, warps: int) -> Linear:
    """The elements in order along ``axis`` first: a vector's, then the threads', then the rounds'."""
    fast = [(1 << bit, 0) if axis == 0 else (0, 1 << bit) for bit in range(bit_length(shape[axis]))]
    slow = [(0, 1 << bit) if axis == 0 else (1 << bit, 0) for bit in range(bit_length(shape[1 - axis]))]
    bases = [*fast, *slow]
    sizes = [bit_length(vector), bit_length(lanes), bit_length(warps)]
    bases += [(0, 0)] * (sum(sizes) - len(bases))
    ends = [sum(sizes[: number + 1]) for number in range(3)]
    return Linear.of(
        shape,
        register=[*bases[: ends[0]], *bases[ends[2] :]],
        lane=bases[ends[0] : ends[1]],
        warp=bases[ends[1] : ends[2]],
    )
