"""What programs print and check, as words in a launch's records: how many, and what they say.

A launch's records are an I64 tensor with a row for each program, programs counted with axis 0 fastest. A row
starts with how many words were used and how many records were made; records follow in the order of the
program as far as there is room. A record is the number of its node (`sites`), from 1, and then

- of ``print`` each value's words: an index, or a tile's elements row by row, of a large tile its corners;
- of ``check`` how many elements are false, the number of the first one row by row, and the value there.

F64 are their bits, other floats those of F32. The stores that make records are
lowering/tile_passes/records.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gizml_tile.dtypes import F64, I64, MASK, U64, DType
from gizml_tile.errors import Place
from gizml_tile.nodes import RECORDS, Message, Node, Shape, TileProgram

HEADER = 2
# A tile with more elements than this is recorded, and printed, as NumPy prints large arrays.
_WHOLE, _EDGE = 1000, 3

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Site:
    """A ``print`` or ``check`` of a program: its words, its values' shapes and types, its line."""

    op: str
    words: tuple[str | None, ...]
    values: tuple[tuple[Shape, DType], ...]
    place: Place | None


@dataclass(frozen=True, slots=True)
class Record:
    """What one site said in one program: for ``print`` its values, for ``check`` what failed.

    ``values`` of a check are how many elements are false, the first one's number, and the value there.
    """

    program: int
    site: Site
    values: tuple[Array, ...]


def sites(program: TileProgram) -> tuple[Site, ...]:
    """What a program prints and checks, in program order."""
    return tuple(_site(node) for node in program.body.walk() if node.op in RECORDS)


def _site(node: Node) -> Site:
    assert isinstance(node.attr, Message), node
    values = tuple((arg.shape, I64 if arg.dtype is None else arg.dtype) for arg in node.args)
    return Site(node.op, node.attr.words, values, node.place)


def kept(size: int, elements: int) -> tuple[int, ...]:
    """Which places along an axis of a tile of so many elements are recorded: all, or those at both ends."""
    if elements <= _WHOLE or size <= 2 * _EDGE:
        return tuple(range(size))
    return (*range(_EDGE), *range(size - _EDGE, size))


def words(node: Node) -> int:
    """The words of a node's record."""
    if node.op == "check":
        return 2 + len(node.args)
    return 1 + sum(_count(arg.shape) for arg in node.args)


def _count(shape: Shape) -> int:
    if not shape:
        return 1
    rows, columns = (len(kept(size, shape[0] * shape[1])) for size in shape)
    return rows * columns


@dataclass(frozen=True, slots=True)
class Read:
    """A launch's records, programs in order, and how many there was no room for."""

    records: tuple[Record, ...]
    lost: int


def read(rows: Array, known: Sequence[Site]) -> Read:
    """The records in a launch's rows."""
    found: list[Record] = []
    lost = 0
    for program in np.flatnonzero(rows[:, 1]):
        row = rows[program]
        made = list(_records(int(program), row[HEADER : int(row[0])], known))
        found.extend(made)
        lost += int(row[1]) - len(made)
    return Read(tuple(found), lost)


def _records(program: int, row: Array, known: Sequence[Site]) -> Iterator[Record]:
    """The records that are whole in what there is of a row."""
    start = 0
    while start < len(row):
        site = known[int(row[start]) - 1]
        start += 1
        values: list[Array] = []
        for shape, dtype in _recorded(site):
            count = _count(shape)
            values.append(_value(row[start : start + count], shape, dtype))
            start += count
        if start > len(row):
            return
        yield Record(program, site, tuple(values))


def _recorded(site: Site) -> Iterator[tuple[Shape, DType]]:
    """The shapes and types of what a record of a site has."""
    if site.op == "print":
        yield from site.values
        return
    yield from (((), I64), ((), I64))
    for _, dtype in site.values[1:]:
        yield (), dtype


def _value(found: Array, shape: Shape, dtype: DType) -> Array:
    """A value of its own shape; what was not recorded of a large tile is 0."""
    if dtype is F64:
        found = found.view(np.float64)
    elif dtype.is_float:
        found = found.astype(np.int32).view(np.float32)
    elif dtype is MASK:
        found = found.astype(bool)
    elif dtype is U64:
        found = found.view(np.uint64)
    if not shape:
        return found[0] if len(found) else found
    result = np.zeros(shape, found.dtype)
    chosen = np.ix_(*(kept(size, shape[0] * shape[1]) for size in shape))
    part = result[chosen]
    if part.size == found.size:
        result[chosen] = found.reshape(part.shape)
    return result


def as_text(value: Array) -> str:
    """A value as it is printed: a number, or an array as NumPy prints it, of a large one the corners."""
    if value.ndim == 0:
        return str(value)
    if value.size == 1:
        return str(value[0, 0])
    return np.array2string(value, threshold=_WHOLE, edgeitems=_EDGE, max_line_width=100)
