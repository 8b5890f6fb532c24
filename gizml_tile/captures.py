"""What a body reads from closures and globals, as a key that is compared before a launch reuses a trace.

The key holds values: numbers and texts with their type, containers and the person's own objects by
content, functions by their code and by what that code reads in turn; what has no value (a module, a
class, an object of a library) counts by identity. Tensors are left out: they are run-time arguments, so
the key has only which of them are the same memory.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, TypeVar

import numpy as np

from gizml_tile.access import Access, accesses, is_library_file, is_library_module
from gizml_tile.errors import TileError
from gizml_tile.runtime.objects import ABSENT
from gizml_tile.runtime.tensors import TensorInfo, describe, is_tensor

_ATOMS = frozenset(
    {type(None), bool, int, str, bytes, type(...), type(NotImplemented), type(ABSENT)}
)
_CONTAINERS = frozenset({list, tuple, set, frozenset, dict, MappingProxyType})
_PLAIN_ATTRIBUTES = (
    FunctionType,
    staticmethod,
    classmethod,
    MemberDescriptorType,
    GetSetDescriptorType,
)
# An object with more parts than this is compared by identity: reading it all would cost more than a trace.
_PARTS = 20_000


class Same:
    """Stands in a key for an object that has no value: equal to itself alone."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing) >> 4

    def __repr__(self) -> str:
        return f"<the same {self.thing!r}>"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a function reads from outside itself, as it stands now.

    ``tensors`` are the distinct tensors reached, ``whole`` the numbers of those that the body may look
    into on the host. ``watch`` is None where only a new reading can tell whether anything changed.
    """

    key: Hashable
    tensors: tuple[object, ...]
    infos: tuple[TensorInfo, ...]
    whole: frozenset[int]
    watch: Watch | None

    def number_of(self, info: TensorInfo) -> int | None:
        """Which of the tensors reached is this one; None where it was made in the body."""
        place = _memory(info)
        for number, known in enumerate(self.infos):
            if _memory(known) == place:
                return number
        return None


@dataclass(frozen=True, slots=True)
class Watch:
    """The places where a reading's values stand: while each holds the same object, the key is the same."""

    entries: tuple[tuple[dict[Any, Any], object, object], ...]
    cells: tuple[tuple[CellType, object], ...]
    attributes: tuple[tuple[object, str, object], ...]

    def unchanged(self) -> bool:
        """Whether every place still holds the very object that was read."""
        missing = ABSENT
        for holder, name, value in self.entries:
            if holder.get(name, missing) is not value:
                return False
        for cell, value in self.cells:
            if _contents(cell) is not value:
                return False
        return all(getattr(thing, name, missing) is value for thing, name, value in self.attributes)


def read(function: Callable[..., object], *, as_defined: bool = False) -> Reading:
    """What a function (or any callable) reads from outside itself now.

    With ``as_defined`` its defaults are left out and its code is taken to stay what it is.
    """
    walk = _Walk()
    if as_defined:
        walk.fixed = function
    key = walk.freeze(function)
    watch = None
    if walk.steady:
        watch = Watch(_distinct(walk.entries), _distinct(walk.cells), _distinct(walk.attributes))
    return Reading(key, tuple(walk.tensors), tuple(walk.infos), frozenset(walk.whole), watch)


_Places = TypeVar("_Places", bound=tuple[object, ...])


def _distinct(places: list[_Places]) -> tuple[_Places, ...]:
    """The places, each once: what is read in several places is compared once."""
    return tuple({(id(place[0]), *place[1:-1]): place for place in places}.values())


def freeze(value: object) -> Hashable:
    """A value as a key that tells types and bits apart: 1, True and 1.0 differ, NaN equals NaN."""
    # Most are constants of launches, which do not need a walk.
    return (type(value), value) if type(value) in _ATOMS else _Walk().freeze(value)


class _Walk:
    """One pass over everything that can be reached; numbers objects so that cycles and sharing show."""

    def __init__(self) -> None:
        self.tensors: list[object] = []
        self.infos: list[TensorInfo] = []
        self.places: dict[Hashable, int] = {}
        self.whole: set[int] = set()
        self.seen: dict[int, tuple[int, object]] = {}
        self.entries: list[tuple[dict[Any, Any], object, object]] = []
        self.cells: list[tuple[CellType, object]] = []
        self.attributes: list[tuple[object, str, object]] = []
        self.steady = True
        self.fixed: object = None

    def freeze(self, value: object, *, block: bool = False) -> Hashable:
        kind = type(value)
        if kind in _ATOMS:
            return kind, value
        if kind is float:
            return kind, value.hex()  # type: ignore[attr-defined]
        if kind is complex:
            return kind, value.real.hex(), value.imag.hex()  # type: ignore[attr-defined]
        if isinstance(value, enum.Enum):
            return kind, value.name
        if isinstance(value, np.generic):
            return kind, repr(value) if value != value else value.tobytes()
        if isinstance(value, np.dtype | ModuleType | BuiltinFunctionType) and not _bound(value):
            return Same(value)
        if isinstance(value, type) and is_library_module(value.__module__):
            return Same(value)
        if is_tensor(value) and getattr(value, "ndim", 1) != 0:
            return self._tensor(value, block)
        known = self.seen.get(id(value))
        if known is not None:
            return "again", known[0]
        self.seen[id(value)] = (len(self.seen), value)
        if len(self.seen) > _PARTS:
            return Same(value)
        if kind is FunctionType:
            return self._function(value)  # type: ignore[arg-type]
        if kind is tuple:
            return (kind, *(self.freeze(item) for item in value))  # type: ignore[attr-defined]
        self.steady = False
        return self._changeable(kind, value)

    def _changeable(self, kind: Any, value: Any) -> Hashable:
        if isinstance(value, type):
            return Same(value), self._class(value)
        if kind in _CONTAINERS or isinstance(value, list | tuple | set | frozenset | dict):
            if isinstance(value, dict | MappingProxyType):
                items = ((self.freeze(name), self.freeze(item)) for name, item in value.items())
                return kind, *items
            if isinstance(value, set | frozenset):
                return kind, frozenset(self.freeze(item) for item in value)
            return kind, *(self.freeze(item) for item in value)
        if isinstance(value, range | slice):
            return kind, self.freeze((value.start, value.stop, value.step))
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return kind, *(self.freeze(part) for part in parts)
        if isinstance(value, MethodType | BuiltinFunctionType):
            function = value.__func__ if isinstance(value, MethodType) else value.__name__
            return kind, self.freeze(function), self.freeze(value.__self__)
        if is_tensor(value):
            return kind, self.freeze(value.item()) if hasattr(value, "item") else Same(value)
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType) and is_library_module(kind.__module__):
            return kind, self.freeze(wrapped)
        if is_library_module(kind.__module__) and not _is_record(value):
            return Same(value)
        return kind, self._class(kind), *self._fields(value)

    def _fields(self, value: Any) -> list[Hashable]:
        fields: dict[str, object] = {}
        for owner in type(value).__mro__:
            slots = owner.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    fields[name] = getattr(value, name)
        fields.update(getattr(value, "__dict__", {}))
        if not fields:
            # Without fields there is nothing to compare: an object of a C type, or a bare marker.
            return [Same(value)]
        return [(name, self.freeze(field)) for name, field in fields.items()]

    def _class(self, kind: type) -> Hashable:
        """The data and the functions of the person's own classes: a method may read either."""
        parts: list[Hashable] = []
        for owner in kind.__mro__:
            if is_library_module(owner.__module__):
                continue
            if owner is not kind and id(owner) in self.seen:
                continue
            self.seen.setdefault(id(owner), (len(self.seen), owner))
            for name, item in owner.__dict__.items():
                if isinstance(item, staticmethod | classmethod):
                    item = item.__func__
                if isinstance(item, property):
                    item = item.fget
                dunder = name.startswith("__") and name.endswith("__")
                if isinstance(item, FunctionType) or not (dunder or hasattr(type(item), "__get__")):
                    parts.append((name, self.freeze(item)))
        return tuple(parts)

    def _tensor(self, value: Any, block: bool) -> Hashable:
        self.steady = False
        try:
            info = describe(value)
        except TileError:
            # Not a tensor that a launch could take: a table that the body reads on the host.
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                return type(value), value.dtype.str, value.shape, value.tobytes()
            return Same(value)
        number = self.places.setdefault(_memory(info), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(value)
            self.infos.append(info)
        if block:
            return "tensor", number, info.dtype, len(info.shape)
        self.whole.add(number)
        return "tensor", number, info.dtype, info.shape, info.strides

    def _function(self, function: FunctionType) -> Hashable:
        code = function.__code__
        if is_library_file(code.co_filename):
            return Same(function)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        reads = (self._access(function, cells, access) for access in accesses(code))
        if function is self.fixed:
            return FunctionType, Same(code), *reads
        self.attributes.append((function, "__code__", code))
        return FunctionType, Same(code), self._defaults(function), *reads

    def _defaults(self, function: FunctionType) -> Hashable:
        defaults, named = function.__defaults__, function.__kwdefaults__
        if defaults:
            self.attributes.append((function, "__defaults__", defaults))
        if named:
            self.attributes.append((function, "__kwdefaults__", named))
            self.entries += [(named, name, value) for name, value in named.items()]
        pairs = tuple((name, self.freeze(value)) for name, value in (named or {}).items())
        return self.freeze(defaults), pairs

    def _access(
        self, function: FunctionType, cells: dict[str, CellType], access: Access
    ) -> Hashable:
        value: Any
        if access.cell:
            cell = cells[access.name]
            value = _contents(cell)
            self.cells.append((cell, value))
        else:
            value = function.__globals__.get(access.name, ABSENT)
            self.entries.append((function.__globals__, access.name, value))
            if value is ABSENT:
                value = _builtin(function, access.name)
        for step in access.steps:
            following = self._step(value, step)
            if following is _STOP:
                break
            value = following
        return self.freeze(value, block=access.block)

    def _step(self, value: Any, step: tuple[str, object]) -> Any:
        """The value one step further, or _STOP where going on would run code of the person's or fail."""
        how, name = step
        if value is ABSENT or _is_own(value):
            return _STOP
        self.steady = self.steady and not is_tensor(value)
        if how == "attr":
            assert isinstance(name, str)
            if isinstance(value, ModuleType) and name in value.__dict__:
                self.entries.append((value.__dict__, name, value.__dict__[name]))
                return value.__dict__[name]
            kind: Any = type(value)
            if _runs_code(kind, name):
                return _STOP
            result = getattr(value, name, ABSENT)
            self.attributes.append((value, name, result))
            return _STOP if result is ABSENT else result
        if type(value) is dict and name in value:
            self.entries.append((value, name, value[name]))
            return value[name]
        kind = type(value)
        if _runs_code(kind, "__getitem__") or not hasattr(kind, "__getitem__"):
            return _STOP
        self.steady = False
        try:
            return value[name]
        except (LookupError, TypeError, ValueError):
            return _STOP


_STOP: Any = object()


def _is_own(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.split(".")[0] == "gizml_tile"


@functools.lru_cache(maxsize=4096)
def _runs_code(kind: Any, name: str) -> bool:
    """Whether reading an attribute of a type would call a function of the person's."""
    if "__getattr__" in dir(kind) and not is_library_module(kind.__module__):
        return True
    for owner in kind.__mro__:
        if name in owner.__dict__:
            found = owner.__dict__[name]
            if is_library_module(owner.__module__):
                return False
            if name == "__getitem__":
                return True
            return hasattr(type(found), "__get__") and not isinstance(found, _PLAIN_ATTRIBUTES)
    return False


def _is_record(value: object) -> bool:
    """Whether an object of a library type is a plain holder of named values."""
    return isinstance(value, SimpleNamespace) or type(value).__module__ == "argparse"


def _bound(value: object) -> bool:
    owner = getattr(value, "__self__", None)
    return isinstance(value, BuiltinFunctionType) and not (
        owner is None or isinstance(owner, ModuleType)
    )


def _builtin(function: FunctionType, name: str) -> object:
    builtins: dict[str, object] = getattr(function, "__builtins__", {})
    return builtins.get(name, ABSENT)


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _memory(info: TensorInfo) -> Hashable:
    return info.pointer, info.shape, info.strides, info.dtype, info.device
