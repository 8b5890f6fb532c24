"""What a word of an unfinished command line may become, as shells ask at the Tab key.

Nothing of the person's runs for it: what kernels a file has, with which parameters, is read in its text.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gizml_tile.cli.described import TYPES
from gizml_tile.cli.kernels import split
from gizml_tile.cli.parser import COMMANDS, parsers
from gizml_tile.target import KINDS, gpus
from gizml_tile.tune import OPTIONS

_DECORATORS = ("kernel", "function")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word, and what it is in a few words."""

    word: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel or helper as its file's text has it."""

    name: str
    kind: str
    arguments: tuple[str, ...]
    constants: tuple[str, ...]


def candidates(words: Sequence[str]) -> list[Candidate]:
    """What the last of the words after the command's own name, which may be empty, may become."""
    *before, typed = words or [""]
    return [each for each in _all(before, typed) if each.word.startswith(typed)]


def _all(before: Sequence[str], typed: str) -> Iterable[Candidate]:
    if not before:
        return [Candidate(name, text) for name, text in COMMANDS.items()]
    command = before[0]
    if command not in COMMANDS:
        return []
    parser = parsers([command])[1][command]
    options = parser._option_string_actions
    given, positional = _given(parser, before[1:])
    if before[1:] and _takes_value(options.get(before[-1])):
        return _values(options[before[-1]], given, typed)
    if typed.startswith("-"):
        return [
            Candidate(name, action.help or "")
            for name, action in options.items()
            if name.startswith("--") and action.help is not argparse.SUPPRESS
        ]
    places = [action for action in parser._actions if not action.option_strings]
    if not places or (positional >= len(places) and places[-1].nargs != "+"):
        return []
    return _values(places[min(positional, len(places) - 1)], given, typed)


def _given(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[dict[str, list[str]], int]:
    """The words that are given already by what they are for, and how many of them are no options'."""
    given: dict[str, list[str]] = {}
    places = 0
    action = None
    for word in words:
        if action is not None:
            given.setdefault(action.dest, []).append(word)
            action = None
        elif word.startswith("-"):
            found = parser._option_string_actions.get(word)
            action = found if _takes_value(found) else None
        else:
            given.setdefault("place", []).append(word)
            places += 1
    return given, places


def _takes_value(action: argparse.Action | None) -> bool:
    return action is not None and action.nargs != 0


def _values(action: argparse.Action, given: dict[str, list[str]], typed: str) -> Iterable[Candidate]:
    if action.choices is not None:
        return [Candidate(str(choice)) for choice in action.choices]
    complete = _COMPLETERS.get(action.dest)
    return [] if complete is None else complete(given, typed)


def _kinds(given: dict[str, list[str]], typed: str) -> Iterable[Candidate]:
    return [Candidate(kind) for kind in KINDS]


def _archs(given: dict[str, list[str]], typed: str) -> Iterable[Candidate]:
    kinds = given.get("kind") or KINDS
    return [Candidate(each.arch, each.kind) for each in gpus() if each.kind in kinds]


def _arguments(given: dict[str, list[str]], typed: str) -> Iterator[Candidate]:
    name, equals, _ = typed.partition("=")
    if equals:
        yield from (Candidate(f"{name}={kind}[", "a tensor") for kind in sorted(TYPES))
        return
    known = {text.partition("=")[0] for text in given.get("argument", [])}
    for kernel in _chosen(given):
        yield from (Candidate(f"{each}=", "an argument") for each in kernel.arguments if each not in known)


def _constants(given: dict[str, list[str]], typed: str) -> Iterator[Candidate]:
    for kernel in _chosen(given):
        yield from (Candidate(f"{name}=", "a constant") for name in kernel.constants)
    yield from (Candidate(f"{name}=", "pins what the planner chooses") for name in OPTIONS)


def _places(given: dict[str, list[str]], typed: str) -> Iterator[Candidate]:
    """Folders and Python files; where only one file is meant, its kernels too."""
    file, name = split(typed)
    if name or typed.endswith(":"):
        file = typed.rpartition(":")[0]
        yield from (Candidate(f"{file}:{each.name}", each.kind) for each in _kernels(file))
        return
    folder, start = os.path.split(typed)
    files = []
    try:
        found = sorted(os.scandir(folder or "."), key=lambda each: each.name)
    except OSError:
        return
    for entry in found:
        path = os.path.join(folder, entry.name)
        if not entry.name.startswith(start) or (entry.name.startswith(".") and not start):
            continue
        if entry.is_dir():
            yield Candidate(path + os.sep, "a folder")
        elif entry.name.endswith(".py"):
            files.append(path)
            yield Candidate(path, "a file")
    if len(files) == 1:
        yield from (Candidate(f"{files[0]}:{each.name}", each.kind) for each in _kernels(files[0]))


_COMPLETERS: dict[str, Callable[[dict[str, list[str]], str], Iterable[Candidate]]] = {
    "place": _places,
    "places": _places,
    "kind": _kinds,
    "device": _kinds,
    "arch": _archs,
    "argument": _arguments,
    "constant": _constants,
}


def _chosen(given: dict[str, list[str]]) -> list[_Kernel]:
    """The kernel that a line names: by name, or the only one of a file."""
    for place in given.get("place", []):
        file, name = split(place)
        found = [each for each in _kernels(file) if each.kind == "kernel"]
        return [each for each in found if each.name == name or (not name and len(found) == 1)]
    return []


def _kernels(file: str) -> list[_Kernel]:
    """The kernels and helpers in a file's text, those in its classes too."""
    try:
        with open(file, encoding="utf-8") as text:
            tree = ast.parse(text.read())
    except (OSError, SyntaxError, ValueError):
        return []
    return list(_written(tree, ""))


def _written(holder: ast.Module | ast.ClassDef, prefix: str) -> Iterator[_Kernel]:
    for node in holder.body:
        if isinstance(node, ast.ClassDef) and not prefix:
            yield from _written(node, f"{node.name}.")
        if not isinstance(node, ast.FunctionDef):
            continue
        names = [_last_name(each) for each in node.decorator_list]
        kind = next((name for name in names if name in _DECORATORS), None)
        if kind is not None:
            arguments = (*node.args.posonlyargs, *node.args.args)[1:]
            constants = node.args.kwonlyargs
            yield _Kernel(
                prefix + node.name,
                "kernel" if kind == "kernel" else "helper",
                tuple(each.arg for each in arguments),
                tuple(each.arg for each in constants),
            )


def _last_name(decorator: ast.expr) -> str:
    """``kernel`` of ``@tile.kernel(grid=8)``."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
