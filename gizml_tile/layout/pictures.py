"""Pictures of layouts: as text for the terminal, and as SVG for a notebook or a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from gizml_tile.layout.algebra import AnyLayout, ComposedLayout, size
from gizml_tile.layout.banks import WORD_BYTES, Staged
from gizml_tile.layout.linear import Linear
from gizml_tile.layout.modes import modes_of
from gizml_tile.layout.tuples import text

# What a picture shows unless it is asked for more: what fits a terminal, and what a browser draws at once.
_LIMITS = {"text": (32, 32), "svg": (128, 128)}


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of a picture.

    ``label`` is all that the terminal shows, ``short`` what stands in a cell of an SVG, and ``title`` what
    its hover tells. ``group`` and ``family`` choose the colour: lane and warp, or bank. An element that
    several threads hold is ``replicated``.
    """

    label: str
    short: str
    title: str
    group: int
    family: int = 0
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Cells by row and column, and in how many ``groups`` of colour they come."""

    shape: tuple[int, int]
    cell: Callable[[int, int], Cell]
    caption: str
    groups: int


def draw(
    layout: Linear | AnyLayout | Staged,
    limit: tuple[int, int] | None = None,
    *,
    form: str = "text",
    element_bytes: int = 0,
    banks: int = 32,
) -> str:
    """A grid of a layout as text, or as an SVG with ``form="svg"``, up to ``limit`` rows and columns of it.

    A linear layout of a tile shows each element's holder as ``thread:register``, threads numbered
    through the warps, with ``+`` where there are replicas; one of memory shows offsets. A strided
    layout shows its index at each coordinate of mode 0 (down) and the other modes (across).
    With ``element_bytes`` what shows offsets or indices also shows the bank of each, of ``banks`` of
    4 bytes: ``offset:bank``. In an SVG threads, or banks, are colours, registers stand in the cells, and the
    hover tells the rest. The limit is by default [32, 32] for text and [128, 128] for an SVG.
    """
    if form not in _LIMITS:
        raise ValueError(f"form is 'text' or 'svg', found {form!r}")
    if isinstance(layout, Staged):
        layout = layout.linear(element_bytes or 1)
    if isinstance(layout, Linear):
        threads = not set(layout.names) <= {"row", "column"}
        found = _held(layout) if threads else _stored(layout, element_bytes, banks)
    else:
        found = _strided(layout, element_bytes, banks)
    limit = limit or _LIMITS[form]
    if form == "text":
        return _grid(found, limit)
    from gizml_tile.layout.svg import svg

    return svg(found, limit)


def _held(layout: Linear) -> Picture:
    """A tile in registers: who holds each element."""
    holders: dict[tuple[int, int], list[dict[str, int]]] = {}
    others = [name for name in layout.names if name not in ("register", "lane", "warp")]
    lanes = layout.size("lane")
    names = [*others, "warp", "lane", "register"]
    for numbers in product(*(range(layout.size(name)) for name in names)):
        holder = dict(zip(names, numbers, strict=True))
        holders.setdefault(layout.apply(**holder), []).append(holder)

    def label(holder: dict[str, int]) -> str:
        thread = holder["warp"] * lanes + holder["lane"]
        return "/".join((*(str(holder[name]) for name in others), f"{thread}:{holder['register']}"))

    def cell(row: int, column: int) -> Cell:
        found = holders.get((row, column))
        if found is None:
            return Cell("-", "", f"[{row}, {column}] has no holder", -1)
        first, *rest = found
        where = ", ".join(f"{name} {first[name]}" for name in (*others, "warp", "lane", "register"))
        thread = first["warp"] * lanes + first["lane"]
        more = f"; also {' '.join(map(label, rest[:8]))}{' ...' if len(rest) > 8 else ''}" if rest else ""
        title = f"[{row}, {column}] thread {thread}: {where}{more}"
        mark = "+" if rest else ""
        return Cell(
            label(first) + mark, str(first["register"]), title, first["lane"], first["warp"], bool(rest)
        )

    copies = layout.size("lane") * layout.size("warp") * layout.size("register") / len(holders)
    caption = f"{layout.size('warp')} warps of {lanes} lanes, {layout.size('register')} registers each"
    caption += f"; each element held {copies:.0f} times" if copies > 1 else ""
    return Picture(layout.shape, cell, caption, lanes)


def _stored(layout: Linear, element_bytes: int, banks: int) -> Picture:
    """A tile in memory: the offset of each element."""
    shape = layout.size("row"), layout.size("column")

    def place(row: int, column: int) -> object:
        place = layout.apply(row=row, column=column)
        return place[1] if layout.shape[0] == 1 else place

    return _indexed(shape, place, element_bytes, banks)


def _strided(layout: AnyLayout, element_bytes: int, banks: int) -> Picture:
    plain = layout
    while isinstance(plain, ComposedLayout):
        plain = plain.outer
    modes = modes_of(plain)
    if len(modes) == 1:
        return _indexed((1, size(plain)), lambda _, column: layout(column), element_bytes, banks)
    rows = size(modes[0])
    # A 1-D coordinate counts down mode 0 first, so this is the coordinate (row, column).
    shape = (rows, size(plain) // rows)
    return _indexed(shape, lambda row, column: layout(row + rows * column), element_bytes, banks)


def _indexed(
    shape: tuple[int, int], place: Callable[[int, int], object], element_bytes: int, banks: int
) -> Picture:
    """Offsets or coordinates, coloured by the bank that they are in, else by their last bits."""

    def cell(row: int, column: int) -> Cell:
        found = place(row, column)
        label = text(found)
        if not isinstance(found, int):
            return Cell(label, label, f"[{row}, {column}] at {label}", row % banks)
        if not element_bytes:
            return Cell(label, label, f"[{row}, {column}] at {label}", found % banks)
        byte = found * element_bytes
        bank = byte // WORD_BYTES % banks
        return Cell(f"{label}:{bank}", label, f"[{row}, {column}] at {label}, byte {byte}, bank {bank}", bank)

    caption = f"offsets, coloured by bank of {banks}" if element_bytes else "offsets"
    return Picture(shape, cell, caption, banks)


def _grid(picture: Picture, limit: tuple[int, int]) -> str:
    shape = picture.shape
    rows, columns = (min(extent, most) for extent, most in zip(shape, limit, strict=True))
    more = ["..."] if columns < shape[1] else []
    table = [["", *map(str, range(columns)), *more]]
    for row in range(rows):
        table.append([str(row), *(picture.cell(row, column).label for column in range(columns)), *more])
    if rows < shape[0]:
        table.append(["...", *[""] * (len(table[0]) - 1)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(part.rjust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
    return "\n".join(lines)
