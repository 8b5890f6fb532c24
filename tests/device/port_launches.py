"""The launches of examples that people bring from elsewhere, with what they should give."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gpu_cases import wide

Example = tuple[Callable[..., Any], list[Any], np.ndarray, Any]
UNIT = 2.0**-24


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def room(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def mixture_example() -> Example:
    module = importlib.import_module("mixture_of_experts")
    x, w, starts = module.tokens(4, 300, 70, 100)
    truth = module.reference(wide(x), wide(w), starts)
    bound = 70 * UNIT * module.reference(abs(wide(x)), abs(wide(w)), starts)
    most = int(np.diff(starts).max())
    return partial(module.grouped_matmul, MOST=most), [x, w, starts, room(300, 100)], truth, bound


def norm_example() -> Example:
    module = importlib.import_module("norm_gradient")
    x, g, w = random(37, 200), random(37, 200, seed=1), random(200, seed=2)

    def launch(x: Any, w: Any, g: Any, dx: Any, parts: Any, dw: Any) -> None:
        module.norm_gradient(x, w, g, dx, parts, COLUMNS=256)
        module.added_up(parts, dw)

    truth = module.reference(wide(x), wide(w), wide(g))[1]
    return launch, [x, w, g, room(37, 200), room(5, 200), room(200)], truth, 1e-4


def attention_example(of: str) -> Example:
    module = importlib.import_module("attention_gradient")
    q, k, v, do = (random(2, 70, 32, seed=seed) for seed in range(4))
    out, _, lse = module.forward(q, k, v)
    given = [q, k, v, do, lse, (out * do).sum(2)]
    truth = dict(zip("qkv", module.reference(*map(wide, (q, k, v, do))), strict=True))[of]
    results = [room(2, 70, 32) for _ in range(1 if of == "q" else 2)]
    kernel = module.of_queries if of == "q" else module.of_keys
    return partial(kernel, D=32), [*given, *results], truth, 1e-4


def chunk_example() -> Example:
    module = importlib.import_module("chunk_scan")
    x, b, c = random(2, 70, 40), random(2, 70, 32, seed=1), random(2, 70, 32, seed=2)
    dt, a = np.abs(random(2, 70, seed=3)) * np.float32(0.1), -np.abs(random(2, seed=4))
    truth = module.reference(*map(wide, (x, dt, a, b, c)))
    tensors = [x, dt, a, b, c, room(2, 70, 40)]
    return partial(module.chunk_scan, N=32), tensors, truth, 1e-5 * np.abs(truth).max()


def sampling_example(likeliest: bool) -> Example:
    module = importlib.import_module("sampling")
    logits, tokens = random(20, 5000) * 2, np.zeros(20, np.int32)
    given = [logits, 7, 0.6] if likeliest else [logits, 7]
    kernel = module.sample_likeliest if likeliest else module.sample
    truth = tokens.copy()
    kernel(*given, truth)  # no other library draws these numbers: the CPU's are right
    return kernel, [*given, tokens], truth, 0


def adam_example() -> Example:
    module = importlib.import_module("adam")
    x, g = random(37, 256), random(37, 256, seed=1)
    m = np.random.default_rng(2).integers(-127, 128, (37, 256)).astype(np.int8)
    v = np.random.default_rng(3).integers(0, 256, (37, 256)).astype(np.uint8)
    m_scale, v_scale = (np.full((37, 1), scale, np.float32) for scale in (0.001, 0.002))
    rates = 1e-3, 0.1, 0.001
    moments = wide(m) * m_scale, wide(v) * v_scale
    truth = module.reference(wide(x), wide(g), *moments, *rates, **module.RATES)[0]

    def launch(g: Any, m: Any, m_scale: Any, v: Any, v_scale: Any, x: Any) -> None:
        module.adam(x, g, m, m_scale, v, v_scale, *rates, **module.RATES)

    return launch, [g, m, m_scale, v, v_scale, x], truth, 2e-6


def sparse_example(gradient: bool) -> Example:
    module = importlib.import_module("sparse")
    starts, rows, columns, values = module.matrix(20, 30, 12)
    x, g = random(30, 70, seed=2), random(20, 70, seed=3)
    if gradient:
        truth = (wide(g)[rows] * wide(x)[columns]).sum(1)
        return module.sampled_products, [rows, columns, g, x, room(len(rows))], truth, 1e-4
    truth = module.reference(rows, columns, wide(values), wide(x), 20)
    return module.sparse_times_dense, [starts, columns, values, x, room(20, 70)], truth, 1e-4


def radix_example() -> Example:
    module = importlib.import_module("radix_sort")
    keys = np.random.default_rng(0).integers(0, 1 << 32, 5001, np.uint32)
    counts, starts = (np.zeros((module.DIGITS, 20), np.int32) for _ in range(2))
    tensors = [counts, starts, np.zeros_like(keys), keys]
    return partial(module.radix_sort, BLOCK=256), tensors, np.sort(keys), 0


PORTS: dict[str, Callable[[], Example]] = {
    "mixture of experts": mixture_example,
    "gradient of a norm": norm_example,
    "gradient of attention's queries": partial(attention_example, "q"),
    "gradient of attention's values": partial(attention_example, "v"),
    "chunk scan": chunk_example,
    "sampling": partial(sampling_example, False),
    "sampling of the likeliest": partial(sampling_example, True),
    "adam": adam_example,
    "sparse": partial(sparse_example, False),
    "sparse, gradient": partial(sparse_example, True),
    "radix sort": radix_example,
}
