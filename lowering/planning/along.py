"""Where tiles are while their elements meet along an axis, by a function or in order."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.layout import Linear, blocked
from gizml_tile.lowering.planning.accesses import best_blocked
from gizml_tile.lowering.planning.plan import UNIFORM, TileLayout
from gizml_tile.nodes import Combining, Node, Sorting, axis_of
from gizml_tile.target import Target

# A thread's neighbours along the axis, which it sorts without other threads.
_MOST_NEIGHBOURS = 32

Home = Callable[[Node], TileLayout | None]


def place_bits(layout: Linear, axis: int) -> list[tuple[str, int]] | None:
    """For each bit of a position along an axis the input and the bit of it that moves that bit alone.

    None where a layout has a bit that moves more than that, or holds copies at other positions.
    """
    found: dict[int, tuple[str, int]] = {}
    for name in layout.names:
        free = layout.free_bits(name)
        for bit, basis in enumerate(layout.bases(name)):
            if free >> bit & 1:
                if any(basis):
                    return None
            elif basis[axis]:
                if basis[1 - axis] or basis[axis] & (basis[axis] - 1):
                    return None
                found[basis[axis].bit_length() - 1] = name, bit
    count = layout.shape[axis].bit_length() - 1
    return [found[bit] for bit in range(count)] if len(found) == count else None


def counting_layout(operand: Node, home: Home, target: Target, warps: int) -> TileLayout:
    """The layout in which elements are counted: that which they have, each once in a thread."""
    rows, columns = operand.shape
    found = home(operand)
    if found is None or operand.shape == (1, 1):
        return UNIFORM if operand.shape == (1, 1) else best_blocked((rows, columns), [], 1, target, warps)
    return TileLayout(found.name, found.linear.without_replicas())


def reducing_layout(operand: Node, home: Home, target: Target, warps: int) -> TileLayout:
    """The layout to reduce in: the operand's own where each of its bits goes along one axis."""
    rows, columns = operand.shape
    found = home(operand)
    if found is not None and found.linear.is_separable and operand.shape != (1, 1):
        return found
    return best_blocked((rows, columns), [], 1, target, warps)


def bits_along(linear: Linear, name: str, axis: int) -> list[int]:
    """The bits of an input that move along an axis to elements which no bit before them reaches."""
    free = linear.free_bits(name)
    return [bit for bit, basis in enumerate(linear.bases(name)) if basis[axis] and not free >> bit & 1]


def meeting_layout(node: Node, home: Home, target: Target, warps: int) -> TileLayout:
    """The layout in which a reduction, scan or sort has its operands."""
    if isinstance(node.attr, Sorting):
        return _sorting_layout(node, node.attr.axis, target, warps)
    assert isinstance(node.attr, Combining)
    return _combining_layout(node, node.attr.axis, home, target, warps)


def meeting_reason(node: Node, layout: TileLayout) -> str:
    """What meets where, in words."""
    axis = axis_of(node)
    assert axis is not None
    bits = place_bits(layout.linear, axis)
    assert bits is not None, layout
    counts = {name: 1 << sum(1 for each, _ in bits if each == name) for name in ("register", "lane", "warp")}
    where = ", ".join(f"{count} {name}s" for name, count in counts.items() if count > 1)
    return f"has places of its axis in {where} ({layout.name})"


def _combining_layout(node: Node, axis: int, home: Home, target: Target, warps: int) -> TileLayout:
    """A home of the node or its operands whose bits each move along one axis, or a spread of its own."""
    rows, columns = node.args[0].shape
    for each in (node, *node.args) if node.op == "scan" else node.args:
        found = home(each)
        if found is not None and place_bits(found.linear.without_replicas(), axis) is not None:
            return TileLayout(found.name, found.linear.without_replicas())
    return best_blocked((rows, columns), [], axis, target, warps)


def _sorting_layout(node: Node, axis: int, target: Target, warps: int) -> TileLayout:
    """As much of the axis in a thread as it has registers for, the rest of it in one warp if it fits.

    Bits of warps trade places with registers', of which there must be as many.
    """
    rows, columns = node.args[0].shape
    lanes, size = target.facts.lanes, (rows, columns)[axis]
    share = max(rows * columns // (lanes * warps), 1)
    neighbours = min(size, share, _MOST_NEIGHBOURS)
    while size // (neighbours * lanes) > neighbours:
        neighbours *= 2
    order = (1, 0) if axis == 1 else (0, 1)
    linear = blocked((rows, columns), order, neighbours, lanes, warps)
    return TileLayout(f"{neighbours} neighbours a thread", linear)
