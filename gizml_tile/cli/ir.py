"""``gizml-tile ir``: the tile IR of a launch, for a GPU with the layout of each tile."""

from __future__ import annotations

import argparse

from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.reports import Text


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    targets.describe(parser)
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    target = targets.one(options)
    launch = launches.launch(options)
    with output.steps(1) as step, person.running():
        step(f"compiling for {target}")
        text = launch.gridded.ir(*launch.values, **launch.on(target))
    report = Text(launch.name, target.kind, target.arch, "tile IR", text)
    if options.json:
        output.put_json(report)
    else:
        output.show(text, "tile-ir")
    return 0
