"""Operations that move elements: what random programs draw of them, as text, and what they give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from intervals import Value, to
from programs import Literal, Type

from gizml_tile.dtypes import MASK
from gizml_tile.nodes import broadcast, promote

if TYPE_CHECKING:
    from writer import Writer

MOVES = frozenset("reshape broadcast_to flip split deinterleave slice concat interleave".split())
# A tile that grows no further.
_LARGEST = 4096


def move(writer: Writer) -> str:
    """One of the operations on a tile that there is."""
    random = writer.random
    a = writer.pick(lambda t: t.dtype is not None and not t.uniform) or writer.floats()
    kind = writer.names[a]
    axis = random.choice([0, 1])
    name = random.choice(sorted(MOVES))
    if name in ("split", "deinterleave") and kind.shape[axis] % 2:
        name = random.choice(["flip", "concat", "interleave"])
    if name == "slice" and kind.batch:
        name = "flip"  # the brackets of a batch take one of its tiles
    match name:
        case "reshape":
            elements = math.prod(kind.shape)
            found = [(n, elements // n) for n in range(1, elements + 1) if elements % n == 0]
            shape = random.choice(found)
            return writer.emit(name, Type(kind.dtype, shape), a, attr=shape)
        case "broadcast_to":
            shape = tuple(writer.owner.size() if size == 1 else size for size in kind.shape)
            if math.prod(shape) > _LARGEST:
                shape = kind.shape
            return writer.emit(name, Type(kind.dtype, shape), a, attr=shape)
        case "flip":
            return writer.emit(name, Type(kind.dtype, kind.shape), a, attr=axis)
        case "split" | "deinterleave":
            shape = tuple(size // 2 if each == axis else size for each, size in enumerate(kind.shape))
            return writer.emit(name, Type(kind.dtype, shape), a, attr=(axis, random.randrange(2)))
        case "slice":
            taken = tuple(_slice(random, size) for size in kind.shape)
            shape = tuple(len(range(*each)) for each in taken)
            return writer.emit(name, Type(kind.dtype, shape), a, attr=taken)
    return _joined(writer, name, a, axis)


def _slice(random, size):
    """Start, stop and step of 1, 2, 4, ... elements of an axis."""
    count = 1 << random.randrange(size.bit_length()) if random.random() < 0.7 else random.randrange(size) + 1
    step = random.choice([1, 1, 1, 1, 2, 3]) if count > 1 else 1
    if (count - 1) * step >= size:
        step = 1
    span = (count - 1) * step + 1
    start = random.choice([0, size - span, random.randrange(size - span + 1)])
    if random.random() < 0.3:
        return start + span - 1, start - 1, -step
    return start, start + span, step


def _joined(writer, name, a, axis):
    kind = writer.names[a]

    def fits(t):
        if (
            t.dtype is None
            or t.batch > kind.batch
            or promote(kind.dtype, t.dtype) is None
            or (t.dtype is MASK) != (kind.dtype is MASK)
        ):
            return False
        across = tuple(1 if at == axis and name == "concat" else size for at, size in enumerate(t.shape))
        other = broadcast(kind.shape, across)
        return other is not None and 2 * math.prod(other) <= _LARGEST

    if 2 * math.prod(kind.shape) > _LARGEST:
        return writer.emit("flip", Type(kind.dtype, kind.shape), a, attr=axis)
    b = writer.pick(fits) or a
    other = writer.names[b]
    sizes = (kind.shape, other.shape)
    shape = [max(pair) for pair in zip(*sizes, strict=True)]
    shape[axis] = shape[axis] * 2 if name == "interleave" else kind.shape[axis] + other.shape[axis]
    dtype = kind.dtype if kind.dtype is other.dtype else promote(kind.dtype, other.dtype)
    return writer.emit(name, Type(dtype, tuple(shape)), a, b, attr=axis)


def text(name: str, args: list[str], attr: object) -> str:
    """The operation as the expression of a program."""
    if name in ("reshape", "broadcast_to"):
        return f"{args[0]}.{name}({list(attr)})"
    if name in ("split", "deinterleave"):
        return f"{args[0]}.{name}({attr[0]})[{attr[1]}]"
    if name == "slice":
        return f"{args[0]}[{', '.join(map(_text, attr))}]"
    return f"{args[0]}.{name}({', '.join([*args[1:], str(attr)])})"


def _text(bounds):
    start, stop, step = bounds
    return f"{start}:{stop if stop >= 0 else ''}{'' if step == 1 else f':{step}'}"


def moved(name: str, attr: object, dtype, *args: Value) -> Value:
    """What the operation gives: the ends of each element where it comes to stand."""
    assert not any(isinstance(arg, Literal) for arg in args)
    args = [arg if arg.dtype is dtype else to(arg, dtype) for arg in args]
    lo, hi = (_ends(name, attr, [getattr(arg, end) for arg in args]).copy() for end in ("lo", "hi"))
    return Value(dtype, lo, hi)


def _ends(name, attr, arrays):
    first = arrays[0]
    match name:
        case "reshape":
            return first.reshape(attr)
        case "broadcast_to":
            return np.broadcast_to(first, attr)
        case "flip":
            return np.flip(first, attr)
        case "split":
            return np.split(first, 2, attr[0])[attr[1]]
        case "deinterleave":
            return first[attr[1] :: 2] if attr[0] == 0 else first[:, attr[1] :: 2]
        case "slice":
            rows, columns = (list(range(*each)) for each in attr)
            return first[np.ix_(rows, columns)]
        case "concat":
            across = max(array.shape[1 - attr] for array in arrays)
            stretched = []
            for array in arrays:
                shape = [size if at == attr else across for at, size in enumerate(array.shape)]
                stretched.append(np.broadcast_to(array, shape))
            return np.concatenate(stretched, attr)
    a, b = np.broadcast_arrays(*arrays)
    shape = [size * 2 if axis == attr else size for axis, size in enumerate(a.shape)]
    return np.stack([a, b], attr + 1).reshape(shape)
