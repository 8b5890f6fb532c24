"""In which order the programs of a grid run: neighbours should find their operands in the caches."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.lowering.emit.cpu.builder import Function, Value
from gizml_tile.lowering.emit.cpu.packing import Pack
from gizml_tile.lowering.emit.cpu.schedule import DeepItem, RegionPlan
from gizml_tile.lowering.emit.cpu.shapes import TILE_PRODUCTS

# Columns whose packed panels stay in the second cache while rows go by. The matrix unit is fast enough to
# wait for what does not stay.
GROUP_COLUMNS = 1024
MATRIX_GROUP_COLUMNS = 512


@dataclass(frozen=True, slots=True)
class Order:
    """Programs run in groups of ``width`` along ``axis``, in a group along that axis first.

    Width 0 is the grid's own order, axis 0 first.
    """

    axis: int = 0
    width: int = 0


def order_of(plan: RegionPlan) -> Order:
    """For a product of rows along one grid axis and columns along the other: by groups of columns.

    The right operand's panels of a group serve all rows before the next group's are touched.
    """
    for item in plan.items:
        if isinstance(item, DeepItem):
            for term in item.terms:
                rows, columns = _axis(term.left), _axis(term.right)
                if {rows, columns} == {0, 1} and columns is not None:
                    shape = term.right.packing.shape
                    most = MATRIX_GROUP_COLUMNS if shape.mode in TILE_PRODUCTS else GROUP_COLUMNS
                    return Order(columns, max(1, most // shape.columns))
    return Order()


def _axis(pack: Pack) -> int | None:
    """The grid axis that an operand's blocks lie along, if it is one of the first two."""
    axes = {leaf.index.attr for leaf in pack.leaves if leaf.index.op == "id"} - {2}
    axis = axes.pop() if len(axes) == 1 else None
    return axis if isinstance(axis, int) else None


def program_ids(
    function: Function, order: Order, number: Value, sizes: tuple[Value, Value]
) -> tuple[Value, Value, Value]:
    """The grid position of the program that runs as ``number``."""
    plane = function.mul(sizes[0], sizes[1])
    inner, third = _remainder(function, number, plane), _quotient(function, number, plane)
    if order.width == 0:
        return _remainder(function, inner, sizes[0]), _quotient(function, inner, sizes[0]), third
    along, across = sizes[order.axis], sizes[1 - order.axis]
    group_size = function.mul(across, order.width)
    first = function.mul(_quotient(function, inner, group_size), order.width)
    place = _remainder(function, inner, group_size)
    width = function.minimum(function.sub(along, first), order.width)
    position = function.add(first, _remainder(function, place, width))
    other = _quotient(function, place, width)
    return (position, other, third) if order.axis == 0 else (other, position, third)


def _quotient(function: Function, a: Value, b: Value) -> Value:
    return function.emit(f"udiv i64 {a}, {b}")


def _remainder(function: Function, a: Value, b: Value) -> Value:
    return function.emit(f"urem i64 {a}, {b}")
