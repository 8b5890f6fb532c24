"""Where threads meet or exchange values."""

from __future__ import annotations

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.emit.amdgpu.packing import packed, unpacked
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Barrier, Instruction, Kernel

# Lanes that one instruction exchanges by an immediate pattern.
_PATTERN_LANES = 32
# LLVM 22 knows the first name, older versions the second; each passes over the other's.
_MEMORY_MODELS = ("amdgpu-synchronize-as", "amdgpu-as")


def _barrier(writer: Writer, instruction: Instruction) -> Words:
    barrier = instruction.attr
    assert isinstance(barrier, Barrier)
    everyone = barrier.number == 0 and barrier.threads == writer.kernel.threads
    if not everyone or barrier.arrive or barrier.each:
        raise LookupError(
            f"LLVM IR for {writer.arch} has no entry for the instruction 'barrier' number {barrier.number} "
            f"of {barrier.threads} threads"
        )
    note = "" if reads_its_own(writer.kernel) else _workgroup_memory_alone(writer)
    writer.line(f'fence syncscope("workgroup") release{note}')
    writer.call("llvm.amdgcn.s.barrier")
    writer.line(f'fence syncscope("workgroup") acquire{note}')
    return ()


def reads_its_own(kernel: Kernel) -> bool:
    """Whether a thread may read from a tensor what another one has written there."""
    read: set[int] = set()
    written: set[int] = set()
    for instruction in kernel.body.walk():
        access = instruction.attr
        if isinstance(access, Access) and access.space == GLOBAL:
            (read if instruction.op == "load" else written).add(access.memory)
    return bool(read and written) if kernel.may_alias else bool(read & written)


def _workgroup_memory_alone(writer: Writer) -> str:
    """What a fence says that does not order accesses to tensors, which would wait for reads in flight."""
    models = [writer.locations.add(f'!{{!"{name}", !"local"}}') for name in _MEMORY_MODELS]
    both = ", ".join(f"!{number}" for number in models)
    return f", !mmra !{writer.locations.add(f'!{{{both}}}')}"


def _warp_barrier(writer: Writer, instruction: Instruction) -> Words:
    """The lanes of a wave go together: only LLVM must not move accesses across."""
    writer.line('fence syncscope("wavefront") release')
    writer.call("llvm.amdgcn.wave.barrier")
    writer.line('fence syncscope("wavefront") acquire')
    return ()


def _shuffle(writer: Writer, instruction: Instruction) -> Words:
    value, *lanes = instruction.args
    assert value.dtype is not None
    words = packed(writer, writer.words(value), value.dtype)
    if not lanes:
        pattern = instruction.attr
        assert isinstance(pattern, int)
        made = tuple([_crossed(writer, word, pattern) for word in words])
    else:
        sources = writer.words(lanes[0])
        if len(sources) > 1:
            if value.dtype.bits < 32 and value.dtype is not MASK:
                raise LookupError(
                    f"LLVM IR for AMD GPUs has no entry for the instruction 'shuffle' of {value.dtype} "
                    "by register"
                )
            sources = tuple([each for each in sources for _ in range(len(words) // len(sources))])
        else:
            sources *= len(words)
        made = tuple([_from_lane(writer, *each) for each in zip(words, sources, strict=True)])
    return unpacked(writer, made, value.dtype, value.count)


def _crossed(writer: Writer, word: str, pattern: int) -> str:
    """A word of the lane whose number differs by XOR."""
    if pattern < _PATTERN_LANES:
        # Three masks of five bits: which bits of the lane's number stay, are set, and are flipped.
        return writer.call("llvm.amdgcn.ds.swizzle", ("i32", word), ("i32", str(pattern << 10 | 0x1F)))
    lane = writer.once(
        ("lane", "crossed", pattern), f"xor i32 {writer.leaf('llvm.amdgcn.workitem.id.x')}, {pattern}"
    )
    return _from_lane(writer, word, lane)


def _from_lane(writer: Writer, word: str, lane: str) -> str:
    """A word of a lane, which the instruction numbers in bytes and modulo the wave."""
    key = ("bytes", lane)
    if lane[0] != "%":
        place = str(int(lane) * 4)
    else:
        place = writer.cached(key) or writer.keep(key, writer.value(f"shl i32 {lane}, 2"))
    return writer.call("llvm.amdgcn.ds.bpermute", ("i32", place), ("i32", word))


RULES: dict[str, Rule] = {
    "barrier": _barrier,
    "warp_barrier": _warp_barrier,
    "shuffle": _shuffle,
}
