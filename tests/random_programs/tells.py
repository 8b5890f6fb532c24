"""``p.print`` and ``p.check`` in random programs: what is told of, and what a launch must say then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import addressing
import numpy as np
from intervals import Value
from programs import Op, Program

from gizml_tile.dtypes import MASK
from gizml_tile.nodes import broadcast
from gizml_tile.recording import as_text

if TYPE_CHECKING:
    from writer import Writer

# Elements of a tile that is printed.
_MOST = 64


def draw(writer: Writer) -> None:
    """Print some values, or check a mask."""
    random = writer.random
    if random.random() < 0.5:
        small = lambda t: t.is_index or t.shape[0] * t.shape[1] <= _MOST
        found = [writer.pick(small) for _ in range(random.randrange(3))]
        writer.ops.append(Op("print", (), (), tuple(dict.fromkeys(each for each in found if each))))
        return
    mask = writer.pick(lambda t: t.dtype is MASK) or addressing.mask(writer, (1, writer.owner.size()))
    shape = writer.names[mask].shape
    beside = [writer.pick(lambda t: t.dtype is not None and broadcast(t.shape, shape) == shape)]
    value = [each for each in beside if each and random.random() < 0.5]
    writer.ops.append(Op("check", (), (), (mask, *value), f"is {mask}"))


def written(op: Op) -> str:
    """The call in a program's text."""
    if op.name == "print":
        return f"p.print({', '.join([repr('values'), *map(str, op.args)])})"
    return f"p.check({op.args[0]}, {op.attr!r}{''.join(f', {each}' for each in op.args[1:])})"


@dataclass(frozen=True)
class Told:
    """What one program's print or check had before it."""

    position: tuple[int, ...]
    op: Op
    values: tuple[object, ...]


def problem(program: Program, told: list[Told], text: str, failure: str) -> str:
    """What is wrong with what a launch printed, and with the check that failed in it; or nothing."""
    told = told if program.debug else []
    failed = [each for each in told if each.op.name == "check" and not each.values[0].hi.all()]
    maybe = [each for each in told if each.op.name == "check" and not each.values[0].lo.all()]
    if failed and not failure:
        return f"no check failed, and {failed[0].op.attr!r} does"
    if failure and not any(f"check failed: {each.op.attr}: in " in failure for each in maybe):
        return f"a check failed that does not: {failure}"
    lines = re.split(r"^<[^>]*>:\d+: ", text, flags=re.MULTILINE)[1:]
    wanted = [_line(program, each) for each in told if each.op.name == "print"]
    if len(lines) != len(wanted):
        return f"{len(lines)} lines were printed, right are {len(wanted)}"
    for line, right in zip(lines, wanted, strict=True):
        if right is not None and line.split() != right.split():
            return f"it printed {line!r}, right is {right!r}"
    return ""


def _line(program: Program, told: Told) -> str | None:
    """A printed line without its place, words apart; None where a value is not known."""
    ids = told.position[: len(program.grid)]
    line = f"program {ids[0]}:" if len(ids) == 1 else f"program ({', '.join(map(str, ids))}):"
    line += " values"
    for value in told.values:
        if isinstance(value, Value):
            if not value.exact.all():
                return None
            value = value.lo
        line += " " + as_text(np.asarray(value))
    return line
