"""A kernel's text as a whole: header, parameters, body."""

from __future__ import annotations

import re

from gizml_tile.dtypes import F32
from gizml_tile.lowering.emit.arguments import arguments, identifier
from gizml_tile.lowering.emit.lines import origins
from gizml_tile.lowering.emit.ptx import (
    arithmetic,
    atomics,
    clusters,
    control,
    conversions,
    group_matrix,
    matrix,
    memory,
    packing,
    transactions,
)
from gizml_tile.lowering.emit.ptx.artifact import PtxArtifact
from gizml_tile.lowering.emit.ptx.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import Kernel

# The first version of PTX that has everything of the architecture that is used here; drivers take
# versions up to their own, so it is no higher than it must be.
_VERSIONS = {
    "sm_75": "8.0",
    "sm_80": "8.0",
    "sm_86": "8.0",
    "sm_89": "8.4",
    "sm_90a": "8.4",
    "sm_100a": "8.6",
    "sm_120a": "8.7",
}
_FAMILIES = (
    packing,
    arithmetic,
    conversions,
    memory,
    atomics,
    matrix,
    control,
    transactions,
    group_matrix,
    clusters,
)
RULES: dict[str, Rule] = {op: rule for family in _FAMILIES for op, rule in family.RULES.items()}


def emit(kernel: Kernel) -> PtxArtifact:
    """The PTX of a kernel. Raises LookupError for an instruction that the target does not have."""
    arch = kernel.target.arch
    if arch not in _VERSIONS:
        raise LookupError(f"PTX is not written for {kernel.target}; it is for {', '.join(_VERSIONS)}")
    entry = identifier(kernel.name)
    writer = Writer(kernel, entry, RULES)
    writer.block(kernel.body)
    passed = arguments(kernel)
    lines = [
        f".version {_VERSIONS[arch]}",
        f".target {arch}",
        ".address_size 64",
        *(f'.file {number} "{_quoted(name)}"' for name, number in writer.files.items()),
    ]
    if kernel.workgroup_memory:
        # 1024 bytes are the longest swizzle pattern; the size is the launch's.
        lines.append(f".extern .shared .align 1024 .b8 {writer.memory}[];")
    declared = [
        f"\t.param .{'b32' if each.dtype is F32 else 'b64'} {entry}_{number}"
        for number, each in enumerate(passed)
    ] + [f"\t.param .align 64 .b8 {name}[128]" for name in writer.maps.values()]
    lines += [
        f".visible .entry {entry}(",
        ",\n".join(declared),
        ")",
        f".reqntid {kernel.threads}",
        f".minnctapersm {kernel.resident}",
        *([".explicitcluster", f".reqnctapercluster {kernel.cluster}"] if kernel.cluster > 1 else []),
        "{",
        *writer.declarations(),
    ]
    return PtxArtifact(
        text="\n".join([*lines, *writer.head, *writer.lines, "ret;", "}", ""]),
        entry=entry,
        arch=arch,
        threads=kernel.threads,
        workgroup_memory=kernel.workgroup_memory,
        arguments=passed,
        maps=tuple(writer.maps),
        resident=kernel.resident,
        persistent=kernel.persistent,
        cluster=kernel.cluster,
        together=kernel.together,
        along=kernel.along,
        overlapping=any(each.op == "kernel_wait" for each in kernel.body.walk()),
        origins=origins(lines, writer.head, writer.lines),
    )


def _quoted(name: str) -> str:
    """A file's name as PTX takes it: letters of ASCII, and no way to write a quotation mark."""
    return re.sub(r'[^ -~]|"', "?", name)
