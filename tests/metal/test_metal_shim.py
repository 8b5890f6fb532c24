"""The shim finds what is wrong: races, accesses outside, undefined arithmetic, threads that part ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from metal_shim import Texts, run_watched
from recorded import Launch, Placed, of_metal
from small_kernels import SmallKernel

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.emit.metal import emit
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access

PLACE = ((0, 0),)


def neighbours(*, barrier: bool, beyond: int = 0) -> Launch:
    """Each thread reads what its neighbour stored to threadgroup memory, or something farther."""
    build = SmallKernel(threads=64)
    buffer = build.buffer(F32, 64)
    build.store(Access(WORKGROUP, buffer, 1, PLACE), build.input(F32), build.thread())
    if barrier:
        build.barrier(0, 64)
    other = build.map("xor", build.thread(), build.number(1))
    other = build.add(other, build.number(beyond))
    build.output(build.load(Access(WORKGROUP, buffer, 1, PLACE), other, F32))
    return launch(build)


def launch(build: SmallKernel) -> Launch:
    kernel = of_metal(build.kernel())
    pieces = [np.zeros(64 * each.dtype.bytes, np.uint8) for each in kernel.tensors]
    tensors = tuple(Placed(number, 0, (64,), (1,)) for number in range(len(pieces)))
    return Launch(kernel, emit(kernel), tensors, (), (1,), pieces, pieces)


def test_what_is_right_is_clean(tmp_path):
    for sanitizer in ("address", "thread"):
        assert not run_watched([neighbours(barrier=True)], tmp_path, sanitizer)


def test_a_missing_barrier_is_a_race_at_a_line_of_the_text(tmp_path):
    said = run_watched([neighbours(barrier=False)], tmp_path, "thread")
    assert "data race" in said and "kernel.metal" in said


def test_accesses_outside_of_threadgroup_memory_and_tensors(tmp_path):
    said = run_watched([neighbours(barrier=True, beyond=8)], tmp_path, "address")
    assert "heap-buffer-overflow" in said and "kernel.metal" in said
    build = SmallKernel(threads=64)
    build.output(build.input(F32, 2))
    assert "heap-buffer-overflow" in run_watched([launch(build)], tmp_path, "address")


@pytest.mark.parametrize(
    "exact, undefined, what",
    [
        ("int(uint(a) + uint(b))", "a + b", "signed integer overflow"),
        ("truncated(t0_0, (-2147483647 - 1), 2147483647)", "int(t0_0)", "outside the range of representable"),
    ],
)
def test_undefined_arithmetic(exact, undefined, what, tmp_path):
    """Where the text would use C++'s own operations, which leave some results open."""
    build = SmallKernel(threads=64)
    number = build.convert(build.input(F32), I32)
    build.output(build.add(number, number))
    right = launch(build)
    right.pieces[0].view(np.float32)[:] = 2e9 if "uint" in exact else 1e10
    assert exact in right.artifact.text
    assert not run_watched([right], tmp_path, "address")
    text = right.artifact.text.replace(exact, undefined)
    wrong = replace(right, artifact=replace(right.artifact, text=text))
    assert what in run_watched([wrong], tmp_path, "address")


def test_threads_that_part_ways(tmp_path):
    build = SmallKernel(threads=64)
    first = build.map("lt", build.thread(), build.number(16))
    build.when(first, lambda: build.barrier(0, 64))
    (problem,) = Texts([launch(build).artifact], tmp_path).run([launch(build)])
    assert problem.startswith("threads part ways: 0 waits for the threadgroup at line ")
    assert problem.endswith(", 16 has ended at line 0")
