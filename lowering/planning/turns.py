"""How many turns the loops of a program take in a launch, of all its programs together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gizml_tile.nodes import EARLY, Node, Region, Scalar, TileProgram

# An index of every program, and of every turn of the loops around: axes for those, the innermost first, and
# then for the grid's, the last first. An axis along which it does not change has size 1.
Numbers = np.ndarray[Any, Any]

_GRID_AXES = 3
# With more numbers than this turns are not counted.
_MOST_NUMBERS = 1 << 22


def turns(
    program: TileProgram, shapes: Sequence[Sequence[int]], grid: Sequence[int], scalars: Sequence[float]
) -> dict[Node, int]:
    """The turns of each loop, of which is known how many they are.

    They are not known where they follow from what tensors hold, or from an index that a loop carries. A
    branch of which nobody knows who takes it counts as one that all take, and of a choice that nobody knows
    the larger number counts.
    ``scalars`` are the run-time numbers in the program's order.
    """
    numbers = dict(zip(program.scalars, scalars, strict=True))
    counting = _Counting(shapes, (*grid, 1, 1, 1)[:_GRID_AXES], numbers)
    counting.region(program.body, np.ones((1,) * _GRID_AXES, bool))
    return counting.found


def follows_from_tensors(program: TileProgram) -> bool:
    """Whether some programs may do less than is counted, as what tensors hold tells which way they go."""
    return any(
        _is_of_tensors(node.args[0])
        for node in program.body.walk()
        if node.op == "cond" or (node.op == "select" and node.is_index)
    )


def _is_of_tensors(node: Node) -> bool:
    seen, pending = {node}, [node]
    while pending:
        each = pending.pop()
        if each.op == "element":
            return True
        pending += set(each.args) - seen
        seen.update(each.args)
    return False


@dataclass(slots=True)
class _Counting:
    shapes: Sequence[Sequence[int]]
    grid: Sequence[int]
    scalars: Mapping[Scalar, float]
    values: dict[Node, Numbers | None] = field(default_factory=dict)
    found: dict[Node, int] = field(default_factory=dict)

    def region(self, region: Region, runs: Numbers) -> None:
        """Count in a region, which runs in the programs and turns that are set."""
        for node in region.nodes:
            if node.op == "loop" and node.attr == EARLY:
                continue
            if node.op == "loop":
                self._loop(node, runs)
            elif node.op == "cond" and _has_loops(node):
                mask = self._value(node.args[0])
                ways = (runs, runs)
                if mask is not None and _fit(runs, mask):
                    ways = (runs & mask, runs & ~mask)
                for region_of_way, taken in zip(node.regions, ways, strict=True):
                    self.region(region_of_way, taken)

    def _loop(self, node: Node, runs: Numbers) -> None:
        start, stop, step = (self._value(arg) for arg in node.args[:3])
        if start is None or stop is None or step is None or not _fit(runs, start, stop, step):
            return
        counts = np.where(runs, np.maximum(_upwards(stop - start, step), 0), 0)
        alike = [size for size, known in zip(self.grid, counts.shape[::-1], strict=False) if known == 1]
        self.found[node] = int(counts.sum()) * math.prod(alike)
        longest = int(counts.max(initial=0))
        if longest * counts.size > _MOST_NUMBERS or not _has_loops(node):
            return
        (body,) = node.regions
        turn = np.arange(longest).reshape(-1, *(1,) * counts.ndim)
        inside = replace(self, values=self.values | {body.params[0]: start + turn * step})
        inside.region(body, turn < counts)

    def _value(self, node: Node) -> Numbers | None:
        """An index, or a comparison of two; None where it is not known."""
        if node not in self.values:
            self.values[node] = self._found(node)
        return self.values[node]

    def _found(self, node: Node) -> Numbers | None:
        match node.op:
            case "index":
                return self._everywhere(node.attr)
            case "id":
                axis = int(node.attr)  # type: ignore[arg-type]
                size = self.grid[axis]
                return np.arange(size).reshape(-1, *(1,) * axis) if size <= _MOST_NUMBERS else None
            case "count":
                return self._everywhere(self.grid[int(node.attr)])  # type: ignore[arg-type]
            case "size":
                assert isinstance(node.attr, tuple)
                return self._everywhere(self.shapes[node.attr[0]][node.attr[1]])
            case "scalar" if node.is_index:
                return self._everywhere(self.scalars[node.attr])  # type: ignore[index]
        if node.op not in _OPERATIONS:
            return None
        args = [self._value(arg) for arg in node.args]
        known = [arg for arg in args if arg is not None]
        if node.op == "select" and args[0] is None and len(known) == 2 and _fit(*known):
            return np.maximum(*known)
        return _OPERATIONS[node.op](*known) if len(known) == len(args) and _fit(*known) else None

    def _everywhere(self, number: Any) -> Numbers:
        return np.full((1,) * _GRID_AXES, int(number))


def _fit(*numbers: Numbers) -> bool:
    """Whether what is made of some numbers is not too much."""
    return math.prod(np.broadcast_shapes(*(each.shape for each in numbers))) <= _MOST_NUMBERS


def _has_loops(node: Node) -> bool:
    """Whether there is a loop inside of a loop or branch."""
    return any(inner.op == "loop" for region in node.regions for inner in region.walk())


def _upwards(a: Numbers, b: Numbers) -> Numbers:
    """Quotients that are rounded up; 0 where the divisor is."""
    return -_floor(-a, b)


def _floor(a: Numbers, b: Numbers) -> Numbers:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _truncated(a: Numbers, b: Numbers) -> Numbers:
    return _floor(abs(a), abs(b)) * np.sign(a) * np.sign(b)


_OPERATIONS: dict[str, Callable[..., Numbers]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "div": _truncated,
    "floordiv": _floor,
    "rem": lambda a, b: np.where(b == 0, 0, a - _truncated(a, b) * b),
    "floormod": lambda a, b: np.where(b == 0, 0, a - _floor(a, b) * b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not_": np.bitwise_not,
    "select": np.where,
}
