"""DLPack: the memory of a tensor of any library, without a copy and without importing the library."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType


class DLTensor(ctypes.Structure):
    """DLPack's own description of a tensor in memory."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# DLManagedTensorVersioned: version (two 32-bit words), context, deleter, flags, then the tensor.
_VERSIONED_FLAGS = 24
_VERSIONED_TENSOR = 32
_FLAG_READ_ONLY = 1

_NAMES = {
    0: "int",
    1: "uint",
    2: "float",
    4: "bfloat",
    5: "complex",
    6: "bool",
    10: "float8_e4m3fn",
    12: "float8_e5m2",
}
_DTYPES = {
    (0, 8): DType.I8,
    (0, 16): DType.I16,
    (0, 32): DType.I32,
    (0, 64): DType.I64,
    (1, 8): DType.U8,
    (1, 16): DType.U16,
    (1, 32): DType.U32,
    (1, 64): DType.U64,
    (2, 16): DType.F16,
    (2, 32): DType.F32,
    (2, 64): DType.F64,
    (4, 16): DType.BF16,
    (6, 8): DType.MASK,
    (10, 8): DType.FP8,
    (12, 8): DType.E5M2,
}
# Memory of kinds 3 and 11 is the host's, pinned for CUDA or HIP.
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 8: "metal", 10: "hip", 11: "cpu", 13: "cuda"}


@dataclass(frozen=True, slots=True)
class Opened:
    """What a DLPack capsule says; ``strides`` count elements and are None where they are contiguous.

    ``dtype`` is None for a type that is not a storage type, which ``type_name`` names. The memory lives
    as long as ``capsule``.
    """

    dtype: DType | None
    type_name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    pointer: int
    read_only: bool
    capsule: object


def device_name(tensor: Any) -> str:
    """The device of a tensor that knows DLPack, such as ``cpu`` or ``cuda:0``."""
    kind, number = tensor.__dlpack_device__()
    name = _DEVICES.get(int(kind), f"device kind {int(kind)}")
    return name if name == "cpu" else f"{name}:{number}"


def open_tensor(tensor: Any, device: str) -> Opened:
    """A tensor's memory by its own ``__dlpack__``, whose errors pass through."""
    capsule = _capsule(tensor, device)
    read_only = False
    if _is_capsule(capsule, b"dltensor_versioned"):
        address = _capsule_pointer(capsule, b"dltensor_versioned")
        flags = ctypes.c_uint64.from_address(address + _VERSIONED_FLAGS).value
        read_only = bool(flags & _FLAG_READ_ONLY)
        memory = DLTensor.from_address(address + _VERSIONED_TENSOR)
    else:
        memory = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    name = f"{_NAMES.get(memory.code, f'DLPack type {memory.code} of ')}{memory.bits}"
    return Opened(
        _DTYPES.get((memory.code, memory.bits)) if memory.lanes == 1 else None,
        name if memory.lanes == 1 else f"{name} in groups of {memory.lanes}",
        tuple(memory.shape[: memory.ndim]),
        tuple(memory.strides[: memory.ndim]) if memory.strides else None,
        (memory.data or 0) + memory.byte_offset,
        read_only,
        capsule,
    )


def _capsule(tensor: Any, device: str) -> object:
    # -1 asks a GPU library not to make a stream wait: a launch orders itself. JAX takes it for a stream.
    jax = type(tensor).__module__.partition(".")[0] in ("jax", "jaxlib")
    options: dict[str, Any] = {} if device == "cpu" or jax else {"stream": -1}
    try:
        return tensor.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        return tensor.__dlpack__(**options)


def _capsule_pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


def _is_capsule(capsule: object, name: bytes) -> bool:
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype = ctypes.c_int
    valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return bool(valid(capsule, name))
