"""Text to object to code, by our loader and by LLVM's, with every kind of reference."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from gizml_tile.errors import TileError
from gizml_tile.runtime import compiler, elf
from gizml_tile.runtime.compiler import assembly, compile_text, load_object, load_with_llvm
from gizml_tile.runtime.host import _host, host

TEXT = """
@table = internal constant [8 x i64] [i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8]
@names = internal constant [2 x ptr] [ptr @square, ptr @part]
declare float @llvm.fma.f32(float, float, float)
declare ptr @memcpy(ptr, ptr, i64)

define internal i64 @part(i64 %i) noinline {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}

define internal i64 @square(i64 %i) noinline {
  %v = mul i64 %i, %i
  ret i64 %v
}

define i64 @pick(i64 %i, i64 %which) {
  %p = getelementptr ptr, ptr @names, i64 %which
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 %i)
  ret i64 %v
}

define i64 @jump(i64 %i) {
  switch i64 %i, label %other [ i64 0, label %l0
                                i64 1, label %l1
                                i64 2, label %l2
                                i64 3, label %l3
                                i64 4, label %l4 ]
l0:
  ret i64 10
l1:
  %a = call i64 @part(i64 5)
  ret i64 %a
l2:
  %b = call i64 @square(i64 5)
  ret i64 %b
l3:
  %c = mul i64 %i, 1234567
  ret i64 %c
l4:
  ret i64 -1
other:
  ret i64 %i
}

define void @copy(ptr %to, ptr %from, i64 %bytes) {
  %r = call ptr @memcpy(ptr %to, ptr %from, i64 %bytes)
  ret void
}

define float @fused(float %a, float %b) {
  %r = call float @llvm.fma.f32(float %a, float %b, float 0x3FB99999A0000000)
  ret float %r
}
"""
LINUX_X86 = host().triple == "x86_64-unknown-linux-gnu"
NAMES = ("pick", "jump", "copy", "fused")


def functions(code):
    word, real, pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    kinds = {
        "pick": (word, word, word),
        "jump": (word, word),
        "copy": (None, pointer, pointer, word),
        "fused": (real, real, real),
    }
    return [ctypes.CFUNCTYPE(*kinds[name])(code.address(name)) for name in NAMES]


def levels():
    from gizml_tile.runtime.host import _X86_LEVELS, _present_features

    if "x86_64" not in host().triple:
        return ["native"]
    present = _present_features()
    return ["native", *(level for level, names in _X86_LEVELS.items() if set(names) <= present)]


@pytest.mark.parametrize("load", [load_object, load_with_llvm], ids=["ours", "llvm"])
@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("simplify", [False, True])
def test_code_runs(load, level, simplify):
    code = load(compile_text(TEXT, _host(level, "", ""), simplify=simplify), NAMES)
    pick, jump, copy, fused = functions(code)
    assert [pick(6, 0), pick(6, 1)] == [36, 7]
    assert [jump(i) for i in range(6)] == [10, 6, 25, 3 * 1234567, -1, 5]
    source, target = np.arange(64.0), np.zeros(64)
    copy(target.ctypes.data, source.ctypes.data, source.nbytes)
    assert (source == target).all()
    a, b = np.float32(1.1), np.float32(3.3)
    exact = np.float64(a) * np.float64(b) + np.float64(np.float32(0.1))
    assert fused(a, b) == np.float32(exact)


def test_our_loader_takes_what_kernels_compile_to():
    if LINUX_X86:
        loaded = elf.load(compile_text(TEXT, host()))
        assert loaded is not None and set(NAMES) <= set(loaded.symbols)


@pytest.mark.parametrize(
    "text",
    [
        "@count = global i64 5\ndefine ptr @f() {\n  ret ptr @count\n}",
        "declare void @no_such_name()\ndefine void @f() {\n  call void @no_such_name()\n  ret void\n}",
    ],
    ids=["variable", "unknown function"],
)
def test_our_loader_declines_what_it_does_not_know(text):
    assert elf.load(compile_text(text, host())) is None


def test_variables_go_through_llvm():
    text = "@count = global i64 5\ndefine i64 @f() {\n  %v = load i64, ptr @count\n  ret i64 %v\n}"
    code = load_object(compile_text(text, host()), ("f",))
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("f"))() == 5


def test_not_an_object():
    assert elf.load(b"") is None
    assert elf.load(b"\x7fELF" + bytes(100)) is None


def test_code_is_unmapped_with_its_last_user():
    if not LINUX_X86:
        return
    loaded = elf.load(compile_text("define i64 @f() {\n  ret i64 1\n}", host()))
    unmap, calls = loaded._unmap, []
    loaded._unmap = lambda *where: calls.append((where, unmap(*where)))
    where = (loaded._base, loaded._size)
    del loaded
    assert calls == [(where, 0)]


def test_invalid_text_is_our_mistake_not_a_crash():
    with pytest.raises(AssertionError, match="not valid LLVM IR"):
        compile_text("define i64 @f() {\n  ret i64 %x\n}", host())


def test_assembly_is_text():
    assert "imul" in assembly(TEXT, host()) or "mul" in assembly(TEXT, host())


def test_switches_of_the_whole_process_are_put_back():
    switches = []

    class Binding:
        llvm_version_info = (22, 1, 0)

        @staticmethod
        def set_option(_, switch):
            switches.append(switch)

    if not LINUX_X86:
        return
    with pytest.raises(KeyError), compiler._without_late_loop_passes(Binding, host()):
        assert switches == ["-disable-lsr", "-disable-cgp"]
        raise KeyError
    assert switches[2:] == ["-disable-lsr=false", "-disable-cgp=false"]
    Binding.llvm_version_info = (99, 0, 0)
    with compiler._without_late_loop_passes(Binding, host()):
        assert len(switches) == 4


def test_features_that_llvm_does_not_see(monkeypatch):
    class Binding:
        @staticmethod
        def get_host_cpu_features():
            return {"avx": True, "avx2": False}

    monkeypatch.setattr(compiler, "_llvm", lambda: Binding)
    compiler._check_features("+avx")
    with pytest.raises(TileError, match="LLVM finds no avx2, avx512f on this CPU"):
        compiler._check_features("+avx,+avx2,+avx512f")


def test_loading_needs_no_llvmlite(tmp_path):
    if not LINUX_X86:
        return
    (tmp_path / "object").write_bytes(compile_text(TEXT, host()))
    code = (
        "import sys, pathlib; from gizml_tile.runtime.compiler import load_object;"
        f"load_object(pathlib.Path({str(tmp_path / 'object')!r}).read_bytes(), ('jump',));"
        "print('llvmlite' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
