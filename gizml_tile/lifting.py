"""Host numbers, shapes, axes and types where a traced program takes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from gizml_tile.arguments import TensorArgument
from gizml_tile.dtypes import (
    F32,
    I64,
    MASK,
    DType,
    as_dtype,
    integer_range,
    math_dtype,
)
from gizml_tile.nodes import Const, Node
from gizml_tile.rounding import Number, round_to
from gizml_tile.tracing import MAX_ELEMENTS, Many, Trace, Value, article, fail, grown, held, noun


def number(value: object) -> Number | None:
    """A Python number, NumPy scalar or 0-d array as a Python number; None for anything else."""
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        return value  # type: ignore[return-value]
    if kind is DType:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        if isinstance(value, np.longdouble):
            return float(value)
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else None


_VIEWS = ("gizml_tile.views", "gizml_tile.batch_views")
# Longer lists are told by their type alone.
_SHOWN = 40


def describe(value: object) -> str:
    """A few words for what was found where something else was wanted."""
    if isinstance(value, Value):
        return article(noun(value._node))
    if isinstance(value, Many):
        return "a batch of tiles"
    if isinstance(value, TensorArgument):
        return f"the tensor {value.name}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {list(value.shape)}"
    if isinstance(value, DType):
        return f"tile.{value.name}"
    if isinstance(value, tuple) and value and all(isinstance(each, Value) for each in value):
        return f"a tuple of {len(value)} values"
    if isinstance(value, tuple | list) and len(text := repr(value)) <= _SHOWN and "<" not in text:
        return text
    if value is None or value is Ellipsis or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, type):
        return f"the type {value.__name__}"
    if inspect.isroutine(value):
        return "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__name__}"
    name = type(value).__name__
    if type(value).__module__ in _VIEWS:
        return f"an {'input' if name.endswith('In') else 'output'}, not a block of it"
    if type(value).__module__ == "gizml_tile.program":
        return "the program"
    return article(f"value of type {name}")


def constant(value: object, dtype: DType, what: str) -> Number:
    """A host number as an element of ``dtype``; an integer type or mask that cannot hold it is an error."""
    host = number(value)
    if host is None:
        hint = "; an index becomes a tile with i.value()" if isinstance(value, Value) else ""
        fail(f"{what} needs a number, found {describe(value)}{hint}")
    if dtype.is_float:
        return round_to(host, dtype)
    if dtype is MASK:
        if host not in (0, 1):
            fail(f"{what} of a mask is True or False, found {host}")
        return bool(host)
    if isinstance(host, float) and not host.is_integer():
        fail(f"{what} is {host}, which {dtype} cannot hold; use an integer or a float type")
    low, high = integer_range(dtype)
    if not low <= host <= high:
        way = "" if what.startswith("pad") or " of put" in what else "; use a wider type, such as tile.I64"
        fail(f"{what} is {host}, which {dtype} cannot hold ({low} to {high}){way}")
    return int(host)


def is_power_of_two(size: int) -> bool:
    """Whether a size is 1, 2, 4, 8, ..."""
    return size > 0 and size & (size - 1) == 0


def sizes(value: object, what: str, most: int = 2) -> tuple[int, ...]:
    """One or two host sizes, or up to ``most``: as powers of two at most 2^20 elements together."""
    many = isinstance(value, Iterable) and not isinstance(value, str | Value)
    items: tuple[object, ...] = tuple(value) if many else (value,)  # type: ignore[arg-type]
    found: list[int] = []
    for item in items:
        host = number(item)
        if isinstance(item, Value):
            fail(
                f"the sizes of {what} are known before the kernel runs, found {describe(item)}; make the "
                "size a constant: a parameter after a *, as in def kernel(p, x, *, BLOCK=128)"
            )
        if type(host) is not int:
            way = "; a // b gives an integer" if type(host) is float else ""
            fail(f"the sizes of {what} are integers, found {describe(item)}{way}")
        if host < 1:
            fail(f"the sizes of {what} are at least 1, found {host}")
        found.append(host)
    if not 1 <= len(found) <= most:
        counts = "one or two" if most == 2 else "one to three"
        fail(f"{what} has {counts} sizes, found {len(found)}: {found}")
    if held(found) > MAX_ELEMENTS:
        fail(f"a tile has at most 2^20 elements, found {found}{grown(found)} for {what}; use smaller blocks")
    return tuple(found)


def tile_shape(value: object, what: str) -> tuple[int, int]:
    """A tile's shape; one size ``[C]`` is the row ``[1, C]``."""
    found = sizes(value, what)
    return (1, found[0]) if len(found) == 1 else (found[0], found[1])


_OF_ALL = frozenset("sum max min prod any all".split())


def _asks_all(value: object) -> bool:
    """Whether an axis is one of those that mean all elements elsewhere."""
    return value is None or isinstance(value, tuple | list)


def flag(value: object, what: str) -> bool:
    """True or False, of Python or NumPy."""
    host = number(value)
    if not isinstance(host, bool):
        fail(f"{what} is True or False, found {describe(value)}")
    return host


def axis_of_tile(value: object, what: str) -> int:
    """0 for rows or 1 for columns, from an axis of -2 to 1."""
    host = number(value)
    if type(host) is not int or not -2 <= host <= 1:
        all_of = what in _OF_ALL and _asks_all(value)
        way = f"; for all elements write x.{what}(1).{what}(0)" if all_of else ""
        fail(
            f"the axis of {what} is 0 (down the rows) or 1 (along the columns), or -2 and -1, found "
            f"{describe(value)}{way}"
        )
    return host % 2


def storage_type(value: object, what: str) -> DType:
    """A storage type from a DType or a NumPy or ml_dtypes type."""
    dtype = as_dtype(value) if not isinstance(value, Value) else None
    if dtype is None:
        fail(
            f"{what} takes a storage type such as tile.F32, found "
            f"{describe(value)}{_nearest_type(value, what)}"
        )
    return dtype


def _nearest_type(value: object, what: str) -> str:
    """What to write in place of something that is no storage type."""
    if isinstance(value, str):
        near = next((each for each in DType if each.text == value.lower().strip()), None)
        return f"; write tile.{near.name}" if near is not None else "; help(tile.DType) lists them"
    if type(number(value)) is int and what in ("zeros", "full", "iota"):
        return "; several sizes are one list, as in p.zeros([8, 8])"
    other = as_dtype(str(value).removeprefix("torch.")) if type(value).__name__ == "dtype" else None
    if other is not None:
        return f"; write tile.{other.name}"
    return "; help(tile.DType) lists them" if isinstance(value, type) else ""


def integer(value: object, what: str) -> int:
    """A host integer that fits an index."""
    host = number(value)
    if type(host) is not int:
        hint = ""
        if isinstance(value, Value | Many):
            hint = "; tiles are not indices, which are read from an integer tensor with A.index([i])"
        elif type(host) is float:
            hint = "; a // b gives an integer"
        fail(f"{what} takes an index or an integer, found {describe(value)}{hint}")
    low, high = integer_range(I64)
    if not low <= host <= high:
        fail(f"{what} takes integers of 64 bits, found {host}")
    return host


def lift_index(trace: Trace, value: object, what: str) -> Node:
    """The node of an index, or of a host integer as one."""
    if isinstance(value, Value):
        node = trace.use(value)
        if node.is_index:
            return node
    return trace.record("index", (), integer(value, what))


def lift(trace: Trace, value: object, beside: DType | None, what: str) -> Node:
    """The node of a tile, or of an index or host number as one that mixes with a tile of type ``beside``."""
    if isinstance(value, Value):
        node = trace.use(value)
        if node.is_tile:
            return node
        if beside is MASK:
            fail(f"{what} of a mask and an index: masks combine with masks; compare the index, as in i.lt(n)")
        return trace.record("value", (node,), F32 if beside is None else math_dtype(beside))
    host = number(value)
    if host is None:
        _no_tile(value, what)
    if beside is MASK:
        if not isinstance(host, bool):
            fail(f"{what} of a mask and {host!r}: masks combine with masks, True and False")
        return trace.record("const", (), Const((1, 1), MASK, host))
    if beside is None or beside.is_float:
        kind = F32 if beside is None else math_dtype(beside)
        return trace.record("const", (), Const((1, 1), kind, round_to(host, kind)))
    if isinstance(host, float):
        fail(
            f"{what} of an {beside} tile and {host!r}: integers and floats do not mix; "
            "convert the tile with .to(F32), or use an integer"
        )
    dtype = math_dtype(beside)
    low, high = integer_range(dtype)
    if not low <= host <= high:
        wider = "" if dtype.bits == 64 else "; convert the tile with .to(I64)"
        fail(f"{what}: {int(host)} does not fit {dtype}, in which {beside} computes{wider}")
    return trace.record("const", (), Const((1, 1), dtype, int(host)))


def unread_hint(value: object) -> str:
    """What to write in place of a tensor, or a view of one, of which a block is meant."""
    if isinstance(value, TensorArgument | np.ndarray) or hasattr(type(value), "__dlpack__"):
        name = value.name if isinstance(value, TensorArgument) else "tensor"
        return f"; read a block of it: A = p.read({name}, block), then A[i, j]"
    if type(value).__module__ not in _VIEWS:
        return ""
    if type(value).__name__.endswith("Out"):
        return "; blocks of an output are not read, but those of A = p.read(tensor, block) are: A[i, j]"
    return "; take a block: A[i, j]"


def _no_tile(value: object, what: str) -> NoReturn:
    hint = unread_hint(value)
    if value is None:
        hint = "; to test for None write `is None`"
    elif isinstance(value, Many):
        hint = "; each of its tiles is taken as in b[0]"
    fail(f"{what} takes a tile, an index or a number, found {describe(value)}{hint}")
