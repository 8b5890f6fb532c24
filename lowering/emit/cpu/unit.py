"""From a tile program to LLVM text for the CPU: the functions of one compilation unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gizml_tile.dtypes import I64
from gizml_tile.lowering.emit.cpu.accumulate import locks_rows, write_locks
from gizml_tile.lowering.emit.cpu.builder import PAST_CACHES, Function, Module, Value
from gizml_tile.lowering.emit.cpu.cost import program_cost
from gizml_tile.lowering.emit.cpu.explain import explain_plan
from gizml_tile.lowering.emit.cpu.normalise import normalise
from gizml_tile.lowering.emit.cpu.order import order_of, program_ids
from gizml_tile.lowering.emit.cpu.packing import STAGE_REUSE, Machine, Pack
from gizml_tile.lowering.emit.cpu.packs import (
    STAGED_BYTES,
    can_stage,
    chunk_count,
    is_spread,
    ranges,
    reads_in_place,
    tensors_of_pack,
    total_depth,
    write_pack,
    write_stage,
)
from gizml_tile.lowering.emit.cpu.plan import plan
from gizml_tile.lowering.emit.cpu.regions import Arena, RegionWriter
from gizml_tile.lowering.emit.cpu.schedule import RegionPlan
from gizml_tile.lowering.emit.cpu.scope import ArgumentLayout, Scope, Unit
from gizml_tile.lowering.emit.cpu.streams import fence
from gizml_tile.lowering.emit.cpu.tiles import end_tiles
from gizml_tile.lowering.emit.lines import Origins
from gizml_tile.nodes import Node, TileProgram

ENTRY = "entry"
# A piece of a launch is worth handing to another core from this many nanoseconds of work on.
PIECE_NANOSECONDS = 4000
# Pieces for each thread, so that one that is late or slow leaves work to the others.
PIECES = 16


class Host(Protocol):
    """What the emitter asks of a CPU."""

    @property
    def feature_text(self) -> str: ...
    @property
    def vector_bits(self) -> int: ...
    @property
    def bf16_dot(self) -> bool: ...
    @property
    def amx(self) -> bool: ...
    @property
    def i16_dot(self) -> bool: ...
    @property
    def i8_dot(self) -> bool: ...
    @property
    def stream_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CpuSignature:
    """How a launch's tensors lie in memory.

    ``layouts`` tells of each tensor's strides ``"unit"``, ``"zero"`` or ``"any"``; ``may_alias`` that some
    written tensor's memory overlaps another's.
    """

    layouts: tuple[tuple[str, ...], ...]
    grid_rank: int
    may_alias: bool


@dataclass(frozen=True, slots=True)
class CpuArtifact:
    """A module's text, its entry, what a thread's arena must hold, and the words the entry is given.

    ``origins`` tell where the text's lines come from.
    """

    text: str
    entry: str
    arena_bytes: int
    arguments: tuple[tuple[str | int, ...], ...]
    origins: Origins = field(default=(), compare=False)


def emit(program: TileProgram, signature: CpuSignature, host: Host) -> CpuArtifact:
    """The LLVM text of a simplified program for tensors of these layouts."""
    column_major = tuple(_is_column_major(layout) for layout in signature.layouts)
    normalised = normalise(program, column_major)
    machine = machine_of(host)
    body, packs = plan(normalised.program, machine, may_alias=signature.may_alias)
    arguments = ArgumentLayout(
        tuple(tensor.rank for tensor in program.tensors), len(program.scalars), len(packs)
    )
    unit = Unit(
        normalised.program,
        normalised.storage,
        signature.layouts,
        arguments,
        machine.vector,
        host.vector_bits == 512,
        "f16c" in host.feature_text or "neon" in host.feature_text,
        machine.stream_bytes,
    )
    module = Module()
    for pack in packs:
        write_pack(module, unit, pack)
        if can_stage(unit, pack):
            write_stage(module, unit, pack)
    arena_bytes = _write_body(module, unit, body, packs)
    _write_entry(module, unit, body, packs)
    features = host.feature_text + (",+avx512bf16" if machine.bf16_dot else "")
    features += ",+amx-tile,+amx-bf16,+amx-int8" if machine.amx else ""
    module.attributes["#0"] = (
        f'nounwind "target-features"="{features}" "prefer-vector-width"="{host.vector_bits}"'
    )
    return CpuArtifact(module.text(), ENTRY, arena_bytes, _words(program, arguments), module.origins())


def explain(program: TileProgram, signature: CpuSignature, host: Host) -> tuple[str, ...]:
    """What ``emit`` decides for a simplified program, and why: one decision a line."""
    column_major = tuple(_is_column_major(layout) for layout in signature.layouts)
    normalised = normalise(program, column_major)
    return explain_plan(normalised.program, machine_of(host), may_alias=signature.may_alias)


def machine_of(host: Host) -> Machine:
    return Machine(
        host.vector_bits // 32, host.bf16_dot, host.amx, host.i16_dot, host.i8_dot, host.stream_bytes
    )


def _is_column_major(layout: tuple[str, ...]) -> bool:
    return len(layout) >= 2 and layout[-1] != "unit" and layout[-2] == "unit"


def _words(program: TileProgram, arguments: ArgumentLayout) -> tuple[tuple[str | int, ...], ...]:
    words: list[tuple[str | int, ...]] = []
    for number, rank in enumerate(arguments.ranks):
        words.append(("pointer", number, 0))
        words.extend(("size", number, axis) for axis in range(rank))
        words.extend(("stride", number, axis) for axis in range(rank))
    for number, scalar in enumerate(program.scalars):
        words.append(("scalar", number, "index" if scalar.dtype is I64 else "float"))
    words.extend(("grid", axis) for axis in range(3))
    return tuple(words)


def _write_body(module: Module, unit: Unit, body: RegionPlan, packs: Sequence[Pack]) -> int:
    """Writes ``body(args, arena, low, high)``: the programs low to high; gives the arena's size."""
    parameters = [("ptr", "args"), ("ptr", "arena"), ("i64", "low"), ("i64", "high")]
    function = Function(module, "body", parameters, linkage="internal")
    scope = Scope(unit, function)
    scope.load_tensors(range(len(unit.storage)))
    sizes = [scope.slot(unit.arguments.grid(axis)) for axis in range(2)]
    order = order_of(body)
    arena = Arena()
    writer = RegionWriter(scope, arena)

    def program(number: Value, _: list[str]) -> Sequence[str]:
        scope.ids = program_ids(function, order, number, (sizes[0], sizes[1]))
        writer.write(body)
        return ()

    function.loop("%low", "%high", 1, program)
    if writer.configurations:
        end_tiles(function)
    if PAST_CACHES in module.metadata:
        fence(function)
    function.ret()
    scope.finish()
    return arena.bytes


def _write_entry(module: Module, unit: Unit, body: RegionPlan, packs: Sequence[Pack]) -> None:
    """Writes ``entry(args, pool)``: packs for the whole launch what is worth it, then runs all programs."""
    function = Function(module, ENTRY, [("ptr", "words"), ("ptr", "pool")], result="i64")
    slots = unit.arguments.slots
    function.line(f"%args = alloca [{slots} x i64], align 64")
    for slot in range(slots):
        word = "0"
        if slot < unit.arguments.pack(0):
            word = function.load("i64", function.offset("%words", 8 * slot), 8)
        function.store("i64", word, function.offset("%args", 8 * slot), 8)
    scope = Scope(unit, function)
    stages = [pack for pack in packs if can_stage(unit, pack)]
    scope.load_tensors({tensor for pack in stages for tensor in tensors_of_pack(pack)})
    total = function.emit("add i64 1, 0")
    for axis in range(3):
        total = str(function.mul(total, scope.slot(unit.arguments.grid(axis))))
    threads = function.load("i64", function.offset("%pool", 16), 8)
    running = str(function.minimum(threads, total))
    function.store("i64", running, function.offset("%args", 8 * unit.arguments.threads), 8)
    if locks_rows(unit.program):
        function.store("ptr", write_locks(function), function.offset("%args", 8 * unit.arguments.locks), 8)
    if stages:
        _write_staging(scope, stages, total, threads)
    cost = program_cost(body)
    least = max(1, PIECE_NANOSECONDS // max(1, cost))
    _run(function, "body", total, _piece(function, total, threads, least))
    function.ret("i64 0")


def _write_staging(scope: Scope, stages: Sequence[Pack], total: str, threads: str) -> None:
    function, unit = scope.function, scope.unit
    size: Value = 0
    plans = []
    for pack in stages:
        blocks: Value = 1
        users: Value = 1
        for leaf, count in zip(pack.leaves, ranges(scope, pack), strict=True):
            blocks = function.mul(blocks, count)
            if not _turns(leaf.index):
                users = function.mul(users, count)
        chunks = chunk_count(function, pack, total_depth(scope, pack))
        units = function.mul(blocks, chunks)
        # Every operand starts at a cache line, as vector loads ask for.
        wanted = function.emit(
            f"and i64 {function.add(function.mul(units, pack.packing.chunk_bytes), 63)}, -64"
        )
        worth = function.compare("sge", total, function.mul(users, STAGE_REUSE))
        fits = function.compare("sle", function.add(size, wanted), STAGED_BYTES)
        checks = [worth, fits]
        if pack.packing.side == "left" and reads_in_place(unit, pack):
            checks.append(is_spread(scope, pack))
        staged = function.all_of(checks)
        place = size
        size = function.add(size, function.choose(staged, wanted, 0))
        plans.append((pack, staged, units, place))
    reserve = function.load("ptr", function.offset("%pool", 8), 8)
    any_staged = function.compare("sgt", size, 0)

    def stage_all() -> list[str]:
        base = function.emit(f"call ptr {reserve}(ptr %pool, i64 {size})")
        got = function.emit(f"icmp ne ptr {base}, null")
        for pack, staged, units, place in plans:

            def stage(pack: Pack = pack, units: Value = units, place: Value = place) -> list[str]:
                slot = function.offset("%args", 8 * unit.arguments.pack(pack.number))
                function.store("ptr", function.offset(base, place), slot, 8)
                least = max(1, PIECE_NANOSECONDS * 8 // pack.packing.chunk_bytes)
                _run(function, f"stage_{pack.number}", units, _piece(function, units, threads, least))
                return []

            function.when(function.all_of([staged, got]), stage)
        return []

    function.when(any_staged, stage_all)


def _turns(index: Node) -> bool:
    """Whether a coordinate changes within a program: it comes from a loop."""
    pending, seen = [index], set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "param":
            return True
        pending.extend(node.args)
    return False


def _piece(function: Function, count: Value, threads: str, least: int) -> Value:
    """How many units one piece takes."""
    pieces = function.mul(threads, PIECES)
    share = function.emit(f"udiv i64 {function.add(count, function.sub(pieces, 1))}, {pieces}")
    return function.maximum(share, least)


def _run(function: Function, name: str, count: Value, piece: Value) -> None:
    run = function.load("ptr", "%pool", 8)
    function.line(f"call void {run}(ptr %pool, ptr @{name}, ptr %args, i64 {count}, i64 {piece})")
