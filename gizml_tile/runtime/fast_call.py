"""Calls like an earlier one: a callable that checks and launches natively, without Python in between."""

from __future__ import annotations

import ctypes
import enum
import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CellType
from typing import Any

import numpy as np

from . import disk_cache, pool
from . import fast_call_code as layout
from .compiler import compile_text, load_object
from .fast_call_code import fast_call_text
from .host import Host, host
from .objects import ABSENT, ALIGNED, WRITEABLE, layout_holds
from .tensors import TensorInfo

FastCall = Callable[..., tuple[object, ...] | None]

_METH_FASTCALL = 0x80
# The entry's words are copied to the stack.
_MOST_WORDS = 512
# Constants whose being the same object says that they are the same.
ATOMS = (bool, str, bytes, type(None), enum.Enum)


@dataclass(frozen=True, slots=True)
class Call:
    """A launch that was made, as far as later calls are compared with it.

    ``kernel`` is a `CpuKernel`, or what stands for one on another device. ``arguments`` are the
    positional arguments; ``tensors`` and ``scalars`` tell for each of the program's own which argument it
    is (a scalar that is no argument is None), ``infos`` and ``values`` what they were. The last ``unused``
    of ``tensors`` and ``infos`` are arguments that the program has no use for, which are compared and
    placed nowhere. ``written`` are the tensors that are returned, in order. With ``free_scalars`` numbers
    may differ from call to call; without, the grid may depend on them. ``entries`` (dictionary, key, value)
    and ``cells`` (cell, value) are what the launch rests on beside its arguments; the value of a key that a
    dictionary must not have is `ABSENT`.
    """

    kernel: Any
    arguments: tuple[object, ...]
    tensors: Sequence[int]
    infos: Sequence[TensorInfo]
    scalars: Sequence[int | None]
    values: Sequence[int | float]
    grid: Sequence[int]
    written: Sequence[int]
    may_alias: bool
    free_scalars: bool = False
    entries: Sequence[tuple[dict[Any, Any], object, object]] = ()
    cells: Sequence[tuple[CellType, object]] = ()
    unused: int = 0


def fast_call(call: Call) -> FastCall | None:
    """A callable that repeats a launch for arguments of the same kind; None where there can be none.

    Called with the positional arguments it launches and gives the written arguments, or does nothing
    and gives None where anything but arrays' addresses and free numbers is different.
    """
    # Without futex the pool's sleeping threads are woken by Python, which is not in between here.
    if not pool.native().futex or not _serves(call) or not layout_holds():
        return None
    # The arrays themselves are not kept: only what the record points at.
    constants = [value for value in call.arguments if type(value) is not np.ndarray]
    dtypes = [array.dtype for array in map(call.arguments.__getitem__, call.tensors)]  # type: ignore[attr-defined]
    kept = constants, dtypes, tuple(call.entries), tuple(call.cells), call.kernel
    return function_of(definition(fast_call_text()), _record(call), kept)


def _serves(call: Call) -> bool:
    """Whether every argument is of a kind that the native side can compare and place."""
    kinds = [type(argument) for argument in call.arguments]
    for number, kind in enumerate(kinds):
        if kind is np.ndarray:
            if number not in call.tensors:
                return False
        elif kind not in (int, float) and not issubclass(kind, ATOMS):
            return False
    for number, argument in enumerate(call.scalars):
        wanted = (
            "scalar",
            number,
            "float" if argument is not None and kinds[argument] is float else "index",
        )
        if argument is not None and any(
            word[:2] == wanted[:2] and word != wanted for word in call.kernel.arguments
        ):
            return False
    placed = [word for word in call.kernel.arguments if word[0] in ("pointer", "scalar")]
    return len(placed) == len(set(placed)) and len(call.kernel.arguments) <= _MOST_WORDS


def _record(call: Call) -> bytes:
    """The words that the native side compares a call with, as `fast_call_code` lays them out."""
    kernel, arguments = call.kernel, call.arguments
    lists: list[int] = []
    header = [0] * layout.HEADER_WORDS

    def append(words: Sequence[int]) -> int:
        lists.extend(words)
        return layout.HEADER_WORDS + len(lists) - len(words)

    def place(at: int, items: Sequence[tuple[int, ...]]) -> None:
        header[at : at + 2] = len(items), append([word for item in items for word in item])

    template = kernel.pack(call.infos, call.values, call.grid)
    arrays = [_array(call, number, append) for number in range(len(call.tensors))]
    same = [number for number, value in enumerate(arguments) if isinstance(value, ATOMS)]
    header[layout.COUNT] = len(arguments)
    place(layout.WORDS, list(struct.iter_unpack("=q", template)))
    place(layout.ARRAYS, arrays)
    place(layout.NUMBERS, numbers(call))
    place(layout.SAME, [(number, id(arguments[number])) for number in same])
    place(
        layout.ENTRIES, [(id(where), id(key), held(value)) for where, key, value in call.entries]
    )
    place(layout.CELLS, [(id(cell), held(value)) for cell, value in call.cells])
    place(layout.APART, [] if call.may_alias else pairs(call))
    place(layout.RESULTS, [(call.tensors[number],) for number in call.written])
    header[layout.ENTRY] = kernel.entry
    header[layout.ARENA] = kernel.arena_bytes
    header[layout.POOL] = ctypes.addressof(pool.current_address)
    header[layout.LAUNCH] = pool.native().code.address("launch")
    header[layout.NONE] = id(None)
    header[layout.ARRAY_TYPE] = id(np.ndarray)
    header[layout.FUNCTIONS :] = python_functions()
    words = header + lists
    return struct.pack(f"={len(words)}q", *words)


def held(value: object) -> int:
    """The address that a dictionary or a cell has for a value; null where it has none."""
    return 0 if value is ABSENT else id(value)


def word_of(call: Call, *value: object) -> int | None:
    """The word of the entry's that takes a value of the launch; None where it wants none."""
    for number, known in enumerate(call.kernel.arguments):
        if known[: len(value)] == value:
            return number
    return None


def _array(call: Call, tensor: int, append: Callable[[Sequence[int]], int]) -> tuple[int, ...]:
    argument = call.tensors[tensor]
    array: Any = call.arguments[argument]
    flags = ALIGNED | (WRITEABLE if tensor in call.written else 0)
    sides = append([*array.shape, *array.strides])
    word = word_of(call, "pointer", tensor)
    spare = len(call.kernel.arguments)
    return argument, id(array.dtype), array.ndim, flags, sides, spare if word is None else word


def numbers(call: Call) -> list[tuple[int, ...]]:
    """Every number among the arguments, by what it must be and the word that takes it."""
    items: list[tuple[int, ...]] = []
    for argument, value in enumerate(call.arguments):
        if type(value) not in (int, float):
            continue
        is_float = type(value) is float
        (bits,) = struct.unpack("=q", struct.pack("=d" if is_float else "=q", value))
        words = [
            word_of(call, "scalar", number)
            for number, of in enumerate(call.scalars)
            if of == argument
        ]
        items += [
            (
                argument,
                id(type(value)),
                is_float,
                -1 if word is None else word,
                not call.free_scalars,
                bits,
            )
            for word in words or [None]
        ]
    return items


def pairs(call: Call) -> list[tuple[int, ...]]:
    """Every written tensor beside every other, by how far each reaches from its first element."""
    writes = sorted(set(call.written))
    pairs = []
    for one in writes:
        for other in range(len(call.infos)):
            words = word_of(call, "pointer", one), word_of(call, "pointer", other)
            if other == one or (other in writes and other < one) or None in words:
                continue
            sides: list[int] = []
            for number, word in zip((one, other), words, strict=True):
                info = call.infos[number]
                sides += [word or 0, *(edge - info.pointer for edge in info.extent)]
            pairs.append(tuple(sides))
    return pairs


class Definition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    ]


@lru_cache
def definition(text: str, flags: int = _METH_FASTCALL) -> Definition:
    """A native callable, compiled once for a Python version and a kind of CPU and kept on disk."""
    this = host()
    key = f"fast call {hashlib.sha256(text.encode()).hexdigest()} {this.triple}"
    entry = disk_cache.get(key)
    if entry is None:
        base = Host(this.triple, this.cpu_base, (), 128, False, False, 1, 0, 0, 0)
        entry = disk_cache.Entry({}, compile_text(text, base))
        disk_cache.put(key, entry, "code that launches kernels")
    code = load_object(entry.data, ("fast_call",))
    made = Definition(b"launch", code.address("fast_call"), flags, None)
    made.code = code
    return made


def function_of(made: Definition, record: bytes, kept: object) -> FastCall:
    """The callable with the record that it compares calls with; ``kept`` is what the record points at."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # Threads that race may each have made a definition, so that it is kept here too.
    function: FastCall = make(ctypes.addressof(made), (record, kept, made), None)
    return function


@lru_cache
def python_functions(names: tuple[str, ...] = layout.PYTHON_FUNCTIONS) -> tuple[int, ...]:
    """The addresses of functions of Python's."""
    addresses = [
        ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in names
    ]
    return tuple(address or 0 for address in addresses)
