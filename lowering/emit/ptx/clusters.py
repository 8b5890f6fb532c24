"""What workgroups of a cluster do with each other: their memory, and where they meet."""

from __future__ import annotations

from gizml_tile.dtypes import I64
from gizml_tile.lowering.emit.ptx.addresses import as_register, workgroup_address
from gizml_tile.lowering.emit.ptx.memory import Where, load_vectors, store_vectors
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import Access, Instruction


def _where(writer: Writer, instruction: Instruction, offsets: Instruction, rank: Instruction) -> Where:
    """Where the places of an access are in the workgroup of a rank: its window is as long as one's own."""
    access = instruction.attr
    assert isinstance(access, Access)
    whose = writer.words(rank)[0]

    def where(place: tuple[int, int]) -> tuple[str, int]:
        register, constant = place
        words = writer.words(offsets)
        word = words[register if len(words) > 1 else 0]
        base, further = workgroup_address(writer, access.memory, word, offsets.dtype is I64, constant)
        own = as_register(writer, base, 0)
        key = ("remote", own, whose)
        found = writer.cached(key)
        if found is None:
            found = writer.keep(key, writer.register("r"))
            writer.lines.append(f"mapa.shared::cluster.u32 {found}, {own}, {whose};")
        return found, further

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


RULES: dict[str, Rule] = {
    "remote_load": _remote_load,
    "remote_store": _remote_store,
    "cluster_barrier": _cluster_barrier,
}
