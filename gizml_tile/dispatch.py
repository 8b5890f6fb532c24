"""What rewritten code calls where Python has no operator to overload and the kind of a value is not known."""

from __future__ import annotations

import builtins
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from gizml_tile.arguments import TensorArgument
from gizml_tile.errors import TileError, here
from gizml_tile.frontend import Source, advice, capture, rewrite
from gizml_tile.frontend.helpers import resolved
from gizml_tile.helpful import Helpful, not_called
from gizml_tile.index import Index
from gizml_tile.lifting import describe
from gizml_tile.program import Program, current
from gizml_tile.tile import Tile
from gizml_tile.tracing import Value, fail
from gizml_tile.views import In, Out

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda item, items: contains(item, items),
    "not in": lambda item, items: not contains(item, items),
}


def program() -> Program:
    """The program being traced. Raises TileError outside a kernel."""
    found = current()
    if found is None:
        fail(
            "this is part of a program; call it from a kernel or from the body of tile.run"
        )
    return found


def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first and rest()...``: the mask of all of them, or Python's on host values."""
    result = first
    for each in rest:
        if isinstance(result, Value):
            result = _mask(result, "and").and_(each())
        elif result:
            result = each()
        else:
            return result
    return result


def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """``first or rest()...``: the mask of any of them, or Python's on host values."""
    result = first
    for each in rest:
        if isinstance(result, Value):
            result = _mask(result, "or").or_(each())
        elif not result:
            result = each()
        else:
            return result
    return result


def not_(value: Any) -> Any:
    """``not value``: the mask's opposite, or Python's on a host value."""
    return _mask(value, "not").not_() if isinstance(value, Value) else not value


def _mask(value: Value, word: str) -> Tile:
    if isinstance(value, Tile):
        return value
    fail(f"`{word}` takes masks, found {describe(value)}; compare it, as in `n != 0`")


def chain(first: Any, sign: str, second: Any, *rest: Any) -> Any:
    """``a < b < c``: the mask of all its parts, or Python's on host values, each operand evaluated once."""
    result = _COMPARE[sign](first, second)
    left = second
    for sign, later in builtins.zip(rest[::2], rest[1::2], strict=True):
        if not isinstance(result, Value) and not result:
            return result
        right = later()
        part = _COMPARE[sign](left, right)
        result = result.and_(part) if isinstance(result, Tile) else part
        left = right
    return result


def contains(item: Any, items: Any) -> bool:
    """``item in items``. Raises TileError for a tile, which has no one answer."""
    if isinstance(item, Value):
        fail(f"`in` on {describe(item)}: compare with == and combine the masks with `or`")
    found: bool = item in items
    return found


def not_contains(item: Any, items: Any) -> bool:
    """``item not in items``. Raises TileError for a tile, which has no one answer."""
    return not contains(item, items)


def select(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """``yes() if condition else no()``: both, chosen by a mask, or Python's on a host value."""
    if isinstance(condition, Index):
        fail(advice.IF_INDEX)
    if isinstance(condition, Tile):
        return condition.select(yes(), no())
    return yes() if condition else no()


def minimum(first: Any, *rest: Any) -> Any:
    """``min(first, ...)``: the smallest, from the left; Python's on host values."""
    return _extreme("minimum", builtins.min, (first, *rest))


def maximum(first: Any, *rest: Any) -> Any:
    """``max(first, ...)``: the largest, from the left; Python's on host values."""
    return _extreme("maximum", builtins.max, (first, *rest))


def _extreme(name: str, host: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    result = values[0]
    for each in values[1:]:
        if isinstance(result, Value) or isinstance(each, Value):
            result = _lifted(result, each)._operate(name, result, each)
        else:
            result = host(result, each)
    return result


def _lifted(left: Any, right: Any) -> Any:
    """The operand whose kind decides: a tile before an index before a number."""
    return left if isinstance(left, Tile) or not isinstance(right, Value) else right


def abs(value: Any) -> Any:
    """``abs(value)``."""
    return builtins.abs(value)


def cond(
    condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any] | None = None
) -> Any:
    """``if condition:`` as functions of its arms: a branch of the program, or Python's on a host value."""
    if isinstance(condition, Index):
        fail(advice.IF_INDEX)
    if isinstance(condition, MethodType) and isinstance(condition.__self__, Helpful):
        fail(not_called(condition, f"{condition.__self__._example}.{condition.__name__}"))
    with _region(isinstance(condition, Value)) as device:
        if device:
            return program().cond(condition, then, otherwise)
        if condition:
            return then()
        return None if otherwise is None else otherwise()


def host(value: Any, word: str) -> Any:
    """A host value as it is. Raises TileError for a traced one, which what follows cannot take."""
    if not isinstance(value, Value):
        return value
    if word in ("while", "assert", "match"):
        fail(advice.on_device(word))
    fail(advice.inside(word, "branch"))


def host_range(held: Mapping[str, object], word: str, *bounds: Any) -> range:
    """``range`` for a loop that cannot be the program's. Raises TileError where traced values are held."""
    if _holds_traced([*held.values(), *bounds]):
        fail(advice.inside(word, "loop"))
    return range(*bounds)


def fold(held: Mapping[str, object], start: Any, stop: Any, init: Any, body: Callable[[Any, Any], Any],
         *, step: Any = 1) -> Any:  # fmt: skip
    """A loop of one carried value: the program's where a helper holds traced values, else Python's."""
    with _region(_holds_traced([*held.values(), start, stop, init, step])) as device:
        if device:
            return program().fold(start, stop, init, body, step=step)
        for k in range(start, stop, step):
            init = body(k, init)
        return init


def loop(held: Mapping[str, object], start: Any, stop: Any, inits: list[Any], body: Callable[[Any, Any], Any],
         *, step: Any = 1, condition: Callable[[Any], Any] | None = None) -> Any:  # fmt: skip
    """A loop of carried values: the program's where a helper holds traced values, else Python's."""
    with _region(_holds_traced([*held.values(), start, stop, *inits, step])) as device:
        if device:
            return program().loop(start, stop, inits, body, step=step, condition=condition)
        for k in range(start, stop, step):
            if condition is not None and not condition(inits):
                break
            inits = body(k, inits)
        return inits


def while_(inits: Any, condition: Callable[[Any], Any], body: Callable[[Any], Any]) -> Any:
    """A loop while a condition holds: Python's as long as that is a host value, then the program's."""
    while True:
        answer = condition(inits)
        with _region(isinstance(answer, Value)) as device:
            if device:
                return program().while_(list(inits), condition, body)
            if not answer:
                return inits
            inits = body(inits)


def _holds_traced(values: Iterable[object], depth: int = 2) -> bool:
    for each in values:
        if isinstance(each, Value | Program | In | Out | TensorArgument):
            return True
        if depth and isinstance(each, list | tuple | set) and _holds_traced(each, depth - 1):
            return True
        if depth and isinstance(each, dict) and _holds_traced(each.values(), depth - 1):
            return True
    return False


_state = threading.local()


@contextmanager
def _region(device: bool) -> Iterator[bool]:
    """A loop or branch of this module's, and whether it is the program's."""
    regions: list[bool] = _state.__dict__.setdefault("regions", [])
    regions.append(device)
    try:
        yield device
    finally:
        regions.pop()


def store(value: Any, target: Any, key: Any, around: int = 0) -> None:
    """``target[key] = value`` in a loop or branch of the program, where only an output takes it.

    With ``around`` it may be Python's: the program's is it if one of so many loops and branches is.
    """
    device = not around or any(_state.regions[-around:])
    if device and not isinstance(target, Out | In | Value | TensorArgument):
        fail(advice.STORE)
    operator.setitem(target, key, value)


def helper(function: Any) -> Any:
    """A function as a kernel calls it: the person's own are rewritten, everything else is as it is."""
    return resolved(function, _rewritten) if callable(function) else function


_MOST_SOURCES = 4096
_sources: dict[tuple[CodeType, str], Source] = {}


def _rewritten(function: FunctionType) -> Callable[..., object]:
    code = function.__code__
    key = (code, code.co_filename)
    source = _sources.get(key)
    if source is None or source.is_rewritten:
        try:
            source = capture(function, 0)
        except TileError as error:
            return function if _is_straight(code) else _unknown(function, error)
        if len(_sources) >= _MOST_SOURCES:
            _sources.clear()
        _sources[key] = source
    return rewrite(replace(source, function=function), "helper").function


@lru_cache(maxsize=4096)
def _is_straight(code: CodeType) -> bool:
    """Whether code has no branch or loop, so that it means the same on tiles without being rewritten."""
    import dis

    return not any(
        "JUMP" in each.opname or each.opname == "FOR_ITER" for each in dis.get_instructions(code)
    )


def _unknown(function: FunctionType, error: TileError) -> Callable[..., object]:
    """A function that cannot be rewritten: right on host values, an error on traced ones."""

    def call(*args: object, **keywords: object) -> object:
        if _holds_traced([*args, *keywords.values()]):
            raise TileError(
                f"{function.__qualname__} holds loops or branches, which must be rewritten where it takes "
                f"values of the program, but {error.message}",
                here(),
            ) from error
        return function(*args, **keywords)

    return call
