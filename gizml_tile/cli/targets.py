"""Targets named on the command line: kinds of devices and architectures, each of which implies its kind."""

from __future__ import annotations

import argparse

from gizml_tile.cli.misuse import Misuse, near
from gizml_tile.target import KINDS, Target, gpus, target

_NATIVE = "native"


def describe(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that name a target, or several."""
    more = "; may be given several times" if several else ""
    parser.add_argument(
        "-k",
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help=f"the kind of device: {', '.join(KINDS)}{more}",
    )
    parser.add_argument(
        "--arch",
        action="append",
        default=[],
        metavar="ARCH",
        help=f"the device's architecture, such as sm_90a or gfx942{more}",
    )


def chosen(options: argparse.Namespace) -> list[Target]:
    """The targets that options name, by default the CPU; of a kind without an architecture the usual one.

    Raises Misuse for unknown ones.
    """
    kinds = dict.fromkeys(_known(kind, KINDS, "kind") for kind in options.kind)
    archs: dict[str, list[str]] = {kind: [] for kind in kinds}
    for arch in options.arch:
        archs.setdefault(_kind_of(arch, list(kinds)), []).append(arch)
    if not archs:
        archs = {"cpu": []}
    found = [target(kind, arch or None) for kind, listed in archs.items() for arch in listed or [""]]
    return list(dict.fromkeys(found))


def one(options: argparse.Namespace) -> Target:
    """The only target that options name. Raises Misuse for several."""
    found = chosen(options)
    if len(found) > 1:
        raise Misuse(f"{options.command} takes one target, found {', '.join(map(str, found))}")
    return found[0]


def _kind_of(arch: str, kinds: list[str]) -> str:
    kind_of = {_NATIVE: "cpu"} | {each.arch: each.kind for each in gpus()}
    # Of the kind that was named, if one was, is what is meant by an unknown one.
    likely = [name for name, kind in kind_of.items() if not kinds or kind in kinds]
    return kind_of[arch] if arch in kind_of else kind_of[_known(arch, likely, "arch")]


def _known(word: str, known: tuple[str, ...] | list[str], what: str) -> str:
    if word in known:
        return word
    raise Misuse(f"there is no {what} {word}{near(word, known)}; {what}s are {', '.join(known)}")
