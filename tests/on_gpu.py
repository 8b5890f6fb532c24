"""Tensors on the GPUs of the driver that only takes notes."""

from __future__ import annotations


class OnGpu:
    """An array that says it is a GPU's memory; the driver is asked which GPU's."""

    def __init__(self, array):
        self.array = array

    @property
    def shape(self):
        return self.array.shape

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.ctypes.data, False),
            "version": 3,
        }
