"""``gizml-tile explain``: the plan of a launch with its reasons, and what bounds its time."""

from __future__ import annotations

import argparse

from gizml_tile.cli import launches
from gizml_tile.cli.output import show


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    told = "also how long a launch on random tensors takes, on the CPU"
    parser.add_argument("--measure", action="store_true", help=told)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    launch = launches.launch(options)
    if options.measure:
        launch.fill()
        launch.named["measure"] = True
    show(launch.gridded.explain(**launch.named))
    return 0
