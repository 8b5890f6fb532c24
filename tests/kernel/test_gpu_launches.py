"""Launches on GPUs through a driver that only takes notes: what is launched, and what is refused."""

import numpy as np
import pytest

import gizml_tile as tile


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


@tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK))
def double(p, x, out, *, BLOCK=256):
    p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2


@tile.kernel(grid=1)
def square(p, x, out, *, BLOCK):
    p.write(out, [BLOCK, BLOCK])[0, 0] = p.read(x, [BLOCK, BLOCK])[0, 0] * 2


def arrays(*shape):
    return OnGpu(np.zeros(shape, np.float32)), OnGpu(np.zeros(shape, np.float32))


def test_a_launch(cuda):
    x, out = arrays(1000)
    assert double(x, out) == (out,)
    (launch,) = cuda.launches
    assert launch.grid == (4, 1, 1)
    assert launch.stream == 0 and launch.memory == 0
    double(x, out, stream=7)
    assert cuda.launches[1].stream == 7
    assert len(cuda.images) == 1


def test_warps_are_the_threads_of_a_launch(cuda):
    x, out = arrays(1000)
    for warps in (1, 4, 32):
        double(x, out, warps=warps)
        assert cuda.launches[-1].block == (32 * warps, 1, 1)
