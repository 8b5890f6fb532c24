"""What workgroups of a cluster do with each other: their memory, and where they meet."""

from __future__ import annotations

from gizml_tile.lowering.emit.ptx.addresses import (
    address,
    as_register,
    signal_register,
    written,
)
from gizml_tile.lowering.emit.ptx.memory import VECTORS, Where, load_vectors, store_vectors
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access, Instruction

_SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"


def _remote(writer: Writer, own: str, rank: Instruction) -> str:
    """An address in the workgroup of a rank: its window is as long as one's own."""
    whose = writer.words(rank)[0]
    key = ("remote", own, whose)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.register("r"))
        writer.lines.append(f"mapa.shared::cluster.u32 {found}, {own}, {whose};")
    return found


def _where(writer: Writer, instruction: Instruction, offsets: Instruction, rank: Instruction) -> Where:
    """Where the places of an access are in the workgroup of a rank."""
    access = instruction.attr
    assert isinstance(access, Access)

    def where(place: tuple[int, int]) -> tuple[str, int]:
        base, constant = address(writer, WORKGROUP, access.memory, offsets, place)
        return _remote(writer, as_register(writer, base, 0), rank), constant

    return where


def _remote_load(writer: Writer, instruction: Instruction) -> Words:
    offsets, rank, *masks = instruction.args
    where = _where(writer, instruction, offsets, rank)
    return load_vectors(writer, instruction, "ld.shared::cluster", where, masks)


def _remote_store(writer: Writer, instruction: Instruction) -> Words:
    _, offsets, rank, *masks = instruction.args
    where = _where(writer, instruction, offsets, rank)
    store_vectors(writer, instruction, "st.shared::cluster", where, masks)
    return ()


def _cluster_barrier(writer: Writer, instruction: Instruction) -> Words:
    writer.lines += (
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.wait.acquire.aligned;",
    )
    return ()


def _remote_send(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, rank, signal) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None
    where = _where(writer, instruction, offsets, rank)
    tells = _remote(writer, signal_register(writer, signal), rank)
    words = writer.all_named(writer.words(value))
    each = access.width * value.dtype.bytes // 4
    for number, place in enumerate(access.places):
        piece = words[number * each : (number + 1) * each]
        sent = piece[0] if each == 1 else f"{{{', '.join(piece)}}}"
        form = f"{_SEND}{VECTORS[each]}.b32"
        writer.lines.append(f"{form} {written(*where(place))}, {sent}, [{tells}];")
    return ()


def _cluster_begin(writer: Writer, instruction: Instruction) -> Words:
    """Signals are initialised with a fence of their own, and nothing else needs an order."""
    writer.lines.append("barrier.cluster.arrive.relaxed.aligned;")
    return ()


def _cluster_begun(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("barrier.cluster.wait.acquire.aligned;")
    return ()


RULES: dict[str, Rule] = {
    "remote_load": _remote_load,
    "remote_store": _remote_store,
    "remote_send": _remote_send,
    "cluster_barrier": _cluster_barrier,
    "cluster_begin": _cluster_begin,
    "cluster_begun": _cluster_begun,
}
