"""Compiling one function of a syntax tree as it stands in its surroundings, without running anything."""

from __future__ import annotations
import __future__

import ast
import dis
import re
from collections.abc import Iterator
from types import CodeType

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag

# Instructions that say what code does; the others move values about and differ between instrumented copies.
_TELLING = frozenset(
    "LOAD_CONST LOAD_SMALL_INT LOAD_FAST STORE_FAST LOAD_DEREF STORE_DEREF LOAD_GLOBAL LOAD_NAME LOAD_ATTR "
    "LOAD_METHOD STORE_ATTR BINARY_OP COMPARE_OP IS_OP CONTAINS_OP UNARY_NOT UNARY_NEGATIVE UNARY_INVERT "
    "BINARY_SUBSCR STORE_SUBSCR KW_NAMES GET_ITER".split()
)
_CALLED = frozenset({"LOAD_ATTR", "LOAD_GLOBAL"})


def function_code(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    like: CodeType,
    extra: tuple[str, ...] = (),
    imported: tuple[str, ...] = (),
) -> CodeType:
    """The code of a function node, with the outer names, class and flags of ``like``.

    ``extra`` are more names to take from cells; ``imported`` are names that the module imports, whose
    attributes are called by other instructions. Defaults, decorators and annotations are left out, since
    they are never evaluated again.
    """
    _strip(node)
    inner: ast.stmt = ast.Expr(node) if isinstance(node, ast.Lambda) else node
    ast.copy_location(inner, node)
    names = (*like.co_freevars, *extra)
    owner = class_of(like)
    # Names with two underscores are mangled with the class's name.
    text = f"def around({', '.join(names)}):\n" + (f" class {owner}:\n  pass" if owner else " pass")
    module = ast.parse(text)
    around = module.body[0]
    assert isinstance(around, ast.FunctionDef)
    place = around.body[0] if owner else around
    assert isinstance(place, ast.FunctionDef | ast.ClassDef)
    place.body[:] = [inner]
    around.body[:0] = _kept_global(inner, names)
    modules = [name for name in imported if name.isidentifier()]
    if modules:
        module.body[:0] = ast.parse(f"import {', '.join(modules)}").body
    compiled = compile(
        module, like.co_filename, "exec", flags=like.co_flags & _FUTURES, dont_inherit=True
    )
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return next(code for code in _codes(compiled) if code.co_name == name)


def _kept_global(inner: ast.stmt, names: tuple[str, ...]) -> list[ast.stmt]:
    """What keeps a function's own name, which it may call, from becoming a local of ``around``."""
    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name not in names:
        return [ast.copy_location(ast.Global([inner.name]), inner)]
    return []


def class_of(code: CodeType) -> str | None:
    """The class whose body defines a function, by the function's code."""
    parts = code.co_qualname.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None


def _strip(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
    arguments = node.args
    arguments.defaults = [ast.copy_location(ast.Constant(None), node) for _ in arguments.defaults]
    arguments.kw_defaults = [
        default and ast.copy_location(ast.Constant(None), node) for default in arguments.kw_defaults
    ]
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    if not isinstance(node, ast.Lambda):
        node.decorator_list = []
        node.returns = None


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def same_code(expected: CodeType, found: CodeType, ignored_lines: frozenset[int]) -> bool:
    """Whether ``found`` is what the source compiles to, or an instrumented copy of it."""
    if expected.co_code == found.co_code and _facts(expected) == _facts(found):
        pairs = zip(_inner(expected), _inner(found), strict=True)
        return all(same_code(a, b, ignored_lines) for a, b in pairs)
    if expected.co_name != found.co_name or _signature(expected) != _signature(found):
        return False
    if not _is_subsequence(_story(expected, ignored_lines), _story(found, ignored_lines)):
        return False
    others = iter(_inner(found))
    return all(
        any(same_code(each, other, ignored_lines) for other in others) for each in _inner(expected)
    )


def _facts(code: CodeType) -> tuple[object, ...]:
    constants = tuple(
        (type(each), repr(each)) for each in code.co_consts if not isinstance(each, CodeType)
    )
    lines = tuple(line for _, _, line in code.co_lines())
    return (
        code.co_name,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        constants,
        lines,
        len(_inner(code)),
    )


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _signature(code: CodeType) -> tuple[object, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[:count],
    )


def _story(code: CodeType, ignored_lines: frozenset[int]) -> list[tuple[str, str]]:
    story: list[tuple[str, str]] = []
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions else None
        if line not in ignored_lines and not isinstance(instruction.argval, CodeType):
            story += [(name, f"{line} {value}") for name, value in _telling(instruction)]
    return story


def _telling(instruction: dis.Instruction) -> list[tuple[str, object]]:
    """What an instruction says, under the same names whichever way it was compiled."""
    name = instruction.opname
    # From Python 3.13 on one instruction may move two variables.
    moves = [f"{move}_FAST" for move in re.findall("(LOAD|STORE)_FAST", name)]
    if moves:
        pair = isinstance(instruction.argval, tuple)
        return list(zip(moves, instruction.argval if pair else [instruction.argval], strict=True))
    if name not in _TELLING:
        return []
    # How an attribute is called depends on what the whole module imports.
    name = "LOAD_ATTR" if name == "LOAD_METHOD" else name
    return [(name, instruction.argval if name in _CALLED else instruction.argrepr)]


def _is_subsequence(short: list[tuple[str, str]], long: list[tuple[str, str]]) -> bool:
    rest = iter(long)
    return all(each in rest for each in short)
