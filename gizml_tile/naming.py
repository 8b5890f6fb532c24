"""What the person calls the values that a loop carries or a branch gives, for errors about them."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def carried_names(body: Callable[..., Any], count: int, *, single: bool) -> list[str | None]:
    """The names of the carried values in a loop's body: its second parameter, or what it unpacks into."""
    code = _code(body)
    if code is None:
        return [None] * count
    if single:
        names = code.co_varnames[: code.co_argcount]
        return [names[1] if len(names) > 1 else None]
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    for number, instruction in enumerate(instructions):
        if instruction.opname == "UNPACK_SEQUENCE" and instruction.argval == count:
            found = list(_names(instructions[number + 1 : number + 1 + count], "STORE_"))
            if len(found) >= count:
                return [*found[:count]]
    return [None] * count


def returned_names(function: Callable[..., Any], count: int) -> list[str | None]:
    """The names of the values that a branch's function returns, where it returns plain names."""
    code = _code(function)
    nothing: list[str | None] = [None] * count
    if code is None:
        return nothing
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    while instructions and instructions[-1].opname != "RETURN_VALUE":
        instructions.pop()
    instructions = instructions[:-1]
    if count > 1:
        if not instructions or instructions[-1].opname != "BUILD_TUPLE":
            return nothing
        instructions = instructions[:-1]
    found: list[str] = []
    while instructions and len(found) < count:
        names = list(_names([instructions.pop()], "LOAD_"))
        if not names:
            break
        found = names + found
    return [*found[-count:]] if len(found) >= count else nothing


def _names(instructions: list[dis.Instruction], prefix: str) -> Iterator[str]:
    for each in instructions:
        if not each.opname.startswith((f"{prefix}FAST", f"{prefix}DEREF")):
            return
        # Newer Pythons store or load two names in one instruction.
        yield from each.argval if isinstance(each.argval, tuple) else (each.argval,)


def _code(function: Callable[..., Any]) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
