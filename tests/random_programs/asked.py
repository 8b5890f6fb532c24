"""What random programs draw in turn, one thing each, so that a few hundred programs have all of it.

What is drawn by chance alone comes once in a hundred programs or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import addressing
import along
import loops_and_branches as loops
import tells
from programs import INDEX, Arg, Literal, Type

from gizml_tile.dtypes import BF16, F16, F32, F64, I16, I32, I64, MASK, U8, U16, U32, U64, DType
from gizml_tile.nodes import APPROXIMABLE, UNARY_FLOAT

if TYPE_CHECKING:
    from writer import Writer

Ask = Callable[["Writer"], str | None]
# What is exactly rounded.
_IEEE = frozenset("sqrt rsqrt reciprocal relu floor ceil trunc round".split())


def draw(writer: Writer) -> None:
    """The next operation in turn, and a store of it."""
    owner = writer.owner
    if owner.tells:
        tells.draw(writer)
    if owner.branches:
        loops.loop(writer, 0)
    if owner.exact:
        addition(writer, (F32, F16, BF16)[owner.seed // 2 % 3])
        return
    asked = DOUBLES if owner.doubles else OTHERS
    number = owner.number if owner.doubles else owner.seed // 3
    if owner.batch and owner.seed % 3 == 0:
        asked, number = BATCHES, owner.seed // 3
    found = asked[number % len(asked)](writer)
    if found is not None:
        owner.put(writer, found)


def function(writer: Writer, dtype: DType | None, name: str, approx: bool = False) -> str | None:
    """A function of floats, by a GPU's own unit if that is asked for."""
    if writer.owner.ieee and (approx or name not in _IEEE):
        return None
    a = writer.read(dtype or writer.owner.float_dtype())
    return writer.emit(name, Type(writer.real(a), writer.names[a].shape), a, attr=approx or None)


def conversion(writer: Writer, source: DType, name: str, dtype: DType) -> str | None:
    """A number as one of another type, or its bits; those of a NaN are left open."""
    if name == "bitcast" and writer.owner.ieee and source.is_float:
        return None
    a = writer.read(source)
    return writer.emit(name, Type(dtype, writer.names[a].shape), a, attr=dtype)


def addition(writer: Writer, dtype: DType, how: str = "") -> None:
    """Numbers that are added to a tensor of a type, wherever they meet."""
    owner = writer.owner
    if owner.ieee and how == "add" and dtype.is_float:
        return
    a = writer.read(dtype)
    view = owner.output(dtype, owner.block(*writer.names[a].shape, 0))
    with addressing.hidden(writer):
        writer.ops.append(addressing.accumulate(owner, writer, a, view, how))


def number(writer: Writer, dtype: DType, name: str) -> str:
    """Counts along an axis, or an index as a tile."""
    if name == "value":
        return writer.emit(name, Type(dtype), writer.emit("id", INDEX, attr=0), attr=dtype)
    shape = (writer.owner.size(), writer.owner.size())
    return writer.emit(name, Type(dtype, shape), attr=(shape, writer.random.randrange(2), dtype))


def fused(writer: Writer, dtype: DType) -> str:
    """A product and a sum with one rounding."""
    a = writer.read(dtype)
    factor, addend = (Literal(writer.number()) for _ in range(2))
    return writer.emit("fma", Type(dtype, writer.names[a].shape), a, factor, addend)


def power(writer: Writer, dtype: DType, approx: bool = False) -> str | None:
    """Numbers to their own powers."""
    if writer.owner.ieee:
        return None
    a = writer.read(dtype)
    return writer.emit("pow", Type(dtype, writer.names[a].shape), a, a, attr=approx or None)


def neighbours(writer: Writer, dtype: DType) -> str:
    """Blocks of a tensor a few elements apart, as of a stencil: the larger of what is at each place."""
    random, owner = writer.random, writer.owner
    shape = (random.choice([1, 4, 8]), random.choice([64, 128]))
    view = owner.input(dtype, shape)
    axes = len(owner.tensor(view.tensor).axes)
    corner: list[Arg] = [writer.index() for _ in range(axes)]
    if random.random() < 0.6 and isinstance(corner[-1], str):
        corner[-1] = writer.emit("mul", INDEX, corner[-1], Literal(random.choice([8, 16])))
    found = ""
    for _ in range(random.randrange(2, 5)):
        places = list(corner)
        for axis in range(axes - len(view.block), axes):
            place, shift = corner[axis], random.randrange(-2, 3)
            if isinstance(place, Literal):
                places[axis] = Literal(int(place.value) + shift)
            elif shift:
                places[axis] = writer.emit("add", INDEX, place, Literal(shift))
        read = writer.emit("read", Type(dtype, shape), *places, attr=(view.name, "window"))
        kind = Type(dtype if dtype.is_integer else writer.real(read), shape)
        found = writer.emit("maximum", kind, found, read) if found else read
    return found


def batch(writer: Writer, name: str) -> str | None:
    """An operation on each tile of a batch."""
    owner = writer.owner
    a = writer.read_from(owner.input(owner.float_dtype(), None, batch=owner.batch))
    real, (rows, columns) = writer.real(a), writer.names[a].shape
    match name:
        case "transpose":
            return writer.emit(name, Type(writer.names[a].dtype, (columns, rows)), a)
        case "to":
            return writer.emit(name, Type(BF16, (rows, columns)), a, attr=BF16)
        case "select":
            mask = writer.emit("lt", Type(MASK, (rows, columns)), a, Literal(0.5))
            return writer.emit(name, Type(real, (rows, columns)), mask, a, Literal(0.0))
        case "add":
            return writer.emit(name, Type(real, (rows, columns)), a, Literal(1.0))
    if owner.ieee:
        return None
    if name == "sum":
        return writer.emit(name, Type(real, (1, columns)), a, attr=0)
    turned = writer.emit("transpose", Type(writer.names[a].dtype, (columns, rows)), a)
    return writer.emit("dot", Type(real, (rows, rows)), a, turned)


def _along(dtype: DType, name: str) -> Ask:
    return lambda writer: along.drawn(writer, writer.read(dtype), name)


_ALONG = ["sort", "topk", "reduce", "scan"]
DOUBLES: list[Ask] = [
    *(partial(function, dtype=F64, name=name) for name in sorted(UNARY_FLOAT)),
    *(_along(F64, name) for name in (*_ALONG, "cumsum", "cumprod", "prod")),
    partial(addition, dtype=F64, how="add"),
    *(partial(number, dtype=F64, name=name) for name in ("iota", "value")),
    *(partial(each, dtype=F64) for each in (fused, power)),
    partial(neighbours, dtype=F64),
    partial(conversion, source=U64, name="bitcast", dtype=F64),
    partial(conversion, source=F64, name="bitcast", dtype=U64),
]
OTHERS: list[Ask] = [
    *(partial(function, dtype=None, name=name) for name in sorted(UNARY_FLOAT)),
    *(partial(function, dtype=F32, name=name, approx=True) for name in sorted(APPROXIMABLE)),
    partial(power, dtype=F32, approx=True),
    *(_along(dtype, name) for name in (*_ALONG, "cumsum") for dtype in (F32, I32)),
    *(_along(dtype, name) for name in ("prod", "cumprod") for dtype in (F32, U8, I32)),
    *(_along(dtype, "histogram") for dtype in (U8, I32)),
    *(partial(addition, dtype=dtype, how="add") for dtype in (F32, F16, BF16, U32, I64)),
    partial(addition, dtype=F16, how="max"),
    *(partial(number, dtype=F32, name=name) for name in ("iota", "value")),
    *(partial(each, dtype=F32) for each in (fused, power)),
    *(partial(neighbours, dtype=dtype) for dtype in (F32, F16, BF16, I32)),
    *(partial(conversion, source=I32, name="to", dtype=dtype) for dtype in (I16, U16, U32, U64)),
    *(partial(conversion, source=source, name="bitcast", dtype=U32) for source in (F32, I32)),
    partial(conversion, source=U32, name="bitcast", dtype=F32),
]
BATCHES: list[Ask] = [partial(batch, name=name) for name in "sum transpose to select add dot dot".split()]
# Every fourth program is of exactly rounded operations alone: no number of turns that it would always meet.
for each in (DOUBLES, OTHERS):
    each += [lambda writer: None] * (1 - len(each) % 2)
