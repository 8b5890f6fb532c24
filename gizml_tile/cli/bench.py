"""``gizml-tile bench``: how long launches on random tensors take, beside what the device reaches at most."""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Iterator

from gizml_tile import placing
from gizml_tile.ceilings import MEMORY, ceilings
from gizml_tile.cli import devices, launches, output, person
from gizml_tile.cli.launches import Launch
from gizml_tile.cli.misuse import Misuse, near
from gizml_tile.cli.reports import Bench, Rate
from gizml_tile.dtypes import F32, DType
from gizml_tile.looking import Benchmark
from gizml_tile.target import KINDS
from gizml_tile.text import duration

_SECONDS, _MOST_RUNS = 1.0, 1000
_OTHERS = "others"
_UNITS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    parser.add_argument(
        "-d", "--device", default="cpu", help="where to launch: cpu (the default), cuda or such as cuda:1"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=_SECONDS,
        metavar="S",
        help=f"measure for so long, but at most {_MOST_RUNS} launches (default: {_SECONDS})",
    )
    parser.add_argument("--no-ceilings", action="store_true", help="do not measure what the device reaches")
    launches.describe_seed(parser)
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    device = _device(options.device)
    launch = launches.launch(options)
    with output.steps(2 if options.no_ceilings else 4) as step, person.running():
        step("filling tensors")
        launch.fill(options.seed)
        step(f"launching {launch.name} on {device}")
        with placing.on(device) as place:
            values, named = launch.placed(place)
            found = launch.gridded.bench(options.seconds, _MOST_RUNS, *values, **named)
        if not found.seconds:
            raise Misuse("there is nothing to measure: the grid or what is written is empty")
        known = {} if options.no_ceilings else _ceilings(device, found, step)
    report = _report(launch, device, found, known)
    if options.json:
        output.put_json(report)
    else:
        _print(report)
    return 0


def _device(text: str) -> str:
    kind, colon, number = text.partition(":")
    if kind not in KINDS:
        raise Misuse(f"there is no device {text}{near(kind, KINDS)}; kinds are {', '.join(KINDS)}")
    if colon and (kind == "cpu" or not number.isdecimal()):
        raise Misuse(f"there is no device {text}; write cpu, or a GPU such as cuda:0")
    return text if colon or kind == "cpu" else f"{kind}:0"


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return found


def _ceilings(device: str, found: Benchmark, step: Callable[[str], None]) -> dict[str, float]:
    """The device's ceilings of what a launch does, by name."""
    types = () if found.counts is None else tuple(found.counts.products)
    names = {each.text: each for each in DType}
    # TF32 is a way to multiply F32, and its ceiling is measured with neither.
    wanted = dict.fromkeys(names[name] for name in (*types, F32.text) if name in names)
    known = {}
    with warnings.catch_warnings():
        # Our own launches are nobody's concern.
        warnings.simplefilter("ignore")
        measured = ceilings(device, tuple(wanted))
        step(f"measuring the memory of {device}")
        for each in measured:
            known[each.name] = each.rate
            if each.name == MEMORY:
                step(f"measuring products on {device}")
    return known


def _report(launch: Launch, device: str, found: Benchmark, known: dict[str, float]) -> Bench:
    runs = sorted(found.seconds)
    median = statistics.median(runs)
    lower, _, upper = statistics.quantiles(runs, n=4, method="inclusive")
    rates = tuple(_rates(found, median, known))
    least = max((each.least_seconds for each in rates), default=0)
    return Bench(
        launch.name,
        device,
        devices.name_of(device),
        found.target.arch,
        found.grid,
        len(runs),
        median,
        (lower, upper),
        runs[0],
        runs[-1],
        rates,
        least or None,
        None if found.bound is None else found.bound.seconds,
    )


def _rates(found: Benchmark, median: float, known: dict[str, float]) -> Iterator[Rate]:
    counts = found.counts
    if counts is None:
        return
    amounts = {MEMORY: counts.read + counts.written, **counts.products, _OTHERS: counts.others}
    for name, amount in amounts.items():
        if amount:
            ceiling = known.get(F32.text if name == _OTHERS else name)
            yield Rate(name, float(amount), amount / median, ceiling)


def _print(report: Bench) -> None:
    grid = " x ".join(map(str, report.grid))
    print(f"{report.kernel} on {report.device} ({report.name}): {report.runs} launches on a grid of {grid}")
    lower, upper = map(duration, report.quartile_seconds)
    fastest, slowest = duration(report.fastest_seconds), duration(report.slowest_seconds)
    spread = f"half of them from {lower} to {upper}, all from {fastest} to {slowest}"
    output.lines([(f"median {duration(report.median_seconds)}, {spread}", "bold")])
    if not report.rates:
        print("what a launch does is not known, as the turns of its loops follow from data")
    else:
        output.gap()
        heads = ("", "a launch", "achieved", "ceiling", "share")
        output.table(heads, [_row(rate) for rate in report.rates], (1, 2, 3, 4))
        if any(rate.name == MEMORY and rate.is_above for rate in report.rates):
            print("more than the memory gives: the tensors are small enough for caches to hold them")
    for told, bound in (
        ("at these ceilings", report.ceiling_bound_seconds),
        ("by explain", report.explained_bound_seconds),
    ):
        if bound:
            times = report.median_seconds / bound
            print(f"the least {told}: {duration(bound)}; the median is {times:.2f} times that")


def _row(rate: Rate) -> tuple[str, ...]:
    if rate.name == MEMORY:
        what, unit = "memory", "B"
    elif rate.name == _OTHERS:
        what, unit = "other operations", "OP"
    else:
        what, unit = f"{rate.name} products", "OP"
    ceiling = share = ""
    if rate.ceiling_per_second:
        ceiling = f"{_scaled(rate.ceiling_per_second, unit)}/s"
        share = f"{rate.per_second / rate.ceiling_per_second:.0%}"
    return what, _scaled(rate.amount, unit), f"{_scaled(rate.per_second, unit)}/s", ceiling, share


def _scaled(number: float, unit: str) -> str:
    """A number in the unit that suits it, such as ``1.21 TOP``."""
    prefix, scale = next((each for each in _UNITS if number >= each[1]), _UNITS[-1])
    return f"{number / scale:.3g} {prefix}{unit}"
