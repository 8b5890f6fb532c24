"""``gizml-tile preview``: the explicit program that kernels are rewritten to."""

from __future__ import annotations

import argparse

from gizml_tile.cli import kernels, output, person


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    told = "Python files, all of their kernels and helpers, or one by its name"
    parser.add_argument("places", metavar="FILE[:NAME]", nargs="+", help=told)
    parser.add_argument("--diff", action="store_true", help="print what the rewriting changes")
    told = "print an object of texts by kernel as JSON"
    parser.add_argument("--json", action="store_true", help=told)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    chosen = kernels.chosen(options.places)
    with person.running():
        texts = {name: item.preview(diff=options.diff).rstrip("\n") + "\n" for name, item in chosen.items()}
    if options.json:
        output.put_json(texts)
    else:
        output.show("\n".join(texts.values()), "diff" if options.diff else "python")
    return 0
