"""``gizml-tile check``: a launch traced, compiled and run on random tensors, on simulated GPUs.

========  ==================================================================================================
status 0  no mistake was found
status 1  a mistake: an error of the trace or of a plan, a race, a bad read, a check of the kernel's own, ...
status 2  the command is wrong
status 3  with ``--strict``: no mistake, but a warning or a cost (a bank conflict, an uncoalesced access),
          or a launch that is too large to be run
========  ==================================================================================================
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout

from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.launches import Launch
from gizml_tile.cli.reports import Check, Checked, Found, Line
from gizml_tile.errors import TileError
from gizml_tile.target import Target

_OK, _WRONG, _SLOW = 0, 1, 3
# Larger launches than this would take minutes to simulate.
_SIMULATED_ELEMENTS = 1 << 22
_WORDS = {"wrong": "error", "warning": "warning", "cost": "cost"}
_STYLES = {"wrong": "red", "warning": "yellow", "cost": "yellow"}
_RAN = {"no": "compiled", "run": "run", "simulated": "simulated"}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    targets.describe(parser, several=True)
    launches.describe_seed(parser)
    strict = "status 3 for warnings, costs and launches that are too large to be run"
    parser.add_argument("--strict", action="store_true", help=strict)
    parser.add_argument("--no-run", action="store_true", help="only trace and compile")
    output.describe(parser)
    parser.epilog = (
        "On the CPU a launch is run; races, bad reads and costs are found where a GPU is simulated. "
        "Status 0: no mistake was found. 1: a mistake in the program. 2: a mistake in the command. "
        "3: with --strict, something to look at."
    )


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    chosen = targets.chosen(options)
    launch = launches.launch(options)
    checked = []
    with output.steps(2 * len(chosen)) as step:
        for target in chosen:
            checked.append(_checked(launch, target, options, step))
    if any(each.count("wrong") for each in checked):
        status = _WRONG
    else:
        status = _SLOW if options.strict and any(map(_is_doubtful, checked)) else _OK
    report = Check(launch.name, options.seed, options.strict, status, tuple(checked))
    if options.json:
        output.put_json(report)
    else:
        output.lines([line for each in checked for line in _told(launch.name, each)])
    return status


def _is_doubtful(checked: Checked) -> bool:
    return bool(checked.found or checked.why)


def _checked(
    launch: Launch, target: Target, options: argparse.Namespace, step: Callable[[str], None]
) -> Checked:
    """A launch checked for one target."""
    found: list[Found] = []
    printed = io.StringIO()
    ran, why = "no", ""
    step(f"compiling for {target}")
    with warnings.catch_warnings(record=True) as warned, person.running():
        warnings.simplefilter("always")
        try:
            launch.gridded.check(*launch.values, **launch.on(target))
            why = _why_not(launch, options)
            step(f"running on {'the' if target.kind == 'cpu' else 'a simulated'} {target}")
            if not why and not options.no_run:
                launch.fill(options.seed)
                with redirect_stdout(printed):
                    found += _run(launch, target)
                ran = "run" if target.kind == "cpu" else "simulated"
        except TileError as error:
            place = person.place_of(error)
            excerpt = str(error).partition("\n")[2] if place else ""
            found.append(Found("error", "wrong", Line.of(place), error.message, excerpt, 1))
    noted = [
        Found("warning", "warning", Line(each.filename, each.lineno, 0), str(each.message), "", 1)
        for each in warned
    ]
    # What is noted while it compiles is noted again while it runs.
    return Checked(target.kind, target.arch, ran, why, (*dict.fromkeys(noted), *found), printed.getvalue())


def _why_not(launch: Launch, options: argparse.Namespace) -> str:
    """Why a launch is not run."""
    size = sum(item.size for item in launch.tensors)
    if options.no_run or size <= _SIMULATED_ELEMENTS:
        return ""
    return f"the tensors have {size} elements, more than {_SIMULATED_ELEMENTS}; describe smaller ones"


def _run(launch: Launch, target: Target) -> Iterator[Found]:
    if target.kind == "cpu":
        launch.gridded(*launch.values, **launch.named, debug=True)
        return
    simulation = launch.gridded.simulate(*launch.values, **launch.on(target), debug=True)
    for each in simulation.findings:
        severity = "cost" if each.is_cost else "wrong"
        yield Found(each.kind, severity, Line.of(each.place), each.told, "", each.count)


def _told(name: str, checked: Checked) -> Iterator[tuple[str, str]]:
    """The lines of a target, with their styles."""
    if checked.printed:
        yield checked.printed.rstrip("\n"), ""
    for each in checked.found:
        yield f"{each.place or name}: {each.kind}: {each.text}", _STYLES[each.severity]
        if each.excerpt:
            yield each.excerpt, ""
    counts = [_count(checked.count(severity), word) for severity, word in _WORDS.items()]
    more = f"not run: {checked.why}" if checked.why else _RAN[checked.ran]
    worst = next((_STYLES[severity] for severity in _WORDS if checked.count(severity)), "green")
    yield f"{name} for {checked.kind} ({checked.arch}): {', '.join(counts)}; {more}", worst


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
