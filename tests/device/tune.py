"""Tuning on a real GPU: python tests/device/tune.py. Needs PyTorch and cuda-python; prints what it chose."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings

import checkout  # noqa: F401
import torch

os.environ["GIZML_TILE_CACHE"] = tempfile.mkdtemp(prefix="gizml-tile-")

import gizml_tile as tile
from gizml_tile.runtime.cuda.measuring import Bench
from gizml_tile.runtime.tensors import describe


@tile.kernel(
    grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK),
    configs=[{"BLOCK": 1}, {"BLOCK": 1 << 19}, {"BLOCK": 2048}, {"BLOCK": 2048, "warps": 1}],
)
def scaled(p, x, out, *, BLOCK):
    p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2


@tile.kernel(
    grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)),
    configs=[
        {"BM": 64, "BN": 64, "BK": 32},
        {"BM": 16, "BN": 16, "BK": 16},
        {"BM": 128, "BN": 128, "BK": 32},
    ],
)
def matmul(p, a, b, c, *, BM, BN, BK):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


@tile.kernel(grid=lambda x, BLOCK: tile.cdiv(x.shape[0], BLOCK), configs=[{"BLOCK": 256}, {"BLOCK": 1024}])
def increment(p, x, *, BLOCK):
    p.write(x, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] + 1


def main() -> int:
    x = torch.randn(1 << 26, device="cuda")
    out, expected = torch.empty_like(x), x * 2
    free = torch.cuda.mem_get_info()[0]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        start = time.perf_counter()
        scaled(x, out)
        torch.cuda.synchronize()
        print(f"scaled: {scaled.best(x, out)} in {time.perf_counter() - start:.2f} s")
    assert torch.cuda.mem_get_info()[0] >= free - (1 << 26), "copies are freed"
    assert torch.equal(out, expected)
    assert scaled.best(x, out)["BLOCK"] == 2048
    assert len(found) == 1 and "BLOCK=524288 is left out" in str(found[0].message), found
    with Bench([describe(x)]) as bench:
        seconds = bench.seconds(lambda: scaled(x, out))
    print(f"scaled: {2 * x.nbytes / seconds / 1e12:.2f} TB/s")

    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty(2048, 2048, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        matmul(a, b, c)
    stream.synchronize()
    print(f"matmul: {matmul.best(a, b, c)}")
    assert matmul.best(a, b, c)["BM"] != 16
    assert torch.allclose(c, a.float() @ b.float(), rtol=1e-2, atol=1e-1)

    counter = torch.zeros(100_000, device="cuda")
    increment(counter)
    assert bool((counter == 1).all())
    start = time.perf_counter()
    sys.modules["gizml_tile.tune"]._winners.clear()
    print(f"increment: {increment.best(counter)}, found on disk in {time.perf_counter() - start:.4f} s")
    assert bool((counter == 1).all())
    print("ok")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
