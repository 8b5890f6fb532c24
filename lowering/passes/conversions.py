"""Conversions of values whose registers are taken again and again: each register is converted once."""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.dtypes import DType
from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel
from gizml_tile.lowering.passes.rewriting import Replaced, with_instructions

_Key = tuple[Instruction, DType | None]


def convert_once(kernel: Kernel) -> Kernel:
    """The kernel with one conversion of a value where there were several of parts that overlap.

    Three neighbours of each of four elements, as neighbouring windows have them::

        convert f32 x 4: (pick x 4: %1 [0 1 2 3])      %2 = convert f32 x 6: %1
        convert f32 x 4: (pick x 4: %1 [1 2 3 4])  ->  pick x 4: %2 [0 1 2 3]
        convert f32 x 4: (pick x 4: %1 [2 3 4 5])      ...
    """
    return replace(kernel, body=_block(kernel.body, Replaced()))


def _block(block: Block, replaced: Replaced) -> Block:
    wanted: dict[_Key, int] = {}
    for instruction in block.instructions:
        key = _key(instruction)
        if key is not None:
            wanted[key] = wanted.get(key, 0) + instruction.count
    converted: dict[_Key, Instruction] = {}
    kept: list[Instruction] = []
    for instruction in block.instructions:
        key = _key(instruction)
        if key is None or wanted[key] <= key[0].count:
            inner = tuple([_block(each, replaced) for each in instruction.blocks])
            kept.append(replaced.rebuild(instruction, inner))
            continue
        value, dtype = key
        if key not in converted:
            of = replaced.get(value, value)
            converted[key] = Instruction("convert", (of,), None, dtype, value.count, instruction.place)
            kept.append(converted[key])
        part = instruction.args[0].attr
        made = Instruction("pick", (converted[key],), part, dtype, instruction.count, instruction.place)
        replaced[instruction] = made
        kept.append(made)
    return with_instructions(block, kept, replaced.all(block.results))


def _key(instruction: Instruction) -> _Key | None:
    """Of which value a part is converted to which type."""
    if instruction.op != "convert" or instruction.args[0].op != "pick":
        return None
    return instruction.args[0].args[0], instruction.dtype
