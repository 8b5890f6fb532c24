"""Tensor maps: what the GPU's unit for bulk copies must know of a tensor, encoded by the driver."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from ...dtypes import BF16, F16, F32, F64, I16, I32, I64, U16, U32, U64, DType
from ...errors import TileError, here
from ..tensors import TensorInfo
from . import driver
from .artifact import MapDimension, MapSpec

BYTES = 128

# There is no signed kind of 16 bits or fewer, and a copy moves bits.
_TYPES = {
    F32: "FLOAT32",
    F64: "FLOAT64",
    F16: "FLOAT16",
    BF16: "BFLOAT16",
    I32: "INT32",
    I64: "INT64",
    U32: "UINT32",
    U64: "UINT64",
    I16: "UINT16",
    U16: "UINT16",
}
_ALIGNMENT = 16
_LARGEST_SIZE = 1 << 32
_LARGEST_STEP = 1 << 40


def encode(spec: MapSpec, tensor: TensorInfo) -> bytes:
    """The 128 bytes of a map. Raises TileError for a tensor that bulk copies cannot take."""
    return _encoded(spec, tensor.dtype, tensor.shape, tensor.strides, tensor.pointer)


@lru_cache(maxsize=1024)
def _encoded(
    spec: MapSpec, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], pointer: int
) -> bytes:
    sizes = [_size(side, shape[side.axis]) for side in spec.dimensions]
    steps = [dtype.bytes * strides[side.axis] * (side.split if side.outer else 1) for side in spec.dimensions]
    _require(sizes, steps, dtype, pointer)
    api = driver.bindings()
    rank = len(sizes)
    swizzle = f"{spec.swizzle_bytes}B" if spec.swizzle_bytes else "NONE"
    promotion = f"L2_{spec.promotion_bytes}B" if spec.promotion_bytes else "NONE"
    encoded = driver.call(
        "cuTensorMapEncodeTiled",
        _constant("DataType", "DATA_TYPE", "TFLOAT32" if spec.rounded else _TYPES.get(dtype, "UINT8")),
        rank,
        pointer,
        [api.cuuint64_t(size) for size in sizes],
        [api.cuuint64_t(step) for step in steps[1:]],
        [api.cuuint32_t(side.box) for side in spec.dimensions],
        [api.cuuint32_t(1)] * rank,
        _constant("Interleave", "INTERLEAVE", "NONE"),
        _constant("Swizzle", "SWIZZLE", swizzle),
        _constant("L2promotion", "L2_PROMOTION", promotion),
        _constant("FloatOOBfill", "FLOAT_OOB_FILL", "NONE"),
        doing=f"a tensor of shape {list(shape)} and strides {list(strides)} cannot be copied in bulk",
    )
    return ctypes.string_at(encoded.getPtr(), BYTES)


def _size(side: MapDimension, size: int) -> int:
    if not side.split:
        return size
    return -(-size // side.split) if side.outer else side.split


def _require(sizes: list[int], steps: list[int], dtype: DType, pointer: int) -> None:
    """Raise TileError where a tensor breaks a rule of bulk copies (CUDA driver API, tensor maps)."""
    wrong = (
        f"it starts at {pointer:#x}, which is no multiple of {_ALIGNMENT} bytes"
        if pointer % _ALIGNMENT
        else "its innermost dimension has a step of more than one element"
        if steps[0] != dtype.bytes and sizes[0] > 1
        else f"a step of {steps[1:]} bytes is no multiple of {_ALIGNMENT} from 0 to 2^40"
        if any(step % _ALIGNMENT or not 0 <= step < _LARGEST_STEP for step in steps[1:])
        else f"its sizes {sizes} are not from 1 to 2^32"
        if any(not 0 < size <= _LARGEST_SIZE for size in sizes)
        else ""
    )
    if wrong:
        raise TileError(f"a tensor cannot be copied in bulk: {wrong}", here())


def _constant(kind: str, prefix: str, name: str) -> object:
    return driver.constant(f"CUtensorMap{kind}", f"CU_TENSOR_MAP_{prefix}_{name}")
