"""Results of a fixed set of programs, saved by a process with other vector units or threads.

``python levels.py FILE`` writes them; the tests compare the files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from agreement import laid_out, numbers
from products import Product

import gizml_tile as tile

SINGLE = np.dtype(np.float32)
BYTES = [("i1", "u1"), ("i1", "i1"), ("u1", "i1"), ("u1", "u1")]


def products() -> dict[str, np.ndarray]:
    """Deep products of F32, F16 and integers, staged and not, of few rows and many."""
    results = {}
    for number, (sizes, block, types) in enumerate(
        [
            ((45, 331, 71), (32, 32, 16), ("f32", "f32")),
            ((45, 331, 71), (8, 64, 128), ("f32", "f32")),
            ((300, 64, 40), (16, 8, 16), ("f32", "f32")),
            ((7, 300, 1100), (1, 512, 16), ("f32", "f32")),
            ((45, 70, 33), (16, 2, 8), ("f16", "f32")),
            ((45, 70, 33), (32, 32, 32), ("fp8", "f16")),
            *(((45, 70, 33), (32, 32, 32), types) for types in BYTES),
            *(((45, 1200, 71), (16, 2, 8), types) for types in BYTES),
        ]
    ):
        product = Product(sizes, block, types, "i4" if types in BYTES else "f32", ("C", "F", "C"))
        a, b, c = product.operands()
        c[...] = 0
        results[f"product {number}"] = product_result(product, a, b, c)
    return results


def product_result(product: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    grid, body = product.program(a, b, c)
    tile.run(grid, body)
    return c


def pairs() -> dict[str, np.ndarray]:
    """Products of BF16 and FP8, whose chains differ where the hardware multiplies pairs."""
    results = {}
    for types in (("bf16", "bf16"), ("fp8", "bf16")):
        # Of fewer columns than the instruction for pairs has lanes, too.
        for block in ((32, 32, 32), (1, 64, 64), (8, 1, 16), (8, 2, 16)):
            product = Product((45, 331, 71), block, types)
            results[f"pairs {types} {block}"] = product_result(product, *product.operands())
    return results


def rows() -> dict[str, np.ndarray]:
    """Row programs whose every operation is exactly rounded, sums included (of small integers)."""
    rng = np.random.default_rng(0)
    x = laid_out(rng.integers(-9, 9, (33, 300)).astype(np.float32), "inside")
    y, total, column = np.empty((33, 300), np.float16), np.empty((33, 1), SINGLE), np.empty((1, 300), SINGLE)

    def body(p):
        X = p.read(x, [64, 512]).at([0, 0])
        s = X.exp()
        p.write(y, [64, 512]).put(s / (abs(X).sum(1) + 1), [0, 0])
        p.write(total, [64, 1]).put(X.sum(1).sqrt(), [0, 0])
        p.write(column, [1, 512]).put((X * X).sum(0).rsqrt(), [0, 0])

    tile.run([1], body)
    return {"row": y, "total": total, "column": column}


def attention() -> dict[str, np.ndarray]:
    """Products in the group that computes their operands, with functions between them."""
    rng = np.random.default_rng(1)
    q, k, v = (numbers(rng, (50, 32), SINGLE) for _ in range(3))
    out = np.empty((50, 32), SINGLE)

    def body(p):
        i = p.id(0)
        Q, K, V = p.read(q, [16, 32]), p.read(k, [16, 32]), p.read(v, [16, 32])
        rows = Q.at([i, 0])

        def turn(j, carried):
            total, most = carried
            scores = rows.dot(K.at([j, 0]).transpose())
            following = most.maximum(scores.max(1))
            weights = (scores - following).exp()
            return [total * (most - following).exp() + weights.dot(V.at([j, 0])), following]

        total, _ = p.loop(0, K.blocks(0), [p.zeros([16, 32]), p.full([16, 1], -1e30)], turn)
        p.write(out, [16, 32]).put(total.tanh(), [i, 0])

    tile.run([4], body)
    return {"attention": out}


if __name__ == "__main__":
    np.savez(sys.argv[1], **products(), **pairs(), **rows(), **attention())
