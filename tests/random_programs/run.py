"""Run many random programs: ``python tests/random_programs/run.py --count 10000 [--start 0]``.

Prints how many agreed with NumPy and how much of what they stored was known to the bit; for each that did
not, a small script that shows it. Programs run in child processes, so that one that crashes is found too.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from execute import (
    Execute,
    OnSimulator,
    Outcome,
    by_interpreter,
    by_simplified_interpreter,
    check,
    on_device,
    on_device_decorated,
)
from generate import generate
from generate_products import generate_products
from programs import Program
from render import reproduction
from shrink import shrink

from gizml_tile.target import gpus

RUNNERS: dict[str, Execute] = {
    "device": on_device,
    "decorated": on_device_decorated,
    "interpreter": by_interpreter,
    "simplified": by_simplified_interpreter,
    **{target.arch: OnSimulator(target.arch) for target in gpus()},
}
GENERATORS: dict[str, Callable[[int], Program]] = {"everything": generate, "products": generate_products}
FORK = multiprocessing.get_context("fork")


@dataclasses.dataclass(frozen=True)
class Forced:
    """Programs that ask for a variant of an operation."""

    make: Callable[[int], Program]
    variant: tuple[str, str]

    def __call__(self, seed: int) -> Program:
        return dataclasses.replace(self.make(seed), variants=(self.variant,))


def outcomes(
    seeds: range, execute: Execute, make: Callable[[int], Program] = generate
) -> Iterator[tuple[int, Outcome]]:
    """The outcome of each seed; a child that dies is replaced and its seed has crashed."""
    position = seeds.start
    while position < seeds.stop:
        here, there = FORK.Pipe(duplex=False)
        left = range(position, seeds.stop)
        child = FORK.Process(target=_work, args=(left, execute, make, there), daemon=True)
        child.start()
        there.close()
        try:
            while position < seeds.stop:
                yield position, here.recv()
                position += 1
        except EOFError:
            child.join()
            yield position, Outcome(f"the process ended with {child.exitcode}", "crash")
            position += 1
        child.join()


def _work(seeds: range, execute: Execute, make: Callable[[int], Program], there: Connection) -> None:
    for seed in seeds:
        there.send(check(make(seed), execute))


def checked_apart(program: Program, execute: Execute) -> Outcome:
    """The outcome of one program in a process of its own."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_work_one, args=(program, execute, there))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return Outcome("the process ended", "crash")
    finally:
        child.join()


def _work_one(program: Program, execute: Execute, there: Connection) -> None:
    try:
        there.send(check(program, execute))
    except Exception as error:  # simplified until it means nothing
        there.send(Outcome(str(error), "meaningless"))


def report(program: Program, outcome: Outcome, execute: Execute) -> str:
    """What went wrong, with the smallest program found that goes wrong in the same way."""

    def fails(candidate: Program) -> bool:
        return checked_apart(candidate, execute).kind == outcome.kind

    smaller = shrink(program, fails)
    smallest = checked_apart(smaller, execute).problem
    return f"seed {program.seed}: {outcome.problem}\nthe smallest: {smallest}\n{reproduction(smaller)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=10, help="failures to report before stopping")
    parser.add_argument("--on", choices=RUNNERS, default="device")
    parser.add_argument("--of", choices=GENERATORS, default="everything")
    parser.add_argument("--variant", nargs=2, metavar=("OPERATION", "NAME"), help="that a GPU must use")
    options = parser.parse_args()
    execute, make = RUNNERS[options.on], GENERATORS[options.of]
    if options.variant:
        make = Forced(make, tuple(options.variant))
    stored = exact = unknown = done = refused = 0
    failures = []
    begin = time.perf_counter()
    for seed, outcome in outcomes(range(options.start, options.start + options.count), execute, make):
        done += 1
        stored, exact, unknown = stored + outcome.stored, exact + outcome.exact, unknown + outcome.unknown
        refused += outcome.kind == "refused"
        if outcome.problem:
            failures.append(seed)
            print(report(make(seed), outcome, execute), flush=True)
            if len(failures) >= options.stop_after:
                break
        if done % 500 == 0:
            print(f"{done} programs, {time.perf_counter() - begin:.0f} s", flush=True)
    print(
        f"{done} programs, {len(failures)} failed {failures}, {refused} refused by the device, "
        f"{time.perf_counter() - begin:.0f} s; of "
        f"{stored} elements stored {exact / max(stored, 1):.1%} had to agree to the bit, nothing was known "
        f"of {unknown / max(stored, 1):.1%}"
    )
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
