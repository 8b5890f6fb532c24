"""Random numbers in registers: four neighbours of a row share a counter, wherever a layout has them."""

from __future__ import annotations

from gizml_tile.dtypes import I32, I64, U32, U64
from gizml_tile.layout import Linear
from gizml_tile.lowering import math
from gizml_tile.lowering.expand.arithmetic import KernelArithmetic
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import coordinate
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node, Random

# Counters that a thread works on at once: independent chains that hide latencies, in few registers.
_AT_ONCE = 4


def expand_random(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """The numbers in a layout. A thread that holds one number of a counter alone computes all four."""
    assert isinstance(node.attr, Random)
    build, linear = x.build, layout.linear
    seed, counters = node.args
    quarters = TileLayout(f"counters of {layout.name}", _quarters(linear))
    groups = {place: number for number, place in reversed([*enumerate(quarters.linear.table("register"))])}
    key = _words(build, x.registers(seed, quarters))
    words = _words(build, x.registers(counters, quarters))
    numbers = [
        _drawn(x, node.attr.kind, [_picked(build, each, first) for each in words], key)
        for first in range(0, quarters.registers, _AT_ONCE)
    ]
    fours = [build.join([each[word] for each in numbers]) for word in range(4)]
    for bit in (1, 2):
        if any(column & bit for name in ("lane", "warp") for _, column in linear.bases(name)):
            mine = build.map("and", coordinate(build, linear, 1)[0], build.constant(bit, I32))
            other = build.map("ne", mine, build.constant(0, I32))
            fours = [build.select(other, fours[word ^ bit], fours[word]) for word in range(4)]
    places = linear.table("register")
    chosen = [(column & 3) * quarters.registers + groups[row, column >> 2] for row, column in places]
    found = build.pick(build.join(fours), chosen)
    return build.bitcast(found, U32) if node.attr.kind == "bits" else found


def _drawn(x: Expansion, kind: str, counter: list[Value], key: tuple[Value, Value]) -> list[Value]:
    arithmetic = KernelArithmetic(x.build, x.target)
    count = counter[0].count
    found = math.random_numbers(arithmetic, kind, (counter[0], counter[1]), _first(x.build, key))
    return [x.build.spread(each, count) for each in found]


def _first(build: Builder, key: tuple[Value, Value]) -> tuple[Value, Value]:
    """The key, which is the same in all registers, in one."""
    low, high = (build.pick(each, (0,)) for each in key)
    return low, high


def _picked(build: Builder, value: Value, first: int) -> Value:
    return build.pick(value, range(first, min(first + _AT_ONCE, value.count)))


def _quarters(linear: Linear) -> Linear:
    """Where the counters of a layout's elements are: its columns by four."""
    rows, columns = linear.shape
    inputs = tuple(
        (name, tuple((row, column >> 2) for row, column in bases)) for name, bases in linear.inputs
    )
    return Linear((rows, max(1, columns // 4)), inputs).without_replicas()


def _words(build: Builder, value: Value) -> tuple[Value, Value]:
    """The lower and the upper 32 bits of integers, which have their signs in 64."""
    if value.dtype is U32:
        return build.bitcast(value, I32), build.constant(0, I32)
    if value.dtype is U64:
        value = build.bitcast(value, I64)
    if value.dtype is not I64:
        low = build.convert(value, I32)
        return low, build.map("shr", low, build.constant(31, I32))
    return build.convert(value, I32), build.convert(build.map("ushr", value, build.constant(32, I64)), I32)
