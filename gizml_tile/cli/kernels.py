"""Kernels named on the command line: ``FILE`` or ``FILE:NAME``, and what a file has of them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gizml_tile.cli.misuse import Misuse
from gizml_tile.kernel import Function, Kernel

Written = Kernel | Function


def chosen(place: str) -> dict[str, Written]:
    """What is meant by a place for which anything written will do: all of a file's, or the one named."""
    file, name = _split(place)
    module = _load(file)
    found = dict([_find(module, name, file)] if name else _written(module))
    if not found:
        raise Misuse(f"{file} has no kernels: functions under @tile.kernel or @tile.function")
    return found


def kernel(place: str) -> Kernel:
    """The kernel that is meant by a place: the one named, or a file's only one."""
    file, name = _split(place)
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


def _split(text: str) -> tuple[str, str]:
    """File and name; a drive letter's colon is part of the file."""
    if os.path.exists(text):
        return text, ""
    file, colon, name = text.rpartition(":")
    if not colon or (os.sep in name):
        return text, ""
    return file, name


def _load(file: str) -> ModuleType:
    """The module in a file, run as an import would: what stands under ``__main__`` is left out."""
    if not os.path.isfile(file):
        raise Misuse(f"there is no file {file}")
    path = os.path.abspath(file)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        # What others import under this name stays what it is.
        name = f"file_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{file} is not a Python file")
    sys.path.insert(0, os.path.dirname(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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
    known = ", ".join(key for key, _ in _written(module)) or "none"
    raise Misuse(f"{file} has no kernel {name}; its kernels are: {known}")
