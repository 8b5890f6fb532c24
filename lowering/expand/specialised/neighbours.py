"""Programs that share a workgroup: the indices of each, and the turns of a loop that any of them takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import define_ids
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.nodes import Node


@contextmanager
def of_neighbour(x: Expansion, number: int) -> Iterator[Value]:
    """Inside, indices are those of one of the programs that share a workgroup; gives whether it exists."""
    outer, x.neighbour = x.neighbour, x.build.constant(number, I32)
    with x.afresh():
        assert x.line is not None
        exists = define_ids(x, x.plan.group, x.line)
        assert exists is not None
        yield exists
    x.neighbour = outer


def turns_of_all(x: Expansion, loop: Node) -> tuple[Value, Value, Value]:
    """The start, stop and step of the turns that any of the programs in a workgroup takes."""
    assert x.plan.specialised is not None
    build, uneven = x.build, loop in x.plan.specialised.uneven
    with of_neighbour(x, 0):
        start, stop, step = (x.index(arg) for arg in loop.args[:3])
    assert isinstance(step.attr, int)
    earlier, later = ("min", "max") if step.attr > 0 else ("max", "min")
    for number in range(1, x.plan.specialised.together if uneven else 1):
        with of_neighbour(x, number) as exists:
            first, last = (x.index(arg) for arg in loop.args[:2])
            start = build.select(exists, build.map(earlier, start, first), start)
            stop = build.select(exists, build.map(later, stop, last), stop)
    return start, stop, step
