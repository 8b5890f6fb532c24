"""What `explain` says of a launch's time: what bounds it, and how long it took."""

import re

import numpy as np
import pytest
from on_gpu import OnGpu

import gizml_tile as tile
from gizml_tile.text import duration


@tile.kernel(grid=lambda out, BLOCK: tile.cdiv(out.shape[0], BLOCK))
def double(p, x, out, *, BLOCK=64):
    p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2


@tile.kernel(grid=1)
def named(p, x, out, *, measure=1.0):
    p.write(out, [8])[0] = p.read(x, [8])[0] * measure


def arrays(size=1000):
    return np.arange(size, dtype=np.float32), np.full(size, 5, np.float32)


def on_gpu(size=1 << 20):
    return [OnGpu(each) for each in arrays(size)]


@pytest.fixture
def small_cache(cuda):
    for device in cuda.devices:
        device["L2_CACHE_SIZE"] = 1 << 10
    return cuda


def test_on_the_cpu_the_time_of_a_launch_on_copies():
    x, out = arrays()
    assert "measured: " not in double.explain(x, out)
    assert re.search(r"^measured: \d+\.\d\d [mu]s$", double.explain(x, out, measure=True), re.M)
    assert (out == 5).all()

    def body(p):
        p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)] * 2

    assert "measured: " in tile.explain(125, body, measure=True)
    assert (out == 5).all()


def test_on_a_gpu_the_distance_from_the_bound(small_cache):
    small_cache.milliseconds = lambda launch: 0.00349
    x, out = on_gpu()
    text = double.explain(x, out, measure=True)
    # 8 MiB at 4.8 TB/s are 1.748 us.
    assert "\n  bound by the memory of the device: 1.75 us\n" in text
    assert "\n  measured: 3.49 us, 2.00 times the bound\n" in text
    assert "16384 programs, on 132 multiprocessors" in text
    assert (out.array == 5).all()
    own = out.array.ctypes.data.to_bytes(8, "little")
    assert len(small_cache.launches) > 5
    assert not any(own in launch.parameters for launch in small_cache.launches)
    assert not small_cache.memory


def test_without_being_asked_nothing_is_launched(small_cache):
    text = double.explain(*on_gpu())
    assert "bound by the memory of the device: 1.75 us" in text and "measured: " not in text
    assert not small_cache.launches


def test_the_architecture_is_the_devices_own(small_cache):
    small_cache.devices[0]["COMPUTE_CAPABILITY_MAJOR"] = 8
    x, out = on_gpu()
    assert double.explain(x, out).startswith("double for cuda (sm_80)\n")
    assert double.explain(x, out, kind="cuda").startswith("double for cuda (sm_80)\n")
    assert double.explain(x, out, arch="sm_90a").startswith("double for cuda (sm_90a)\n")
    assert double.explain(x, out, kind="hip").startswith("double for hip (gfx942)\n")


def test_what_is_not_launched_is_not_measured(small_cache):
    where = "is measured where its tensors are, for"
    with pytest.raises(tile.TileError, match=rf"{where} cpu \(native\), and not for cuda \(sm_80\)"):
        double.explain(*arrays(), kind="cuda", arch="sm_80", measure=True)
    with pytest.raises(tile.TileError, match=rf"{where} cuda \(sm_90a\), and not for cuda \(sm_80\)"):
        double.explain(*on_gpu(), arch="sm_80", measure=True)
    with pytest.raises(tile.TileError, match="with its tensors' own types; leave out storage"):
        double.explain(*arrays(), storage=[tile.F16], measure=True)
    assert not small_cache.launches


def test_an_empty_launch_has_no_time(small_cache):
    empty = np.zeros(0, np.float32)
    for text in (double.explain(empty, empty, measure=True), double.explain(empty, empty, kind="cuda")):
        assert "measured: " not in text and "bound by" not in text.partition("The launch")[2]


def test_a_constant_of_this_name_stays_one():
    x, out = arrays(8)
    assert "measured: " not in named.explain(x, out, measure=3.0)


@pytest.mark.parametrize(
    "seconds, text",
    [(2.5, "2.50 s"), (1.0, "1.00 s"), (0.0138, "13.80 ms"), (1e-3, "1.00 ms"), (1e-8, "0.01 us")],
)
def test_units_of_time(seconds, text):
    assert duration(seconds) == text
