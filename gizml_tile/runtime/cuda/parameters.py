"""A launch's parameters in memory: words, tensor maps, and the list of their addresses."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from ..tensors import TensorInfo
from . import maps
from .artifact import MapSpec, Parameter

WORD_BYTES = 8


def words(
    parameters: Sequence[Parameter],
    tensors: Sequence[TensorInfo],
    scalars: Sequence[int | float],
    grid: Sequence[int],
) -> bytes:
    """Every parameter's 8 bytes in order; those of a tensor map, which lies elsewhere, are zero."""
    return b"".join(_word(each, tensors, scalars, grid) for each in parameters)


def _word(
    parameter: Parameter,
    tensors: Sequence[TensorInfo],
    scalars: Sequence[int | float],
    grid: Sequence[int],
) -> bytes:
    index, axis = parameter.index, parameter.axis
    match parameter.kind:
        case "pointer":
            return struct.pack("=Q", tensors[index].pointer)
        case "size":
            return struct.pack("=q", tensors[index].shape[axis])
        case "stride":
            return struct.pack("=q", tensors[index].strides[axis])
        case "scalar" if parameter.dtype == "f32":
            # The conversion rounds what is beyond F32's range to infinity.
            return struct.pack("=f4x", ctypes.c_float(scalars[index]).value)
        case "scalar":
            return struct.pack("=q", scalars[index])
        case "grid":
            return struct.pack("=q", grid[axis] if axis < len(grid) else 1)
        case "tensor_map":
            return bytes(WORD_BYTES)
    raise AssertionError(f"a parameter of unknown kind: {parameter}")


def encode_maps(specs: Sequence[MapSpec], tensors: Sequence[TensorInfo]) -> list[bytes]:
    """Every tensor map of a launch."""
    return [maps.encode(spec, tensors[spec.tensor]) for spec in specs]


def in_memory(parameters: Sequence[Parameter], packed: bytes, encoded: Sequence[bytes]) -> tuple[object, int]:
    """The memory that holds a launch's parameters, and where in it the list of their addresses starts."""
    count = len(parameters)
    memory = ctypes.create_string_buffer(63 + maps.BYTES * len(encoded) + 2 * WORD_BYTES * count)
    base = (ctypes.addressof(memory) + 63) & ~63
    first = base + maps.BYTES * len(encoded)
    addresses = [
        base + maps.BYTES * each.index if each.kind == "tensor_map" else first + WORD_BYTES * number
        for number, each in enumerate(parameters)
    ]
    content = b"".join(encoded) + packed + struct.pack(f"={count}Q", *addresses)
    ctypes.memmove(base, content, len(content))
    return memory, first + WORD_BYTES * count
