"""Kernels that do not fit a device's registers, workgroup memory or grid."""

import numpy as np
import pytest

import gizml_tile as tile


@tile.kernel(grid=1)
def square(p, x, out, *, B):
    value = p.read(x, [B, B])[0, 0]
    p.write(out, [B, B])[0, 0] = value * value.sum(1)


@tile.kernel(grid=1)
def product(p, a, b, c, *, B, K=32):
    A, B_, C = p.read(a, [B, K]), p.read(b, [K, B]), p.write(c, [B, B])
    acc = p.zeros([B, B])
    for k in range(A.blocks(1)):
        acc += A[0, k] @ B_[k, 0]
    C[0, 0] = acc


@tile.kernel(grid=1)
def overwritten(p, x, y, out, *, B=128, K=32):
    """A product of what is overwritten later, and so is read where it stands."""
    A, B_, C = p.read(out, [B, K]), p.read(y, [K, B]), p.write(out, [B, B])
    acc = p.zeros([B, B])
    for k in range(A.blocks(1)):
        acc += A[0, k] @ B_[k, 0]
    C[0, 0] = acc


@tile.kernel(grid=1)
def two(p, a, b, c, *, B, K=32):
    A, B_, C = p.read(a, [B, K]), p.read(b, [K, B]), p.write(c, [B, B])
    plus, minus = p.zeros([B, B]), p.zeros([B, B])
    for k in range(A.blocks(1)):
        plus += A[0, k] @ B_[k, 0]
        minus -= A[0, k] @ B_[k, 0]
    C[0, 0] = plus * minus


X, Y, OUT = (np.zeros((1024, 1024), np.float16) for _ in range(3))
MISTAKES = [
    (
        square,
        {"B": 128, "warps": 1},
        "value = p.read",
        "the [128, 128] F16 tile of this read takes 512 registers of each of 32 threads and a thread "
        "has 255; "
        "use 4 warps or smaller blocks",
    ),
    (
        square,
        {"B": 512},
        "value = p.read",
        "the [512, 512] F16 tile of this read takes 512 registers of each of 512 threads and a "
        "thread has 128; "
        "use smaller blocks",
    ),
    (
        square,
        {"B": 300},
        "value = p.read",
        "the [300, 300] F16 tile of this read, which is computed as [512, 512], takes 512 registers of each "
        "of 512 threads and a thread has 128; use smaller blocks",
    ),
    (
        product,
        {"B": 256},
        "for k in range",
        "the tiles that this loop carries take 256 registers of each of 256 threads and a thread has 255; "
        "use 16 warps or smaller blocks",
    ),
    (
        two,
        {"B": 128, "warps": 4},
        "for k in range",
        "the tiles that this loop carries take 256 registers of each of 128 threads and a thread has 255; "
        "use 8 warps or smaller blocks",
    ),
    (
        product,
        {"B": 128, "K": 256, "stages": 3},
        "acc += A[0, k]",
        "3 stages of 131072 bytes need 393216 bytes of workgroup memory and there are 232448; ask for "
        "1 stage at most, or make the blocks smaller",
    ),
    (
        overwritten,
        {"B": 128, "K": 1024},
        "acc += A[0, k]",
        "the program needs 262144 bytes of workgroup memory and a workgroup has 232448; make the blocks "
        "smaller or the stages fewer",
    ),
]


@pytest.mark.parametrize("kernel, named, line, message", MISTAKES)
def test_what_does_not_fit(kernel, named, line, message):
    given = (X, OUT) if kernel is square else (X, Y, OUT)
    with pytest.raises(tile.TileError) as caught:
        kernel.source(*given, kind="cuda", **named)
    error = caught.value
    assert error.message == message
    assert error.filename == __file__ and line in str(error).splitlines()[1]


def test_products_are_told_in_the_sizes_that_were_written():
    text = product.explain(X[:96, :80], Y[:80, :48], OUT[:96, :48], kind="cuda", arch="sm_80", B=48, K=80)
    assert "dot [48, 80] F16 x [80, 48] F16: dot" in text, text


def test_accumulators_of_one_loop_count_together():
    assert "over 2 x 2 warps" in product.ir(X, Y, OUT, kind="cuda", arch="sm_80", B=128)
    assert "over 4 x 2 warps" in two.ir(X, Y, OUT, kind="cuda", arch="sm_80", B=128)
