"""Kernels of F64, for every GPU that has it."""

from __future__ import annotations

import math

import numpy as np
from elementwise_cases import add, transpose
from gpu_cases import Case, by_blocks, numbers, of_product, room, wide

import gizml_tile as tile

OUTS = [("f32", tile.F32), ("f16", tile.F16), ("bf16", tile.BF16), ("fp8", tile.FP8), ("e5m2", tile.E5M2)]
OUTS += [("i1", tile.I8), ("u1", tile.U8), ("i2", tile.I16), ("u2", tile.U16)]
OUTS += [("i4", tile.I32), ("u4", tile.U32), ("i8", tile.I64), ("u8", tile.U64)]


@tile.kernel(grid=by_blocks)
def doubles(p, x, y, z, chosen, *, BM=8, BN=32):
    """Every operation of F64 beside numbers and F32, the same bits everywhere."""
    j, i = p.id(0), p.id(1)
    a, s = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    total = (a + s) * 0.1 - a / s
    best = max(min(a, 0.3), s) if a <= s else -abs(a)
    p.write(z, [BM, BN])[i, j] = total + abs(a).sqrt() * s.to(tile.F64).relu() - abs(a).rsqrt()
    whole = a.floor() + s.to(tile.F64).ceil() - (a * 8).round() + a.trunc()
    p.write(chosen, [BM, BN])[i, j] = best + whole.copysign(s) + a**3


@tile.kernel(grid=lambda x, BM, BN, **_: by_blocks(x, BM, BN))
def conversions(p, x, *outs, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j] * 100
    for out, (_, dtype) in zip(outs[:-1], OUTS, strict=True):
        p.write(out, [BM, BN])[i, j] = a.to(dtype)
    whole = a.to(tile.I64).to(tile.F64) + a.to(tile.U32).to(tile.F64) / 7 + a.to(tile.BF16)
    p.write(outs[-1], [BM, BN])[i, j] = whole.bitcast(tile.I64).xor(1).bitcast(tile.F64)


@tile.kernel(grid=by_blocks)
def functions(p, x, y, z, *, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.exp() + a.tanh() * a.sigmoid()
    more = a.expm1() * abs(a).log1p() + a.softplus()
    p.write(z, [BM, BN])[i, j] = a.exp2() - abs(a).log() / (1 + abs(a).log2()) + more


@tile.kernel(grid=by_blocks)
def waves(p, x, y, z, *, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.sin() + a.cos() * a.erf()
    p.write(z, [BM, BN])[i, j] = a.silu() + a.gelu() - a.gelu_erf()


@tile.kernel(grid=by_blocks)
def powers(p, x, y, z, rests, *, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    p.write(z, [BM, BN])[i, j] = a**b + 2**b
    p.write(rests, [BM, BN])[i, j] = a % b + b % 0.1


@tile.kernel(grid=lambda x, BM, BN, **_: by_blocks(x, BM, BN))
def by_chance(p, x, *outs, BM=8, BN=32):
    """Rounded up or down by random bits."""
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j] * 100
    drawn = p.random(7, (i * 100 + j) * 1000, [BM, BN])
    for out, (_, dtype) in zip(outs, OUTS, strict=False):
        p.write(out, [BM, BN])[i, j] = a.to(dtype, random=drawn)


@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 4))
def rows(p, x, order, places, running, y, *, COLUMNS=128):
    """Sums, and what has the same bits in whatever order."""
    i = p.id(0)
    t = p.read(x, [4, COLUMNS], pad=-1.0)[i, 0]
    values, where = t.sort(1)
    p.write(order, [4, COLUMNS])[i, 0] = values
    p.write(places, [4, COLUMNS])[i, 0] = where
    p.write(running, [4, COLUMNS])[i, 0] = t.cummax(1) + t.min(1)
    p.write(y, [4])[i] = (abs(t) * 0.1).sum(1).T


@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 16))
def gathered(p, x, ids, y, *, COLUMNS=32):
    i = p.id(0)
    taken = p.read(x, [16, COLUMNS]).gather([p.read(ids, [16])[i].T, p.iota([1, COLUMNS], 1, tile.I32)])
    total = p.zeros([16, COLUMNS], tile.F64)
    for k in range(3):
        total = total * 0.5 + taken / (k + 1).value(tile.F64)
    p.write(y, [16, COLUMNS])[i, 0] = total


@tile.kernel(grid=lambda c, BM, BN, **_: by_blocks(c, BM, BN))
def matmul(p, a, b, bias, c, *, BM=32, BN=32, BK=16):
    j, i = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    total = p.zeros([BM, BN], tile.F64) + p.read(bias, [BN])[j]
    for k in range(A.blocks(1)):
        total += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = total


@tile.kernel(grid=lambda c, BM, BN, **_: by_blocks(c, BM, BN))
def widened(p, a, b, scale, residual, c, *, BM=64, BN=64, BK=64):
    """A product of BF16 in F32, and what is made of it in F64."""
    j, i = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    total = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        total += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = total * p.read(scale, [BN])[j] + p.read(residual, [BM, BN])[i, j]


@tile.kernel(grid=1)
def chained(p, a, b, c, d, *, N=32):
    """A product of a product, and one with a transposed and a computed operand."""
    A, B, C = (p.read(each, [N, N])[0, 0] for each in (a, b, c))
    p.write(d, [N, N])[0, 0] = (A @ B) @ (C.T * 2 + 1)


def of_products(arrays, result):
    """A product of the first two tensors, within the language's bound in F64, twice."""
    a, b = (np.abs(wide(each)) for each in arrays[:2])
    return 2 * (a.shape[-1] + 1) * 2.0**-53 * (a @ b + 1)


def hard(*shape: int) -> np.ndarray:
    """Random numbers of many sizes, of which the first are ends of ranges, zeros, infinities and NaN."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1.7e308, 1e39, 4.65, 4.64, 655.2, -0.005]
    rng = np.random.default_rng(shape)
    values = np.ldexp(rng.standard_normal(shape), rng.integers(-30, 30, shape))
    values.ravel()[: len(special)] = special
    return values


def huge(*shape: int) -> np.ndarray:
    """Numbers up to the largest ones, of which the first is next to a multiple of pi/2 as no other is."""
    rng = np.random.default_rng(shape)
    values = np.ldexp(rng.standard_normal(shape), rng.integers(10, 1020, shape))
    values.flat[:2] = [math.ldexp(6381956970095103, 797), 1.7976931348623157e308]
    return values


def indices(count: int, limit: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-1, limit + 1, count).astype(np.int32)


CASES = [
    Case(
        "add f64",
        add,
        lambda: [*(numbers(3001, kind="f64", seed=s) for s in (1, 2)), room(3001, kind="f64")],
    ),
    Case("transpose f64", transpose, lambda: [hard(70, 130), room(130, 70, kind="f64")]),
    Case(
        "doubles",
        doubles,
        lambda: [hard(10, 40), numbers(10, 40, seed=3), room(10, 40, kind="f64"), room(10, 40, kind="f64")],
    ),
    Case(
        "doubles, conversions",
        conversions,
        lambda: [hard(10, 40), *(room(10, 40, kind=kind) for kind, _ in [*OUTS, ("f64", tile.F64)])],
    ),
    Case(
        "doubles, functions",
        functions,
        lambda: [hard(10, 40), room(10, 40, kind="f64"), room(10, 40, kind="f64")],
    ),
    Case(
        "doubles, waves",
        waves,
        lambda: [np.concatenate([hard(10, 40), huge(10, 40)]), *(room(20, 40, kind="f64") for _ in range(2))],
    ),
    Case(
        "doubles, powers",
        powers,
        lambda: [
            np.concatenate([hard(10, 40), abs(hard(10, 40))]),
            np.concatenate([hard(20, 40)[::-1, ::-1][:10], numbers(10, 40, kind="f64") * 8]),
            *(room(20, 40, kind="f64") for _ in range(2)),
        ],
    ),
    Case(
        "doubles, by chance",
        by_chance,
        lambda: [hard(10, 40), *(room(10, 40, kind=kind) for kind, _ in OUTS[:5])],
    ),
    Case(
        "doubles, rows",
        rows,
        lambda: [
            numbers(10, 100, kind="f64"),
            room(10, 100, kind="f64"),
            room(10, 100, kind="i4"),
            room(10, 100, kind="f64"),
            room(10, kind="f64"),
        ],
        {},
        lambda arrays, result: (128 / 64 + 8) * 2.0**-53 * np.abs(wide(result)) * (result.ndim == 1),
    ),
    *(
        Case(
            f"matmul f64 {m} x {n} x {k}, {'F' if order == 'F' else 'C'}, {kind}",
            matmul,
            lambda m=m, n=n, k=k, order=order, kind=kind: [
                numbers(m, k, kind=kind, order=order),
                numbers(k, n, kind="f64", seed=1, order=order),
                numbers(n, kind="f64", seed=2) / 4,
                room(m, n, kind="f64"),
            ],
            {},
            of_products,
        )
        for m, n, k, order, kind in [
            (64, 64, 64, "C", "f64"),
            (33, 70, 45, "C", "f64"),
            (64, 32, 48, "F", "f64"),
            (40, 64, 32, "C", "f32"),
        ]
    ),
    *(
        Case(
            f"doubles made of a product of {block} x {block}",
            widened,
            lambda block=block: [
                numbers(128, 128, kind="bf16"),
                numbers(128, 128, kind="bf16", seed=1),
                np.ones(128),
                numbers(128, 128, kind="f64", seed=2),
                room(128, 128, kind="f64"),
            ],
            {"BM": block, "BN": block},
            of_product,
        )
        for block in (64, 128)
    ),
    Case(
        "doubles, products of products",
        chained,
        lambda: [*(numbers(32, 32, kind="f64", seed=s) for s in range(3)), room(32, 32, kind="f64")],
        {},
        lambda arrays, result: 1000 * 2.0**-53 * (abs(arrays[0]) @ abs(arrays[1])).max() * 32,
    ),
    Case("doubles, gathered", gathered, lambda: [hard(20, 30), indices(40, 20), room(40, 30, kind="f64")]),
]
