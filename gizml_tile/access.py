"""Which outside values a function's code reads: names, attribute chains and constant subscripts."""

from __future__ import annotations

import dis
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from gizml_tile.errors import is_own_file

_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELL_LOADS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTE_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CONSTANT_LOADS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL"})
# Instructions that leave the value on top of the stack as it is.
_TRANSPARENT = frozenset({"PUSH_NULL", "NOP", "CACHE", "EXTENDED_ARG", "NOT_TAKEN"})


@dataclass(frozen=True, slots=True)
class Access:
    """One outside value that code reads: where it starts and how it goes on.

    A step is ``("attr", name)`` or ``("item", constant)``. ``block`` tells that the value is used only as
    what ``p.read`` or ``p.write`` is called with, so that of a tensor no element or size is looked at.
    """

    name: str
    cell: bool
    steps: tuple[tuple[str, object], ...] = ()
    block: bool = False


@lru_cache(maxsize=4096)
def accesses(code: CodeType) -> tuple[Access, ...]:
    """The outside values that a function's code and the functions inside it read, each once."""
    found: dict[tuple[object, ...], Access] = {}
    for access in _scan(code, frozenset(code.co_freevars)):
        # 1, True and 1.0 are one dictionary key but three different subscripts.
        types = tuple(type(step) for _, step in access.steps)
        found[access, types] = access
    return tuple(found.values())


def _scan(code: CodeType, free: frozenset[str]) -> Iterator[Access]:
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _TRANSPARENT]
    for number, instruction in enumerate(instructions):
        if instruction.opname in _GLOBAL_LOADS:
            yield _chain(instructions, number, cell=False)
        elif instruction.opname in _CELL_LOADS and instruction.argval in free:
            yield _chain(instructions, number, cell=True)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _scan(constant, free)


def _chain(instructions: list[dis.Instruction], number: int, *, cell: bool) -> Access:
    before = instructions[number - 1] if number else None
    steps: list[tuple[str, object]] = []
    place = number + 1
    while place < len(instructions):
        step = instructions[place]
        if step.opname in _ATTRIBUTE_LOADS:
            steps.append(("attr", step.argval))
            place += 1
        elif (
            step.opname in _CONSTANT_LOADS
            and place + 1 < len(instructions)
            and _is_subscript(instructions[place + 1])
        ):
            steps.append(("item", step.argval))
            place += 2
        else:
            break
    block = (
        before is not None
        and before.opname in _ATTRIBUTE_LOADS
        and before.argval in ("read", "write")
    )
    return Access(instructions[number].argval, cell, tuple(steps), block)


def _is_subscript(instruction: dis.Instruction) -> bool:
    if instruction.opname == "BINARY_OP":
        return instruction.argrepr == "[]"
    return instruction.opname == "BINARY_SUBSCR"


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders if folder)


_LIBRARIES = _library_folders()


@lru_cache(maxsize=4096)
def is_library_file(filename: str) -> bool:
    """Whether a file belongs to the standard library, an installed package or this library."""
    if filename.startswith("<frozen "):
        return True
    return is_own_file(filename) or os.path.realpath(filename).startswith(_LIBRARIES)


@lru_cache(maxsize=4096)
def is_library_module(name: str) -> bool:
    """Whether a module, by name, is one that does not change between launches."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return True
    module = sys.modules.get(name)
    filename = getattr(module, "__file__", None)
    return isinstance(filename, str) and is_library_file(filename)


@lru_cache(maxsize=4096)
def code_digest(code: CodeType) -> bytes:
    """A hash of what code does and where it stands, equal in every process that reads the same file."""
    digest = hashlib.sha256()
    for part in _parts(code):
        digest.update(part)
        digest.update(b"\0")
    return digest.digest()


def _parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield code.co_linetable
    yield repr(
        (
            code.co_filename,
            code.co_firstlineno,
            code.co_name,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_flags,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
        )
    ).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield code_digest(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant))).encode()
        else:
            yield repr(constant).encode()
