"""What passes share: instructions on other operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gizml_tile.lowering.kernel_ir.instructions import (
    ORDERED,
    STRUCTURED,
    Attr,
    Block,
    Instruction,
)

_IMPURE = ORDERED | STRUCTURED | {"param", "result"}


def is_pure(instruction: Instruction) -> bool:
    """Whether the value follows from the operands alone, wherever the instruction stands."""
    return instruction.op not in _IMPURE


class Replaced(dict[Instruction, Instruction]):
    """What stands for instructions of the old kernel; what is missing stands for itself."""

    def all(self, values: Iterable[Instruction]) -> tuple[Instruction, ...]:
        """What stands for each of some values."""
        return tuple([self.get(value, value) for value in values])

    def rebuild(self, instruction: Instruction, blocks: tuple[Block, ...] = ()) -> Instruction:
        """The instruction on what stands for its operands, and with new blocks; noted if it changed."""
        for arg in instruction.args:
            if arg in self:
                break
        else:
            if blocks == instruction.blocks:
                return instruction
        made = with_operands(instruction, self.all(instruction.args), blocks)
        self[instruction] = made
        return made


def with_instructions(
    block: Block, instructions: Sequence[Instruction], results: tuple[Instruction, ...]
) -> Block:
    """A block with the same parameters; the same one where nothing changed, so that what uses it stays."""
    made = tuple(instructions)
    if made == block.instructions and results == block.results:
        return block
    return Block(block.params, made, results)


def with_operands(
    instruction: Instruction, args: tuple[Instruction, ...], blocks: tuple[Block, ...] = ()
) -> Instruction:
    """The same operation on other operands of the same types, with other blocks."""
    return Instruction(
        instruction.op,
        args,
        instruction.attr,
        instruction.dtype,
        instruction.count,
        instruction.place,
        blocks,
    )


def with_attr(instruction: Instruction, attr: Attr, args: tuple[Instruction, ...]) -> Instruction:
    """The same operation with another attribute, on other operands."""
    return Instruction(instruction.op, args, attr, instruction.dtype, instruction.count, instruction.place)
