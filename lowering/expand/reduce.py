"""Sums, largest and smallest along an axis: in each thread, then over its warp, then over the workgroup."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import BF16, F16, I32, MASK
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.chunks import extreme
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import with_bits
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.planning.along import bits_along, reducing_layout
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node

_OPERATIONS = {"sum": "add", "max": "max", "min": "min"}
# What is left of a mask: whether any, or all, of its elements are set.
_OF_MASKS = {"max": "or", "min": "and"}


def expand_reduce(x: Expansion, node: Node) -> Value:
    """The registers of a sum, max or min in its home, the same in every thread that holds an element.

    Elements are added in pairs, pairs of pairs and so on, always in the same order, so the error of a sum
    of n is at most about log2(n) * 2^-24 of the sum of magnitudes.
    """
    build, axis = x.build, node.attr
    assert isinstance(axis, int)
    layout = _layout(x, node.args[0])
    linear = layout.linear
    value = x.registers(node.args[0], layout)
    op = _OPERATIONS[node.op]
    if node.args[0].dtype is MASK and node.op in _OF_MASKS:
        op = _OF_MASKS[node.op]
    elif node.args[0].dtype is MASK:
        value = storage.convert(build, x.target, value, I32)
    elif value.dtype not in (F16, BF16) or node.op == "sum" or not x.target.can("extremes_16"):
        value = storage.to_math(build, x.target, value)

    along, beside = _register_bits(linear, axis)
    if op in ("max", "min") and value.dtype in (F16, BF16):
        value, along, beside = _in_pairs(build, op, value, along, beside)
        value = storage.to_math(build, x.target, value)
    value = build.pick(
        value,
        [
            with_bits(element, along) | with_bits(register, beside)
            for element in range(1 << len(along))
            for register in range(1 << len(beside))
        ],
    )
    value = _tree(build, op, value, 1 << len(beside))
    if value.dtype is MASK:
        value = storage.convert(build, x.target, value, I32)
    if any(node in sums for sums in x.plan.parts.values()):
        return value
    value = _over_lanes(build, op, value, linear, axis)
    value = _over_warps(x, node, op, value, layout)
    return value if node.dtype is not MASK else storage.convert(build, x.target, value, MASK)


def whole(x: Expansion, param: Node, value: Value) -> Value:
    """What a loop carried, after it: the sum of the threads' parts, if it was in parts."""
    if param not in x.plan.parts:
        return value
    total = x.plan.parts[param][0]
    assert isinstance(total.attr, int)
    layout = _layout(x, total.args[0])
    value = _over_lanes(x.build, "add", value, layout.linear, total.attr)
    return _over_warps(x, total, "add", value, layout)


def _over_lanes(build: Builder, op: str, value: Value, linear: Linear, axis: int) -> Value:
    for bit in bits_along(linear, "lane", axis):
        value = build.map(op, value, build.shuffle_xor(value, 1 << bit))
    return value


def _layout(x: Expansion, operand: Node) -> TileLayout:
    return reducing_layout(operand, x.home, x.target, x.plan.warps)


def _register_bits(linear: Linear, axis: int) -> tuple[list[int], list[int]]:
    """The register bits along the axis and beside it; those of replicas are neither."""
    return bits_along(linear, "register", axis), bits_along(linear, "register", 1 - axis)


def _in_pairs(
    build: Builder, op: str, value: Value, along: list[int], beside: list[int]
) -> tuple[Value, list[int], list[int]]:
    """Extremes of registers that share a word of the machine with their neighbour, of both at once.

    Neighbours along the axis stay. Also the numbers of the bits of the registers that are left, along it and
    beside it.
    """
    left = list(range(value.count.bit_length() - 1))
    if len(along) == len(left) > 0:
        return extreme(build, op, value, 2), [0], []
    for bit in sorted(along, reverse=True):
        if bit:
            low = [register for register in range(value.count) if not register >> bit & 1]
            high = build.pick(value, [register | 1 << bit for register in low])
            value = build.map(op, build.pick(value, low), high)
            left.remove(bit)
    return value, [left.index(bit) for bit in along if not bit], [left.index(bit) for bit in beside]


def _tree(build: Builder, op: str, value: Value, count: int) -> Value:
    """The first half of the registers with the second, until ``count`` are left."""
    while value.count > count:
        half = value.count // 2
        value = build.map(op, build.pick(value, range(half)), build.pick(value, range(half, value.count)))
    return value


def _over_warps(x: Expansion, node: Node, op: str, value: Value, layout: TileLayout) -> Value:
    """Partial results of several warps together, in the home of the result.

    They are a tile of one row for each part; every thread gets the parts of its elements in registers.
    """
    axis = node.attr
    assert isinstance(axis, int)
    own = layout.slice(axis)
    home = x.home(node)
    assert home is not None, node
    if node.shape == (1, 1):
        home = own
    parts = bits_along(layout.linear, "warp", axis)
    if not parts:
        return convert(x, value, own, home)
    kept = home.linear.without_replicas()
    rows = [(1 << number, 0) for number in range(len(parts))]
    made = _flat(own.linear, len(parts))
    warps = list(made.bases("warp"))
    for bit, row in zip(parts, rows, strict=True):
        warps[bit] = row
    gathered = _flat(kept, len(parts)).extended("register", rows)
    value = convert(
        x,
        value,
        TileLayout("partial results", made.with_bases("warp", warps)),
        TileLayout("gathered results", gathered),
    )
    value = _tree(x.build, op, value, kept.size("register"))
    return convert(x, value, TileLayout("reduced", kept), home)


def _flat(linear: Linear, part_bits: int) -> Linear:
    """The layout of a [rows, 1] or [1, columns] tile as that of the first row of several parts."""
    shape = (1 << part_bits, linear.elements)
    inputs: list[tuple[str, Sequence[tuple[int, int]]]] = [
        (name, [(0, row | column) for row, column in linear.bases(name)]) for name in linear.names
    ]
    return Linear.of(shape, **dict(inputs))
