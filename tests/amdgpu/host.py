"""The emitted text itself, run on this computer: its intrinsics are functions of ``fibers.cpp``.

Nothing of the kernel is translated: address spaces, attributes and metadata are left out, the names of AMD's
intrinsics become those of functions, and LLVM compiles the rest for this CPU.
"""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compilers import compiled_for_host

from gizml_tile.lowering.emit.amdgpu import AmdgpuArtifact
from gizml_tile.target import Target

FIBERS = Path(__file__).with_name("fibers.cpp")
FAMILIES = {"mfma": 0, "wmma11": 1, "wmma12": 2}
TYPES = {"f16": 0, "bf16": 1, "f32": 2, "xf32": 2, "fp8": 3, "i8": 4, "u8": 5, "f64": 7, "bf8": 6}
FLOATS = ("fp8", "bf8")
MATRIX = re.compile(
    r"(mfma|wmma)\.(f32|f64|i32)\.(\d+)x\d+x(\d+)\.?(?:(fp8|bf8)\.)?(iu8|i8|fp8|bf8|xf32|f32|f64|bf16|f16)"
)
# What this computer's own instructions do with zeros and NaN is not what AMD's do.
REPLACED = ("minnum.f32", "maxnum.f32", "minnum.f64", "maxnum.f64")


def retargeted(artifact: AmdgpuArtifact) -> str:
    """The text with what is AMD's own left out or renamed, and an entry that takes packed arguments."""
    text = re.sub(r" addrspace\(\d\)", "", artifact.text)
    text = re.sub(r",? !(dbg|mmra|llvm\.loop|amdgpu\.[a-z.]+) !\d+", "", text)
    text = re.sub(r"^(!|target triple|attributes).*\n", "", text, flags=re.M)
    text = text.replace("amdgpu_kernel ", "").replace(") #0 {", ") {")
    text = re.sub(r'asm "", "=v,0,v"\((i32 \S+), [^)]*\)', r'asm "", "=r,0"(\1)', text)
    size = artifact.workgroup_memory
    memory = f"@{artifact.entry}_memory"
    text = re.sub(rf"^{memory} = .*\n", "", text, flags=re.M).replace(memory, "@gz_memory")
    lines = [
        f"@gz_memory = global [{max(size, 1)} x i8] zeroinitializer, align 16",
        f"@gz_kernel = constant {{ptr, ptr, i64, i32, i32}} {{ptr @gz_entry, ptr @gz_memory, i64 {size}, "
        f"i32 {Target('hip', artifact.arch).facts.lanes}, i32 {artifact.threads}}}",
        text,
        _entry(artifact),
    ]
    for name in REPLACED:
        lines[2] = lines[2].replace(f"@llvm.{name}", f"@gz_{name.replace('.', '_')}")
    for result, name, operands in re.findall(r"^declare (.*) @llvm\.amdgcn\.([\w.]+)\((.*)\)$", text, re.M):
        own = f"@gz_{name.replace('.', '_')}"
        lines[2] = lines[2].replace(f"@llvm.amdgcn.{name}(", f"{own}(")
        if name.startswith(("mfma", "wmma")):
            lines[2] = lines[2].replace(f"declare {result} {own}({operands})\n", "")
            lines.append(_matrix(artifact, name, result, own, _split(operands)))
    if "@gz_matrix(" in "".join(lines):
        lines.append(f"declare void @gz_matrix({', '.join(['i32'] * 8 + ['ptr'] * 4)})")
    return "\n".join(lines)


def _split(operands: str) -> list[str]:
    return re.findall(r"<[^>]*>|[^\s,]+", operands)


def _entry(artifact: AmdgpuArtifact) -> str:
    """A function that reads the arguments from memory as the hardware does, and calls the kernel."""
    lines, passed = ["define void @gz_entry(ptr %arguments) {"], []
    for number, argument in enumerate(artifact.arguments):
        kind = "ptr" if argument.parameter.kind == "pointer" else "i64"
        lines.append(f"  %q{number} = getelementptr i8, ptr %arguments, i64 {8 * number}")
        lines.append(f"  %a{number} = load {kind}, ptr %q{number}")
        passed.append(f"{kind} %a{number}")
    lines += [f"  call void @{artifact.entry}({', '.join(passed)})", "  ret void", "}"]
    return "\n".join(lines)


def _matrix(artifact: AmdgpuArtifact, name: str, result: str, own: str, operands: list[str]) -> str:
    """A function with a matrix instruction's operands, which passes them in memory."""
    found = MATRIX.match(name)
    assert found, name
    unit, total, side, depth, first, kind = found.groups()
    family = "mfma" if unit == "mfma" else f"wmma{artifact.arch[3:5]}"
    vectors = [number for number, each in enumerate(operands) if each != "i1"][:3]
    lines = [f"define internal {result} {own}({', '.join(f'{k} %o{n}' for n, k in enumerate(operands))}) {{"]
    for slot, number in zip("abc", vectors, strict=True):
        lines += [
            f"  %{slot} = alloca {operands[number]}",
            f"  store {operands[number]} %o{number}, ptr %{slot}",
        ]
    types = [f"i32 {TYPES.get(each)}" for each in (first or kind, kind)]
    if kind == "iu8":
        lines += [f"  %t{n} = select i1 %o{n}, i32 {TYPES['i8']}, i32 {TYPES['u8']}" for n in (0, 2)]
        types = ["i32 %t0", "i32 %t2"]
    element = 8 if kind in ("iu8", "i8", *FLOATS) else int(kind[-2:])
    count, sums = _bits(operands[vectors[0]]) // element, _bits(result) // int(total[1:])
    numbers = [FAMILIES[family], int(side), int(depth), count, sums, {"f32": 0, "i32": 1, "f64": 2}[total]]
    head = [f"i32 {number}" for number in numbers]
    call = [*head[:3], *types, *head[3:], *(f"ptr %{slot}" for slot in "abcd")]
    lines += [
        f"  %d = alloca {result}",
        f"  call void @gz_matrix({', '.join(call)})",
        f"  %r = load {result}, ptr %d",
        f"  ret {result} %r",
        "}",
    ]
    return "\n".join(lines)


def _bits(kind: str) -> int:
    count, element = re.fullmatch(r"<(\d+) x (\w+)>", kind).groups() if kind[0] == "<" else (1, kind)
    return int(count) * {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(
        element, int(re.sub(r"\D", "", element) or 0)
    )


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gizml-tile-amdgpu-")


@functools.cache
def _fibers() -> ctypes.CDLL:
    """The library that kernels call, and that launches them."""
    made = Path(_folder().name, "fibers.so")
    subprocess.run(["g++", "-std=c++17", "-O2", "-fPIC", "-shared", FIBERS, "-o", made, "-lm"], check=True)
    found = ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)
    found.gz_launch.restype = ctypes.c_char_p
    return found


@functools.cache
def loaded(artifact: AmdgpuArtifact) -> ctypes.CDLL:
    """A library with a kernel."""
    stem = Path(_folder().name, f"kernel{loaded.cache_info().misses}")
    code, library = stem.with_suffix(".o"), stem.with_suffix(".so")
    code.write_bytes(compiled_for_host(retargeted(artifact)))
    subprocess.run(["ld", "-shared", code, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def launch(artifact: AmdgpuArtifact, arguments: bytes, workgroups: Sequence[int]) -> None:
    """Run a kernel with packed arguments over so many workgroups along each axis."""
    sizes = (ctypes.c_uint32 * 3)(*workgroups, *(1,) * (3 - len(workgroups)))
    fibers = _fibers()
    kernel = ctypes.c_char.in_dll(loaded(artifact), "gz_kernel")
    wrong = fibers.gz_launch(ctypes.byref(kernel), arguments, sizes)
    assert not wrong, wrong.decode()
