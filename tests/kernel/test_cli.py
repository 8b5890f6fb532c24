"""The command line, run as a person runs it."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import cli
from gizml_tile.runtime import disk_cache

TEXT = '''\
"""Two kernels and a helper."""

import gizml_tile as tile


@tile.function
def negated(x):
    return -x if x < 0 else x


@tile.kernel(grid=lambda out, BM, **_: tile.cdiv(out.shape[0], BM))
def scale(p, x, out, factor, *, BM=8, mode="plain"):
    # Kept.
    p.write(out, [BM])[p.id(0)] = negated(p.read(x, [BM])[p.id(0)]) * factor


class Layer:
    @tile.kernel
    def copy(p, x, out):
        p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]


if __name__ == "__main__":
    raise SystemExit("this is not run")
'''

ARGUMENTS = ["-a", "x=f16[100]", "-a", "out=f32[100]", "-a", "factor=0.5"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "kernels_of_a_person.py"
    path.write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path.name
    sys.modules.pop("kernels_of_a_person", None)


@pytest.fixture
def command(capsys):
    """Runs the command; its exit code, and what it printed."""

    def run(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_preview_of_a_file_shows_every_kernel(file, command):
    code, out, err = command("preview", file)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("def ")] == [
        "def negated(x):",
        'def scale(p, x, out, factor, *, BM=8, mode="plain"):',
        "def copy(p, x, out):",
    ]
    assert "    # Kept.\n" in out
    assert "\x1b" not in out


def test_preview_of_one_kernel_is_a_program(file, command):
    code, out, _ = command("preview", f"{file}:Layer.copy")
    assert code == 0
    names = {"tile": tile}
    exec(out, names)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    tile.run(1, lambda p: names["copy"](p, x, y))
    assert np.array_equal(x, y)


def test_preview_as_a_difference(file, command):
    code, out, _ = command("preview", "--diff", f"{file}:negated")
    assert code == 0
    assert "-    return -x if x < 0 else x\n" in out
    assert out.startswith("--- written\n+++ rewritten\n")


def test_ir(file, command):
    code, out, _ = command("ir", f"{file}:scale", *ARGUMENTS)
    assert code == 0
    assert out.startswith("program scale(x: f16 rank 1, out: f32 rank 1, factor: f32)") or "factor" in out
    assert " x at 8" in out
    code, out, _ = command("ir", f"{file}:scale", *ARGUMENTS, "-c", "BM=64", "-c", "mode=other")
    assert " x at 64" in out


def test_source_and_explain_and_strides(file, command):
    code, out, _ = command("source", f"{file}:scale", *ARGUMENTS)
    assert code == 0 and "define" in out
    strided = ["-a", "x=f16[100]:2", *ARGUMENTS[2:]]
    assert command("source", f"{file}:scale", *strided)[1] != out
    code, out, _ = command("explain", f"{file}:scale", *ARGUMENTS)
    assert code == 0 and out.strip()


def test_explain_measures_on_the_cpu(file, command):
    assert "measured" not in command("explain", f"{file}:scale", *ARGUMENTS)[1]
    code, out, _ = command("explain", f"{file}:scale", *ARGUMENTS, "--measure")
    assert code == 0 and re.search(r"^measured: \d+\.\d\d [mu]s$", out, re.M)
    code, _, err = command("explain", f"{file}:scale", *ARGUMENTS, "--measure", "-k", "cuda")
    assert code == 1 and "measured where its tensors are, for cpu (native), and not for cuda (sm_90a)" in err


def test_check(file, command):
    code, out, _ = command("check", f"{file}:scale", *ARGUMENTS)
    assert (code, out) == (0, "scale: no errors, 0 warnings\n")
    code, out, _ = command("check", f"{file}:Layer.copy", "-a", "x=i8[9]", "-a", "out=i8[9]", "-g", "2")
    assert (code, out) == (0, "copy: no errors, 0 warnings\n")


RAGGED = """\
import gizml_tile as tile


@tile.kernel(grid=1)
def total(p, x, out):
    value = p.read(x, [8])[0] + 1
    p.write(out, [1])[0] = value.sum(1)
"""


def test_check_shows_warnings(tmp_path, command, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "ragged_kernel.py"
    path.write_text(RAGGED)
    code, out, _ = command("check", path, "-a", "x=f32[9]", "-a", "out=f32[1]")
    assert code == 0
    first, last = out.splitlines()
    assert first.startswith(f"{path}:7: ")
    assert last == "total: no errors, 1 warnings"
    code, out, _ = command("check", path, "-a", "x=f32[16]", "-a", "out=f32[1]")
    assert (code, out) == (0, "total: no errors, 0 warnings\n")


MISTAKES = [
    (["ir", "{file}:scale"], 1, "scale() needs the argument 'x'"),
    (["ir", "{file}:scale", *ARGUMENTS, "-c", "BM=0"], 1, "a block has at least one element"),
    (["ir", "{file}:Layer.copy", "-a", "x=f32[8]", "-a", "out=f32[8]"], 1, "copy has no grid"),
    (["ir", "{file}:scale", *ARGUMENTS, "-k", "hip", "--arch", "gfx803"], 1, "known are gfx90a, gfx942"),
    (["ir", "{file}:scale", *ARGUMENTS, "-k", "cuda", "--arch", "sm_70"], 1, "known are sm_75, sm_80"),
    (["ir", "{file}:scale", *ARGUMENTS, "--arch", "sm_90a"], 1, "arch 'sm_90a' is not known for the CPU"),
    (["ir", "{file}", *ARGUMENTS], 2, "say which kernel, {file}:NAME; its kernels are: scale, Layer.copy"),
    (["ir", "{file}:negated"], 2, "negated is a helper of kernels; name a kernel that calls it"),
    (["ir", "{file}:other"], 2, "{file} has no kernel other; its kernels are: negated, scale, Layer.copy"),
    (["preview", "{file}:Layer.other"], 2, "{file} has no kernel Layer.other"),
    (["preview", "absent.py"], 2, "there is no file absent.py"),
    (["preview", "absent.py:scale"], 2, "there is no file absent.py"),
    (["ir", "{file}:scale", "-a", "x"], 2, "x: write NAME=VALUE, such as x=f32[1024]"),
    (["ir", "{file}:scale", "-a", "x=f99[4]"], 2, "x=f99[4]: no type 'f99'"),
    (["ir", "{file}:scale", "-c", "BM"], 2, "BM: write NAME=VALUE, such as BM=64"),
    (["ir", "{file}:scale", "-g", "x"], 2, "x: a grid is 1 to 3 integers, such as 8,4"),
    (["cache", "limit"], 2, "cache limit needs a size, such as 64M"),
    (["cache", "clear", "64M"], 2, "cache clear takes no size; see cache limit"),
    (["cache", "limit", "much"], 2, "much is not a number of bytes, such as 64M"),
    (["unknown"], 2, "there is no command unknown; commands are preview, ir, source"),
    (["explian", "{file}"], 2, "there is no command explian; did you mean explain?"),
    (["preview", "{file}", "--diffs"], 2, "preview takes no --diffs; did you mean --diff?"),
    ([], 2, "the following arguments are required: COMMAND"),
]


@pytest.mark.parametrize("arguments, code, message", MISTAKES)
def test_mistakes(file, command, arguments, code, message):
    found = command(*(argument.format(file=file) for argument in arguments))
    assert found[0] == code
    assert found[1] == ""
    assert message.format(file=file) in found[2]
    assert "Traceback" not in found[2]


def test_a_file_named_as_a_module(tmp_path, command, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "types.py"
    path.write_text(TEXT)
    before = sys.modules["types"]
    assert command("preview", f"{path}:negated")[0] == 0
    assert sys.modules["types"] is before
    sys.modules.pop("file_types")


def test_a_file_without_kernels(tmp_path, command, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    empty = tmp_path / "empty_of_kernels.py"
    empty.write_text("x = 1\n")
    code, _, err = command("preview", empty)
    assert code == 2
    assert "has no kernels: functions under @tile.kernel or @tile.function" in err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_listed_limited_and_cleared(command, folder):
    for number in range(3):
        disk_cache.put(f"key {number}", disk_cache.Entry({}, bytes(1000)))
    code, out, _ = command("cache")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 4
    assert all(re.fullmatch(r" *\d+  [0-9a-f]{64}\.kernel", line) for line in lines[:3])
    total = sum(int(line.split()[0]) for line in lines[:3])
    assert lines[3] == f"3 entries, {total} of {disk_cache.limit()} bytes, in {folder}"
    assert command("cache", "size")[1].splitlines() == lines[3:]
    assert command("cache", "limit", "2K")[1] == "removed 2 entries\n"
    assert command("cache", "clear")[1] == f"removed 1 entries from {folder}\n"
    assert not list(folder.glob("*.kernel"))


def test_the_cache_is_off(command):
    assert command("cache")[1] == "the cache is turned off by GIZML_TILE_CACHE\n"


def test_colour_on_a_terminal_only(file, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert cli.main(["preview", f"{file}:scale"]) == 0
    assert "\x1b[" in terminal.getvalue()
    plain = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    assert "# Kept." in plain


def test_the_installed_command(file):
    command = os.path.join(os.path.dirname(sys.executable), "gizml-tile")
    result = subprocess.run([command, "preview", f"{file}:negated"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("def negated(x):")
    piped = subprocess.run(
        f"{command} preview {file} | head -n 1", shell=True, capture_output=True, text=True
    )
    assert piped.stdout == "def negated(x):\n"
    assert piped.stderr == ""


GPU = """\
import gizml_tile as tile


@tile.kernel(grid=4)
def together(p, x, out):
    p.write(out, [64])[0] = p.read(x, [64])[p.id(0)]


@tile.kernel(grid=1)
def across(p, x, out):
    p.variant("put", "element")
    p.write(out, [32, 32])[0, 0] = p.read(x, [32, 32])[0, 0]
"""


@pytest.fixture
def gpu_file(tmp_path, monkeypatch):
    path = tmp_path / "kernels_for_a_gpu.py"
    path.write_text(GPU)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path.name
    sys.modules.pop("kernels_for_a_gpu", None)


def test_check_simulates_for_a_gpu(gpu_file, file, command):
    code, out, _ = command("check", f"{file}:scale", *ARGUMENTS, "-k", "cuda", "--arch", "sm_80")
    assert (code, out) == (0, "scale: no errors, 0 warnings, 0 costs, simulated\n")
    square = ["-a", "x=f32[32,32]", "-a", "out=f32[32,32]", "-k", "cuda"]
    code, out, _ = command("check", f"{gpu_file}:across", *square)
    cost, last = out.splitlines()
    assert code == 0
    assert cost.endswith(f"{gpu_file}:12:5: uncoalesced: 512 sectors where 128 would do")
    assert last == "across: no errors, 0 warnings, 1 costs, simulated"
    code, out, _ = command(
        "check", f"{gpu_file}:together", "-a", "x=u8[256]", "-a", "out=u8[64]", "-k", "cuda"
    )
    race, last = out.splitlines()
    assert code == 1
    assert f"{gpu_file}:6:5: race: store: thread 0 of workgroup 0 writes out" in race
    assert last == "together: 1 errors, 0 warnings, 0 costs, simulated"
    large = ["-a", "x=f32[4096,4096]", "-a", "out=f32[4096,4096]", "-k", "cuda"]
    code, out, _ = command("check", f"{gpu_file}:across", *large)
    assert code == 0 and out.endswith("not simulated, as the tensors have more than 4194304 elements\n")


def test_looks_at_what_runs_on_a_gpu(file, command):
    arguments = [f"{file}:scale", *ARGUMENTS, "-k", "cuda", "--arch", "sm_80"]
    assert "{blocked 1 wide}" in command("ir", *arguments)[1]
    assert ".target sm_80" in command("source", *arguments)[1]
