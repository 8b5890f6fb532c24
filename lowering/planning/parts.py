"""Sums that a loop carries in parts: each thread adds up its own elements until the loop has ended."""

from __future__ import annotations

from collections.abc import Mapping

from gizml_tile.dtypes import F32
from gizml_tile.lowering.planning.along import bits_along, reducing_layout
from gizml_tile.lowering.planning.classes import Uses
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Const, Node, TileProgram
from gizml_tile.target import Target


def find_parts(
    program: TileProgram, uses: Uses, homes: Mapping[Node, TileLayout], target: Target, warps: int
) -> dict[Node, tuple[Node, ...]]:
    """What loops carry in parts, with the sums that are added to it: those need not go over the threads.

    In ``total = total * shrink + weights.sum(1)`` the parts are scaled as their sum would be, so the threads
    of a row meet once after the loop instead of in every turn. Sums of magnitudes must be finite, as for the
    bound of one sum. All of them meet as the first would: rows of 32 over 32 lanes, but those of 8 over 8.
    """

    def threads(total: Node) -> tuple[list[int], ...]:
        """The bits of lanes and of warps whose parts make a sum."""
        linear = reducing_layout(total.args[0], homes.get, target, warps).linear
        assert isinstance(total.attr, int)
        return tuple(bits_along(linear, name, total.attr) for name in ("lane", "warp"))

    found = {
        param: _sums(loop, number, uses, homes)
        for loop in program.body.walk()
        if loop.op == "loop"
        for number, param in enumerate(loop.regions[0].params[1:])
    }
    return {
        param: sums
        for param, sums in found.items()
        if sums and all(threads(each) == threads(sums[0]) for each in sums)
    }


def _sums(loop: Node, number: int, uses: Uses, homes: Mapping[Node, TileLayout]) -> tuple[Node, ...]:
    """The sums that a carried tile consists of; none where it is more than sums and factors."""
    region = loop.regions[0]
    param, result, init = region.params[1 + number], region.results[number], loop.args[3 + number]
    if param.dtype is not F32 or not isinstance(init.attr, Const) or init.attr.value != 0:
        return ()
    parts, sums = {param}, []
    for node in region.nodes:
        if node.op == "sum" and _has_parts(node, param, homes) and _leads_to(node, result, uses):
            parts.add(node)
            sums.append(node)
        elif node.shape == param.shape and _is_linear(node, parts):
            parts.add(node)
    # Whoever sees a part beside this one value of the loop wants the whole.
    alone = all(
        user in parts or (user is loop and each is result and place == -1 - number)
        for each in parts
        for user, place in uses.of(each)
    )
    return tuple(sums) if alone and result in parts else ()


def _is_linear(node: Node, parts: set[Node]) -> bool:
    """Whether a node of parts is the same of their sums: if it adds such, or makes one smaller.

    Larger factors may make parts infinite of which the sum is not.
    """
    inside = [arg in parts for arg in node.args]
    match node.op:
        case "add":
            return all(inside)
        case "mul" | "fma":
            scaled = inside[0] != inside[1] and _is_at_most_one(node.args[inside[0]], node)
            return scaled and (node.op == "mul" or inside[2])
    return False


def _is_at_most_one(factor: Node, node: Node) -> bool:
    """Whether a factor of a node's shape is a constant of at most 1, or e or 2 to what is not positive."""
    if isinstance(factor.attr, Const):
        return abs(factor.attr.value) <= 1
    if factor.op not in ("exp", "exp2") or factor.shape != node.shape:
        return False
    (power,) = factor.args
    if power.op != "sub":
        return False
    less, more = power.args
    return more.op == "maximum" and less in more.args


def _leads_to(node: Node, result: Node, uses: Uses) -> bool:
    """Whether a sum is used once, for what the loop carries on."""
    while node is not result:
        users = [user for user, _ in uses.of(node)]
        if len(users) != 1 or users[0].op not in ("add", "mul", "fma"):
            return False
        (node,) = users
    return True


def _has_parts(node: Node, param: Node, homes: Mapping[Node, TileLayout]) -> bool:
    """Whether threads can keep their parts of a sum: it is one number, which all have a register for, or the
    lanes of one warp hold all of each row that is summed, and the sum where they are.
    """
    reduced, axis = node.args[0], node.attr
    assert isinstance(axis, int)
    if reduced not in homes or reduced.shape == (1, 1):
        return False
    if node.shape == param.shape == (1, 1):
        return True
    if param not in homes or node not in homes:
        return False
    linear = homes[reduced].linear
    if not linear.is_separable or any(basis[axis] for basis in linear.bases("warp")):
        return False
    own = homes[reduced].slice(axis).linear
    return own == homes[node].linear == homes[param].linear
