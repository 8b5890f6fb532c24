"""``gizml-tile preview``: the explicit program that kernels are rewritten to."""

from __future__ import annotations

import argparse

from gizml_tile.cli import kernels
from gizml_tile.cli.output import show


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("place", metavar="FILE[:NAME]", help="a Python file, and which of its kernels")
    parser.add_argument("--diff", action="store_true", help="print what the rewriting changes")


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    chosen = kernels.chosen(options.place)
    texts = [written.preview(diff=options.diff).rstrip("\n") for written in chosen.values()]
    show("\n\n".join(texts) + "\n", "diff" if options.diff else "python")
    return 0
