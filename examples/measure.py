"""What the examples share: check a result against float64, and time it beside other libraries."""

import statistics
import sys
import time

import numpy as np

try:
    import torch
except ImportError:  # the examples say what they can without it
    torch = None


def random(*shape, seed=0):
    """Normally distributed float32 numbers: timing zeros would flatter some devices."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def check(name, result, truth, bound):
    """Stop unless every element of ``result`` is within ``bound`` (a number or an array) of ``truth``."""
    error = np.abs(np.asarray(result, np.float64) - truth)
    worst = float(np.max(error, initial=0.0))
    if not np.all(error <= bound):
        raise SystemExit(f"{name}: WRONG, off by {worst:.3g} where {np.max(bound):.3g} is allowed")
    print(f"{name}: right, at most {worst:.2g} from float64")


def same_bits(name, one, other):
    """Stop unless two float32 arrays hold the same bits."""
    if not np.array_equal(one.view(np.uint32), other.view(np.uint32)):
        raise SystemExit(f"{name}: the decorated and the explicit program differ")


def seconds(call, least=0.02):
    """Seconds that one call takes, over enough calls in a row to fill ``least`` seconds."""
    for _ in range(3):  # what a first launch makes is kept from the third on
        call()
    count, spent = 0, 0.0
    start = time.perf_counter()
    while count == 0 or spent < least:
        call()
        count += 1
        spent = time.perf_counter() - start
    return spent / count


def compare(title, work, unit, ours, quick=False, **peers):
    """Print the speed of ``ours`` and of each peer, ``work`` in ``unit`` per second, in one line.

    The candidates take turns and the medians are printed. Libraries keep their threads spinning for a
    while after a call, so each turn starts after a pause.
    """
    calls = {"gizml_tile": ours} | peers
    times = {name: [] for name in calls}
    for _ in range(1 if quick else 7):
        for name, call in calls.items():
            time.sleep(0 if quick else 0.1)
            times[name].append(seconds(call, 0.001 if quick else 0.02))
    rates = {name: work / statistics.median(values) for name, values in times.items()}
    shown = ", ".join(f"{name} {rate:.4g}" for name, rate in rates.items())
    print(f"{title}: {shown} {unit}")


def run(main):
    """Call an example's ``main``; ``--quick`` on the command line asks for small sizes."""
    main(quick="--quick" in sys.argv[1:])
