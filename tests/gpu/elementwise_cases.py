"""Kernels whose elements have the same bits on every device."""

from __future__ import annotations

import numpy as np
from function_cases import CASES as FUNCTIONS
from gpu_cases import Case, by_blocks, hard, laid_out, numbers, room, within

import gizml_tile as tile


@tile.kernel(grid=lambda z, BLOCK: tile.cdiv(z.shape[0], BLOCK))
def add(p, x, y, z, *, BLOCK=1024):
    i = p.id(0)
    p.write(z, [BLOCK])[i] = p.read(x, [BLOCK])[i] + p.read(y, [BLOCK])[i]


@tile.kernel(grid=by_blocks)
def functions(p, x, y, z, *, BM=8, BN=64):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.exp() + a.tanh() * a.sigmoid() - abs(a).log() / (1 + abs(a).sqrt())
    p.write(z, [BM, BN])[i, j] = a.gelu() + a.gelu_erf() * a.exp2() + abs(a).rsqrt() + a.floor().relu()


@tile.kernel(grid=by_blocks)
def approximate(p, x, y, *, BM=8, BN=64):
    """Functions of the special-function units."""
    p.approx()
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    p.write(y, [BM, BN])[i, j] = a.exp() + a.tanh() * a.sigmoid() - (abs(a) + 1).log() + a.gelu() + a.exp2()


@tile.kernel(grid=by_blocks)
def bias_gelu(p, x, w, b, y, *, BM=16, BN=128):
    j, i = p.id(0), p.id(1)
    X, W, B = p.read(x, [BM, BN]), p.read(w, [BN]), p.read(b, [BN])
    p.write(y, [BM, BN])[i, j] = (X[i, j] * W[j] + B[j]).gelu()


@tile.kernel(grid=by_blocks)
def integers(p, x, y, s, t, *, BM=16, BN=32):
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j], p.read(y, [BM, BN])[i, j]
    mixed = ((a << 13) ^ a) + (b >> 3) * -1640531527
    p.write(s, [BM, BN])[i, j] = (mixed // 7 + a % 13) & ~b | (a - b)
    long = a.to(tile.I64) * b - (b.to(tile.I64) << 33)
    p.write(t, [BM, BN])[i, j] = max(min(long // 1001 % 97, a), -b)


@tile.kernel(grid=by_blocks)
def unsigned(p, x, y, s, t, *, BM=16, BN=32):
    """Integers without a sign: quotients, comparisons, shifts of all bits, products of 64 bits."""
    j, i = p.id(0), p.id(1)
    a, b = p.read(x, [BM, BN])[i, j].to(tile.U32), p.read(y, [BM, BN])[i, j].to(tile.U32)
    mixed = (a * 2654435761 ^ a >> 15) // (b % 1000) + a % 13 - b // 7
    chosen = max(mixed, b) if a < b else min(mixed, ~a) << (b & 31)
    p.write(s, [BM, BN])[i, j] = chosen + chosen.to(tile.F32).to(tile.U32) + chosen.max(1)
    wide = chosen.to(tile.U64) * b.to(tile.U64) - a.to(tile.U64) * 2**40
    rounded = wide.to(tile.F32).to(tile.U64)
    p.write(t, [BM, BN])[i, j] = wide // (a.to(tile.U64) + 1) + (wide >> 33) % 641 + rounded


@tile.kernel(grid=lambda i8, **named: by_blocks(i8, **named))
def conversions(p, x, f16, bf16, fp8, e5m2, i8, u8, i64, u16, u32, u64, *, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j]
    for out, dtype in [(f16, tile.F16), (bf16, tile.BF16), (fp8, tile.FP8), (e5m2, tile.E5M2)]:
        p.write(out, [BM, BN])[i, j] = a.to(dtype)
    outs = [(i8, tile.I8), (u8, tile.U8), (i64, tile.I64), (u16, tile.U16), (u32, tile.U32), (u64, tile.U64)]
    for out, dtype in outs:
        p.write(out, [BM, BN])[i, j] = (a * 100).to(dtype)


@tile.kernel(grid=by_blocks)
def masks(p, x, seen, y, marks, *, BM=16, BN=32):
    j, i = p.id(0), p.id(1)
    a, m = p.read(x, [BM, BN])[i, j], p.read(seen, [BM, BN], pad=True)[i, j]
    inside = -1 < a <= 1 and m
    column = p.iota([1, BN], 1, tile.I32) + j * BN
    p.write(y, [BM, BN])[i, j] = a * a if inside or column % 3 == 0 else -a
    p.write(marks, [BM, BN])[i, j] = not inside and m.max(1)


@tile.kernel(grid=by_blocks)
def branches(p, x, y, *, BM=16, BN=32):
    j, i = p.id(0), p.id(1)
    X, Y = p.read(x, [BM, BN]), p.write(y, [BM, BN])
    a = X[i, j]
    best = a.max(1)
    if i < 1:
        a = a * 2 + best
        if j == 0:
            best = best - 1
    elif j % 2 == 1:
        best = a.min(1)
    else:
        Y[i, j] = a
        a = Y[i, j] + 1 if False else a.T.T + 1
    Y[i, j] = a - best


@tile.kernel(grid=lambda y, BM, BN: tile.cdiv(y.shape[0], BM))
def in_place(p, y, *, BM=16, BN=32):
    """Each turn reads what the one before wrote, a row further down, and its own block."""
    i = p.id(0)
    Y, Z = p.read(y, [BM, BN]), p.write(y, [BM, BN])
    for k in range(1, Y.blocks(1)):
        Z[i, k] = Y[i, k] + Y[i, k - 1] * 0.5
        Z.put_window(Y.window([i * BM, k * BN - 3]) + 1, [i * BM, k * BN - 3])


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[3], BN), y.shape[1], y.shape[0]))
def rotated(p, x, angles, y, *, BM=16, BN=32):
    """Pairs of halves turned by angles: 4-D views of any strides, and windows into them."""
    half, head, batch = p.id(0), p.id(1), p.id(2)
    X, A, Y = p.read(x, [BM, BN]), p.read(angles, [BM, BN]), p.write(y, [BM, BN])
    for i in range(X.blocks(2)):
        near, far = X[batch, head, i, 0], X.window([batch, head, i * BM, BN])
        angle = A[i, 0]
        if half == 0:
            Y[batch, head, i, 0] = near * angle - far * (1 - angle)
        else:
            Y[batch, head, i, 1] = far * angle + near * (1 - angle)


@tile.kernel(grid=by_blocks)
def transpose(p, x, y, *, BM=64, BN=64):
    j, i = p.id(0), p.id(1)
    p.write(y, [BM, BN])[i, j] = p.read(x, [BN, BM])[j, i].T


@tile.kernel(grid=lambda y, BLOCK: tile.cdiv(y.shape[0], BLOCK))
def windows(p, x, y, *, BLOCK=256):
    """The largest of five neighbours, which lie past both ends too."""
    i = p.id(0)
    X = p.read(x, [BLOCK], pad=float("-inf"))
    best = X.window([i * BLOCK - 2])
    for k in range(-1, 3):
        best = max(best, X.window([i * BLOCK + k]))
    p.write(y, [BLOCK])[i] = best


@tile.kernel(grid=by_blocks)
def scalars(p, x, y, scale, count, *, BM=8, BN=32):
    j, i = p.id(0), p.id(1)
    a = p.read(x, [BM, BN])[i, j] * scale
    for k in range(count):
        a = a * 0.5 + k
    p.write(y, [BM, BN])[i, j] = a + count


def marks(*shape: int) -> np.ndarray:
    return numbers(*shape, seed=9) > 0


STRIDES = ["C", "F", "inside", "steps", "back"]
CASES = [
    *(
        Case(
            f"add {kind}",
            add,
            lambda kind=kind: [*(numbers(3001, kind=kind, seed=s) for s in (1, 2)), room(3001, kind=kind)],
        )
        for kind in ("f32", "bf16", "f16", "fp8", "e5m2", "i4", "i8")
    ),
    Case("add, whole blocks", add, lambda: [numbers(4096), numbers(4096, seed=1), room(4096)]),
    Case("functions", functions, lambda: [hard(19, 100), room(19, 100), room(19, 100)]),
    Case(
        "bias gelu", bias_gelu, lambda: [numbers(33, 300), numbers(300), numbers(300, seed=1), room(33, 300)]
    ),
    Case(
        "bias gelu bf16",
        bias_gelu,
        lambda: [
            *(numbers(*shape, kind="bf16") for shape in [(32, 256), (256,), (256,)]),
            room(32, 256, kind="bf16"),
        ],
    ),
    *(
        Case(
            f"integers {kind}",
            integers,
            lambda kind=kind: [
                *(numbers(21, 50, kind=kind, seed=s) for s in (1, 2)),
                room(21, 50, kind="i4"),
                room(21, 50, kind="i8"),
            ],
        )
        for kind in ("i4", "i1", "u1", "i2")
    ),
    *(
        Case(
            f"unsigned {kind}",
            unsigned,
            lambda kind=kind: [
                *(numbers(21, 50, kind=kind, seed=s) for s in (1, 2)),
                room(21, 50, kind="u4"),
                room(21, 50, kind="u8"),
            ],
        )
        for kind in ("u4", "u2", "i4")
    ),
    Case(
        "conversions",
        conversions,
        lambda: [
            hard(10, 40),
            *(room(10, 40, kind=kind) for kind in ("f16", "bf16", "fp8", "e5m2")),
            *(room(10, 40, kind=kind) for kind in ("i1", "u1", "i8", "u2", "u4", "u8")),
        ],
    ),
    Case("masks", masks, lambda: [numbers(20, 70), marks(20, 70), room(20, 70), np.zeros((20, 70), bool)]),
    Case("branches", branches, lambda: [numbers(40, 90), room(40, 90)]),
    Case("in place", in_place, lambda: [numbers(40, 130)]),
    *(
        Case(
            f"4-D views {order}",
            rotated,
            lambda order=order: [
                numbers(2, 3, 30, 64, order=order),
                numbers(30, 32, order=order),
                room(2, 3, 30, 64, order=order),
            ],
        )
        for order in STRIDES
    ),
    Case(
        "broadcast and turned views",
        rotated,
        lambda: [
            np.broadcast_to(numbers(1, 3, 16, 64), (2, 3, 16, 64)),
            np.broadcast_to(numbers(32), (16, 32)),
            room(64, 16, 3, 2).transpose(3, 2, 1, 0),
        ],
    ),
    *(
        Case(
            f"transpose {kind} {rows} x {columns}",
            transpose,
            lambda kind=kind, rows=rows, columns=columns: [
                numbers(rows, columns, kind=kind),
                room(columns, rows, kind=kind),
            ],
        )
        for kind, rows, columns in [("f32", 130, 77), ("bf16", 128, 192), ("u1", 128, 64), ("i8", 70, 70)]
    ),
    *(
        Case(
            f"transpose of {order}",
            transpose,
            lambda order=order: [laid_out(numbers(70, 90), order), room(90, 70, order=order)],
        )
        for order in STRIDES[1:]
    ),
    Case("windows", windows, lambda: [numbers(1000), room(1000)]),
    # The unit's tanh is within 2^-10.987 of the true one, and its other functions are closer.
    Case("approximate", approximate, lambda: [numbers(19, 100), room(19, 100)], {}, within(2.0**-9)),
    Case("scalars", scalars, lambda: [numbers(20, 50), room(20, 50), 1.7, 3]),
    *FUNCTIONS,
]
