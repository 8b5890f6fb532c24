"""Streams of launches: what is taken for one, which one is the default, and the order between libraries."""

from __future__ import annotations

import ctypes
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from gizml_tile.dtypes import F32
from gizml_tile.errors import TileError
from gizml_tile.runtime import streams
from gizml_tile.runtime.cuda.artifact import Artifact
from gizml_tile.runtime.cuda.kernel import CudaKernel
from gizml_tile.runtime.parameters import Parameter
from gizml_tile.runtime.tensors import TensorInfo


class Interfaced:
    """An array that tells its stream as version 3 of the CUDA array interface does."""

    def __init__(self, stream):
        self.__cuda_array_interface__ = {"version": 3, "stream": stream}


class Producer:
    """An array that is known by DLPack alone."""

    def __init__(self):
        self.waited_on = []

    def __dlpack__(self, stream=None):
        self.waited_on.append(stream)


@pytest.fixture
def raw_streams(monkeypatch):
    """PyTorch's current streams by device, here without a GPU."""
    current = {0: 0x70, 1: 0x71}
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", current.__getitem__, raising=False)
    return current


def launch(*owners, device="cuda:0", stream=None):
    infos = [TensorInfo(F32, (8,), (1,), 4096 + 64 * n, device, "", owner) for n, owner in enumerate(owners)]
    kernel = CudaKernel(Artifact("", "k", "sm_90a", 32, parameters=(Parameter("pointer", 0),)))
    kernel(infos, [], (1,), stream)


def with_protocol(handle):
    return SimpleNamespace(__cuda_stream__=lambda: (0, handle))


@pytest.mark.parametrize(
    "stream, handle",
    [
        (5, 5),
        (0, 0),
        (SimpleNamespace(cuda_stream=6), 6),
        (SimpleNamespace(ptr=7), 7),
        (SimpleNamespace(handle=ctypes.c_void_p(8)), 8),
        (SimpleNamespace(handle=ctypes.c_void_p(0)), 0),
        (SimpleNamespace(handle=9), 9),
        (with_protocol(10), 10),
        (SimpleNamespace(__cuda_stream__=(0, 11)), 11),
        (type("CUstream", (), {"__int__": lambda self: 12})(), 12),
    ],
)
def test_streams_that_are_given(cuda, stream, handle):
    launch(object(), stream=stream)
    assert cuda.launches[0].stream == handle


@pytest.mark.parametrize("stream", [True, -1, "s", 1.5, object(), SimpleNamespace(ptr="here")])
def test_what_is_no_stream(cuda, stream):
    with pytest.raises(TileError, match=r"pass a stream of PyTorch, CuPy, Numba or cuda-python"):
        launch(object(), stream=stream)
    assert not cuda.launches


def test_the_stream_that_pytorch_uses(cuda, raw_streams):
    launch(torch.zeros(8), device="cuda:1")
    launch(torch.zeros(8))
    assert [each.stream for each in cuda.launches] == [0x71, 0x70]
    assert not cuda.called("cuEventRecord")


def test_the_stream_that_cupy_uses(cuda, monkeypatch):
    array = type("ndarray", (), {})
    current = {0: SimpleNamespace(ptr=0x80), 1: SimpleNamespace(ptr=1)}
    cupy = SimpleNamespace(ndarray=array, cuda=SimpleNamespace(get_current_stream=current.__getitem__))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    launch(array())
    launch(array(), device="cuda:1")
    assert [each.stream for each in cuda.launches] == [0x80, 0]


def test_the_stream_of_the_array_interface(cuda):
    for stream in (0x90, 1, 2, None):
        launch(Interfaced(stream))
    assert [each.stream for each in cuda.launches] == [0x90, 0, 2, 0]


def test_libraries_wait_for_one_another(cuda, raw_streams):
    launch(torch.zeros(8), Interfaced(0x90), Interfaced(0x90), Interfaced(None), Interfaced(0x70))
    names = ("cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy")
    assert [call for call in cuda.calls if call[0] in names] == [
        ("cuEventRecord", 1, 0x90),
        ("cuStreamWaitEvent", 0x70, 1),
        ("cuEventDestroy", 1),
        ("cuEventRecord", 2, 0x70),
        ("cuStreamWaitEvent", 0x90, 2),
        ("cuEventDestroy", 2),
    ]
    assert cuda.launches[0].stream == 0x70
    assert cuda.called("cuEventCreate") == [(2,), (2,)]


def test_a_stream_that_is_given_is_the_callers_to_order(cuda, raw_streams):
    launch(torch.zeros(8), Interfaced(0x90), stream=3)
    assert cuda.launches[0].stream == 3 and not cuda.called("cuEventRecord")


def test_nothing_waits_in_a_capture(cuda, raw_streams):
    cuda.capturing = 0x70
    launch(torch.zeros(8), Interfaced(0x90), (Producer(), None))
    assert cuda.launches[0].stream == 0x70 and not cuda.called("cuEventRecord")


def test_producers_make_the_stream_wait(cuda, raw_streams):
    producer = Producer()
    launch((producer, "capsule"), torch.zeros(8))
    launch((producer, "capsule"))
    launch((producer, "capsule"), stream=9)
    assert producer.waited_on == [0x70, 1, 9]
    assert [each.stream for each in cuda.launches] == [0x70, 0, 9]


def test_producers_are_kept_until_the_launch_has_run(cuda, monkeypatch):
    held = []
    monkeypatch.setattr(streams, "_held", held)
    first, second = (Producer(), "capsule"), (Producer(), "capsule")
    cuda.unfinished = {1, 2}
    launch(first)
    launch(second)
    assert [owners for *_, owners in held] == [(first,), (second,)]
    cuda.unfinished = {2, 3}
    launch(first)
    assert [owners for *_, owners in held] == [(second,), (first,)]
    assert cuda.called("cuEventDestroy") == [(1,)]


def test_threads_that_hold_producers(cuda, monkeypatch):
    query = cuda.cuEventQuery

    def slow(event):
        time.sleep(0.001)  # others go on meanwhile, as beside the driver
        return query(event)

    monkeypatch.setattr(cuda, "cuEventQuery", slow)
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(launch, (Producer(), "capsule")) for _ in range(16)]:
            done.result()
    assert len(cuda.called("cuEventDestroy")) == 16
