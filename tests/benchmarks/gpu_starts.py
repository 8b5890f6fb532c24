"""First launches on a GPU in a process of their own, by stages: cold, and from the disk cache.

    python tests/benchmarks/gpu_starts.py KERNEL

prints a JSON line of one launch: milliseconds of each stage, of all but the assembler and the driver's
loading, and of everything with the imports. No library but NumPy and cuda-python is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

KERNELS = ("copy", "softmax", "matmul", "attention")
# Whose time a stage is: a function of ours by module and name. What it calls of others is theirs.
STAGES = {
    "rewrite": ("gizml_tile.frontend", "rewrite"),
    "trace": ("gizml_tile.specialise", "trace"),
    "simplify": ("gizml_tile.lowering.tile_passes.pipeline", "simplify"),
    "plan": ("gizml_tile.lowering.planning.planner", "plan"),
    "expand": ("gizml_tile.lowering.expand.kernel", "expand"),
    "emit": ("gizml_tile.lowering.emit.ptx", "emit"),
    "assembler": ("gizml_tile.runtime.cuda.assembler", "assemble"),
    "load": ("gizml_tile.runtime.cuda.kernel", "load"),
}
NOT_OURS = ("assembler", "load")
WARM = "gelu"


class Memory:
    """A GPU's memory as a tensor that only has CUDA's array interface."""

    def __init__(self, kind: str, *shape: int) -> None:
        from cuda.bindings import driver

        count = int(kind[-1])
        for size in shape:
            count *= size
        status, pointer = driver.cuMemAlloc(count)
        assert int(status) == 0, status
        driver.cuMemsetD8(pointer, 0, count)
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": kind,
            "data": (int(pointer), False),
            "version": 3,
        }


def arguments(name: str) -> tuple[list[Memory], dict[str, int]]:
    """The tensors and constants of a launch."""
    f2, f4 = "<f2", "<f4"
    if name == "attention":
        return [Memory(f2, 1, 2, 256, 64) for _ in range(4)], {}
    shapes = {
        "copy": [(f4, 4096)] * 2,
        "gelu": [(f2, 64, 2048), (f2, 2048), (f2, 2048), (f2, 64, 2048)],
        "softmax": [(f2, 64, 4096)] * 2,
        "matmul": [(f2, 512, 512)] * 3,
    }
    constants = {"softmax": {"COLUMNS": 4096}, "matmul": {"BM": 128, "BN": 128, "BK": 32}}
    return [Memory(kind, *shape) for kind, *shape in shapes[name]], constants.get(name, {})


class Watch:
    """How long stages take, each without the stages that it calls."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inside = [0.0]

    def timed(self, stage: str, function: Callable) -> Callable:
        def call(*args, **named):
            start = time.perf_counter()
            self._inside.append(0.0)
            try:
                return function(*args, **named)
            finally:
                whole = time.perf_counter() - start
                self.spent[stage] = self.spent.get(stage, 0.0) + whole - self._inside.pop()
                self._inside[-1] += whole

        return call


def one(name: str, warm: bool) -> dict[str, float]:
    """The first launch of a kernel in this process, in milliseconds."""
    from cuda.bindings import driver

    driver.cuInit(0)
    _, handle = driver.cuDeviceGet(0)
    _, context = driver.cuDevicePrimaryCtxRetain(handle)
    driver.cuCtxSetCurrent(context)
    tensors, constants = arguments(name)
    others, _ = arguments(WARM)
    begin = time.perf_counter()
    sys.path.insert(0, str(Path(__file__).parents[1] / "device"))
    import checkout  # noqa: F401
    import gpu_kernels

    watch = Watch()
    if warm:
        import importlib

        getattr(gpu_kernels, WARM)(*others)
        for stage, (module, function) in STAGES.items():
            place = importlib.import_module(module)
            setattr(place, function, watch.timed(stage, getattr(place, function)))
        begin = time.perf_counter()
    getattr(gpu_kernels, name)(*tensors, **constants)
    whole = time.perf_counter() - begin
    assert int(driver.cuCtxSynchronize()[0]) == 0
    foreign = sum(watch.spent.get(stage, 0.0) for stage in NOT_OURS)
    stages = {**watch.spent, "other": whole - sum(watch.spent.values()), "ours": whole - foreign}
    return {stage: 1e3 * seconds for stage, seconds in (stages | {"whole": whole}).items()}


def in_a_process(name: str, cache: str, warm: bool) -> dict[str, float]:
    environment = os.environ | {"GIZML_TILE_CACHE": cache, "CUDA_CACHE_DISABLE": "1"}
    command = [sys.executable, __file__, name, *["--warm"] * warm]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def rounds_of(name: str, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Cold and cached launches with imports done, and the same with them."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "cached": [], "cold+": [], "cached+": []}
    for _ in range(rounds):
        for warm, more in ((True, ""), (False, "+")):
            with tempfile.TemporaryDirectory() as folder:
                for start in ("cold", "cached"):
                    found[start + more].append(in_a_process(name, folder, warm))
    return found


def rows(quick: bool) -> Iterator[str]:
    """The rows of the table, medians over processes; kernels are measured beside one another."""
    names, rounds = (KERNELS[:2], 1) if quick else (KERNELS, 2)
    with ThreadPoolExecutor(len(names)) as pool:
        for name, found in zip(names, pool.map(lambda name: rounds_of(name, rounds), names), strict=True):
            yield _row(name, "cold", found)
            yield _row(name, "cached", found)


def _row(name: str, start: str, found: dict[str, list[dict[str, float]]]) -> str:
    stages = {stage: median(each.get(stage, 0.0) for each in found[start]) for stage in found[start][0]}
    whole = median(each["whole"] for each in found[f"{start}+"])
    shown = ", ".join(
        f"{stage} {spent:.1f}"
        for stage, spent in stages.items()
        if stage not in ("ours", "whole") and spent >= 0.05
    )
    how = {"cold": "cold", "cached": "from the disk cache"}[start]
    ours = f"{stages['ours']:.1f} ms, with imports {whole:.0f}"
    return f"| first launch of {name}, {how} | {ours} | {shown} | | |"


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1], "--warm" in sys.argv)))
