"""Folding: integers and masks that are known, identities, and structure that is known to be idle."""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel
from gizml_tile.lowering.passes.identities import Identities
from gizml_tile.lowering.passes.rewriting import Replaced, is_pure, with_instructions

# Effects that a mask may leave out, by the number of their other operands.
_STORES = {"store": 2, "atomic": 2, "update": 1}


def fold(kernel: Kernel) -> Kernel:
    """The kernel with integers and masks computed where they are known.

    Floats stay as they are. Branches and effects under a known mask, loops of no turn or one, and carried
    values that no turn changes disappear.
    """
    return replace(kernel, body=_Fold(kernel).block(kernel.body))


class _Fold:
    def __init__(self, kernel: Kernel) -> None:
        self._replaced = Replaced()
        self._out: list[Instruction] = []
        # What loops and branches that disappeared give.
        self._given: dict[Instruction, tuple[Instruction, ...]] = {}
        self._standing: set[Instruction] = set()
        self._identities = Identities(kernel, self._emit)

    def block(self, block: Block) -> Block:
        self._standing.update(block.params)
        outside, self._out = self._out, []
        self._inline(block)
        kept, self._out = self._out, outside
        return with_instructions(block, kept, self._replaced.all(block.results))

    def _emit(self, instruction: Instruction) -> None:
        self._out.append(instruction)
        self._standing.add(instruction)

    def _inline(self, block: Block) -> tuple[Instruction, ...]:
        """Append a block's instructions here; its results."""
        for instruction in block.instructions:
            if instruction.op == "result":
                self._result(instruction)
            elif is_pure(instruction):
                made = self._replaced.rebuild(instruction)
                simple = self._identities.simplified(made)
                if simple not in self._standing:
                    self._emit(simple)
                if simple is not instruction:
                    self._replaced[instruction] = simple
            elif not self._idle(instruction):
                blocks = tuple([self.block(inner) for inner in instruction.blocks])
                self._emit(self._replaced.rebuild(instruction, blocks))
        return self._replaced.all(block.results)

    def _result(self, result: Instruction) -> None:
        given = self._given.get(result.args[0])
        if given is None:
            self._emit(self._replaced.rebuild(result))
        else:
            assert isinstance(result.attr, int)
            self._replaced[result] = given[result.attr]

    def _idle(self, instruction: Instruction) -> bool:
        """Whether structure disappears, and what is inside and runs is here already, or nothing is stored."""
        if instruction.op in _STORES:
            mask = instruction.args[_STORES[instruction.op] :]
            return bool(mask) and self._identities.number(self._replaced.get(mask[0], mask[0])) == 0
        if instruction.op == "loop":
            return self._idle_loop(instruction)
        if instruction.op not in ("branch", "when"):
            return False
        known = self._identities.number(self._replaced.get(instruction.args[0], instruction.args[0]))
        if known is None:
            return False
        if instruction.op == "branch":
            self._given[instruction] = self._inline(instruction.blocks[0 if known else 1])
        elif known:
            self._inline(instruction.blocks[0])
        return True

    def _idle_loop(self, loop: Instruction) -> bool:
        args = self._replaced.all(loop.args)
        (block,) = loop.blocks
        for param, init, result in zip(block.params[1:], args[3:], block.results, strict=True):
            if result is param:
                self._replaced[param] = init
        start, stop, step = (self._identities.number(bound) for bound in args[:3])
        if start is None or stop is None or not step:
            return False
        turns = len(range(start, stop, step))
        if turns > 1 or (turns == 1 and loop.attr is not None):
            return False
        if turns == 0:
            self._given[loop] = args[3:]
            return True
        for param, value in zip(block.params, (args[0], *args[3:]), strict=True):
            self._replaced[param] = value
        self._given[loop] = self._inline(block)
        return True
