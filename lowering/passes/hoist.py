"""Hoisting: what is the same in every turn of a loop is computed before the loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel
from gizml_tile.lowering.passes.rewriting import Replaced, is_pure, with_instructions

# A hoisted value keeps its registers through the whole loop: only small ones are worth that, and so many
# 32-bit registers of them for one loop.
_VALUE_WORDS = 4
_LOOP_WORDS = 48
# They rename or repeat registers, which live through the loop in any case.
_FREE = frozenset({"pick", "join", "bitcast", "constant", "parameter"})


def hoist(kernel: Kernel) -> Kernel:
    """The kernel with small pure values that do not change in a loop computed before it.

    Small are those of up to 4 32-bit registers, 48 together for each loop; renamings of registers cost
    nothing and move always. Where a loop may not run at all a pure value is computed in vain, no more.
    """
    return replace(kernel, body=_Hoisting().block(kernel.body))


@dataclass
class _Loop:
    """An open loop: what goes before it, and the registers that this holds."""

    before: list[Instruction] = field(default_factory=list)
    words: int = 0


class _Hoisting:
    def __init__(self) -> None:
        self._replaced = Replaced()
        self._loops: list[_Loop] = []
        # The number of loops around each value.
        self._depths: dict[Instruction, int] = {}

    def block(self, block: Block) -> Block:
        kept: list[Instruction] = []
        depth = len(self._loops)
        for instruction in block.instructions:
            made = self._instruction(instruction, kept)
            if made is not None:
                self._depths[made] = depth
                kept.append(made)
        return with_instructions(block, kept, self._replaced.all(block.results))

    def _instruction(self, instruction: Instruction, kept: list[Instruction]) -> Instruction | None:
        """The instruction that stays here; None if it moved."""
        if instruction.op == "loop":
            loop = _Loop()
            self._loops.append(loop)
            for param in instruction.blocks[0].params:
                self._depths[param] = len(self._loops)
            body = self.block(instruction.blocks[0])
            self._loops.pop()
            kept += loop.before
            return self._replaced.rebuild(instruction, (body,))
        for inner in instruction.blocks:
            self._depths.update(dict.fromkeys(inner.params, len(self._loops)))
        blocks = tuple([self.block(inner) for inner in instruction.blocks])
        made = self._replaced.rebuild(instruction, blocks)
        return None if self._loops and is_pure(made) and self._moves(made) else made

    def _moves(self, instruction: Instruction) -> bool:
        """Move an instruction before the outermost loop that it does not depend on, if there is one."""
        depth = max([self._depths[arg] for arg in instruction.args], default=0)
        words = _words(instruction)
        # Further out it holds its registers through more loops, so each of them has to have room.
        while depth < len(self._loops) and any(
            loop.words + words > _LOOP_WORDS for loop in self._loops[depth:]
        ):
            depth += 1
        if depth == len(self._loops) or words > _VALUE_WORDS:
            return False
        for loop in self._loops[depth:]:
            loop.words += words
        self._loops[depth].before.append(instruction)
        self._depths[instruction] = depth
        return True


def _words(instruction: Instruction) -> int:
    """The 32-bit registers that a value takes beside those of its operands."""
    assert instruction.dtype is not None
    if instruction.op in _FREE:
        return 0
    # Predicates are few, so that one that lives long goes to a register.
    bits = 32 if instruction.dtype is MASK else instruction.dtype.bits
    return (instruction.count * bits + 31) // 32
