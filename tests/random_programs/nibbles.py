"""Numbers of four bits in random programs: what they are called with, how written, what they give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from intervals import Value, integers
from programs import Type

from gizml_tile.dtypes import I8, U8

if TYPE_CHECKING:
    from writer import Writer

NAMES = frozenset({"unpack4", "pack4"})
# A tile that grows no further.
_LARGEST = 4096


def choose(writer: Writer) -> str:
    """Bytes taken apart, or numbers put into bytes."""
    axis, signed = writer.random.randrange(2), writer.random.random() < 0.5
    found = writer.pick(lambda t: t.dtype in (I8, U8) and 2 * math.prod(t.shape) <= _LARGEST)
    whole = writer.pick(lambda t: t.dtype is not None and t.dtype.is_integer and t.shape[axis] % 2 == 0)
    if whole is None or (found is not None and writer.random.random() < 0.6):
        shape = (writer.owner.size(), writer.owner.size())
        found = found or writer.read(writer.random.choice([I8, U8]), shape)
        kind = Type(I8 if signed else U8, _sized(writer.names[found].shape, axis, 2))
        return writer.emit("unpack4", kind, found, attr=(axis, signed))
    kind = Type(U8, _sized(writer.names[whole].shape, axis, 0.5))
    return writer.emit("pack4", kind, whole, attr=(axis, signed))


def _sized(shape: tuple[int, ...], axis: int, times: float) -> tuple[int, ...]:
    return tuple(int(size * times) if each == axis else size for each, size in enumerate(shape))


def written(name: str, operand: str, attr: tuple[int, bool]) -> str:
    """The call in a program's text."""
    axis, signed = attr
    return f"{operand}.unpack4({axis}, signed={signed})" if name == "unpack4" else f"{operand}.pack4({axis})"


def evaluate(name: str, a: Value, attr: tuple[int, bool]) -> Value:
    """What the operation gives where its operand is known."""
    axis, signed = attr
    if name == "unpack4":
        halves = np.stack([a.lo & 15, a.lo >> 4 & 15], axis + 1)
        numbers = halves.reshape(_sized(a.shape, axis, 2))
        numbers = np.where(numbers > 7, numbers - 16, numbers) if signed else numbers
        return integers(numbers, I8 if signed else U8, np.repeat(a.exact, 2, axis))
    first, second = (np.take(a.lo, np.arange(start, a.shape[axis], 2), axis) for start in (0, 1))
    known = [np.take(a.exact, np.arange(start, a.shape[axis], 2), axis) for start in (0, 1)]
    return integers(first & 15 | (second & 15) << 4, U8, known[0] & known[1])
