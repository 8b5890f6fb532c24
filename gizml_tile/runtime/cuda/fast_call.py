"""Launches like an earlier one with PyTorch's tensors: checked and launched natively.

PyTorch gives DLPack's C functions, which fill in a tensor's address, sizes and strides and tell its current
stream without making an object; older versions of it, and other libraries, take the slow way.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..dlpack import DLTensor
from ..fast_call import (
    ATOMS,
    Call,
    FastCall,
    definition,
    function_of,
    held,
    numbers,
    pairs,
    python_functions,
)
from ..fast_call_code import (
    APART,
    ARRAYS,
    CELLS,
    COUNT,
    ENTRIES,
    NONE,
    NUMBERS,
    RESULTS,
    SAME,
    WORDS,
)
from ..fast_call_code import FUNCTIONS as COMMON_FUNCTIONS
from ..objects import layout_holds
from ..parameters import words
from ..tensors import TensorInfo
from . import driver
from . import fast_call_code as layout
from .artifact import Artifact
from .devices import ordinal_of
from .kernel import CudaKernel
from .modules import Loaded
from .parameters import encode_maps

_METH_FASTCALL_KEYWORDS = 0x82
# Words and tensor maps are copied to the stack.
_MOST_WORDS = 512
_MOST_MAPS = 16
_EXCHANGE = b"dlpack_exchange_api"
_MAJOR = 1
# Words of DLPack's table of functions: the version, an older table, then functions.
_TENSOR_AT, _STREAM_AT, _TABLE_WORDS = 5, 6, 7
# Accesses take at most this many bytes, and code is chosen by how an address fits them.
_ALIGNMENT = 16
_CLUSTER, _OVERLAPPING = 4, 6

# 0 in a fork, where the driver does not live on.
_live = ctypes.c_int64(1)


def _after_fork() -> None:
    _live.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class _Words:
    """What stands for a kernel where calls are compared: what each word holds, tensors' addresses last."""

    arguments: tuple[tuple[Any, ...], ...]


def fast_call(call: Call) -> FastCall | None:
    """A callable that repeats a launch for arguments of the same kind; None where there can be none.

    Called with the positional arguments, and optionally ``stream=`` the handle of a stream, it launches
    and gives the written arguments; it does nothing and gives None where anything but tensors'
    addresses and free numbers is different.
    """
    functions = _dlpack_functions()
    if functions is None or not layout_holds() or not _serves(call):
        return None
    seen = [_seen(call.arguments[place], functions[0]) for place in call.tensors]
    devices = {_device(each) for each in seen if each is not None}
    if not all(map(_agrees, seen, call.infos)) or len(devices) > 1:
        return None
    kernel: CudaKernel = call.kernel
    first = call.infos[0]
    loaded = kernel.loaded(ordinal_of(first.device, first.pointer))
    compared = replace(call, kernel=_Words(_arguments(kernel.artifact, _used(call))))
    record = _record(compared, kernel, loaded, seen, functions)
    tensors = frozenset(call.tensors)
    # The tensors themselves are not kept: only what the record points at.
    constants = [value for place, value in enumerate(call.arguments) if place not in tensors]
    types = [type(value) for value in call.arguments]
    kept = constants, types, tuple(call.entries), tuple(call.cells), kernel, loaded
    return function_of(definition(layout.gpu_call_text(), _METH_FASTCALL_KEYWORDS), record, kept)


@lru_cache
def _exchange() -> tuple[int, int] | None:
    torch: Any = sys.modules["torch"]
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    get, valid = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_IsValid
    get.restype, valid.restype = ctypes.c_void_p, ctypes.c_int
    get.argtypes = valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if not valid(capsule, _EXCHANGE):
        return None
    table = (ctypes.c_uint64 * _TABLE_WORDS).from_address(get(capsule, _EXCHANGE))
    major = table[0] & 0xFFFFFFFF
    found = table[_TENSOR_AT], table[_STREAM_AT]
    return found if major == _MAJOR and all(found) else None


def _dlpack_functions() -> tuple[int, int] | None:
    """The addresses of PyTorch's functions that look at a tensor and tell the stream; None without them."""
    return _exchange() if "torch" in sys.modules else None


def _serves(call: Call) -> bool:
    """Whether every argument is of a kind that the native side can compare and place."""
    torch: Any = sys.modules["torch"]
    for number, value in enumerate(call.arguments):
        kind = type(value)
        if number in call.tensors:
            if kind is not torch.Tensor and kind is not torch.nn.Parameter:
                return False
        elif kind not in (int, float) and not issubclass(kind, ATOMS):
            return False
    artifact: Artifact = call.kernel.artifact
    scalars = [each for each in artifact.parameters if each.kind == "scalar"]
    for each in scalars:
        place = call.scalars[each.index]
        if place is not None and (type(call.arguments[place]) is float) != (each.dtype == "f32"):
            return False
    placed = [each.index for each in scalars]
    return (
        _used(call) > 0
        and len(placed) == len(set(placed))
        and len(artifact.parameters) + len(call.infos) <= _MOST_WORDS
        and len(artifact.maps) <= _MOST_MAPS
    )


def _used(call: Call) -> int:
    """How many of the tensors are the program's."""
    return len(call.infos) - call.unused


def _seen(tensor: object, look: int) -> DLTensor | None:
    """A tensor as DLPack's function sees it; its sizes live as long as the tensor."""
    seen = DLTensor()
    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(look)
    try:
        return seen if function(tensor, ctypes.addressof(seen)) == 0 else None
    except Exception:  # whatever the library raises, the slow way has more to say
        return None


def _agrees(seen: DLTensor | None, info: TensorInfo) -> bool:
    if seen is None or not seen.strides:
        return False
    rank = seen.ndim
    return bool(
        (seen.data or 0) + seen.byte_offset == info.pointer
        and tuple(seen.shape[:rank]) == info.shape
        and tuple(seen.strides[:rank]) == info.strides
    )


def _arguments(artifact: Artifact, tensors: int) -> tuple[tuple[Any, ...], ...]:
    """What each word holds: parameters (a pointer's is its tensor's word), then tensors' addresses."""
    kinds = {"i64": "index", "f32": "float"}
    own = [
        ("scalar", each.index, kinds[each.dtype]) if each.kind == "scalar" else (each.kind + " parameter",)
        for each in artifact.parameters
    ]
    return (*own, *(("pointer", number, 0) for number in range(tensors)))


def _record(
    call: Call, kernel: CudaKernel, loaded: Loaded, seen: Sequence[Any], functions: tuple[int, int]
) -> bytes:
    """The words that the native side compares a call with, as `fast_call_code` lays them out."""
    artifact, arguments = kernel.artifact, call.arguments
    count = len(artifact.parameters)
    header, lists = [0] * layout.RECORD_WORDS, list[int]()

    def append(values: Sequence[int]) -> int:
        lists.extend(values)
        return layout.RECORD_WORDS + len(lists) - len(values)

    def place(at: int, items: Sequence[tuple[int, ...]]) -> None:
        header[at : at + 2] = len(items), append([word for item in items for word in item])

    packed = words(artifact.parameters, call.infos, call.values, call.grid)
    addresses = [(info.pointer,) for info in call.infos[: _used(call)]]
    tensors = [_tensor(call, number, seen[number], count, append) for number in range(len(call.infos))]
    same = [number for number, value in enumerate(arguments) if isinstance(value, ATOMS)]
    maps = [
        (count + spec.tensor, append(struct.unpack("=16q", encoded)), call.infos[spec.tensor].pointer)
        for spec, encoded in zip(artifact.maps, encode_maps(artifact.maps, call.infos), strict=True)
    ]
    header[COUNT] = len(arguments)
    place(WORDS, [*struct.iter_unpack("=q", packed), *addresses])
    place(ARRAYS, tensors)
    place(NUMBERS, numbers(call))
    place(SAME, [(number, id(arguments[number])) for number in same])
    place(ENTRIES, [(id(where), id(key), held(value)) for where, key, value in call.entries])
    place(CELLS, [(id(cell), held(value)) for cell, value in call.cells])
    place(APART, [] if call.may_alias else pairs(call))
    place(RESULTS, [(call.tensors[number],) for number in call.written])
    place(layout.MAPS, maps)
    place(layout.PARAMETERS, _parameters(artifact))
    workgroups = kernel.workgroups(call.grid, loaded.device.ordinal)
    header[layout.CONFIG] = append(_config(artifact, workgroups))
    header[layout.ATTRIBUTES] = append(_attributes(artifact))
    header[layout.FUNCTION] = int(loaded.function)
    header[layout.CONTEXT] = int(loaded.device.context)
    header[layout.LIVE] = ctypes.addressof(_live)
    header[layout.DEVICE] = _device(seen[0])
    header[NONE] = id(None)
    header[layout.INTEGER_TYPE] = id(int)
    header[layout.FALSE] = id(False)
    header[layout.IS_NEGATED], header[layout.NEEDS_GRADIENT] = id(_IS_NEGATED), id(_NEEDS_GRADIENT)
    common = python_functions()
    header[COMMON_FUNCTIONS : COMMON_FUNCTIONS + len(common)] = common
    own = [driver.address(name) for name in layout.DRIVER_FUNCTIONS]
    header[layout.FUNCTIONS :] = [*functions, *own, *python_functions(layout.PYTHON_FUNCTIONS)]
    return struct.pack(f"={len(header) + len(lists)}q", *header, *lists)


_IS_NEGATED, _NEEDS_GRADIENT = sys.intern("is_neg"), sys.intern("requires_grad")


def _tensor(call: Call, number: int, seen: DLTensor, count: int, append: Any) -> tuple[int, ...]:
    info, argument = call.infos[number], call.tensors[number]
    sides = append([*info.shape, *info.strides])
    # Tensors that the program has no use for must have aligned elements too, and share the spare word.
    used = _used(call)
    looked_at = (_alignment(info) if number < used else info.dtype.bytes) - 1
    (kind,) = struct.unpack_from("=I", seen, DLTensor.code.offset)
    return (
        argument,
        id(type(call.arguments[argument])),
        seen.ndim,
        kind,
        sides,
        looked_at,
        info.pointer & looked_at,
        count + min(number, used),
        number in call.written,
        _may_be_negated(info),
    )


def _alignment(info: TensorInfo) -> int:
    """The bytes that an address is looked at by: one that fits a longer access must find other code."""
    fits = min(info.pointer & -info.pointer, _ALIGNMENT) if info.pointer else _ALIGNMENT
    return min(2 * fits, _ALIGNMENT)


def _may_be_negated(info: TensorInfo) -> bool:
    """Whether a tensor's steps are those of a lazily negated view.

    PyTorch makes such views of conjugated complex tensors alone, for their imaginary parts; those lie two
    elements apart, so that every step is even.
    """
    return all(step % 2 == 0 for size, step in zip(info.shape, info.strides, strict=True) if size > 1)


def _device(seen: DLTensor) -> int:
    (device,) = struct.unpack_from("=q", seen, DLTensor.device_type.offset)
    return int(device)


def _parameters(artifact: Artifact) -> list[tuple[int, int]]:
    """Where each parameter lies: in a tensor map, in a tensor's word, or in its own."""
    count = len(artifact.parameters)
    places = []
    for number, each in enumerate(artifact.parameters):
        is_map = each.kind == "tensor_map"
        word = count + each.index if each.kind == "pointer" else number
        places.append((int(is_map), each.index if is_map else word))
    return places


def _config(artifact: Artifact, workgroups: int) -> tuple[int, ...]:
    """The driver's CUlaunchConfig as words: grid, block, memory, stream, attributes, their number."""
    sides = workgroups, 1, 1, artifact.threads, 1, 1
    attributes = int(artifact.cluster > 1) + int(artifact.overlapping)
    packed = struct.pack("=7I4xqqI4x", *sides, artifact.workgroup_memory, 0, 0, attributes)
    return struct.unpack(f"={layout.CONFIG_WORDS}q", packed)


def _attributes(artifact: Artifact) -> tuple[int, ...]:
    """The driver's CUlaunchAttributes, each its kind and 64 bytes: three sizes, or that it is so."""
    packed = b""
    if artifact.cluster > 1:
        packed += struct.pack("=I4x3I52x", _CLUSTER, artifact.cluster, 1, 1)
    if artifact.overlapping:
        packed += struct.pack("=I4xI60x", _OVERLAPPING, 1)
    return struct.unpack(f"={len(packed) // 8}q", packed)
