"""The words of a command line: which command is meant, with which options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from gizml_tile.cli.misuse import Misuse, near

# What each command does, in the order of the help; a module here has the name of each.
COMMANDS = {
    "preview": "print the explicit program that kernels are rewritten to",
    "ir": "print the tile IR of a launch",
    "source": "print the code that a launch runs",
    "explain": "print how a launch is compiled, and why",
    "view": "write a page for the browser: what becomes of each line of a kernel",
    "check": "trace and compile a launch, and run it on random tensors, for GPUs simulated",
    "bench": "measure launches on random tensors, beside what the device reaches at most",
    "devices": "print the CPU and the GPUs that are here, and what is missing to use others",
    "cache": "show, limit or clear the compiled kernels kept on disk",
    "completion": "print what a shell runs to complete the words of this command",
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line, ``run`` among them. Raises Misuse; ends the process after a help."""
    if not arguments:
        raise Misuse(f"say what to do: gizml-tile COMMAND; commands are {', '.join(COMMANDS)}")
    if not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        more = near(arguments[0], COMMANDS) or f"; commands are {', '.join(COMMANDS)}"
        raise Misuse(f"there is no command {arguments[0]}{more}")
    name, *rest = arguments
    parser, commands = parsers([name])
    if name not in COMMANDS:
        return parser.parse_args(arguments)
    # Options may stand between files too.
    options, unknown = commands[name].parse_known_intermixed_args(rest)
    if unknown:
        known = options_of(commands[name]) if unknown[0].startswith("--") else ()
        more = near(unknown[0], known) or f"; see gizml-tile {name} --help"
        raise Misuse(f"{name} takes no {unknown[0]}{more}")
    options.command = name
    return options


def parsers(chosen: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of all commands, and those of each: complete only for the ``chosen`` ones."""
    parser = _Parser(
        prog="gizml-tile",
        description="Look inside tile kernels, check them and measure them.",
        epilog="'gizml-tile COMMAND --help' tells more of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version of the package")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    found: dict[str, argparse.ArgumentParser] = {}
    for name, text in COMMANDS.items():
        found[name] = command = subparsers.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        if name in chosen:
            module: Any = import_module(f"gizml_tile.cli.{name}")
            module.describe(command)
            command.set_defaults(run=module.run)
    return parser, found


def options_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The options that a parser takes, such as ``--grid``."""
    return tuple(parser._option_string_actions)


class _Version(argparse.Action):
    """Prints the version, which is looked for then alone."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> NoReturn:
        from importlib.metadata import version

        print(f"gizml-tile {version('gizml-tile')}")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others, and whose options are written out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message}; see {self.prog} --help")
