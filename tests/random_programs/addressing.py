"""Elements by data in random programs: gathers, scatters, masked blocks, numbers out of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from intervals import Value, hull, integers, to, where
from programs import INDEX, Arg, Literal, Op, Type, ViewSpec
from reference import extreme
from sums import Addends

from gizml_tile.dtypes import ACCUMULATED, F64, I8, I16, I32, I64, MASK, U8, U16, U32, U64, DType
from gizml_tile.nodes import broadcast

if TYPE_CHECKING:
    from generate import Generator
    from writer import Writer

STORES = frozenset({"scatter", "scatter_add", "scatter_exactly", "scatter_max", "scatter_min"})
NAMES = STORES | {"gather", "element", "masked"}
_COUNTING = (I8, U8, I16, U16, I32, U32, I64, U64)


@contextmanager
def hidden(writer: Writer) -> Iterator[None]:
    """Most often what coordinates and masks are made of is not offered to what comes after."""
    before = set(writer.names)
    yield
    if writer.random.random() < 0.7:
        writer.names = {name: kind for name, kind in writer.names.items() if name in before or kind.is_index}


def read(writer: Writer) -> str:
    """A gather, a block of which a mask reads some, or a number out of a tensor."""
    with hidden(writer):
        result = _read(writer)
        kind = writer.names[result]
    writer.names[result] = kind
    return result


def _read(writer: Writer) -> str:
    random, owner = writer.random, writer.owner
    roll = random.random()
    if roll < 0.25:
        return element(writer)
    view = owner.input(None, None)
    tensor = owner.tensor(view.tensor)
    if roll < 0.5:
        places = [writer.index() for _ in tensor.axes]
        mode = random.choice(["at", "window"])
        chosen = mask(writer, view.tile)
        return writer.emit("masked", Type(tensor.dtype, view.tile), *places, chosen, attr=(view.name, mode))
    wanted = (owner.size(), owner.size())
    places = [coordinate(writer, wanted) for _ in tensor.axes]
    shapes = [writer.names[each].shape for each in places if is_tile(writer, each)]
    shape = broadcast(*shapes) if shapes else (1, 1)
    assert shape is not None
    masks = [mask(writer, shape)] if random.random() < 0.3 else []
    attr = (view.name, bool(masks))
    return writer.emit("gather", Type(tensor.dtype, shape), *places, *masks, attr=attr)


def element(writer: Writer) -> str:
    """A number out of a tensor that nobody writes, as an index."""
    random, owner = writer.random, writer.owner
    view = owner.input(random.choice(_COUNTING), (1, owner.size()), fresh=True)
    places = [writer.index() for _ in owner.tensor(view.tensor).axes]
    return writer.emit("element", INDEX, *places, attr=view.name)


def coordinate(writer: Writer, shape: tuple[int, int]) -> Arg:
    """An index, a count with something added, or integers out of a tensor that nobody writes."""
    random = writer.random
    roll = random.random()
    if roll < 0.25:
        return writer.index()
    form = random.choice([shape, (shape[0], 1), (1, shape[1])])
    if roll < 0.5:
        view = writer.owner.input(random.choice(_COUNTING), form, fresh=True)
        return writer.read_from(view)
    dtype = random.choice([I32, I32, I64])
    found = writer.emit("iota", Type(dtype, form), attr=(form, random.randrange(2), dtype))
    if random.random() < 0.3:
        found = writer.emit("mul", Type(dtype, form), found, Literal(random.choice([2, -1, 3])))
    if random.random() < 0.5:
        added: Arg = Literal(random.choice([1, -1, 4, -3]))
        if random.random() < 0.5 and isinstance(at := writer.index(), str):
            added = writer.emit("value", Type(dtype), at, attr=dtype)
        found = writer.emit("add", Type(dtype, form), found, added)
    return found


def is_tile(writer: Writer, arg: Arg) -> bool:
    return isinstance(arg, str) and not writer.names[arg].is_index


def mask(writer: Writer, shape: tuple[int, int]) -> str:
    """A mask that broadcasts to a shape: one of the program's, or a comparison of counts."""
    random = writer.random
    found = writer.pick(lambda t: t.dtype is MASK and not t.batch and broadcast(t.shape, shape) == shape)
    if found is not None and random.random() < 0.5:
        return found
    form = random.choice([shape, (shape[0], 1), (1, shape[1])])
    count = writer.emit("iota", Type(I32, form), attr=(form, random.randrange(2), I32))
    name, number = random.choice(["lt", "ge", "ne"]), Literal(random.choice([0, 1, 2, 5]))
    return writer.emit(name, Type(MASK, form), count, number)


def scatter(owner: Generator, writer: Writer, name: str, view: ViewSpec, places: list[Arg]) -> Op:
    """A store of a tile at block coordinates, element by element: rows or columns backwards, some masked."""
    random, axes = owner.random, []
    for axis, place in enumerate(places):
        blocked = axis - len(places) + len(view.block)
        if blocked < 0:
            axes.append(place)
            continue
        size = view.block[blocked]
        along = blocked + 2 - len(view.block)
        form = (size, 1) if along == 0 else (1, size)
        count: Arg = writer.emit("iota", Type(I64, form), attr=(form, along, I64))
        if random.random() < 0.5:
            count = writer.emit("neg", Type(I64, form), count)
            count = writer.emit("add", Type(I64, form), count, Literal(size - 1))
        if isinstance(place, Literal):
            base: Arg = Literal(int(place.value) * size)
        else:
            scaled = writer.emit("mul", INDEX, place, Literal(size))
            base = writer.emit("value", Type(I64), scaled, attr=I64)
        axes.append(writer.emit("add", Type(I64, form), count, base))
    masks = [mask(writer, view.tile)] if random.random() < 0.4 else []
    return Op("scatter", (), (), (name, *axes, *masks), (view.name, bool(masks)))


def accumulate(owner: Generator, writer: Writer, name: str, view: ViewSpec, how: str = "") -> Op:
    """Numbers that are added, or of which the larger or smaller stay, wherever they meet."""
    random, shape = owner.random, writer.names[name].shape
    places: list[Arg] = []
    for _ in owner.tensor(view.tensor).axes:
        found = coordinate(writer, shape)
        places.append(found)
    if not any(is_tile(writer, each) and writer.names[each].shape == shape for each in places):
        places[0] = writer.emit("iota", Type(I32, shape), attr=(shape, random.randrange(2), I32))
    masks = [mask(writer, shape)] if random.random() < 0.3 else []
    attr = (view.name, bool(masks))
    dtype = owner.tensor(view.tensor).dtype
    if owner.exact and dtype.is_float and F64 not in (dtype, writer.names[name].dtype):
        owner.summed.append(view)
        return Op("scatter_exactly", (), (), (name, *places, *masks), attr)
    # Sums of floats depend on their order, whatever else is exactly rounded.
    sums = [] if owner.ieee and dtype.is_float else ["add", "add"]
    how = how or random.choice([*sums, "max", "min"])
    return Op(f"scatter_{how}", (), (), (name, *places, *masks), attr)


# Text


def written(name: str, args: list[str], attr: object) -> str:
    """The call in a program's text."""
    if name == "element":
        return f"{attr}.index([{', '.join(args)}])"
    view, *rest = attr
    if name == "masked":
        *places, chosen = args
        return f"{view}.{rest[0]}([{', '.join(places)}], mask={chosen})"
    stored = args[: name in STORES]
    places = args[len(stored) :]
    chosen = f", mask={places.pop()}" if rest[0] else ""
    first = "".join(f"{each}, " for each in stored)
    if name == "scatter_exactly":
        return f"{view}.scatter_add({first}[{', '.join(places)}]{chosen}, deterministic=True)"
    return f"{view}.{name}({first}[{', '.join(places)}]{chosen})"


# Meaning


def positions(args: list[object], shape: tuple[int, ...], sizes: tuple[int, ...]):
    """The place of each element along each axis, and which are inside."""
    found, inside = [], np.ones(shape, bool)
    for arg, size in zip(args, sizes, strict=True):
        place = arg.value if isinstance(arg, Literal) else arg
        if isinstance(place, Value):
            assert place.exact.all(), "coordinates are known"
            place = place.lo
        place = np.broadcast_to(np.asarray(place, np.int64), shape)
        inside &= (place >= 0) & (place < size)
        found.append(place)
    return found, inside


def gather(memory: Value, pad: Value, args: list[object], chosen: Value | None, shape) -> Value:
    """What a gather may give."""
    found, inside = positions(args, shape, memory.shape)
    at = tuple(np.where(inside, each, 0) for each in found)
    if 0 in memory.shape:
        read = Value(pad.dtype, *(np.broadcast_to(end, shape) for end in (pad.lo, pad.hi)))
    else:
        read = Value(memory.dtype, memory.lo[at], memory.hi[at])
    return masked(where(inside, read, pad), pad, chosen)


def masked(value: Value, pad: Value, chosen: Value | None) -> Value:
    """A value where a mask is set, else the pad; between both where the mask is not known."""
    if chosen is None:
        return value
    pad = Value(pad.dtype, *(np.broadcast_to(end, value.shape).copy() for end in (pad.lo, pad.hi)))
    known = where(chosen.lo, value, pad)
    return where(np.broadcast_to(chosen.exact, value.shape), known, hull(value, pad))


def store(memory: Value, op: Op, value: Value, args: list[object], chosen: Value | None, shape) -> None:
    """Change a memory as a scatter does."""
    found, inside = positions(args, shape, memory.shape)
    value = to(value, memory.dtype)
    lo, hi = (np.broadcast_to(end, shape) for end in (value.lo, value.hi))
    sure = np.broadcast_to(True if chosen is None else chosen.lo, shape)
    maybe = np.broadcast_to(True if chosen is None else chosen.hi, shape)
    for place in zip(*np.nonzero(inside & maybe), strict=True):
        at = tuple(int(each[place]) for each in found)
        new = Value(memory.dtype, lo[place][None, None], hi[place][None, None])
        old = Value(memory.dtype, memory.lo[at][None, None], memory.hi[at][None, None])
        if op.name != "scatter":
            new = _combined(op.name, old, new)
        if not sure[place]:
            new = hull(old, new)
        memory.lo[at], memory.hi[at] = new.lo[0, 0], new.hi[0, 0]


def _combined(name: str, old: Value, new: Value) -> Value:
    if old.dtype.is_float:
        found = extreme("maximum" if name == "scatter_max" else "minimum", old, new)
        return Value(old.dtype, found.lo, found.hi)
    known = old.exact & new.exact
    rule = {"scatter_add": np.add, "scatter_max": np.maximum, "scatter_min": np.minimum}[name]
    with np.errstate(all="ignore"):
        return integers(rule(old.lo, new.lo), old.dtype, known)


def addends(value: Value, args: list[object], chosen: Value | None, shape, sizes: tuple[int, ...]) -> Addends:
    """What a scatter adds to the elements of a tensor of some sizes."""
    found, inside = positions(args, shape, sizes)
    maybe = inside & np.broadcast_to(True if chosen is None else chosen.hi, shape)
    sure = np.broadcast_to(True if chosen is None else chosen.lo, shape)
    places = np.zeros(0, np.int64)
    if maybe.any():
        places = np.ravel_multi_index([each[maybe] for each in found], sizes)
    lo, hi = (np.broadcast_to(end, shape)[maybe] for end in (value.lo, value.hi))
    return Addends(places, Value(value.dtype, lo, hi), sure[maybe])


def is_single(kind: Type) -> bool:
    """Whether a value is a tile that exact sums take."""
    return kind.dtype is not None and kind.dtype.is_float and kind.dtype is not F64 and not kind.batch


def accumulates(owner: Generator, stored: DType, kind: Type) -> bool:
    """Whether a value becomes what is added to a tensor of a type."""
    chance = (0.6 if owner.exact and is_single(kind) else 0.15) if stored.is_float else 0.25
    return stored in ACCUMULATED and owner.random.random() < chance
