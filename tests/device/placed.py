"""Host arrays on a device: strided views of one memory stay views of one memory there, and come back."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from dlpack_producer import Produced
from numpy.lib.array_utils import byte_bounds

_TORCH = {
    name: getattr(torch, name)
    for name in (
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 bool "
        "int8 uint8 int16 uint16 int32 uint32 int64 uint64"
    ).split()
}
_DLPACK = {"cpu": 1, "cuda": 2}


class Interfaced:
    """A GPU's memory that is known by CUDA's array interface alone."""

    def __init__(self, pointer: int, array: np.ndarray) -> None:
        self.shape = array.shape
        self._facts = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (pointer, False),
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._facts


class Foreign(Produced):
    """Memory of a device that is known by DLPack alone, and by its shape for a grid's sake."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


class Device:
    """A device and the memory of the host arrays that were put there."""

    def __init__(self, name: str = "cuda") -> None:
        self.name = name
        self._memory: dict[int, tuple[np.ndarray, np.ndarray, torch.Tensor]] = {}

    def put(self, array: Any) -> Any:
        """A tensor over the copy of the array's memory; anything but an array stays what it is.

        It is PyTorch's, or where strides are negative one known by CUDA's array interface or DLPack.
        """
        if not isinstance(array, np.ndarray):
            return array
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = byte_bounds(root)
        if low not in self._memory:
            self._memory[low] = (
                root,
                _bytes(low, high),
                torch.empty(high - low, dtype=torch.uint8, device=self.name),
            )
            self._send(low)
        memory = self._memory[low][2]
        offset = array.ctypes.data - low
        kind = array.dtype.name
        if all(step >= 0 for step in array.strides) or 0 in array.shape:
            width = array.itemsize
            typed = memory[: len(memory) // width * width].view(_TORCH[kind])
            steps = [step // width for step in array.strides]
            return typed.as_strided(array.shape, [max(step, 0) for step in steps], offset // width)
        pointer = memory.data_ptr() + offset
        if memory.is_cuda and array.dtype.isbuiltin == 1:
            return Interfaced(pointer, array)
        return Foreign(
            SimpleNamespace(
                ndim=array.ndim,
                dtype=array.dtype,
                shape=array.shape,
                strides=array.strides,
                itemsize=array.itemsize,
                ctypes=SimpleNamespace(data=pointer),
                memory=memory,
            ),
            _DLPACK[memory.device.type],
        )

    def _send(self, low: int) -> None:
        _, host, memory = self._memory[low]
        memory.copy_(torch.from_numpy(host.copy()))

    def restore(self) -> None:
        """Put the host's bytes into the device's memory again."""
        for low in self._memory:
            self._send(low)

    def bytes(self) -> list[bytes]:
        """What the device's memory holds."""
        self.wait()
        return [memory.cpu().numpy().tobytes() for _, _, memory in self._memory.values()]

    def fetch(self) -> None:
        """Put what the device's memory holds into the host's arrays."""
        self.wait()
        for _, host, memory in self._memory.values():
            host[:] = memory.cpu().numpy()

    def wait(self) -> None:
        if self.name.startswith("cuda"):
            torch.cuda.synchronize(self.name)


def _bytes(low: int, high: int) -> np.ndarray:
    """Memory of the host as bytes."""
    return np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)
