"""``gizml-tile view``: a page for the browser that shows what becomes of each line of a kernel."""

from __future__ import annotations

import argparse
from pathlib import Path

from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.misuse import Misuse


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    targets.describe(parser)
    told = "the file to write, by default the kernel's name with .html; - prints the page"
    parser.add_argument("-o", "--output", metavar="FILE", help=told)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    target = targets.one(options)
    launch = launches.launch(options)
    with output.steps(1) as step, person.running():
        step(f"compiling for {target}")
        page = launch.gridded.view(*launch.values, **launch.on(target))
    if options.output == "-":
        print(page, end="")
        return 0
    path = Path(options.output or f"{launch.name}.html")
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}") from None
    print(f"{path}: {len(page)} bytes, for {target}")
    return 0
