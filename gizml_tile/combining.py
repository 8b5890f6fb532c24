"""Functions that combine the values of two places: those that a person writes, and our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gizml_tile.dtypes import DType
from gizml_tile.helpful import called
from gizml_tile.lifting import describe, lift, number
from gizml_tile.nodes import ELEMENTWISE, Node, Region, make, param
from gizml_tile.tracing import Trace, Value, article, fail, noun

# What a person calls operations that have other names in the tile IR.
_NAMES = {
    "value": "index",
    "index": "index",
    "read": "read",
    "put": "store",
    "part": "sort",
    "element": "index",
    "loop": "loop",
    "cond": "branch",
    "iota": "iota",
}


def trace_function(
    trace: Trace,
    function: Callable[..., Any],
    dtypes: tuple[DType, ...],
    tile: Callable[..., Any],
    what: str,
) -> Region:
    """What a person's function of two places' values does, as a region on [1, 1] tiles."""
    count = len(dtypes)
    with trace.open_block() as block:
        block.params = tuple(param((1, 1), dtypes[n % count], n) for n in range(2 * count))
        operands = [tile(block, each) for each in block.params]
        names = "two values" if count == 1 else f"{count} values of an earlier place and as many of a later"
        given = called(function, f"the function of {what}", names, *operands)
        values = list(given) if isinstance(given, tuple | list) else [given]
        if len(values) != count:
            fail(
                f"the function of {what} gives as many values as it combines ({count}), found {len(values)}; "
                f"with more tiles after the axis, x.{what}(function, axis, y), it combines as many together"
            )
        results = tuple(
            _result(trace, value, dtype, what) for value, dtype in zip(values, dtypes, strict=True)
        )
    region = block.region(results)
    known = {*region.params, *region.nodes}
    for node in region.nodes:
        if node.op != "const" and node.op not in ELEMENTWISE:
            fail(
                f"the function of {what} computes with its operands and numbers, element by element; it has "
                f"no {_NAMES.get(node.op, node.op)}"
            )
        if not known.issuperset(node.args) or node.shape != (1, 1):
            _captures(what)
    if not known.issuperset(results):
        _captures(what)
    return region


def _result(trace: Trace, value: object, dtype: DType, what: str) -> Node:
    if not isinstance(value, Value) and number(value) is None:
        fail(f"the function of {what} gives what its operands become, found {describe(value)}")
    node = lift(trace, value, dtype, f"the function of {what}")
    if node.dtype is not dtype:
        fail(
            f"the function of {what} gives the types that it takes, found {article(noun(node))} for {dtype}; "
            "convert it with .to(dtype)"
        )
    return node


def _captures(what: str) -> None:
    fail(
        f"the function of {what} computes with its operands and numbers alone; give {what} other tiles after "
        f"the axis, x.{what}(function, axis, y)"
    )


@lru_cache(maxsize=64)
def built_in(op: str, dtype: DType) -> Region:
    """One operation of two values, the same region for equal ones."""
    a, b = (param((1, 1), dtype, number) for number in range(2))
    both = make(op, (a, b))
    return Region((a, b), (both,), (both,))
