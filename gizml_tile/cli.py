"""The command line: ``gizml-tile preview|ir|source|explain|check FILE[:NAME]`` and ``gizml-tile cache``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gizml_tile.described import constant, fill, grid, value
from gizml_tile.errors import TileError
from gizml_tile.kernel import Function, Gridded, Kernel

# Larger launches than this would take minutes to simulate.
_SIMULATED_ELEMENTS = 1 << 22
_LOOKS = ("ir", "source", "explain", "check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 where all is well, 1 for a mistake in the program, 2 for one in the command."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except TileError as error:
        print(error, file=sys.stderr)
        return 1
    except _Misuse as error:
        print(f"gizml-tile: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has seen enough; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Misuse(Exception):
    """A command that cannot be carried out as it was given."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gizml-tile", description="Look inside tile kernels without running them."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    preview = _command(
        commands, "preview", "print the explicit program that a kernel is rewritten to", _preview
    )
    preview.add_argument("--diff", action="store_true", help="print what the rewriting changes")
    helps = {
        "ir": "print a kernel's tile IR",
        "source": "print the code that a launch runs",
        "explain": "print how a kernel is compiled, and why",
        "check": "trace, check and compile a kernel, and simulate it on random tensors for a GPU",
    }
    for name in _LOOKS:
        described = _command(commands, name, helps[name], _look)
        _describe(described, name)
        if name == "explain":
            told = "also how long a launch on random tensors takes, on the CPU"
            described.add_argument("--measure", action="store_true", help=told)
    cache = commands.add_parser("cache", help="show, limit or clear the compiled kernels kept on disk")
    cache.add_argument("action", nargs="?", default="list", choices=["list", "size", "limit", "clear"])
    cache.add_argument("bytes", nargs="?", help="for limit: keep at most so much, such as 64M")
    cache.set_defaults(run=_cache)
    return parser


def _command(
    commands: Any, name: str, help_text: str, run: Callable[[argparse.Namespace], int | None]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.add_argument("place", metavar="FILE[:NAME]", help="a Python file, and which of its kernels")
    parser.set_defaults(run=run)
    return parser


def _describe(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "-a",
        "--argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument: x=bf16[4096,4096], with strides x=f32[8,16]:1,8, or a number n=5",
    )
    parser.add_argument(
        "-c",
        "--constant",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a constant: BM=64",
    )
    parser.add_argument("-g", "--grid", help="the grid, such as 8 or 8,4")
    parser.add_argument("-k", "--kind", help="the kind of device: cpu, cuda, hip or metal")
    parser.add_argument("--arch", help="the device's architecture, such as sm_90a")
    parser.set_defaults(look=name)


def _preview(options: argparse.Namespace) -> None:
    file, _, name = _place(options.place)
    module = _load(file)
    chosen = dict([_find(module, name, file)] if name else _written(module))
    if not chosen:
        raise _Misuse(f"{file} has no kernels: functions under @tile.kernel or @tile.function")
    texts = [written.preview(diff=options.diff).rstrip("\n") for written in chosen.values()]
    _print("\n\n".join(texts) + "\n", "diff" if options.diff else "python")


def _look(options: argparse.Namespace) -> int:
    file, _, name = _place(options.place)
    module = _load(file)
    kernel = _kernel(module, name, file)
    named: dict[str, Any] = {}
    for text in options.argument:
        named.update([_parsed(value, text)])
    for text in options.constant:
        key, constant_value = _parsed(constant, text)
        named[key] = constant_value
    if options.kind:
        named["kind"] = options.kind
    if options.arch:
        named["arch"] = options.arch
    launched = kernel[_parsed(grid, options.grid)] if options.grid else Gridded(kernel, kernel.grid)
    if options.look == "check":
        return _check(kernel, launched, named)
    if options.look == "explain" and options.measure:
        _fill(named)
        named["measure"] = True
    _print(getattr(launched, options.look)(**named), "llvm" if options.look == "source" else "")
    return 0


def _check(kernel: Kernel, launched: Gridded, named: dict[str, Any]) -> int:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        launched.check(**named)
    for warning in found:
        print(f"{warning.filename}:{warning.lineno}: {warning.message}")
    if named.get("kind", "cpu") == "cpu":
        print(f"{kernel.__name__}: no errors, {len(found)} warnings")
        return 0
    tensors = [item for item in named.values() if isinstance(item, np.ndarray)]
    if sum(item.size for item in tensors) > _SIMULATED_ELEMENTS:
        more = f"not simulated, as the tensors have more than {_SIMULATED_ELEMENTS} elements"
        print(f"{kernel.__name__}: no errors, {len(found)} warnings; {more}")
        return 0
    _fill(named)
    with warnings.catch_warnings():
        # They were shown already.
        warnings.simplefilter("ignore")
        findings = launched.simulate(**named, debug=True).findings
    for finding in findings:
        print(finding)
    wrong = sum(not finding.is_cost for finding in findings)
    costs = len(findings) - wrong
    print(f"{kernel.__name__}: {wrong or 'no'} errors, {len(found)} warnings, {costs} costs, simulated")
    return 1 if wrong else 0


def _fill(named: dict[str, Any]) -> None:
    """Random numbers in all tensors."""
    for number, item in enumerate(item for item in named.values() if isinstance(item, np.ndarray)):
        fill(item, number)


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise _Misuse(str(error)) from None


def _cache(options: argparse.Namespace) -> None:
    from gizml_tile.runtime import disk_cache

    if options.bytes is not None and options.action != "limit":
        raise _Misuse(f"cache {options.action} takes no size; see cache limit")
    if options.action == "limit":
        if options.bytes is None:
            raise _Misuse("cache limit needs a size, such as 64M")
        limit = disk_cache.bytes_of(options.bytes)
        if limit is None:
            raise _Misuse(f"{options.bytes} is not a number of bytes, such as 64M")
        print(f"removed {disk_cache.trim(limit)} entries")
        return
    folder = disk_cache.folder()
    if folder is None:
        print(f"the cache is turned off by {disk_cache.CACHE_VARIABLE}")
        return
    if options.action == "clear":
        print(f"removed {disk_cache.clear()} entries from {folder}")
        return
    entries = disk_cache.entries()
    if options.action == "list":
        for entry in entries:
            print(f"{entry.bytes:>10}  {entry.path.name}")
    total = sum(entry.bytes for entry in entries)
    print(f"{len(entries)} entries, {total} of {disk_cache.limit()} bytes, in {folder}")


def _place(text: str) -> tuple[str, str, str]:
    """File and name; a drive letter's colon is part of the file."""
    if os.path.exists(text):
        return text, "", ""
    file, colon, name = text.rpartition(":")
    if not colon or (os.sep in name):
        return text, "", ""
    return file, colon, name


def _load(file: str) -> ModuleType:
    """The module in a file, run as an import would: what stands under ``__main__`` is left out."""
    if not os.path.isfile(file):
        raise _Misuse(f"there is no file {file}")
    path = os.path.abspath(file)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        # What others import under this name stays what it is.
        name = f"file_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _Misuse(f"{file} is not a Python file")
    sys.path.insert(0, os.path.dirname(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _written(holder: Any, prefix: str = "") -> Iterator[tuple[str, Kernel | Function]]:
    """The kernels and helpers that a module defines, those in its classes too."""
    for name, item in vars(holder).items():
        if isinstance(item, Kernel | Function):
            yield prefix + name, item
        elif isinstance(item, type) and not prefix and item.__module__ == holder.__name__:
            yield from _written(item, f"{name}.")


def _find(module: ModuleType, name: str, file: str) -> tuple[str, Kernel | Function]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Kernel | Function):
        return name, found
    known = ", ".join(key for key, _ in _written(module)) or "none"
    raise _Misuse(f"{file} has no kernel {name}; its kernels are: {known}")


def _kernel(module: ModuleType, name: str, file: str) -> Kernel:
    if name:
        found = _find(module, name, file)[1]
        if not isinstance(found, Kernel):
            raise _Misuse(f"{name} is a helper of kernels; name a kernel that calls it")
        return found
    kernels = {key: item for key, item in _written(module) if isinstance(item, Kernel)}
    if len(kernels) != 1:
        names = ", ".join(kernels) or "none"
        raise _Misuse(f"say which kernel, {file}:NAME; its kernels are: {names}")
    return next(iter(kernels.values()))


def _print(text: str, language: str) -> None:
    """Print a text, in colour on a terminal."""
    if not language or not sys.stdout.isatty():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(text, language, background_color="default", word_wrap=False))
