"""Loop-invariant motion: what every turn of a loop computes alike is computed once before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gizml_tile.lowering.tile_passes.rewriting import stored_tensors
from gizml_tile.nodes import EFFECTS, READS, Node, Region, TileProgram, rebuild, tensor_of


def hoist(program: TileProgram, *, may_alias: bool = False) -> TileProgram:
    """The program with invariant values moved out of loops, reads too where the loop stores nothing
    to their tensor (with ``may_alias`` to any). Nothing moves out of a branch.
    """
    motion = _Motion(stored_tensors(program), may_alias)
    return replace(program, body=motion.body(program.body))


@dataclass
class _Frame:
    """A region on the way: the nodes that stay in it, and the depths of the regions around it it needs."""

    loop: Node | None
    nodes: list[Node] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)


class _Motion:
    """Moves each node to the outermost region that has all its operands."""

    def __init__(self, stored: dict[Node, frozenset[int]], may_alias: bool) -> None:
        self._stored = stored
        self._may_alias = may_alias
        self._frames: list[_Frame] = []
        self._level: dict[Node, int] = {}
        self._new: dict[Node, Node] = {}

    def body(self, region: Region) -> Region:
        return self._region(region, None)[0]

    def _region(self, region: Region, loop: Node | None) -> tuple[Region, _Frame]:
        frame = _Frame(loop)
        self._frames.append(frame)
        depth = len(self._frames) - 1
        for each in region.params:
            self._level[each] = depth
        for node in region.nodes:
            self._place(node, depth)
        frame.needs |= {self._level[result] for result in region.results} - {depth}
        self._frames.pop()
        return Region(region.params, tuple(frame.nodes), self._values(region.results)), frame

    def _values(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple([self._new.get(node, node) for node in nodes])

    def _place(self, node: Node, depth: int) -> None:
        needs = {self._level[arg] for arg in node.args}
        reads: set[int] = set()
        regions: list[Region] = []
        for region in node.regions:
            copy, inner = self._region(region, node if node.op == "loop" else None)
            regions.append(copy)
            needs |= inner.needs
            reads |= inner.reads
        if node.op in READS:
            reads.add(tensor_of(node))
        level = depth
        if node.op not in EFFECTS and not self._stored.get(node):
            while level > max(needs, default=0) and self._movable(self._frames[level], reads):
                level -= 1
        args = self._values(node.args)
        same = args == node.args and tuple(regions) == node.regions
        moved = node if same else rebuild(node, args, tuple(regions))
        self._new[node] = moved
        self._level[node] = level
        frame = self._frames[level]
        frame.nodes.append(moved)
        frame.reads |= reads
        frame.needs |= needs - {level}

    def _movable(self, frame: _Frame, reads: set[int]) -> bool:
        """Whether a value with these reads may leave the region of a frame."""
        if frame.loop is None:
            return False
        stored = self._stored[frame.loop]
        return not reads or not (stored if self._may_alias else stored & reads)
