"""The GPU table: our kernels beside PyTorch's and Triton's in one run on one GPU.

    python tests/benchmarks/gpu.py [row ...] [--quick] [--seconds 120] [--record]

Rows: copy add gelu softmax layernorm rmsnorm transpose f32 f64 bf16 sizes few odd fp8 epilogues prologues
attention variants ports launch first. Every result is checked against float64 and for equal bits before it
is timed. Ratios above 1: ours is faster.
``--record`` adds the table to RESULTS.md.
A row that takes longer than its time is ended with the process, in case its kernel hangs.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

import checkout  # noqa: F401

RESULTS = Path(__file__).with_name("RESULTS.md")
ROW_NAMES = (
    "copy add gelu softmax layernorm rmsnorm transpose f32 f64 bf16 sizes few odd fp8 epilogues prologues "
    "attention variants ports launch first"
).split()
ROW_SECONDS = 120
HEADER = ["| work | ours | peers | ratio | error |", "|---|---|---|---|---|"]


def end_in(seconds: float, row: str) -> threading.Timer:
    """End the process after so long, with the place where it stands."""

    def end() -> None:
        print(f"{row} takes longer than {seconds} s, which a hung kernel would", flush=True)
        faulthandler.dump_traceback()
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def table_rows(row: str, quick: bool) -> Iterator[str]:
    """The table's lines of one row."""
    if row == "first":
        import gpu_starts

        yield from gpu_starts.rows(quick)
    elif row == "launch":
        import gpu_launches

        yield from (line.row() for line in gpu_launches.lines(quick))
    else:
        from gpu_fused import epilogue_rows, prologue_rows
        from gpu_ports import port_rows
        from gpu_timing import measure
        from gpu_variants import variant_rows
        from gpu_work import ROWS

        more = {"epilogues": epilogue_rows, "prologues": prologue_rows, "variants": variant_rows}
        refused = []
        for case in (ROWS | more | {"ports": port_rows})[row](quick):
            try:
                yield from [line.row() for line in measure(case)]
            except RuntimeError as error:
                refused.append(str(error))
        if refused:
            raise RuntimeError("; ".join(refused))


def machine() -> str:
    import torch

    versions = [f"Python {platform.python_version()}", f"torch {torch.__version__}"]
    try:
        import triton

        versions.append(f"triton {triton.__version__}")
    except ImportError:
        versions.append("no triton")
    # The first part of its number tells one GPU from another.
    name, number = torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).uuid
    return f"{name} {str(number).partition('-')[0]}; {', '.join(versions)}"


def record(command: str, table: list[str]) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    with open(RESULTS, "a") as file:
        file.write(f"\n## GPU, {today}: {machine()}\n\n`{command}`\n\n" + "\n".join(table) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="row", help=" ".join(ROW_NAMES))
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--seconds", type=float, default=ROW_SECONDS, help="the time that a row may take")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    rows = options.rows or ROW_NAMES
    for row in rows:
        if row not in ROW_NAMES:
            parser.error(f"no row {row}; there are {' '.join(ROW_NAMES)}")
    import torch

    if not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA GPU")
    torch.set_grad_enabled(False)
    print(machine())
    table, failed = list(HEADER), 0
    print("\n".join(table), flush=True)
    for row in rows:
        timer, start = end_in(options.seconds, row), time.perf_counter()
        try:
            for line in table_rows(row, options.quick):
                table.append(line)
                print(line, flush=True)
        except Exception as error:  # the other rows are still worth having
            failed += 1
            table.append(f"| {row} | failed: {' '.join(str(error).split())} | | | |")
            print(table[-1], flush=True)
        timer.cancel()
        torch.cuda.empty_cache()
        print(f"({row}: {time.perf_counter() - start:.1f} s)", file=sys.stderr, flush=True)
    if options.record:
        record(
            " ".join(["python tests/benchmarks/gpu.py", *options.rows, *["--quick"] * options.quick]), table
        )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
