"""Launches like an earlier one, made natively: nothing but arrays' addresses and free numbers differs."""

from __future__ import annotations

import dis
import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from gizml_tile import gpu
from gizml_tile.captures import Watch, read
from gizml_tile.dtypes import DType
from gizml_tile.grids import GridSpec
from gizml_tile.launch import Layout, Source
from gizml_tile.runtime.fast_call import Call, fast_call
from gizml_tile.signature import Leaf
from gizml_tile.specialise import Launched

Repeat = Callable[..., tuple[object, ...] | None]

# More kinds of calls than this of one kernel take turns, and the oldest is forgotten.
_CALLS = 8
_KEYS = 64
_SEEN = 256
_EXACT = frozenset({int, float, str, bool, type(None), DType})
_INTEGERS = frozenset({int})
_SIZES = frozenset({"shape", "ndim", "dtype", "size", "strides", "itemsize", "nbytes"})


class Repeats:
    """The calls of one kernel that can be repeated, by grid and constants."""

    __slots__ = ("_by_key", "_seen")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, tuple[Repeat, ...]] = {}
        self._seen: dict[Hashable, int] = {}

    def is_second(self, key: Hashable, launched: Launched) -> bool:
        """Whether a launch like this one was made once before: one that comes once is not worth a repeat."""
        # The grid may rest on arguments that the program has no use for.
        infos = (*launched.prepared.infos, *launched.request.infos.values())
        shapes = tuple((info.device, info.dtype, info.shape, info.strides) for info in infos)
        seen = (key, id(launched.executable), shapes)
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[seen] = self._seen.get(seen, 0) + 1
        return self._seen[seen] == 2

    def of(self, key: Hashable) -> tuple[Repeat, ...]:
        """The calls known for a key, the latest first."""
        return self._by_key.get(key, ())

    def add(self, key: Hashable, call: Repeat) -> None:
        """Remember a call."""
        if key not in self._by_key and len(self._by_key) >= _KEYS:
            self._by_key.pop(next(iter(self._by_key)))
        self._by_key[key] = (call, *self.of(key)[: _CALLS - 1])


def key_of(grid: GridSpec | None, named: Mapping[str, object], *, own: bool = False) -> Hashable:
    """What calls with this grid and these constants have in common; None where that is not known quickly.

    ``own`` says that the grid is the kernel's own; another that is a function is known by its code.
    """
    place: object = grid
    if isinstance(grid, FunctionType):
        if not own:
            if grid.__closure__ or grid.__defaults__ or grid.__kwdefaults__:
                return None
            place = grid.__code__
    elif isinstance(grid, tuple):
        if not _INTEGERS.issuperset(map(type, grid)):
            return None
    elif type(grid) is not int and grid is not None:
        return None
    if not named:
        return place
    types = tuple(map(type, named.values()))
    if not _EXACT.issuperset(types) and not all(map(_is_plain, types)):
        return None
    values = tuple(named.values())
    if float in types:
        # 0.0 and -0.0 are one dictionary key, and NaN is not even itself.
        values = tuple(value.hex() if type(value) is float else value for value in values)
    return place, tuple(named), values, types


def _is_plain(kind: type) -> bool:
    return kind in _EXACT or issubclass(kind, enum.Enum)


def repeat_of(launched: Launched, args: tuple[Any, ...], spec: GridSpec | None) -> Repeat | None:
    """A callable that makes a launch again with arguments of the same kinds; None where there can be none.

    ``args`` are the launch's positional arguments and ``spec`` the grid as it was given.
    """
    request, variant = launched.request, launched.prepared.variant
    places = _places(request.frame, len(args))
    watches = [request.reading.watch]
    if callable(spec):
        arrays = frozenset(
            name for name, leaf in zip(request.names, request.leaves, strict=True) if not _is_number(leaf)
        )
        if not looks_at_sizes_only(spec, arrays):
            return None
        watches.append(read(spec, as_defined=True).watch)
    sources = [source for source in variant.tensors if isinstance(source, Source)]
    tensors = [places.get(source.number) for source in sources if not source.captured]
    known = [watch for watch in watches if watch is not None]
    if len(known) < len(watches) or len(tensors) < len(variant.tensors) or None in tensors:
        return None
    unused = {
        place: request.infos[number]
        for number, place in places.items()
        if number in request.infos and place not in tensors
    }
    numbers = {name for name, leaf in zip(request.names, request.leaves, strict=True) if _is_number(leaf)}
    on_gpu = not isinstance(launched.layout, Layout)
    made = launched.executable.fast_call if on_gpu else fast_call
    call = made(
        Call(
            kernel=launched.executable,
            arguments=args,
            tensors=[*(place for place in tensors if place is not None), *unused],
            infos=[*launched.prepared.infos, *unused.values()],
            unused=len(unused),
            scalars=[
                places.get(source.number) if isinstance(source, Source) else None
                for source in variant.scalars
            ],
            values=launched.prepared.scalars,
            grid=request.grid,
            written=variant.writes,
            may_alias=launched.may_alias,
            free_scalars=not numbers & _names(spec) and not _rests_on_numbers(launched),
            entries=[entry for watch in known for entry in watch.entries],
            cells=[cell for watch in known for cell in watch.cells],
        )
    )
    rest = tuple(each for watch in known for each in watch.attributes)
    return call if call is None or not rest else _guarded(call, rest)


def _guarded(call: Repeat, attributes: tuple[tuple[object, str, object], ...]) -> Repeat:
    """A repeat that also compares attributes, which the native side cannot."""
    unchanged = Watch((), (), attributes).unchanged
    return lambda *given, **named: call(*given, **named) if unchanged() else None


def _rests_on_numbers(launched: Launched) -> bool:
    """Whether a GPU's code is for these run-time indices alone, which lead to blocks."""
    layout, prepared = launched.layout, launched.prepared
    if isinstance(layout, Layout) or not any(isinstance(each, int) for each in prepared.scalars):
        return False
    program = prepared.variant.simplified[layout.signature.may_alias]
    return gpu.rests_on_numbers(program, layout, prepared.infos, prepared.grid)


def _places(frame: Sequence[object], count: int) -> dict[int, int]:
    """Which argument each leaf is, of those that are arguments by themselves."""
    return {item.number: place for place, item in enumerate(frame[:count]) if isinstance(item, Leaf)}


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, int | float)


def _names(spec: object) -> set[str]:
    """The arguments that a grid function asks for by name."""
    if not isinstance(spec, FunctionType):
        return set()
    code = spec.__code__
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def looks_at_sizes_only(spec: object, arrays: frozenset[str]) -> bool:
    """Whether a grid function looks at nothing of the arrays among its arguments but sizes and types."""
    return isinstance(spec, FunctionType) and _sizes_only(spec.__code__, arrays)


@lru_cache(maxsize=1024)
def _sizes_only(code: CodeType, arrays: frozenset[str]) -> bool:
    parameters = code.co_argcount + code.co_kwonlyargcount
    # What collects all other arguments may hold arrays too.
    collected = code.co_varnames[parameters : parameters + 2] if code.co_flags & 0x0C else ()
    guarded = arrays | frozenset(collected)
    if guarded & set(code.co_cellvars):
        return False
    instructions = list(dis.get_instructions(code))
    for number, instruction in enumerate(instructions):
        if "FAST" not in instruction.opname:
            continue
        argument = instruction.argval
        # From Python 3.13 on one instruction loads two variables, the second on top.
        *below, top = argument if isinstance(argument, tuple) else (argument,)
        if guarded.intersection(below):
            return False
        following = instructions[number + 1] if number + 1 < len(instructions) else instruction
        sizes = following.opname == "LOAD_ATTR" and following.argval in _SIZES
        if top in guarded and not (top in arrays and sizes):
            return False
    return True
