"""Machine code by comgr: by AMD's own library where it is installed, and by stand-ins of its versions."""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import pytest
from fake_hip import HERE, run

from gizml_tile.errors import TileError
from gizml_tile.runtime.hip import comgr

COMPILE = """
from gizml_tile.runtime.hip import comgr
print(comgr.compile_text({text!r}, {arch!r}).decode())
"""


@functools.cache
def stand_in() -> tuple[tempfile.TemporaryDirectory, str]:
    folder = tempfile.TemporaryDirectory(prefix="gizml-tile-comgr-")
    library = str(Path(folder.name, "libfake_comgr.so"))
    subprocess.run(["gcc", "-shared", "-fPIC", HERE / "fake_comgr.c", "-o", library], check=True)
    return folder, library


def compiled(version: str, text: str = "some text", arch: str = "gfx942") -> str:
    program = COMPILE.format(text=text, arch=arch)
    return run(program, FAKE_COMGR=version, GIZML_TILE_COMGR=stand_in()[1])


@pytest.mark.parametrize("version, generate, link", [("2", 6, 9), ("3", 4, 7)])
def test_each_version_has_its_numbers_of_actions(version, generate, link):
    isa = "amdgcn-amd-amdhsa--gfx942 -O3"
    first = f"{generate} kernel.bc {isa} some text;"
    assert compiled(version) == f"{first}{link} kernel.o {isa} {first[:9]};\n"


def test_a_version_that_is_not_known():
    path = stand_in()[1]
    assert compiled("4") == (
        f"{path} is libamd_comgr 4.1, and versions 2 and 3 are known; name another one by GIZML_TILE_COMGR\n"
    )


def test_a_text_that_is_refused():
    assert compiled("3", "wrong") == "libamd_comgr 3.1 cannot make code for gfx942: error: expected a type\n"


def test_an_architecture_that_it_does_not_know():
    assert compiled("2", arch="gfx950") == (
        f"libamd_comgr 2.1 ({stand_in()[1]}) makes no code for gfx950; use a newer ROCm for this GPU\n"
    )


BACK = """
import ctypes, os
from gizml_tile import TileError
from gizml_tile.runtime.hip import comgr
for text in ("some text", "wrong"):
    try:
        comgr.compile_text(text, "gfx942")
    except TileError:
        print("refused")
print(ctypes.c_int.in_dll(ctypes.CDLL(os.environ["GIZML_TILE_COMGR"]), "fake_comgr_open").value)
"""


def test_everything_is_given_back():
    assert run(BACK, FAKE_COMGR="3", GIZML_TILE_COMGR=stand_in()[1]) == "refused\n0\n"


def test_no_library():
    assert run(COMPILE.format(text="", arch="gfx942"), GIZML_TILE_COMGR="/nowhere/libamd_comgr.so") == (
        "code for AMD GPUs is made by ROCm's libamd_comgr, which is not in /nowhere/libamd_comgr.so; install "
        "ROCm, or name the library's path by GIZML_TILE_COMGR\n"
    )


REAL = """
import sys
import benchmark_cases
from gizml_tile import TileError
from gizml_tile.runtime.hip import comgr
from gizml_tile.target import gpus

print(comgr.found().name)
for arch in [each.arch for each in gpus() if each.kind == "hip"]:
    try:
        comgr.compile_text('target triple = "amdgcn-amd-amdhsa"', arch)
    except TileError as error:
        assert f"makes no code for {arch}" in error.message, error.message
        continue
    for case in benchmark_cases.cases(arch, "hip"):
        text = case.launch.source(*case.tensors(), kind="hip", arch=arch, **case.constants)
        code = comgr.compile_text(text, arch)
        # An ELF file for AMD GPUs, with the kernel and its descriptor.
        name = text.partition("amdgpu_kernel void @")[2].partition("(")[0].encode()
        assert code[:4] == b"\\x7fELF" and code[18] == 224 and name + b".kd" in code, case
    print(arch)
"""


def test_amds_own_library():
    """Texts of what is measured become code; without the library it is missed by name."""
    told = run(REAL)
    try:
        name = comgr.found().name
    except TileError:
        assert told.startswith("code for AMD GPUs is made by ROCm's libamd_comgr, which is not in ROCm's")
        return
    # Every version knows CDNA 2.
    assert told.splitlines()[:2] == [name, "gfx90a"]


def test_its_folders(monkeypatch, tmp_path):
    """ROCM_PATH comes first."""
    library = tmp_path / "lib" / "libamd_comgr.so.3"
    library.parent.mkdir()
    library.write_bytes(Path(stand_in()[1]).read_bytes())
    monkeypatch.setenv("FAKE_COMGR", "3")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.delenv(comgr.COMGR_VARIABLE, raising=False)
    assert comgr.found().path == str(library)
    assert ctypes.c_int.in_dll(comgr.found().library, "fake_comgr_open").value == 0
