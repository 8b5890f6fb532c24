"""``gizml-tile explain``: the plan of a launch with its reasons, and what bounds its time."""

from __future__ import annotations

import argparse

from gizml_tile import gpu, placing
from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.launches import Launch
from gizml_tile.cli.reports import Cost, Explained, Line, Resource, Section, Variant, Variants
from gizml_tile.lowering.explanation import Explanation
from gizml_tile.target import Target


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    targets.describe(parser)
    told = "also how long a launch on random tensors takes, on the CPU or the first GPU of the kind"
    parser.add_argument("--measure", action="store_true", help=told)
    launches.describe_seed(parser)
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    target = targets.one(options)
    launch = launches.launch(options)
    with output.steps(1) as step, person.running():
        step(f"planning for {target}")
        if options.measure:
            target, found = _measured(launch, target, options)
        else:
            found = launch.gridded.explanation(*launch.values, **launch.on(target))
    if options.json:
        output.put_json(_report(launch.name, target, found))
    else:
        output.show(str(found), "plan")
    return 0


def _measured(launch: Launch, target: Target, options: argparse.Namespace) -> tuple[Target, Explanation]:
    """The plan with the time that a launch takes, and its target: unless one is named, the device's own."""
    device = "cpu" if target.kind == "cpu" else f"{target.kind}:0"
    with placing.on(device) as place:
        if target.kind != "cpu" and not options.arch:
            target = gpu.target_of(device, 0)
        launch.fill(options.seed)
        values, named = launch.placed(place)
        named |= {"kind": target.kind, "arch": target.arch, "measure": True}
        return target, launch.gridded.explanation(*values, **named)


def _report(name: str, target: Target, found: Explanation) -> Explained:
    decisions = tuple(
        Variants(
            Line.of(each.place),
            each.operation,
            each.what,
            each.choice.chosen,
            tuple(Variant(one.name, one.accepted, one.reason) for one in each.choice.candidates),
        )
        for each in found.decisions
    )
    costs = tuple(
        Cost(Line.of(each.place), each.kind, each.text, each.fix, each.seconds, each.share)
        for each in found.costs
    )
    spent = () if found.bound is None else tuple(Resource(*each) for each in found.bound.spent.items())
    sections = tuple(Section(each.title, each.lines) for each in found.sections)
    return Explained(name, target.kind, target.arch, sections, decisions, costs, spent, found.measured)
