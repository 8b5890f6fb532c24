"""Launches described on the command line: a kernel with arguments, constants and a grid."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gizml_tile.cli import kernels
from gizml_tile.cli.described import constant, fill, grid, value
from gizml_tile.cli.examples import examples
from gizml_tile.cli.misuse import Misuse, listed, near
from gizml_tile.gridded import Gridded
from gizml_tile.kernel import Kernel
from gizml_tile.placing import Place
from gizml_tile.signature import Signature
from gizml_tile.target import Target
from gizml_tile.tune import OPTIONS


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on a grid, and the arguments of a call: those by position, and those by name."""

    kernel: Kernel
    gridded: Gridded
    values: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def name(self) -> str:
        """The kernel's own name."""
        return self.kernel.__name__

    @property
    def tensors(self) -> list[np.ndarray[Any, Any]]:
        """The tensors among the arguments, which are set aside but not filled."""
        return [item for item in (*self.values, *self.named.values()) if isinstance(item, np.ndarray)]

    def fill(self, seed: int) -> None:
        """Put random numbers in all tensors, the same for a seed. Raises Misuse where they do not fit."""
        needed = sum(_memory_of(item) for item in self.tensors)
        free = _free_bytes()
        if free is not None and needed > free:
            raise Misuse(
                f"the tensors take {needed} bytes, and {free} bytes of memory are free; use smaller ones"
            )
        for number, item in enumerate(self.tensors):
            fill(item, (seed, number))

    def placed(self, place: Place) -> tuple[list[Any], dict[str, Any]]:
        """The arguments by position and by name, the tensors where ``place`` puts them."""

        def moved(item: Any) -> Any:
            return place(item) if isinstance(item, np.ndarray) else item

        return [moved(item) for item in self.values], {name: moved(item) for name, item in self.named.items()}

    def on(self, target: Target) -> dict[str, Any]:
        """The arguments by name, with the target to look at."""
        return {**self.named, "kind": target.kind, "arch": target.arch}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a launch."""
    kernels.describe(parser)
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
        help=f"a constant: BM=64; {' and '.join(OPTIONS)} pin what the planner chooses",
    )
    parser.add_argument("-g", "--grid", help="the grid, such as 8 or 8,4, instead of the kernel's own")


def describe_seed(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that put random numbers in tensors."""
    told = "another number gives other random tensors (default: 0)"
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help=told)


def launch(options: argparse.Namespace) -> Launch:
    """The launch that options describe. Raises Misuse where it does not fit the kernel."""
    kernel = kernels.kernel(options.place)
    given: dict[str, Any] = {}
    for parse, texts in ((value, options.argument), (constant, options.constant)):
        for text in texts:
            name, found = _parsed(parse, text)
            if name in given:
                raise Misuse(f"{name} is given twice")
            given[name] = found
    signature = kernel._signature
    _require_known(signature, given)
    _require_all(signature, given, kernel, options)
    if options.grid is None and kernel.grid is None:
        raise Misuse(f"{kernel.__name__} has no grid of its own; say which with -g 8 or -g 8,4")
    gridded = Gridded(kernel, kernel.grid if options.grid is None else _parsed(grid, options.grid))
    # By position, as some parameters are taken by position alone and more than there are by no name.
    values = [given.pop(name, signature.defaults.get(name)) for name in signature.positional]
    values += [given.pop(name) for name in sorted(given, key=_number) if _is_rest(signature, name)]
    return Launch(kernel, gridded, tuple(values), given)


def _require_known(signature: Signature, given: dict[str, Any]) -> None:
    parameters = (*signature.positional, *signature.constants)
    for name in given:
        known = name in parameters or name in OPTIONS or _is_rest(signature, name)
        if not known and signature.more_constants is None:
            more = near(name, parameters) or f"; it has {_parameters(signature)}"
            raise Misuse(f"{signature.name} has no parameter {name}{more}")


def _require_all(
    signature: Signature, given: dict[str, Any], kernel: Kernel, options: argparse.Namespace
) -> None:
    needed = [*signature.positional, *signature.constants]
    known = {*given, *signature.defaults, *kernel.configured}
    missing = [name for name in needed if name not in known]
    if not missing:
        return
    example = " ".join(
        [
            *(f"-a {text}" for text in options.argument),
            *(f"-c {text}" for text in options.constant),
            *examples(kernel, missing),
        ]
    )
    if options.grid is not None:
        example += f" -g {options.grid}"
    raise Misuse(
        f"{signature.name} needs {listed(missing)} ({_parameters(signature)}); for example: "
        f"gizml-tile {options.command} {options.place} {example}"
    )


def _parameters(signature: Signature) -> str:
    arguments = list(signature.positional)
    if signature.rest is not None:
        arguments += [f"{signature.rest}_0", f"{signature.rest}_1", "..."]
    constants = [
        f"{name}={signature.defaults[name]!r}" if name in signature.defaults else name
        for name in signature.constants
    ]
    told = [f"the arguments {', '.join(arguments)}"] if arguments else []
    told += [f"the constants {', '.join(constants)}"] if constants else []
    return " and ".join(told) or "no parameters"


def _is_rest(signature: Signature, name: str) -> bool:
    """Whether a name such as ``tensors_0`` is one of ``*tensors``."""
    return signature.rest is not None and re.fullmatch(rf"{signature.rest}_\d+", name) is not None


def _number(name: str) -> int:
    tail = name.rpartition("_")[2]
    return int(tail) if tail.isdecimal() else 0


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise Misuse(str(error)) from None


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 on, found {text}")
    return int(text)


def _memory_of(tensor: np.ndarray[Any, Any]) -> int:
    held = (size for size, stride in zip(tensor.shape, tensor.strides, strict=True) if stride)
    return tensor.itemsize * int(np.prod([*held], dtype=np.int64))


def _free_bytes() -> int | None:
    """How much memory programs can have; None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
