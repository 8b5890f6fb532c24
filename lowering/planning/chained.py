"""Loops in which a product takes what is computed of another product's result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.operands import Operand, operand
from gizml_tile.lowering.planning.plan import Rotation
from gizml_tile.lowering.planning.prologues import blocks_of, prologues_of
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import EFFECTS, UNARY_FLOAT, Node, tensor_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

TURNS = "turns"
ROTATED, IN_ORDER = "rotated", "in order"
# Registers of a thread for addresses and temporaries beside those of tiles, and for an exact function. Of
# exponentials 16 wait for what decides with which steps they are made; ptxas spills none of these.
_BESIDE, _FUNCTION, _EXPONENTIAL = 24, 56, 48
# Multiply-adds of a thread's share of a turn's first products. Measured on an H200: where a group waits for
# as many, blocks that it reads meanwhile cost attention 2 % less; with half as many they cost 2 to 9 % more,
# as reads of workgroup memory are slow beside those of matrix units.
_LONG = 8192
# Lanes that share a row of a product's result.
_ACROSS = 4


def is_computed(state: Planning, arg: Node, loop: Node) -> bool:
    """Whether a product's operand is computed in the turns of a loop."""
    found = operand(arg).node
    return found.op != "read" and state.uses.region.get(found) is loop.regions[0]


def is_chained(state: Planning, products: list[Node], loop: Node) -> bool:
    """Whether some product of a loop takes what is computed in it, and not just of blocks."""
    return any(
        is_computed(state, arg, loop)
        for node in products
        for side, arg in enumerate(node.args[:2])
        if side not in [each.side for each in prologues_of(state, node)]
    )


def of_computed(state: Planning, found: Operand, side: int, loop: Node) -> Iterator[str]:
    """Why a product of four warps cannot take a computed operand."""
    if found.node not in state.classes:
        yield "an operand is made of constants and counts alone"
    elif found.node.op == "gather":
        yield "elements of an operand are gathered, which are no boxes of the copy engine"
    elif state.uses.region[found.node] is state.program.body:
        return  # it stays in workgroup memory
    elif state.uses.region[found.node] is not loop.regions[0]:
        yield "an operand is computed in another loop or branch"
    elif side == 1:
        yield "the right operand of a product is computed in the loop"
    elif found.transposed:
        yield "a computed operand is transposed"
    elif not any(node.op == "dot" for node in state.classes[found.node].nodes):
        yield "an operand is computed of a product's result, which lies otherwise"


def in_streams(blocks: list[Node], products: list[Node]) -> list[tuple[Node, ...]]:
    """The blocks of a loop by the products that take them: each group is brought and given back together."""
    groups: dict[tuple[int, ...], list[Node]] = {}
    for block in blocks:
        users = tuple(
            number
            for number, product in enumerate(products)
            if any(operand(arg).node is block for arg in product.args[:2])
        )
        groups.setdefault((users[0], users[-1]), []).append(block)
    return [tuple(group) for group in groups.values()]


def plan_rotation(
    state: Planning, loop: Node, products: list[Node], beside: Sequence[Node], threads: int, limit: int
) -> Rotation | None:
    """How a loop's last product is left to the next turn, if it can be.

    While the matrix units make it and that turn's first products, the turn's other operations go on.

    Its reads begin before that where registers allow, those of blocks ``beside`` that are brought only while
    long products are made. ``limit`` is how many registers each of so many threads has.
    """
    why = why_not_rotated(state, loop, products, threads, limit)
    candidates = (
        Candidate(ROTATED, why is None, why or "the last product beside the next turn's first ones"),
        Candidate(IN_ORDER, True, "each product when what it takes is there"),
    )
    chosen = choose(TURNS, candidates, state.forced.get(TURNS), loop.place)
    state.chose(loop, TURNS, Choice(candidates, chosen))
    if chosen == IN_ORDER:
        return None
    parts = _Parts(state, loop, products)
    rotation = parts.rotation()
    sooner = tuple(_sooner(parts, rotation, beside, threads, limit))
    between, after = (
        tuple(node for node in nodes if node not in sooner) for nodes in (rotation.between, rotation.after)
    )
    return replace(rotation, between=between, after=after, sooner=sooner)


def _sooner(
    parts: _Parts, rotation: Rotation, beside: Sequence[Node], threads: int, limit: int
) -> Iterator[Node]:
    """The reads for whose elements, as they lie in memory, there are registers while products are made."""
    room = limit - parts.registers(threads)
    first = (math.prod(node.shape) * node.args[0].shape[1] for node in parts.products[:-1])
    long = sum(first) >= _LONG * threads
    written = {tensor_of(node) for node in parts.state.program.body.walk() if node.op in EFFECTS}
    taken = {block for product in parts.products for block in blocks_of(parts.state, product)}
    for node in (*rotation.between, *rotation.after):
        held = node.op == "read" and is_wide(node) and node.dtype is not MASK
        waits = node not in beside or long
        if held and waits and node not in taken and tensor_of(node) not in written:
            room -= _elements(node, threads) * node.dtype.bytes // 4  # type: ignore[union-attr]
            if room >= 0:
                parts.state.because(node, "goes to registers while products of its turn are made")
                yield node


def _elements(node: Node, threads: int) -> int:
    """The elements that a thread has of a tile in the layout of products, or of a row or column for it."""
    rows, columns = node.shape
    if rows == 1:
        return columns // _ACROSS
    return rows * columns // threads if columns > 1 else rows * _ACROSS // threads


def why_not_rotated(
    state: Planning, loop: Node, products: list[Node], threads: int, limit: int
) -> str | None:
    """Why a loop's last product cannot be left to the next turn, or why it would take too many registers."""
    parts = _Parts(state, loop, products)
    why = next(parts.refusals(), None)
    if why is None and (needed := parts.registers(threads)) > limit:
        why = f"the tiles of two turns take {needed} registers of each thread, which has {limit}"
    return why


@dataclass(slots=True)
class _Parts:
    """What of a loop's body comes before and after its one product of a computed operand."""

    state: Planning
    loop: Node
    products: list[Node]

    def refusals(self) -> Iterator[str]:
        """Why the loop cannot be rotated."""
        region, last = self.loop.regions[0], self.products[-1]
        if any(node.regions or node.op in EFFECTS for node in region.nodes):
            yield "the loop has loops, branches or puts inside"
            return
        if self.loop.args[2].op != "index":
            yield "the loop's step is no constant"
        computed = [each for each in self.products if is_computed(self.state, each.args[0], self.loop)]
        if computed != [last]:
            yield "others than the last product take what is computed"
        if len(last.args) < 3 or [user for user, _ in self.state.uses.of(last)] != [self.loop]:
            yield "the last product is no tile that the loop carries and nothing else takes"
            return
        carried = {param for param in region.params[1:] if param.is_tile}
        if self._needed(self.products[:-1]) & carried:
            yield "the first products take what the loop carries"
        sums = self._sums()
        taken = self._needed([operand(last.args[0]).node, *self._others()])
        if sums in taken or last in taken:
            yield "what the last product adds to is taken by others, too"
        if self._blocks(self.products[:-1]) & self._blocks([last]):
            yield "a block is taken by the last product and by others"

    def rotation(self) -> Rotation:
        """The parts of the body."""
        region, last = self.loop.regions[0], self.products[-1]
        before = self._needed(self.products[:-1])
        after = {node for node in region.nodes if self._sums() in self._needed([node])}
        left = operand(last.args[0]).node
        if left.op == "to" and len(self.state.uses.of(left)) == 1:
            # Registers that the last product of the turn before still reads may not be written to.
            after.add(left)
        between = [
            node for node in region.nodes if node not in before and node not in after and node is not last
        ]
        ordered = [node for node in region.nodes if node in after and node is not last]
        first = tuple(node for node in region.nodes if node in before)
        return Rotation(first, tuple(between), tuple(ordered), last, self._number())

    def registers(self, threads: int) -> int:
        """The registers of a thread for the results of all products and the computed operand together."""
        region = self.loop.regions[0]
        tiles = [math.prod(node.shape) for node in self.products]
        tiles += [math.prod(param.shape) for param in region.params if param.is_tile and 1 in param.shape]
        left = operand(self.products[-1].args[0]).node
        needed = (sum(tiles) + math.prod(left.shape) // 2) // threads + _BESIDE
        exact = [
            _EXPONENTIAL if node.op in ("exp", "exp2") else _FUNCTION
            for node in region.nodes
            if node.op in UNARY_FLOAT and node.attr is not True and is_wide(node)
        ]
        return needed + max(exact, default=0)

    def _number(self) -> int:
        return self.loop.regions[0].results.index(self.products[-1])

    def _sums(self) -> Node:
        return self.loop.regions[0].params[1 + self._number()]

    def _others(self) -> list[Node]:
        return [result for result in self.loop.regions[0].results if result is not self.products[-1]]

    def _blocks(self, products: list[Node]) -> set[Node]:
        region = self.loop.regions[0]
        found = {operand(arg).node for product in products for arg in product.args[:2]}
        return {node for node in found if self.state.uses.region.get(node) is region}

    def _needed(self, nodes: list[Node]) -> set[Node]:
        """Nodes of the loop, and its parameters, that some nodes rest on; themselves, too."""
        region, found, open_ = self.loop.regions[0], set[Node](), list(nodes)
        while open_:
            node = open_.pop()
            if node not in found and self.state.uses.region.get(node) is region:
                found.add(node)
                open_ += node.args
        return found


def powers(state: Planning) -> frozenset[Node]:
    """Approximate exponentials of a tile less one number for each row, whose precise bits do not matter.

    They become 2^(x s - y s), where y s is rounded once for a whole row: an error of |y| ulp beside that of
    x - y. It vanishes where the result is rounded to 16 bits, and sums of it scale such results.
    """
    return frozenset(
        node
        for node in state.program.body.walk()
        if node.op == "exp" and node.attr is True and node.args[0].op == "sub" and _is_rounded(state, node)
    )


def _is_rounded(state: Planning, node: Node) -> bool:
    less = node.args[0].args[1]
    users = [user for user, _ in state.uses.of(node)]
    rounded = [user for user in users if user.op == "to" and user.dtype is not None and user.dtype.bytes == 2]
    return (
        bool(rounded)
        and 1 in less.shape
        and less.shape != node.shape
        and all(user in rounded or user.op == "sum" for user in users)
    )
