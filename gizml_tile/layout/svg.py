"""A picture of a layout as SVG: a cell for each element, or for each run of neighbours where many are."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gizml_tile.layout.pictures import Cell, Picture

# Sides of cells by the number of columns: labels stand in those that are wide enough.
_SIDES = ((16, 30), (32, 22), (64, 12))
_SMALLEST = 7
_LABELLED = 20
_GUTTER = 30
_HEAD = 34
_STYLE = (
    ".tile-layout{font:11px ui-monospace,Menlo,Consolas,monospace}"
    ".tile-layout .words{fill:#57606a}"
    ".tile-layout .cells text{fill:#16181d;text-anchor:middle;font-size:9px}"
    ".tile-layout .none{fill:none;stroke:#8c959f}"
    "@media (prefers-color-scheme:dark){.tile-layout .words{fill:#9da7b3}"
    ".tile-layout .cells{filter:brightness(.82)}}"
)


def svg(picture: Picture, limit: tuple[int, int]) -> str:
    """The picture, up to ``limit`` rows and columns; what is left out is told."""
    rows, columns = (min(extent, most) for extent, most in zip(picture.shape, limit, strict=True))
    side = next((side for most, side in _SIDES if max(rows, columns) <= most), _SMALLEST)
    cells = [[picture.cell(row, column) for column in range(columns)] for row in range(rows)]
    longest = max((len(cell.short) for line in cells for cell in line), default=1)
    wide = max(side, 6 * longest + 4) if side >= _LABELLED else side
    width, height = _GUTTER + columns * wide + 8, _HEAD + rows * side + 8
    shown = [f"[{picture.shape[0]}, {picture.shape[1]}]", picture.caption]
    if (rows, columns) != picture.shape:
        shown.append(f"the first {rows} rows and {columns} columns")
    words = ", ".join(shown)
    width = max(width, 7 * len(words) + 10)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tile-layout" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><style>{_STYLE}</style>',
        f'<text class="words" x="4" y="13">{escape(words)}</text>',
        *_axes(rows, columns, wide, side),
        '<g class="cells">',
    ]
    for row, line in enumerate(cells):
        parts += _row(line, picture, _HEAD + row * side, wide, side)
    return "\n".join([*parts, "</g></svg>"])


def _axes(rows: int, columns: int, wide: int, side: int) -> Iterator[str]:
    """Numbers of columns above and rows at the left, as many as there is room for."""
    across = max(1, -(-24 // wide))
    across = 1 << (across - 1).bit_length()
    down = 1 << (max(1, -(-12 // side)) - 1).bit_length()
    for column in range(0, columns, across):
        x = _GUTTER + column * wide + wide / 2
        yield f'<text class="words" x="{x:g}" y="{_HEAD - 4}" text-anchor="middle">{column}</text>'
    for row in range(0, rows, down):
        y = _HEAD + row * side + side / 2 + 4
        yield f'<text class="words" x="{_GUTTER - 5}" y="{y:g}" text-anchor="end">{row}</text>'


def _row(line: list[Cell], picture: Picture, y: int, wide: int, side: int) -> Iterator[str]:
    labelled = side >= _LABELLED
    start = 0
    while start < len(line):
        stop = start + 1
        while not labelled and stop < len(line) and _alike(line[start], line[stop]):
            stop += 1
        cell, x, width = line[start], _GUTTER + start * wide, (stop - start) * wide
        title = cell.title if stop == start + 1 else f"{cell.title} to {line[stop - 1].title}"
        paint = f'fill="{colour(cell, picture.groups)}"' if cell.group >= 0 else 'class="none"'
        inside = f"<title>{escape(title)}</title>"
        yield f'<g>{inside}<rect x="{x}" y="{y}" width="{width - 1}" height="{side - 1}" {paint}/>'
        if labelled:
            yield f'<text x="{x + wide / 2:g}" y="{y + side / 2 + 3:g}">{escape(cell.short)}</text>'
        if cell.replicated and labelled:
            # A folded corner: there are more holders behind this one.
            yield f'<path d="M{x + wide - 1} {y}v6l-6 -6z" fill="#16181d"/>'
        yield "</g>"
        start = stop


def _alike(first: Cell, other: Cell) -> bool:
    return (first.group, first.family) == (other.group, other.family) and first.group >= 0


def colour(cell: Cell, groups: int) -> str:
    """The colour of a lane of a warp, or of a bank: light enough for dark letters on it."""
    hue = 360 * cell.group / groups
    lightness = 84 - 9 * (cell.group % 2) - 6 * (cell.family % 4)
    return f"hsl({hue:.0f} 68% {lightness}%)"
