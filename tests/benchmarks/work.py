"""The rows of the CPU table, from the kernels of the examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn
from timing import Case

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from attention import attention
from attention import reference as attention_reference
from fused_gelu import fused_gelu
from fused_gelu import reference as gelu_reference
from layernorm import layernorm
from layernorm import reference as layernorm_reference
from matmul import matmul
from measure import random as random_anywhere
from measure import torch
from softmax import reference as softmax_reference
from softmax import softmax
from vector_add import vector_add

try:
    import numba
except ImportError:
    numba = None

UNIT = 2.0**-24
LINE = 64
SAMPLE = 48  # rows of a product that are compared with float64


def aligned(array: np.ndarray) -> np.ndarray:
    """The array's values where a cache line starts, as PyTorch's own tensors lie: the same for everyone."""
    memory = np.empty(array.nbytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers, aligned."""
    return aligned(random_anywhere(*shape, seed=seed))


def empty(*shape: int) -> np.ndarray:
    """Room for results, aligned, and touched so that no row pays for its pages."""
    return aligned(np.zeros(shape, np.float32))


def matmul_case(name: str, m: int, n: int, k: int, dtype, peers: dict, **constants: int) -> Case:
    """A product in F32 of operands of any float type, with bias and relu; checked on some rows."""
    a, b = (aligned(random(*shape, seed=seed).astype(dtype)) for shape, seed in (((m, k), 1), ((k, n), 2)))
    bias, c = random(n, seed=3), empty(m, n)

    def error() -> tuple[float, float]:
        matmul(a, b, bias, c, **constants)
        rows = np.unique(np.linspace(0, m - 1, SAMPLE).astype(int))
        wide = a[rows].astype(np.float64), b.astype(np.float64)
        truth = np.maximum(wide[0] @ wide[1] + bias, 0)
        bound = (k + 1) * UNIT * (abs(wide[0]) @ abs(wide[1]) + abs(bias))
        return float((abs(c[rows] - truth) / bound).max()), 1.0

    calls = {peer: make(a, b, bias) for peer, make in peers.items()}
    return Case(
        name,
        2e-9 * m * n * k,
        "GFLOP/s",
        lambda: matmul(a, b, bias, c, **constants),
        {peer: call for peer, call in calls.items() if call},
        error,
    )


def numpy_product(a, b, bias):
    out = empty(a.shape[0], b.shape[1])
    return lambda: np.matmul(a, b, out=out)


def torch_product(a, b, bias):
    """The bare product in the operands' own type (PyTorch gives BF16 out of BF16)."""
    if torch is None:
        return None
    if a.dtype == bfloat16:
        ta, tb = (torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16) for x in (a, b))
    else:
        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty(a.shape[0], b.shape[1], dtype=ta.dtype)
    return lambda: torch.mm(ta, tb, out=out)


def own_product(dtype) -> Callable:
    """Our own product of operands of another type, for comparing rates."""

    def make(a, b, bias):
        x, y = (aligned(t.astype(np.float32).astype(dtype)) for t in (a, b))
        out = empty(a.shape[0], b.shape[1])
        return lambda: matmul(x, y, bias, out)

    return make


def matmul_f32(quick: bool) -> Iterator[Case]:
    for n in (512, 1024) if quick else (512, 1024, 2048, 4096):
        peers = {"NumPy": numpy_product, "PyTorch": torch_product}
        yield matmul_case(f"matmul f32 {n}", n, n, n, np.float32, peers, BN=256)


def matmul_bf16(quick: bool) -> Iterator[Case]:
    for n in (512, 1024) if quick else (512, 1024, 2048, 4096):
        blocks = {"BM": 128, "BN": 256} if n < 2048 else {"BM": 256, "BN": 512}
        yield matmul_case(f"matmul bf16 {n}", n, n, n, bfloat16, {"PyTorch": torch_product}, **blocks)


def matmul_f16(quick: bool) -> Iterator[Case]:
    for n in (512,) if quick else (512, 1024, 2048):
        peers = {"ours f32": own_product(np.float32)}
        if n == 512:
            peers["PyTorch"] = torch_product
        yield matmul_case(f"matmul f16 {n}", n, n, n, np.float16, peers)


def matmul_fp8(quick: bool) -> Iterator[Case]:
    for n in (512,) if quick else (512, 1024, 2048):
        yield matmul_case(f"matmul fp8 {n}", n, n, n, float8_e4m3fn, {"ours bf16": own_product(bfloat16)})


def few_rows(quick: bool) -> Iterator[Case]:
    for m in (8, 64) if quick else (8, 16, 32, 64):
        peers = {"NumPy": numpy_product, "PyTorch": torch_product}
        yield matmul_case(f"matmul f32 {m} x 4096 x 4096", m, 4096, 4096, np.float32, peers, BM=m, BN=1024)


def row_sizes(quick: bool) -> list[tuple[int, int]]:
    return [(1024, 1024)] if quick else [(1024, 1024), (4096, 1024), (4096, 4096)]


def compiled(function: Callable) -> Callable | None:
    """A loop nest under Numba with fastmath, on all its threads."""
    return numba and numba.njit(parallel=True, fastmath=True)(function)


def softmax_rows(quick: bool) -> Iterator[Case]:
    def loops(x, y):
        for i in numba.prange(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            total = np.float32(0)
            for j in range(x.shape[1]):
                y[i, j] = np.exp(x[i, j] - top)
                total += y[i, j]
            scale = np.float32(1) / total
            for j in range(x.shape[1]):
                y[i, j] *= scale

    fast = compiled(loops)
    for rows, columns in row_sizes(quick):
        x = random(rows, columns)
        y, z = empty(*x.shape), empty(*x.shape)

        def error(x=x, y=y) -> tuple[float, float]:
            softmax(x, y, COLUMNS=x.shape[1])
            truth = softmax_reference(x[:64].astype(np.float64))
            return float((abs(y[:64] - truth) / truth).max()), 4e-6

        peers = {}
        if torch:
            tx, out = torch.from_numpy(x), torch.from_numpy(z)
            peers["PyTorch"] = lambda x=tx, out=out: torch.softmax(x, 1, out=out)
        if fast:
            peers["Numba"] = lambda x=x, z=z: fast(x, z)
        yield Case(
            f"softmax {rows} x {columns}",
            8e-9 * x.size,
            "GB/s",
            lambda x=x, y=y: softmax(x, y, COLUMNS=x.shape[1]),
            peers,
            error,
        )


def layernorm_rows(quick: bool) -> Iterator[Case]:
    def loops(x, w, b, y):
        count = x.shape[1]
        for i in numba.prange(x.shape[0]):
            mean = np.float32(0)
            for j in range(count):
                mean += x[i, j]
            mean /= np.float32(count)
            variance = np.float32(0)
            for j in range(count):
                variance += (x[i, j] - mean) * (x[i, j] - mean)
            scale = np.float32(1) / np.sqrt(variance / np.float32(count) + np.float32(1e-5))
            for j in range(count):
                y[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]

    fast = compiled(loops)
    for rows, columns in row_sizes(quick):
        x, w, b = random(rows, columns), random(columns, seed=1), random(columns, seed=2)
        y, z = empty(*x.shape), empty(*x.shape)

        def error(x=x, w=w, b=b, y=y) -> tuple[float, float]:
            layernorm(x, w, b, y, COLUMNS=x.shape[1])
            truth = layernorm_reference(x[:64].astype(np.float64), w, b)
            return float(abs(y[:64] - truth).max()), 2e-5

        peers = {}
        if torch:
            tx, tw, tb, out = (torch.from_numpy(array) for array in (x, w, b, z))
            peers["PyTorch"] = lambda x=tx, w=tw, b=tb, n=columns, out=out: (
                torch.ops.aten.native_layer_norm.out(
                    x, (n,), w, b, 1e-5, out0=out, out1=mean_out(x), out2=mean_out(x)
                )
            )
        if fast:
            peers["Numba"] = lambda x=x, w=w, b=b, z=z: fast(x, w, b, z)
        yield Case(
            f"layernorm {rows} x {columns}",
            8e-9 * x.size,
            "GB/s",
            lambda x=x, w=w, b=b, y=y: layernorm(x, w, b, y, COLUMNS=x.shape[1]),
            peers,
            error,
        )


def mean_out(x):
    return torch.empty(x.shape[0], 1)


def gelu_rows(quick: bool) -> Iterator[Case]:
    for rows, columns in row_sizes(quick):
        x, w, b = random(rows, columns), random(columns, seed=1), random(columns, seed=2)
        y = empty(*x.shape)
        block = min(columns, 4096)

        def error(x=x, w=w, b=b, y=y, block=block) -> tuple[float, float]:
            fused_gelu(x, w, b, y, BN=block)
            truth = gelu_reference(x[:64].astype(np.float64), w, b)
            return float((abs(y[:64] - truth) / (1 + abs(x[:64] * w) + abs(b))).max()), 1e-6

        peers = {}
        if torch:
            tx, tw, tb = (torch.from_numpy(array) for array in (x, w, b))
            peers["PyTorch"] = lambda x=tx, w=tw, b=tb: torch.nn.functional.gelu(
                x * w + b, approximate="tanh"
            )
        yield Case(
            f"gelu(x*w+b) {rows} x {columns}",
            8e-9 * x.size,
            "GB/s",
            lambda x=x, w=w, b=b, y=y, block=block: fused_gelu(x, w, b, y, BN=block),
            peers,
            error,
        )


def attention_f32(quick: bool) -> Iterator[Case]:
    sizes = [(64, 512, False), (128, 1024, False)]
    if not quick:
        sizes = [(d, s, False) for d in (64, 128) for s in (512, 1024, 2048, 4096)] + [(64, 2048, True)]
    for depth, length, causal in sizes:
        q, k, v = (random(1, 8, length, depth, seed=seed) for seed in (1, 2, 3))
        out = empty(*q.shape)

        def ours(q=q, k=k, v=v, out=out, depth=depth, causal=causal) -> None:
            width = 128 if causal else 256
            attention(q, k, v, out, D=depth, CAUSAL=causal, RAGGED=False, BM=128, BN=width)

        def error(q=q, k=k, v=v, out=out, ours=ours, causal=causal) -> tuple[float, float]:
            ours()
            truth = attention_reference(*(x[:, :1].astype(np.float64) for x in (q, k, v)), causal)
            return float(abs(out[:, :1] - truth).max()), 1e-5

        peers = {}
        if torch:
            tensors = [torch.from_numpy(x) for x in (q, k, v)]
            peers["PyTorch"] = lambda t=tensors, causal=causal: (
                torch.nn.functional.scaled_dot_product_attention(*t, is_causal=causal)
            )
        name = f"attention f32 D {depth}, S {length}{', causal' if causal else ''}"
        work = 4e-9 * q.size * length / (2 if causal else 1)
        yield Case(name, work, "GFLOP/s", ours, peers, error)


def tiny_launch(quick: bool) -> Iterator[Case]:
    x, y, z = random(16, seed=1), random(16, seed=2), empty(16)

    def error() -> tuple[float, float]:
        vector_add(x, y, z, BLOCK=16)
        return float(abs(z - (x.astype(np.float64) + y)).max()), 1e-6

    peers = {"NumPy": lambda: np.add(x, y, out=z)}
    if torch:
        tx, ty, tz = (torch.from_numpy(array) for array in (x, y, z.copy()))
        peers["PyTorch"] = lambda: torch.add(tx, ty, out=tz)
    yield Case("launch of 16 elements", 0, "us", lambda: vector_add(x, y, z, BLOCK=16), peers, error)


ROWS: dict[str, Callable[[bool], Iterator[Case]]] = {
    "matmul": matmul_f32,
    "bf16": matmul_bf16,
    "f16": matmul_f16,
    "fp8": matmul_fp8,
    "few": few_rows,
    "softmax": softmax_rows,
    "layernorm": layernorm_rows,
    "gelu": gelu_rows,
    "attention": attention_f32,
    "launch": tiny_launch,
}
