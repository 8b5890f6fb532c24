"""A kernel's text as a whole: workgroup memory, definition, declarations, metadata."""

from __future__ import annotations

from gizml_tile.lowering.emit.amdgpu import (
    arithmetic,
    atomics,
    control,
    conversions,
    matrix,
    memory,
    packing,
    threads,
)
from gizml_tile.lowering.emit.amdgpu.artifact import AmdgpuArtifact
from gizml_tile.lowering.emit.amdgpu.intrinsics import ARCHS
from gizml_tile.lowering.emit.amdgpu.writer import ZERO_BYTES, ZEROS, Rule, Writer
from gizml_tile.lowering.emit.arguments import arguments, identifier
from gizml_tile.lowering.emit.lines import origins
from gizml_tile.lowering.kernel_ir.instructions import Kernel

_FAMILIES = (packing, arithmetic, conversions, memory, atomics, matrix, control, threads)
RULES: dict[str, Rule] = {op: rule for family in _FAMILIES for op, rule in family.RULES.items()}
TRIPLE = "amdgcn-amd-amdhsa"


def emit(kernel: Kernel) -> AmdgpuArtifact:
    """The LLVM IR of a kernel. Raises LookupError for an instruction that the target does not have."""
    arch = kernel.target.arch
    if arch not in ARCHS:
        raise LookupError(f"LLVM IR is not written for {kernel.target}; it is for {', '.join(ARCHS)}")
    entry = identifier(kernel.name)
    writer = Writer(kernel, entry, RULES)
    writer.block(kernel.body)
    # Tensors that share nothing with what is written say so.
    pointer = f"ptr addrspace(1){'' if kernel.may_alias else ' noalias'}"
    parameters = [
        f"{pointer if each.kind == 'pointer' else 'i64'} %p{number}"
        for number, each in enumerate(kernel.parameters)
    ]
    before = [
        f'target triple = "{TRIPLE}"',
        *_memory(writer),
        f"define amdgpu_kernel void @{entry}({', '.join(parameters)}) #0{writer.locations.kernel} {{",
        "entry:",
    ]
    after = [
        f"  ret void{writer.locations.suffix}",
        "}",
        *sorted(writer.declarations.values()),
        f"attributes #0 = {{ {_attributes(kernel)} }}",
        *writer.locations.lines(),
        "",
    ]
    return AmdgpuArtifact(
        text="\n".join([*before, *writer.head, *writer.lines, *after]),
        entry=entry,
        arch=arch,
        threads=kernel.threads,
        workgroup_memory=kernel.workgroup_memory,
        arguments=arguments(kernel),
        resident=kernel.resident,
        persistent=kernel.persistent,
        origins=origins(before, writer.head, writer.lines),
    )


def _memory(writer: Writer) -> list[str]:
    found, size = [], writer.kernel.workgroup_memory
    if size:
        found.append(f"{writer.memory} = internal addrspace(3) global [{size} x i8] poison, align 16")
    if writer.uses_zeros:
        zeros = f"[{ZERO_BYTES} x i8] zeroinitializer, align {ZERO_BYTES}"
        found.append(f"{ZEROS} = internal addrspace(1) constant {zeros}")
    return found


def _attributes(kernel: Kernel) -> str:
    size = f'"amdgpu-flat-work-group-size"="{kernel.threads},{kernel.threads}"'
    return f'nounwind {size} "uniform-work-group-size"="true"'
