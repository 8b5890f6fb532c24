"""Compiles emitted MSL for the computer itself and runs it: g++, the shim's header and its runtime."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from recorded import Launch

from gizml_tile.lowering.emit.metal import MetalArtifact

SHIM = Path(__file__).parent / "shim"
PARAMETER = re.compile(r"^ {4}(.*?) (\w+) \[\[(\w+)(?:\((\d+)\))?\]\][,)]", re.MULTILINE)
HERE = {
    "thread_index_in_threadgroup": "here.number",
    "thread_index_in_simdgroup": "here.lane",
    "simdgroup_index_in_threadgroup": "here.simdgroup",
    "threadgroup_position_in_grid": "uint3{here.group[0], here.group[1], here.group[2]}",
    "threadgroups_per_grid": "uint3{here.groups[0], here.groups[1], here.groups[2]}",
}
# What is undefined in C++ is an error, so that the text's integers are as exact as they claim to be.
UNDEFINED = (
    "-fsanitize=undefined,float-cast-overflow,alignment",
    "-fno-sanitize=shift-base,float-divide-by-zero",
    "-fno-sanitize-recover=all",
)
SANITIZERS = {
    "": ("-fPIC",),
    "address": ("-fsanitize=address", *UNDEFINED),
    "thread": ("-fsanitize=thread",),
}


def unit(artifacts: Sequence[MetalArtifact]) -> str:
    """One C++ file with each text in a namespace of its own, and a function that starts any of them."""
    parts = ['#include "runtime.h"', *(_kernel(number, each) for number, each in enumerate(artifacts))]
    rows = ", ".join(
        f"{{kernel_{number}::enter, {each.threads}, {each.workgroup_memory}}}"
        for number, each in enumerate(artifacts)
    )
    parts += [
        "struct Row { runtime::Entry entry; uint threads; size_t memory; };",
        f"static const Row rows[] = {{{rows}}};",
        'extern "C" const char* launch(int number, void* const* buffers, const uint* groups, bool corners) {',
        "  const Row& row = rows[number];",
        "  return runtime::launch(row.entry, buffers, row.threads, row.memory, groups, corners);",
        "}",
        "",
    ]
    return "\n".join(parts)


def _kernel(number: int, artifact: MetalArtifact) -> str:
    """A text, and how a thread enters it: each parameter by what stands in its brackets."""
    text = re.sub(
        r"^( +)alignas\(16\) threadgroup uchar memory\[\d+\];",
        r"\1uchar* memory = runtime::threadgroup_memory();",
        artifact.text,
        flags=re.MULTILINE,
    )
    values = [_value(*found) for found in PARAMETER.findall(artifact.text)]
    return "\n".join(
        [
            f"namespace kernel_{number} {{",
            f'#line 1 "{artifact.entry}.metal"',
            text,
            "static void enter(void* const* buffers) {",
            "  const runtime::Here& here = runtime::here();",
            f"  (void)buffers, (void)here, {artifact.entry}({', '.join(values)});",
            "}",
            "}",
        ]
    )


def _value(type: str, name: str, attribute: str, number: str) -> str:
    if attribute != "buffer":
        return HERE[attribute]
    plain = type.replace("constant ", "").replace("&", "*")
    return f"{'*' if '&' in type else ''}({plain})buffers[{number}]"


def compile_texts(artifacts: Sequence[MetalArtifact], folder: Path, sanitizer: str = "") -> Path:
    """A library that runs texts, or with a sanitizer a program; AssertionError with what g++ says."""
    compiler = shutil.which("g++")
    assert compiler, "the MSL is compiled with g++"
    source, runtime = folder / "kernels.cpp", folder / "runtime.o"
    source.write_text(unit(artifacts))
    common = ["-std=c++17", "-g1", f"-I{SHIM}", "-Wno-attributes", "-Wno-unknown-pragmas", "-Wno-narrowing"]
    flags = [*common, "-O0", "-ffp-contract=off", "-fno-strict-aliasing", *SANITIZERS[sanitizer]]
    whole = ["-O2", "-fPIC", *(["-DTHREAD_SANITIZER"] if sanitizer == "thread" else [])]
    _run([compiler, *common, *whole, "-c", str(SHIM / "runtime.cpp"), "-o", str(runtime)])
    made = folder / ("kernels" if sanitizer else "kernels.so")
    start = [str(SHIM / "main.cpp")] if sanitizer else ["-shared"]
    _run([compiler, *flags, str(source), *start, str(runtime), "-o", str(made)])
    return made


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:4000]


class Texts:
    """Texts compiled together, to be launched in this process by their number."""

    def __init__(self, artifacts: Sequence[MetalArtifact], folder: Path) -> None:
        different = list(dict.fromkeys(artifacts))
        self._numbers = [different.index(each) for each in artifacts]
        self._launch = ctypes.CDLL(str(compile_texts(different, folder))).launch
        self._launch.restype = ctypes.c_char_p

    def run(self, launches: Sequence[Launch]) -> list[str]:
        """Run all texts on their launches' memory; gives what went wrong, if anything did."""
        return [self._run(number, each) for number, each in enumerate(launches)]

    def _run(self, number: int, launch: Launch) -> str:
        numbers = launch.numbers()
        starts = [each.ctypes.data for each in launch.pieces]
        buffers = [(starts[each.piece] if launch.wanted else 0) + each.byte for each in launch.places()]
        buffers += [each.ctypes.data for each in numbers]
        return self.launch(number, buffers, launch.groups)

    def launch(self, number: int, buffers: Sequence[int], groups: Sequence[int]) -> str:
        """Run a text on buffers at addresses; gives what went wrong, if anything did."""
        problem = self._launch(
            self._numbers[number],
            (ctypes.c_void_p * max(len(buffers), 1))(*buffers),
            (ctypes.c_uint * 3)(*groups, *[1] * (3 - len(groups))),
            False,
        )
        return problem.decode() if problem else ""


def run_watched(launches: Sequence[Launch], folder: Path, sanitizer: str) -> str:
    """Run each text once, at its grid's corners, watched by a sanitizer; gives what that says."""
    launches = list({each.artifact: each for each in launches}.values())
    program = compile_texts([each.artifact for each in launches], folder, sanitizer)
    script: list[str] = []
    for number, each in enumerate(launches):
        pieces = [*each.pieces, *each.numbers()]
        names = [folder / f"piece_{number}_{place}" for place in range(len(pieces))]
        for name, piece in zip(names, pieces, strict=True):
            piece.tofile(name)
        buffers = [(place.piece, place.byte) for place in each.places()]
        buffers += [(place, 0) for place in range(len(each.pieces), len(pieces))]
        groups = (*each.groups, 1, 1)[:3]
        script.append(f"{number} {' '.join(map(str, groups))} {len(pieces)} {' '.join(map(str, names))}")
        script.append(f"{len(buffers)} {' '.join(f'{piece} {byte}' for piece, byte in buffers)}")
    (folder / "script").write_text("\n".join(script))
    options = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
    done = subprocess.run(
        [str(program), str(folder / "script")], capture_output=True, text=True, env=os.environ | options
    )
    return done.stderr[:4000]
