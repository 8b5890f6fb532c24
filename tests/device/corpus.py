"""What is launched on a device and compared: the corpus of tests/gpu, examples, random programs, products."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import importlib
import io
import math
import pickle
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import addressing_cases
import along_cases
import control_cases
import double_cases
import elementwise_cases
import numpy as np
import patterns
import port_cases
import port_launches
import product_cases
import row_cases
import shape_cases
from execute import OnSimulator, check, compile_body
from generate import generate
from generate_products import generate_products
from gpu_cases import ROUNDINGS, Case, wide
from placed import Device
from programs import is_ordered

import gizml_tile as tile

CASES: dict[str, Case] = {
    case.name: case
    for module in (
        addressing_cases,
        along_cases,
        control_cases,
        double_cases,
        elementwise_cases,
        port_cases,
        row_cases,
        product_cases,
        shape_cases,
    )
    for case in module.CASES
}
UNIT = 2.0**-24


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def room(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def arrays(tensors: Sequence[Any]) -> list[np.ndarray]:
    return [each for each in tensors if isinstance(each, np.ndarray)]


def run_twice(launch: Callable[..., Any], tensors: list[Any], name: str) -> None:
    """Launch on copies of host arrays on a device, twice with equal bits; the arrays get the results."""
    device = Device(name)
    placed = [device.put(each) for each in tensors]
    launch(*placed)
    first = device.bytes()
    device.restore()
    launch(*placed)
    if device.bytes() != first:
        raise AssertionError("a second launch gives other bits")
    device.fetch()


def refuse(wrong: np.ndarray, got: np.ndarray, want: np.ndarray) -> None:
    if wrong.any():
        place = tuple(int(each) for each in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} wrong; at {list(place)} {got[place]!r}, right is {want[place]!r}"
        )


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where two arrays have the same bits, or both a NaN."""
    a, b = (np.ascontiguousarray(each).view(f"u{each.itemsize}") for each in (one, other))
    return (a == b) | (np.isnan(wide(one)) & np.isnan(wide(other)))


def agree(case: Case, got: np.ndarray, want: np.ndarray, before: np.ndarray) -> None:
    """Equal bits, or within the case's bound and what the storage type's rounding makes of it."""
    if case.bound is None or got.dtype.kind in "iub" or same(want, before).all():
        refuse(~same(got, want), got, want)
        return
    bound = case.bound(arrays(case.tensors()), want)
    slack = ROUNDINGS.get(want.dtype, 2.0**-23) * np.abs(wide(want))
    refuse(~(np.abs(wide(got) - wide(want)) <= bound + slack), got, want)


def on_the_cpu(name: str) -> list[np.ndarray]:
    """The tensors of a case after a launch on the CPU."""
    case = CASES[name]
    tensors = case.tensors()
    case.launch(*tensors, **case.constants)
    return arrays(tensors)


@cache
def kept(file: str) -> dict[str, list[np.ndarray]]:
    return pickle.loads(gzip.decompress(Path(file).read_bytes()))


def run_case(name: str, device: str, results: str) -> None:
    """A case of the corpus against the CPU's results, which may come from a file."""
    case = CASES[name]
    tensors = case.tensors()
    run_twice(partial(case.launch, **case.constants), tensors, device)
    want = kept(results)[name] if results else on_the_cpu(name)
    for each in zip(arrays(tensors), want, arrays(case.tensors()), strict=True):
        agree(case, *each)


@dataclasses.dataclass(frozen=True)
class OnGpu(OnSimulator):
    """A random program on a real GPU, twice."""

    arch: str = ""
    device: str = "cuda"

    def __call__(self, program: Any, tensors: dict[str, np.ndarray]) -> None:
        device, ordered = Device(self.device), is_ordered(program)
        placed = {name: device.put(each) for name, each in tensors.items()}
        body = compile_body(program, placed)
        failure = _failed_check(program, body)
        first = device.bytes()
        device.restore()
        with contextlib.redirect_stdout(io.StringIO()):
            again = _failed_check(program, body)
        assert not ordered or device.bytes() == first, "a second launch gives other bits"
        assert str(again) == str(failure), "a second launch tells otherwise of its checks"
        device.fetch()
        if failure is not None:
            raise failure


def _failed_check(program: Any, body: Any) -> tile.TileError | None:
    """Launch a program; what it says of a check that failed, after which its results are there."""
    try:
        tile.run(program.grid, body)
    except tile.TileError as error:
        if "check failed: " not in str(error):
            raise
        return error
    return None


def run_random(make: Callable[[int], Any], seed: int, device: str) -> str:
    outcome = check(make(seed), OnGpu(device=device))
    if outcome.problem:
        raise AssertionError(outcome.problem)
    return outcome.kind


ORDERS = (("C", "C"), ("C", "F"), ("F", "C"), ("F", "F"))
PAIRS = [
    *((kind, kind) for kind in ("f32", "f16", "bf16", "fp8", "i1", "u1")),
    ("bf16", "fp8"),
    ("fp8", "e5m2"),
    ("e5m2", "fp8"),
    ("e5m2", "e5m2"),
    ("i1", "u1"),
    ("f32", "bf16"),
]


def run_product(kinds: tuple[str, str], device: str) -> str:
    """Products of all operand orders, ragged and whole, within the language's bound of float64."""
    exact = kinds[0] in ("i1", "u1")
    worst = 0.0
    sizes = [(333, 259, 130), (256, 384, 256)]
    # Long enough for units whose sums of FP8 are short.
    sizes += [(250, 136, 4128)] if {*kinds} <= {"fp8", "e5m2"} else []
    for m, n, k in sizes:
        for orders in ORDERS:
            tensors = product_cases.operands(m, n, k, kinds, orders, "i4" if exact else "f32")
            constants = {"SUM": tile.I32} if exact else {}
            run_twice(partial(product_cases.matmul, **constants), tensors, device)
            a, b, got = (wide(each) for each in tensors)
            bound = k * UNIT * (np.abs(a) @ np.abs(b))
            off = np.abs(got - a @ b)
            refuse(~(off <= (0 if exact else bound)), got, a @ b)
            worst = max(worst, float((off / bound).max()))
    return f"{worst:.3f} of the bound"


def run_rows(name: str, kind: str, device: str) -> str:
    """Softmax and norms of long rows against float64."""
    kernel, worst = getattr(row_cases, name), 0.0
    for columns, block in ((300, 512), (1024, 1024), (8192, 8192), (30000, 32768)):
        x = product_cases.numbers(5, columns, kind=kind)
        w, b = random(columns, seed=1), random(columns, seed=2)
        y = product_cases.room(5, columns, kind=kind)
        tensors = [x, y] if name == "softmax" else [x, w, b, y]
        run_twice(partial(kernel, COLUMNS=block, ROWS=1), tensors, device)
        v = wide(x)
        if name == "softmax":
            e = np.exp(v - v.max(1, keepdims=True))
            truth = e / e.sum(1, keepdims=True)
            bound = (columns / 64 + 24) * UNIT * truth
        else:
            centred = v - v.mean(1, keepdims=True)
            truth = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b
            bound = 4e-6 * (1 + np.abs(truth) + np.abs(w))
        bound = bound + np.abs(truth) * (ROUNDINGS.get(x.dtype, 0) / 2 + UNIT)
        off = np.abs(wide(y) - truth)
        refuse(~(off <= bound), y, truth)
        worst = max(worst, float((off / bound).max()))
    return f"{worst:.3f} of the bound"


def run_attention(kind: str, depth: int, causal: bool, device: str) -> str:
    """Attention against float64, with weights that are rounded to the operands' type."""
    q, k, v, out = product_cases.heads(kind, 300, depth)
    weights = {"bf16": tile.BF16, "f16": tile.F16, "f32": tile.F32}[kind]
    # Blocks of two thousand F32 values a thread would not fit.
    constants = {"D": depth, "CAUSAL": causal, "WEIGHTS": weights, "BM": 32, "BN": 32}
    run_twice(partial(product_cases.attention, **constants), [q, k, v, out], device)
    attention = importlib.import_module("attention")
    truth = attention.reference(*map(wide, (q, k, v)), causal)
    allowed = {"bf16": 2.0**-7, "f16": 2.0**-10, "f32": 1e-5}[kind]
    off = np.abs(wide(out) - truth)
    refuse(~(off <= allowed * (1 + np.abs(truth))), out, truth)
    return f"off by {off.max():.2g}"


Example = tuple[Callable[..., Any], list[np.ndarray], np.ndarray, Any]


def attention_example(length: int, depth: int, causal: bool) -> Example:
    module = importlib.import_module("attention")
    q, k, v = (random(1, 2, length, depth, seed=seed) for seed in (1, 2, 3))
    # The example's own blocks suit a CPU's caches and fit no GPU.
    constants = {"D": depth, "CAUSAL": causal, "BM": 64, "BN": 64, "RAGGED": True}
    truth = module.reference(*map(wide, (q, k, v)), causal)
    return partial(module.attention, **constants), [q, k, v, room(*q.shape)], truth, 1e-5


def matmul_example(name: str) -> Example:
    module = importlib.import_module("matmul")
    a, b, bias = random(130, 77, seed=1), random(77, 200, seed=2), random(200, seed=3)
    truth = np.maximum(wide(a) @ wide(b) + bias, 0)
    bound = 78 * UNIT * (np.abs(wide(a)) @ np.abs(wide(b)) + np.abs(bias))
    return getattr(module, name), [a, b, bias, room(130, 200)], truth, bound


def softmax_example(name: str) -> Example:
    module = importlib.import_module("softmax")
    x = random(37, 200) * 4
    truth = module.reference(wide(x))
    return partial(getattr(module, name), COLUMNS=256), [x, room(37, 200)], truth, 4e-6 * truth


def layernorm_example() -> Example:
    module = importlib.import_module("layernorm")
    x, w, b = random(37, 200) + 3, random(200, seed=1), random(200, seed=2)
    truth = module.reference(*map(wide, (x, w, b)))
    bound = 4e-6 * (1 + np.abs(truth) + np.abs(w))
    return partial(module.layernorm, COLUMNS=256), [x, w, b, room(37, 200)], truth, bound


def gelu_example() -> Example:
    module = importlib.import_module("fused_gelu")
    x, w, b = random(33, 300), random(300, seed=1), random(300, seed=2)
    truth = module.reference(*map(wide, (x, w, b)))
    return module.fused_gelu, [x, w, b, room(33, 300)], truth, 1e-6 * (1 + np.abs(x * w) + np.abs(b))


def batched_example() -> Example:
    module = importlib.import_module("batched_matmul")
    a, b = random(2, 3, 65, 33, seed=1), random(2, 3, 40, 33, seed=2).swapaxes(2, 3)
    bound = 33 * UNIT * (abs(wide(a)) @ abs(wide(b)))
    return module.batched_matmul, [a, b, room(2, 3, 65, 40)], wide(a) @ wide(b), bound


def convolution_example() -> Example:
    module = importlib.import_module("convolution")
    x, w = random(2, 9, 20, 3, seed=1), random(3, 3, 3, 5, seed=2)
    bound = 27 * UNIT * module.reference(np.abs(wide(x)), np.abs(wide(w)))
    return module.convolution, [x, w, room(2, 9, 20, 5)], module.reference(wide(x), wide(w)), bound


def rotary_example(neighbours: bool) -> Example:
    module = importlib.import_module("rotary_embedding")
    x, angles = random(3, 70, 32), random(70, 16, seed=1) * 4
    cos, sin = np.cos(angles), np.sin(angles)
    truth = module.reference(*map(wide, (x, cos, sin)), neighbours)
    launch = partial(module.rotary, D=32, NEIGHBOURS=neighbours)
    return launch, [x, cos, sin, room(3, 70, 32)], truth, 16 * UNIT * (1 + np.abs(truth))


def pattern_example(name: str) -> Example:
    pattern = importlib.import_module("patterns").patterns()[name]
    launch = partial(pattern.kernel, **pattern.constants)
    return launch, pattern.arguments, pattern.truth, pattern.bound(pattern.truth)


def embedding_example() -> Example:
    module = importlib.import_module("embedding")
    table, ids = random(23, 70), np.random.default_rng(1).integers(-2, 25, 50, dtype=np.int32)
    inside = (ids >= 0) & (ids < 23)
    return module.lookup, [table, ids, room(50, 70)], table[np.where(inside, ids, 0)] * inside[:, None], 0


def dropout_example() -> Example:
    module = importlib.import_module("dropout")
    x, truth = random(50, 130), room(50, 130)
    module.dropout(x, 7, truth)  # no other library draws these numbers: the CPU's are right
    return module.dropout, [x, 7, room(50, 130)], truth, 0


def histogram_example() -> Example:
    module = importlib.import_module("histogram")
    x = np.random.default_rng(0).binomial(255, 0.4, 5001).astype(np.uint8)
    counts = np.bincount(x, minlength=256)
    return partial(module.histogram, BLOCK=1024, TURNS=2), [x, np.zeros(256, np.int32)], counts, 0


def simple_example(name: str) -> Example:
    kernel = getattr(importlib.import_module(name), name)
    if name == "transpose":
        x = random(130, 77)
        return kernel, [x, room(77, 130)], wide(x.T), 0
    x, y = random(10_001, seed=1), random(10_001, seed=2)
    truth = wide(x) + y
    return kernel, [x, y, room(10_001)], truth, UNIT * np.abs(truth)


EXAMPLES: dict[str, Callable[[], Example]] = {
    "vector_add": partial(simple_example, "vector_add"),
    "transpose": partial(simple_example, "transpose"),
    "matmul": partial(matmul_example, "matmul"),
    "matmul, explicit": partial(matmul_example, "matmul_explicit"),
    "softmax": partial(softmax_example, "softmax"),
    "softmax, explicit": partial(softmax_example, "softmax_explicit"),
    "layernorm": layernorm_example,
    "fused_gelu": gelu_example,
    "batched_matmul": batched_example,
    "convolution": convolution_example,
    "rotary embedding": partial(rotary_example, False),
    "rotary embedding of neighbours": partial(rotary_example, True),
    "embedding": embedding_example,
    "dropout": dropout_example,
    "histogram": histogram_example,
    "attention": partial(attention_example, 200, 64, False),
    "attention, causal": partial(attention_example, 204, 64, True),
    "attention, D 128": partial(attention_example, 102, 128, False),
    **port_launches.PORTS,
} | {f"pattern: {name}": partial(pattern_example, name) for name in patterns.patterns()}


def run_example(name: str, device: str) -> str:
    """An example's kernel as it is, against float64."""
    launch, tensors, truth, bound = EXAMPLES[name]()
    run_twice(launch, tensors, device)
    off = np.abs(wide(tensors[-1]) - truth)
    refuse(~(off <= bound), tensors[-1], truth)
    return f"off by {off.max():.2g}"


def do(task: tuple[str, Any], device: str, results: str) -> str:
    """One task by its kind."""
    kind, what = task
    if kind == "corpus":
        run_case(what, device, results)
        return ""
    if kind == "random":
        return run_random(generate, what, device)
    if kind == "random products":
        return run_random(generate_products, what, device)
    runners = {"product": run_product, "example": run_example, "rows": run_rows, "attention": run_attention}
    arguments = what if kind in ("rows", "attention") else (what,)
    return runners[kind](*arguments, device)


def tasks(programs: int) -> list[tuple[str, Any]]:
    """Everything there is to launch here, with so many random programs."""
    many = math.ceil(programs * 0.7)
    return [
        *(("example", name) for name in EXAMPLES),
        *(("product", kinds) for kinds in PAIRS),
        *(("rows", (name, kind)) for name in ("softmax", "layernorm") for kind in ("f32", "bf16")),
        *(
            ("attention", (kind, depth, causal))
            for kind in ("bf16", "f16", "f32")
            for depth in (64, 128)
            for causal in (False, True)
        ),
        *(("corpus", name) for name in CASES),
        *(("random", 50_000 + number) for number in range(many)),
        *(("random products", 50_000 + number) for number in range(programs - many)),
    ]
