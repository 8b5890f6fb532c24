"""``gizml-tile source``: the code that a launch runs."""

from __future__ import annotations

import argparse

from gizml_tile.cli import launches
from gizml_tile.cli.output import show


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    launch = launches.launch(options)
    show(launch.gridded.source(**launch.named), "llvm")
    return 0
