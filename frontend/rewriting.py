"""From a person's function to the explicit program it means, as text and as a function."""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import Any, Literal, NoReturn

import libcst as cst

from gizml_tile.errors import Place, TileError
from gizml_tile.frontend import assignments, branches, calls, operators
from gizml_tile.frontend.compiling import class_of
from gizml_tile.frontend.exits import Exits
from gizml_tile.frontend.header import runnable
from gizml_tile.frontend.inference import Inference
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.positions import PositionMap, Span, compiled, lines_of, write_out
from gizml_tile.frontend.resolve import Answer, Question, Resolver
from gizml_tile.frontend.rewriter import Rewriter, Rules, fresh, keep
from gizml_tile.frontend.scopes import NameTable
from gizml_tile.frontend.source import Source, mark_rewritten
from gizml_tile.frontend.spelling import line, with_first_lines
from gizml_tile.frontend.statements import (
    class_statement,
    compound,
    for_statement,
    function,
    function_statement,
    match_statement,
    while_statement,
)
from gizml_tile.frontend.syntax import COMPREHENSIONS, Function, parameters, parts, walk

# What each kind of node becomes; expressions that are not listed have their parts rewritten.
RULES: Rules = {
    cst.BinaryOperation: operators.binary,
    cst.UnaryOperation: operators.unary,
    cst.Comparison: operators.comparison,
    cst.BooleanOperation: operators.boolean,
    cst.IfExp: operators.choice,
    cst.Call: calls.call_expression,
    cst.Subscript: calls.subscript,
    cst.Attribute: calls.attribute,
    cst.Lambda: calls.lambda_expression,
    **dict.fromkeys(COMPREHENSIONS, calls.comprehension),
    # What is inside f-strings stays as it is written.
    **dict.fromkeys(
        (cst.Name, cst.FormattedString, cst.SimpleString, cst.Integer, cst.Float), keep
    ),
    cst.SimpleStatementLine: assignments.line_statement,
    cst.If: branches.branch,
    cst.For: for_statement,
    cst.While: while_statement,
    cst.Match: match_statement,
    cst.FunctionDef: function_statement,
    cst.ClassDef: class_statement,
    **dict.fromkeys((cst.Try, cst.TryStar, cst.With), compound),
    # Simple statements on the line of their `if` or `for`.
    **dict.fromkeys(
        (
            cst.Assign,
            cst.AugAssign,
            cst.AnnAssign,
            cst.Return,
            cst.Assert,
            cst.Del,
            cst.Import,
            cst.ImportFrom,
            cst.Global,
            cst.Nonlocal,
            cst.Expr,
            cst.Pass,
            cst.Break,
            cst.Continue,
            cst.Raise,
        ),
        assignments.small_statement,
    ),
}

What = Literal["kernel", "function", "helper"]


@dataclass(frozen=True)
class Rewritten:
    """A rewritten function: its explicit text, the person's text without decorators, the function of it.

    ``lines`` has the lines of the person's file that each line of the text comes from.
    """

    text: str
    original: str
    function: FunctionType
    lines: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Draft:
    """What rewriting one text gave, and what about the surroundings it rests on."""

    text: str
    original: str
    code: CodeType
    answers: dict[Question, Answer]
    lines: tuple[tuple[int, ...], ...]


_DRAFTS: dict[tuple[CodeType, str, str, bool], list[_Draft]] = {}
_LIMIT = 1024
_LOCK = threading.Lock()


def rewrite(source: Source, kind: What) -> Rewritten:
    """Rewrite a function. Raises TileError at what the language does not have."""
    function = source.function
    if source.is_rewritten:
        return Rewritten("", "", function)
    key = (function.__code__, source.filename, source.padded, kind == "kernel")
    resolver = Resolver(function)
    drafts = _DRAFTS.get(key, [])
    draft = next((each for each in drafts if resolver.still_holds(each.answers)), None)
    if draft is None:
        draft = _checked_draft(source, kind, resolver)
        with _LOCK:
            if len(_DRAFTS) >= _LIMIT:
                _DRAFTS.pop(next(iter(_DRAFTS)))
            _DRAFTS.setdefault(key, []).append(draft)
    return Rewritten(draft.text, draft.original, _function(function, draft.code), draft.lines)


def _checked_draft(source: Source, kind: What, resolver: Resolver) -> _Draft:
    try:
        return _draft(source, kind, resolver)
    except TileError:
        raise
    except Exception as error:
        if not _is_recursion(error):
            raise
        code = source.function.__code__
        place = Place(source.filename, code.co_firstlineno, function=code.co_qualname)
        message = f"{code.co_name} holds an expression of too many parts; give some of them names"
    # Outside of the handler: what was raised would be printed with the whole syntax tree.
    raise TileError(message, place)


def _is_recursion(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, RecursionError):
        error = error.__cause__ or error.__context__
    return error is not None


def _draft(source: Source, kind: What, resolver: Resolver) -> _Draft:
    module = cst.parse_module(source.padded)
    _, positions = write_out(module)
    shift = source.line - 2
    lines = source.padded.split("\n")
    code = source.function.__code__

    def fail(node: cst.CSTNode, message: str) -> NoReturn:
        raise TileError(message, _place(positions[node], shift, source.filename, code.co_qualname))

    node = _find(module)
    table = NameTable()
    inference = Inference(resolver, table, kind == "kernel")
    if kind == "kernel":
        _check_kernel(node, fail)
    first = Kind.PROGRAM if kind == "kernel" else Kind.UNKNOWN
    inference.run(node, first)
    identifiers = set(re.findall(r"\w+", source.padded))
    given = node
    exits = _exits(given, kind, inference, identifiers, positions)
    if isinstance(given, cst.FunctionDef):
        node = exits.function(given, is_kernel=kind == "kernel")
    if node is not given:
        table = NameTable(exits.flags)
        inference = Inference(resolver, table, kind == "kernel", known=exits.modes)
        inference.run(node, first)
    rewriter = Rewriter(RULES, inference, frozenset(identifiers), fail, positions)
    hidden = _hides_tile(table, node, resolver)
    if hidden:
        rewriter.tile_name = rewriter.fresh("tile")
    new = _rewritten(rewriter, node)
    if hidden and rewriter.uses_dispatch:
        new = with_first_lines(new, [_import_line(rewriter.tile_name)])
    if "__" in source.padded and (owner := class_of(code)) is not None:
        mangled = new.visit(_Mangled(owner, rewriter.origins))
        assert isinstance(mangled, cst.FunctionDef)
        new = mangled
    name = source.function.__name__
    if name.isidentifier() and name != new.name.value:  # a wrapper is known by what it wraps
        new = new.with_changes(name=cst.Name(name))
    new = runnable(new, source.function)
    new = new.with_changes(decorators=(), leading_lines=(), lines_after_decorators=())
    rewriter.origins[new] = node
    out = cst.Module(
        [new], default_indent=module.default_indent, default_newline=module.default_newline
    )
    text, written = write_out(out)
    places = PositionMap(text, written, rewriter.origins, positions, lines, shift)
    extra = ("tile",) if rewriter.uses_dispatch and not hidden else ()
    result = compiled(
        text, places, code, tuple(set(extra) - set(code.co_freevars)), rewriter.generated
    )
    mark_rewritten(result)
    found = lines_of(text, written, rewriter.origins, positions, shift)
    return _Draft(text, _original(source, given, module), result, resolver.answers, found)


def _exits(
    node: Function,
    kind: What,
    inference: Inference,
    identifiers: set[str],
    positions: dict[cst.CSTNode, Span],
) -> Exits:
    """What rewrites the exits of a function's loops and branches."""
    program = next((each.name.value for each in parameters(node)), None)
    return Exits(
        inference, positions, partial(fresh, identifiers), program if kind == "kernel" else None
    )


def _original(source: Source, node: Function, module: cst.Module) -> str:
    """The person's text of a function as the rewritten one is written: without decorators."""
    if isinstance(node, cst.Lambda):
        return source.original
    alone = node.with_changes(decorators=(), leading_lines=(), lines_after_decorators=())
    return module.with_changes(header=(), footer=(), body=[alone]).code


def _find(module: cst.Module) -> Function:
    statement: cst.CSTNode = module.body[0]
    if isinstance(statement, cst.If):
        statement = statement.body.body[0]
    if isinstance(statement, cst.FunctionDef):
        return statement
    return next(each for each in walk(statement) if isinstance(each, cst.Lambda))


def _check_kernel(node: Function, fail: object) -> None:
    assert callable(fail)
    if isinstance(node, cst.FunctionDef) and node.asynchronous is not None:
        fail(node, "`async` on a kernel: its body runs once, to record it, and awaits nothing; write `def`")
    for each in _own_nodes(node.body):
        if isinstance(each, cst.Yield):
            fail(
                each,
                "`yield` in a kernel: its body runs once, to record it; store values with C[i, j] = tile",
            )
        if isinstance(each, cst.Await):
            fail(
                each,
                "`await` in a kernel: its body runs once, to record it, and awaits nothing; await before "
                "the launch",
            )


def _own_nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes of a function that are not those of a function inside."""
    found = [node]
    for part in parts(node):
        if not isinstance(part, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            found.extend(_own_nodes(part))
    return found


def _hides_tile(table: NameTable, node: Function, resolver: Resolver) -> bool:
    """Whether ``tile`` means something of the person's anywhere in a function."""
    if "tile" in table.of(node).bound or any(
        "tile" in table.of(each).bound for each, _ in table.of(node).captured
    ):
        return True
    return resolver.is_known("tile") and not resolver.is_tile_module("tile")


def _rewritten(rewriter: Rewriter, node: Function) -> cst.FunctionDef:
    if isinstance(node, cst.FunctionDef):
        return function(rewriter, node)
    new = rewriter.expr(node)
    value = cst.Return(new.body)
    rewriter.origins[value] = node.body
    return cst.FunctionDef(
        cst.Name(rewriter.fresh("lambda")),
        new.params,
        cst.IndentedBlock([cst.SimpleStatementLine([value])]),
    )


class _Mangled(cst.CSTTransformer):
    """Spells private names out, so that the text means the same outside its class."""

    def __init__(self, owner: str, origins: dict[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._prefix = f"_{owner.lstrip('_')}"
        self._origins = origins

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        if isinstance(updated_node, cst.Name) and _PRIVATE.fullmatch(updated_node.value):
            updated_node = updated_node.with_changes(value=self._prefix + updated_node.value)
        if updated_node is not original_node:
            self._origins[updated_node] = self._origins.get(original_node, original_node)
        return updated_node


_PRIVATE = re.compile(r"__\w*?[^_\W]_?")


def _function(function: FunctionType, code: CodeType) -> FunctionType:
    """The rewritten code as a function with the person's globals, cells, defaults and attributes."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if "tile" in code.co_freevars and "tile" not in cells:
        cells["tile"] = CellType(sys.modules["gizml_tile"])
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars) or None,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    if sys.version_info >= (3, 14):
        made.__annotate__ = function.__annotate__
    else:
        made.__annotations__ = function.__annotations__
    return made


def _place(place: Span, shift: int, filename: str, function: str) -> Place:
    line, column, end_line, end_column = place
    return Place(filename, line + shift, column + 1, end_line + shift, end_column + 1, function)


def _import_line(name: str) -> cst.SimpleStatementLine:
    """``import gizml_tile as NAME``."""
    alias = cst.ImportAlias(cst.Name("gizml_tile"), asname=cst.AsName(cst.Name(name)))
    return line(cst.Import([alias]))
