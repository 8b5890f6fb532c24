"""Where CPython and NumPy keep what an object holds, checked before anything relies on it."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

import numpy as np

# Stands for the value of a key that a dictionary does not have, or of a closure's cell that is empty.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>", "__slots__": ()})()

# Bytes from an object's address.
TYPE_AT = 8
DATA_AT, DIMENSIONS_AT, SHAPE_AT, STRIDES_AT, DTYPE_AT, FLAGS_AT = 16, 24, 32, 40, 56, 64
FLOAT_AT = 16
CELL_AT = 16
BYTES_AT = bytes.__basicsize__ - 1
TUPLE_AT = tuple.__basicsize__

# Bits of an array's flags.
ALIGNED, WRITEABLE = 0x100, 0x400


@lru_cache
def layout_holds() -> bool:
    """Whether objects lie in memory as is written here, as they do in CPython with its lock."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array = np.zeros((3, 5), np.float32)[::-1, 1:]
    if np.ndarray.__basicsize__ < FLAGS_AT + 4:
        return False

    def word(holder: object, offset: int, kind: Any = ctypes.c_int64) -> int:
        value: int = kind.from_address(id(holder) + offset).value
        return value

    def words(address: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * 2).from_address(address))

    number, text = 3.25, b"12345678"
    pair = (number, text)
    cell = (lambda: pair).__closure__[0]  # type: ignore[index]
    array_flags = word(array, FLAGS_AT, ctypes.c_int32)
    locked = np.zeros(1)
    locked.flags.writeable = False
    locked_flags = word(locked, FLAGS_AT, ctypes.c_int32)
    return (
        word(array, TYPE_AT) == id(np.ndarray)
        and word(array, DATA_AT) == array.ctypes.data
        and word(array, DIMENSIONS_AT, ctypes.c_int32) == 2
        and word(array, DTYPE_AT) == id(array.dtype)
        and array_flags & (ALIGNED | WRITEABLE) == ALIGNED | WRITEABLE
        and locked_flags & (ALIGNED | WRITEABLE) == ALIGNED
        and ctypes.c_double.from_address(id(number) + FLOAT_AT).value == number
        and ctypes.string_at(id(text) + BYTES_AT, 8) == text
        and words(id(pair) + TUPLE_AT) == (id(number), id(text))
        and word(cell, CELL_AT) == id(pair)
        # Last, since these follow an address, which is one only if all else is where it should be.
        and words(word(array, SHAPE_AT)) == array.shape
        and words(word(array, STRIDES_AT)) == array.strides
    )
