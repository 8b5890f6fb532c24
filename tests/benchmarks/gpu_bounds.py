"""How far measured launches are from what bounds them, as `explain` tells: a table of our kernels on one GPU.

    python tests/benchmarks/gpu_bounds.py

A launch that is faster than its bound shows that the bound is wrong, and ends the run.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

import checkout  # noqa: F401

BOUND = re.compile(r"bound by (?P<what>.*): (?P<bound>.*)\n +measured: (?P<time>.*), (?P<times>.*) times")
HEADER = ["| work | measured | bound | by | times the bound |", "|---|---|---|---|---|"]


def launches() -> Iterator[tuple[str, Any, list[Any], dict[str, object]]]:
    """Names, kernels, tensors and constants."""
    import gpu_kernels as ours
    import torch
    from gpu_work import random

    for n, rows, columns in ((8192, 128, 256), (4096, 128, 256), (2048, 128, 128), (1024, 128, 128)):
        square = [random(n, n) for _ in range(3)]
        yield f"matmul bf16 {n}", ours.matmul, square, {"BM": rows, "BN": columns}
    few = [random(16, 8192), random(8192, 8192), random(16, 8192)]
    yield "matmul bf16, 16 rows by 8192 x 8192", ours.matmul, few, {"BM": 16}
    f32 = [random(4096, 4096, dtype=torch.float32) for _ in range(3)]
    yield "matmul f32 4096", ours.matmul, f32, {"BK": 16, "warps": 8, "stages": 3}
    for depth in (128, 64):
        heads = [random(4, 16, 4096, depth) for _ in range(4)]
        for causal in (False, True):
            for approx in (False, True):
                name = f"attention bf16 D {depth}, S 4096{', causal' * causal}{', approx' * approx}"
                yield name, ours.attention_bf16, heads, {"D": depth, "CAUSAL": causal, "APPROX": approx}
    table = [random(16384, 4096) for _ in range(2)]
    yield "softmax bf16 4096", ours.softmax, table, {"COLUMNS": 4096}
    vectors = [random(1 << 28, dtype=torch.float32) for _ in range(2)]
    yield "copy f32 2^28", ours.copy, vectors, {}
    yield "transpose bf16 8192", ours.transpose, [random(8192, 8192) for _ in range(2)], {}


def main() -> int:
    os.environ["GIZML_TILE_CACHE"] = tempfile.mkdtemp(prefix="gizml-tile-")
    print(*HEADER, sep="\n")
    for name, kernel, tensors, constants in launches():
        text = kernel.explain(*tensors, measure=True, **constants)
        found = BOUND.search(text)
        if found is None:
            raise SystemExit(f"{name}: no measured bound in\n{text}")
        told = (name, *(found[each] for each in ("time", "bound", "what", "times")))
        print(f"| {' | '.join(told)} |", flush=True)
        if float(found["times"]) < 1:
            raise SystemExit(f"{name} is faster than its bound\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
