"""Storage types: what an element is in memory, and what mathematics does with it."""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

import numpy as np

from gizml_tile.errors import TileError, here


class DType(IntEnum):
    """The storage type of a tensor's or a tile's elements; MASK is a comparison's result."""

    MASK = -1
    F32 = 0
    I32 = 1
    I64 = 2
    U8 = 3
    F16 = 4
    BF16 = 5
    I16 = 6
    I8 = 7
    FP8 = 9
    U16 = 10
    U32 = 11
    U64 = 12
    E5M2 = 13
    F64 = 14

    @property
    def bits(self) -> int:
        """Bits of one element in memory (a mask is stored as a byte)."""
        return _BITS[self]

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return _BITS[self] // 8

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        return self in INTEGERS

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer type without a sign."""
        return self in UNSIGNED

    @property
    def text(self) -> str:
        """The lower-case name that IR texts and the command line use, such as ``bf16``."""
        return self.name.lower()

    def __str__(self) -> str:
        return self.name

    def __call__(self, *values: object, **named: object) -> NoReturn:
        raise TileError(
            f"{self} is a storage type and makes no values; p.full([rows, columns], value, tile.{self}) "
            f"makes a tile, x.to(tile.{self}) converts one",
            here(),
        )


MASK, F64, F32, F16, BF16 = DType.MASK, DType.F64, DType.F32, DType.F16, DType.BF16
# OCP's types of 8 bits: E4M3, which has no infinities and more bits, and E5M2, the upper half of an F16.
FP8, E5M2 = DType.FP8, DType.E5M2
I8, U8, I16, U16 = DType.I8, DType.U8, DType.I16, DType.U16
I32, U32, I64, U64 = DType.I32, DType.U32, DType.I64, DType.U64

FLOATS = frozenset({F64, F32, F16, BF16, FP8, E5M2})
UNSIGNED = frozenset({U8, U16, U32, U64})
INTEGERS = frozenset({I8, I16, I32, I64}) | UNSIGNED
# The types that mathematics is done in, beside masks.
MATHEMATICAL = frozenset({F32, F64, I32, I64, U32, U64})
# What several programs may add to, or take the largest of, in memory.
ACCUMULATED = frozenset({F64, F32, F16, BF16, I32, I64, U32, U64})

_BITS = {
    **dict.fromkeys((MASK, I8, U8, FP8, E5M2), 8),
    **dict.fromkeys((I16, U16, F16, BF16), 16),
    **dict.fromkeys((I32, U32, F32), 32),
    **dict.fromkeys((I64, U64, F64), 64),
}

# The names NumPy and ml_dtypes give these types (ml_dtypes registers its own with NumPy).
_NUMPY_NAMES = {
    "bool": MASK,
    "float64": F64,
    "float32": F32,
    "int32": I32,
    "int64": I64,
    "uint8": U8,
    "float16": F16,
    "bfloat16": BF16,
    "int16": I16,
    "int8": I8,
    "uint16": U16,
    "uint32": U32,
    "uint64": U64,
    "float8_e4m3fn": FP8,
    "float8_e5m2": E5M2,
}

_INTEGER_RANGE = {
    I8: (-(2**7), 2**7 - 1),
    U8: (0, 2**8 - 1),
    I16: (-(2**15), 2**15 - 1),
    I32: (-(2**31), 2**31 - 1),
    I64: (-(2**63), 2**63 - 1),
    U16: (0, 2**16 - 1),
    U32: (0, 2**32 - 1),
    U64: (0, 2**64 - 1),
}


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    return _INTEGER_RANGE[dtype]


def math_dtype(dtype: DType) -> DType:
    """The type that mathematics on ``dtype`` is done in: F32 for floats, I32 for integers of up to 16 bits.

    F64, I32, I64, U32 and U64 compute in themselves.
    """
    if dtype in FLOATS:
        return F64 if dtype is F64 else F32
    if dtype in INTEGERS:
        return dtype if dtype in MATHEMATICAL else I32
    return MASK


def from_numpy(dtype: object) -> DType | None:
    """The storage type of a NumPy or ml_dtypes type in native byte order; None where there is none."""
    try:
        numpy_dtype = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    if not numpy_dtype.isnative:
        return None
    return _NUMPY_NAMES.get(numpy_dtype.name)


def to_numpy(dtype: DType) -> np.dtype[np.generic]:
    """The NumPy type (ml_dtypes for BF16, FP8 and E5M2) whose elements have this storage type."""
    import ml_dtypes

    name = next(name for name, known in _NUMPY_NAMES.items() if known is dtype)
    return np.dtype(getattr(ml_dtypes, name) if dtype in (BF16, FP8, E5M2) else name)


def as_dtype(value: object) -> DType | None:
    """``value`` as a storage type: a DType, its number, or a NumPy or ml_dtypes type; else None."""
    if isinstance(value, DType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return DType(value) if value in DType._value2member_map_ else None
    return from_numpy(value) if value is not None else None
