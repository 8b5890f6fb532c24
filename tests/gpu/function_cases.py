"""Functions of numbers: the same bits on every device, but for what approximates."""

from __future__ import annotations

import numpy as np
from gpu_cases import Case, by_blocks, hard, numbers, room, within

import gizml_tile as tile


@tile.kernel(grid=by_blocks)
def logarithms(p, x, y, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.log2() - a.log1p() * a.expm1() + a.silu() - a.softplus() * a.erf()


@tile.kernel(grid=by_blocks)
def waves(p, x, y, *, BM=8, BN=64):
    """Sines of small arguments, and of some that are large."""
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.sin() * (a * a * a * 1e5).cos() + a.cos()


@tile.kernel(grid=by_blocks)
def powers(p, x, y, z, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    p.write(z, [BM, BN])[i, j] = abs(a) ** b + a ** round(b) + 2.5**b + a % b + a.rem(b * 1e-6)


@tile.kernel(grid=by_blocks)
def roundings(p, x, y, z, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    whole = a.ceil() + a.trunc() * b.sign() + round(a) * a.clamp(-3, 9).copysign(b)
    p.write(z, [BM, BN])[i, j] = whole.fma(a, b) if a.isfinite() and not b.isnan() else a.reciprocal()


@tile.kernel(grid=by_blocks)
def bits(p, x, y, z, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    n = a.bitcast(tile.I32)
    short = a.to(tile.BF16).bitcast(tile.I16) + a.to(tile.F16).bitcast(tile.I16).to(tile.I8).bitcast(tile.U8)
    count = (
        n.popcount()
        - n.clz()
        + n.to(tile.I64).clz().to(tile.I32)
        + n.bitcast(tile.U32).to(tile.U64).popcount().to(tile.I64).to(tile.I32)
        + (n & 7).bitcast(tile.F32).clamp(0).to(tile.I32)
    )
    p.write(z, [BM, BN])[i, j] = n.mulhi(b) ^ n.mulhi(b, unsigned=True) + count * short


@tile.kernel(grid=by_blocks)
def approximate(p, x, y, *, BM=8, BN=64):
    """More functions of the special-function units."""
    p.approx()
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    size = abs(a) + 1
    p.write(y, [BM, BN])[i, j] = a.sin() + a.cos() - size.log2() + a.silu() + size.reciprocal() + size**0.3


@tile.kernel(grid=by_blocks)
def dropout(p, x, y, seed, *, BM=8, BN=64):
    """What is kept depends on the element alone, so blocks of any size keep the same."""
    j, i = p.id(0), p.id(1)
    quarters = tile.cdiv(x.shape[1], 4)
    row, column = p.iota([BM, 1], 0, tile.I64) + i * BM, p.iota([1, BN // 4], 1, tile.I64) + j * (BN // 4)
    kept = p.random(seed, row * quarters + column, [BM, BN], "uniform") >= 0.25
    p.write(y, [BM, BN])[i, j] = p.read(x, [BM, BN])[i, j] / 0.75 if kept else 0


@tile.kernel(grid=by_blocks)
def noise(p, x, y, seed, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    drawn = p.random(seed, (i * p.count(0) + j) * (BM * BN // 4), [BM, BN], "normal")
    p.write(y, [BM, BN])[i, j] = p.read(x, [BM, BN])[i, j] + drawn.T.T


@tile.kernel(grid=lambda y, **named: by_blocks(y, **named))
def by_chance(p, x, y, z, seed, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    drawn = p.random(seed, (i * p.count(0) + j) * (BM * BN // 4), [BM, BN])
    p.write(y, [BM, BN])[i, j] = a.to(tile.BF16, random=drawn)
    short = a.to(tile.F16, random=drawn >> 16).to(tile.F32)
    p.write(z, [BM, BN])[i, j] = short + (a * 1e-3).to(tile.FP8, random=drawn).to(tile.F32)


@tile.kernel(grid=lambda out, BM, **_: tile.cdiv(out.shape[0], BM))
def attention_with_dropout(p, q, k, v, out, seed, *, D=64, BM=64, BN=64):
    """Random numbers beside products, whose layouts are the instructions'."""
    i = p.id(0)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    queries = Q[i, 0]
    top, total, acc = p.full([BM, 1], -1e30), p.zeros([BM, 1]), p.zeros([BM, D])
    for j in range(K.blocks(0)):
        scores = queries @ K[j, 0].T * D**-0.5
        higher = max(top, scores.max(1))
        weights, shrink = (scores - higher).exp(), (top - higher).exp()
        total = total * shrink + weights.sum(1)
        kept = p.random(seed, (i * K.blocks(0) + j) * (BM * BN // 4), [BM, BN], "uniform") < 0.75
        acc = acc * shrink + (weights if kept else 0).to(tile.BF16) @ V[j, 0]
        top = higher
    p.write(out, [BM, D])[i, 0] = acc / (total * 0.75)


def numbers_for_bits(*shape: int) -> np.ndarray:
    """Hard numbers without NaN, whose bits are left open."""
    values = hard(*shape)
    return np.where(np.isnan(values), np.float32(3), values)


CASES = [
    Case("logarithms", logarithms, lambda: [hard(19, 100), room(19, 100)]),
    Case("waves", waves, lambda: [hard(19, 100), room(19, 100)]),
    Case("powers", powers, lambda: [hard(19, 100), hard(19, 100)[::-1], room(19, 100)]),
    Case(
        "powers of bf16",
        powers,
        lambda: [*(numbers(9, 70, kind="bf16", seed=s) for s in (1, 2)), room(9, 70)],
    ),
    Case("roundings", roundings, lambda: [hard(19, 100), hard(19, 100)[::-1], room(19, 100)]),
    Case(
        "bits",
        bits,
        lambda: [numbers_for_bits(19, 100), numbers(19, 100, kind="i4") * 2000003, room(19, 100, kind="i4")],
    ),
    Case("by chance", by_chance, lambda: [hard(19, 100), room(19, 100, kind="bf16"), room(19, 100), 5]),
    Case("dropout", dropout, lambda: [numbers(19, 100), room(19, 100), 2**35 + 1]),
    Case("dropout bf16", dropout, lambda: [numbers(19, 128, kind="bf16"), room(19, 128, kind="bf16"), 7]),
    Case("noise by columns", noise, lambda: [numbers(19, 100), room(19, 100, order="F"), 7]),
    Case(
        "attention with dropout",
        attention_with_dropout,
        lambda: [*(numbers(128, 64, kind="bf16", seed=s) for s in (1, 2, 3)), room(128, 64), 11],
        {},
        within(2.0**-9),
    ),
    Case("more approximate", approximate, lambda: [numbers(19, 100), room(19, 100)], {}, within(2.0**-16)),
]
