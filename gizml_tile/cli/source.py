"""``gizml-tile source``: the code that a launch runs."""

from __future__ import annotations

import argparse

from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.reports import Text

# What a launch's code is written in, and how that is called where text is coloured.
_LANGUAGES = {
    "cpu": ("LLVM IR", "llvm"),
    "cuda": ("PTX", "ptx"),
    "hip": ("LLVM IR", "llvm"),
    "metal": ("Metal Shading Language", "cpp"),
}


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
        text = launch.gridded.source(*launch.values, **launch.on(target))
    language, lexer = _LANGUAGES[target.kind]
    report = Text(launch.name, target.kind, target.arch, language, text)
    if options.json:
        output.put_json(report)
    else:
        output.show(text, lexer)
    return 0
