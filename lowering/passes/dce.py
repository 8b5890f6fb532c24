"""Dead values: what nothing stored or exchanged depends on is left out."""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.lowering.kernel_ir.instructions import (
    EFFECTS,
    STRUCTURED,
    Block,
    Instruction,
    Kernel,
    Parameter,
)
from gizml_tile.lowering.passes.rewriting import Replaced, with_instructions

_ROOTS = EFFECTS - STRUCTURED


def eliminate_dead(kernel: Kernel) -> Kernel:
    """The kernel without values, carried values, loops and branches that no effect needs.

    Nor are numbers passed that nothing reads any more: only what reads one tells its type.
    """
    alive = _Alive()
    alive.collect(kernel.body, None)
    alive.spread()
    body = _Kept(alive).block(kernel.body)
    read = {each.attr for each in body.walk() if isinstance(each.attr, Parameter)}
    passed = (each for each in kernel.parameters if each.kind == "pointer" or each in read)
    return replace(kernel, body=body, parameters=tuple(passed))


class _Alive:
    """The instructions that effects need, found backwards from the effects."""

    def __init__(self) -> None:
        self.instructions: set[Instruction] = set()
        # Of each loop and branch the numbers of the values that are needed.
        self.values: dict[Instruction, set[int]] = {}
        self._pending: list[Instruction] = []
        self._container: dict[Instruction, Instruction] = {}
        self._loops: dict[Instruction, Instruction] = {}

    def collect(self, block: Block, container: Instruction | None) -> None:
        for param in block.params:
            assert container is not None
            self._loops[param] = container
        for instruction in block.instructions:
            if container is not None:
                self._container[instruction] = container
            if instruction.op in _ROOTS:
                self._pending.append(instruction)
            for inner in instruction.blocks:
                self.collect(inner, instruction)

    def spread(self) -> None:
        while self._pending:
            instruction = self._pending.pop()
            if instruction in self.instructions:
                continue
            self.instructions.add(instruction)
            container = self._container.get(instruction)
            if container is not None:
                self._pending.append(container)
            if instruction.op in ("param", "result"):
                self._value(instruction)
            elif instruction.op == "loop":
                self._pending += instruction.args[:3]
                if isinstance(instruction.attr, int):
                    self._carried(instruction, instruction.attr)
            else:
                self._pending += instruction.args
                if instruction.op == "update":
                    self._pending += instruction.blocks[0].results

    def _value(self, instruction: Instruction) -> None:
        """A loop's or a branch's value is needed, or a loop's counter, which has number -1."""
        number = instruction.attr
        assert isinstance(number, int)
        if instruction.op == "param":
            source, number = self._loops[instruction], number - 1
        else:
            (source,) = instruction.args
        self._pending.append(source)
        if number >= 0:
            self._carried(source, number)

    def _carried(self, source: Instruction, number: int) -> None:
        values = self.values.setdefault(source, set())
        if number in values:
            return
        values.add(number)
        self._pending += [block.results[number] for block in source.blocks]
        if source.op == "loop":
            self._pending.append(source.args[3 + number])


class _Kept:
    """Blocks with what is alive."""

    def __init__(self, alive: _Alive) -> None:
        self._alive = alive
        self._replaced = Replaced()

    def block(self, block: Block) -> Block:
        kept = [
            self._instruction(instruction)
            for instruction in block.instructions
            if instruction in self._alive.instructions
        ]
        return with_instructions(block, kept, self._replaced.all(block.results))

    def _instruction(self, instruction: Instruction) -> Instruction:
        if instruction.op == "result":
            return self._result(instruction)
        if not instruction.blocks:
            return self._replaced.rebuild(instruction)
        if instruction.op in ("loop", "branch"):
            return self._narrowed(instruction)
        blocks = tuple([self.block(block) for block in instruction.blocks])
        return self._replaced.rebuild(instruction, blocks)

    def _numbers(self, source: Instruction) -> list[int]:
        return sorted(self._alive.values.get(source, ()))

    def _narrowed(self, source: Instruction) -> Instruction:
        """A loop or branch with those of its values that are alive."""
        numbers = self._numbers(source)
        if len(numbers) == len(source.blocks[0].results):
            return self._replaced.rebuild(source, tuple([self.block(block) for block in source.blocks]))
        blocks = []
        for block in source.blocks:
            params = block.params
            if params:
                params = (params[0], *(self._param(params[old + 1], new) for new, old in enumerate(numbers)))
            results = tuple([block.results[number] for number in numbers])
            blocks.append(self.block(Block(params, block.instructions, results)))
        args = source.args
        if source.op == "loop":
            args = (*args[:3], *(args[3 + number] for number in numbers))
        attr = source.attr
        if source.op == "loop" and isinstance(attr, int):
            attr = numbers.index(attr)
        made = Instruction(source.op, self._replaced.all(args), attr, None, 0, source.place, tuple(blocks))
        self._replaced[source] = made
        return made

    def _param(self, param: Instruction, number: int) -> Instruction:
        if param.attr == number + 1:
            return param
        made = Instruction("param", (), number + 1, param.dtype, param.count, param.place)
        self._replaced[param] = made
        return made

    def _result(self, result: Instruction) -> Instruction:
        (source,) = result.args
        assert isinstance(result.attr, int)
        number = self._numbers(source).index(result.attr)
        if number == result.attr:
            return self._replaced.rebuild(result)
        made = Instruction(
            "result", self._replaced.all(result.args), number, result.dtype, result.count, result.place
        )
        self._replaced[result] = made
        return made
