"""The tile IR as text: one node a line."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from gizml_tile.dtypes import DType
from gizml_tile.errors import Place
from gizml_tile.nodes import (
    Combining,
    Const,
    Elements,
    Message,
    Node,
    Random,
    Reflow,
    Region,
    Scalar,
    Sorting,
    Steps,
    TileProgram,
    View,
    slices,
)

Layouts = Callable[[Node], str]


def text(program: TileProgram, *, places: bool = True, layouts: Layouts | None = None) -> str:
    """The program's nodes, one a line: number, operation, shape and type, operands, layout, source line.

    Regions are indented. Without places, equal programs have equal texts.
    """
    return "\n".join(line.text for line in lines(program, places=places, layouts=layouts)) + "\n"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a program's text, where it comes from, and the node that it is of."""

    text: str
    place: Place | None = None
    node: Node | None = None


def lines(program: TileProgram, *, places: bool = True, layouts: Layouts | None = None) -> list[Line]:
    """The lines of `text`."""
    writer = _Writer(program, layouts)
    writer.region(program.body, 0)
    return [*map(Line, _head(program)), *writer.lines(places)]


def attribute(node: Node, program: TileProgram | None) -> str:
    """A node's attribute in words; without a program that of a node which names no tensor."""
    attr = node.attr
    match node.op:
        case "size":
            assert isinstance(attr, tuple) and program is not None
            return f"{program.tensors[attr[0]].name} axis {int(attr[1])}"
        case "id" | "count":
            return f"axis {attr}"
        case "sum" | "max" | "min" | "concat" | "interleave":
            return f"axis {attr}"
        case "reshape":
            return f"rows of {attr.before} as rows of {attr.after}" if isinstance(attr, Reflow) else ""
        case "slice":
            return " ".join(map(_steps, slices(attr)))
        case "fma":
            assert isinstance(attr, tuple)
            signs = [name for name, set_ in zip(("-product", "-c"), attr, strict=True) if set_]
            return " ".join(signs)
        case "mulhi":
            return "unsigned" if attr else ""
        case "dot":
            return "" if attr == "f32" else str(attr)
    match attr:
        case None | False:
            return ""
        case True:
            return "approx"
        case Combining():
            reverse = " reverse" if attr.reverse else ""
            return f"axis {attr.axis}{reverse} by {_function(attr.function)}"
        case Sorting():
            descending = " descending" if attr.descending else ""
            return f"axis {attr.axis}{descending} first {attr.keep}"
        case Message():
            return " ".join("_" if word is None else repr(word) for word in attr.words)
        case Const():
            return f"axis {attr.value}" if node.op == "iota" else repr(attr.value)
        case View():
            assert program is not None
            pad = "" if node.op == "put" or _is_zero(attr.pad) else f" pad {attr.pad!r}"
            sizes = "x".join(str(size) for size in attr.block)
            if attr.visible:
                sizes += f" ({'x'.join(str(size) for size in attr.visible)})"
            return f"{program.tensors[attr.tensor].name} {attr.mode} {sizes}{pad}"
        case Elements():
            assert program is not None
            pad = "" if node.op == "scatter" or _is_zero(attr.pad) else f" pad {attr.pad!r}"
            tiled = "".join(f" +tile {axis}" for axis in attr.tiled)
            combine = f"{attr.combine} to " if attr.combine else ""
            return f"{combine}{program.tensors[attr.tensor].name}{tiled}{pad}"
        case Random():
            return attr.kind
        case Scalar():
            return attr.name
        case DType():
            return ""
        case _:
            return str(attr)


def _function(region: Region) -> str:
    """A function on one line: ``(a b) c = add a b -> c``."""
    names: dict[Node, str] = {}
    for number, node in enumerate((*region.params, *region.nodes)):
        names[node] = f"%{number}"
    steps = []
    for node in region.nodes:
        words = [attribute(node, None), *(names[arg] for arg in node.args)]
        steps.append(f"{names[node]} = {node.op} {' '.join(word for word in words if word)}")
    params, results = (" ".join(names[node] for node in nodes) for nodes in (region.params, region.results))
    return f"({params}) {'; '.join(steps)} -> {results}"


def _steps(steps: Steps) -> str:
    """Elements of an axis as Python's slice of them: ``8:0:-1`` has no 0, all backwards is ``7::-1``."""
    stop = steps.start + steps.step * steps.size
    step = "" if steps.step == 1 else f":{steps.step}"
    return f"{steps.start}:{stop if stop >= 0 else ''}{step}"


def _is_zero(pad: float | int | bool) -> bool:
    return repr(pad) in ("0", "0.0", "False")


def _head(program: TileProgram) -> list[str]:
    tensors = [f"{tensor.name}: {tensor.dtype.text} rank {tensor.rank}" for tensor in program.tensors]
    scalars = [f"{scalar.name}: {scalar.dtype.text}" for scalar in program.scalars]
    settings = [f"warps {program.warps}"] if program.warps else []
    settings += [f"stages {program.stages}"] if program.stages else []
    settings += ["approx"] if program.approx else []
    settings += [f"{operation} by {name}" for operation, name in program.variants]
    writes = [program.tensors[number].name for number in program.writes]
    lines = [f"program {program.name}({', '.join(tensors + scalars)})"]
    if writes:
        lines.append(f"writes {', '.join(writes)}")
    if settings:
        lines.append(", ".join(settings))
    return lines


class _Writer:
    """Rows of the text while it is written, and the number that each node got."""

    def __init__(self, program: TileProgram, layouts: Layouts | None) -> None:
        self._program = program
        self._layouts = layouts
        self._numbers: dict[Node, int] = {}
        self._rows: list[tuple[tuple[str, str, str, str], Node | None]] = []

    def region(self, region: Region, depth: int) -> None:
        for param in region.params:
            self._row(param, depth, f"param {param.attr}", "")
        for node in region.nodes:
            self._node(node, depth)
        if region.results:
            given = " ".join(str(self._numbers[node]) for node in region.results)
            self._rows.append((("", f"{'  ' * depth}give", "", given), None))

    def _node(self, node: Node, depth: int) -> None:
        operands = " ".join(str(self._numbers[arg]) for arg in node.args)
        if node.op == "loop":
            start, stop, step, *inits = (self._numbers[arg] for arg in node.args)
            operands = f"{start} .. {stop} step {step}"
            if inits:
                operands += f" carries {' '.join(map(str, inits))}"
        words = attribute(node, self._program)
        self._row(node, depth, node.op, f"{words}: {operands}" if words and operands else words or operands)
        for number, region in enumerate(node.regions):
            if node.op == "cond":
                arm = "else" if number else "then"
                self._rows.append((("", f"{'  ' * depth}{arm}", "", ""), None))
            self.region(region, depth + 1)

    def _row(self, node: Node, depth: int, name: str, rest: str) -> None:
        number = self._numbers[node] = len(self._numbers)
        if node.is_index:
            kind = "index"
        elif node.dtype is None:
            kind = ""
        else:
            kind = f"[{node.shape[0]}, {node.shape[1]}] {node.dtype.text}"
        layout = self._layouts(node) if self._layouts and node.is_tile else ""
        if layout:
            rest = f"{rest}  {{{layout}}}" if rest else f"{{{layout}}}"
        self._rows.append(((str(number), f"{'  ' * depth}{name}", kind, rest), node))

    def lines(self, places: bool) -> list[Line]:
        """The rows with their columns aligned."""
        widths = [max((len(row[column]) for row, _ in self._rows), default=0) for column in range(3)]
        lines = []
        for (number, name, kind, rest), node in self._rows:
            line = f"{number:>{widths[0]}}  {name:<{widths[1]}}  {kind:<{widths[2]}}  {rest}"
            place = node.place if node else None
            if places and place:
                line = f"{line:<64}  {os.path.basename(place.filename)}:{place.line}"
            lines.append(Line(line.rstrip(), place, node))
        return lines


_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def duration(seconds: float) -> str:
    """A time in the unit that suits it, such as ``1.38 ms``."""
    unit, scale = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{seconds / scale:.2f} {unit}"


def line_of(place: Place | None) -> str:
    """A line of the person's in short: ``softmax.py:12``; empty where there is none."""
    return f"{os.path.basename(place.filename)}:{place.line}" if place else ""


def counted(number: int, what: str) -> str:
    """A number of ``rows``, ``columns`` and the like in words: one of them is a row."""
    return f"1 {what[:-1]}" if number == 1 else f"{number} {what}"
