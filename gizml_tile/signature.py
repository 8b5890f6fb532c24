"""A kernel's parameters: which are run-time values, which constants, and how a call fills them."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gizml_tile.errors import Place, TileError, here
from gizml_tile.helpful import nearest
from gizml_tile.runtime.tensors import is_tensor

RESERVED = ("kind", "arch", "storage", "stream", "debug", "warps", "stages")
# What `ir`, `source`, `explain` and `simulate` take and a launch does not.
_OF_LOOKING = ("kind", "arch", "storage")
_EMPTY = inspect.Parameter.empty
_SHOWN = 16
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters after the program, in the order of the function's own signature."""

    name: str
    positional: tuple[str, ...]
    positional_only: int
    defaults: Mapping[str, object]
    rest: str | None
    constants: tuple[str, ...]
    more_constants: str | None

    def bind(self, values: tuple[object, ...], named: Mapping[str, object]) -> Arguments:
        """What each parameter holds in a call. Raises TileError at the call's line where it does not fit."""
        if len(values) > len(self.positional) and self.rest is None:
            by_name = "; constants are given by name" if self.constants else ""
            raise self._error(
                f"takes {_count(len(self.positional), 'argument')}, found "
                f"{len(values)}{self._form()}{by_name}"
            )
        given = dict(zip(self.positional, values, strict=False))
        rest = values[len(self.positional) :]
        constants: dict[str, object] = {}
        for name, value in named.items():
            if name in self.positional[self.positional_only :]:
                if name in given:
                    raise self._error(f"has two values for {name!r}")
                given[name] = value
            elif name in self.constants or self.more_constants is not None:
                constants[name] = value
            elif name in self.positional:
                raise self._error(f"takes {name!r} by position only")
            else:
                raise self._error(f"has no parameter {name!r}{self._instead(name)}")
        ordered: dict[str, object] = {}
        for name in self.positional:
            ordered[name] = given[name] if name in given else self._default(name, "argument")
        filled = {name: constants.pop(name, _EMPTY) for name in self.constants}
        for name, value in filled.items():
            if value is _EMPTY:
                filled[name] = self._default(name, "constant")
        filled.update(constants)
        for name, value in filled.items():
            self._check_constant(name, value)
        return Arguments(self, ordered, rest, filled)

    def _default(self, name: str, what: str) -> object:
        if name in self.defaults:
            return self.defaults[name]
        if what == "constant":
            raise self._error(f"needs the constant {name!r}; pass {name}=... in the call")
        raise self._error(f"needs the argument {name!r}{self._form()}")

    def _check_constant(self, name: str, value: object) -> None:
        if is_tensor(value) and not (isinstance(value, np.ndarray) and value.ndim == 0):
            raise self._error(
                f"has the tensor {name!r} as a constant; parameters after the * are constants, known before "
                f"the kernel runs, so write {name!r} before it"
            )
        try:
            hash(value)
        except TypeError:
            raise self._error(
                f"has the constant {name!r} of type {type(value).__name__}, which is not hashable; pass a "
                "tuple, or another value that never changes"
            ) from None

    def _instead(self, name: str) -> str:
        """What to write in place of a name that is no parameter's."""
        if name == "grid":
            return f"; the grid stands in brackets: {self.name}[grid]({', '.join(self.positional)})"
        if name in _OF_LOOKING:
            return (
                "; a launch runs where its tensors are, and "
                f"{self.name}.explain({', '.join(self.positional)}, {name}=...) shows what it is elsewhere"
            )
        from gizml_tile.habits import KEYWORDS

        if KEYWORDS.get(name) in RESERVED:
            return f"; here it is {KEYWORDS[name]!r}"
        return nearest(name, (*self.positional, *self.constants)) or self._form()

    def _form(self) -> str:
        """``; write add(x, y, BM=...)``: how the kernel is called."""
        rest = [] if self.rest is None else ["..."]
        constants = [f"{name}={_shown(self.defaults, name)}" for name in self.constants]
        return f"; write {self.name}({', '.join((*self.positional, *rest, *constants))})"

    def _error(self, message: str) -> TileError:
        return TileError(f"{self.name}() {message}", here())


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's values by parameter, as the person passed them."""

    signature: Signature
    ordered: Mapping[str, object]
    rest: tuple[object, ...]
    constants: Mapping[str, object]

    def named(self) -> dict[str, object]:
        """Every value by its parameter's name, ``*rest`` as a tuple: what a grid function may ask for."""
        values: dict[str, object] = dict(self.ordered)
        if self.signature.rest is not None:
            values[self.signature.rest] = self.rest
        values.update(self.constants)
        return values

    def split(self) -> Values:
        """The run-time leaves and what is constant, each with the name it has in errors and IR text."""
        values = Values()
        for name, value in self.ordered.items():
            values.frame.append(values.take(value, name, self.signature))
        for number, value in enumerate(self.rest):
            values.frame.append(values.take(value, f"{self.signature.rest}_{number}", self.signature))
        return values


class Leaf:
    """A place in a call's values where a run-time number or tensor goes."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


@dataclass(slots=True)
class Values:
    """A call's values taken apart: leaves that are passed at run time, and a frame of what is fixed.

    The frame has the call's positional values with a `Leaf` in place of each tensor and number.
    """

    names: list[str] = field(default_factory=list)
    leaves: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    frame: list[object] = field(default_factory=list)

    def take(self, value: Any, name: str, signature: Signature) -> object:
        """The value's place in the frame. Raises TileError for a value that no kernel can take."""
        if value is None or isinstance(value, bool | np.bool_ | str | enum.Enum | type | np.dtype):
            return value
        if isinstance(value, tuple | list):
            parts: list[Any] = [
                self.take(item, f"{name}_{place}", signature) for place, item in enumerate(value)
            ]
            if isinstance(value, tuple):
                return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
            return parts
        number, kind = value, "tensor"
        if isinstance(value, np.ndarray) and value.ndim == 0:
            number = value[()]
            if isinstance(number, np.bool_):
                return bool(number)
        if not isinstance(number, np.ndarray):
            kind = _number_kind(number)
            if kind == "int":
                number = int(number)
                if number not in _INT64:
                    raise TileError(
                        f"{signature.name}() has {name!r} = {number}, which does not fit in 64 bits",
                        here(),
                    )
            elif kind == "float":
                number = float(number)
            elif kind != "tensor":
                raise TileError(
                    f"{signature.name}() has {name!r} of type {type(value).__name__}; run-time arguments "
                    f"are tensors, ints and floats{_advice(value, name)}",
                    here(),
                )
        self.names.append(name)
        self.leaves.append(number)
        self.kinds.append(kind)
        return Leaf(len(self.leaves) - 1)


def _shown(defaults: Mapping[str, object], name: str) -> str:
    """A constant's default where it is short, as calls are shown."""
    text = repr(defaults[name]) if name in defaults else "..."
    return text if len(text) <= _SHOWN else "..."


def _number_kind(value: Any) -> str:
    if isinstance(value, int | np.integer):
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    if isinstance(value, np.generic):
        # ml_dtypes' scalars are generic only; complex and structured ones have no real value.
        return "float" if value.dtype.kind in "Vf" and value.dtype.names is None else ""
    return "tensor" if is_tensor(value) else ""


def _advice(value: object, name: str) -> str:
    if isinstance(value, complex | np.complexfloating):
        return "; complex numbers are not supported: pass their real and imaginary parts as two"
    if callable(value):
        return f"; to pass a function as a constant, write {name!r} after a * in the kernel's parameters"
    return f"; other values are constants, which stand after a * in the kernel's parameters: {name}=..."


def signature_of(function: Callable[..., object], place: Place | None) -> Signature:
    """A kernel function's signature. Raises TileError where a parameter cannot be one of a kernel's."""
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        # A wrapper that passes everything on takes what it wraps does.
        parameters = list(inspect.signature(function).parameters.values())
    name = function.__name__
    first = parameters[0] if parameters else None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise TileError(
            f"kernel {name} has no parameter for the program; write it first: def {name}(p, ...)",
            place,
        )
    if first.name == "self":
        raise TileError(
            f"kernel {name} has self as its first parameter; a kernel in a class is a static method, so "
            f"its first parameter is the program: def {name}(p, ...)",
            place,
        )
    signature = _sorted(name, parameters[1:])
    for parameter in parameters:
        if parameter.name in RESERVED:
            raise TileError(
                f"kernel {name} has a parameter named {parameter.name!r}, which means something else in "
                "a launch; choose another name",
                place,
            )
    return signature


def _sorted(name: str, parameters: list[inspect.Parameter]) -> Signature:
    def names(*kinds: Any) -> Iterator[str]:
        return (parameter.name for parameter in parameters if parameter.kind in kinds)

    kind = inspect.Parameter
    return Signature(
        name,
        tuple(names(kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)),
        len(tuple(names(kind.POSITIONAL_ONLY))),
        {each.name: each.default for each in parameters if each.default is not _EMPTY},
        next(names(kind.VAR_POSITIONAL), None),
        tuple(names(kind.KEYWORD_ONLY)),
        next(names(kind.VAR_KEYWORD), None),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
