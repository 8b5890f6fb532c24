"""Tensors as memory: what is understood, without a copy, and what is refused by name."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest
from dlpack_producer import Produced

from gizml_tile.dtypes import DType, to_numpy
from gizml_tile.errors import TileError
from gizml_tile.runtime.tensors import (
    check_output,
    describe,
    is_tensor,
    may_overlap,
    overlaps_itself,
    same_memory,
)

STORAGE = list(DType)


class OnlyDlpack:
    """A tensor of a library that offers nothing but DLPack."""

    def __init__(self, tensor, versioned=True):
        self.tensor, self.versioned = tensor, versioned

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("no options")
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Cuda:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"version": 3, "strides": None} | interface


@pytest.mark.parametrize("dtype", STORAGE, ids=str)
def test_numpy_arrays_of_every_storage_type(dtype):
    array = np.zeros((4, 6), to_numpy(dtype))[::-1, ::2]
    info = describe(array)
    assert (info.dtype, info.shape, info.strides) == (dtype, (4, 3), (-6, 2))
    assert info.pointer == array.ctypes.data
    assert info.writable and info.device == "cpu" and info.owner is array
    assert info.size == 12


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_alone_is_enough(versioned):
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[:, 1:]
    info = describe(OnlyDlpack(array, versioned))
    assert (info.dtype, info.shape, info.strides) == (DType.I32, (3, 3), (4, 1))
    assert info.pointer == array.ctypes.data and info.writable


def test_dlpack_brings_bfloat16():
    array = np.zeros((3, 4), ml_dtypes.bfloat16)[:, ::2]
    info = describe(Produced(array))
    assert (info.dtype, info.shape, info.strides) == (DType.BF16, (3, 2), (4, 2))
    assert info.pointer == array.ctypes.data


def test_dlpack_says_read_only():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    assert describe(OnlyDlpack(array)).refusal == "its library gives it as read-only"


def test_dlpack_names_unsupported_types():
    with pytest.raises(TileError, match=r"x holds complex128, which is not supported"):
        describe(OnlyDlpack(np.zeros(3, complex)), "x")


def test_errors_of_the_other_library_are_told():
    class Refusing(OnlyDlpack):
        def __dlpack__(self, **options):
            raise BufferError("not to you")

    with pytest.raises(TileError, match=r"x does not give its memory by DLPack: not to you"):
        describe(Refusing(np.zeros(3)), "x")


def test_the_capsule_keeps_memory_alive():
    info = describe(OnlyDlpack(np.arange(1 << 16, dtype=np.int64)))
    churn = [np.full(1 << 16, 7) for _ in range(4)]
    assert ctypes.c_int64.from_address(info.pointer + 8 * 1000).value == 1000 and churn


def test_gpu_arrays_are_recognised():
    info = describe(Cuda(shape=(2, 3), typestr="<f4", data=(4096, True)))
    assert (info.device, info.pointer, info.strides, info.writable) == ("cuda", 4096, (3, 1), False)
    assert describe(
        Cuda(shape=(2, 3), typestr="<f2", data=(64, False), strides=(2, 4))
    ).strides == (1, 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros(2, np.complex64),
            "x holds complex64, which is not supported; supported are float64, float32, float16, bfloat16",
        ),
        (np.zeros(2, complex), "x holds complex128, which is not supported"),
        (np.zeros(2, object), "x holds object, which is not supported"),
        (np.zeros(2, "U3"), "x holds str96, which is not supported"),
        (np.zeros(2, "M8[s]"), "x holds datetime64.*, which is not supported"),
        (np.zeros(2, ml_dtypes.float8_e5m2fnuz), "x holds float8_e5m2fnuz, which is not supported"),
        (np.zeros(2, [("a", "f4")]), "x holds a structured type, which is not supported"),
        (
            np.zeros(2, ">f4"),
            r"x holds float32 in foreign byte order, .* convert it with \.astype\('float32'\)",
        ),
        (np.zeros(9, np.uint8)[1:].view(np.float32), "x is unaligned: its float32 elements"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(9, np.float16), (2,), (3,)),
            r"x (is unaligned|has strides of \[3\] bytes, which are not whole f16 elements of 2 bytes)",
        ),
        (np.zeros(2, [("a", "u1"), ("b", "u1")])["a"], None),
        (
            Cuda(shape=(2,), typestr="<f1", data=(64, False)),
            "x holds <f1, which is not supported; supported are float64",
        ),
        (3.5, "x is a float, which is not a tensor"),
        ([1, 2], "x is a list, which is not a tensor"),
        (np.float32(1), "x is a float32, which is not a tensor"),
    ],
    ids=str,
)
def test_what_is_refused_is_named(value, message):
    if message is None:
        assert describe(value, "x").strides == (2,)
        return
    with pytest.raises(TileError, match=message) as caught:
        describe(value, "x")
    assert caught.value.filename == __file__


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.broadcast_to(np.zeros(1, np.float32), (4,)),
            "x cannot be written: the array is read-only",
        ),
        (
            np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (4, 3), (4, 4)),
            r"x cannot be written: elements of this view of shape \[4, 3\] and strides \[1, 1\] share",
        ),
    ],
    ids=["read-only", "windows"],
)
def test_outputs_that_are_refused(value, message):
    with pytest.raises(TileError, match=message):
        check_output(describe(value, "x"), "x")


def test_strides_of_size_one_are_ignored():
    array = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (1, 4), (0, 4))
    check_output(describe(array))


def test_overlap_by_brute_force():
    for sizes in itertools.product((1, 2, 3, 4), repeat=3):
        for strides in itertools.product((-3, 0, 1, 2, 5, 6), repeat=3):
            places = [
                sum(i * s for i, s in zip(index, strides, strict=True))
                for index in np.ndindex(*sizes)
            ]
            expected = len(set(places)) < len(places)
            assert overlaps_itself(sizes, strides) is expected, (sizes, strides)


def test_extents_and_overlap_between_tensors():
    array = np.zeros(16, np.float32)
    whole, low, high, back = (
        describe(view) for view in (array, array[:8], array[8:], array[7::-1])
    )
    start = array.ctypes.data
    assert whole.extent == (start, start + 64)
    assert back.extent == low.extent == (start, start + 32)
    assert may_overlap(whole, low) and may_overlap(low, back) and not may_overlap(low, high)
    assert same_memory(low, describe(array[:8])) and not same_memory(low, back)
    empty = describe(array[4:4])
    assert empty.extent[0] == empty.extent[1] and not may_overlap(empty, whole)


def test_which_values_are_tensors():
    for value in (
        np.zeros(2),
        OnlyDlpack(np.zeros(2)),
        Cuda(shape=(), typestr="<f4", data=(0, False)),
    ):
        assert is_tensor(value)
    for value in (1, 2.0, "x", [1.0], np.float32(1), np.ndarray, None):
        assert not is_tensor(value)
