"""Compiled kernels on the CPU: loading them, and putting a launch's values where their code expects them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from . import pool
from .compiler import load_object
from .tensors import TensorInfo


class Artifact(Protocol):
    """What an emitter makes of a program for the CPU.

    ``arguments`` says what each 64-bit word of the entry's first argument holds: ``("pointer", tensor, 0)``,
    ``("size" or "stride", tensor, axis)``, ``("scalar", number, "index" or "float")`` or ``("grid", axis)``.
    """

    @property
    def entry(self) -> str: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def arguments(self) -> tuple[tuple[Any, ...], ...]: ...


def describe_artifact(artifact: Artifact) -> dict[str, Any]:
    """What `load` needs beside the object code, in a form that fits JSON."""
    return {
        "entry": artifact.entry,
        "arena_bytes": artifact.arena_bytes,
        "arguments": [list(argument) for argument in artifact.arguments],
    }


def load(metadata: dict[str, Any], data: bytes) -> CpuKernel:
    """A kernel of object code, ready to launch; ``metadata`` is what `describe_artifact` gave."""
    code = load_object(data, (metadata["entry"],))
    arguments = tuple(tuple(argument) for argument in metadata["arguments"])
    return CpuKernel(code, code.address(metadata["entry"]), metadata["arena_bytes"], arguments)


class CpuKernel:
    """Compiled code for one layout of tensors, launched by calling it."""

    def __init__(
        self, code: object, entry: int, arena_bytes: int, arguments: tuple[tuple[Any, ...], ...]
    ) -> None:
        self.entry = entry
        self.arena_bytes = arena_bytes
        self.arguments = arguments
        self._code = code
        self._words = struct.Struct("=" + "".join(_format(argument) for argument in arguments))
        self._values = _values(arguments)

    def pack(
        self, tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Sequence[int]
    ) -> bytes:
        """A launch's values as the words that the entry reads."""
        try:
            return self._words.pack(*self._values(tensors, scalars, grid))
        except OverflowError:
            # The one conversion that can fail: a float beyond F32's range, which rounds to infinity.
            rounded = [_round(scalar) for scalar in scalars]
            return self._words.pack(*self._values(tensors, rounded, grid))

    def __call__(
        self, tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Sequence[int]
    ) -> None:
        """Run the kernel over a grid and return when it is done. Raises TileError without memory."""
        pool.launch(self.entry, self.pack(tensors, scalars, grid), self.arena_bytes)

    launch = __call__


def _format(argument: tuple[Any, ...]) -> str:
    return "f4x" if argument[0] == "scalar" and argument[2] == "float" else "q"


def _values(arguments: tuple[tuple[Any, ...], ...]) -> Callable[..., tuple[int | float, ...]]:
    """A function that gathers the words' values, made of one expression because each launch calls it."""
    expressions = []
    for argument in arguments:
        match argument:
            case ("pointer", int(tensor), *_):
                expressions.append(f"tensors[{tensor}].pointer")
            case ("size", int(tensor), int(axis)):
                expressions.append(f"tensors[{tensor}].shape[{axis}]")
            case ("stride", int(tensor), int(axis)):
                expressions.append(f"tensors[{tensor}].strides[{axis}]")
            case ("scalar", int(number), "index" | "float"):
                expressions.append(f"scalars[{number}]")
            case ("grid", int(axis)):
                expressions.append(f"(grid[{axis}] if len(grid) > {axis} else 1)")
            case _:
                raise AssertionError(f"an argument word of unknown kind: {argument}")
    function: Callable[..., tuple[int | float, ...]] = eval(
        f"lambda tensors, scalars, grid: ({''.join(text + ', ' for text in expressions)})",
        {"len": len},
    )
    return function


def _round(scalar: int | float) -> int | float:
    if isinstance(scalar, float) and math.isfinite(scalar):
        try:
            struct.pack("=f", scalar)
        except OverflowError:
            return math.copysign(math.inf, scalar)
    return scalar
