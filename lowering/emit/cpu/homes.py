"""Decides which tiles of a region are kept in memory and which are computed again where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.lowering.emit.cpu.moves import moves_rows, straddles
from gizml_tile.lowering.emit.cpu.packing import Machine, is_packable, packs_left
from gizml_tile.lowering.emit.cpu.schedule import is_scalar
from gizml_tile.nodes import ALONG, EFFECTS, READS, STRUCTURED, Node, Region

# What one element costs beside an addition.
COSTS = {
    "const": 0, "iota": 0, "transpose": 0, "read": 2, "to": 3, "div": 6, "sqrt": 6, "rem": 12,
    "rsqrt": 12, "floordiv": 12, "floormod": 14, "exp": 14, "exp2": 12, "log": 20, "sigmoid": 22,
    "tanh": 24, "gelu": 40, "gelu_erf": 40, "reciprocal": 6, "log2": 20, "log1p": 24, "expm1": 16,
    "silu": 24, "softplus": 40, "erf": 26, "sin": 22, "cos": 22, "pow": 70, "random": 40, "gather": 8,
}  # fmt: skip
# From this cost on a value that two passes use is stored by the first.
STORE_COST = 8
# A row that every row of another tile uses is worth a home much earlier.
ROW_STORE_COST = 4


@dataclass(eq=False)
class Homes:
    """``stored`` tiles get a home by a task of their own, ``turned`` are transposes that must be made."""

    needed: set[Node] = field(default_factory=set)
    stored: set[Node] = field(default_factory=set)
    turned: set[Node] = field(default_factory=set)


def captured(region: Region) -> Iterator[Node]:
    """The values that a region uses but does not make."""
    made = set(region.params)
    for node in region.nodes:
        made.add(node)
    for node in region.nodes:
        yield from (arg for arg in node.args if arg not in made)
        for inner in node.regions:
            yield from (value for value in captured(inner) if value not in made)
    yield from (result for result in region.results if result not in made)


def choose_homes(region: Region, machine: Machine, ordered: bool) -> Homes:
    """``ordered`` programs read a block where the program says so, and so keep what they read."""
    homes = Homes(_needed(region))
    users = _users(region, homes.needed)
    lefts = {node.args[0] for node in region.walk() if node.op == "dot" and not packs_left(node, machine)}
    levels = _levels(region)
    visits: dict[Node, frozenset[int]] = {}
    nested: set[Node] = set()
    results = set(region.results)
    for node in reversed(region.nodes):
        if node not in homes.needed or not node.is_tile or is_scalar(node):
            continue
        passes: set[int] = set()
        wanted = node in results
        wide = False
        # Rows of blocks are read where they are wanted; other rows must have been made before.
        plain = not ordered and node.op != "reshape" and all(arg.op == "read" for arg in node.args)
        forced = moves_rows(node) and not plain
        if wanted:
            passes.add(levels[node])
        for user in users.get(node, ()):
            wide |= user.is_tile and user.shape[0] > node.shape[0]
            forced |= straddles(user) and node.op not in ("read", "const", "iota")
            if user.op == "dot" and user.args[1] is node and (ordered or not is_packable(node)):
                passes.add(levels[node])
                wanted |= node.op == "transpose"
            if user.op == "dot":
                if node in (user.args[0], *user.args[2:]):
                    passes.add(levels[node])
                    wanted = True
            elif user.op in STRUCTURED:
                nested.add(node)
                wanted |= node.op == "transpose"
            elif user.op in ALONG or user.op in EFFECTS or user.op == "transpose":
                passes.add(max(levels.get(arg, 0) for arg in user.args))
                wanted = True
            elif is_scalar(user) or user in homes.stored:
                passes.add(levels[user])
                wanted = True
            else:
                passes |= visits.get(user, frozenset())
                wanted |= bool(visits.get(user))
                if user in nested:
                    nested.add(node)
                    wanted |= node.op == "transpose"
        visits[node] = frozenset(passes)
        if node.op == "transpose" and min(node.shape) > 1:
            if wanted:
                homes.turned.add(node)
            homes.stored.discard(node)
        elif (
            node in lefts
            or (forced and not _has_home(node))
            or _is_kept(node, len(passes), node in nested, wide, ordered)
        ):
            homes.stored.add(node)
    return homes


def _is_kept(node: Node, passes: int, nested: bool, wide: bool, ordered: bool) -> bool:
    if _has_home(node):
        return False
    if node.op in READS and ordered:
        return True
    if node.op == "read":
        return False
    if node.op in ("const", "iota", "transpose"):
        return False
    rows, columns = node.shape
    if columns == 1 and rows > 1:
        return True
    cost = _cost(node)
    if rows == 1 and wide and cost >= ROW_STORE_COST:
        return True
    return cost >= STORE_COST and (passes > 1 or nested)


def _has_home(node: Node) -> bool:
    """Whether a tile has a home of its own, whoever uses it."""
    return node.op in ALONG or node.op in ("dot", "part", "result")


def _cost(node: Node) -> int:
    """What one element costs when nothing it is made of is kept."""
    seen: set[Node] = set()
    pending, total = [node], 0
    while pending and total < STORE_COST:
        current = pending.pop()
        if current in seen or not current.is_tile or is_scalar(current):
            continue
        seen.add(current)
        if current.op in ALONG or current.op in ("dot", "part", "result", "param"):
            continue
        total += COSTS.get(current.op, 1)
        pending.extend(current.args)
    return total


def _needed(region: Region) -> set[Node]:
    pending = [node for node in region.nodes if node.op in EFFECTS or _has_effects(node)]
    pending.extend(region.results)
    needed: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        pending.extend(node.args)
        for inner in node.regions:
            pending.extend(captured(inner))
    return needed


def _has_effects(node: Node) -> bool:
    return any(inner.op in EFFECTS for region in node.regions for inner in region.walk())


def _users(region: Region, needed: set[Node]) -> dict[Node, list[Node]]:
    users: dict[Node, list[Node]] = {}
    for node in region.nodes:
        if node in needed:
            for value in (*node.args, *(value for inner in node.regions for value in captured(inner))):
                users.setdefault(value, []).append(node)
    return users


def _levels(region: Region) -> dict[Node, int]:
    """How many reductions, products and transposes lie behind a value: the earliest pass that has it."""
    levels: dict[Node, int] = {}
    for node in region.nodes:
        level = max((levels.get(arg, 0) for arg in node.args), default=0)
        behind = node.op in ALONG or node.op in ("dot", "transpose") or bool(node.regions)
        behind |= moves_rows(node)
        levels[node] = level + 1 if behind else level
    return levels
