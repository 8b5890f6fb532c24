"""What the outside names of a function stand for when it is rewritten."""

from __future__ import annotations

import builtins
import inspect
import sys
from enum import Enum
from types import FunctionType, ModuleType

from gizml_tile.frontend.helpers import needs_rewriting
from gizml_tile.frontend.kinds import Kind

Answer = object
Question = tuple[str, tuple[str, ...]]
_MISSING = object()
_SCALARS = (bool, int, float, complex, str, bytes, type(None), Enum)
_CLASSES = {
    "Tile": Kind.TILE,
    "Index": Kind.INDEX,
    "Program": Kind.PROGRAM,
    "In": Kind.IN,
    "Out": Kind.OUT,
}


class Resolver:
    """Answers about a function's outside names, remembered: another answer later means another rewriting."""

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self._globals = function.__globals__
        self._cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self.answers: dict[Question, Answer] = {}

    def still_holds(self, answers: dict[Question, Answer]) -> bool:
        """Whether the answers that a rewriting rests on are the same for this function now."""
        return all(self._answer(*question) == answer for question, answer in answers.items())

    def is_builtin(self, name: str) -> bool:
        """Whether a name is Python's own function of that name."""
        return self._ask("is_builtin", (name,)) is True

    def is_tile_module(self, name: str) -> bool:
        """Whether a name is this package."""
        return self._ask("is_tile_module", (name,)) is True

    def is_known(self, name: str) -> bool:
        """Whether a name stands for anything now."""
        return self._ask("is_known", (name,)) is True

    def call_is_plain(self, chain: tuple[str, ...]) -> bool:
        """Whether what ``a.b.c`` stands for needs no rewriting to be called."""
        return self._ask("call_is_plain", chain) is True

    def is_helper(self, chain: tuple[str, ...]) -> bool:
        """Whether ``a.b.c`` stands for a function of the person's, or something that runs one."""
        return self._ask("is_helper", chain) is True

    def is_unroll(self, chain: tuple[str, ...]) -> bool:
        """Whether ``a.b`` is this package's ``unroll``."""
        return self._ask("is_unroll", chain) is True

    def is_function_mark(self, chain: tuple[str, ...]) -> bool:
        """Whether ``a.b`` is this package's ``function``."""
        return self._ask("is_function_mark", chain) is True

    def kind(self, chain: tuple[str, ...]) -> Kind:
        """What an outside name holds: a constant, or unknown."""
        answer = self._ask("kind", chain)
        assert isinstance(answer, Kind)
        return answer

    def annotation(self, chain: tuple[str, ...]) -> Kind:
        """What a parameter with an annotation holds."""
        answer = self._ask("annotation", chain)
        assert isinstance(answer, Kind)
        return answer

    def _ask(self, question: str, chain: tuple[str, ...]) -> Answer:
        key = (question, chain)
        if key not in self.answers:
            self.answers[key] = self._answer(question, chain)
        return self.answers[key]

    def _answer(self, question: str, chain: tuple[str, ...]) -> Answer:
        thing = self._find(chain)
        match question:
            case "is_builtin":
                return thing is not _MISSING and thing is getattr(builtins, chain[0], None)
            case "is_tile_module":
                return isinstance(thing, ModuleType) and thing.__name__ == "gizml_tile"
            case "is_known":
                return thing is not _MISSING
            case "call_is_plain":
                return thing is not _MISSING and callable(thing) and not needs_rewriting(thing)
            case "is_helper":
                return thing is not _MISSING and callable(thing) and needs_rewriting(thing)
            case "is_unroll":
                return thing is not _MISSING and thing is _own("unroll")
            case "is_function_mark":
                return thing is not _MISSING and thing is _own("function")
            case "annotation":
                found = [kind for name, kind in _CLASSES.items() if thing is _own(name)]
                return found[0] if found else Kind.UNKNOWN
            case _:
                return Kind.CONSTANT if isinstance(thing, _SCALARS) else Kind.UNKNOWN

    def _find(self, chain: tuple[str, ...]) -> object:
        name, *attributes = chain
        thing: object = _MISSING
        if name in self._cells:
            try:
                thing = self._cells[name].cell_contents
            except ValueError:  # not bound yet
                return _MISSING
        else:
            thing = self._globals.get(name, _MISSING)
            if thing is _MISSING:
                thing = getattr(self._builtins(), name, _MISSING)
        for attribute in attributes:
            if thing is _MISSING:
                break
            thing = _attribute(thing, attribute)
        return thing

    def _builtins(self) -> object:
        found = self._globals.get("__builtins__", builtins)
        return found if isinstance(found, ModuleType) else builtins


def _attribute(thing: object, name: str) -> object:
    """An attribute, found without running any code of the person's."""
    if isinstance(thing, ModuleType):
        return getattr(thing, name, _MISSING)
    found = inspect.getattr_static(thing, name, _MISSING)
    if isinstance(found, staticmethod | classmethod):
        return found.__func__
    return (
        _MISSING
        if hasattr(type(found), "__get__") and not isinstance(found, FunctionType)
        else found
    )


def _own(name: str) -> object:
    """A public name of this package; what no outside name can stand for, where there is none."""
    return getattr(sys.modules.get("gizml_tile"), name, object())
