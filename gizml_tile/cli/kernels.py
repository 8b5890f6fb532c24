"""Kernels named on the command line: ``FILE`` or ``FILE:NAME``, and what a file has of them."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gizml_tile.cli import person
from gizml_tile.cli.misuse import Misuse, near
from gizml_tile.kernel import Function, Kernel

Written = Kernel | Function


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the place of one kernel."""
    parser.add_argument("place", metavar="FILE[:NAME]", help="a Python file, and which of its kernels")


def chosen(places: list[str]) -> dict[str, Written]:
    """What is meant by places where anything written will do: all of a file's, or the one named.

    Names are those in the file, with the file before them where another file's kernel has the same.
    """
    found: dict[str, Written] = {}
    for place in places:
        file, name = split(place)
        module = _load(file)
        here = dict([_find(module, name, file)] if name else _written(module))
        if not here:
            raise Misuse(f"{file} has no kernels: functions under @tile.kernel or @tile.function")
        for key, item in here.items():
            other = found.get(key, item)
            found[key if other is item else f"{file}:{key}"] = item
    return found


def kernel(place: str) -> Kernel:
    """The kernel that is meant by a place: the one named, or a file's only one."""
    file, name = split(place)
    module = _load(file)
    if name:
        found = _find(module, name, file)[1]
        if not isinstance(found, Kernel):
            raise Misuse(f"{name} is a helper of kernels; name a kernel that calls it")
        return found
    kernels = {key: item for key, item in _written(module) if isinstance(item, Kernel)}
    if len(kernels) != 1:
        names = ", ".join(kernels) or "none"
        raise Misuse(f"say which kernel, {file}:NAME; its kernels are: {names}")
    return next(iter(kernels.values()))


def split(text: str) -> tuple[str, str]:
    """File and name; a drive letter's colon is part of the file."""
    if os.path.exists(text):
        return text, ""
    file, colon, name = text.rpartition(":")
    if not colon or (os.sep in name):
        return text, ""
    return file, name


def _load(file: str) -> ModuleType:
    """The module in a file, run as an import would: what stands under ``__main__`` is left out."""
    if os.path.isdir(file):
        raise Misuse(f"{file} is a folder; name a Python file in it")
    if not os.path.isfile(file):
        raise Misuse(f"there is no file {file}{_near_file(file)}")
    path = os.path.abspath(file)
    name = os.path.splitext(os.path.basename(path))[0]
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == path:
        return known
    if known is not None or name in sys.stdlib_module_names:
        # What others import under this name stays what it is.
        name = f"file_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{file} is not a Python file")
    sys.path.insert(0, os.path.dirname(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with person.running():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _near_file(file: str) -> str:
    folder, name = os.path.split(file)
    try:
        found = [each for each in os.listdir(folder or ".") if each.endswith(".py")]
    except OSError:
        return ""
    return near(name, found)


def _written(holder: Any, prefix: str = "") -> Iterator[tuple[str, Written]]:
    """The kernels and helpers that a module defines, those in its classes too."""
    for name, item in vars(holder).items():
        if isinstance(item, Written):
            yield prefix + name, item
        elif isinstance(item, type) and not prefix and item.__module__ == holder.__name__:
            yield from _written(item, f"{name}.")


def _find(module: ModuleType, name: str, file: str) -> tuple[str, Written]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Written):
        return name, found
    known = [key for key, _ in _written(module)]
    more = near(name, known) or f"; its kernels are: {', '.join(known) or 'none'}"
    what = "is in it, and is no kernel" if found is not None else ""
    raise Misuse(f"{file} has no kernel {name}{f' ({name} {what})' if what else ''}{more}")
