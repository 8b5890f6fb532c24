"""The rows of kernels that people bring from elsewhere, beside PyTorch's and Triton's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gpu_port_kernels as ours
import torch
from gpu_timing import Call, Case
from gpu_work import (
    BF16_ERROR,
    DEVICE,
    F32_ERROR,
    PEER_ERROR,
    Truth,
    chosen,
    error_of,
    exact_and_approximate,
    fastest,
    others,
    random,
)

try:
    import gpu_port_peers as peers
except ImportError:
    peers = None

SUM_ERROR = 2.0**-16


def integers(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, device=DEVICE, dtype=dtype)


def by_triton(
    options: Callable[[], dict[str, Call]], out: torch.Tensor, truth: Truth, allowed: float = PEER_ERROR
) -> Callable[[], Call]:
    """The fastest of Triton's kernels, which must be right too."""

    def make() -> Call:
        _, call = fastest(options().items())
        error = error_of(call, out, truth)
        if not error <= allowed:
            raise RuntimeError(f"off by {error:.3g}")
        return call

    return make


def sides(*sizes: tuple[int, int]) -> list[dict]:
    return [{"BR": rows, "BC": columns} for rows, columns in sizes]


BLOCKS = sides((1, 2048), (2, 2048), (4, 1024), (4, 2048), (8, 1024))
PEERS_BLOCKS = ((1, 2048, 4), (2, 2048, 4), (4, 1024, 4), (4, 2048, 8), (8, 1024, 8))


def lookups() -> Iterator[Case]:
    n, width = 1 << 16, 2048
    table, ids, y = random(n, width), integers(n, n), random(n, width)
    truth = lambda: table[ids].double()
    made = others(
        torch=lambda: lambda: torch.index_select(table, 0, ids, out=y),
        Triton=by_triton(
            lambda: peers.by_blocks(peers.lookup_kernel, n, width, table, ids, y, sizes=PEERS_BLOCKS),
            y,
            truth,
        ),
    )
    mine = chosen(ours.lookup, table, ids, y, sizes=BLOCKS, truth=truth, allowed=0)
    yield Case(f"rows of an embedding, bf16 {n} of {width}", 4.0 * y.numel(), "TB/s", {"": mine}, made)
    order = torch.randperm(n, device=DEVICE)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(n, device=DEVICE))
    moved = lambda: table[back].double()
    made = others(
        torch=lambda: lambda: y.index_copy_(0, order, table),
        Triton=by_triton(
            lambda: peers.by_blocks(peers.permuted_kernel, n, width, table, order, y, sizes=PEERS_BLOCKS),
            y,
            moved,
        ),
    )
    mine = chosen(ours.permuted, table, order, y, sizes=BLOCKS, truth=moved, allowed=0)
    yield Case(f"rows to other places, bf16 {n} of {width}", 4.0 * y.numel(), "TB/s", {"": mine}, made)


def gradients() -> Iterator[Case]:
    """Small integers, so that sums are the same in any order; the table is cleared each time."""
    n, width, rows = 1 << 16, 1024, 1 << 14
    g, ids = integers(9, n, width).float() - 4, integers(rows, n)
    table = torch.empty(rows, width, device=DEVICE)
    truth = lambda: torch.zeros(rows, width, device=DEVICE, dtype=torch.float64).index_add_(
        0, ids, g.double()
    )
    sizes = sides((1, 256), (1, 1024), (4, 256), (4, 1024), (8, 256))

    def with_sizes(**each):
        table.zero_()
        ours.gradient(g, ids, table, **each)

    made = others(
        torch=lambda: lambda: table.zero_().index_add_(0, ids, g),
        Triton=by_triton(
            lambda: peers.by_blocks(
                peers.gradient_kernel,
                n,
                width,
                g,
                ids,
                table,
                sizes=((1, 256, 4), (1, 1024, 4), (4, 256, 4), (8, 256, 4)),
                before=table.zero_,
            ),
            table,
            truth,
        ),
    )

    def without_a_trace() -> torch.Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            return table.zero_().index_add_(0, ids, g)
        finally:
            torch.use_deterministic_algorithms(False)

    for name, exact, peer in (
        ("", False, made),
        (", deterministic", True, others(torch=lambda: without_a_trace)),
    ):
        mine = chosen(
            lambda _, **each: with_sizes(**each), table, sizes=sizes, truth=truth, allowed=0, EXACT=exact
        )
        yield Case(
            f"an embedding's gradient, f32 {n} of {width}{name}", 4.0 * g.numel(), "TB/s", {"": mine}, peer
        )


def segments() -> Iterator[Case]:
    n, width, count = 1 << 19, 256, 4096
    x = random(n, width, dtype=torch.float32)
    inner = integers(n, count - 1, dtype=torch.int32).sort().values
    ends = torch.tensor([0, n], device=DEVICE, dtype=torch.int32)
    starts = torch.cat([ends[:1], inner, ends[1:]])
    lengths, y = starts.diff().long(), torch.empty(count, width, device=DEVICE)
    truth = lambda: torch.segment_reduce(x.double(), "sum", lengths=lengths, axis=0)
    made = others(
        torch=lambda: lambda: torch.segment_reduce(x, "sum", lengths=lengths, axis=0),
        Triton=by_triton(
            lambda: (
                peers.by_blocks(
                    peers.segmented_kernel,
                    count,
                    width,
                    x,
                    starts,
                    y,
                    sizes=((1, 256, 1), (1, 64, 1)),
                )
                | {
                    f"{br} rows": lambda br=br, warps=warps: peers.segmented_kernel[(1, count)](
                        x, starts, y, N=width, BR=br, BC=width, num_warps=warps
                    )
                    for br, warps in ((8, 4), (16, 4), (16, 8), (32, 8))
                }
            ),
            y,
            truth,
        ),
    )
    sizes = sides((8, 256), (16, 256), (32, 256), (16, 128), (32, 64))
    mine = chosen(ours.segmented_sum, x, starts, y, sizes=sizes, truth=truth, allowed=SUM_ERROR)
    yield Case(f"sums of {count} segments, f32 {n} x {width}", 4.0 * x.numel(), "TB/s", {"": mine}, made)


def pages() -> Iterator[Case]:
    batch, heads, group, depth, page, length = 64, 8, 16, 128, 64, 4096
    q = random(batch, heads, group, depth)
    blocks = length // page
    keys, values = (random(batch * blocks, heads, page, depth) for _ in range(2))
    table = torch.randperm(batch * blocks, device=DEVICE).int().view(batch, blocks)
    lengths = integers(length // 8, batch, dtype=torch.int32) + (length - length // 8 + 1)
    out = torch.empty_like(q)

    def truth() -> torch.Tensor:
        results = torch.empty_like(q, dtype=torch.float64)
        for i in range(batch):
            taken = table[i].long()
            k, v = (t[taken].transpose(0, 1).reshape(heads, -1, depth).double() for t in (keys, values))
            own = q[i].double() @ k[:, : lengths[i]].mT * depth**-0.5
            results[i] = own.softmax(-1) @ v[:, : lengths[i]]
        return results

    options = [
        {"PAGE": page, "GROUP": group, "D": depth, "num_warps": warps, "num_stages": stages}
        for warps in (2, 4, 8)
        for stages in (2, 3, 4)
    ]
    made = others(
        Triton=by_triton(
            lambda: peers.in_line(
                peers.paged_kernel,
                lambda **_: (batch, heads),
                q,
                keys,
                values,
                table,
                lengths,
                out,
                blocks,
                heads,
                options=options,
            ),
            out,
            truth,
        )
    )
    constants = {"PAGE": page, "GROUP": group, "D": depth}
    sizes = [{}, *({"warps": warps, "stages": stages} for warps in (1, 2, 4) for stages in (2, 3, 4))]
    given = (q, keys, values, table, lengths, out)
    mine = chosen(ours.paged_decode, *given, sizes=sizes, truth=truth, allowed=PEER_ERROR, **constants)
    work = 4.0 * float(lengths.sum()) * heads * depth
    yield Case(f"decoding over pages, bf16 {batch} x {heads} x {length}", work, "TB/s", {"": mine}, made)


def choices() -> Iterator[Case]:
    n, count, k = 1 << 18, 64, 8
    x = random(n, count, dtype=torch.float32)
    experts = torch.empty(n, k, device=DEVICE, dtype=torch.int32)
    weights = torch.empty(n, k, device=DEVICE)
    truth = lambda: x.double().topk(k, 1).values.softmax(1)
    made = others(
        torch=lambda: lambda: torch.softmax(torch.topk(x, k, 1).values, 1),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.gating_kernel,
                lambda ROWS, **_: (n // ROWS,),
                x,
                experts,
                weights,
                options=[
                    {"E": count, "K": k, "ROWS": rows, "num_warps": warps}
                    for rows, warps in ((8, 1), (16, 1), (16, 2), (32, 4), (64, 4))
                ],
            ),
            weights,
            truth,
        ),
    )
    sizes = [{"ROWS": rows, "warps": warps} for rows, warps in ((8, 1), (16, 2), (32, 4), (64, 4), (128, 4))]
    mine = chosen(ours.gating, x, experts, weights, sizes=sizes, truth=truth, allowed=F32_ERROR * 4)
    yield Case(
        f"gating, {k} of {count} experts, f32 {n}", 4.0 * n * (count + 2 * k), "TB/s", {"": mine}, made
    )


def losses() -> Iterator[Case]:
    n, words = 4096, 1 << 17
    logits, labels = random(n, words), integers(words, n)
    loss = torch.empty(n, device=DEVICE)
    short = labels.int()

    def truth() -> torch.Tensor:
        parts = [
            torch.nn.functional.cross_entropy(each.double(), label, reduction="none")
            for each, label in zip(logits.split(256), labels.split(256), strict=True)
        ]
        return torch.cat(parts)

    made = others(
        torch=lambda: lambda: torch.nn.functional.cross_entropy(logits, labels, reduction="none"),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.cross_entropy_kernel,
                lambda **_: (n,),
                logits,
                short,
                loss,
                options=[
                    {"N": words, "BLOCK": block, "num_warps": warps}
                    for block, warps in ((2048, 4), (4096, 8), (8192, 8), (8192, 16))
                ],
            ),
            loss,
            truth,
        ),
    )
    sizes: list[dict[str, int]] = [{"BLOCK": block} for block in (2048, 4096, 8192)]
    # Rows of one warp need no barriers; 64 elements a thread share what is done for a block.
    sizes += [
        {"BLOCK": block, "warps": warps} for block, warps in ((1024, 1), (2048, 1), (4096, 2), (8192, 4))
    ]
    given = (logits, short, loss)
    mine = exact_and_approximate(ours.cross_entropy, *given, sizes=sizes, truth=truth, allowed=F32_ERROR * 8)
    yield Case(f"cross-entropy, bf16 {n} of {words}", 2.0 * logits.numel(), "TB/s", mine, made)


def drops() -> Iterator[Case]:
    """What is kept is as before but for its factor, and nine tenths of all are."""
    n, share = 1 << 28, 0.1
    x, y = random(n), torch.empty(n, device=DEVICE, dtype=torch.bfloat16)

    def truth() -> torch.Tensor:
        kept = y != 0
        if not abs(float(kept.double().mean()) - (1 - share)) < 1e-3:
            raise RuntimeError("not the share that is asked for")
        return torch.where(kept, x.float() / (1 - share), 0).view(-1, 1024)

    made = others(
        torch=lambda: lambda: torch.nn.functional.dropout(x, share),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.dropout_kernel,
                lambda BLOCK, **_: (n // (4 * BLOCK),),
                x,
                7,
                y,
                options=[
                    {"SHARE": share, "BLOCK": block, "num_warps": warps}
                    for block, warps in ((256, 4), (512, 4), (1024, 4))
                ],
            ),
            y.view(-1, 1024),
            truth,
        ),
    )
    sizes = [{"BLOCK": block} for block in (1024, 2048, 4096)]
    mine = chosen(
        lambda out, **each: ours.dropout(x, 7, y, SHARE=share, **each),
        y.view(-1, 1024),
        sizes=sizes,
        truth=truth,
        allowed=BF16_ERROR,
    )
    yield Case(f"dropout, bf16 2^{n.bit_length() - 1}", 4.0 * n, "TB/s", {"": mine}, made)


def positions() -> Iterator[Case]:
    heads, length, depth = 128, 8192, 128
    x, y = random(heads, length, depth), random(heads, length, depth)
    angles = torch.rand(length, depth // 2, device=DEVICE) * 6
    cos, sin = angles.cos(), angles.sin()

    def turned(t: torch.Tensor) -> torch.Tensor:
        a, b = t.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    truth = lambda: turned(x.double())
    made = others(
        torch=lambda: lambda: turned(x).to(x.dtype),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.rotary_kernel,
                lambda BM, **_: (length // BM, heads),
                x,
                cos,
                sin,
                y,
                length,
                options=[
                    {"D": depth, "BM": rows, "num_warps": warps}
                    for rows, warps in ((16, 4), (32, 4), (64, 4), (64, 8))
                ],
            ),
            y,
            truth,
        ),
    )
    sizes = [{"BM": rows} for rows in (16, 32, 64)]
    mine = chosen(ours.rotary, x, cos, sin, y, sizes=sizes, truth=truth, allowed=BF16_ERROR, D=depth)
    yield Case(f"rotary embedding, bf16 {heads} x {length}", 4.0 * x.numel(), "TB/s", {"": mine}, made)


def along_rows() -> Iterator[Case]:
    """Running sums of long rows, and short rows in order."""
    options = [{"num_warps": warps} for warps in (1, 2, 4, 8, 16)]
    for name, kernel, n, plain, peer in (
        ("running sums", ours.running_sum, 8192, lambda t: t.cumsum(1), "running_sum_kernel"),
        ("order", ours.in_order, 1024, lambda t: t.sort(1).values, "in_order_kernel"),
    ):
        x = random((1 << 27) // n, n, dtype=torch.float32)
        y = torch.empty_like(x)
        truth = lambda x=x, plain=plain: plain(x.double())
        made = others(
            torch=lambda x=x, plain=plain: lambda: plain(x),
            Triton=by_triton(
                lambda x=x, y=y, n=n, peer=peer: peers.in_line(
                    getattr(peers, peer), lambda **_: (x.shape[0],), x, y, n, options=options
                ),
                y,
                truth,
            ),
        )
        sizes = [
            {"ROWS": rows, "warps": warps} for rows in (1, 2, 4) for warps in (1, 4, 8) if rows * n <= 8192
        ]
        mine = chosen(kernel, x, y, sizes=sizes, truth=truth, allowed=SUM_ERROR, COLUMNS=n)
        yield Case(f"{name}, f32 {x.shape[0]} x {n}", 8.0 * x.numel(), "TB/s", {"": mine}, made)


def windows() -> Iterator[Case]:
    """Convolutions of a few neighbours: 3 x 3 of a plane, and four times of each channel."""
    convolve = torch.nn.functional
    for name, kernel, peer, shape, dtype in (
        ("3 x 3 points", ours.nine_points, "nine_points_kernel", (8192, 8192), torch.float32),
        ("3 x 3 points", ours.nine_points, "nine_points_kernel", (8192, 8192), torch.float16),
        ("four times", ours.causal_convolution, "causal_convolution_kernel", (65536, 4096), torch.bfloat16),
    ):
        plane = kernel is ours.nine_points
        x, y = random(*shape, dtype=dtype), torch.empty(shape, device=DEVICE, dtype=dtype)
        w = random(3, 3, dtype=torch.float32) if plane else random(4, shape[1], dtype=torch.float32)

        def plain(x: torch.Tensor, w: torch.Tensor, plane: bool = plane) -> torch.Tensor:
            if plane:
                return convolve.conv2d(x[None, None], w[None, None], padding=1)[0, 0]
            return convolve.conv1d(x.T[None], w.flip(0).T[:, None], padding=3, groups=len(x.T))[0, :, :-3].T

        truth = lambda x=x, w=w, plain=plain: plain(x.double(), w.double())
        low = w.to(dtype)
        made = others(
            torch=lambda x=x, low=low, plain=plain: lambda: plain(x, low),
            Triton=by_triton(
                lambda x=x, w=w, y=y, peer=peer, shape=shape: peers.in_line(
                    getattr(peers, peer),
                    lambda BR, BC, **_: (shape[1] // BC, shape[0] // BR),
                    *(x, w, y, *shape),
                    options=[
                        {"BR": rows, "BC": columns, "num_warps": warps}
                        for rows, columns in ((4, 256), (8, 128), (8, 256), (16, 128), (32, 128), (1, 1024))
                        for warps in (4, 8)
                    ],
                ),
                y,
                truth,
            ),
        )
        sizes = sides((16, 128), (16, 256), (32, 128), (32, 256), (8, 512))
        allowed = 4 * F32_ERROR if dtype is torch.float32 else BF16_ERROR
        mine = chosen(kernel, x, w, y, sizes=sizes, truth=truth, allowed=allowed)
        kind = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
        work = 2.0 * x.numel() * x.element_size()
        yield Case(f"{name}, {kind} {shape[0]} x {shape[1]}", work, "TB/s", {"": mine}, made)


def recurrences() -> Iterator[Case]:
    times, channels = 4096, 16384
    a = torch.rand(times, channels, device=DEVICE)
    b = random(times, channels, dtype=torch.float32)
    h = torch.empty_like(b)

    def truth() -> torch.Tensor:
        state, found = torch.zeros(channels, device=DEVICE, dtype=torch.float64), []
        for t in range(times):
            state = a[t].double() * state + b[t]
            found.append(state)
        return torch.stack(found)

    def options() -> dict[str, Call]:
        found = {}
        for kernel in (peers.recurrence_kernel, peers.turns_kernel):
            given = [
                {"T": t, "C": c, "num_warps": warps}
                for t, c, warps in (
                    (8, 32, 1),
                    (16, 32, 1),
                    (16, 64, 2),
                    (32, 32, 4),
                    (16, 128, 4),
                    (64, 64, 4),
                    (64, 64, 8),
                    (64, 32, 4),
                )
            ]
            made = peers.in_line(
                kernel, lambda C, **_: (channels // C,), a, b, h, times, channels, options=given
            )
            found |= {f"{kernel.__name__} {name}": call for name, call in made.items()}
        return found

    made = others(Triton=by_triton(options, h, truth))
    sizes = [
        {"T": t, "C": c}
        for t, c in ((8, 32), (16, 32), (32, 32), (16, 64), (32, 64), (64, 64), (64, 32), (16, 128))
    ]
    mine = chosen(ours.recurrence, a, b, h, sizes=sizes, truth=truth, allowed=SUM_ERROR)
    yield Case(f"a linear recurrence, f32 {times} x {channels}", 12.0 * b.numel(), "TB/s", {"": mine}, made)


def counts() -> Iterator[Case]:
    n = 1 << 29
    x = integers(256, n, dtype=torch.uint8)
    found = torch.empty(256, device=DEVICE, dtype=torch.int32)
    truth = lambda: torch.bincount(x[: n // 2]).add(torch.bincount(x[n // 2 :])).double().view(1, -1)

    def with_sizes(**each):
        found.zero_()
        ours.histogram(x, found, **each)

    made = others(
        torch=lambda: lambda: torch.bincount(x),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.histogram_kernel,
                lambda BLOCK, COUNT, **_: (n // (BLOCK * COUNT),),
                x,
                found,
                options=[
                    {"BINS": 256, "BLOCK": block, "COUNT": count, "num_warps": warps}
                    for block, count, warps in ((4096, 16, 4), (8192, 16, 8), (4096, 64, 4))
                ],
                before=found.zero_,
            ),
            found.view(1, -1),
            truth,
        ),
    )
    sizes = [
        {"BLOCK": block, "COUNT": count} for block, count in ((4096, 16), (8192, 16), (4096, 64), (16384, 16))
    ]
    mine = chosen(
        lambda _, **each: with_sizes(**each), found.view(1, -1), sizes=sizes, truth=truth, allowed=0
    )
    yield Case(f"histogram of 2^{n.bit_length() - 1} bytes", 1.0 * n, "TB/s", {"": mine}, made)


def quantised_products() -> Iterator[Case]:
    n = 4096
    a, b = (torch.randint(-127, 128, (n, n), device=DEVICE, dtype=torch.int8) for _ in range(2))
    rows, columns = (torch.rand(n, device=DEVICE) / 64 for _ in range(2))
    c = torch.empty(n, n, device=DEVICE, dtype=torch.bfloat16)
    truth = lambda: (a.double() @ b.double().T) * rows.double()[:, None] * columns.double()
    made = others(
        torch=lambda: lambda: (torch._int_mm(a, b.T) * rows[:, None] * columns).to(c.dtype),
        Triton=by_triton(
            lambda: peers.in_line(
                peers.quantised_kernel,
                lambda BM, BN, **_: ((n // BM) * (n // BN),),
                a,
                b,
                rows,
                columns,
                c,
                n,
                n,
                n,
                options=[
                    {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
                    for bm, bn, bk, stages, warps in (
                        (128, 128, 128, 3, 4),
                        (128, 128, 128, 4, 8),
                        (128, 256, 128, 3, 8),
                        (256, 128, 128, 3, 8),
                    )
                ],
            ),
            c,
            truth,
        ),
    )
    sizes = [{"BM": bm, "BN": bn} for bm, bn in ((128, 128), (128, 256), (256, 128))]
    given = (a, b, rows.view(n, 1), columns, c)
    mine = chosen(ours.quantised, *given, sizes=sizes, truth=truth, allowed=BF16_ERROR)
    yield Case(f"I8 product with scales, {n}", 2.0 * n**3, "TFLOP/s", {"": mine}, made)


PORTS = (
    lookups,
    gradients,
    segments,
    pages,
    choices,
    losses,
    drops,
    positions,
    along_rows,
    windows,
    recurrences,
    counts,
    quantised_products,
)


def port_rows(quick: bool) -> Iterator[Case]:
    """Each port's rows; what one of them raises is told when the others are done."""
    failures = []
    for rows in PORTS[:1] if quick else PORTS:
        try:
            yield from rows()
        except Exception as error:
            failures.append(f"{rows.__name__}: {' '.join(str(error).split())}")
        torch.cuda.empty_cache()
    if failures:
        raise RuntimeError("; ".join(failures))
