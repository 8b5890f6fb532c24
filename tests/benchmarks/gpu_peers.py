"""The kernels of others in the GPU table: Triton's in their best known structure, and PyTorch's."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def scaled_kernel(x, y, z, n, factor, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    sum = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside) * factor + shift
    tl.store(z + at, sum, mask=inside)


@triton.jit
def gelu_kernel(x, w, b, y, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    at = rows[:, None] * N + columns[None, :]
    u = tl.load(x + at).to(tl.float32) * tl.load(w + columns)[None, :] + tl.load(b + columns)[None, :]
    # 0.5 u (1 + tanh z) is u times the logistic function of 2 z.
    y_at = u * tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
    tl.store(y + at, y_at.to(y.dtype.element_ty))


@triton.jit
def softmax_kernel(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float32)
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty))


@triton.jit
def layernorm_kernel(x, w, b, y, N: tl.constexpr):
    columns = tl.arange(0, N)
    at = tl.program_id(0) * N + columns
    row = tl.load(x + at).to(tl.float32)
    centred = row - tl.sum(row, 0) / N
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / N + 1e-5)
    value = centred * scale * tl.load(w + columns).to(tl.float32) + tl.load(b + columns).to(tl.float32)
    tl.store(y + at, value.to(y.dtype.element_ty))


@triton.jit
def rmsnorm_kernel(x, w, y, N: tl.constexpr):
    columns = tl.arange(0, N)
    at = tl.program_id(0) * N + columns
    row = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row, 0) / N + 1e-5)
    tl.store(y + at, (row * scale * tl.load(w + columns).to(tl.float32)).to(y.dtype.element_ty))


@triton.jit
def transpose_kernel(x, y, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    block = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(y + columns[:, None] * M + rows[None, :], tl.trans(block))


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Blocks in groups of rows, so that those that run at once share operands in the L2 cache."""
    number = tl.program_id(0)
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = number // (GROUP * across)
    height = min(down - group * GROUP, GROUP)
    i = group * GROUP + (number % (GROUP * across)) % height
    j = (number % (GROUP * across)) // height
    rows = (i * BM + tl.arange(0, BM)) % M
    columns = (j * BN + tl.arange(0, BN)) % N
    depth = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + depth[None, :]
    b_at = b + depth[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc, input_precision=PRECISION)
        a_at += BK
        b_at += BK * N
    rows = i * BM + tl.arange(0, BM)
    columns = j * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(c.dtype.element_ty), mask=inside)


def copies(x, y):
    """Triton's copies of a vector by name, to choose from."""
    n = x.numel()
    return {
        f"{block}": lambda block=block: copy_kernel[(triton.cdiv(n, block),)](
            x, y, n, BLOCK=block, num_warps=block // 256
        )
        for block in (1024, 2048)
    }


def additions(x, y, z):
    n = x.numel()
    return {
        f"{block}": lambda block=block: add_kernel[(triton.cdiv(n, block),)](
            x, y, z, n, BLOCK=block, num_warps=block // 256
        )
        for block in (1024, 2048)
    }


def gelus(x, w, b, y):
    (m, n) = x.shape
    return {
        f"{rows}x{columns}": lambda rows=rows, columns=columns, warps=warps: gelu_kernel[
            (n // columns, m // rows)
        ](x, w, b, y, N=n, BM=rows, BN=columns, num_warps=warps)
        for rows, columns, warps in ((1, 2048, 8), (2, 1024, 4), (4, 1024, 8))
    }


def by_rows(kernel, x, *others):
    """One row a program, by numbers of warps that give a thread 64, 32 or 16 elements."""
    (m, n) = x.shape
    counts = sorted({min(32, max(1, n // (32 * each))) for each in (64, 32, 16)})
    return {
        f"{warps} warps": lambda warps=warps: kernel[(m,)](x, *others, N=n, num_warps=warps)
        for warps in counts
    }


def transposes(x, y):
    (m, n) = x.shape
    return {
        f"{rows}x{columns}": lambda rows=rows, columns=columns, warps=warps: transpose_kernel[
            (n // columns, m // rows)
        ](x, y, M=m, N=n, BM=rows, BN=columns, num_warps=warps)
        for rows, columns, warps in ((32, 32, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8))
    }


BF16_BLOCKS = (
    (64, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 3, 8),
    (128, 256, 64, 3, 8),
    (256, 128, 64, 3, 8),
)
F32_BLOCKS = ((64, 64, 16, 3, 4), (128, 64, 16, 3, 8))


def products(a, b, c, blocks=BF16_BLOCKS, precision="tf32"):
    (m, k), n = a.shape, b.shape[1]

    def with_blocks(bm, bn, bk, stages, warps):
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        return lambda: matmul_kernel[grid](
            a, b, c, m, n, k,
            BM=bm, BN=bn, BK=bk, GROUP=8, PRECISION=precision, num_warps=warps, num_stages=stages,
        )  # fmt: skip

    return {
        f"{bm}x{bn}x{bk}, {stages} stages, {warps} warps": with_blocks(bm, bn, bk, stages, warps)
        for bm, bn, bk, stages, warps in blocks
        if m * n >= bm * bn * 64  # a grid of less leaves processors idle
    }


def compiled(function, *tensors):
    """A function under torch.compile with its first call done."""
    made = torch.compile(function, dynamic=False)
    made(*tensors)
    return lambda: made(*tensors)
