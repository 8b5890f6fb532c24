"""Grids: how many programs a launch has along each of up to three axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from gizml_tile.errors import TileError, here
from gizml_tile.helpful import refuse_call, told

# Longer values are told by their type.
_SHOWN = 24
# What Triton's grids take is one mapping of all constants.
_BY_NAME = "; a grid function asks for arguments and constants by name, as lambda x, BLOCK, **_: ... does"
Grid = tuple[int, ...]
GridSpec = int | tuple[int, ...] | list[int] | Callable[..., Any]


@told
def cdiv(a: Any, b: Any) -> Any:
    """How many blocks of ``b`` cover ``a``: a / b rounded up, of integers or of indices in a kernel.

    Raises TileError for blocks of size 0, and for what is neither.
    """
    if type(b) is int and b == 0:
        raise TileError("cdiv by 0: a block has at least one element", here())
    try:
        return -(-a // b)
    except TypeError:
        raise TileError(f"cdiv takes integers or indices, found {a!r} and {b!r}", here()) from None


def as_grid(value: object, what: str = "the grid") -> Grid:
    """A grid as one to three sizes. Raises TileError at the call's line for anything else."""
    sizes = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(sizes) <= 3:
        way = "" if len(sizes) < 4 else "; count two axes by one, and divide p.id"
        raise TileError(f"{what} has {len(sizes)} sizes {tuple(sizes)}; a grid has 1 to 3{way}", here())
    result: list[int] = []
    for size in sizes:
        if isinstance(size, bool | np.bool_) or not isinstance(size, int | np.integer):
            message = f"{what} holds {_found(size)}; a grid is an int or 1 to 3 ints{_hint(size)}"
            raise TileError(message, here())
        if size < 0:
            raise TileError(
                f"{what} {tuple(sizes)} has a negative size; sizes count programs, from 0 up", here()
            )
        if size >= 2**31:
            raise TileError(
                f"{what} {tuple(sizes)} has a size of 2^31 programs or more; let each do more, in larger "
                "blocks",
                here(),
            )
        result.append(int(size))
    return tuple(result)


def _found(size: object) -> str:
    """What stands where the size of a grid is due."""
    if size is None:
        return "None"
    text = repr(size)
    kind = f"of type {type(size).__name__}"
    return f"{text} {kind}" if len(text) <= _SHOWN else f"a value {kind}"


def _hint(size: object) -> str:
    if isinstance(size, float):
        return "; divide with tile.cdiv or //"
    return ""


def resolve(spec: object, kernel: str, arguments: Mapping[str, object]) -> Grid:
    """The grid of a launch: ``spec`` itself, or what it gives when called with the arguments it names."""
    if spec is None:
        raise TileError(
            f"{kernel} has no grid; write it in the decorator, @tile.kernel(grid=lambda x, **_: ...), or in "
            f"the call, {kernel}[grid](...)",
            here(),
        )
    if not callable(spec):
        return as_grid(spec, f"the grid of {kernel}")
    named, required = _parameters(spec)
    for name in required:
        if name not in arguments:
            raise TileError(
                f"the grid function of {kernel} asks for {name!r}, which the kernel does not have; it has "
                f"{', '.join(arguments) or 'no parameters'}{_BY_NAME if name.lower() == 'meta' else ''}",
                here(),
            )
    if named is not None:
        arguments = {name: arguments[name] for name in named if name in arguments}
    try:
        given = spec(**arguments)
    except TypeError as error:
        refuse_call(error, spec, f"the grid function of {kernel}", f"{', '.join(arguments)} by name")
        raise
    return as_grid(given, f"the grid of {kernel}")


def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The parameters that a grid function names (None if it takes all), and those it cannot do without."""
    if isinstance(function, FunctionType):
        # What inspect.signature would say, at a tenth of its cost: this stands in every launch.
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        positional = names[: code.co_argcount]
        without = positional[: len(positional) - len(function.__defaults__ or ())]
        keyword = [
            name
            for name in names[code.co_argcount :]
            if name not in (function.__kwdefaults__ or {})
        ]
        return None if code.co_flags & inspect.CO_VARKEYWORDS else names, (*without, *keyword)
    parameters = inspect.signature(function).parameters.values()
    named = [
        each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return (
        None if takes_all else tuple(each.name for each in named),
        tuple(each.name for each in named if each.default is each.empty),
    )
