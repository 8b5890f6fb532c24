"""Finding the text of a function when it is decorated, and checking that it is the function's."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import tokenize
import weakref
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from gizml_tile.errors import Place, TileError
from gizml_tile.frontend.compiling import function_code, same_code

_REWRITTEN: dict[int, weakref.ref[CodeType]] = {}


@dataclass(frozen=True, slots=True)
class Source:
    """A function and its text as it was when the function was decorated.

    ``padded`` is the text as it is parsed: its first line is ours, the person's line ``line`` is its
    second, and columns are the person's. ``padded`` is empty for code that is already rewritten.
    """

    function: FunctionType
    filename: str
    line: int
    original: str
    padded: str

    @property
    def is_rewritten(self) -> bool:
        """Whether the function is part of a rewritten one."""
        return not self.padded

    @property
    def is_lambda(self) -> bool:
        """Whether the function is a lambda."""
        return self.function.__code__.co_name == "<lambda>"


def mark_rewritten(code: CodeType) -> None:
    """Remember that code, with the functions inside, comes from a rewritten text."""
    key = id(code)
    _REWRITTEN[key] = weakref.ref(code, lambda _: _REWRITTEN.pop(key, None))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            mark_rewritten(constant)


def _is_rewritten(code: CodeType) -> bool:
    known = _REWRITTEN.get(id(code))
    return known is not None and known() is code


def capture(function: FunctionType, depth: int = 0) -> Source:
    """Find a function's text and check it against the function's code.

    Raises TileError where there is no text, or where the file no longer holds the function's.
    """
    del depth
    code = function.__code__
    if _is_rewritten(code):
        return Source(function, code.co_filename, code.co_firstlineno, "", "")
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise TileError(
            f"the source of {_name(code)} cannot be found, and a decorated function is rewritten from its "
            "source; keep it in a file or a notebook cell, or write the program with tile.run(grid, body)",
            _place(code),
        )
    outer = function.__globals__
    imported = tuple([name for name in code.co_names if isinstance(outer.get(name), ModuleType)])
    find = _lambda if code.co_name == "<lambda>" else _definition
    found = find(lines, code, imported)
    if found is None:
        raise TileError(
            f"the source of {_name(code)} is not what {code.co_filename} holds at line "
            f"{code.co_firstlineno}: the file has changed since it was loaded; load it again, or "
            "write the program with tile.run(grid, body)",
            _place(code),
        )
    line, original, padded = found
    return Source(function, code.co_filename, line, original, padded)


def _name(code: CodeType) -> str:
    return "the lambda" if code.co_name == "<lambda>" else code.co_name


def _place(code: CodeType) -> Place:
    return Place(code.co_filename, code.co_firstlineno, function=code.co_qualname)


def _definition(
    lines: list[str], code: CodeType, imported: tuple[str, ...]
) -> tuple[int, str, str] | None:
    first = code.co_firstlineno
    if first > len(lines):
        return None
    try:
        block = "".join(inspect.getblock(lines[first - 1 :]))
    except (IndentationError, SyntaxError, tokenize.TokenError):
        return None
    padded = ("if 1:\n" if block[:1].isspace() else "\n") + block
    try:
        tree = ast.parse(padded)
    except SyntaxError:
        return None
    body = tree.body[0].body if isinstance(tree.body[0], ast.If) else tree.body
    node = body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
        return None
    ast.increment_lineno(node, first - 2)
    node.lineno, node.col_offset = first, 0  # code starts at the first decorator
    if not same_code(function_code(node, code, imported=imported), code, _assert_lines(node)):
        return None
    return first, textwrap.dedent(block), padded


def _lambda(
    lines: list[str], code: CodeType, imported: tuple[str, ...]
) -> tuple[int, str, str] | None:
    text = "".join(lines)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    # The first expression of the body; instructions that belong to none have no width.
    start = min(
        (
            (line, column)
            for line, end_line, column, end_column in code.co_positions()
            if line is not None and column is not None and (line, column) != (end_line, end_column)
        ),
        default=None,
    )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        body = node.body
        ends = (body.end_lineno, body.end_col_offset)
        # A body that is a constant may have no instruction with a width.
        if start and not (body.lineno, body.col_offset) <= start <= ends:
            continue
        if same_code(function_code(node, code, imported=imported), code, frozenset()):
            original = ast.get_source_segment(text, node)
            assert original is not None
            column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
            return node.lineno, original, f"(\n{' ' * column}{original}\n)\n"
    return None


def _assert_lines(node: ast.AST) -> frozenset[int]:
    """The lines of assert statements, whose code a test runner replaces."""
    found: set[int] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Assert):
            found.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    return frozenset(found)
