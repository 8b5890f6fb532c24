"""Pictures of layouts for the terminal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from gizml_tile.layout.algebra import AnyLayout, ComposedLayout, size
from gizml_tile.layout.linear import Linear
from gizml_tile.layout.modes import modes_of
from gizml_tile.layout.tuples import text


def draw(layout: Linear | AnyLayout, limit: tuple[int, int] = (32, 32)) -> str:
    """A grid of a layout as text, at most ``limit`` rows and columns of it.

    A linear layout of a tile shows each element's holder as ``thread:register``, threads numbered
    through the warps, with ``+`` where there are replicas; one of memory shows offsets. A strided
    layout shows its index at each coordinate of mode 0 (down) and the other modes (across).
    """
    if isinstance(layout, Linear):
        return _grid(*_linear_cells(layout), limit)
    plain = layout
    while isinstance(plain, ComposedLayout):
        plain = plain.outer
    modes = modes_of(plain)
    if len(modes) == 1:
        return _grid((1, size(plain)), lambda _, column: text(layout(column)), limit)
    rows = size(modes[0])
    # A 1-D coordinate counts down mode 0 first, so this is the coordinate (row, column).
    return _grid((rows, size(plain) // rows), lambda row, column: text(layout(row + rows * column)), limit)


def _linear_cells(layout: Linear) -> tuple[tuple[int, int], Callable[[int, int], str]]:
    if set(layout.names) <= {"row", "column"}:
        shape = layout.size("row"), layout.size("column")
        if layout.shape[0] == 1:
            return shape, lambda row, column: str(layout.apply(row=row, column=column)[1])
        return shape, lambda row, column: text(layout.apply(row=row, column=column))
    holders: dict[tuple[int, int], list[str]] = {}
    others = [name for name in layout.names if name not in ("register", "lane", "warp")]
    lanes = layout.size("lane")
    names = [*others, "warp", "lane", "register"]
    for numbers in product(*(range(layout.size(name)) for name in names)):
        holder = dict(zip(names, numbers, strict=True))
        label = f"{holder['warp'] * lanes + holder['lane']}:{holder['register']}"
        label = "/".join((*(str(holder[name]) for name in others), label))
        holders.setdefault(layout.apply(**holder), []).append(label)

    def cell(row: int, column: int) -> str:
        found = holders.get((row, column), ["-"])
        return found[0] + ("+" if len(found) > 1 else "")

    return layout.shape, cell


def _grid(shape: tuple[int, int], cell: Callable[[int, int], str], limit: tuple[int, int]) -> str:
    rows, columns = (min(extent, most) for extent, most in zip(shape, limit, strict=True))
    more = ["..."] if columns < shape[1] else []
    table = [["", *map(str, range(columns)), *more]]
    table += [[str(row), *(cell(row, column) for column in range(columns)), *more] for row in range(rows)]
    if rows < shape[0]:
        table.append(["...", *[""] * (len(table[0]) - 1)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(part.rjust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
    return "\n".join(lines)
