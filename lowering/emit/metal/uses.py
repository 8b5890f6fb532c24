"""Which values are used where, so that one that is used once can stand in its user's line."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.kernel_ir.instructions import Access, Block, Instruction

# They name registers instead of reading them, or read them again and again.
_NAMING = frozenset("pick join result again loop roles update mma outer".split())


class Uses:
    """The uses of each value in a block and the blocks inside."""

    def __init__(self, body: Block) -> None:
        self._counts: dict[Instruction, int] = {}
        self._inline: set[Instruction] = set()
        self._users: dict[Instruction, list[Instruction]] = {}
        self._count(body)

    def count(self, value: Instruction) -> int:
        """How many operands and results a value is."""
        return self._counts.get(value, 0)

    def is_inline(self, value: Instruction) -> bool:
        """Whether one instruction of the same block reads this value, once."""
        return value in self._inline and self._counts[value] == 1

    def is_within(self, value: Instruction, instructions: Sequence[Instruction]) -> bool:
        """Whether only these instructions read a value."""
        users = self._users.get(value, [])
        return len(users) == self.count(value) and all(each in instructions for each in users)

    def _count(self, block: Block) -> None:
        here = set(block.instructions)
        for each in block.results:
            self._counts[each] = self._counts.get(each, 0) + 1
        for instruction in block.instructions:
            reads_once = instruction.op not in _NAMING and _is_single(instruction)
            for each in instruction.args:
                self._counts[each] = self._counts.get(each, 0) + 1
                self._users.setdefault(each, []).append(instruction)
                if reads_once and each in here:
                    self._inline.add(each)
            for inside in instruction.blocks:
                self._count(inside)


def _is_single(instruction: Instruction) -> bool:
    """Whether the text of an operand comes once in what is written for an instruction."""
    if isinstance(instruction.attr, Access):
        return len(instruction.attr.places) == 1
    return instruction.count <= 1
