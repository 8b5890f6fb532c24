"""The roles of a workgroup's warps, each of which runs through the same programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import define_ids, size_of
from gizml_tile.lowering.expand.specialised.clusters import prepare_cluster
from gizml_tile.lowering.expand.specialised.ring import BulkRing, bring_turns, bulk_rings, first_state
from gizml_tile.lowering.expand.specialised.together import begin_alone, run_or_pass
from gizml_tile.lowering.expand.specialised.turns import TURNS, open_turns
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import Role
from gizml_tile.lowering.planning.plan import Specialised


def expand_roles(x: Expansion, specialised: Specialised, expand_body: Callable[[], None]) -> None:
    """Teams that multiply, and threads that bring blocks, each for its programs of the workgroup."""
    build, lanes = x.build, x.target.facts.lanes
    rings = [ring for ring in x.rings.values() if isinstance(ring, BulkRing)]
    first = build.map("eq", build.thread(), build.constant(0, I32))

    def prepare() -> None:
        for ring in rings:
            ring.prepare()
        if x.ahead is not None:
            x.ahead.prepare()
        if specialised.cluster is not None:
            prepare_cluster(x, specialised.cluster)

    build.when(first, prepare)
    build.barrier(0, x.plan.launched_threads)
    if specialised.cluster is not None:
        build.emit("cluster_begin")
    if specialised.resident == 1:
        build.emit("kernel_wait")
    few, many = specialised.registers

    def multiply(team: int) -> None:
        if many:
            build.emit("registers", attr=(many, True))
        if specialised.cluster is not None:
            # Before the first blocks have come, so that nothing waits for it later.
            build.emit("cluster_begun")
        if team:
            x.memory.next_team()
        _join(x, rings, specialised.teams, team)
        if specialised.in_order:
            open_turns(x)
        begin_alone(x)
        with x.memory.repeated():
            _programs(x, rings, expand_body, specialised.teams, team, multiplies=True)
        if specialised.stores:
            # The copy engine reads workgroup memory, which ends with the workgroup.
            build.bulk_wait(0, reading=True)

    def fill() -> None:
        for ring in bulk_rings(x, None):
            ring.bring()
        for loop in specialised.loops:
            bring_turns(x, loop, bulk_rings(x, loop))

    def bring() -> None:
        if few:
            build.emit("registers", attr=(few, False))
        build.first_thread = build.first_warp = build.threads_again = build.warps_again = 0
        if specialised.together > 1:
            x.neighbour = build.constant(0, I32)
        alone = build.map("eq", build.thread(), build.constant(workers * lanes, I32))
        build.when(alone, lambda: _programs(x, rings, fill))

    warps = specialised.together * x.plan.warps
    workers = specialised.teams * warps
    groups = specialised.all_groups if specialised.in_order else 1
    teams = [
        (Role(f"multiply {team}", team * warps, warps, groups), lambda team=team: multiply(team))
        for team in range(specialised.teams)
    ]
    build.roles([*teams, (Role("bring", workers, x.plan.launched_threads // lanes - workers), bring)])


def _join(x: Expansion, rings: Sequence[BulkRing], teams: int, team: int) -> None:
    """Count threads from a team's first, and say where it waits for its turn to multiply.

    It is the first team's turn, as the last tells at the beginning.
    """
    x.team = team
    x.build.first_warp, x.build.first_thread = team * x.plan.warps, team * x.plan.threads
    if teams == 1:
        return
    following = TURNS + (team + 1) % teams
    rings[0].enter, rings[-1].leave = TURNS + team, following
    if team == teams - 1:
        x.build.barrier(following, 2 * x.plan.threads, arrive=True)


def _programs(
    x: Expansion,
    rings: Sequence[BulkRing],
    expand: Callable[[], None],
    teams: int = 1,
    team: int = 0,
    *,
    multiplies: bool = False,
) -> None:
    """Run ``expand`` for each of a team's programs: every so many of the grid's, or one."""
    build = x.build
    assert x.plan.specialised is not None
    total = build.constant(1, I32)
    for axis in range(x.plan.signature.grid_rank):
        size = size_of(x, axis)
        total = build.mul(total, size)
    step = build.workgroups(0)
    alone = x.plan.specialised.together == 1

    def skip(line: Value) -> None:
        """Another team runs this program."""
        with x.block():
            define_ids(x, x.plan.group, line)
            for ring in rings:
                ring.skip()

    def program(line: Value, carried: Sequence[Value]) -> Sequence[Value]:
        for ring, state in zip(rings, carried, strict=True):
            ring.state = state
        x.line = line
        with x.block():
            exists = define_ids(x, x.plan.group, line)
            if alone or not multiplies:
                expand()
            else:
                assert exists is not None
                run_or_pass(x, rings, exists, expand)
        for _ in range(teams - 1):
            line = build.add(line, step)
            skip(line)
        return [ring.state for ring in rings]

    line = build.map("ushr", build.workgroup(0), build.constant(x.plan.cluster_size.bit_length() - 1, I32))
    for ring in rings:
        ring.state = first_state(x)
    if not x.plan.specialised.persistent:
        program(line, [ring.state for ring in rings])
        return
    for _ in range(team):
        skip(line)
        line = build.add(line, step)
    states = [ring.state for ring in rings]
    build.loop(line, total, build.mul(step, build.constant(teams, I32)), states, program)
