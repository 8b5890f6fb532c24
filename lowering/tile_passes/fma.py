"""The one decision which products and sums are one operation: fused multiply-adds and accumulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gizml_tile.dtypes import DType
from gizml_tile.nodes import Combining, Node, Region, TileProgram, make, rebuild


def fuse_products(program: TileProgram) -> TileProgram:
    """The program with each product that is used once, by an addition beside it, fused into that.

    ``a * b + c`` is one fused multiply-add (negated as needed), of two products the left one;
    ``c + a @ b`` of one shape accumulates into c, before any other choice. This is decided once: what
    becomes of a program later does not change its numbers.
    """
    if program.fused:
        return program
    uses = _count_uses(_regions(program.body))
    return replace(program, body=_Fusing(uses).region(program.body), fused=True)


def _fused_function(how: Combining) -> Combining:
    """The same in a function that combines values; what was fused is left out."""
    function = how.function
    if not any(node.op == "mul" for node in function.nodes):
        return how
    fused = _Fusing(_count_uses([function])).region(function)
    needed: set[Node] = set(fused.results)
    for node in reversed(fused.nodes):
        if node in needed:
            needed.update(node.args)
    return replace(how, function=replace(fused, nodes=tuple(n for n in fused.nodes if n in needed)))


def _count_uses(regions: list[Region]) -> Counter[Node]:
    uses: Counter[Node] = Counter()
    for region in regions:
        uses.update(region.results)
        for node in region.nodes:
            uses.update(node.args)
    return uses


def _regions(region: Region) -> list[Region]:
    found = [region]
    for each in found:
        for node in each.nodes:
            found.extend(node.regions)
    return found


class _Fusing:
    """Copies a program; products that were fused stay behind as dead code."""

    def __init__(self, uses: Counter[Node]) -> None:
        self._uses = uses
        self._new: dict[Node, Node] = {}

    def region(self, region: Region) -> Region:
        here = set(region.nodes)
        nodes: list[Node] = []
        for node in region.nodes:
            copy = self._fused(node, here, nodes) if node.op in ("add", "sub") else None
            if copy is None:
                args = self._values(node.args)
                regions = tuple([self.region(each) for each in node.regions])
                same = args == node.args and regions == node.regions
                copy = node if same else rebuild(node, args, regions)
                if isinstance(copy.attr, Combining):
                    copy = replace(copy, attr=_fused_function(copy.attr))
            self._new[node] = copy
            nodes.append(copy)
        return Region(region.params, tuple(nodes), self._values(region.results))

    def _values(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple([self._new.get(node, node) for node in nodes])

    def _fused(self, node: Node, here: set[Node], nodes: list[Node]) -> Node | None:
        if node.is_index:
            return None
        left, right = node.args
        once = [self._uses[each] == 1 and each in here for each in (left, right)]
        if node.op == "add":
            for candidate, other, alone in ((left, right, once[0]), (right, left, once[1])):
                if alone and _accumulates(candidate, other, node):
                    return self._accumulation(candidate, other, node, nodes)
        for candidate, other, alone in ((left, right, once[0]), (right, left, once[1])):
            # A product in F32 that is added in F64 is rounded on the way.
            floats = candidate.dtype is not None and candidate.dtype.is_float
            if alone and candidate.op == "mul" and floats and candidate.dtype is node.dtype:
                negations = (node.op == "sub" and candidate is right, node.op == "sub" and candidate is left)
                operands = self._values((*candidate.args, other))
                return make("fma", operands, negations, node.place)
        return None

    def _accumulation(self, dot: Node, other: Node, node: Node, nodes: list[Node]) -> Node:
        # The product as it was copied: its operands may have changed.
        (copy, start) = self._values((dot, other))
        if start.dtype is not node.dtype:
            start = make("to", (start,), node.dtype, node.place)
            nodes.append(start)
        return make("dot", (*copy.args, start), dot.attr, node.place)


def _accumulates(dot: Node, other: Node, node: Node) -> bool:
    """Whether ``dot + other`` is a matrix product that starts from other."""
    plain = dot.op == "dot" and len(dot.args) == 2
    return plain and dot.shape == other.shape == node.shape and _holds(node.dtype, dot.dtype)


def _holds(sum_type: DType | None, dot_type: DType | None) -> bool:
    return sum_type is dot_type
