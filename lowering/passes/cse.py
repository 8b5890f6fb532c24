"""Common values: what was computed before is not computed again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel
from gizml_tile.lowering.passes.rewriting import Replaced, is_pure, with_instructions

_COMMUTATIVE = frozenset("add mul min max and or xor eq ne".split())


def eliminate_common(kernel: Kernel) -> Kernel:
    """The kernel with one instruction for each pure value, where an equal one stands in reach.

    A value is in reach in its block and in the blocks inside. Loads and what exchanges values stay.
    """
    return replace(kernel, body=_Common().block(kernel.body))


class _Common:
    def __init__(self) -> None:
        self._replaced = Replaced()
        self._known: dict[Hashable, Instruction] = {}

    def block(self, block: Block) -> Block:
        kept: list[Instruction] = []
        added: list[Hashable] = []
        for instruction in block.instructions:
            if not is_pure(instruction):
                blocks = tuple([self.block(inner) for inner in instruction.blocks])
                kept.append(self._replaced.rebuild(instruction, blocks))
                continue
            made = self._replaced.rebuild(instruction)
            key = _key(made)
            known = self._known.get(key)
            if known is None:
                self._known[key] = made
                added.append(key)
                kept.append(made)
            else:
                self._replaced[instruction] = known
        results = self._replaced.all(block.results)
        for key in added:
            del self._known[key]
        return with_instructions(block, kept, results)


def _key(instruction: Instruction) -> Hashable:
    """Equal for instructions of one value; 0.0 and -0.0, or 1 and True, are different numbers."""
    op, args = instruction.op, instruction.args
    attr = repr(instruction.attr) if op == "constant" else instruction.attr
    operands = frozenset(args) if op in _COMMUTATIVE else args
    return op, operands, attr, instruction.dtype, instruction.count
