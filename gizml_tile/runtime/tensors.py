"""Tensors of any library, seen as memory: an address, sizes, strides and a storage type."""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import DType, from_numpy
from ..errors import TileError, here
from . import dlpack
from .metal import shaders
from .objects import DATA_AT, layout_holds

_NUMPY_DTYPES: dict[Any, DType] = {}
_TORCH_DTYPES: dict[Any, DType] = {}
_SUPPORTED = (
    "float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8, uint8, int16, uint16, int32, "
    "uint32, int64, uint64 and bool"
)
# The device of memory that no driver knows.
_SOME_GPU = "cuda"
# Telling views of more elements than this apart address by address would take longer than a launch.
_ENUMERATED_ELEMENTS = 1 << 22


# Never changed once made, but not frozen: a launch makes one for each tensor, and freezing makes that
# four times as slow.
@dataclass(slots=True)
class TensorInfo:
    """Where a tensor's elements are: ``pointer`` is the address of element 0, strides count elements.

    ``refusal`` says why a launch must not write it and is empty where it may; ``owner`` keeps the
    memory alive.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    device: str
    refusal: str
    owner: Any

    @property
    def writable(self) -> bool:
        """Whether a launch may write this tensor."""
        return not self.refusal

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def extent(self) -> tuple[int, int]:
        """The first byte's address and the address after the last byte; equal for an empty tensor."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        reach = [stride * (size - 1) for size, stride in zip(self.shape, self.strides, strict=True)]
        width = self.dtype.bytes
        low = self.pointer + width * sum(step for step in reach if step < 0)
        return low, self.pointer + width * (1 + sum(step for step in reach if step > 0))


def is_tensor(value: object) -> bool:
    """Whether a value is memory that `describe` may understand, rather than a number or a constant."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, np.generic | type):
        return False
    kind = type(value)
    return (
        hasattr(kind, "__dlpack__")
        or hasattr(kind, "__cuda_array_interface__")
        or hasattr(kind, "__array_interface__")
        or hasattr(value, "__cuda_array_interface__")
        or isinstance(value, TensorInfo)
    )


def describe(tensor: object, what: str = "the tensor") -> TensorInfo:
    """The memory of a tensor of any library, without a copy.

    ``what`` names the tensor in errors. Raises TileError where the elements' type or placement is
    not supported.
    """
    if isinstance(tensor, np.ndarray):
        return _describe_numpy(tensor, what, tensor)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _describe_torch(tensor, torch, what)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _describe_cuda(tensor, what)
    if hasattr(tensor, "__dlpack__") and not isinstance(tensor, np.generic):
        return _describe_dlpack(tensor, what)
    if hasattr(tensor, "__array_interface__") and not isinstance(tensor, np.generic):
        return _describe_numpy(np.asarray(tensor), what, tensor)
    if isinstance(tensor, TensorInfo):
        return tensor
    found = "None" if tensor is None else _article(type(tensor).__name__)
    way = (
        "make an array of it with np.array(..., np.float32)"
        if isinstance(tensor, list | tuple)
        else "pass a NumPy array or a tensor with __dlpack__ or __cuda_array_interface__"
    )
    raise TileError(f"{what} is {found}, which is not a tensor; {way}", here())


def check_output(info: TensorInfo, what: str = "the tensor") -> None:
    """Raise TileError where a launch must not write this tensor."""
    if info.refusal:
        raise TileError(f"{what} cannot be written: {info.refusal}", here())
    if overlaps_itself(info.shape, info.strides):
        raise TileError(
            f"{what} cannot be written: elements of this view of shape {list(info.shape)} and strides "
            f"{list(info.strides)} share an address; write to a copy",
            here(),
        )


def on_devices(infos: list[TensorInfo]) -> list[TensorInfo]:
    """Tensors of one launch, of which those without elements are where the others are.

    An empty tensor may have no address, and then no driver knows its device.
    """
    if all(info.device != _SOME_GPU for info in infos):
        return infos
    known = next((info.device for info in infos if info.device != _SOME_GPU), _SOME_GPU)
    return [
        replace(info, device=known) if info.device == _SOME_GPU and 0 in info.shape else info
        for info in infos
    ]


def same_memory(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether two tensors are the same elements at the same places."""
    return (
        one.pointer == other.pointer
        and one.dtype is other.dtype
        and one.shape == other.shape
        and one.strides == other.strides
        and one.device == other.device
    )


def may_overlap(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether two tensors' stretches of memory meet; tensors that interleave count as meeting."""
    low, high = one.extent
    other_low, other_high = other.extent
    return max(low, other_low) < min(high, other_high) and one.device == other.device


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements of one tensor share an address."""
    if 0 in shape:
        return False
    axes = sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    if any(stride == 0 for stride, _ in axes):
        return True
    reach = [stride * (size - 1) for stride, size in axes]
    # An axis that steps over everything the smaller ones reach keeps its rows apart by itself.
    while axes and axes[-1][0] > sum(reach[:-1]):
        axes.pop()
        reach.pop()
    if len(axes) < 2:
        return False
    if len(axes) == 2:
        (small, small_size), (large, large_size) = axes
        common = math.gcd(small, large)
        return large // common < small_size and small // common < large_size
    if math.prod(size for _, size in axes) > _ENUMERATED_ELEMENTS:
        return True
    places = np.zeros(1, np.int64)
    for stride, size in axes:
        places = np.add.outer(places, stride * np.arange(size)).ravel()
    return len(np.unique(places)) < len(places)


def _describe_numpy(array: np.ndarray[Any, Any], what: str, owner: object) -> TensorInfo:
    numpy_dtype = array.dtype
    dtype = _NUMPY_DTYPES.get(numpy_dtype)
    if dtype is None:
        dtype = from_numpy(numpy_dtype)
        if dtype is None:
            raise _unsupported_numpy(numpy_dtype, what)
        _NUMPY_DTYPES[numpy_dtype] = dtype
    flags = array.flags
    if not flags.aligned and array.size:
        raise _unaligned(what, numpy_dtype.name)
    return TensorInfo(
        dtype,
        array.shape,
        _element_strides(array.strides, dtype, what),
        _address(array),
        "cpu",
        "" if flags.writeable else "the array is read-only",
        owner,
    )


def _array_address(array: np.ndarray[Any, Any]) -> int:
    return array.ctypes.data


def _peeked_address(array: np.ndarray[Any, Any]) -> int:
    return _pointer_at(id(array) + DATA_AT).value or 0


# NumPy's own way makes several objects and takes as long as all else that a launch does.
_pointer_at = ctypes.c_void_p.from_address
_address = _peeked_address if layout_holds() else _array_address


def _element_strides(byte_strides: tuple[int, ...], dtype: DType, what: str) -> tuple[int, ...]:
    width = dtype.bytes
    strides = _whole(byte_strides, width)
    if strides is None:
        raise TileError(
            f"{what} has strides of {list(byte_strides)} bytes, which are not whole {dtype.text} elements of "
            f"{width} bytes; pass a contiguous copy",
            here(),
        )
    return strides


@lru_cache(maxsize=4096)
def _whole(byte_strides: tuple[int, ...], width: int) -> tuple[int, ...] | None:
    """Strides in elements; None where one is not a whole number of them."""
    if any(stride % width for stride in byte_strides):
        return None
    return tuple(stride // width for stride in byte_strides)


def _unsupported_numpy(numpy_dtype: np.dtype[Any], what: str) -> TileError:
    if not numpy_dtype.isnative and from_numpy(numpy_dtype.newbyteorder("=")) is not None:
        native = numpy_dtype.newbyteorder("=")
        return TileError(
            f"{what} holds {native.name} in foreign byte order, which is not supported; convert it with "
            f".astype('{native.name}')",
            here(),
        )
    return _unsupported(what, numpy_dtype.name if numpy_dtype.names is None else "a structured type")


def _unsupported(what: str, name: str) -> TileError:
    return TileError(f"{what} holds {name}, which is not supported; supported are {_SUPPORTED}", here())


def _unaligned(what: str, name: str) -> TileError:
    return TileError(
        f"{what} is unaligned: its {name} elements do not start at multiples of their size; pass a copy",
        here(),
    )


def _describe_torch(tensor: Any, torch: Any, what: str) -> TensorInfo:
    dtype = _TORCH_DTYPES.get(tensor.dtype)
    if dtype is None:
        name = str(tensor.dtype).removeprefix("torch.")
        dtype = from_numpy(_numpy_name(name))
        if dtype is None:
            raise _unsupported(what, name)
        _TORCH_DTYPES[tensor.dtype] = dtype
    if tensor.layout is not torch.strided:
        raise TileError(
            f"{what} is {tensor.layout}; only strided tensors are supported, see .to_dense()",
            here(),
        )
    if tensor.is_neg():
        raise TileError(f"{what} is a lazily negated view; pass tensor.resolve_neg()", here())
    device = str(tensor.device)
    if device == "meta":
        raise TileError(f"{what} is on the meta device and has no elements", here())
    if device.startswith("cuda") and torch.version.hip:
        device = "hip" + device.removeprefix("cuda")
    refusal = ""
    if tensor.requires_grad and torch.is_grad_enabled():
        refusal = "the tensor requires grad; pass tensor.detach() or launch under torch.no_grad()"
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:
        raise TileError(f"{what} has no memory of its own: {error}", here()) from None
    if device.startswith("mps"):
        device, pointer = "metal" + device.removeprefix("mps"), shaders.place(tensor)
    if pointer % dtype.bytes and tensor.numel():
        raise _unaligned(what, dtype.text)
    return TensorInfo(dtype, tuple(tensor.shape), tuple(tensor.stride()), pointer, device, refusal, tensor)


def _numpy_name(name: str) -> object:
    """The NumPy type of a name, ml_dtypes' types included; None where there is none."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        return getattr(ml_dtypes, name)
    try:
        return np.dtype(name)
    except TypeError:
        return None


def _describe_cuda(tensor: Any, what: str) -> TensorInfo:
    interface = tensor.__cuda_array_interface__
    try:
        numpy_dtype = np.dtype(interface["typestr"])
    except TypeError:  # as that of ml_dtypes' E5M2, whose text NumPy does not read
        raise _unsupported(what, interface["typestr"]) from None
    dtype = from_numpy(numpy_dtype)
    if dtype is None:
        raise _unsupported_numpy(numpy_dtype, what)
    shape = tuple(interface["shape"])
    pointer, read_only = interface["data"]
    byte_strides = interface.get("strides")
    strides = (
        _contiguous(shape) if byte_strides is None else _element_strides(tuple(byte_strides), dtype, what)
    )
    has_device = hasattr(tensor, "__dlpack_device__")
    device = dlpack.device_name(tensor) if has_device else _device_of(pointer)
    return TensorInfo(
        dtype,
        shape,
        strides,
        pointer or 0,
        device,
        "the array is read-only" if read_only else "",
        tensor,
    )


def _device_of(pointer: int | None) -> str:
    """The CUDA device that memory is on; without a driver that knows it, some CUDA device."""
    from .cuda.devices import ordinal_of

    try:
        return f"cuda:{ordinal_of('cuda', pointer or 0)}"
    except TileError:
        return _SOME_GPU


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def _describe_dlpack(tensor: Any, what: str) -> TensorInfo:
    """A tensor of a library that is only known through DLPack; the capsule keeps the memory alive."""
    device = dlpack.device_name(tensor)
    try:
        opened = dlpack.open_tensor(tensor, device)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise TileError(f"{what} does not give its memory by DLPack: {error}", here()) from None
    if opened.dtype is None:
        raise _unsupported(what, opened.type_name)
    refusal = "its library gives it as read-only" if opened.read_only else ""
    if type(tensor).__module__.partition(".")[0] in ("jax", "jaxlib"):
        refusal = "JAX arrays are immutable; write to a NumPy array"
    shape = opened.shape
    strides = _contiguous(shape) if opened.strides is None else opened.strides
    if opened.pointer % opened.dtype.bytes and 0 not in shape:
        raise _unaligned(what, opened.dtype.text)
    return TensorInfo(opened.dtype, shape, strides, opened.pointer, device, refusal, (tensor, opened.capsule))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
