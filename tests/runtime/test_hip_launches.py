"""Launches on AMD GPUs by hip-python itself, against a stand-in for ROCm's library that runs the kernels."""

import pytest
from fake_hip import run

# A kernel with tensors, sizes, a number and a float, on a device that is described as gfx90a.
START = """
import numpy as np
from fake_hip import FakeHip, OnHip, without_comgr
import gizml_tile as tile

stub = without_comgr()
hip = FakeHip("gfx90a:sramecc+:xnack-")
hip.keep_texts()

@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 64))
def scaled(p, x, factor, y, times):
    i = p.id(0)
    t = p.read(x, [64])[i] * factor
    for k in range(times):
        t = t + 1
    p.write(y, [64])[i] = t

rng = np.random.default_rng(0)
x, y = rng.standard_normal(1000, dtype=np.float32), np.zeros(1000, np.float32)
"""


def test_a_launch_gives_the_results():
    told = run(
        START
        + """
for turn in range(2):
    scaled(OnHip(x), 2.5, OnHip(y), 3)
print(np.array_equal(y, x * np.float32(2.5) + np.float32(1) + np.float32(1) + np.float32(1)))
name, sizes, packed, image = hip.launches[0]
print(name, image, [each[:2] for each in hip.launches] == [("scaled", sizes)] * 2)
print(sizes[:3], sizes[3] % 64, sizes[4:], len(packed) % 8)
words = np.frombuffer(packed, np.uint64)
bits = int(np.float32(2.5).view(np.uint32))
print(x.ctypes.data in words, y.ctypes.data in words, 3 in words, bits in words)
print(hip.log)
"""
    )
    assert told.splitlines() == [
        "True",
        "scaled b'\\x7fELF' True",
        "(16, 1, 1) 0 (1, 1, 0) 0",
        "True True True True",
        "['load 0 0', 'launch 0 0', 'launch 0 0']",
    ]


def test_products_on_matrix_cores():
    told = run(
        START
        + """
@tile.kernel(grid=lambda c, **_: (tile.cdiv(c.shape[0], 32), tile.cdiv(c.shape[1], 32)))
def matmul(p, a, b, c):
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [32, 32]), p.read(b, [32, 32])
    acc = p.zeros([32, 32])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(c, [32, 32])[i, j] = acc

a, b = (rng.integers(-4, 4, (70, 70)).astype(np.float16) for _ in range(2))
c = np.zeros((70, 70), np.float32)
matmul(OnHip(a), OnHip(b), OnHip(c))
print(np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32)), "mfma" in hip.artifacts["matmul"].text)
"""
    )
    assert told == "True True\n"


def test_sums_whose_order_leaves_no_trace():
    """Four programs with memory that is there for them, all in the order of one stream."""
    told = run(
        START
        + """
@tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 64))
def add(p, x, at, z):
    i = p.id(0)
    places = p.read(at, [64], pad=-1)[i]
    p.write(z, [64]).scatter_add(p.read(x, [64])[i], [places], deterministic=True)

at = rng.integers(0, 9, 1000, np.int32)
z, want = np.ones(9, np.float32), np.ones(9, np.float32)
add(x, at, want)
add(OnHip(x, 0, 7), OnHip(at, 0, 7), OnHip(z, 0, 7))
print(z.tobytes() == want.tobytes(), [each[0] for each in hip.launches])
print([each for each in hip.log if not each.startswith("load")])
"""
    )
    assert told.splitlines() == [
        "True ['add_clear', 'add_sizes', 'add', 'add_finish']",
        str(["memory 512 7", *["launch 0 7"] * 4, "free 0 7"]),
    ]


def test_another_device_and_streams():
    told = run(
        START
        + """
scaled(OnHip(x, 1, 7), 1.0, OnHip(y, 1, 9), 0)
scaled(OnHip(x, 1, 7), 1.0, OnHip(y, 1, 9), 0, stream=5)
print("\\n".join(hip.log))
"""
    )
    assert told.splitlines() == [
        *("device 1 0", "load 1 0", "device 0 0"),
        *("device 1 0", "record 1 9", "wait 7 1", "destroy 1 0", "launch 1 7"),
        *("record 2 7", "wait 9 2", "destroy 2 0", "device 0 0"),
        *("device 1 0", "launch 1 5", "device 0 0"),
    ]


def test_nothing_waits_in_a_capture():
    told = run(
        START
        + "hip.set('fake_hip_capturing', 1)\nscaled(OnHip(x, 0, 7), 1.0, OnHip(y, 0, 9), 0)\nprint(hip.log)"
    )
    assert told == "['load 0 0', 'launch 0 7']\n"


def test_code_comes_from_the_disk(tmp_path):
    program = START + "scaled(OnHip(x), 2.0, OnHip(y), 0)\nprint(len(hip.artifacts), len(hip.launches))"
    first = run(program, GIZML_TILE_CACHE=str(tmp_path))
    second = run(program, GIZML_TILE_CACHE=str(tmp_path))
    assert (first, second) == ("1 1\n", "0 1\n")


WRONG = [
    (
        "hip.set('fake_hip_refused', 719)",
        "kernel scaled was not launched: the HIP runtime answered hipErrorLaunchFailure (719)",
    ),
    ("x.device = 9", "there is no hip:9; the HIP runtime sees 2 GPUs"),
]


@pytest.mark.parametrize("change, message", WRONG)
def test_errors_of_a_launch(change, message):
    told = run(START + f"x, y = OnHip(x), OnHip(y)\n{change}\ny.device = x.device\nscaled(x, 1.0, y, 0)")
    assert told.startswith(message)


def test_a_gpu_that_is_not_known():
    told = run(START + "FakeHip('gfx906:sramecc-')\nscaled(OnHip(x), 1.0, OnHip(y), 0)")
    assert told == (
        "hip:0 (Stand-in) is gfx906, for which no code can be made; known are "
        "gfx90a, gfx942, gfx950, gfx1100, gfx1151, gfx1200, gfx1201\n"
    )


WITHOUT = """
import sys
import numpy as np
from fake_hip import OnHip
import gizml_tile as tile
array = OnHip(np.zeros(64, np.float32))
"""
ADD = "tile.run((1,), lambda p: p.write(array, [64]).put(p.read(array, [64]).at([0]).add(1), [0]))"


def test_no_gpu(monkeypatch):
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    program = f"from fake_hip import FakeHip\nFakeHip(devices=0){WITHOUT}{ADD}"
    assert run(program) == "the HIP runtime sees no GPU\n"
    assert run(program, HIP_VISIBLE_DEVICES="7") == "the HIP runtime sees no GPU (HIP_VISIBLE_DEVICES=7)\n"


def test_no_rocm():
    told = run(f"{WITHOUT}{ADD}", with_rocm=False)
    assert told.startswith("no HIP runtime was found; install ROCm for this GPU (")


def test_no_bindings():
    told = run(f"{WITHOUT}sys.modules['hip'] = None\n{ADD}")
    assert told.startswith("tensors on an AMD GPU need hip-python (")
    assert told.endswith("pip install 'gizml-tile[hip]'\n")


def test_too_many_programs_are_refused():
    told = run(
        """
from gizml_tile.runtime.hip.artifact import Artifact
from gizml_tile.runtime.hip.kernel import HipKernel
HipKernel(Artifact("", "k", "gfx942", 256, 0, ()), b"").workgroups((1 << 20, 64), 0)
"""
    )
    assert told == (
        "kernel k: a grid of 1048576 x 64 has 67108864 programs, and a launch at most 16777215 of 256 "
        "threads; let each do more\n"
    )


LARGE = [
    (
        "65537, 64",
        "kernel k needs 65537 bytes of workgroup memory, and Stand-in has 65536; use smaller blocks or fewer "
        "stages",
    ),
    ("0, 2048", "kernel k has 2048 threads in a workgroup, and Stand-in takes 1024; use fewer warps"),
]


@pytest.mark.parametrize("sizes, message", LARGE)
def test_kernels_that_do_not_fit(sizes, message):
    told = run(
        f"""
from fake_hip import FakeHip
from gizml_tile.runtime.hip.artifact import Artifact
from gizml_tile.runtime.hip.kernel import HipKernel
FakeHip("gfx942")
memory, threads = {sizes}
HipKernel(Artifact("", "k", "gfx942", threads, memory, ()), b"").loaded(0)
"""
    )
    assert told == message + "\n"


def test_persistent_kernels_fill_the_device():
    told = run(
        """
from fake_hip import FakeHip
from gizml_tile.runtime.hip.artifact import Artifact
from gizml_tile.runtime.hip.kernel import HipKernel
FakeHip("gfx942")
kernel = HipKernel(Artifact("", "k", "gfx942", 256, 0, (), per_unit=2), b"\\x7fELF")
print(kernel.workgroups((100,), 0), kernel.workgroups((4,), 0))
"""
    )
    assert told == "6 4\n"


def test_prints_and_checks():
    told = run(
        START
        + """
@tile.kernel(grid=2)
def told(p, y):
    i = p.id(0)
    for k in range(i + 1):
        p.print("turn", k, "of", i)
    t = p.iota([1, 8], 1).mul(i.value())
    p.print(t.sum(1))
    p.check(t < 7, "below seven", t)
    p.write(y, [8])[i] = t

try:
    told(OnHip(y), debug=True)
except tile.TileError as error:
    print(error.message)
print(hip.log)
"""
    )
    *lines, failure, log = told.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        "program 0: turn 0 of 0",
        "program 0: 0.0",
        "program 1: turn 0 of 1",
        "program 1: turn 1 of 1",
        "program 1: 28.0",
    ]
    assert failure == (
        "check failed: below seven: in program 1 1 of 1 x 8 elements, the first at [0, 7] where the value is "
        "7.0"
    )
    assert log == f"['pinned {2 << 23} 1', 'load 0 0', 'launch 0 0', 'synchronize 0 0', 'unpinned 0 0']"
