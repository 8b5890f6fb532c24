"""From a rewritten text back to the person's file: every piece keeps the place it was written at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from types import CodeType
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from gizml_tile.frontend.compiling import function_code

# Line (from 1), column (from 0, in characters), end line, end column.
Span = tuple[int, int, int, int]
# The same in the person's file, with columns in bytes, as code objects count them.
Range = tuple[int, int, int, int]
_NEWLINE = re.compile(r"\r\n|\n|\r")


class _Recorder(CodegenState):
    """Writes a module out and notes where each node stands, in one pass."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.places: dict[cst.CSTNode, Span] = {}
        self._line = 1
        self._column = 0
        self._starts: list[tuple[int, int]] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        if "\n" in value or "\r" in value:
            lines = _NEWLINE.split(value)
            self._line += len(lines) - 1
            self._column = len(lines[-1])
        else:
            self._column += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append((self._line, self._column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if node not in self.places:
            self.places[node] = (*start, self._line, self._column)

    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Any:
        return _Between(self, node, start_node, end_node)

    def position(self) -> tuple[int, int]:
        """Where the next token will stand."""
        return self._line, self._column


class _Between(AbstractContextManager[None]):
    """Notes what is written inside as the place of a node, without the whitespace around it."""

    __slots__ = ("_end_node", "_node", "_recorder", "_start", "_start_node")

    def __init__(
        self,
        recorder: _Recorder,
        node: cst.CSTNode,
        start_node: cst.CSTNode | None,
        end_node: cst.CSTNode | None,
    ) -> None:
        self._recorder = recorder
        self._node = node
        self._start_node = start_node
        self._end_node = end_node

    def __enter__(self) -> None:
        self._start = self._recorder.position()

    def __exit__(self, *_: object) -> None:
        places = self._recorder.places
        start = self._start if self._start_node is None else places[self._start_node][:2]
        end = self._recorder.position() if self._end_node is None else places[self._end_node][2:]
        places[self._node] = (*start, *end)


def write_out(module: cst.Module) -> tuple[str, dict[cst.CSTNode, Span]]:
    """A module's text, and where each of its nodes stands in it."""
    recorder = _Recorder(module)
    module._codegen(recorder)
    return "".join(recorder.tokens), recorder.places


class PositionMap:
    """Moves the nodes of a parsed rewritten text to the person's places."""

    def __init__(
        self,
        text: str,
        new: Mapping[cst.CSTNode, Span],
        origins: Mapping[cst.CSTNode, cst.CSTNode],
        old: Mapping[cst.CSTNode, Span],
        lines: list[str],
        shift: int,
    ) -> None:
        """``new`` are places in ``text``, ``old`` in ``lines``; ``shift`` makes those lines the person's."""
        self._text = text.split("\n")
        self._lines = lines
        self._shift = shift
        self._exact: dict[Span, Span] = {}
        self._starts: dict[tuple[int, int], Span] = {}
        for node, place in new.items():
            origin = old.get(origins.get(node, node))
            if origin is None:
                continue
            placed, statement = _role(type(node))
            if placed:
                self._exact.setdefault(place, origin)
            if statement:
                self._starts.setdefault(place[:2], origin)

    def _range(self, place: Span) -> Range:
        line, column, end_line, end_column = place
        return (
            line + self._shift,
            _bytes(self._lines, line, column),
            end_line + self._shift,
            _bytes(self._lines, end_line, end_column),
        )

    def move(self, node: ast.AST, around: Range) -> None:
        """Give a node and all inside the person's places; ``around`` is for what has none of its own."""
        found: Span | None = None
        if isinstance(node, ast.stmt):
            found = self._starts.get((node.lineno, self._column(node.lineno, node.col_offset)))
        elif hasattr(node, "lineno"):
            key = (
                node.lineno,
                self._column(node.lineno, node.col_offset),  # type: ignore[attr-defined]
                node.end_lineno,  # type: ignore[attr-defined]
                self._column(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
            )
            found = self._exact.get(key)
        place = around if found is None else self._range(found)
        if hasattr(node, "lineno"):
            node.lineno, node.col_offset = place[:2]  # type: ignore[attr-defined]
            node.end_lineno, node.end_col_offset = place[2:]  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            self.move(child, place)

    def _column(self, line: int, offset: int) -> int:
        text = self._text[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())


@lru_cache(maxsize=256)
def _role(kind: type[cst.CSTNode]) -> tuple[bool, bool]:
    """Whether nodes of a kind have places of their own in a syntax tree, and whether they are statements."""
    return issubclass(kind, _PLACED), issubclass(kind, _STATEMENTS)


_STATEMENTS = (cst.BaseCompoundStatement, cst.BaseSmallStatement)
_PLACED = (cst.BaseExpression, cst.BaseSmallStatement, cst.Arg, cst.MatchPattern)
_LINED = (*_STATEMENTS, cst.BaseExpression, cst.Comment)


def lines_of(
    text: str,
    new: Mapping[cst.CSTNode, Span],
    origins: Mapping[cst.CSTNode, cst.CSTNode],
    old: Mapping[cst.CSTNode, Span],
    shift: int,
) -> tuple[tuple[int, ...], ...]:
    """The lines of the person's file that each line of a rewritten text comes from; as `PositionMap` takes.

    They are those where the nodes begin that begin in the line. A line without any, such as what hands the
    carried values on, comes from the line that the innermost compound statement around it comes from.
    """
    count = text.count("\n") + 1
    found: list[set[int]] = [set() for _ in range(count)]
    around = [(count + 1, 0)] * count
    for node, (line, _, end_line, _) in new.items():
        origin = old.get(origins.get(node, node))
        if origin is None:
            continue
        if isinstance(node, _LINED):
            found[line - 1].add(origin[0] + shift)
        if isinstance(node, cst.BaseCompoundStatement):
            size = end_line - line
            for each in range(line - 1, min(end_line, count)):
                around[each] = min(around[each], (size, origin[0] + shift))
    return tuple(
        tuple(sorted(lines)) or ((outer,) if outer and text_line.strip() else ())
        for lines, (_, outer), text_line in zip(found, around, text.split("\n"), strict=True)
    )


def _bytes(lines: list[str], line: int, column: int) -> int:
    text = lines[line - 1] if line <= len(lines) else ""
    return column if text.isascii() else len(text[:column].encode())


def compiled(
    text: str, places: PositionMap, like: CodeType, extra: tuple[str, ...], generated: Iterable[str]
) -> CodeType:
    """A rewritten text's function as code at the person's places, with the name of ``like``."""
    tree = ast.parse(text)
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef)
    places.move(node, (like.co_firstlineno, 0, like.co_firstlineno, 0))
    # Code starts at the first decorator, which the text does not have.
    node.lineno, node.col_offset = like.co_firstlineno, 0
    code = function_code(node, like, extra)
    return _renamed(code, like.co_name, like.co_qualname, frozenset(generated))


def _renamed(code: CodeType, name: str, qualified: str, generated: frozenset[str]) -> CodeType:
    """Code under a person's names: a generated function is part of the function around it."""
    constants = []
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_name in generated:
                each = _renamed(each, name, qualified, generated)
            else:
                each = _renamed(
                    each, each.co_name, f"{qualified}.<locals>.{each.co_name}", generated
                )
        constants.append(each)
    return code.replace(co_name=name, co_qualname=qualified, co_consts=tuple(constants))
