"""Products whose blocks are too large for workgroup memory are made in pieces of k, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gizml_tile.lowering.planning.classes import find_uses
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.nodes import ACCESSES, EFFECTS, Node, Region, TileProgram, View, make, rebuild, tensor_of
from gizml_tile.target import Target

# Fewer steps of k keep no matrix unit busy.
_FEWEST = 8


def cut_products(program: TileProgram, target: Target, signature: Signature) -> tuple[TileProgram, Signature]:
    """The program with such products as chains of smaller ones, and the facts of its reads and puts.

    Both operands have to be blocks, of tensors that the program does not write: pieces of them are read.
    """
    cuts = dict(_cuts(program, target, signature))
    if not cuts:
        return program, signature
    accesses = [node for node in program.body.walk() if node.op in ACCESSES]
    facts = dict(zip(accesses, signature.facts, strict=True))
    cutting = _Cutting(program, cuts, facts, _unused(program, cuts))
    body = cutting.region(program.body)
    return replace(program, body=body), replace(signature, facts=tuple(cutting.made))


def _cuts(program: TileProgram, target: Target, signature: Signature) -> Iterator[tuple[Node, int]]:
    """The products that do not fit, and into how many pieces each is cut."""
    nodes = list(program.body.walk())
    written = {tensor_of(node) for node in nodes if node.op in EFFECTS}
    for node in nodes:
        if node.op != "dot" or signature.may_alias:
            continue
        blocks = [operand(arg).node for arg in node.args[:2]]
        needed = sum(map(_bytes, blocks))
        pieces = 1
        while needed > pieces * target.facts.workgroup_memory:
            pieces *= 2
        whole = any(
            not isinstance(block.attr, View) or block.attr.visible or block.attr.tensor in written
            for block in blocks
        )
        if pieces > 1 and not whole and node.args[0].shape[1] // pieces >= _FEWEST:
            yield node, pieces


def _bytes(node: Node) -> int:
    assert node.dtype is not None
    return node.shape[0] * node.shape[1] * node.dtype.bytes


def _unused(program: TileProgram, cuts: Mapping[Node, int]) -> set[Node]:
    """The blocks, and what is made of them, that nothing but products which are cut uses."""
    uses = find_uses(program)
    found: set[Node] = set()
    for dot in cuts:
        for node in dot.args[:2]:
            while all(user in cuts or user in found for user, _ in uses.of(node)):
                found.add(node)
                if node.op == "read":
                    break
                node = node.args[0]
    return found


@dataclass(slots=True)
class _Cutting:
    """A copy of a program in which products are cut; ``made`` are the facts of its reads and puts."""

    program: TileProgram
    cuts: dict[Node, int]
    facts: dict[Node, AccessFacts]
    unused: set[Node]
    made: list[AccessFacts] = field(default_factory=list)
    new: dict[Node, Node] = field(default_factory=dict)
    out: list[Node] = field(default_factory=list)

    def region(self, region: Region) -> Region:
        """The copy of a region."""
        outer, self.out = self.out, []
        for node in region.nodes:
            if node in self.cuts:
                self.new[node] = self._chain(node, self.cuts[node])
            elif node not in self.unused:
                self.new[node] = self._copy(node)
        nodes, self.out = tuple(self.out), outer
        return Region(region.params, nodes, tuple(self.new.get(each, each) for each in region.results))

    def _copy(self, node: Node) -> Node:
        args = tuple(self.new.get(arg, arg) for arg in node.args)
        if node in self.facts:
            self.made.append(self.facts[node])
        regions = tuple(self.region(region) for region in node.regions)
        self.out.append(node if args == node.args and not regions else rebuild(node, args, regions))
        return self.out[-1]

    def _chain(self, dot: Node, pieces: int) -> Node:
        """``c + a @ b`` as the sum of pieces, in their order."""
        total = [self.new.get(arg, arg) for arg in dot.args[2:]]
        for number in range(pieces):
            a, b = (self._piece(dot.args[side], 1 - side, number, pieces) for side in (0, 1))
            total = [self._made("dot", (a, b, *total), dot)]
        return total[0]

    def _piece(self, node: Node, axis: int, number: int, pieces: int) -> Node:
        """One of the pieces along an axis of a block, or of what transposes and conversions make of it."""
        if node.op != "read":
            turned = 1 - axis if node.op == "transpose" else axis
            return self._made(node.op, (self._piece(node.args[0], turned, number, pieces),), node)
        view = node.attr
        assert isinstance(view, View)
        along = axis - 2 + len(view.block)
        size = view.block[along] // pieces
        block = tuple(size if each == along else whole for each, whole in enumerate(view.block))
        coordinates = [self.new.get(arg, arg) for arg in node.args]
        place = along - len(view.block)
        coordinates[place] = self._coordinate(coordinates[place], view, number, pieces, size)
        facts = self.facts[node]
        grain = tuple(
            min(whole, size & -size) if each == along else whole for each, whole in enumerate(facts.grain)
        )
        self.made.append(replace(facts, grain=grain))
        self.out.append(
            make(
                "read",
                tuple(coordinates),
                replace(view, block=block),
                node.place,
                tensors=self.program.tensors,
            )
        )
        return self.out[-1]

    def _coordinate(self, first: Node, view: View, number: int, pieces: int, size: int) -> Node:
        """A piece's coordinate, which counts its own blocks or elements."""
        if view.mode == "at":
            first, step = self._index("mul", first, pieces), number
        else:
            step = number * size
        return self._index("add", first, step) if step else first

    def _index(self, op: str, a: Node, b: int) -> Node:
        constant = make("index", attr=b)
        self.out.append(constant)
        self.out.append(make(op, (a, constant)))
        return self.out[-1]

    def _made(self, op: str, args: tuple[Node, ...], like: Node) -> Node:
        self.out.append(make(op, args, like.attr, like.place))
        return self.out[-1]
