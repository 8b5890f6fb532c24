"""Triton's kernels of what people bring from elsewhere, in their usual structure, to choose from by name."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def lookup_kernel(table, ids, y, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(1) * BR + tl.arange(0, BR)
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    found = tl.load(table + tl.load(ids + rows)[:, None] * N + columns[None, :])
    tl.store(y + rows[:, None].to(tl.int64) * N + columns[None, :], found)


@triton.jit
def permuted_kernel(x, order, y, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(1) * BR + tl.arange(0, BR)
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    taken = tl.load(x + rows[:, None].to(tl.int64) * N + columns[None, :])
    tl.store(y + tl.load(order + rows)[:, None] * N + columns[None, :], taken)


@triton.jit
def gradient_kernel(g, ids, table, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(1) * BR + tl.arange(0, BR)
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    taken = tl.load(g + rows[:, None].to(tl.int64) * N + columns[None, :])
    tl.atomic_add(table + tl.load(ids + rows)[:, None] * N + columns[None, :], taken, sem="relaxed")


@triton.jit
def segmented_kernel(x, starts, y, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    i = tl.program_id(1)
    stop = tl.load(starts + i + 1)
    total = tl.zeros((BR, BC), tl.float32)
    for first in range(tl.load(starts + i), stop, BR):
        rows = first + tl.arange(0, BR)
        total += tl.load(
            x + rows[:, None].to(tl.int64) * N + columns[None, :], mask=rows[:, None] < stop, other=0
        )
    tl.store(y + i * N + columns, tl.sum(total, 0))


@triton.jit
def paged_kernel(
    q, keys, values, table, lengths, out, pages, heads,
    PAGE: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + batch)
    group, depth, place = tl.arange(0, GROUP), tl.arange(0, D), tl.arange(0, PAGE)
    own = (batch * heads + head) * GROUP * D + group[:, None] * D + depth[None, :]
    query = tl.load(q + own)
    acc = tl.zeros((GROUP, D), tl.float32)
    total, high = tl.zeros((GROUP,), tl.float32), tl.full((GROUP,), -1e30, tl.float32)
    for block in range(tl.cdiv(length, PAGE)):
        page = tl.load(table + batch * pages + block).to(tl.int64)
        block_at = (page * heads + head) * PAGE * D
        k = tl.load(keys + block_at + depth[:, None] + place[None, :] * D)
        v = tl.load(values + block_at + place[:, None] * D + depth[None, :])
        scores = tl.dot(query, k) * (D**-0.5 * 1.4426950408889634)
        scores = tl.where(block * PAGE + place[None, :] < length, scores, -1e30)
        higher = tl.maximum(high, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(high - higher)
        total = total * shrink + tl.sum(weights, 1)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        high = higher
    tl.store(out + own, (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def gating_kernel(x, experts, weights, E: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    """The largest is taken out K times; a number's place rides in the lower half of a 64-bit key."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns, rank = tl.arange(0, E), tl.arange(0, K)
    rest = tl.load(x + rows[:, None] * E + columns[None, :])
    best, place = tl.zeros((ROWS, K), tl.float32), tl.zeros((ROWS, K), tl.int32)
    for k in tl.static_range(K):
        top, at = tl.max(rest, 1, return_indices=True)
        best = tl.where(rank[None, :] == k, top[:, None], best)
        place = tl.where(rank[None, :] == k, at[:, None], place)
        rest = tl.where(columns[None, :] == at[:, None], float("-inf"), rest)
    e = tl.exp(best - tl.max(best, 1)[:, None])
    at = rows[:, None] * K + rank[None, :]
    tl.store(experts + at, place)
    tl.store(weights + at, e / tl.sum(e, 1)[:, None])


@triton.jit
def cross_entropy_kernel(logits, labels, loss, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    high, total = float("-inf"), 0.0
    for first in range(0, N, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        block = tl.load(logits + i * N + columns, mask=columns < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(high, tl.max(block, 0))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(block - higher), 0)
        high = higher
    chosen = tl.load(logits + i * N + tl.load(labels + i)).to(tl.float32)
    tl.store(loss + i, high + tl.log(total) - chosen)


@triton.jit
def nine_points_kernel(x, w, y, M, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(1) * BR + tl.arange(0, BR)[:, None]
    columns = tl.program_id(0) * BC + tl.arange(0, BC)[None, :]
    total = tl.zeros((BR, BC), tl.float32)
    for row in tl.static_range(3):
        for column in tl.static_range(3):
            r, c = rows + row - 1, columns + column - 1
            inside = (r >= 0) & (r < M) & (c >= 0) & (c < N)
            total += tl.load(x + r * N + c, mask=inside, other=0.0) * tl.load(w + row * 3 + column)
    tl.store(y + rows * N + columns, total.to(y.dtype.element_ty))


@triton.jit
def causal_convolution_kernel(x, w, y, M, N: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    rows = tl.program_id(1) * BR + tl.arange(0, BR)[:, None]
    columns = tl.program_id(0) * BC + tl.arange(0, BC)[None, :]
    total = tl.zeros((BR, BC), tl.float32)
    for back in tl.static_range(4):
        taken = tl.load(x + (rows - back) * N + columns, mask=rows >= back, other=0.0)
        total += taken * tl.load(w + back * N + columns)
    tl.store(y + rows * N + columns, total.to(y.dtype.element_ty))


@triton.jit
def dropout_kernel(x, seed, y, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    """Four numbers of each counter, for four quarters of a block."""
    first = tl.program_id(0) * BLOCK * 4 + tl.arange(0, BLOCK)
    numbers = tl.rand4x(seed, first)
    for quarter in tl.static_range(4):
        at = first + quarter * BLOCK
        t = tl.load(x + at).to(tl.float32)
        kept = numbers[quarter] >= SHARE
        tl.store(y + at, tl.where(kept, t / (1 - SHARE), 0.0).to(y.dtype.element_ty))


@triton.jit
def rotary_kernel(x, cos, sin, y, S, D: tl.constexpr, BM: tl.constexpr):
    rows, half = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D // 2)
    angle = rows[:, None] * (D // 2) + half[None, :]
    c, s = tl.load(cos + angle), tl.load(sin + angle)
    at = (tl.program_id(1) * S + rows[:, None]) * D + half[None, :]
    a, b = tl.load(x + at).to(tl.float32), tl.load(x + at + D // 2).to(tl.float32)
    tl.store(y + at, (a * c - b * s).to(y.dtype.element_ty))
    tl.store(y + at + D // 2, (a * s + b * c).to(y.dtype.element_ty))


@triton.jit
def running_sum_kernel(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def in_order_kernel(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def follow(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def recurrence_kernel(a, b, h, times, N, T: tl.constexpr, C: tl.constexpr):
    """Blocks of times one after the other: a scan inside, and the state before it."""
    columns, steps = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, T)
    state = tl.zeros((C,), tl.float32)
    for first in range(0, times, T):
        at = (first + steps[:, None]).to(tl.int64) * N + columns[None, :]
        decay, inner = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, follow)
        whole = decay * state[None, :] + inner
        tl.store(h + at, whole)
        state = tl.sum(tl.where(steps[:, None] == T - 1, whole, 0.0), 0)


@triton.jit
def turns_kernel(a, b, h, times, N, T: tl.constexpr, C: tl.constexpr):
    """The same a time after the other, as threads would."""
    columns = tl.program_id(0) * C + tl.arange(0, C)
    state = tl.zeros((C,), tl.float32)
    for first in range(0, times, T):
        for step in tl.static_range(T):
            at = (first + step).to(tl.int64) * N + columns
            state = tl.load(a + at) * state + tl.load(b + at)
            tl.store(h + at, state)


@triton.jit
def histogram_kernel(x, counts, BINS: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    total = tl.zeros((BINS,), tl.int32)
    for k in range(COUNT):
        at = (tl.program_id(0) * COUNT + k) * BLOCK + tl.arange(0, BLOCK)
        total += tl.histogram(tl.load(x + at).to(tl.int32), BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), total)


@triton.jit
def quantised_kernel(
    a, b, row_scales, column_scales, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = number // (GROUP * across)
    height = min(down - group * GROUP, GROUP)
    i = group * GROUP + (number % (GROUP * across)) % height
    j = (number % (GROUP * across)) // height
    rows, columns, depth = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_at = a + rows[:, None] * K + depth[None, :]
    b_at = b + depth[:, None] + columns[None, :] * K
    acc = tl.zeros((BM, BN), tl.int32)
    for _ in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc, out_dtype=tl.int32)
        a_at += BK
        b_at += BK
    scaled = (
        acc.to(tl.float32) * tl.load(row_scales + rows)[:, None] * tl.load(column_scales + columns)[None, :]
    )
    tl.store(c + rows[:, None] * N + columns[None, :], scaled.to(c.dtype.element_ty))


def by_blocks(kernel, rows, columns, *tensors, sizes, before=lambda: None):
    """A grid of blocks of so many rows and columns."""

    def with_sizes(br, bc, warps):
        def call():
            before()
            kernel[(columns // bc, triton.cdiv(rows, br))](*tensors, N=columns, BR=br, BC=bc, num_warps=warps)

        return call

    return {f"{br}x{bc}, {warps} warps": with_sizes(br, bc, warps) for br, bc, warps in sizes}


def in_line(kernel, grid, *tensors, options, before=lambda: None):
    """A grid that a function of the constants gives, by constants and warps."""

    def with_constants(constants):
        def call():
            before()
            kernel[grid(**constants)](*tensors, **constants)

        return call

    return {str(each): with_constants(each) for each in options}
