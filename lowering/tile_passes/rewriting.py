"""What passes share: copying a program node by node, and knowing what regions store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gizml_tile.nodes import EFFECTS, Node, Region, TileProgram, rebuild, tensor_of

Emit = Callable[[Node], Node]
Rule = Callable[[Node, Emit], Node]


class Rewriting:
    """A copy of a program in which ``rule`` replaces nodes.

    ``rule(node, emit)`` gets a node whose operands are new ones and returns the value that takes its
    place: the node itself, one that exists before it, or one made of nodes that it emits. Nodes with
    regions are copied; ``structured``, where given, may replace one by the values of its results.
    """

    def __init__(self, rule: Rule, structured: Structured | None = None) -> None:
        self._rule = rule
        self._structured = structured
        self._new: dict[Node, Node] = {}
        self._inlined: dict[Node, tuple[Node, ...]] = {}
        self._out: list[Node] = []

    def program(self, program: TileProgram) -> TileProgram:
        """The rewritten program."""
        body = self.region(program.body)
        return program if body is program.body else replace(program, body=body)

    def region(self, region: Region) -> Region:
        """The rewritten region; the same one where nothing in it changed."""
        outer, self._out = self._out, []
        self.nodes(region.nodes)
        nodes, self._out = tuple(self._out), outer
        results = self.values(region.results)
        if results == region.results and nodes == region.nodes:
            return region
        return Region(region.params, nodes, results)

    def nodes(self, nodes: tuple[Node, ...]) -> None:
        """Copy nodes to where the copy stands."""
        for node in nodes:
            self._new[node] = self._copy(node)

    def values(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The copies of nodes; a region's parameters stay as they are."""
        new = self._new
        return tuple([new.get(node, node) for node in nodes])

    def rename(self, param: Node, new: Node) -> None:
        """Let another parameter stand for one of a region that is copied next."""
        self._new[param] = new

    def emit(self, node: Node) -> Node:
        """Append a node where the copy stands."""
        self._out.append(node)
        return node

    def _copy(self, node: Node) -> Node:
        if node.op == "result" and node.args[0] in self._inlined:
            assert isinstance(node.attr, int)
            return self._inlined[node.args[0]][node.attr]
        args = self.values(node.args)
        if node.regions:
            return self._copy_structured(node, args)
        copy = node if args == node.args else rebuild(node, args)
        result = self._rule(copy, self.emit)
        if result is copy:
            self._out.append(copy)
        return result

    def _copy_structured(self, node: Node, args: tuple[Node, ...]) -> Node:
        if self._structured is not None:
            values = self._structured(self, node, args)
            if values is not None:
                self._inlined[node] = values
                return node
        regions = tuple([self.region(region) for region in node.regions])
        copy = node if args == node.args and regions == node.regions else rebuild(node, args, regions)
        self._out.append(copy)
        return copy


Structured = Callable[[Rewriting, Node, tuple[Node, ...]], tuple[Node, ...] | None]


def stored_tensors(program: TileProgram) -> dict[Node, frozenset[int]]:
    """For each loop and branch the numbers of the tensors that are stored in it."""
    stored: dict[Node, frozenset[int]] = {}

    def collect(region: Region) -> frozenset[int]:
        found: set[int] = set()
        for node in region.nodes:
            if node.op in EFFECTS:
                found.add(tensor_of(node))
            elif node.regions:
                inner = frozenset().union(*(collect(each) for each in node.regions))
                stored[node] = inner
                found |= inner
        return frozenset(found)

    collect(program.body)
    return stored
