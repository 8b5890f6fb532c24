"""Launches described on the command line: a kernel, its arguments, its grid, and what it is looked at for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gizml_tile.cli import kernels
from gizml_tile.cli.misuse import Misuse
from gizml_tile.described import constant, fill, grid, value
from gizml_tile.kernel import Gridded, Kernel


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on a grid, and the arguments, constants and options of a call by name."""

    kernel: Kernel
    gridded: Gridded
    named: dict[str, Any]

    @property
    def tensors(self) -> list[np.ndarray[Any, Any]]:
        """The tensors among the arguments, which are set aside but not filled."""
        return [item for item in self.named.values() if isinstance(item, np.ndarray)]

    def fill(self) -> None:
        """Put random numbers in all tensors."""
        for number, item in enumerate(self.tensors):
            fill(item, number)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a launch."""
    parser.add_argument("place", metavar="FILE[:NAME]", help="a Python file, and which of its kernels")
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


def launch(options: argparse.Namespace) -> Launch:
    """The launch that options describe. Raises Misuse."""
    kernel = kernels.kernel(options.place)
    named: dict[str, Any] = {}
    for text in options.argument:
        named.update([_parsed(value, text)])
    for text in options.constant:
        key, found = _parsed(constant, text)
        named[key] = found
    if options.kind:
        named["kind"] = options.kind
    if options.arch:
        named["arch"] = options.arch
    gridded = kernel[_parsed(grid, options.grid)] if options.grid else Gridded(kernel, kernel.grid)
    return Launch(kernel, gridded, named)


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise Misuse(str(error)) from None
