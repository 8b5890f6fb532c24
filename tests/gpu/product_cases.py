"""Kernels of matrix products: operands of every type and order, computed ones, several in one loop."""

from __future__ import annotations

import math

import numpy as np
from gpu_cases import HALF_ULP, Case, laid_out, numbers, of_product, room, wide, within

import gizml_tile as tile


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[-2], BM), tile.cdiv(y.shape[-1], BN)


@tile.kernel(grid=by_tiles)
def matmul(p, a, b, y, *, BM=64, BN=64, BK=32, PRECISION="f32", SUM=tile.F32, WARPS=0, STAGES=0):
    if WARPS:
        p.warps(WARPS)
    if STAGES:
        p.stages(STAGES)
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(y, [BM, BN])
    acc = p.zeros([BM, BN], SUM)
    for k in range(A.blocks(1)):
        acc += A[i, k].dot(B[k, j], precision=PRECISION)
    C[i, j] = acc


@tile.kernel(grid=lambda y, BM, BN, **_: (*by_tiles(y, BM, BN), y.shape[0]))
def batched(p, a, b, y, *, BM=32, BN=64, BK=32):
    i, j, n = p.id(0), p.id(1), p.id(2)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(2)):
        acc += A[n, i, k] @ B[n, j, k].T
    p.write(y, [BM, BN])[n, i, j] = acc


@tile.kernel(grid=by_tiles)
def gated(p, x, w, v, y, *, BM=32, BN=32, BK=32):
    """Two products of one operand a turn, and one is the other's gate."""
    i, j = p.id(0), p.id(1)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(v, [BK, BN])
    up, gate = p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        block = X[i, k]
        up += block @ W[k, j]
        gate += block @ V[k, j]
    p.write(y, [BM, BN])[i, j] = up * gate * gate.sigmoid()


@tile.kernel(grid=by_tiles)
def linear(p, x, w, bias, residual, y, *, BM=64, BN=64, BK=32):
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[j, k].T
    acc = (acc + p.read(bias, [BN])[j]).gelu_erf() + p.read(residual, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def quantised(p, x, w, scales, y, *, BM=16, BN=64, BK=64):
    """Weights in 8 bits with a scale for each column of each block of k."""
    i, j = p.id(0), p.id(1)
    X, W, S = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(scales, [1, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ (W[k, j].to(tile.F32) * S[k, j]).to(tile.BF16)
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def four_bits(p, x, w, scales, y, *, BM=32, BN=64, BK=64):
    """Weights of four bits, two neighbours along k in a byte."""
    i, j = p.id(0), p.id(1)
    X, W, S = p.read(x, [BM, BK]), p.read(w, [BK // 2, BN]), p.read(scales, [1, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ (W[k, j].unpack4(0).to(tile.F32) * S[k, j]).to(tile.BF16)
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def microscaled(p, a, b, a_scales, b_scales, y, *, BM=32, BN=64, BK=64):
    """FP8 with a power of two for 32 elements of k each."""
    i, j = p.id(0), p.id(1)
    A, AS = p.read(a, [BM, BK]), p.read(a_scales, [BM, BK // 32])
    B, BS = p.read(b, [BK, BN]), p.read(b_scales, [BK // 32, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        left = A[i, k].scale_blocks(AS[i, k], 1).to(tile.BF16)
        acc += left @ B[k, j].scale_blocks(BS[k, j], 0).to(tile.BF16)
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def normalised(p, x, w, y, *, BM=32, BN=64, BK=32):
    """A product of rows that are normalised while it is made: reductions of an operand beside it."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, squares = p.zeros([BM, BN]), p.zeros([BM, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        squares = squares + (block * block).sum(1)
        acc += block @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc * (squares / X.dim(1) + 1e-5).rsqrt()


@tile.kernel(grid=lambda y, BM, **_: tile.cdiv(y.shape[0], BM))
def two_widths(p, x, w, v, y, z, *, BM=128, BK=64):
    """Two products of one operand whose results have rows of different lengths."""
    i = p.id(0)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, 64]), p.read(v, [BK, 16])
    wide, narrow = p.zeros([BM, 64]), p.zeros([BM, 16])
    for k in range(X.blocks(1)):
        wide += X[i, k] @ W[k, 0]
        narrow += X[i, k] @ V[k, 0]
    p.write(z, [BM, 16])[i, 0] = narrow
    p.write(y, [BM, 64])[i, 0] = wide


@tile.kernel(grid=lambda y, **_: 1)
def computed_operands(p, x, w, v, u, y, z, *, M=64, N=64, BK=32):
    """Three products of computed operands, two of which are taken twice: each has a buffer for a while."""
    p.warps(8)
    X, W, V, U = p.read(x, [M, BK]), p.read(w, [BK, N]), p.read(v, [BK, 16]), p.read(u, [M, BK])
    first, third, second = p.zeros([M, N]), p.zeros([M, N]), p.zeros([M, 16])
    for k in range(X.blocks(1)):
        left, right = abs(X[0, k]).to(tile.F16), W[k, 0] * 0.5
        first += left @ right
        second += left @ abs(V[k, 0])
        third += U[0, k].relu().to(tile.BF16) @ right
    p.write(y, [M, N])[0, 0] = first + third
    p.write(z, [M, 16])[0, 0] = second


@tile.kernel(grid=lambda y, **_: 1)
def written_before(p, x, y, z, *, N=32):
    """Products of blocks that the same program wrote, each once before and once in every turn."""
    X, Y, Z = p.read(x, [N, N]), p.write(y, [N, N]), p.write(z, [N, N])
    for k in range(X.blocks(0)):
        Y[k, 0] = X[k, 0] * 0.25
    acc = p.read(y, [N, N])[0, 0] @ X[0, 0]
    for i in range(2):
        for k in range(X.blocks(0)):
            acc += p.read(y, [N, N])[k, 0].T @ X[k, 0]
        Y[i, 0] = acc * 0.01
    Z[0, 0] = acc


@tile.kernel(grid=lambda y, N: tile.cdiv(y.shape[0], N))
def prefix_sums(p, x, y, *, N=64):
    """Sums up to each column, by a product with a triangle of ones."""
    i = p.id(0)
    ones = p.k(1.0) if p.iota([N, 1], 0) <= p.iota([1, N], 1) else 0.0
    p.write(y, [N, N])[i, 0] = p.read(x, [N, N])[i, 0] @ ones


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention(p, q, k, v, out, *, D=64, CAUSAL=False, WEIGHTS=tile.BF16, BM=64, BN=64):
    i, head, batch = p.id(0), p.id(1), p.id(2)
    Q, K, V, Out = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.write(out, [BM, D])
    queries = Q[batch, head, i, 0]
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    blocks = K.blocks(2)
    if CAUSAL:
        blocks = min(blocks, tile.cdiv((i + 1) * BM, BN))
    for j in range(blocks):
        scores = (queries @ K[batch, head, j, 0].T) * D**-0.5
        column = p.iota([1, BN], 1) + j * BN
        seen = column < K.dim(2)
        if CAUSAL:
            seen = seen and column <= p.iota([BM, 1], 0) + i * BM
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(WEIGHTS) @ V[batch, head, j, 0]
        top = higher
    Out[batch, head, i, 0] = acc / total


@tile.kernel(grid=lambda y, BX, BO: (tile.cdiv(y.shape[1], BX) * tile.cdiv(y.shape[2], BO), y.shape[0]))
def convolution(p, x, w, y, *, BX=32, BO=32):
    """A stretch of each image row, shifted by the tap's place, times that tap's matrix."""
    X, W, Y = p.read(x, [BX, 16]), p.read(w, [16, BO]), p.write(y, [BX, BO])
    block, row = p.id(0), p.id(1)
    column, outputs = block // Y.blocks(2) * BX, block % Y.blocks(2)
    acc = p.zeros([BX, BO])
    for tap in range(9):
        shifted = X.window([row + tap // 3 - 1, column + tap % 3 - 1, 0])
        acc += shifted @ W[tap, 0, outputs]
    Y.put_window(acc, [row, column, outputs * BO])


@tile.kernel(grid=by_tiles)
def far_padded(p, a, b, y, *, BM=32, BN=32, BK=16):
    """Pads other than 0, backwards along k, every second block."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK], pad=1), p.read(b, [BK, BN], pad=0.5)
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1) - 1, -1, -2):
        acc += A[i, k] @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


def operands(m, n, k, kinds=("f32", "f32"), orders=("C", "C"), out="f32", order="C"):
    """Two operands and the room for their product."""
    a, b = numbers(m, k, kind=kinds[0]), numbers(k, n, kind=kinds[1], seed=1)
    return [laid_out(a, orders[0]), laid_out(b, orders[1]), room(m, n, kind=out, order=order)]


def product(name, sizes, kinds=("f32", "f32"), orders=("C", "C"), out="f32", order="C", **constants):
    """A case of `matmul`."""
    exact = {*kinds} <= {"i1", "u1"}
    if exact:
        out, constants["SUM"] = "i4", tile.I32
    bound = None if exact else of_product
    if constants.get("PRECISION") == "tf32":
        bound = lambda arrays, result: 2.0**-9 * (np.abs(wide(arrays[0])) @ np.abs(wide(arrays[1])))
    return Case(
        f"matmul {name}", matmul, lambda: operands(*sizes, kinds, orders, out, order), constants, bound
    )


def heads(kind, length, depth, keys=None):
    """Queries, keys, values and the room for the result."""
    shapes = [(1, 2, length, depth), *[(1, 2, keys or length, depth)] * 2]
    arrays = [numbers(*shape, kind=kind, seed=seed) for seed, shape in enumerate(shapes)]
    return [*arrays, room(1, 2, length, depth, kind=kind)]


def gated_bound(arrays, result):
    sums = [np.abs(wide(arrays[0])) @ np.abs(wide(w)) for w in arrays[1:3]]
    return 4 * arrays[0].shape[1] * HALF_ULP * (1 + sums[0]) * (1 + sums[1])


def quantised_bound(arrays, result):
    x, w, scales = (np.abs(wide(each)) for each in arrays[:3])
    return 2 * x.shape[1] * HALF_ULP * (x @ (w * np.repeat(scales, 64, 0)[: w.shape[0]]))


def four_bits_bound(arrays, result):
    x, scales = (np.abs(wide(each)) for each in (arrays[0], arrays[2]))
    return 2 * x.shape[1] * HALF_ULP * (x @ (8 * np.repeat(scales, 64, 0)))


def exponents(*shape, seed=0):
    """Powers of two from a quarter to 4, as E8M0."""
    return np.random.default_rng([seed, *shape]).integers(125, 130, shape).astype(np.uint8)


def microscaled_bound(arrays, result):
    a, b = (np.abs(wide(each)) for each in arrays[:2])
    return 2 * 4 * 4 * a.shape[1] * HALF_ULP * (a @ b)


RAGGED, WHOLE = (70, 100, 50), (128, 128, 96)
FAST = ("bf16", "bf16")
CASES = [
    *(
        product(f"{a} x {b} {name} {orders[0]}{orders[1]}", sizes, (a, b), orders, BK=32)
        for name, sizes in [("ragged", RAGGED), ("whole", WHOLE)]
        for a, b in [FAST, ("f32", "f32"), ("i1", "i1")]
        for orders in (("C", "C"), ("C", "F"), ("F", "C"), ("F", "F"))
    ),
    *(
        product(f"{a} x {b}", WHOLE, (a, b), orders)
        for a, b, orders in [
            ("f16", "f16", ("C", "C")),
            ("fp8", "fp8", ("C", "F")),
            ("fp8", "fp8", ("C", "C")),
            ("e5m2", "e5m2", ("C", "F")),
            ("fp8", "e5m2", ("C", "C")),
            ("e5m2", "fp8", ("C", "F")),
            ("e5m2", "bf16", ("C", "C")),
            ("bf16", "fp8", ("C", "C")),
            ("f16", "f32", ("C", "C")),
            ("u1", "i1", ("C", "F")),
            ("i1", "u1", ("F", "C")),
        ]
    ),
    product("tf32", WHOLE, PRECISION="tf32"),
    product("tf32 of bf16", WHOLE, ("f32", "bf16"), ("F", "F"), PRECISION="tf32"),
    *(
        product(f"of {order}", RAGGED, FAST, (order, order), "bf16", order)
        for order in ("inside", "steps", "back")
    ),
    product("to bf16", WHOLE, FAST, out="bf16"),
    product("to fp8 by columns", WHOLE, FAST, out="fp8", order="F"),
    product("8 warps, 3 stages", (128, 256, 128), FAST, BM=128, BN=128, WARPS=8, STAGES=3),
    product("16 warps", WHOLE, FAST, WARPS=16),
    product("1 warp, 1 stage", WHOLE, FAST, WARPS=1, STAGES=1),
    product("2 stages of f32", WHOLE, BK=16, STAGES=2, WARPS=4),
    product("of one row", (1, 96, 64), FAST, BM=1),
    product("of thin tiles", (40, 30, 64), FAST, BM=16, BN=8, BK=16),
    product("of few k", (64, 64, 24), FAST, BK=8),
    Case(
        "batched matmul",
        batched,
        lambda: [numbers(3, 40, 70), numbers(3, 70, 70, seed=1), room(3, 40, 70)],
        {},
        within(2e-4),
    ),
    Case(
        "batched matmul bf16",
        batched,
        lambda: [
            numbers(2, 64, 64, kind="bf16"),
            numbers(2, 64, 64, kind="bf16", seed=1),
            room(2, 64, 64, kind="bf16"),
        ],
        {},
        within(2e-4),
    ),
    Case(
        "gated",
        gated,
        lambda: [*operands(50, 40, 70, FAST)[:2], numbers(70, 40, kind="bf16", seed=3), room(50, 40)],
        {},
        gated_bound,
    ),
    Case(
        "linear",
        linear,
        lambda: [numbers(70, 50), numbers(90, 50, seed=1), numbers(90), numbers(70, 90), room(70, 90)],
        {},
        within(2e-4),
    ),
    Case(
        "linear bf16",
        linear,
        lambda: [
            numbers(64, 64, kind="bf16"),
            numbers(128, 64, kind="bf16", seed=1),
            numbers(128),
            numbers(64, 128, kind="bf16"),
            room(64, 128, kind="bf16"),
        ],
        {},
        within(2e-4),
    ),
    *(
        Case(
            f"quantised {kind}",
            quantised,
            lambda kind=kind: [
                numbers(20, 128, kind="bf16"),
                numbers(128, 96, kind=kind),
                numbers(2, 96),
                room(20, 96),
            ],
            {},
            quantised_bound,
        )
        for kind in ("i1", "fp8")
    ),
    Case(
        "four bits",
        four_bits,
        lambda: [
            numbers(40, 128, kind="bf16"),
            numbers(64, 96, kind="u1"),
            numbers(2, 96),
            room(40, 96),
        ],
        {},
        four_bits_bound,
    ),
    *(
        Case(
            f"microscaled {kind}",
            microscaled,
            lambda kind=kind: [
                numbers(40, 96, kind="fp8"),
                numbers(96, 70, kind=kind, seed=1),
                exponents(40, 3),
                exponents(3, 70),
                room(40, 70),
            ],
            {},
            microscaled_bound,
        )
        for kind in ("fp8", "e5m2")
    ),
    *(
        Case(
            f"normalised {kind}",
            normalised,
            lambda kind=kind: operands(50, 70, 90, (kind, kind)),
            {},
            within(1e-4),
        )
        for kind in ("f32", "bf16")
    ),
    Case(
        "two widths",
        two_widths,
        lambda: [
            *(numbers(*shape, kind="bf16") for shape in [(256, 128), (128, 64), (128, 16)]),
            room(256, 64, kind="bf16"),
            room(256, 16, kind="bf16"),
        ],
        {},
        within(1e-3),
    ),
    Case(
        "computed operands",
        computed_operands,
        lambda: [
            *(numbers(*shape, kind="bf16") for shape in [(64, 64), (64, 64), (64, 16), (64, 64)]),
            room(64, 64),
            room(64, 16),
        ],
        {},
        within(1e-3),
    ),
    *(
        Case(
            f"written before {kind}",
            written_before,
            lambda kind=kind: [numbers(96, 32, kind=kind), room(96, 32, kind=kind), room(32, 32)],
            {},
            within(1e-2),
        )
        for kind in ("f32", "f16")
    ),
    Case(
        "prefix sums", prefix_sums, lambda: [numbers(100, 64), room(100, 64)], {}, within(64 * 64 * HALF_ULP)
    ),
    *(
        Case(
            f"attention {kind} {depth}{' causal' if causal else ''}",
            attention,
            lambda kind=kind, depth=depth, length=length: heads(kind, length, depth),
            {"D": depth, "CAUSAL": causal, "WEIGHTS": weights, "BM": rows, "BN": rows},
            # A weight that comes out a little different may be rounded the other way.
            within({tile.BF16: 4 * 2.0**-8, tile.F16: 4 * 2.0**-11}.get(weights, 1e-5)),
        )
        for kind, depth, causal, weights, rows, length in [
            ("bf16", 64, False, tile.BF16, 64, 130),
            ("bf16", 128, True, tile.BF16, 64, 128),
            ("f16", 64, True, tile.F16, 32, 100),
            ("f32", 32, False, tile.F32, 32, 70),
        ]
    ),
    *(
        Case(
            f"convolution {kind}",
            convolution,
            lambda kind=kind: [numbers(5, 20, 16, kind=kind), numbers(9, 16, 40, kind=kind), room(5, 20, 40)],
            {},
            within(9 * 16 * 2 * HALF_ULP * 40),
        )
        for kind in ("f32", "bf16")
    ),
    Case("far padded", far_padded, lambda: operands(40, 50, 70), {}, within(2e-4)),
    Case("far padded bf16", far_padded, lambda: operands(40, 50, 70, FAST), {}, within(2e-4)),
]
