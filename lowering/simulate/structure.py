"""Runs blocks: loops, branches, and roles that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from gizml_tile.dtypes import I64
from gizml_tile.lowering.kernel_ir.instructions import APART, Block, Instruction, Parameter, Role
from gizml_tile.lowering.simulate import (
    accesses,
    atomics,
    barriers,
    bulk,
    clusters,
    copies,
    products,
    signals,
    warps,
)
from gizml_tile.lowering.simulate.numbers import HELD, Array, bitcast, constant, convert, evaluate
from gizml_tile.lowering.simulate.threads import Threads, Waiting

Values = list[Array]


class Deadlock(Exception):
    """Nobody of a batch can go on; ``waiting`` are those who wait."""

    def __init__(self, waiting: list[Waiting]) -> None:
        super().__init__()
        self.waiting = waiting


def run(threads: Threads, block: Block) -> Iterator[Waiting]:
    """Run a block's instructions; yields while it waits for others."""
    last_uses = threads.batch.last_uses[block]
    for instruction, dead in zip(block.instructions, last_uses, strict=True):
        waiting = WAITING.get(instruction.op)
        if waiting is not None:
            yield from waiting(threads, instruction)
        else:
            if threads.batch.has_products:
                value = _evaluate_beside_products(threads, instruction)
            else:
                value = _evaluate(threads, instruction)
            if value is not None:
                threads.values[instruction] = value
        for each in dead:
            threads.values.pop(each, None)


def _evaluate(threads: Threads, at: Instruction) -> Array | None:
    plain = PLAIN.get(at.op)
    if plain is not None:
        return plain(threads, at)
    args = [threads.get(arg) for arg in at.args]
    dtypes = [arg.dtype for arg in at.args if arg.dtype is not None]
    assert at.dtype is not None
    return evaluate(at.op, args, dtypes, at.dtype)


def _evaluate_beside_products(threads: Threads, at: Instruction) -> Array | None:
    """`_evaluate`, watching the registers that asynchronous matrix operations use."""
    renamed = products.check_registers(threads, at) if threads.flying else None
    value = _evaluate(threads, at)
    threads.step += 1
    if value is None or at.op == "result":
        return value
    if at.op == "group_mma":
        threads.write(value, -1)
    elif at.op not in products.RENAMED:
        threads.write(value, threads.step)
    else:
        threads.write(value, max(threads.written(threads.get(arg)) for arg in at.args))
        if renamed is not None:
            threads.flying[id(value)] = (value, renamed)
    return value


def last_uses(block: Block) -> dict[Block, tuple[tuple[Instruction, ...], ...]]:
    """For each instruction of a block, and of the blocks inside, the values that it uses last."""
    result: dict[Block, tuple[tuple[Instruction, ...], ...]] = {}
    _last_uses(block, result)
    return result


def _last_uses(block: Block, result: dict[Block, tuple[tuple[Instruction, ...], ...]]) -> set[Instruction]:
    last: dict[Instruction, int] = {}
    for number, instruction in enumerate(block.instructions):
        last[instruction] = number
        used = set(instruction.args)
        for inside in instruction.blocks:
            used |= _last_uses(inside, result)
        for each in used:
            last[each] = number
    made = set(block.instructions)
    kept = set(block.results)
    dead: list[list[Instruction]] = [[] for _ in block.instructions]
    for each, number in last.items():
        if each in made and each not in kept:
            dead[number].append(each)
    result[block] = tuple(map(tuple, dead))
    return (set(last) | kept) - made - set(block.params)


# Leaves and registers


def _leaf_constant(threads: Threads, at: Instruction) -> Array:
    assert at.dtype is not None
    return constant(at.attr, at.dtype)


def _workgroup(threads: Threads, at: Instruction) -> Array:
    batch = threads.batch
    axis = at.attr
    assert isinstance(axis, int)
    before = int(np.prod(batch.grid[:axis]))
    size = batch.grid[axis] if axis < len(batch.grid) else 1
    number = (batch.numbers // before % size).astype(np.int32)
    if len(number) == 1:
        return number[None]
    return np.repeat(number, threads.each)[None]


def _workgroups(threads: Threads, at: Instruction) -> Array:
    assert isinstance(at.attr, int)
    grid = threads.batch.grid
    return np.array([[grid[at.attr] if at.attr < len(grid) else 1]], np.int32)


def _parameter(threads: Threads, at: Instruction) -> Array:
    what = at.attr
    assert isinstance(what, Parameter) and at.dtype is not None
    batch = threads.batch
    match what.kind:
        case "pointer":
            value: int | float = batch.tensors[what.number].offset * batch.tensors[what.number].dtype.bytes
        case "size":
            value = batch.tensors[what.number].memory.shape[what.axis]
        case "stride":
            value = batch.tensors[what.number].memory.strides[what.axis]
        case "scalar":
            value = batch.scalars[what.number]
        case "grid":
            value = batch.sizes[what.axis] if what.axis < len(batch.sizes) else 1
        case _:
            raise ValueError(f"the simulator knows no parameter {what.kind!r}")
    return np.array([[value]], HELD[at.dtype])


def _pick(threads: Threads, at: Instruction) -> Array:
    assert isinstance(at.attr, tuple)
    held = threads.get(at.args[0])
    chosen = [int(number) for number in at.attr]  # type: ignore[arg-type]
    if len(held) == 1:
        return np.broadcast_to(held, (len(chosen), held.shape[1]))
    if chosen == list(range(chosen[0], chosen[0] + len(chosen))):
        return held[chosen[0] : chosen[0] + len(chosen)]
    return held[chosen]


def _join(threads: Threads, at: Instruction) -> Array:
    parts = [threads.get(arg) for arg in at.args]
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(part, (len(part), width)) for part in parts])


def _bitcast(threads: Threads, at: Instruction) -> Array:
    assert at.dtype is not None
    return bitcast(threads.get(at.args[0]), at.dtype)


def _convert(threads: Threads, at: Instruction) -> Array:
    source, to = at.args[0].dtype, at.dtype
    assert source is not None and to is not None
    return convert(threads.get(at.args[0]), source, to)


def _result(threads: Threads, at: Instruction) -> Array:
    assert isinstance(at.attr, int)
    return threads.carried[at.args[0]][at.attr]


# Structure


def _uniform(threads: Threads, at: Instruction, value: Array, what: str) -> None:
    """Report a value that must be the same in all threads of a workgroup (or role) and is not."""
    if value.shape[1] == 1:
        return
    each = value.reshape(threads.workgroups, threads.each)
    if threads.active is None:
        differs = each != each[:, :1]
    else:
        active = threads.active.reshape(each.shape)
        first = each[np.arange(len(each)), active.argmax(axis=1)][:, None]
        differs = (each != first) & active
    if differs.any():
        workgroup, thread = np.argwhere(differs)[0]
        name = threads.name(int(workgroup * threads.each + thread))
        threads.batch.log.add("divergent", at, f"{what} differs in {name}", int(differs.any(axis=1).sum()))


def _kept(threads: Threads, active: Array | None, new: Array, old: Array) -> Array:
    """New values where threads are active, the old ones elsewhere."""
    if active is None:
        return new
    value = np.where(active, new, old)
    if threads.batch.has_products:
        threads.write(value, max(threads.written(new), threads.written(old)))
    for part in (new, old):
        if id(part) in threads.flying:
            threads.flying[id(value)] = (value, threads.flying[id(part)][1])
    return value


def _loop(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    block = at.blocks[0]
    counter, stop, step = (threads.get(arg) for arg in at.args[:3])
    for value, what in ((counter, "the start"), (stop, "the end"), (step, "the step")):
        _uniform(threads, at, value, what)
    carried = [threads.get(arg) for arg in at.args[3:]]
    around = threads.active
    for turn in count():
        going = np.where(step > 0, counter < stop, counter > stop)
        if isinstance(at.attr, int):
            _uniform(threads, at, carried[at.attr], "whether the loop goes on")
            going = going & (carried[at.attr] != 0)
            if turn == _MOST_TURNS and going.any():
                threads.batch.log.add("endless", at, f"has not ended after {turn} turns", 1)
                break
        everyone = bool(going.all())
        if not everyone:
            if around is not None:
                going = going & around
                everyone = bool((going == around).all())
            if not going.any():
                break
            if not everyone:
                threads.active = np.broadcast_to(going, (1, threads.size))[0]
        for param, value in zip(block.params, (counter, *carried), strict=True):
            threads.values[param] = value
        yield from run(threads, block)
        inside = None if everyone else threads.active
        results = [threads.get(each) for each in block.results]
        carried = [_kept(threads, inside, new, old) for new, old in zip(results, carried, strict=True)]
        counter = _kept(threads, inside, counter + step, counter)
        threads.active = around
    threads.carried[at] = carried


def _branch(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    mask = threads.get(at.args[0])
    if at.attr != APART:
        _uniform(threads, at, mask, "the condition")
    around = threads.active
    merged: list[Array] | None = None
    for block, chosen in zip(at.blocks, (mask, ~mask), strict=True):
        inside = chosen if around is None else chosen & around
        if not inside.any():
            continue
        whole = bool(chosen.all())
        if not whole:
            threads.active = np.broadcast_to(inside, (1, threads.size))[0]
        yield from run(threads, block)
        results = [threads.get(each) for each in block.results]
        if merged is None:
            merged = results
        else:
            merged = [
                _kept(threads, threads.active, new, old) for new, old in zip(results, merged, strict=True)
            ]
        threads.active = around
    if merged is None:
        dtypes = [I64 if each.dtype is None else each.dtype for each in at.blocks[0].results]
        merged = [
            constant((0,) * each.count, dtype)
            for each, dtype in zip(at.blocks[0].results, dtypes, strict=True)
        ]
    threads.carried[at] = merged


def _when(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    mask = threads.get(at.args[0])
    around = threads.active
    inside = mask if around is None else mask & around
    if not inside.any():
        return
    if not mask.all():
        threads.active = np.broadcast_to(inside, (1, threads.size))[0]
    yield from run(threads, at.blocks[0])
    threads.active = around


def _roles(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Run each role until it waits, in turn; nobody going on in a whole round is a deadlock."""
    roles = at.attr
    assert isinstance(roles, tuple)
    running: dict[str, Iterator[Waiting]] = {}
    ended: dict[str, Threads] = {}
    for role, block in zip(roles, at.blocks, strict=True):
        assert isinstance(role, Role)
        warps = role.warps // role.groups
        for group in range(role.groups):
            own = Threads(threads.batch, role.first_warp + group * warps, warps, threads)
            own.role = role.name if role.groups == 1 else f"{role.name}, group {group}"
            running[own.role], ended[own.role] = run(own, block), own
    while running:
        before = threads.batch.progress
        waiting: list[Waiting] = []
        for name, role_run in list(running.items()):
            stopped = next(role_run, None)
            if stopped is None:
                del running[name]
                clusters.leave(threads.batch, ended[name])
                threads.batch.progress += 1
            else:
                waiting.append(stopped)
        if waiting and threads.batch.progress == before:
            raise Deadlock(waiting)
    return
    yield


Plain = Callable[[Threads, Instruction], Array | None]

# A loop that goes on by its flag alone is given up after so many turns.
_MOST_TURNS = 1 << 16
WAITING: dict[str, Callable[[Threads, Instruction], Iterator[Waiting]]] = {
    "loop": _loop,
    "branch": _branch,
    "when": _when,
    "roles": _roles,
    "update": atomics.update,
    "barrier": barriers.barrier,
    "cluster_barrier": clusters.cluster_barrier,
    "cluster_begun": clusters.cluster_begun,
    "signal_wait": signals.signal_wait,
}
PLAIN: dict[str, Plain] = {
    "constant": _leaf_constant,
    "thread": lambda threads, at: threads.thread[None],
    "lane": lambda threads, at: threads.lane[None],
    "warp": lambda threads, at: threads.warp[None],
    "workgroup": _workgroup,
    "workgroups": _workgroups,
    "rank": clusters.rank,
    "parameter": _parameter,
    "pick": _pick,
    "join": _join,
    "bitcast": _bitcast,
    "again": lambda threads, at: threads.get(at.args[0]),
    "convert": _convert,
    "result": _result,
    "load": accesses.load,
    "store": accesses.store,
    "atomic": atomics.atomic,
    "remote_load": clusters.remote_load,
    "remote_store": clusters.remote_store,
    "remote_send": clusters.remote_send,
    "cluster_begin": clusters.cluster_begin,
    "matrix_load": accesses.matrix_load,
    "matrix_store": accesses.matrix_store,
    "copy": copies.copy,
    "copy_commit": copies.copy_commit,
    "copy_wait": copies.copy_wait,
    "warp_barrier": barriers.warp_barrier,
    "shuffle": warps.shuffle,
    "outer": warps.outer,
    "mma": warps.mma,
    "signal_init": signals.signal_init,
    "signal_expect": signals.signal_expect,
    "signal_arrive": signals.signal_arrive,
    "bulk_load": bulk.bulk_load,
    "bulk_store": bulk.bulk_store,
    "bulk_commit": bulk.bulk_commit,
    "bulk_wait": bulk.bulk_wait,
    "fence_async": bulk.fence_async,
    "kernel_wait": lambda threads, at: None,
    "group_mma": products.group_mma,
    "group_fence": products.group_fence,
    "group_commit": products.group_commit,
    "group_wait": products.group_wait,
    "registers": lambda threads, at: None,
}
