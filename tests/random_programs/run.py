"""Run many random programs: ``python tests/random_programs/run.py --count 10000 [--start 0]``.

Prints how many agreed with NumPy and how much of what they stored was known to the bit; for each that did
not, a small script that shows it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from execute import (
    Execute,
    Outcome,
    by_interpreter,
    by_simplified_interpreter,
    check,
    on_device,
    on_device_decorated,
)
from generate import generate
from render import reproduction
from shrink import shrink

RUNNERS = {
    "device": on_device,
    "decorated": on_device_decorated,
    "interpreter": by_interpreter,
    "simplified": by_simplified_interpreter,
}


def report(seed: int, outcome: Outcome, execute: Execute) -> str:
    """What went wrong, with the smallest program found that goes wrong in the same way."""

    def fails(candidate):
        try:
            return check(candidate, execute).kind == outcome.kind
        except Exception:  # simplified until it means nothing
            return False

    smaller = shrink(generate(seed), fails)
    smallest = check(smaller, execute).problem
    return f"seed {seed}: {outcome.problem}\nthe smallest: {smallest}\n{reproduction(smaller)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=10, help="failures to report before stopping")
    parser.add_argument("--on", choices=RUNNERS, default="device")
    options = parser.parse_args()
    execute = RUNNERS[options.on]
    stored = exact = unknown = done = 0
    failures = []
    begin = time.perf_counter()
    for seed in range(options.start, options.start + options.count):
        outcome = check(generate(seed), execute)
        done += 1
        stored, exact, unknown = stored + outcome.stored, exact + outcome.exact, unknown + outcome.unknown
        if outcome.problem:
            failures.append(seed)
            print(report(seed, outcome, execute), flush=True)
            if len(failures) >= options.stop_after:
                break
        if done % 1000 == 0:
            print(f"{done} programs, {time.perf_counter() - begin:.0f} s", flush=True)
    print(
        f"{done} programs, {len(failures)} failed {failures}, {time.perf_counter() - begin:.0f} s; of "
        f"{stored} elements stored {exact / max(stored, 1):.1%} had to agree to the bit, nothing was known "
        f"of {unknown / max(stored, 1):.1%}"
    )
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
