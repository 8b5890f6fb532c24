"""Tuning on GPUs, by a driver that takes notes: what is measured, on which memory, and what is kept."""

import ctypes
import sys

import numpy as np
import pytest
from on_gpu import OnGpu

import gizml_tile as tile
from gizml_tile.errors import TileWarning

tune = sys.modules["gizml_tile.tune"]


@pytest.fixture(autouse=True)
def forget(monkeypatch, cuda):
    monkeypatch.setattr(tune, "_winners", {})
    for device in cuda.devices:
        device["L2_CACHE_SIZE"] = 1 << 10


def make(configs):
    @tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK), configs=configs)
    def double(p, x, out, *, BLOCK):
        p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2

    return double


def arrays(size=1000):
    return OnGpu(np.arange(size, dtype=np.float32)), OnGpu(np.full(size, 5, np.float32))


def by_grid(**milliseconds):
    """How long a launch takes, by its number of workgroups."""
    return lambda launch: milliseconds[f"g{launch.grid[0]}"]


def test_the_fastest_is_measured_on_copies(cuda):
    cuda.milliseconds = by_grid(g16=3.0, g4=1.0, g8=2.0)
    double = make([{"BLOCK": 64}, {"BLOCK": 256}, {"BLOCK": 128}])
    x, out = arrays()
    cuda.sizes = [8, 8]
    double(x, out)
    assert cuda.launches[-1].grid == (4, 1, 1)
    measured = cuda.launches[:-1]
    assert {launch.grid[0] for launch in measured} == {16, 4, 8}
    assert all(len([each for each in measured if each.grid[0] == grid]) >= 8 for grid in (16, 4, 8))
    copies = cuda.called("cuMemcpyDtoDAsync")
    assert [copy[1:3] for copy in copies] == [(out.array.ctypes.data, 4000)] * 3
    assert all((copy[0] - out.array.ctypes.data) % 256 == 0 for copy in copies)
    assert not cuda.memory
    # Only the last launch gets the person's own tensor.
    own = out.array.ctypes.data.to_bytes(8, "little")
    assert own in cuda.launches[-1].parameters
    assert not any(own in launch.parameters for launch in measured)
    assert double.best(x, out) == {"BLOCK": 256}
    count = len(cuda.launches)
    double(x, out)
    assert len(cuda.launches) == count + 1


def test_each_run_finds_an_empty_cache(cuda):
    double = make([{"BLOCK": 64}, {"BLOCK": 256}])
    double(*arrays())
    flushes = cuda.called("cuMemsetD8Async")
    assert {flush[2] for flush in flushes} == {1 << 10}
    runs = len(cuda.called("cuEventRecord")) // 2
    assert runs >= 10 and len(flushes) == 4 * runs


def test_looking_does_not_measure(cuda):
    double = make([{"BLOCK": 64}, {"BLOCK": 256}])
    x, out = arrays()
    cuda.milliseconds = by_grid(g16=3.0, g4=1.0)
    assert "at 64" in double.ir(x, out)
    assert not cuda.launches
    double(x, out)
    count = len(cuda.launches)
    assert "at 256" in double.ir(x, out)
    assert len(cuda.launches) == count


def test_the_winner_is_kept_on_disk_for_the_device(cuda, monkeypatch, tmp_path):
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path))
    cuda.milliseconds = by_grid(g16=3.0, g4=1.0)
    x, out = arrays()
    configs = [{"BLOCK": 64}, {"BLOCK": 256}]
    assert module_level.best(x, out) == {"BLOCK": 256}
    measured = len(cuda.launches)
    tune._winners.clear()
    assert module_level.best(x, out) == {"BLOCK": 256}
    assert len(cuda.launches) == measured
    # The second GPU is another one, on which nothing was measured.
    cuda.devices[1]["MULTIPROCESSOR_COUNT"] = 114
    cuda.owner_of_pointer = 1
    cuda.milliseconds = by_grid(g16=1.0, g4=3.0)
    assert module_level.best(x, out) == configs[0]


@tile.kernel(
    grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK), configs=[{"BLOCK": 64}, {"BLOCK": 256}]
)
def module_level(p, x, out, *, BLOCK):
    p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2


def test_configurations_that_do_not_fit_are_left_out_and_named(cuda):
    double = make([{"BLOCK": 1 << 18}, {"BLOCK": 64}, {"BLOCK": 256}])
    x, out = arrays()
    with pytest.warns(
        TileWarning, match=r"configuration BLOCK=262144 is left out: the \[1, 262144\] F32 tile "
    ):
        double(x, out)
    assert double.best(x, out)["BLOCK"] in (64, 256)
    cuda.most_threads = 16
    with pytest.raises(tile.TileError, match="Fake GPU has registers for 16"):
        make([{"BLOCK": 32}, {"BLOCK": 512}])(x, out)
    assert not cuda.memory


def test_grids_that_are_too_large_are_left_out_and_named(cuda):
    @tile.kernel(grid=lambda out, ROWS: (1 << 16, ROWS), configs=[{"ROWS": 1 << 16}, {"ROWS": 2}])
    def double(p, x, out, *, ROWS):
        p.write(out, [64])[p.id(0)] = p.read(x, [64])[p.id(0)] * 2

    x, out = arrays()
    with pytest.warns(TileWarning, match="configuration ROWS=65536 is left out: .* has 4294967296 programs"):
        double(x, out)
    assert double.best(x, out) == {"ROWS": 2} and not cuda.memory


def test_results_that_differ_are_an_error(cuda):
    cuda.sizes = [8, 8, 8]
    x, out = arrays()

    def effect(launch):
        for pointer in launch.parameters[:2]:
            address = int.from_bytes(pointer, "little")
            if address != x.array.ctypes.data:
                ctypes.c_float.from_address(address).value = launch.grid[0]

    cuda.effect = effect
    with pytest.raises(tile.TileError) as caught:
        make([{"BLOCK": 64}, {"BLOCK": 256}])(x, out)
    assert caught.value.message == (
        "configurations BLOCK=64 and BLOCK=256 of double give different results: output 0 by up to 12 where "
        "the largest value is 16"
    )
    assert (out.array == 5).all() and not cuda.memory


def test_no_measuring_in_a_capture(cuda):
    cuda.capturing = 0
    with pytest.raises(
        tile.TileError, match="cannot be measured while a graph is captured; launch once before"
    ):
        make([{"BLOCK": 64}, {"BLOCK": 256}])(*arrays())
    cuda.capturing = 7
    with pytest.raises(tile.TileError, match="while a graph is captured"):
        make([{"BLOCK": 64}, {"BLOCK": 256}])(*arrays(), stream=7)
    assert not cuda.launches and not cuda.memory and not cuda.stack


def test_measuring_on_the_stream_of_the_launch(cuda):
    make([{"BLOCK": 64}, {"BLOCK": 256}])(*arrays(), stream=7)
    assert {launch.stream for launch in cuda.launches} == {7}
    assert {copy[3] for copy in cuda.called("cuMemcpyDtoDAsync")} == {7}


def test_no_memory_to_measure_with(cuda, monkeypatch):
    monkeypatch.setattr(cuda, "cuMemAlloc", lambda size: (2, None))
    with pytest.raises(tile.TileError, match="the GPU has no memory left"):
        make([{"BLOCK": 64}, {"BLOCK": 256}])(*arrays())
    assert not cuda.stack


def test_tune_of_a_body(cuda):
    cuda.milliseconds = by_grid(g16=1.0, g4=3.0)
    x, out = arrays()

    def body(p, block):
        p.write(out, [block]).put(p.read(x, [block]).at([p.id(0)]).mul(2), [p.id(0)])

    assert tile.tune([256, 64], lambda block: tile.cdiv(1000, block), body) == (out,)
    assert cuda.launches[-1].grid == (16, 1, 1)
