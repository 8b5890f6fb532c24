"""Tiles that share one layout: what elementwise operations, loops and branches tie together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.nodes import COMBINING, ELEMENTWISE, Node, Region, TileProgram, axis_of, broadcast

# Values that cost nothing to make in any layout, and everything made of such values alone.
_MADE_ANYWHERE = frozenset({"const", "iota", "value", "scalar"})


@dataclass(slots=True, eq=False)
class Class:
    """Nodes of one shape that get one layout.

    ``relations`` are other classes that this one is a slice of, with the axis that is missing here: what
    a reduction of them leaves, or what broadcasts beside them.
    """

    shape: tuple[int, int]
    nodes: list[Node] = field(default_factory=list)
    relations: list[tuple[Class, int]] = field(default_factory=list)
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Uses:
    """Who uses each node, with the number of the operand; loops and branches count as users too."""

    users: dict[Node, list[tuple[Node, int]]]
    region: dict[Node, Region]
    depth: dict[Node, int]
    loops: dict[Region, Node]

    def of(self, node: Node) -> list[tuple[Node, int]]:
        """The users of a node."""
        return self.users.get(node, [])


def find_uses(program: TileProgram) -> Uses:
    """The users, region and loop depth of every node of a program."""
    uses = Uses({}, {}, {}, {})

    def visit(region: Region, depth: int) -> None:
        for param in region.params:
            uses.region[param], uses.depth[param] = region, depth
        for node in region.nodes:
            uses.region[node], uses.depth[node] = region, depth
            for number, arg in enumerate(node.args):
                uses.users.setdefault(arg, []).append((node, number))
            for inner in node.regions:
                uses.loops[inner] = node
                visit(inner, depth + (node.op == "loop"))
                for number, result in enumerate(inner.results):
                    uses.users.setdefault(result, []).append((node, -1 - number))

    visit(program.body, 0)
    return uses


def is_wide(node: Node) -> bool:
    """Whether a node is a tile of more than one element: one of a single element is uniform."""
    return node.is_tile and node.shape != (1, 1)


def find_free(program: TileProgram) -> frozenset[Node]:
    """The tiles that are made wherever they are wanted: constants, counts, and what is made of those."""
    free: set[Node] = set()
    for node in program.body.walk():
        if node.is_tile and (
            node.op in _MADE_ANYWHERE
            or (
                node.op in ELEMENTWISE
                and is_wide(node)
                and all(arg in free for arg in node.args if is_wide(arg))
            )
        ):
            free.add(node)
    return frozenset(free)


def find_classes(program: TileProgram, free: frozenset[Node], uses: Uses) -> dict[Node, Class]:
    """The class of every tile that has a home in registers."""
    parents: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parents.setdefault(node, node) is not node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    def tie(one: Node, other: Node) -> None:
        if one.shape == other.shape and is_wide(one) and not {one, other} & free:
            parents[root(other)] = root(one)

    tiles = [node for node in _with_params(program.body) if is_wide(node) and node not in free]
    for node in tiles:
        root(node)
    for node in _with_params(program.body):
        if node.op in ELEMENTWISE or node.op == "gather":
            for arg in node.args:
                tie(node, arg)
        elif node.op == "scatter":
            for arg in node.args[1:]:
                tie(node.args[0], arg)
        elif node.op == "dot" and len(node.args) == 3:
            tie(node, node.args[2])
        elif node.op in COMBINING:
            # Values of one place belong together, and those of a scan stay where they were.
            for arg in node.args if node.op == "scan" else node.args[1:]:
                tie(node if node.op == "scan" else node.args[0], arg)
        elif node.op == "part":
            tie(node, node.args[0])
        elif node.op == "loop":
            region = node.regions[0]
            for init, param, result in zip(node.args[3:], region.params[1:], region.results, strict=True):
                tie(param, init)
                tie(param, result)
        elif node.op == "result":
            (owner,), number = node.args, node.attr
            assert isinstance(number, int)
            for region in owner.regions:
                tie(node, region.results[number])
                if owner.op == "loop":
                    tie(node, region.params[1 + number])
    classes: dict[Node, Class] = {}
    made: dict[Node, Class] = {}
    for node in tiles:
        top = root(node)
        if top not in made:
            made[top] = Class((node.shape[0], node.shape[1]))
        classes[node] = made[top]
        made[top].nodes.append(node)
        made[top].depth = max(made[top].depth, uses.depth[node])
    _relate(program, classes)
    return classes


def _relate(program: TileProgram, classes: dict[Node, Class]) -> None:
    for node in program.body.walk():
        axis = axis_of(node)
        if (
            axis is not None
            and node.op not in ("scan", "sort")
            and node in classes
            and node.args[0] in classes
        ):
            classes[node].relations.insert(0, (classes[node.args[0]], axis))
        elif node.op in ELEMENTWISE or node.op in ("gather", "scatter"):
            result = node.args[0] if node.op == "scatter" else node
            for arg in node.args if result in classes else ():
                # What is scattered may stretch over other operands, which then are no slices of it.
                stretches = arg.shape != result.shape and broadcast(arg.shape, result.shape) == result.shape
                if arg in classes and stretches:
                    axis = 0 if arg.shape[0] == 1 else 1
                    classes[arg].relations.append((classes[result], axis))


def _with_params(region: Region) -> Iterator[Node]:
    yield from region.params
    for node in region.nodes:
        yield node
        for inner in node.regions:
            yield from _with_params(inner)
