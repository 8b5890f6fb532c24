"""Kernels on the CPU: words in their places, launches that compute."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass

import numpy as np
import pytest

from gizml_tile.runtime import cpu
from gizml_tile.runtime.tensors import describe


@dataclass(frozen=True)
class Artifact:
    entry: str
    arena_bytes: int
    arguments: tuple


VECTOR_ADD = Artifact(
    "vector_add",
    0,
    (
        ("pointer", 0, 0),
        ("pointer", 1, 0),
        ("pointer", 2, 0),
        ("size", 0, 0),
        ("scalar", 0, "float"),
    ),
)
EVERYTHING = Artifact(
    "copy_arguments",
    1 << 20,
    (
        ("pointer", 0, 0),
        ("size", 1, 0),
        ("size", 1, 1),
        ("stride", 1, 0),
        ("stride", 1, 1),
        ("scalar", 0, "index"),
        ("scalar", 1, "float"),
        ("grid", 0),
        ("grid", 1),
        ("grid", 2),
        ("pointer", 1, 0),
        *(("grid", 0),) * 5,
    ),
)


def load(artifact, data):
    return cpu.load(json.loads(json.dumps(cpu.describe_artifact(artifact))), data)


def test_a_kernel_computes(kernels_object):
    kernel = load(VECTOR_ADD, kernels_object)
    a, b, c = np.arange(100, dtype=np.float32), np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel([describe(a), describe(b), describe(c)], [0.5], (1,))
    assert (c == a + 0.5).all()


def test_every_word_is_where_it_belongs(kernels_object):
    kernel = load(EVERYTHING, kernels_object)
    out = np.zeros(16, np.int64)
    view = np.zeros((6, 8), np.float16)[::-2, 1:]
    kernel([describe(out), describe(view)], [-(2**63), 0.1], (3, 4))
    assert list(out[:6]) == [out.ctypes.data, 3, 7, -16, 1, -(2**63)]
    assert struct.unpack("=f", struct.pack("=q", out[6])[:4])[0] == np.float32(0.1)
    assert list(out[7:11]) == [3, 4, 1, view.ctypes.data]


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, 1e-45, 3.4028235677973362e38, 3.4028235677973366e38, -1e300, math.inf, math.nan],
)
def test_floats_round_once(kernels_object, value):
    kernel = load(EVERYTHING, kernels_object)
    out, view = np.zeros(16, np.int64), np.zeros((1, 1), np.float32)
    kernel([describe(out), describe(view)], [7, value], (1, 1, 1))
    with np.errstate(over="ignore"):
        assert out[6:7].view(np.float32)[:1].tobytes() == np.float32([value]).tobytes()
    assert out[5] == 7


def test_an_unknown_word_is_our_mistake(kernels_object):
    with pytest.raises(AssertionError, match="an argument word of unknown kind"):
        load(Artifact("vector_add", 0, (("colour", 0),)), kernels_object)
