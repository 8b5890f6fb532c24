"""Everything that is launched on a real GPU, and whether it is right: python tests/device/check.py

    [what ...] [--programs 600] [--jobs 14]  example product rows attention corpus random part, or part of a
                                             task's name (pattern: those of examples/patterns.py); all
                                             by default
    --sanitize [what ...]                    small launches in this process, for compute-sanitizer --tool
                                             memcheck --report-api-errors no, and for --tool racecheck
    --keep FILE                              write the CPU's results of the corpus, on whatever machine
    --results FILE                           compare with those instead of launches on this CPU
    --keep-model                             write what the sentence embeddings need of the real model

Every launch is made twice with equal bits. Elements whose bits the language settles agree with the CPU's,
products and sums with float64 or the CPU's within the language's bounds, random programs with NumPy.
Needs PyTorch and cuda-python; CuPy, JAX and Numba where their tensors are checked.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import os
import pickle
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import workers

TESTS = Path(__file__).parents[1]
for folder in ("gpu", "random_programs", "examples", "../examples", "pages", ""):
    sys.path.insert(0, str((TESTS / folder).resolve()))
# What this process makes is what is tested, so none comes from the disk cache.
os.environ.setdefault("GIZML_TILE_CACHE", "off")
TASK_SECONDS = 60
SANITIZED = """
logarithms; waves; powers; roundings; bits; by chance; dropout; noise by columns;
add f32; functions; bias gelu bf16; integers i4; conversions; masks; branches; in place; 4-D views back;
broadcast and turned views; transpose bf16 128 x 192; transpose of inside; windows; softmax f32 9 x 200;
softmax bf16 4 x 1024; online softmax bf16; layernorm f32 300; rmsnorm bf16; columns F; both ways;
cross entropy; whole; matmul bf16 x bf16 ragged CC; matmul bf16 x bf16 whole FF; matmul f32 x f32 ragged CF;
matmul i1 x i1 whole CF; matmul fp8 x fp8; matmul 8 warps, 3 stages; matmul 2 stages of f32;
batched matmul bf16; gated; quantised i1; normalised bf16; attention bf16 64; attention f32 32;
convolution bf16; far padded bf16
"""


def do(task: workers.Task, device: str, results: str) -> str:
    """One task, in whatever process."""
    warnings.simplefilter("ignore")  # programs count what lies past ragged ends on purpose
    kind, what = task
    if kind == "part":
        import parts

        return parts.PARTS[what]()
    import corpus

    return corpus.do(task, device, results)


def report(found: Any) -> None:
    for outcome in found:
        if outcome.problem:
            kind, what = outcome.task
            print(f"FAILED {kind} {what}: {' '.join(outcome.problem.split())[:600]}", flush=True)
        elif outcome.task[0] in ("part", "rows", "attention", "product"):
            print(
                f"ok     {outcome.task[0]} {outcome.task[1]}: {outcome.note} ({outcome.seconds:.1f} s)",
                flush=True,
            )
        yield outcome


def summary(found: list[workers.Outcome], seconds: float) -> int:
    """Print how many of each kind were right; how many were not."""
    kinds = collections.Counter(outcome.task[0] for outcome in found)
    failed = collections.Counter(outcome.task[0] for outcome in found if outcome.problem)
    refused = collections.Counter(outcome.task[0] for outcome in found if outcome.note == "refused")
    for kind, count in kinds.items():
        too_large = f", {refused[kind]} too large for the device" if refused[kind] else ""
        print(f"{kind}: {count - failed[kind]} of {count} right{too_large}")
    print(f"{sum(kinds.values())} tasks, {sum(failed.values())} failed, {seconds:.0f} s")
    return sum(failed.values())


def here(tasks: list[workers.Task], device: str, results: str) -> Any:
    """Tasks one after the other in this process."""
    for task in tasks:
        start, problem, note = time.perf_counter(), "", ""
        try:
            note = do(task, device, results)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        yield workers.Outcome(task, problem, note, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*", help="kinds of tasks, or parts of their names")
    parser.add_argument("--programs", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--device", default="cuda", help="cpu checks this script itself")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--results", default="")
    parser.add_argument("--keep-model", action="store_true")
    options = parser.parse_args()
    if options.sanitize:
        # Every tensor has memory of its own, so that what lies beside it is nobody's.
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import corpus
    import parts

    if options.keep:
        warnings.simplefilter("ignore")
        results = {name: corpus.on_the_cpu(name) for name in corpus.CASES}
        Path(options.keep).write_bytes(gzip.compress(pickle.dumps(results)))
        return
    if options.keep_model:
        parts.keep_model()
        return
    # What takes longest goes first.
    tasks = [("part", name) for name in parts.PARTS] if options.device != "cpu" else []
    tasks += corpus.tasks(options.programs)
    if options.sanitize:
        sanitized = {" ".join(name.split()) for name in SANITIZED.split(";")}
        tasks = [task for task in tasks if task[0] == "example" or task[1] in sanitized]
    if options.what:
        tasks = [
            task
            for task in tasks
            if any(task[0].startswith(each) or each in str(task[1]) for each in options.what)
        ]
    start = time.perf_counter()
    if options.sanitize or options.jobs == 1:
        found = here(tasks, options.device, options.results)
    else:
        job = partial(do, device=options.device, results=options.results)
        found = workers.outcomes(tasks, job, min(options.jobs, len(tasks)), TASK_SECONDS)
    failed = summary(list(report(found)), time.perf_counter() - start)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
