"""Reads and puts that move few bytes at once, or more memory than their blocks have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gizml_tile.lowering.advice.prediction import WRITE_APART, Advice, Prediction
from gizml_tile.lowering.planning.plan import Access, Plan, Stage, TileLayout
from gizml_tile.lowering.planning.specialised import LOOP, UNIFORM_WARPS
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Cause, Choice, Refusal
from gizml_tile.nodes import Node, View

_SECTOR = 32  # bytes that memory moves at least
_LINE = 128  # bytes that a multiprocessor takes of its cache in a cycle
_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Traffic:
    """What moves for a block: the ``useful`` bytes, the bytes of the ``sectors`` that have them, and the
    cycles in which the accesses of all warps get these from the cache."""

    useful: int
    sectors: int
    cycles: int

    @property
    def share(self) -> float:
        """How much of what moves is of the block."""
        return self.useful / self.sectors


def traffic(layout: TileLayout, axis: int, vector: int, strides: tuple[int, int], size: int) -> Traffic:
    """The traffic of a block that begins at a multiple of 32 bytes.

    Its elements of ``size`` bytes are ``strides`` bytes apart along rows and columns; each access moves
    ``vector`` neighbours along an axis, as the layout says.
    """
    linear = layout.linear
    columns = linear.shape[1]
    along = columns if axis == 0 else 1
    places = [_span(linear.packed(name)) for name in ("register", "lane", "warp")]
    # The first element of each vector: [accesses, warps, lanes].
    first = places[0][places[0] // along % vector == 0]
    packed = first[:, None, None] ^ places[2][None, :, None] ^ places[1][None, None, :]
    rows, cols = packed // columns, packed % columns
    begin = rows * strides[0] + cols * strides[1]
    touched = np.sort(begin // _SECTOR, axis=2)
    each = 1 + (np.diff(touched, axis=2) != 0).sum(axis=2)
    ends = np.stack([begin, begin + (vector * size - 1)]) // _SECTOR
    useful = len(np.unique(begin)) * vector * size
    cycles = int(np.maximum(-(-each * _SECTOR // _LINE), 1).sum())
    return Traffic(useful, len(np.unique(ends)) * _SECTOR, cycles)


def _span(bases: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The exclusive or of every choice of some numbers."""
    found = np.zeros(1, np.int64)
    for basis in bases:
        found = np.concatenate([found, found ^ basis])
    return found


def slow_accesses(found: Prediction) -> Iterator[Advice]:
    """The reads and puts of which a better one would do the same in less time."""
    plan = found.plan
    moved: list[tuple[Node, Access | Stage]] = [*plan.accesses.items(), *plan.stages.items()]
    for node, how in moved:
        if not isinstance(node.attr, View) or (isinstance(how, Stage) and how.span):
            continue
        for _, choice in plan.choices.get(node, ()):
            refusal = _refused(choice)
            if refusal is not None:
                yield _slow(found, node, how, refusal)


def _refused(choice: Choice) -> Refusal | None:
    """What forbade the next wider variant than the one that was chosen, and can be changed."""
    names = [each.name for each in choice.candidates]
    refused = [each.refusal for each in choice.candidates[: names.index(choice.chosen)]]
    found = [each for each in refused if each is not None and each.cause is not Cause.DEVICE]
    return found[-1] if found else None


def slow_loops(found: Prediction) -> Iterator[Advice]:
    """Loops with products whose warps have no roles, though the device could, for the sake of one access.

    Measured on an H200: products of 4095 x 4097 x 4099 take 925 us so and 359 us with roles, copies of the
    operands included. A bit less is predicted: that such loops take twice as long.
    """
    plan = found.plan
    for table in plan.choices.values():
        for what, choice in table:
            if what != LOOP or choice.chosen != UNIFORM_WARPS:
                continue
            refusal = choice.candidates[0].refusal
            if refusal is None or refusal.node is None:
                continue
            text = "all warps multiply alike, and none brings their blocks with the copy engine meanwhile, "
            if refusal.cause is Cause.OVERLAP:
                text += "as a written tensor shares memory with another one"
                fix = WRITE_APART
            elif refusal.cause is Cause.BRANCH:
                text += f"as {refusal.text}, which a return before it makes, too"
                fix = (
                    "let the loop have no turns instead, as in `for k in range(n if wanted else 0)`, and "
                    "store with a mask where zeros would be wrong"
                )
            else:
                text += f"as this read is in the way: {refusal.text}"
                fix = _fix(plan, refusal.node, refusal.cause, fast_axis(plan.signature, refusal.node))
            yield Advice("slow loop", refusal.node.place, text, fix, found.bound, beyond=True)


def _slow(found: Prediction, node: Node, how: Access | Stage, refusal: Refusal) -> Advice:
    view, program = node.attr, found.plan.program
    assert isinstance(view, View)
    tensor = program.tensors[view.tensor]
    steps = [each * tensor.dtype.bytes for each in found.launch.strides[view.tensor][-len(view.block) :]]
    rows, columns = (0, steps[0]) if len(steps) == 1 else steps
    moved = traffic(how.layout, how.axis, how.vector, (rows, columns), tensor.dtype.bytes)
    widest = max(_VECTOR_BYTES // tensor.dtype.bytes, 1)
    beyond = max(
        found.moved(node, moved.sectors - moved.useful),
        found.cycles(node, moved.cycles - moved.useful / _LINE),
    )
    issued = found.issued(node.place) * (1 - how.vector / widest)
    what = "is read" if node.op == "read" else "is written"
    count = "by single elements" if how.vector == 1 else f"{how.vector} elements at a time"
    text = f"{tensor.name} {what} {count}: {refusal.text}"
    if refusal.cause is Cause.EXTENT:
        text += f", and neighbours in memory are in different {'columns' if how.axis == 1 else 'rows'}"
    if moved.share <= 1 / 2:
        text += f"; of each {_SECTOR} bytes that memory moves {moved.share:.0%} are used"
    fix = _fix(found.plan, node, refusal.cause, how.axis)
    return Advice("scalar copy", node.place, text, fix, max(beyond, issued), beyond=beyond > issued)


def _fix(plan: Plan, node: Node, cause: Cause, axis: int | None) -> str:
    view = node.attr
    assert isinstance(view, View)
    tensor = plan.program.tensors[view.tensor]
    name, wanted = tensor.name, max(_VECTOR_BYTES // tensor.dtype.bytes, 1)
    along = "columns" if axis == 1 else "rows"
    match cause:
        case Cause.STRIDES:
            return (
                f"make the last axis of {name} contiguous before the launch (a contiguous copy), or block "
                "the axis whose elements are neighbours in memory"
            )
        case Cause.EXTENT:
            return f"use blocks of {name} with at least {_SECTOR // tensor.dtype.bytes} {along}"
        case Cause.ALIGNMENT:
            return (
                f"begin {name} and each of its rows at multiples of {_VECTOR_BYTES} bytes: make its rows a "
                f"multiple of {wanted} elements long, and slice it at multiples of {wanted}"
            )
        case Cause.OFFSET if view.mode == "window":
            return (
                f"let the window begin at a multiple of {wanted} elements along the {along}, so written that "
                f"it shows (such as i * {wanted}), or read whole blocks with at and take a part of the tile"
            )
        case Cause.OFFSET:
            return f"make the {along} of {name} a multiple of {wanted} elements long"
        case Cause.PAD:
            return f"read {name} with pad 0 and choose what lies outside with select"
    return (
        f"let all tensors of the line be contiguous along the same axis, or convert {name} before the launch"
    )
