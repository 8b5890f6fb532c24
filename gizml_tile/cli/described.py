"""Arguments described in words on the command line: tensors without data, numbers, constants, grids."""

from __future__ import annotations

import ast
import math
import mmap
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gizml_tile.cli.misuse import near
from gizml_tile.dtypes import MASK, DType, to_numpy

_TENSOR = re.compile(r"(?P<type>[a-z]\w*)\[(?P<shape>[\d, ]*)\](?::(?P<strides>[-\d, ]+))?")
_TENSOR_LIKE = re.compile(r"\w+\[")
_NAME = re.compile(r"[A-Za-z_]\w*")
# Linux's MAP_NORESERVE, which the mmap module names from Python 3.13 on.
_NO_RESERVE = 0x4000
TYPES = {dtype.text: dtype for dtype in DType} | {"bool": MASK}


def value(text: str) -> tuple[str, Any]:
    """An argument such as ``x=bf16[4096,4096]``, ``x=f32[8,16]:1,8`` or ``n=5``. Raises ValueError."""
    name, rest = _split(text, "x=f32[1024]")
    match = _TENSOR.fullmatch(rest.lower())
    if match is None and _TENSOR_LIKE.match(rest):
        raise ValueError(f"{text}: a tensor is written as a type and sizes, such as {name}=f32[1024]")
    if match is None:
        number = _literal(rest)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return name, number
        if number is None or isinstance(number, bool | str):
            return name, number
        raise ValueError(f"{text}: an argument is a tensor such as f32[8,16], or a number")
    dtype = TYPES.get(match["type"])
    if dtype is None:
        known = ", ".join(sorted(TYPES))
        raise ValueError(f"{text}: no type {match['type']!r}{near(match['type'], TYPES)}; types are {known}")
    shape = _integers(match["shape"])
    strides = _integers(match["strides"]) if match["strides"] else _contiguous(shape)
    if len(strides) != len(shape):
        raise ValueError(f"{text}: {len(shape)} sizes but {len(strides)} strides")
    try:
        return name, _tensor(dtype, shape, strides)
    except (OSError, OverflowError):
        raise ValueError(f"{text}: no computer has addresses for that many bytes") from None


def constant(text: str) -> tuple[str, object]:
    """A constant such as ``BM=64`` or ``mode=causal``. Raises ValueError."""
    name, rest = _split(text, "BM=64")
    return name, _literal(rest)


def grid(text: str) -> tuple[int, ...]:
    """A grid such as ``8`` or ``8,4``. Raises ValueError."""
    try:
        sizes = _integers(text)
    except ValueError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise ValueError(f"{text}: a grid is 1 to 3 sizes, such as 8,4")
    return sizes


def fill(tensor: np.ndarray[Any, Any], seed: Sequence[int]) -> None:
    """Fill a described tensor with random values: about half of each sign, few of them far from 0."""
    values = np.random.default_rng(seed).normal(0.0, 4.0, tensor.shape)
    tensor[...] = values > 0 if tensor.dtype == bool else values.astype(tensor.dtype)


def _split(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()):
        raise ValueError(f"{text}: write NAME=VALUE, such as {example}")
    return name.strip(), rest.strip()


def _literal(text: str) -> Any:
    """A Python literal, a storage type by name, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return TYPES.get(text, text)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _tensor(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array of the described form in memory that is only set aside: it is looked at, never used."""
    kind = to_numpy(dtype)
    reach = [step * (size - 1) for size, step in zip(shape, strides, strict=True) if size]
    before = -sum(step for step in reach if step < 0)
    elements = before + sum(step for step in reach if step > 0) + 1
    memory = _reserve(elements * kind.itemsize)
    steps = tuple(stride * kind.itemsize for stride in strides)
    return np.ndarray(shape, kind, memory, before * kind.itemsize, steps)


def _reserve(size: int) -> mmap.mmap:
    """Addresses without memory behind them, so that a description may be larger than the computer."""
    if sys.platform != "linux":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
