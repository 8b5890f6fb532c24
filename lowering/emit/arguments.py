"""What emitters of GPU code share: the values that a launch passes, and a kernel's name in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gizml_tile.dtypes import I64, DType
from gizml_tile.lowering.kernel_ir.instructions import Kernel, Parameter


@dataclass(frozen=True, slots=True)
class Argument:
    """A value that a launch passes: 8 bytes (I64, or a tensor's address), or 4 for an F32 scalar."""

    parameter: Parameter
    dtype: DType


def arguments(kernel: Kernel) -> tuple[Argument, ...]:
    """The parameters with their types, which the instructions that read them say."""
    dtypes = {
        instruction.attr: instruction.dtype
        for instruction in kernel.body.walk()
        if isinstance(instruction.attr, Parameter) and instruction.dtype is not None
    }
    return tuple([Argument(each, dtypes.get(each, I64)) for each in kernel.parameters])


def identifier(name: str) -> str:
    """A kernel's name in letters of ASCII, digits and underscores, as every assembler takes it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"kernel_{plain}"
