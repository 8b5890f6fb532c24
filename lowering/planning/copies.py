"""Which tensors are copied before a launch, as the copy engine cannot move their blocks where they lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gizml_tile.lowering.planning.bounds import Shapes, fewest_turns
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import EARLY, EFFECTS, Node, TileProgram, View, tensor_of
from gizml_tile.target import Target

TENSORS = "tensors"
AS_THEY_LIE, COPIED = "as they lie", "copied first"
# A copy reads and writes each element once; programs together must read it much more often. Measured on an
# H200: 4095 x 4097 x 4099 takes 359 us with copies and 925 us without.
_FEWEST_USES = 16
_MOST_AXES = 3
_LONGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class Lying:
    """How the tensors of a launch lie: kinds of strides as in a `Signature`, and which have boxes."""

    shapes: Shapes
    kinds: Sequence[Sequence[str]]
    boxes: Sequence[bool]
    may_alias: bool


def copied(
    program: TileProgram,
    target: Target,
    lying: Lying,
    grid: Sequence[int],
    scalars: Sequence[int | float],
) -> tuple[int, ...]:
    """The tensors to copy first, to rows that begin at multiples of 16 bytes.

    Raises TileError where a program asks for copies that cannot be.
    """
    forced = dict(program.variants).get(TENSORS)
    if all(lying.boxes) and forced is None:
        return ()
    operands = _operands(program)
    numbers = tuple(number for number in operands if not lying.boxes[number])
    refusal = next(_refusals(program, target, lying, numbers, operands), None)
    candidates = [Candidate(AS_THEY_LIE, True, ""), Candidate(COPIED, refusal is None, refusal or "")]
    if refusal is None and _is_worth_it(program, lying, operands, numbers, grid, scalars):
        candidates.reverse()
    return numbers if choose(TENSORS, candidates, forced) == COPIED else ()


def _is_worth_it(
    program: TileProgram,
    lying: Lying,
    operands: dict[int, list[Node]],
    numbers: Sequence[int],
    grid: Sequence[int],
    scalars: Sequence[int | float],
) -> bool:
    """Whether programs read each element of the tensors often, for products of the matrix units."""
    if any(program.tensors[number].dtype.bits != 16 for number in numbers):
        return False
    turns = fewest_turns(program, _loops(program), lying.shapes, grid, scalars)
    return all(
        math.prod(grid) * turns * sum(math.prod(read.shape) for read in operands[number])
        >= _FEWEST_USES * math.prod(lying.shapes[number])
        for number in numbers
    )


def told() -> Choice:
    """What is said of tensors that are copied."""
    words = "to rows that begin at multiples of 16 bytes, which the copy engine moves"
    lie = "no boxes by the copy engine"
    return Choice((Candidate(COPIED, True, words), Candidate(AS_THEY_LIE, True, lie)), COPIED)


def _operands(program: TileProgram) -> dict[int, list[Node]]:
    """The tensors whose blocks are operands of products in loops at the top, with their reads."""
    found: dict[int, list[Node]] = {}
    for loop in _loops(program):
        for node in loop.regions[0].nodes:
            for arg in node.args[:2] if node.op == "dot" else ():
                read = operand(arg).node
                if read.op == "read":
                    assert isinstance(read.attr, View)
                    found.setdefault(read.attr.tensor, []).append(read)
    return found


def _loops(program: TileProgram) -> list[Node]:
    return [node for node in program.body.nodes if node.op == "loop" and node.attr != EARLY]


def _refusals(
    program: TileProgram,
    target: Target,
    lying: Lying,
    numbers: Sequence[int],
    operands: dict[int, list[Node]],
) -> Iterator[str]:
    """Why nothing is copied, if something is in the way."""
    if not target.can("bulk") or not target.can("group_matrix"):
        yield f"{target.arch} has no products of blocks that the copy engine moves"
    if not numbers:
        yield "no operand of a product lies so that the copy engine cannot move its blocks"
    if lying.may_alias:
        yield "tensors may overlap"
    for number in numbers:
        name, kinds = program.tensors[number].name, lying.kinds[number]
        if any(each.op in EFFECTS and tensor_of(each) == number for each in program.body.walk()):
            yield f"{name} is written, too"
        if not 2 <= len(kinds) <= _MOST_AXES or "unit" not in kinds[-2:] or "zero" in kinds:
            yield f"{name} has {len(kinds)} axes, or elements that are neighbours along none of the last two"
        if not all(0 < size <= _LONGEST for size in lying.shapes[number]):
            yield f"{name} is empty or too long"
