"""Launches on GPUs through a driver that only takes notes: what is launched, and what is refused."""

import sys

import numpy as np
import pytest
from on_gpu import OnGpu

import gizml_tile as tile


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


def refused(launch):
    """The error of a launch, which points at the whole call."""
    with pytest.raises(tile.TileError) as caught:
        launch()
    error = caught.value
    _, source, caret = str(error).splitlines()[:3]
    assert error.filename == __file__
    assert source[len(caret) - len(caret.lstrip()) :].startswith(("double(", "double[", "square("))
    return error.message


def test_no_package(monkeypatch, cuda):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    x, out = arrays(1000)
    assert refused(lambda: double(x, out)).startswith("tensors on a CUDA GPU need cuda-python (")
    assert refused(lambda: double(x, out)).endswith("pip install 'gizml-tile[cuda]'")


def test_no_driver(monkeypatch, cuda):
    def missing(flags):
        raise RuntimeError("libcuda.so.1 cannot be opened")

    monkeypatch.setattr(cuda, "cuInit", missing)
    message = "no CUDA driver was found; install NVIDIA's driver for this GPU (libcuda.so.1 cannot be opened)"
    assert refused(lambda: double(*arrays(1000))) == message


def test_no_gpu(monkeypatch, cuda):
    cuda.start = 100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    message = "the CUDA driver sees no GPU (CUDA_VISIBLE_DEVICES=)"
    assert refused(lambda: double(*arrays(1000))) == message


def test_a_gpu_that_code_is_not_made_for(cuda):
    cuda.devices[0].update(COMPUTE_CAPABILITY_MAJOR=6, COMPUTE_CAPABILITY_MINOR=1)
    message = "cuda:0 (Fake GPU) has compute capability 6.1, for which no code can be made; known are sm_75"
    assert refused(lambda: double(*arrays(1000))).startswith(message)


def test_tensors_on_two_gpus(monkeypatch, cuda):
    x, out = arrays(1000)

    def owner(attribute, pointer):
        return 0, int(pointer == out.array.ctypes.data)

    monkeypatch.setattr(cuda, "cuPointerGetAttribute", owner)
    assert refused(lambda: double(x, out)) == (
        "double: argument 'x' is on cuda:0 and argument 'out' on cuda:1; all tensors of a launch are "
        "on one device, so move one of them"
    )
    assert not cuda.launches


class Nowhere(OnGpu):
    """An empty array without an address, as Numba makes them."""

    @property
    def __cuda_array_interface__(self):
        return super().__cuda_array_interface__ | {"data": (0, False)}


def test_empty_tensors_without_an_address(cuda, monkeypatch):
    monkeypatch.setattr(cuda, "cuPointerGetAttribute", lambda _, pointer: (0, 1) if pointer else (2, None))
    empty = Nowhere(np.zeros(0, np.float32))
    _, out = arrays(1000)
    assert double(empty, out) == (out,)
    assert [launch.context for launch in cuda.launches] == [0x1001]
    assert double(out, empty) == double(empty, empty) == (empty,)
    assert len(cuda.launches) == 1


def test_the_second_gpu(cuda):
    cuda.owner_of_pointer = 1
    double(*arrays(1000))
    assert cuda.launches[0].context == 0x1001


def test_grids_that_are_too_large(cuda):
    x, out = arrays(1000)
    assert refused(lambda: double[65536, 65536](x, out)) == (
        "kernel double: a grid of 65536 x 65536 has 4294967296 programs, and a launch at most "
        "2147483647; let "
        "each do more"
    )


def test_kernels_that_do_not_fit(cuda):
    x, out = arrays(1000, 1000)
    with pytest.raises(tile.TileError) as caught:
        square(x, out, BLOCK=512)
    assert caught.value.message == (
        "the [512, 512] F32 tile of this read takes 512 registers of each of 512 threads and a "
        "thread has 128; "
        "use smaller blocks"
    )
    assert "p.write(out, [BLOCK, BLOCK])[0, 0] = p.read" in str(caught.value)
    cuda.most_threads = 128
    assert refused(lambda: square(x, out, BLOCK=64)).startswith(
        "kernel square has 256 threads of 40 registers, and Fake GPU has registers for 128; use "
        "smaller blocks"
    )
    assert not cuda.launches


@pytest.mark.parametrize("warps", [0, 3, 64, 2.0])
def test_warps_of_a_launch(cuda, warps):
    with pytest.raises(tile.TileError, match=f"warps takes 1, 2, 4, 8, 16 or 32, found {warps}"):
        double(*arrays(1000), warps=warps)


@tile.kernel(grid=1)
def shifted(p, x, out, n, *, BLOCK=256):
    p.write(out, [BLOCK])[0] = p.read(x, [BLOCK])[0] * n


@tile.kernel(grid=1)
def moved(p, x, out, n, *, BLOCK=256):
    p.write(out, [BLOCK])[0] = p.read(x, [BLOCK]).window([n])


@pytest.mark.parametrize(("kernel", "free"), [(shifted, True), (moved, False)])
def test_repeats_take_other_numbers_where_they_move_no_block(cuda, monkeypatch, kernel, free):
    calls = []
    name = "gizml_tile.runtime.cuda.kernel.CudaKernel.fast_call"
    monkeypatch.setattr(name, lambda self, call: calls.append(call))
    x, out = arrays(1024)
    for number in (3, 4, 5):
        kernel(x, out, number)
    assert calls and calls[0].free_scalars is free


def test_repeats_of_each_device_and_alignment(cuda, monkeypatch):
    calls = []
    name = "gizml_tile.runtime.cuda.kernel.CudaKernel.fast_call"
    monkeypatch.setattr(name, lambda self, call: calls.append(call))
    memory = np.zeros(1028, np.float32)
    start = -memory.ctypes.data // 4 % 4
    for device, shift in ((0, 0), (1, 0), (1, 1)):
        cuda.owner_of_pointer = device
        x, out = (OnGpu(memory[start + shift :][:1000]) for _ in range(2))
        for _ in range(3):
            double(x, out, BLOCK=128)
    assert [call.infos[0].device for call in calls] == ["cuda:0", "cuda:1", "cuda:1"]


def test_a_number_that_nothing_reads_any_more(cuda):
    """What is put into an empty tensor is left out, and with it the number's type."""
    (x, _), empty = arrays(8, 32), OnGpu(np.zeros((1, 3, 0), np.float32))

    def body(p):
        p.write(x, [1, 32]).put(p.random(3, p.id(0), [1, 32], "normal"), [0, 0])
        p.write(empty, [1, 1]).put(p.arg(0.5), [-1, 0, 0])

    tile.run([1], body)
    assert len(cuda.launches) == 1
