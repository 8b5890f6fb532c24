"""Indices as 64-bit integers that all threads of a workgroup share."""

from __future__ import annotations

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.expand.elements import load_element
from gizml_tile.lowering.expand.elementwise import expand_index
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import Parameter
from gizml_tile.lowering.planning.plan import UNIFORM
from gizml_tile.nodes import Node, Scalar


def make_index(x: Expansion, node: Node) -> Value:
    """The value of an index (or of a comparison of two) that no block has defined."""
    build = x.build
    match node.op:
        case "index":
            assert isinstance(node.attr, int)
            return build.constant(node.attr, I64)
        case "count":
            assert isinstance(node.attr, int)
            return build.parameter(Parameter("grid", 0, node.attr))
        case "size":
            assert isinstance(node.attr, tuple)
            return x.size(int(node.attr[0]), int(node.attr[1]))
        case "scalar":
            assert isinstance(node.attr, Scalar)
            return x.scalar(x.program.scalars.index(node.attr), I64)
        case "element":
            return load_element(x, node)
    args = [x.value(arg, UNIFORM) if arg.is_tile else x.index(arg) for arg in node.args]
    return expand_index(build, node, args)


def define_ids(x: Expansion, group: int, line: Value) -> Value | None:
    """Say which program of the grid runs: programs are numbered in one ``line``, an I32.

    Where some share a workgroup those count as one, and ``x.neighbour`` tells which runs; gives whether it
    is inside the grid, where it may not be.

    Without groups axis 0 goes fastest. With them ``group`` neighbours along axis 1 are run for each
    program along axis 0 in turn, so that those which run together share blocks of both operands in the
    cache: with a group of 2 on a 3 x 4 grid the order is
    (0,0) (0,1) (1,0) (1,1) (2,0) (2,1) (0,2) (0,3) ...
    """
    places = _grouped(x, group, line) if group else _in_order(x, line)
    if x.plan.specialised is not None and x.plan.specialised.longest_first:
        # Programs that run for long begin early, so that short ones fill the time until the last has ended.
        last = x.build.sub(size_of(x, 0), x.build.constant(1, I32))
        places[0] = x.build.sub(last, places[0])
    exists = _of_neighbours(x, places)
    for node in x.program.body.walk():
        if node.op == "id":
            assert isinstance(node.attr, int)
            place = places[node.attr] if node.attr < len(places) else x.build.constant(0, I32)
            x.define_index(node, x.build.convert(place, I64))
    return exists


def _of_neighbours(x: Expansion, places: list[Value]) -> Value | None:
    """Make places of the programs that share a workgroup that of one of them."""
    specialised, build = x.plan.specialised, x.build
    if specialised is None or specialised.together == 1:
        return None
    assert x.neighbour is not None
    first = build.mul(places[specialised.along], build.constant(specialised.together, I32))
    places[specialised.along] = build.add(first, x.neighbour)
    size = build.convert(build.parameter(Parameter("grid", 0, specialised.along)), I32)
    return build.map("lt", places[specialised.along], size)


def size_of(x: Expansion, axis: int) -> Value:
    """The programs along an axis, of which those that share a workgroup count as one."""
    build, specialised = x.build, x.plan.specialised
    size = build.convert(build.parameter(Parameter("grid", 0, axis)), I32)
    if specialised is None or specialised.together == 1 or axis != specialised.along:
        return size
    some = build.constant(specialised.together, I32)
    return build.map("div", build.add(size, build.constant(specialised.together - 1, I32)), some)


def _in_order(x: Expansion, line: Value) -> list[Value]:
    build = x.build
    places = []
    for axis in range(x.plan.signature.grid_rank - 1):
        size = size_of(x, axis)
        beyond = build.map("div", line, size)
        places.append(build.sub(line, build.mul(beyond, size)))
        line = beyond
    return [*places, line]


def _grouped(x: Expansion, group: int, line: Value) -> list[Value]:
    build = x.build
    sizes = [size_of(x, axis) for axis in range(x.plan.signature.grid_rank)]
    plane = build.mul(sizes[0], sizes[1])
    outer = build.map("div", line, plane)
    within = build.sub(line, build.mul(outer, plane))
    # A whole group's programs may be more than a launch has, and than 32 bits hold.
    number = build.map("div", build.map("div", within, sizes[0]), build.constant(group, I32))
    first = build.mul(number, build.constant(group, I32))
    width = build.map("min", build.sub(sizes[1], first), build.constant(group, I32))
    rest = build.sub(within, build.mul(first, sizes[0]))
    row = build.map("div", rest, width)
    return [row, build.add(first, build.sub(rest, build.mul(row, width))), outer]
