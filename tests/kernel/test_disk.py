"""The disk cache behind launches: hits without tracing or compiling, processes, broken entries."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import build
from gizml_tile.runtime import disk_cache

PROGRAM = """
import sys
import numpy as np
import gizml_tile as tile

SCALE = 2.0

def shifted(x):
    return x + 1.0

@tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK))
def kernel(p, x, out, n, *, BLOCK=8):
    acc = p.zeros([BLOCK])
    for k in range(2):
        acc += p.read(x, [BLOCK])[p.id(0)]
    p.write(out, [BLOCK])[p.id(0)] = shifted(acc) * SCALE + n.value()

x = np.arange(20, dtype=np.float32)
weights = x + 1

def explicit(p):
    p.write(out, [8]).put(p.read(weights, [8]).at([p.id(0)]).mul(SCALE), [p.id(0)])

out = np.zeros_like(x)
kernel(x, out, 3)
assert np.array_equal(out, (x * 2 + 1) * SCALE + 3), out
tile.run(3, explicit)
assert np.array_equal(out, weights * SCALE), out
"""

REPORT = """
import json
from gizml_tile.runtime import disk_cache
print(json.dumps({"heavy": sorted({"libcst", "llvmlite"} & set(sys.modules)), "info": kernel.cache_info()}))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def program(tmp_path, folder):
    """Runs the program in a process of its own, after a change of its text; what it reports."""
    file = tmp_path / "program.py"

    def run(old="", new=""):
        file.write_text((PROGRAM + REPORT).replace(old, new) if old else PROGRAM + REPORT)
        result = subprocess.run([sys.executable, file], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def kept(folder):
    return {path.name for path in folder.glob("*.kernel")}


def test_a_second_process_neither_rewrites_nor_compiles(program, folder):
    first = program()
    assert first["heavy"] == ["libcst", "llvmlite"]
    entries = kept(folder)
    second = program()
    assert second == {"heavy": [], "info": [0, 1, 1]}
    assert kept(folder) == entries


EXACT = """
import sys
import numpy as np
import gizml_tile as tile

@tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 64))
def kernel(p, x, at, y):
    i = p.id(0)
    p.write(y, [64]).scatter_add(p.read(x, [64])[i], [p.read(at, [64])[i]], deterministic=True)

x, at, y = np.arange(100, dtype=np.float32), np.arange(100, dtype=np.int32) % 7, np.zeros(7, np.float32)
kernel(x, at, y)
assert np.array_equal(y, [x[at == each].sum() for each in range(7)]), y
"""


def test_a_second_process_neither_rewrites_nor_compiles_deterministic_sums(tmp_path, folder):
    file = tmp_path / "exact.py"
    file.write_text(EXACT + REPORT)

    def run():
        result = subprocess.run([sys.executable, file], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    assert run()["heavy"] == ["libcst", "llvmlite"]
    entries = kept(folder)
    assert run() == {"heavy": [], "info": [0, 1, 1]}
    assert kept(folder) == entries


CHANGES = [
    ("SCALE = 2.0", "SCALE = 3.0"),
    ("return x + 1.0", "return 1.0 + x.abs()"),
    ("BLOCK=8", "BLOCK=16"),
    ("+ n.value()", "- (-n.value())"),
    ("dtype=np.float32)", "dtype=np.float32)[::1].reshape(2, 10).T.reshape(-1)"),
]


@pytest.mark.parametrize("old, new", CHANGES)
def test_what_the_source_and_its_captured_values_say_counts(program, folder, old, new):
    program()
    entries = kept(folder)
    program(old, new)
    if "reshape" not in new:
        assert kept(folder) > entries


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "flipped"])
def test_broken_entries_are_made_again(program, folder, damage):
    program()
    for path in folder.glob("*.kernel"):
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(
            {
                "truncated": content[:middle],
                "empty": b"",
                "garbage": b"\0" * len(content),
                "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            }[damage]
        )
    assert program()["heavy"] == ["libcst", "llvmlite"]
    assert program()["heavy"] == []


def test_processes_that_start_together(tmp_path, folder):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    processes = [
        subprocess.Popen([sys.executable, file], stderr=subprocess.PIPE, text=True) for _ in range(8)
    ]
    for process in processes:
        errors = process.communicate()[1]
        assert process.returncode == 0, errors
    assert not list(folder.glob("*.partial"))
    for stored in disk_cache.entries():
        assert disk_cache._unpack(stored.path.read_bytes()) is not None


def test_without_a_folder_that_can_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    for setting in (str(file / "below"), "off"):
        environment = os.environ | {"GIZML_TILE_CACHE": setting}
        (tmp_path / "program.py").write_text(PROGRAM)
        subprocess.run([sys.executable, tmp_path / "program.py"], env=environment, check=True)


def test_the_same_trace_needs_another_layout(folder):
    """A process that has the trace from the disk traces again where the code for a layout is not there."""

    def make():
        @tile.kernel(grid=1)
        def copy(p, x, out):
            p.write(out, [8])[0] = p.read(x, [8])[0]

        return copy

    x, out = np.arange(16, dtype=np.float32), np.zeros(8, np.float32)
    make()(x[:8], out)
    again = make()
    again(x[::2], out)
    assert np.array_equal(out, x[::2])
    again(x[:8], out)
    assert np.array_equal(out, x[:8])


def test_captured_objects_without_names_are_not_mixed_up(folder):
    """A captured object that has no name in other processes is found by the traced program's text."""

    class Marker:
        __slots__ = ()

    marker, other = Marker(), Marker()

    def make(value):
        def body(p):
            p.write(out, [8]).put(p.full([8], 1.0 if value is marker else 2.0), [0])

        return body

    out = np.zeros(8, np.float32)
    for value, expected in ((marker, 1), (other, 2), (marker, 1)):
        tile.run(1, make(value))
        assert list(out) == [expected] * 8


def test_threads_compile_once(folder, monkeypatch):
    compiled = []
    real = build.executable

    def executable(program, layout, digest):
        compiled.append(layout)
        return real(program, layout, digest)

    monkeypatch.setattr(build, "executable", executable)

    @tile.kernel(grid=lambda out: tile.cdiv(out.shape[0], 8))
    def square(p, x, out):
        value = p.read(x, [8])[p.id(0)]
        p.write(out, [8])[p.id(0)] = value * value

    barrier = threading.Barrier(8)
    failures = []

    def work(number):
        x = np.arange(100, dtype=np.float32) + number
        out = np.zeros_like(x)
        barrier.wait()
        for _ in range(20):
            square(x, out)
            if not np.array_equal(out, x * x):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(compiled) == 1
    assert square.cache_info().misses == 1


FORK = """
import os, sys, threading
import numpy as np
import gizml_tile as tile
from gizml_tile.launch import lock

@tile.kernel(grid=4)
def fill(p, out, *, VALUE=1.0):
    p.write(out, [8])[p.id(0)] = p.full([8], VALUE)

out = np.zeros(32, np.float32)
fill(out)
held = threading.Event()
release = threading.Event()

def hold():
    with lock():
        held.set()
        release.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    fill(out, VALUE=2.0)
    os._exit(0 if (out == 2).all() else 1)
release.set()
thread.join()
status = os.waitpid(child, 0)[1]
fill(out, VALUE=3.0)
assert (out == 3).all()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("way", ["fork"] if hasattr(os, "fork") else [])
def test_a_forked_child_launches(tmp_path, folder, way):
    file = tmp_path / "forks.py"
    file.write_text(FORK)
    subprocess.run([sys.executable, file], check=True, timeout=60)


PICKLES = """
import pickle
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
import numpy as np
import kernels

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(kernels.double)) is kernels.double
    assert pickle.loads(pickle.dumps(kernels.Layer.triple)) is kernels.Layer.triple
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(kernels.apply, kernels.double, n) for n in range(3)]
        assert [future.result() for future in futures] == [0.0, 2.0, 4.0]
"""

KERNELS = """
import numpy as np
import gizml_tile as tile

@tile.kernel(grid=1)
def double(p, x):
    p.write(x, [8])[0] = p.read(x, [8])[0] * 2

class Layer:
    @tile.kernel(grid=1)
    def triple(p, x):
        p.write(x, [8])[0] = p.read(x, [8])[0] * 3

def apply(kernel, n):
    x = np.full(8, n, np.float32)
    kernel(x)
    return float(x[0])
"""


def test_kernels_are_sent_to_other_processes_by_name(tmp_path, folder):
    (tmp_path / "kernels.py").write_text(KERNELS)
    file = tmp_path / "pickles.py"
    file.write_text(PICKLES)
    subprocess.run([sys.executable, file], check=True, timeout=120, cwd=tmp_path)


def test_a_file_edited_after_it_was_imported(tmp_path, folder, monkeypatch):
    """The text of when the function was decorated counts, not what the file says later."""
    file = tmp_path / "edited_kernels.py"
    file.write_text(KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    import edited_kernels

    file.write_text(
        textwrap.dedent(KERNELS).replace("* 2", "* 5").replace("import numpy", "\n\nimport numpy")
    )
    assert edited_kernels.apply(edited_kernels.double, 1) == 2.0
    assert "* 5" not in edited_kernels.double.preview()


def test_versions_name_the_packages_and_its_own_files():
    text = build.versions()
    assert np.__version__ in text
    assert disk_cache.package_fingerprint() in text
    assert Path(build.__file__).exists()
