"""What a launch passes to a kernel on a GPU, 8 bytes for each parameter."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..dtypes import F32
from .tensors import TensorInfo

WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, 8 bytes of memory unless it is a tensor map.

    ``kind`` is ``"pointer"`` (of tensor ``index``), ``"size"`` or ``"stride"`` (of tensor ``index`` along
    ``axis``, 64-bit, strides in elements), ``"scalar"`` (number ``index``, as ``dtype`` ``"i64"`` or
    ``"f32"``), ``"grid"`` (the size of the launch's grid along ``axis``, 64-bit, 1 beyond its rank) or
    ``"tensor_map"`` (``index`` of the artifact's maps: 128 bytes at a multiple of 64).
    """

    kind: str
    index: int = 0
    axis: int = 0
    dtype: str = "i64"


def of_arguments(arguments: Sequence[Any]) -> tuple[Parameter, ...]:
    """The parameters that an emitter's arguments are."""
    return tuple(
        Parameter(
            each.parameter.kind,
            each.parameter.number,
            each.parameter.axis,
            "f32" if each.dtype is F32 else "i64",
        )
        for each in arguments
    )


def described(artifact: Any) -> dict[str, Any]:
    """Everything of an artifact but its text, in a form that fits JSON."""
    facts = asdict(artifact)
    del facts["text"]
    return facts


def facts_of(metadata: dict[str, Any]) -> dict[str, Any]:
    """What `described` told of an artifact, as its fields."""
    return metadata | {"parameters": tuple(Parameter(**each) for each in metadata["parameters"])}


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
