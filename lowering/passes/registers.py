"""Identities of picks and joins: registers are named directly where they come from."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.kernel_ir.instructions import Instruction
from gizml_tile.lowering.passes.rewriting import with_attr, with_operands


def simplify_pick(pick: Instruction) -> Instruction:
    """A pick of the value that holds the registers, or that value, or a join of whole parts of one."""
    (source,) = pick.args
    chosen = _chosen(pick)
    if source.op == "pick":
        inner = _chosen(source)
        return simplify_pick(with_attr(pick, tuple([inner[each] for each in chosen]), source.args))
    if len(chosen) == source.count and chosen == tuple(range(source.count)):
        return source
    if source.op == "constant" and source.count > 1:
        return _constant(pick, source, chosen)
    if source.op == "join":
        return _of_join(pick, source, chosen)
    return pick


def simplify_join(join: Instruction) -> Instruction:
    """A join without joins inside; the value itself where the parts are its registers in order."""
    parts: list[Instruction] = []
    for arg in join.args:
        parts += arg.args if arg.op == "join" else [arg]
    if len(parts) == 1:
        return parts[0]
    sources = {part.args[0] for part in parts if part.op == "pick"}
    if len(sources) == 1 and all(part.op == "pick" for part in parts):
        chosen = tuple([each for part in parts for each in _chosen(part)])
        return simplify_pick(with_attr(_as_pick(join), chosen, tuple(sources)))
    return join if len(parts) == len(join.args) else with_operands(join, tuple(parts))


def _chosen(pick: Instruction) -> tuple[int, ...]:
    assert isinstance(pick.attr, tuple)
    return pick.attr  # type: ignore[return-value]


def _as_pick(join: Instruction) -> Instruction:
    return Instruction("pick", (), None, join.dtype, join.count, join.place)


def _constant(pick: Instruction, source: Instruction, chosen: Sequence[int]) -> Instruction:
    numbers = source.attr if isinstance(source.attr, tuple) else (source.attr,)
    taken = tuple([numbers[each] for each in chosen])
    attr = taken if len(taken) > 1 else taken[0]
    return Instruction("constant", (), attr, pick.dtype, len(taken), pick.place)  # type: ignore[arg-type]


def _of_join(pick: Instruction, join: Instruction, chosen: tuple[int, ...]) -> Instruction:
    """A pick inside one part, or the parts that it takes whole and in order."""
    first = 0
    parts: dict[int, Instruction] = {}
    for part in join.args:
        if first <= min(chosen) and max(chosen) < first + part.count:
            return simplify_pick(with_attr(pick, tuple([each - first for each in chosen]), (part,)))
        parts[first] = part
        first += part.count
    taken: list[Instruction] = []
    at = 0
    while at < len(chosen):
        part_at = parts.get(chosen[at])
        if part_at is None:
            return pick
        whole = tuple(range(chosen[at], chosen[at] + part_at.count))
        if chosen[at : at + part_at.count] != whole:
            return pick
        taken.append(part_at)
        at += part_at.count
    return Instruction("join", tuple(taken), None, pick.dtype, pick.count, pick.place)
