"""Batches in random programs: blocks of three sizes, tiles out of them, and what is stored of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from intervals import Value
from programs import Type, ViewSpec

if TYPE_CHECKING:
    from writer import Writer

# What an operation's attribute is that has no axis in it.
_WITHOUT_AXIS = frozenset("read zeros full histogram reshape broadcast_to to bitcast dot mulhi".split())


def draw(writer: Writer) -> str:
    """A batch that is read or filled, or a tile of one."""
    random, owner = writer.random, writer.owner
    found = writer.pick(lambda t: t.batch > 0, many=True)
    roll = random.random()
    if found is not None and roll < 0.4:
        kind = writer.names[found]
        number = random.randrange(-kind.batch, kind.batch)
        return writer.emit("tile", Type(kind.dtype, kind.shape), found, attr=number)
    if roll < 0.55:
        shape = (owner.size(), owner.size())
        real = owner.real_dtype()
        kind, whole = Type(real, shape, batch=owner.batch), (owner.batch, *shape)
        if random.random() < 0.5:
            return writer.emit("zeros", kind, attr=(whole, real))
        return writer.emit("full", kind, attr=(whole, writer.number(), real))
    return writer.read_from(owner.input(None, None, batch=owner.batch))


def axis_in_text(name: str, attr: object) -> object:
    """An operation's attribute with the axis of a batch in place of a tile's."""
    if name in _WITHOUT_AXIS:
        return attr
    if isinstance(attr, tuple):
        return (axis_in_text("", attr[0]), *attr[1:])
    return attr + 1 if type(attr) is int and attr >= 0 else attr


def apart(value: Value) -> tuple[Value, ...]:
    """The tiles of a block of three sizes."""
    return tuple(Value(value.dtype, lo, hi) for lo, hi in zip(value.lo, value.hi, strict=True))


def together(value: object, view: ViewSpec) -> object:
    """Tiles as a block of three sizes."""
    tiles = value if isinstance(value, tuple) else (value,)
    ends = ([np.broadcast_to(getattr(each, end), view.tile) for each in tiles] for end in ("lo", "hi"))
    return Value(tiles[0].dtype, *(np.broadcast_to(np.stack(end), view.block) for end in ends))
