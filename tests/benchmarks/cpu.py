"""The CPU table: our kernels beside NumPy, PyTorch and Numba in one run.

    python tests/benchmarks/cpu.py [row ...] [--threads 1,2] [--quick] [--record]

Rows: matmul bf16 f16 fp8 few softmax layernorm gelu attention launch ports first. Each number of threads
runs in a process of its own. ``--record`` adds what was measured to RESULTS.md. Ratios above 1: ours is
faster.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
ROW_NAMES = "matmul bf16 f16 fp8 few softmax layernorm gelu attention launch ports".split()
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "GIZML_TILE_THREADS",
)
ROUNDS, BLOCK_SECONDS = 9, 0.15
QUICK_ROUNDS, QUICK_BLOCK_SECONDS = 3, 0.03


def child(rows: list[str], threads: int, quick: bool, rounds: int) -> None:
    """Measure rows in this process, one JSON line each."""
    from cpu_ports import ports
    from timing import measure
    from work import ROWS, torch

    if torch:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
    block = QUICK_BLOCK_SECONDS if quick else BLOCK_SECONDS
    for row in rows:
        for case in (ROWS | {"ports": ports})[row](quick):
            print(json.dumps(dataclasses.asdict(measure(case, threads, rounds, block))), flush=True)


def measured(rows: list[str], threads: int, quick: bool, rounds: int):
    """The lines that a process of its own prints, as they come."""
    from timing import Line

    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    } | dict.fromkeys(THREAD_VARIABLES, str(threads))
    command = [sys.executable, __file__, *rows, "--threads", str(threads), "--rounds", str(rounds), "--child"]
    process = subprocess.Popen(
        command + ["--quick"] * quick, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for text in process.stdout:
        if text.startswith("{"):
            yield Line(**json.loads(text))
    if process.wait():
        print(f"a process with {threads} threads ended with {process.returncode}", file=sys.stderr)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores"


def versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in ("numpy", "torch", "numba", "llvmlite"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def record(command: str, table: list[str]) -> None:
    """Add rows to RESULTS.md, below those of the same day, machine and command where there are some."""
    today = datetime.datetime.now(datetime.UTC).date()
    heading = f"## CPU, {today}: {processor()}\n\n`{command}`; "
    heading += f"Python {platform.python_version()}, {versions()}\n\n"
    known = RESULTS.read_text()
    if heading in known and "\n## " not in known.split(heading, 1)[1]:
        known += "\n".join(table[2:]) + "\n"
    else:
        known += "\n" + heading + "\n".join(table) + "\n"
    RESULTS.write_text(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="row", help=" ".join([*ROW_NAMES, "first"]))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}, or {QUICK_ROUNDS} where quick")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = options.rows or [*ROW_NAMES, "first"]
    for row in rows:
        if row not in (*ROW_NAMES, "first"):
            parser.error(f"no row {row}; there are {' '.join(ROW_NAMES)} first")
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    if options.child:
        child(rows, int(options.threads), options.quick, rounds)
        return
    print(f"{processor()}; {versions()}")
    table = ["| work | threads | ours | peers | ratio | error |", "|---|---|---|---|---|---|"]
    print("\n".join(table))
    timed = [row for row in rows if row != "first"]
    for row in timed:
        for threads in map(int, options.threads.split(",")):
            for line in measured([row], threads, options.quick, rounds):
                peers = ", ".join(f"{name} {line.shown(name)}" for name in line.ratios)
                ratios = ", ".join(f"{ratio:.2f}" for ratio in line.ratios.values())
                error = f"{line.error:.2g} of {line.allowed:.2g}"
                table.append(
                    f"| {line.name} | {line.threads} | {line.shown('ours')} | {peers} | {ratios} | {error} |"
                )
                print(table[-1], flush=True)
    if "first" in rows:
        from starts import first_launches

        for name, done, whole in first_launches(options.quick):
            table.append(f"| {name} | | {done:.1f} ms | with imports {whole:.0f} ms | | |")
            print(table[-1], flush=True)
    if options.record:
        shown = "python tests/benchmarks/cpu.py" + " --quick" * options.quick
        record(shown, table)


if __name__ == "__main__":
    main()
