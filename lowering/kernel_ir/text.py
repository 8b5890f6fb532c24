"""The kernel IR as text: one instruction a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import (
    WORKGROUP,
    Access,
    Barrier,
    Block,
    Bulk,
    BulkWait,
    Copy,
    GroupMatrix,
    Instruction,
    Kernel,
    Matrix,
    MatrixAccess,
    Operand,
    Parameter,
    Signal,
)

Places = tuple[tuple[int, int], ...]


def text(kernel: Kernel, *, places: bool = True) -> str:
    """A kernel's head and instructions: number, operation, type and registers, operands, source line.

    Blocks are indented. Without places, equal kernels have equal texts.
    """
    return "\n".join(line.text for line in lines(kernel, places=places)) + "\n"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a kernel's text, and where it comes from."""

    text: str
    place: Place | None = None


def lines(kernel: Kernel, *, places: bool = True) -> list[Line]:
    """The lines of `text`."""
    writer = _Writer(kernel)
    writer.block(kernel.body, 0)
    return [*map(Line, _head(kernel)), *writer.lines(places)]


def _head(kernel: Kernel) -> list[str]:
    facts = [f"{kernel.threads} threads", f"{kernel.workgroup_memory} bytes of workgroup memory"]
    facts += [f"grid of {kernel.axes} axes"] if kernel.axes > 1 else []
    facts += [f"{kernel.resident} resident"] if kernel.resident > 1 else []
    facts += [f"clusters of {kernel.cluster}"] if kernel.cluster > 1 else []
    facts += [f"{kernel.together} programs along axis {kernel.along}"] if kernel.together > 1 else []
    facts += [f"{kernel.signals} signals"] if kernel.signals else []
    lines = [f"kernel {kernel.name} for {kernel.target}: {', '.join(facts)}"]
    for number, tensor in enumerate(kernel.tensors):
        lines.append(f"tensor {number} {tensor.name}: {tensor.dtype.text} rank {tensor.rank}")
    for number, buffer in enumerate(kernel.buffers):
        size = f"{buffer.dtype.text} x {buffer.elements} at byte {buffer.offset}"
        lines.append(f"buffer {number} {buffer.name}: {size}")
    if kernel.parameters:
        lines.append(f"parameters: {', '.join(_parameter(each, kernel) for each in kernel.parameters)}")
    return lines


class _Writer:
    """Rows of the text while it is written, and the number that each instruction got."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._numbers: dict[Instruction, int] = {}
        self._rows: list[tuple[str, str, Place | None]] = []

    def block(self, block: Block, depth: int) -> None:
        for param in block.params:
            self._row(param, depth, f"param {_kind(param)}")
        for instruction in block.instructions:
            self._instruction(instruction, depth)
        if block.results:
            self._rows.append(("", f"{'  ' * depth}give {self._operands(block.results)}", None))

    def _instruction(self, instruction: Instruction, depth: int) -> None:
        words = _attribute(instruction, self._kernel)
        if instruction.op == "loop":
            start, stop, step, *inits = (f"%{self._numbers[arg]}" for arg in instruction.args)
            operands = f"{start} .. {stop} step {step}"
            operands += f" carries {' '.join(inits)}" if inits else ""
        else:
            operands = self._operands(instruction.args)
        head = " ".join(each for each in (instruction.op, _kind(instruction)) if each)
        rest = f"{operands} [{words}]" if operands and words else operands or words
        self._row(instruction, depth, f"{head}: {rest}" if rest else head)
        for number, block in enumerate(instruction.blocks):
            if instruction.op == "branch":
                self._rows.append(("", f"{'  ' * depth}{'else' if number else 'then'}", None))
            if instruction.op == "roles":
                self._rows.append(("", f"{'  ' * depth}{_role(instruction, number)}", None))
            self.block(block, depth + 1)

    def _operands(self, values: Sequence[Instruction]) -> str:
        return " ".join(f"%{self._numbers[value]}" for value in values)

    def _row(self, instruction: Instruction, depth: int, words: str) -> None:
        self._numbers[instruction] = len(self._numbers)
        named = instruction.dtype is not None or instruction.op in ("loop", "branch")
        name = f"%{self._numbers[instruction]}" if named else ""
        self._rows.append((name, f"{'  ' * depth}{words}", instruction.place))

    def lines(self, places: bool) -> list[Line]:
        """The rows with their columns aligned."""
        width = max((len(name) for name, _, _ in self._rows), default=0)
        lines = []
        for name, words, place in self._rows:
            line = f"{name:<{width}}  {words}"
            if places and place:
                line = f"{line:<64}  # {os.path.basename(place.filename)}:{place.line}"
            lines.append(Line(line.rstrip(), place))
        return lines


def _kind(instruction: Instruction) -> str:
    if instruction.dtype is None:
        return ""
    count = f" x {instruction.count}" if instruction.count != 1 else ""
    return f"{instruction.dtype.text}{count}"


def _role(instruction: Instruction, number: int) -> str:
    assert isinstance(instruction.attr, tuple)
    role = instruction.attr[number]
    assert not isinstance(role, (int, float))
    return f"role {role.name} of {role.warps} warps from {role.first_warp}"


def _attribute(instruction: Instruction, kernel: Kernel) -> str:
    """An instruction's attribute in words."""
    attr = instruction.attr
    match attr:
        case Parameter():
            return _parameter(attr, kernel)
        case Access() | MatrixAccess() | Copy() | Bulk():
            return _memory(attr, kernel)
        case Barrier():
            ring = f" in a ring of {attr.ring}" if attr.ring else ""
            return f"number {attr.number} of {attr.threads} threads{ring}{' arrives' if attr.arrive else ''}"
        case Matrix():
            return f"{attr.atom.name}, {attr.m} x {attr.n} atoms, {attr.k} steps"
        case GroupMatrix():
            return _group_matrix(attr, kernel)
        case Signal():
            return f"{attr.arrivals} arrivals"
        case BulkWait():
            return f"{attr.groups} groups{' reading' if attr.reading else ''}"
        case None:
            return ""
        case tuple():
            return "" if instruction.op == "roles" else _numbers(attr)
        case int() if instruction.op == "loop":
            return f"while value {attr}"
        case _:
            return repr(attr)


def _numbers(numbers: Sequence[object]) -> str:
    """Numbers; longer runs of neighbours by their ends and of equal ones once: ``0..7 16 17 3*8``."""
    words: list[str] = []
    start = 0
    while start < len(numbers):
        first = numbers[start]
        equal, rising = _run(numbers, start, 0), _run(numbers, start, 1)
        if equal > 2:
            words.append(f"{first!r}*{equal}")
        elif rising > 2:
            words.append(f"{first!r}..{numbers[start + rising - 1]!r}")
        else:
            words.append(repr(first))
        start += max(equal if equal > 2 else 1, rising if rising > 2 else 1)
    return " ".join(words)


def _run(numbers: Sequence[object], start: int, step: int) -> int:
    """How many numbers from a place on each lie ``step`` above the one before."""
    first, length = numbers[start], 1
    while start + length < len(numbers):
        number = numbers[start + length]
        wanted = first + step * length if isinstance(first, int) and step else first
        if repr(number) != repr(wanted):
            break
        length += 1
    return length if step == 0 or type(first) is int else 1


def _parameter(parameter: Parameter, kernel: Kernel) -> str:
    match parameter.kind:
        case "scalar":
            return f"scalar {parameter.number}"
        case "grid":
            return f"grid axis {parameter.axis}"
        case "pointer":
            return f"pointer {kernel.tensors[parameter.number].name}"
        case _:
            return f"{parameter.kind} {kernel.tensors[parameter.number].name} axis {parameter.axis}"


def _memory(attr: Access | MatrixAccess | Copy | Bulk, kernel: Kernel) -> str:
    match attr:
        case Access():
            memory = kernel.buffers if attr.space == WORKGROUP else kernel.tensors
            words = [memory[attr.memory].name, f"width {attr.width}", f"at {_places(attr.places)}"]
            words += [attr.combine] if attr.combine else []
            words += [f"pad {attr.pad!r}"] if repr(attr.pad) not in ("0", "0.0", "False") else []
            return " ".join(words)
        case MatrixAccess():
            across = " transposed" if attr.transposed else ""
            name = kernel.buffers[attr.memory].name
            return f"{name} {attr.matrices} matrices{across} at {_places(attr.places)}"
        case Copy():
            buffer, tensor = kernel.buffers[attr.buffer].name, kernel.tensors[attr.tensor].name
            ends = f"{buffer} at {_places(attr.to_places)} from {tensor} at {_places(attr.from_places)}"
            return f"width {attr.width} to {ends}"
        case Bulk():
            box = "x".join(map(str, attr.box))
            tensor, buffer = kernel.tensors[attr.tensor].name, kernel.buffers[attr.buffer].name
            turned = " turned" if attr.turned else ""
            rounded = " rounded" if attr.rounded else ""
            return f"box {box}{turned} of {tensor} in {buffer} swizzle {attr.swizzle}{rounded}"


def _places(places: Places) -> str:
    """An access each: the offsets' register and what is added to it."""
    return " ".join(
        f"r{register}{constant:+}" if constant else f"r{register}" for register, constant in places
    )


def _group_matrix(attr: GroupMatrix, kernel: Kernel) -> str:
    types = " and ".join(dict.fromkeys(dtype.text for dtype in attr.dtypes))
    words = [f"64 x {attr.n} x {attr.k} {types}"]
    words += ["a in registers" if attr.a is None else f"a in {_operand(attr.a, kernel)}"]
    words += [f"b in {_operand(attr.b, kernel)}"]
    return ", ".join(words + (["from zero"] if attr.fresh else []))


def _operand(operand: Operand, kernel: Kernel) -> str:
    across = " transposed" if operand.transposed else ""
    distances = f"leading {operand.leading} stride {operand.stride} swizzle {operand.swizzle}"
    return f"{kernel.buffers[operand.buffer].name} {distances}{across}"
