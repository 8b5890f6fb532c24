"""A kernel's text as a whole: header, the functions that it uses, parameters, body."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import F32
from gizml_tile.lowering.emit.arguments import Argument, arguments
from gizml_tile.lowering.emit.lines import origins
from gizml_tile.lowering.emit.metal import (
    arithmetic,
    atomics,
    control,
    conversions,
    matrix,
    memory,
)
from gizml_tile.lowering.emit.metal.artifact import MetalArtifact
from gizml_tile.lowering.emit.metal.control import tensors_of
from gizml_tile.lowering.emit.metal.helpers import HELPERS
from gizml_tile.lowering.emit.metal.spelling import name_of, type_name
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import Kernel

ARCHS = ("apple7", "apple8", "apple9")
_FAMILIES = (arithmetic, conversions, memory, atomics, matrix, control)
RULES: dict[str, Rule] = {op: rule for family in _FAMILIES for op, rule in family.RULES.items()}
# Metal feature set tables: entries of the buffer argument table.
_BUFFERS = 31
_HEADER = """\
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>

using namespace metal;

// Infinities and NaNs are numbers like others, and a product and a sum are rounded each.
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#endif
#pragma METAL fp contract(off)

#define UNROLL _Pragma("clang loop unroll(full)")
"""


def emit(kernel: Kernel) -> MetalArtifact:
    """The MSL of a kernel. Raises LookupError for an instruction that the target does not have."""
    arch = kernel.target.arch
    if arch not in ARCHS:
        raise LookupError(f"MSL is not written for {kernel.target}; it is for {', '.join(ARCHS)}")
    entry = name_of(kernel.name, "kernel")
    writer = Writer(kernel, RULES)
    writer.block(kernel.body)
    passed = arguments(kernel)
    tensors = [each for each in passed if each.parameter.kind == "pointer"]
    numbers = [each for each in passed if each.parameter.kind != "pointer"]
    integers = [each for each in numbers if each.dtype is not F32]
    floats = [each for each in numbers if each.dtype is F32]
    if len(tensors) + 2 > _BUFFERS:
        raise LookupError(f"Metal takes {_BUFFERS - 2} tensors; kernel {kernel.name} has {len(tensors)}")
    parts = [
        f"// {kernel.name} for {kernel.target}: {kernel.threads} threads, "
        f"{kernel.workgroup_memory} bytes of threadgroup memory.\n{_HEADER}"
    ]
    helpers = [line for name, lines in HELPERS.items() if name in writer.helpers for line in lines]
    parts += ["\n".join([*helpers, ""])] if helpers else []
    parts += _structure(writer, "Numbers", "long", integers) + _structure(writer, "Scalars", "float", floats)
    parameters = _parameters(writer, tensors, integers, floats)
    parts += [
        f"[[max_total_threads_per_threadgroup({kernel.threads})]]",
        f"kernel void {entry}(",
        ",\n".join(f"    {each}" for each in parameters) + ") {",
        *_memory(writer),
    ]
    return MetalArtifact(
        text="\n".join([*parts, *writer.lines, "}", ""]),
        entry=entry,
        arch=arch,
        threads=kernel.threads,
        workgroup_memory=kernel.workgroup_memory,
        arguments=(*tensors, *integers, *floats),
        origins=origins(parts, writer.lines),
    )


def _structure(writer: Writer, name: str, type: str, numbers: Sequence[Argument]) -> list[str]:
    if not numbers:
        return []
    members = [f"    {type} {writer.parameter(each.parameter)};" for each in numbers]
    return ["\n".join([f"struct {name} {{", *members, "};", ""])]


def _parameters(
    writer: Writer, tensors: Sequence[Argument], integers: Sequence[Argument], floats: Sequence[Argument]
) -> list[str]:
    kernel = writer.kernel
    stored = tensors_of(kernel, "store", "atomic", "update")
    found = []
    for each in tensors:
        number = each.parameter.number
        const = "" if number in stored else "const "
        type = type_name(kernel.tensors[number].dtype, kernel.target)
        found.append(f"device {const}{type}* {writer.tensors[number]}")
    found += ["constant Numbers& numbers"] if integers else []
    found += ["constant Scalars& scalars"] if floats else []
    buffers = [f"{text} [[buffer({number})]]" for number, text in enumerate(found)]
    return buffers + [f"{name} [[{attribute}]]" for attribute, name in writer.attributes.items()]


def _memory(writer: Writer) -> list[str]:
    """Threadgroup memory and the buffers in it, which may share bytes."""
    kernel = writer.kernel
    if not kernel.workgroup_memory:
        return []
    lines = [f"    alignas(16) threadgroup uchar memory[{kernel.workgroup_memory}];"]
    for name, each in zip(writer.buffers, kernel.buffers, strict=True):
        type = type_name(each.dtype, kernel.target)
        place = f"memory + {each.offset}" if each.offset else "memory"
        lines.append(f"    threadgroup {type}* {name} = (threadgroup {type}*)({place});")
    return lines
