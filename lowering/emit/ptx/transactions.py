"""Hopper's transactions: barriers that count bytes, the copy engine, and what is ordered with them."""

from __future__ import annotations

from gizml_tile.lowering.emit.ptx.addresses import as_register, signal_address, workgroup_address
from gizml_tile.lowering.emit.ptx.artifact import TensorMap
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import Bulk, BulkWait, Instruction, Signal

_INITIALISED = "fence.mbarrier_init.release.cluster;"
_BARRIER = "mbarrier.{}.shared::cta.b64"
_BULK_LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
_BULK_STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group"
_LARGEST_RANK = 5


def _signal_init(writer: Writer, instruction: Instruction) -> Words:
    signal = instruction.attr
    assert isinstance(signal, Signal)
    where = signal_address(writer, instruction.args[0])
    # One fence after the last of several, for all of them.
    if writer.lines and writer.lines[-1] == _INITIALISED:
        writer.lines.pop()
    writer.lines += (f"{_BARRIER.format('init')} {where}, {signal.arrivals};", _INITIALISED)
    return ()


def _signal_expect(writer: Writer, instruction: Instruction) -> Words:
    where = signal_address(writer, instruction.args[0])
    writer.lines.append(f"{_BARRIER.format('arrive.expect_tx')} _, {where}, {instruction.attr};")
    return ()


def _signal_arrive(writer: Writer, instruction: Instruction) -> Words:
    where = signal_address(writer, instruction.args[0])
    writer.lines.append(f"{_BARRIER.format('arrive')} _, {where};")
    return ()


def _signal_wait(writer: Writer, instruction: Instruction) -> Words:
    """The try suspends the thread for a while, and may end early: so it is tried again."""
    signal, parity = instruction.args
    where = signal_address(writer, signal)
    again, ended = writer.label(), writer.register("p")
    writer.lines += (
        f"{again}:",
        f"{_BARRIER.format('try_wait.parity')} {ended}, {where}, {writer.words(parity)[0]};",
        f"@!{ended} bra {again};",
    )
    return ()


def _box(writer: Writer, instruction: Instruction, bulk: Bulk) -> tuple[str, str, int]:
    """The address in workgroup memory, the map with the coordinates of a box, and the tensor's rank."""
    rank = len(bulk.box)
    if rank > _LARGEST_RANK:
        raise LookupError(f"PTX has no entry for the instruction {instruction.op!r} of {rank} axes")
    where, *coordinates = instruction.args[: rank + 1]
    near = as_register(writer, *workgroup_address(writer, bulk.buffer, writer.words(where)[0]))
    tensor_map = writer.tensor_map(TensorMap(bulk.tensor, bulk.box, bulk.swizzle, bulk.turned, bulk.rounded))
    # PTX names the contiguous axis first.
    corner = [writer.named(writer.words(each)[0]) for each in reversed(coordinates)]
    if bulk.turned:
        corner[:2] = corner[1], corner[0]
    return near, f"[{tensor_map}, {{{', '.join(corner)}}}]", rank


def _bulk_load(writer: Writer, instruction: Instruction) -> Words:
    bulk = instruction.attr
    assert isinstance(bulk, Bulk)
    near, far, rank = _box(writer, instruction, bulk)
    signal = signal_address(writer, instruction.args[-1])
    writer.lines.append(f"{_BULK_LOAD.format(rank)} [{near}], {far}, {signal};")
    return ()


def _bulk_store(writer: Writer, instruction: Instruction) -> Words:
    bulk = instruction.attr
    assert isinstance(bulk, Bulk)
    near, far, rank = _box(writer, instruction, bulk)
    writer.lines.append(f"{_BULK_STORE.format(rank)} {far}, [{near}];")
    return ()


def _bulk_wait(writer: Writer, instruction: Instruction) -> Words:
    wait = instruction.attr
    assert isinstance(wait, BulkWait)
    writer.lines.append(f"cp.async.bulk.wait_group{'.read' if wait.reading else ''} {wait.groups};")
    return ()


def _registers(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, tuple)
    count, increase = instruction.attr
    writer.lines.append(f"setmaxnreg.{'inc' if increase else 'dec'}.sync.aligned.u32 {count};")
    return ()


def _bulk_commit(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("cp.async.bulk.commit_group;")
    return ()


def _fence_async(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("fence.proxy.async.shared::cta;")
    return ()


def _kernel_wait(writer: Writer, instruction: Instruction) -> Words:
    # The next kernel waits for all of this one, so it may begin as soon as there is room.
    writer.lines += ("griddepcontrol.launch_dependents;", "griddepcontrol.wait;")
    return ()


RULES: dict[str, Rule] = {
    "signal_init": _signal_init,
    "signal_expect": _signal_expect,
    "signal_arrive": _signal_arrive,
    "signal_wait": _signal_wait,
    "bulk_load": _bulk_load,
    "bulk_store": _bulk_store,
    "bulk_commit": _bulk_commit,
    "bulk_wait": _bulk_wait,
    "fence_async": _fence_async,
    "kernel_wait": _kernel_wait,
    "registers": _registers,
}
