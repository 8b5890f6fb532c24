"""The records of a launch: the memory that it brings for them, and what is told of them afterwards."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from gizml_tile.dtypes import I64
from gizml_tile.errors import TileError, TileWarning, here
from gizml_tile.grids import Grid
from gizml_tile.recording import Array, Record, Site, as_text, read
from gizml_tile.runtime.disk_cache import bytes_of
from gizml_tile.runtime.tensors import TensorInfo

SIZE_VARIABLE = "GIZML_TILE_DEBUG_SIZE"
_DEFAULT_SIZE = 64 << 20
# Words of a program's row: enough for a check, and not more than anybody reads.
_LEAST, _MOST = 8, 1 << 20
_WORD = 8


class Rows(Protocol):
    """Memory that a device writes, at ``pointer``, and the host reads; ``owner`` keeps it."""

    pointer: int
    owner: Any

    def taken(self) -> Array:
        """All words, once everything launched so far is done; the memory is given back."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """What a launch brings for what its programs print and check: a row for each."""

    sites: tuple[Site, ...]
    rows: Rows
    shape: tuple[int, int]
    device: str
    grid: Grid

    @property
    def info(self) -> TensorInfo:
        """The rows as a tensor."""
        strides = (self.shape[1], 1)
        return TensorInfo(I64, self.shape, strides, self.rows.pointer, self.device, "", self.rows.owner)

    def tell(self) -> None:
        """Print what was printed. Raises TileError for a check that failed, at its line."""
        failed = self.told()
        if failed:
            raise TileError(self.failure(failed), failed[0].site.place)

    def told(self) -> list[Record]:
        """Print what was printed; the checks that failed."""
        found = read(self.rows.taken().reshape(self.shape), self.sites)
        printed = [_line(record, self.grid) for record in found.records if record.site.op == "print"]
        if printed:
            print("\n".join(printed))
        if found.lost:
            self._warn(found.lost)
        return [record for record in found.records if record.site.op == "check"]

    def failure(self, failed: Sequence[Record]) -> str:
        """What checks that failed say, of which the first is described."""
        return _failure(failed, self.grid)

    def _warn(self, lost: int) -> None:
        place = next((site.place for site in self.sites if site.place), None)
        message = (
            f"{lost} records of p.print and p.check are lost: each program has room for {self.shape[1]} "
            f"words of 8 bytes; {SIZE_VARIABLE}=1G gives all of them together more"
        )
        warnings.warn_explicit(
            message, TileWarning, place.filename if place else "", place.line if place else 1
        )


def records(sites: tuple[Site, ...], device: str, grid: Grid) -> Records:
    """Memory for the records of a launch on a device."""
    programs = math.prod(grid)
    words = max(_LEAST, min(_MOST, _size() // _WORD // max(programs, 1)))
    count = programs * words
    kind = device.partition(":")[0]
    rows: Rows
    if kind == "cpu":
        rows = _HostRows(count)
    else:
        rows = import_module(f"gizml_tile.runtime.{kind}.records").DeviceRows(count, device)
    return Records(sites, rows, (programs, words), device, grid)


class _HostRows:
    """Rows in the computer's memory."""

    def __init__(self, count: int) -> None:
        self._words: Array = np.zeros(count, np.int64)
        self.owner: Any = self._words
        self.pointer = self._words.ctypes.data

    def taken(self) -> Array:
        """The words; a launch on the CPU is done when it returns."""
        return self._words


def _size() -> int:
    """Bytes that all programs' records may take: what GIZML_TILE_DEBUG_SIZE says, or 64 MiB."""
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    found = bytes_of(text) if text else _DEFAULT_SIZE
    if found is None:
        raise TileError(f"{SIZE_VARIABLE}={text} is not a number of bytes, such as 64M or 1G", here())
    return found


def _ids(program: int, grid: Grid) -> str:
    """A program's place in the grid: ``program (1, 0)``."""
    ids = [int(each) for each in np.unravel_index(program, grid, order="F")]
    return f"program {ids[0]}" if len(ids) == 1 else f"program ({', '.join(map(str, ids))})"


def _line(record: Record, grid: Grid) -> str:
    """A printed line: place, program, words and values; the rows of an array stand under its first."""
    place = record.site.place
    where = f"{os.path.basename(place.filename)}:{place.line}: " if place else ""
    values = map(as_text, record.values)
    words = [next(values) if word is None else word for word in record.site.words]
    line = f"{where}{_ids(record.program, grid)}:"
    for word in words:
        # Rows that stand under each other start in one column.
        lines = word.split("\n")
        indent = " " * (len(line) - line.rfind("\n"))
        line += " " + f"\n{indent}".join(lines)
    return line


def _failure(failed: Sequence[Record], grid: Grid) -> str:
    first = failed[0]
    rows, columns = first.site.values[0][0]
    count, at, *value = first.values
    text = f"check failed: {first.site.words[0]}: in {_ids(first.program, grid)}"
    if rows * columns > 1:
        text += f" {int(count)} of {rows} x {columns} elements, the first at {list(divmod(int(at), columns))}"
    if value:
        text += f" where the value is {as_text(value[0])}"
    same = sum(record.site is first.site for record in failed) - 1
    others = len({record.site for record in failed}) - 1
    if same:
        text += f"; it fails {same} more {'times' if same > 1 else 'time'}"
    if others:
        text += f"; {others} other {'checks fail' if others > 1 else 'check fails'}"
    return text
