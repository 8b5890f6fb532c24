"""``bench``: what is measured, on the CPU and on the driver that only takes notes, and what a launch does."""

import json
import math
import re

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import ceilings
from gizml_tile.gridded import Gridded

KERNELS = """\
import gizml_tile as tile


@tile.kernel(grid=lambda c, BM, BN: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=16, BN=16):
    A, B, C = p.read(a, [BM, 8]), p.read(b, [8, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[p.id(0), k] @ B[k, p.id(1)]
    C[p.id(0), p.id(1)] = acc.relu() * 2


@tile.kernel(grid=1)
def counted(p, ends, x, out):
    total = p.zeros([1, 8])
    for i in range(p.read(ends, [1]).index(0)):
        total += p.read(x, [8])[i]
    p.write(out, [8])[0] = total
"""
SHAPES = ["-a", "a=f16[64,32]", "-a", "b=f16[32,48]", "-a", "c=f32[64,48]"]
QUICK = ["--seconds", "0.01"]


@pytest.fixture
def kernels(written):
    return written(KERNELS, "measured_kernels.py")


@pytest.fixture
def small_ceilings(monkeypatch):
    for name in ("_CPU_SIZE", "_GPU_SIZE"):
        monkeypatch.setattr(ceilings, name, 32)
    for name in ("_LEAST_COPIED", "_MOST_COPIED", "_GPU_COPIED"):
        monkeypatch.setattr(ceilings, name, 1 << 16)
    monkeypatch.setattr(ceilings, "_SECONDS", 0.001)


def rates_of(report):
    return {rate["name"]: rate for rate in report["rates"]}


def test_on_the_cpu(kernels, command, small_ceilings):
    code, out, err = command("bench", f"{kernels}:matmul", *SHAPES, *QUICK, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["kernel"], report["device"], report["arch"]) == ("matmul", "cpu", "native")
    assert report["grid"] == [4, 3] and report["runs"] >= 3
    low, high = report["quartile_seconds"]
    assert (
        0 < report["fastest_seconds"] <= low <= report["median_seconds"] <= high <= report["slowest_seconds"]
    )
    rates = rates_of(report)
    assert list(rates) == ["memory", "f16", "others"]
    assert rates["memory"]["amount"] == 2 * (64 * 32 + 32 * 48) + 4 * 64 * 48
    assert rates["f16"]["amount"] == 2 * 64 * 32 * 48
    assert rates["others"]["amount"] == 2 * 64 * 48
    for rate in rates.values():
        assert math.isclose(rate["per_second"], rate["amount"] / report["median_seconds"])
        assert rate["ceiling_per_second"] > 0
    # Rates above their ceilings are those of so little that caches hold it.
    slow = [rate for rate in rates.values() if rate["per_second"] <= rate["ceiling_per_second"]]
    least = max((rate["amount"] / rate["ceiling_per_second"] for rate in slow), default=None)
    assert report["ceiling_bound_seconds"] == least
    assert report["explained_bound_seconds"] is None


def test_as_text(kernels, command):
    code, out, err = command("bench", f"{kernels}:matmul", *SHAPES, *QUICK, "--no-ceilings")
    assert (code, err) == (0, "")
    first, second, blank, head, memory, products, others = out.splitlines()
    assert re.fullmatch(r"matmul on cpu \(.+\): \d+ launches on a grid of 4 x 3", first)
    time = r"\d+\.\d\d [mun]?s"
    assert re.fullmatch(
        rf"median {time}, half of them from {time} to {time}, all from {time} to {time}", second
    )
    assert blank == "" and head.split() == ["a", "launch", "achieved", "ceiling", "share"]
    assert memory.startswith("memory") and " 19.5 kB" in memory and memory.endswith("B/s")
    assert products.startswith("f16 products") and others.startswith("other operations")


def test_loops_whose_turns_follow_from_data(kernels, command):
    tensors = ["-a", "ends=i32[1]", "-a", "x=f32[64]", "-a", "out=f32[8]"]
    code, out, _ = command("bench", f"{kernels}:counted", *tensors, *QUICK, "--no-ceilings")
    assert code == 0
    assert (
        out.splitlines()[2] == "what a launch does is not known, as the turns of its loops follow from data"
    )


def test_on_a_gpu(kernels, command, cuda, small_ceilings):
    for device in cuda.devices:
        device["L2_CACHE_SIZE"] = 1 << 10
    code, out, err = command("bench", f"{kernels}:matmul", *SHAPES, *QUICK, "-d", "cuda:1", "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["device"], report["name"], report["arch"]) == ("cuda:1", "Fake GPU", "sm_90a")
    assert report["median_seconds"] == report["fastest_seconds"] == 0.001
    rates = rates_of(report)
    assert rates["f16"]["per_second"] == 2 * 64 * 32 * 48 / 0.001
    assert rates["memory"]["ceiling_per_second"] == 2 * (1 << 16) / 0.001
    assert rates["f16"]["ceiling_per_second"] == 2 * 32**3 / 0.001
    assert 0 < report["explained_bound_seconds"] < 1e-4
    assert {launch.context for launch in cuda.launches} == {0x1001}
    assert not cuda.memory


def test_devices_that_are_not_here(kernels, command, cuda):
    arguments = [f"{kernels}:matmul", *SHAPES, *QUICK]
    for device, code, message in (
        ("cdua", 2, "there is no device cdua; did you mean cuda or cpu?; kinds are cpu, cuda, hip, metal"),
        ("cpu:1", 2, "there is no device cpu:1; write cpu, or a GPU such as cuda:0"),
        ("cuda:first", 2, "there is no device cuda:first; write cpu, or a GPU such as cuda:0"),
        ("cuda:7", 1, "there is no cuda:7; the CUDA driver sees 2 GPUs"),
        ("hip", 1, "launches on hip:0 cannot be measured; those on cpu and cuda can"),
    ):
        assert command("bench", *arguments, "-d", device) == (code, "", f"gizml-tile: {message}\n")


def test_nothing_to_measure(kernels, command):
    empty = ["-a", "a=f16[0,32]", "-a", "b=f16[32,48]", "-a", "c=f32[0,48]"]
    code, _, err = command("bench", f"{kernels}:matmul", *empty, *QUICK)
    assert (code, err) == (
        2,
        "gizml-tile: there is nothing to measure: the grid or what is written is empty\n",
    )


def test_seconds(kernels, command):
    code, _, err = command("bench", f"{kernels}:matmul", *SHAPES, "--seconds", "-1")
    assert code == 2 and "-1 is not a number of seconds" in err


@tile.function
def larger(a, b):
    return a.maximum(b)


@tile.kernel(grid=3)
def various(p, x, rows, y, out):
    i = p.id(0)
    t = p.read(x, [4, 8])[i, 0].exp() / 3 - 1
    t = t.cumsum(1) + p.read(y, [8])[0].max(1)
    t = t.select(t > 0, 0.0) if False else t
    p.write(out, [4, 8])[i, 0] = t


def test_operations_are_those_of_the_tile_ir():
    x, rows, y = np.ones((12, 8), np.float32), np.zeros(4, np.int32), np.ones(8, np.float32)
    out = np.ones((12, 8), np.float32)
    counts = Gridded(various, 3).bench(0.0, 1, x, rows, y, out).counts
    # exp, /, -, one addition of the running sum and the last +, of 32 elements; the largest of 8.
    assert counts.others == 3 * (5 * 32 + 8)
    assert (counts.read, counts.written) == (4 * (96 + 8), 4 * 96)
    assert counts.products == {}
    assert (out == 1).all()
