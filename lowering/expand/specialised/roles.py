"""The roles of a workgroup's warps, each of which runs through the same programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import define_ids
from gizml_tile.lowering.expand.specialised.ring import BulkRing
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import BulkWait, Parameter, Role
from gizml_tile.lowering.planning.plan import Specialised


def expand_roles(x: Expansion, specialised: Specialised, expand_body: Callable[[], None]) -> None:
    """Threads that multiply, and then those that bring blocks, each for all programs of the workgroup."""
    build, lanes = x.build, x.target.facts.lanes
    rings = [ring for ring in x.rings.values() if isinstance(ring, BulkRing)]
    first = build.map("eq", build.thread(), build.constant(0, I32))

    def prepare() -> None:
        for ring in rings:
            ring.prepare()

    build.when(first, prepare)
    build.barrier(0, x.plan.launched_threads)
    few, many = specialised.registers

    def multiply() -> None:
        if many:
            build.emit("registers", attr=(many, True))
        with x.memory.repeated():
            _programs(x, rings, expand_body)
        if specialised.stores:
            # The copy engine reads workgroup memory, which ends with the workgroup.
            build.emit("bulk_wait", attr=BulkWait(0, True))

    def fill() -> None:
        for ring in rings:
            ring.bring()

    def bring() -> None:
        if few:
            build.emit("registers", attr=(few, False))
        alone = build.map("eq", build.thread(), build.constant(x.plan.threads, I32))
        build.when(alone, lambda: _programs(x, rings, fill))

    warps = x.plan.launched_threads // lanes
    build.roles(
        [
            (Role("multiply", 0, x.plan.warps), multiply),
            (Role("bring", x.plan.warps, warps - x.plan.warps), bring),
        ]
    )


def _programs(x: Expansion, rings: Sequence[BulkRing], expand: Callable[[], None]) -> None:
    """Run ``expand`` for each program of the workgroup: every so many of the grid's."""
    build = x.build
    total = build.constant(1, I32)
    for axis in range(x.plan.signature.grid_rank):
        size = build.convert(build.parameter(Parameter("grid", 0, axis)), I32)
        total = build.mul(total, size)

    def program(line: Value, carried: tuple[Value, ...]) -> Sequence[Value]:
        with x.block():
            define_ids(x, x.plan.group, line)
            for ring, state in zip(rings, carried, strict=True):
                ring.state = state
            expand()
            return [ring.state for ring in rings]

    zero = build.constant(0, I32)
    build.loop(build.workgroup(0), total, build.workgroups(0), [zero] * len(rings), program)
