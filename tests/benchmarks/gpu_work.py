"""The rows of the GPU table: what is done, checked before it is timed, with everyone's best sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gpu_kernels as ours
import torch
from gpu_timing import Call, Case, Ours, error_of, fastest
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import gpu_peers as peers
except ImportError:
    peers = None

Truth = Callable[[], torch.Tensor]
# Rounding to BF16 alone moves a value by up to 2^-8 of it.
BF16_ERROR, F32_ERROR, PEER_ERROR = 2.0**-8 + 2.0**-12, 2.0**-21, 2.0**-6
DEVICE = "cuda"


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Fresh normally distributed numbers."""
    return torch.randn(shape, device=DEVICE, dtype=torch.float32).to(dtype)


def chosen(
    kernel,
    *tensors: torch.Tensor,
    sizes: list[dict],
    truth: Truth,
    allowed: float,
    graph: bool = False,
    **constants: object,
) -> Ours:
    """The fastest of our sizes, in graphs or not, with its error: the last tensor is the result."""

    def with_sizes(each: dict) -> tuple[str, Call]:
        name = " ".join(f"{name}={value}" for name, value in each.items())
        return name, lambda: kernel(*tensors, **each, **constants)

    choice, call = fastest(map(with_sizes, sizes), graph)
    return Ours(call, choice, (error_of(call, tensors[-1], truth), allowed))


def exact_and_approximate(
    kernel, *tensors: torch.Tensor, allowed: float = BF16_ERROR, **given
) -> dict[str, Ours]:
    return {
        name: chosen(kernel, *tensors, **given, APPROX=bool(name), allowed=allowed)
        for name in ("", ", approx")
    }


def others(**made: Callable[[], Call]) -> dict[str, Call]:
    """The peers that there are; one whose library does not work here is named and left out."""
    found = {}
    for name, make in made.items():
        try:
            found[name.replace("_", " ")] = make()
        except Exception as error:
            print(f"(no {name}: {repr(error)[:160]})", flush=True)
    return found


def triton(
    options: Callable[[], dict[str, Call]], out: torch.Tensor, truth: Truth, graph: bool = False
) -> Callable[[], Call]:
    """The fastest of Triton's, which must be right too."""

    def make() -> Call:
        _, call = fastest(options().items(), graph)
        error = error_of(call, out, truth)
        if not error <= PEER_ERROR:
            raise RuntimeError(f"off by {error:.3g}")
        return call

    return make


def copy_rows(quick: bool) -> Iterator[Case]:
    x = random(1 << 28, dtype=torch.float32)
    y = torch.empty_like(x)
    sizes = [{"BLOCK": 1024}, {"BLOCK": 2048}]
    mine = chosen(ours.copy, x, y, sizes=sizes, truth=x.double, allowed=0)
    made = others(torch=lambda: lambda: y.copy_(x), Triton=triton(lambda: peers.copies(x, y), y, x.double))
    yield Case("copy f32 2^28", 8.0 * x.numel(), "TB/s", {"": mine}, made)


def add_rows(quick: bool) -> Iterator[Case]:
    x, w = (random(1 << 28, dtype=torch.float32) for _ in range(2))
    y = torch.empty_like(x)

    def truth() -> torch.Tensor:
        return x.double() + w

    sizes = [{"BLOCK": 1024}, {"BLOCK": 2048}]
    mine = chosen(ours.add, x, w, y, sizes=sizes, truth=truth, allowed=F32_ERROR)
    longer = random(3 << 27, dtype=torch.float32)  # a copy of it moves as many bytes as the addition
    copied = torch.empty_like(longer)
    made = others(
        copy=lambda: lambda: copied.copy_(longer),
        torch=lambda: lambda: torch.add(x, w, out=y),
        Triton=triton(lambda: peers.additions(x, w, y), y, truth),
    )
    yield Case("add f32 2^28", 12.0 * x.numel(), "TB/s", {"": mine}, made)


def gelu_rows(quick: bool) -> Iterator[Case]:
    x, w, b = random(16384, 8192), random(8192), random(8192)
    y = torch.empty_like(x)

    def plain(x, w, b):
        return torch.nn.functional.gelu(x * w + b, approximate="tanh")

    def truth():
        u = x.double() * w + b
        return 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))

    made = others(
        copy=lambda: lambda: y.copy_(x),
        torch=lambda: lambda: plain(x, w, b),
        Triton=triton(lambda: peers.gelus(x, w, b, y), y, truth),
    )
    if not quick:
        made |= others(compiled=lambda: peers.compiled(plain, x, w, b))
    sizes = [{"BM": bm, "BN": bn} for bm, bn in ((1, 2048), (4, 1024), (4, 2048), (8, 1024))]
    mine = exact_and_approximate(ours.gelu, x, w, b, y, sizes=sizes, truth=truth)
    yield Case("gelu(x*w+b) bf16 16384 x 8192", 4.0 * x.numel(), "TB/s", mine, made)


@dataclass(frozen=True)
class Norm:
    """Work on rows: our kernel, PyTorch's function, the right result and how many vectors it takes."""

    name: str
    kernel: object
    plain: Callable[..., torch.Tensor]
    truth: Callable[..., torch.Tensor]
    vectors: int = 0

    def case(self, n: int, with_compiler: bool) -> Case:
        """Rows of one length, 2^27 elements in all, exact and approximate."""
        x, more = random((1 << 27) // n, n), tuple(random(n) for _ in range(self.vectors))
        y = torch.empty_like(x)

        def truth() -> torch.Tensor:
            return self.truth(x.double(), *(each.double() for each in more))

        def options() -> dict[str, Call]:
            return peers.by_rows(getattr(peers, f"{self.name}_kernel"), x, *more, y)

        made = others(
            copy=lambda: lambda: y.copy_(x),
            torch=lambda: lambda: self.plain(x, *more),
            Triton=triton(options, y, truth),
        )
        if with_compiler:
            made |= others(compiled=lambda: peers.compiled(self.plain, x, *more))
        sizes = [{"ROWS": rows} for rows in (1, 2, 4) if rows == 1 or rows * n <= 4096]
        mine = exact_and_approximate(self.kernel, x, *more, y, sizes=sizes, truth=truth, COLUMNS=n)
        return Case(f"{self.name} bf16 {x.shape[0]} x {n}", 4.0 * x.numel(), "TB/s", mine, made)

    def __call__(self, quick: bool) -> Iterator[Case]:
        for n in (1024, 8192) if quick else (512, 1024, 2048, 4096, 8192, 16384, 32768):
            yield self.case(n, n == 8192 and not quick)


def normalised(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 1)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[1:], w, b)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[1:], w, 1e-5)


def rms_truth(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w


def transpose_rows(quick: bool) -> Iterator[Case]:
    x = random(16384, 16384)
    y = torch.empty_like(x)
    sizes = [{"BM": m, "BN": n} for m, n in ((64, 64), (32, 64), (64, 128), (128, 128))]
    mine = chosen(ours.transpose, x, y, sizes=sizes, truth=lambda: x.T.double(), allowed=0)
    made = others(
        copy=lambda: lambda: y.copy_(x),
        torch=lambda: lambda: y.copy_(x.T),
        Triton=triton(lambda: peers.transposes(x, y), y, lambda: x.T.double()),
    )
    yield Case("transpose bf16 16384 x 16384", 4.0 * x.numel(), "TB/s", {"": mine}, made)


def blocks(*sizes: tuple[int, int, int, int, int]) -> list[dict]:
    names = ("BM", "BN", "BK", "warps", "stages")
    return [{name: size for name, size in zip(names, each, strict=True) if size} for each in sizes]


F32_SIZES = blocks((128, 128, 16, 8, 3), (128, 128, 32, 8, 3), (128, 256, 16, 8, 3))
# 0: as the planner chooses.
BF16_SIZES = blocks(
    (64, 128, 64, 0, 0),
    (128, 64, 64, 0, 0),
    (128, 128, 64, 0, 0),
    (192, 128, 64, 0, 0),
    (256, 128, 64, 0, 0),
    (128, 256, 64, 0, 0),
)
F64_SIZES = blocks((64, 64, 16, 0, 0), (128, 64, 16, 0, 0), (128, 128, 16, 0, 0), (64, 64, 32, 0, 0))


def matmul_f32_rows(quick: bool) -> Iterator[Case]:
    n = 4096 if quick else 8192
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (random(n, n, dtype=torch.float32) for _ in range(2))
    c = torch.empty_like(a)

    def truth() -> torch.Tensor:
        return a.double() @ b.double()

    made = others(
        cuBLAS=lambda: lambda: torch.mm(a, b, out=c),
        Triton=triton(lambda: peers.products(a, b, c, peers.F32_BLOCKS, "ieee"), c, truth),
    )
    # Any order of additions stays within K roundings of the sum of sizes, and near their square root.
    allowed = 8 * math.sqrt(n) * 2.0**-24
    mine = chosen(ours.matmul, a, b, c, sizes=F32_SIZES, truth=truth, allowed=allowed)
    yield Case(f"matmul f32 {n}, exact", 2.0 * n**3, "TFLOP/s", {"": mine}, made)


def matmul_f64_rows(quick: bool) -> Iterator[Case]:
    n = 2048 if quick else 4096
    a, b = (random(n, n, dtype=torch.float64) for _ in range(2))
    c, other = torch.empty_like(a), torch.mm(a, b)
    allowed = 8 * math.sqrt(n) * 2.0**-53
    mine = chosen(ours.matmul, a, b, c, sizes=F64_SIZES, truth=lambda: other, allowed=allowed, DOUBLE=True)
    made = others(cuBLAS=lambda: lambda: torch.mm(a, b, out=c))
    yield Case(f"matmul f64 {n}", 2.0 * n**3, "TFLOP/s", {"": mine}, made)


def matmul_bf16(n: int) -> Case:
    sizes = [each for each in BF16_SIZES if n * n >= each["BM"] * each["BN"] * 64]
    return product_of(n, n, n, sizes, n <= 2048, with_triton=True)


def matmul_bf16_rows(quick: bool) -> Iterator[Case]:
    yield from map(matmul_bf16, (1024, 4096) if quick else (1024, 2048, 4096, 8192))


def sizes_rows(quick: bool) -> Iterator[Case]:
    """Products of few turns, of other forms, one that the L2 does not hold, and other orders of operands."""
    large = [each for each in BF16_SIZES if each["BM"] * each["BN"] >= 128 * 128]
    for k in (512,) if quick else (256, 512, 1024, 2048):
        yield product_of(8192, 8192, k, large, False)
    for m, n, k in () if quick else ((4096, 11008, 4096), (8192, 4096, 14336), (16384, 16384, 16384)):
        yield product_of(m, n, k, large, False)
    for order in ("NT",) if quick else ("NT", "TN", "TT"):
        yield product_of(4096, 4096, 4096, large, False, order=order)


FEW_ROWS_SIZES = blocks(
    (16, 64, 64, 0, 0), (16, 64, 128, 0, 0), (16, 128, 64, 0, 0), (16, 128, 128, 0, 0), (16, 256, 64, 0, 0)
)
FEW_TILES_SIZES = blocks((64, 128, 64, 0, 0), (128, 64, 64, 0, 0), (128, 128, 64, 0, 0), (128, 256, 64, 0, 0))


def product_of(
    m: int, n: int, k: int, sizes: list[dict], graph: bool, *, with_triton: bool = False, order: str = "NN"
) -> Case:
    """A product of BF16 matrices beside cuBLAS, and Triton where asked; T: an operand lies transposed."""
    a = random(m, k) if order[0] == "N" else random(k, m).T
    b = random(k, n) if order[1] == "N" else random(n, k).T
    c = torch.empty(m, n, dtype=a.dtype, device=DEVICE)

    def truth() -> torch.Tensor:
        return a.double() @ b.double()

    mine = chosen(ours.matmul, a, b, c, sizes=sizes, truth=truth, allowed=BF16_ERROR, graph=graph)
    made = others(cuBLAS=lambda: lambda: torch.mm(a, b, out=c))
    if with_triton:
        made |= others(Triton=triton(lambda: peers.products(a, b, c), c, truth, graph))
    name = f"matmul bf16 {m} x {n} x {k}{f' {order}' * (order != 'NN')}{', in a graph' * graph}"
    return Case(name, 2.0 * m * n * k, "TFLOP/s", {"": mine}, made, graph)


def few_rows(quick: bool) -> Iterator[Case]:
    """Fewer tiles of the result than multiprocessors."""
    yield product_of(16, 8192, 8192, FEW_ROWS_SIZES, True)
    yield product_of(128, 8192, 8192, FEW_TILES_SIZES, True)
    if not quick:
        yield product_of(512, 512, 8192, FEW_TILES_SIZES, True)


def odd_rows(quick: bool) -> Iterator[Case]:
    """Steps that the copy engine does not take, and tiles that do not divide the sizes."""
    yield product_of(4095, 4097, 4099, BF16_SIZES, True)
    yield product_of(1000, 1000, 1000, FEW_TILES_SIZES, True)


FP8_SIZES = blocks((128, 128, 128, 0, 0), (128, 128, 256, 0, 0), (128, 256, 128, 0, 0), (256, 128, 128, 0, 0))
# Beside the rounding of the result: sums of parts in fewer bits, relative to the row, as random signs leave.
PARTS_ERROR = 2.0**-10


def matmul_fp8(n: int, right: torch.dtype = torch.float8_e4m3fn) -> Case:
    """Both operands contiguous along k, as cuBLAS takes them, with scales of one there."""
    a, b = random(n, n, dtype=torch.float8_e4m3fn), random(n, n, dtype=right).T
    c = torch.empty(n, n, dtype=torch.bfloat16, device=DEVICE)
    one = torch.ones((), device=DEVICE)

    def cublas(fast: bool) -> Callable[[], Call]:
        given = {"out_dtype": c.dtype, "use_fast_accum": fast, "out": c}
        return lambda: lambda: torch._scaled_mm(a, b, one, one, **given)

    def truth() -> torch.Tensor:
        return a.double() @ b.double()

    allowed = BF16_ERROR + PARTS_ERROR
    mine = {
        name: chosen(ours.matmul, a, b, c, sizes=FP8_SIZES, truth=truth, allowed=allowed, DOT=unit)
        for name, unit in (("", ""), (", summed as cuBLAS does", "group_matrix"))
    }
    made = others(cuBLAS=cublas(False), cuBLAS_with_fast_sums=cublas(True))
    form = "" if right is a.dtype else " by e5m2"
    return Case(f"matmul fp8{form} {n}", 2.0 * n**3, "TFLOP/s", mine, made)


def matmul_fp8_rows(quick: bool) -> Iterator[Case]:
    yield from map(matmul_fp8, (4096,) if quick else (4096, 8192))
    yield matmul_fp8(4096 if quick else 8192, torch.float8_e5m2)


ATTENTION_SIZES = [{"BM": bm, "BN": bn} for bm, bn in ((128, 128), (64, 128))]


def attention_truth(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """One head after the other, as the scores of all in float64 are large."""
    length, depth = q.shape[2:]
    hidden = torch.ones(length, length, dtype=torch.bool, device=DEVICE).triu(1)
    heads = []
    for each in zip(*(tensor.flatten(0, 1).unbind() for tensor in (q, k, v)), strict=True):
        queries, keys, values = (tensor.double() for tensor in each)
        scores = queries @ keys.T * depth**-0.5
        if causal:
            scores.masked_fill_(hidden, -math.inf)
        heads.append(scores.softmax(1) @ values)
    return torch.stack(heads).view(q.shape)


def attention_bf16(length: int, depth: int, causal: bool) -> Case:
    q, k, v = (random(4, 16, length, depth) for _ in range(3))
    out = torch.empty_like(q)

    def by(backend: SDPBackend) -> Callable[[], Call]:
        def call() -> torch.Tensor:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return lambda: (call(), call)[1]

    mine = exact_and_approximate(
        ours.attention_bf16,
        *(q, k, v, out),
        sizes=ATTENTION_SIZES,
        truth=lambda: attention_truth(q, k, v, causal),
        allowed=PEER_ERROR,  # weights are rounded to BF16 on the way, as everyone's are
        D=depth,
        CAUSAL=causal,
    )
    made = others(cuDNN=by(SDPBackend.CUDNN_ATTENTION), FlashAttention=by(SDPBackend.FLASH_ATTENTION))
    work = 4.0 * q.numel() * length / (2 if causal else 1)
    return Case(
        f"attention bf16 D {depth}, S {length}{', causal' if causal else ''}", work, "TFLOP/s", mine, made
    )


def attention_rows(quick: bool) -> Iterator[Case]:
    for depth in (128, 64):
        for length in (2048,) if quick else (2048, 4096, 8192):
            for causal in (False, True):
                yield attention_bf16(length, depth, causal)
    for causal in () if quick else (False, True):
        yield attention_bf16(4096, 96, causal)


ROWS: dict[str, Callable[[bool], Iterator[Case]]] = {
    "copy": copy_rows,
    "add": add_rows,
    "gelu": gelu_rows,
    "softmax": Norm("softmax", ours.softmax, normalised, normalised),
    "layernorm": Norm("layernorm", ours.layernorm, layer_norm, layer_norm, 2),
    "rmsnorm": Norm("rmsnorm", ours.rmsnorm, rms_norm, rms_truth, 1),
    "transpose": transpose_rows,
    "f32": matmul_f32_rows,
    "f64": matmul_f64_rows,
    "bf16": matmul_bf16_rows,
    "sizes": sizes_rows,
    "few": few_rows,
    "odd": odd_rows,
    "fp8": matmul_fp8_rows,
    "attention": attention_rows,
}
