"""How long a first launch takes: cold, from the disk cache, with imports done and with them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {
    "vector_add": "vector_add(x, x, y)",
    "softmax": "softmax(x2, y2, COLUMNS=64)",
    "matmul": "matmul(x2, x2, x, y2)",
    "attention": "attention(x4, x4, x4, y4)",
}
# The timed process. Another kernel goes first where imports are not to be counted.
SCRIPT = """
import sys, time
import numpy as np
sys.modules["torch"] = None  # the examples do without, and its import is none of ours
sys.path.insert(0, {examples!r})
x, y = np.random.rand(64).astype(np.float32), np.empty(64, np.float32)
x2, y2 = np.random.rand(64, 64).astype(np.float32), np.empty((64, 64), np.float32)
x4, y4 = np.random.rand(1, 1, 64, 64).astype(np.float32), np.empty((1, 1, 64, 64), np.float32)
if {warm!r}:
    from transpose import transpose
    transpose(x2, y2)
start = time.perf_counter()
from {kernel} import {kernel}
{call}
print(time.perf_counter() - start)
"""


def first_launch(kernel: str, cache: str, warm: bool) -> float:
    """Seconds of the first launch of a kernel in a process of its own."""
    script = SCRIPT.format(examples=str(EXAMPLES), kernel=kernel, call=KERNELS[kernel], warm=warm)
    environment = os.environ | {"GIZML_TILE_CACHE": cache}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return float(result.stdout.strip().splitlines()[-1])


def first_launches(quick: bool) -> list[tuple[str, float, float]]:
    """(what, milliseconds with imports done, milliseconds with imports), medians over processes."""
    lines = []
    times = 1 if quick else 5
    for kernel in KERNELS:
        cold: dict[bool, list[float]] = {True: [], False: []}
        cached: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(times):
            for warm in (True, False):
                with tempfile.TemporaryDirectory() as folder:
                    cold[warm].append(first_launch(kernel, folder, warm))
                    cached[warm].append(first_launch(kernel, folder, warm))
        for what, found in (("cold", cold), ("from the disk cache", cached)):
            medians = [1e3 * statistics.median(found[warm]) for warm in (True, False)]
            lines.append((f"first launch of {kernel}, {what}", *medians))
    return lines
