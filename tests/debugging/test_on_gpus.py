"""The records of launches on GPUs: memory of the host that the device writes, read when it is done."""

import ctypes

import numpy as np
import pytest
from on_gpu import OnGpu

import gizml_tile as tile


@tile.kernel(grid=lambda out, **_: tile.cdiv(out.shape[0], 64))
def told(p, x, out):
    i = p.id(0)
    t = p.read(x, [64])[i]
    p.print("program", i)
    p.check(t < 100, "small")
    p.write(out, [64])[i] = t


def arrays():
    return OnGpu(np.zeros(128, np.float32)), OnGpu(np.zeros(128, np.float32))


def test_a_launch_waits_and_tells(cuda, capsys):
    def effect(launch):
        # What two programs would store: each prints, and the check of the second fails.
        ((size, _),) = cuda.called("cuMemHostAlloc")
        (address,) = cuda.memory
        rows = np.frombuffer((ctypes.c_int64 * (size // 8)).from_address(address), np.int64).reshape(2, -1)
        assert not rows.any() and rows.shape[1] == 1 << 20
        rows[0, :4] = 4, 1, 1, 0
        rows[1, :7] = 7, 2, 1, 1, 2, 3, 5

    cuda.effect = effect
    x, out = arrays()
    with pytest.raises(tile.TileError) as caught:
        told(x, out, debug=True)
    assert caught.value.message == (
        "check failed: small: in program 1 3 of 1 x 64 elements, the first at [0, 5]"
    )
    line = caught.value.lineno - 1
    assert capsys.readouterr().out == "".join(
        f"test_on_gpus.py:{line}: program {i}: program {i}\n" for i in range(2)
    )
    assert cuda.called("cuCtxSynchronize") == [(1,)]
    assert len(cuda.called("cuMemFreeHost")) == 1 and not cuda.memory


def test_launches_repeat(cuda, capsys):
    x, out = arrays()
    for _ in range(5):
        assert told(x, out, debug=True) == (out,)
    assert len(cuda.launches) == 5 and len(cuda.called("cuCtxSynchronize")) == 5
    for _ in range(5):
        told(x, out)
    assert len(cuda.launches) == 10 and len(cuda.called("cuCtxSynchronize")) == 5
    assert capsys.readouterr().out == ""


def test_a_capture_cannot_wait(cuda):
    cuda.capturing = 0
    with pytest.raises(tile.TileError, match="waiting for what programs print and check: the CUDA driver"):
        told(*arrays(), debug=True)
