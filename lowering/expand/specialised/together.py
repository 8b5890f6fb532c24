"""What a group of warps does that runs one of the programs which share a workgroup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.neighbours import turns_of_all
from gizml_tile.lowering.expand.specialised.ring import GROUP_BARRIER, BulkRing, bulk_rings
from gizml_tile.lowering.expand.specialised.turns import enter, leave
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.nodes import Node


def begin_alone(x: Expansion) -> None:
    """From here on threads and warps are counted in each program, of which each has its own memory."""
    assert x.plan.specialised is not None
    build, together = x.build, x.plan.specialised.together
    if together > 1:
        shift = build.constant(x.plan.warps.bit_length() - 1, I32)
        x.neighbour = build.map("ushr", build.warp(), shift)
        build.threads_again, build.warps_again = x.plan.threads, x.plan.warps
        x.memory.share_out(together, x.neighbour, GROUP_BARRIER)


@contextmanager
def among_others(x: Expansion, loop: Node, rings: Sequence[BulkRing]) -> Iterator[None]:
    """Around a program's own turns of a loop: those before and after that only others take go by."""
    assert x.plan.specialised is not None
    if loop not in x.plan.specialised.uneven:
        yield
        return
    build = x.build
    first, last, step = turns_of_all(x, loop)
    start, stop = (x.index(arg) for arg in loop.args[:2])
    assert isinstance(step.attr, int)
    runs = build.map("lt" if step.attr > 0 else "gt", start, stop)
    pass_turns(x, rings, first, build.select(runs, start, last), step)
    yield
    pass_turns(x, rings, build.select(runs, stop, last), last, step)


def pass_turns(
    x: Expansion, rings: Sequence[BulkRing], start: Value, stop: Value, step: Value
) -> list[Value]:
    """Give back the blocks of turns that others take; gives the states of the rings."""
    last = [ring for ring in rings if _is_last(x, ring)]

    def turn(counter: Value, states: tuple[Value, ...]) -> Sequence[Value]:
        for ring, state in zip(rings, states, strict=True):
            ring.state = state
        for ring in rings:
            if ring not in last:
                ring.take()
        enter(x)
        leave(x)
        for ring in rings:
            if ring in last:
                ring.take()
            ring.give()
        return [ring.state for ring in rings]

    states = x.build.loop(start, stop, step, [ring.state for ring in rings], turn)
    for ring, state in zip(rings, states, strict=True):
        ring.state = state
    return list(states)


def _is_last(x: Expansion, ring: BulkRing) -> bool:
    """Whether the last product of a turn takes a ring's blocks."""
    assert x.plan.specialised is not None and ring.loop is not None
    rotation = x.plan.specialised.chained[ring.loop]
    return rotation is not None and rotation.product in ring.users[:1]


def run_or_pass(x: Expansion, rings: Sequence[BulkRing], exists: Value, expand: Callable[[], None]) -> None:
    """Run a program, or let the blocks of the others go by where it lies beyond the grid's end."""
    states = [ring.state for ring in rings]

    def run() -> list[Value]:
        with x.block():
            expand()
        return [ring.state for ring in rings]

    def let_pass() -> list[Value]:
        for ring, state in zip(rings, states, strict=True):
            ring.state = state
        with x.block():
            _pass_program(x)
        return [ring.state for ring in rings]

    for ring, state in zip(rings, x.build.branch(exists, run, let_pass), strict=True):
        ring.state = state


def _pass_program(x: Expansion) -> None:
    assert x.plan.specialised is not None
    once = bulk_rings(x, None)
    for ring in once:
        ring.take()
    for loop in x.plan.specialised.loops:
        pass_turns(x, bulk_rings(x, loop), *turns_of_all(x, loop))
    for ring in once:
        ring.give()
