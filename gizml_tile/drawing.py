"""Random numbers from a seed and counters, as a program draws them."""

from __future__ import annotations

from typing import Any

from gizml_tile.dtypes import I64
from gizml_tile.index import Index
from gizml_tile.lifting import describe, lift_index, number, tile_shape
from gizml_tile.nodes import RANDOM, Const, Node, Random, broadcast
from gizml_tile.tile import Tile
from gizml_tile.tracing import Trace, fail


def draw(trace: Trace, seed: object, offset: object, shape: object, kind: object) -> Tile:
    """What ``Program.random`` gives."""
    trace.check_open()
    found = tile_shape(shape, "random")
    if not isinstance(kind, str) or kind not in RANDOM:
        way = "; several sizes are one list, as in [8, 8]" if type(number(kind)) is int else ""
        fail(f"random draws {', '.join(map(repr, RANDOM))}, found {describe(kind)}{way}")
    groups = (found[0], -(-found[1] // 4))
    args = (_seed(trace, seed), _counters(trace, offset, groups))
    node = trace.record("random", args, Random(found, str(kind)))
    return Tile(trace.blocks[-1], node)


def _seed(trace: Trace, seed: object) -> Node:
    """A [1, 1] tile of I64: a host integer counts modulo 2^64."""
    if isinstance(seed, Tile):
        node = trace.use(seed)
        if node.dtype is None or not node.dtype.is_integer or node.shape != (1, 1):
            fail(
                f"the seed of random is an integer, an index or a [1, 1] integer tile, found {describe(seed)}"
            )
        return node if node.dtype is I64 else trace.record("to", (node,), I64)
    host = number(seed)
    if type(host) is int:
        wrapped = (host + (1 << 63)) % (1 << 64) - (1 << 63)
        return trace.record("const", (), Const((1, 1), I64, wrapped))
    return trace.record("value", (_index(trace, seed, "seed"),), I64)


def _counters(trace: Trace, offset: object, groups: tuple[int, int]) -> Node:
    """The counter of each four neighbours of a row."""
    if isinstance(offset, Tile):
        node = trace.use(offset)
        if node.dtype is None or not node.dtype.is_integer:
            fail(
                f"the offset of random is an index or an integer tile, found {describe(offset)}; convert it "
                "with .to(I32), or count in integers, as with p.iota(shape, axis, tile.I32)"
            )
        if broadcast(node.shape, groups) != groups:
            fail(
                f"the offset of random has a counter for each four columns, here {list(groups)}, or sizes of "
                f"1, found {describe(offset)}"
            )
        return node
    first = Tile(trace.blocks[-1], trace.record("value", (_index(trace, offset, "offset"),), I64))
    for axis, step in ((0, groups[1]), (1, 1)):
        shape = (groups[0], 1) if axis == 0 else (1, groups[1])
        if groups[axis] > 1:
            count = Tile(trace.blocks[-1], trace.record("iota", (), Const(shape, I64, axis)))
            first = first.add(count.mul(step))
    return trace.use(first)


def _index(trace: Trace, value: Any, what: str) -> Node:
    if not isinstance(value, Index) and type(number(value)) is not int:
        fail(f"the {what} of random is an integer, an index or an integer tile, found {describe(value)}")
    return lift_index(trace, value, f"the {what} of random")
