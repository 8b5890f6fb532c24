"""The rows of kernels that people bring from elsewhere, on the CPU: the GPU's kernels in other blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import gpu_port_kernels as ours
import numpy as np
from timing import Case
from work import UNIT, aligned, empty, random, torch

Calls = Mapping[str, Callable[[], object]]


def integers(high: int, *shape: int, dtype: type = np.int64, low: int = 0) -> np.ndarray:
    return aligned(np.random.default_rng([high, *shape]).integers(low, high, shape).astype(dtype))


def tensors(*arrays: np.ndarray) -> list:
    return [torch.from_numpy(each) for each in arrays]


def case(
    name: str,
    work: float,
    call: Callable[[], object],
    peers: Calls,
    result: np.ndarray,
    truth: Callable[[], np.ndarray],
    allowed: float = 0,
    unit: str = "GB/s",
) -> Case:
    """A row that moves so many bytes, right within so much of 1 and of the true values' sizes."""

    def error() -> tuple[float, float]:
        call()
        right = truth().astype(np.float64)
        return float((abs(result.astype(np.float64) - right) / (1 + abs(right))).max()), allowed

    return Case(name, 1e-9 * work, unit, call, peers, error)


def lookups(n: int) -> Iterator[Case]:
    """Rows by ids, rows to other places, and rows added to those of a table."""
    width = 1024
    table, x, y = random(n, width), random(n, width, seed=1), empty(n, width)
    ids, order = integers(n, n), np.random.default_rng(n).permutation(n)
    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: np.take(table, ids, 0, out=y, mode="clip")}
    if torch:
        tt, tx, ty, ti, to = tensors(table, x, y, ids, order)
        peers["PyTorch"] = lambda: torch.index_select(tt, 0, ti, out=ty)
    constants = {"BR": 4, "BC": width}
    yield case(
        f"rows of an embedding, f32 {n} of {width}",
        8 * x.size,
        lambda: ours.lookup(table, ids, y, **constants),
        peers,
        y,
        lambda: table[ids],
    )

    def to_places() -> None:
        y[order] = x

    def moved() -> np.ndarray:
        places = np.empty_like(x)
        places[order] = x
        return places

    peers = {"NumPy": to_places}
    if torch:
        peers["PyTorch"] = lambda: ty.index_copy_(0, to, tx)
    yield case(
        f"rows to other places, f32 {n} of {width}",
        8 * x.size,
        lambda: ours.permuted(x, order, y, **constants),
        peers,
        y,
        moved,
    )
    # Small integers, so that sums are the same in any order; each call adds to what is there.
    g, into, few = aligned(np.round(x)), empty(n // 4, width), integers(n // 4, n)

    def added() -> np.ndarray:
        sums = np.zeros(into.shape)
        np.add.at(sums, few, g)
        return sums

    peers = {"NumPy": lambda: np.add.at(into, few, g)}
    if torch:
        tg, t_into, t_few = tensors(g, into, few)
        peers["PyTorch"] = lambda: t_into.index_add_(0, t_few, tg)
    yield case(
        f"an embedding's gradient, f32 {n} of {width}",
        12 * x.size,
        lambda: ours.gradient(g, few, into, **constants),
        peers,
        into,
        added,
    )


def segments(n: int) -> Iterator[Case]:
    width, count = 256, n // 32
    inner = np.sort(np.random.default_rng(n).choice(np.arange(1, n), count - 1, replace=False))
    starts = aligned(np.concatenate([[0], inner, [n]]).astype(np.int64))
    x, y = random(n, width), empty(count, width)
    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: np.add.reduceat(x, starts[:-1], 0, out=y)}
    if torch:
        (tx,) = tensors(x)
        (lengths,) = tensors(np.diff(starts))
        peers["PyTorch"] = lambda: torch.segment_reduce(tx, "sum", lengths=lengths, axis=0)
    yield case(
        f"sums of {count} segments, f32 {n} x {width}",
        4 * x.size,
        lambda: ours.segmented_sum(x, starts, y, BR=16, BC=width),
        peers,
        y,
        lambda: np.add.reduceat(x.astype(np.float64), starts[:-1], 0),
        256 * UNIT,
    )


def choices(n: int) -> Iterator[Case]:
    """The experts of each token; NumPy's are in no order."""
    count, k = 64, 8
    x, weights, experts = random(n, count), empty(n, k), integers(1, n, k, dtype=np.int32)

    def by_numpy() -> np.ndarray:
        best = np.take_along_axis(x, np.argpartition(x, count - k, 1)[:, -k:], 1)
        e = np.exp(best - best.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def truth() -> np.ndarray:
        e = np.exp(-np.sort(-x.astype(np.float64), 1)[:, :k])
        return e / e.sum(1, keepdims=True)

    peers: dict[str, Callable[[], object]] = {"NumPy": by_numpy}
    if torch:
        (tx,) = tensors(x)
        peers["PyTorch"] = lambda: torch.softmax(torch.topk(tx, k, 1).values, 1)
    yield case(
        f"gating, {k} of {count} experts, f32 {n}",
        4 * n * (count + 2 * k),
        lambda: ours.gating(x, experts, weights, EXPERTS=count, K=k, ROWS=32),
        peers,
        weights,
        truth,
        16 * UNIT,
    )


def losses(n: int) -> Iterator[Case]:
    words = 32768
    x, labels, loss = random(n, words), integers(words, n), empty(n)

    def in_type(values: np.ndarray) -> np.ndarray:
        top = values.max(1)
        return top + np.log(np.exp(values - top[:, None]).sum(1)) - values[np.arange(n), labels]

    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: in_type(x)}
    if torch:
        tx, tl = tensors(x, labels)
        peers["PyTorch"] = lambda: torch.nn.functional.cross_entropy(tx, tl, reduction="none")
    yield case(
        f"cross-entropy, f32 {n} of {words}",
        4 * x.size,
        lambda: ours.cross_entropy(x, labels, loss, BLOCK=4096),
        peers,
        loss,
        lambda: in_type(x.astype(np.float64)),
        16 * UNIT,
    )


def rows(n: int) -> Iterator[Case]:
    """Running sums and order of rows."""
    width = 1024
    x, y = random(n, width), empty(n, width)
    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: np.cumsum(x, 1, out=y)}
    if torch:
        tx, ty = tensors(x, y)
        peers["PyTorch"] = lambda: torch.cumsum(tx, 1, out=ty)
    yield case(
        f"running sums, f32 {n} x {width}",
        8 * x.size,
        lambda: ours.running_sum(x, y, COLUMNS=width),
        peers,
        y,
        lambda: np.cumsum(x.astype(np.float64), 1),
        width * UNIT,
    )
    peers = {"NumPy": lambda: np.sort(x, 1)}
    if torch:
        peers["PyTorch"] = lambda: torch.sort(tx, 1)
    yield case(
        f"order, f32 {n} x {width}",
        8 * x.size,
        lambda: ours.in_order(x, y, COLUMNS=width),
        peers,
        y,
        lambda: np.sort(x, 1),
    )


def counts(n: int) -> Iterator[Case]:
    """Counts are added to what is there: each call's share is the whole."""
    x, total = integers(256, n, dtype=np.uint8), integers(1, 256, dtype=np.int32)
    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: np.bincount(x, minlength=256)}
    if torch:
        (tx,) = tensors(x)
        peers["PyTorch"] = lambda: torch.bincount(tx, minlength=256)
    yield case(
        f"histogram of {n} bytes",
        n,
        lambda: ours.histogram(x, total, BLOCK=4096, COUNT=64),
        peers,
        total,
        lambda: np.bincount(x, minlength=256),
    )


def elements(n: int) -> Iterator[Case]:
    """Rotary embedding, and dropout, which draws what to keep: of that, what is left has a new size."""
    heads, depth, share = 8, 128, 0.1
    length = n // heads
    x, y = random(heads, length, depth), empty(heads, length, depth)
    angle = np.arange(length)[:, None] * 10000.0 ** -(np.arange(depth // 2) / (depth // 2))
    cos, sin = (aligned(f(angle).astype(np.float32)) for f in (np.cos, np.sin))

    def turned(x: np.ndarray) -> np.ndarray:
        a, b = x[..., : depth // 2], x[..., depth // 2 :]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: turned(x)}
    if torch:
        tx, tc, ts = tensors(x, cos, sin)

        def by_torch() -> object:
            a, b = tx.chunk(2, -1)
            return torch.cat([a * tc - b * ts, a * ts + b * tc], -1)

        peers["PyTorch"] = by_torch
    yield case(
        f"rotary embedding, f32 {heads} x {length} x {depth}",
        8 * x.size,
        lambda: ours.rotary(x, cos, sin, y, D=depth),
        peers,
        y,
        lambda: turned(x.astype(np.float64)),
        4 * UNIT,
    )
    flat, out, draw = x.reshape(-1), y.reshape(-1), np.random.default_rng(7)

    def by_numpy() -> np.ndarray:
        return np.where(draw.random(flat.size, np.float32) >= share, flat * np.float32(1 / (1 - share)), 0)

    def truth() -> np.ndarray:
        assert abs((out != 0).mean() - (1 - share)) < 0.01
        return np.where(out != 0, flat / (1 - share), 0)

    peers = {"NumPy": by_numpy}
    if torch:
        (t_flat,) = tensors(flat)
        peers["PyTorch"] = lambda: torch.nn.functional.dropout(t_flat, share)
    yield case(
        f"dropout, f32 {flat.size}",
        8 * flat.size,
        lambda: ours.dropout(flat, 7, out, SHARE=share, BLOCK=4096),
        peers,
        out,
        truth,
        4 * UNIT,
    )


def recurrences(n: int) -> Iterator[Case]:
    channels = 1024
    a, b, h = aligned(abs(random(n, channels)) % 1), random(n, channels, seed=1), empty(n, channels)

    def in_type(a: np.ndarray, b: np.ndarray, h: np.ndarray) -> np.ndarray:
        h[0] = b[0]
        for t in range(1, n):
            np.multiply(a[t], h[t - 1], out=h[t])
            np.add(h[t], b[t], out=h[t])
        return h

    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: in_type(a, b, h)}
    if torch:
        ta, tb, th = tensors(a, b, h)

        def by_torch() -> None:
            th[0] = tb[0]
            for t in range(1, n):
                torch.addcmul(tb[t], ta[t], th[t - 1], out=th[t])

        peers["PyTorch"] = by_torch
    yield case(
        f"a linear recurrence, f32 {n} x {channels}",
        12 * a.size,
        lambda: ours.recurrence(a, b, h, T=16, C=64),
        peers,
        h,
        lambda: in_type(a.astype(np.float64), b.astype(np.float64), np.empty(b.shape)),
        256 * UNIT,
    )


def products(n: int) -> Iterator[Case]:
    """Of bytes, whose sums F32 holds exactly as well for NumPy."""
    a, b = (integers(128, n, 1024, dtype=np.int8, low=low) for low in (-127, -126))
    by_rows, by_columns, c = random(n, 1), random(n), empty(n, n)

    def exact(kind: type) -> np.ndarray:
        return (a.astype(kind) @ b.T.astype(kind)) * by_rows * by_columns

    peers: dict[str, Callable[[], object]] = {"NumPy": lambda: exact(np.float32)}
    if torch:
        ta, tb, tr, tc = tensors(a, b, by_rows, by_columns)
        peers["PyTorch"] = lambda: torch._int_mm(ta, tb.T).float().mul_(tr).mul_(tc)
    yield case(
        f"I8 product with scales, {n} x {n} x 1024",
        2.0 * n * n * 1024,
        lambda: ours.quantised(a, b, by_rows, by_columns, c),
        peers,
        c,
        lambda: exact(np.float64),
        4 * UNIT,
        unit="GFLOP/s",
    )


def ports(quick: bool) -> Iterator[Case]:
    """Tensors of 4 MB, and of 64 MB where there is time."""
    for times in (1,) if quick else (1, 16):
        yield from lookups(1024 * times)
        yield from segments(4096 * times)
        yield from choices(16384 * times)
        yield from losses(32 * times)
        yield from rows(1024 * times)
        yield from counts((1 << 22) * times)
        yield from elements(8192 * times)
        yield from recurrences(1024 * times)
        yield from products(1024 * (1 + times // 16))
