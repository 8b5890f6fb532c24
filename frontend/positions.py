"""From a rewritten text back to the person's file: every piece keeps the place it was written at."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from types import CodeType

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from gizml_tile.frontend.compiling import function_code

# Line, column, end line, end column in the person's file; columns in bytes, as code objects count them.
Range = tuple[int, int, int, int]


def positions_of(module: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
    """Where each node of a module stands in its text."""
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    return wrapper.resolve(PositionProvider)  # type: ignore[return-value]


class PositionMap:
    """Moves the nodes of a parsed rewritten text to the person's places."""

    def __init__(self, text: str, module: cst.Module, origins: Mapping[cst.CSTNode, cst.CSTNode],
                 old: Mapping[cst.CSTNode, CodeRange], lines: list[str], shift: int) -> None:  # fmt: skip
        """``lines`` is the text that ``old`` counts in, ``shift`` what makes its lines the person's."""
        self._text = text.split("\n")
        self._lines = lines
        self._shift = shift
        self._exact: dict[Range, Range] = {}
        self._starts: dict[tuple[int, int], Range] = {}
        for node, place in positions_of(module).items():
            origin = old.get(origins.get(node, node))
            if origin is None:
                continue
            start = (place.start.line, place.start.column)
            if isinstance(node, cst.BaseExpression | cst.BaseSmallStatement | cst.Arg | cst.MatchPattern):
                self._exact.setdefault((*start, place.end.line, place.end.column), self._range(origin))
            if isinstance(node, cst.BaseCompoundStatement | cst.BaseSmallStatement):
                self._starts.setdefault(start, self._range(origin))

    def _range(self, place: CodeRange) -> Range:
        start, end = place.start, place.end
        return (
            start.line + self._shift,
            _bytes(self._lines, start.line, start.column),
            end.line + self._shift,
            _bytes(self._lines, end.line, end.column),
        )

    def move(self, node: ast.AST, around: Range) -> None:
        """Give a node and all inside the person's places; ``around`` is for what has none of its own."""
        place = around
        if isinstance(node, ast.stmt):
            place = self._starts.get((node.lineno, self._column(node.lineno, node.col_offset)), around)
        elif hasattr(node, "lineno"):
            key = (
                node.lineno,
                self._column(node.lineno, node.col_offset),  # type: ignore[attr-defined]
                node.end_lineno,  # type: ignore[attr-defined]
                self._column(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
            )
            place = self._exact.get(key, around)
        if hasattr(node, "lineno"):
            node.lineno, node.col_offset = place[:2]  # type: ignore[attr-defined]
            node.end_lineno, node.end_col_offset = place[2:]  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            self.move(child, place)

    def _column(self, line: int, offset: int) -> int:
        text = self._text[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())


def _bytes(lines: list[str], line: int, column: int) -> int:
    text = lines[line - 1] if line <= len(lines) else ""
    return column if text.isascii() else len(text[:column].encode())


def compiled(text: str, places: PositionMap, like: CodeType, extra: tuple[str, ...],
             generated: Iterable[str]) -> CodeType:  # fmt: skip
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
                each = _renamed(each, each.co_name, f"{qualified}.<locals>.{each.co_name}", generated)
        constants.append(each)
    return code.replace(co_name=name, co_qualname=qualified, co_consts=tuple(constants))
