"""Launches through a stand-in for PyTorch's Metal compiler, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fake_mps import FakeMps, on_mps

import gizml_tile as tile
from gizml_tile import gpu
from gizml_tile.runtime.metal import devices
from gizml_tile.runtime.metal.kernel import assembled, restored
from gizml_tile.runtime.tensors import describe, may_overlap


@pytest.fixture
def scaled():
    """A kernel that was never launched."""

    @tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
    def scaled(p, x, y, factor, *, BM=8, BN=32):
        i, j = p.id(0), p.id(1)
        X, Y = p.read(x, [BM, BN]), p.write(y, [BM, BN])
        Y[i, j] = X[i, j] * factor + 1

    return scaled


@pytest.fixture
def matmul():
    """Another one."""

    @tile.kernel(grid=lambda c, **_: (tile.cdiv(c.shape[0], 32), tile.cdiv(c.shape[1], 32)))
    def matmul(p, a, b, c):
        i, j = p.id(0), p.id(1)
        A, B, C = p.read(a, [32, 16]), p.read(b, [16, 32]), p.write(c, [32, 32])
        acc = p.zeros([32, 32])
        for k in range(A.blocks(1)):
            acc += A[i, k] @ B[k, j]
        C[i, j] = acc

    return matmul


def whole_numbers(*shape: int) -> torch.Tensor:
    """Floats whose products and sums are exact."""
    return on_mps(torch.randint(-9, 10, shape).float())


@pytest.fixture
def mps(monkeypatch):
    devices._name.cache_clear()
    monkeypatch.setattr(gpu, "_known", {})
    yield FakeMps(monkeypatch)
    devices._name.cache_clear()


def test_a_launch(mps, scaled):
    x = on_mps(torch.arange(60, dtype=torch.float32).reshape(4, 15))
    y = on_mps(torch.zeros(4, 15))
    (result,) = scaled(x, y, 0.5)
    assert result is y
    assert np.array_equal(y.numpy(), np.arange(60, dtype=np.float32).reshape(4, 15) * 0.5 + 1)
    (((tensor, other, integers, floats), threads),) = mps.launches
    assert tensor is x and other is y and floats == [0.5] and {4, 15} <= set(integers)
    assert threads % 32 == 0 and "Apple" not in mps.texts[0] and "apple9" in mps.texts[0]


def test_other_sizes_and_numbers_compile_nothing_anew(mps, scaled):
    for rows, factor in ((4, 2.0), (9, -1.5), (40, 0.0)):
        x, y = whole_numbers(rows, 33), on_mps(torch.zeros(rows, 33))
        scaled(x, y, factor)
        assert np.array_equal(y.numpy(), x.numpy() * np.float32(factor) + 1)
    assert len(mps.texts) <= 2 and len(mps.launches) == 3


def test_strides_offsets_and_what_lies_between(mps, scaled):
    whole = torch.zeros(12, 50)
    y = on_mps(whole[1:9:2, 3:40].T)
    x = whole_numbers(4, 37).T
    before = whole.clone()
    scaled(x, y, 3.0)
    wanted = before.numpy()
    wanted[1:9:2, 3:40] = x.numpy().T * np.float32(3) + 1
    assert np.array_equal(whole.numpy(), wanted)


def test_offsets_of_64_bits(mps, monkeypatch, scaled):
    monkeypatch.setattr(gpu, "_NARROW", 0)
    x, y = whole_numbers(20, 40), on_mps(torch.zeros(20, 40))
    scaled(x, y, 2.0)
    assert np.array_equal(y.numpy(), x.numpy() * 2 + 1)
    assert "wrap_mul(long" in mps.texts[0]


def test_rows_behind_2_to_the_31(mps):
    """Rows far apart, in memory that is not there until it is touched."""

    @tile.kernel(grid=1)
    def risen(p, x, y):
        p.write(y, [2, 32])[0, 0] = (p.read(x, [2, 32])[0, 0] + 1).to(tile.I8)

    far = 3 * 2**30
    memory = torch.empty(far + 64, dtype=torch.int8)
    x, y = (on_mps(memory.as_strided((2, 32), (far, 1), start)) for start in (0, 32))
    x[:] = torch.arange(-32, 32).reshape(2, 32)
    risen(x, y)
    assert np.array_equal(y.numpy(), x.numpy() + 1)
    (((_, _, integers), _),) = mps.launches
    assert far in integers


def test_a_kernel_from_the_disk(mps, scaled):
    """What is kept of a kernel is all that a launch of it needs."""
    x, y = whole_numbers(9, 33), on_mps(torch.zeros(9, 33))
    scaled(x, y, 3.0)
    (made,) = gpu._known.values()
    again = restored(assembled(made.artifact))
    assert again.artifact == made.artifact and again.artifact is not made.artifact
    y[:] = 0
    again([describe(x), describe(y)], [3.0], (2, 2))
    assert np.array_equal(y.numpy(), x.numpy() * 3 + 1) and len(mps.texts) == 2


def test_sums_whose_order_leaves_no_trace(mps):
    """Four programs with tensors that are there for them."""

    @tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 64))
    def add(p, x, at, z):
        i = p.id(0)
        places = p.read(at, [64], pad=-1)[i]
        p.write(z, [64]).scatter_add(p.read(x, [64])[i], [places], deterministic=True)

    x, at = torch.randn(500), torch.randint(0, 9, (500,), dtype=torch.int32)
    z, want = on_mps(torch.ones(9)), torch.ones(9)
    add(x, at, want)
    add(on_mps(x), on_mps(at), z)
    assert z.numpy().tobytes() == want.numpy().tobytes() and len(mps.launches) == 4
    with pytest.raises(tile.TileError, match="on PyTorch's own queue; leave stream out"):
        add(on_mps(x), on_mps(at), z, stream=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_products(mps, dtype, matmul):
    a, b = torch.randint(-3, 4, (40, 50)).to(dtype), torch.randint(-3, 4, (50, 36)).to(dtype)
    c = on_mps(torch.zeros(40, 36))
    matmul(on_mps(a), on_mps(b), c)
    assert np.array_equal(c.numpy(), (a.float() @ b.float()).numpy())
    assert "simdgroup_multiply_accumulate" in mps.texts[0]


@pytest.mark.parametrize(
    "name, arch", [("Apple M1", "apple7"), ("Apple M2 Pro", "apple8"), ("Apple M5", "apple9")]
)
def test_each_generation_has_its_architecture(monkeypatch, name, arch):
    devices._name.cache_clear()
    FakeMps(monkeypatch, name)
    assert devices.device(0).arch == arch
    devices._name.cache_clear()


def test_views_meet_where_their_elements_do():
    memory = torch.zeros(10, 10)
    first, second, other = on_mps(memory[:5]), on_mps(memory[5:]), on_mps(torch.zeros(10, 10))
    infos = [describe(each) for each in (first, second, on_mps(memory), other)]
    assert [info.device for info in infos] == ["metal:0"] * 4
    assert not may_overlap(infos[0], infos[1]) and not may_overlap(infos[2], infos[3])
    assert may_overlap(infos[0], infos[2]) and may_overlap(infos[1], infos[2])
    assert infos[1].pointer - infos[0].pointer == 200


def test_an_empty_launch_compiles_nothing(mps, scaled):
    scaled(on_mps(torch.zeros(0, 5)), on_mps(torch.zeros(0, 5)), 1.0)
    assert not mps.texts and not mps.launches


def test_configurations_are_not_measured(mps):
    tuned = tile.kernel(
        grid=lambda y, BM, **_: (tile.cdiv(y.shape[0], BM),), configs=[{"BM": 16}, {"BM": 8}]
    )(one_axis)
    x, y = whole_numbers(20), on_mps(torch.zeros(20))
    tuned(x, y)
    assert np.array_equal(y.numpy(), x.numpy() * 2) and len(mps.launches) == 1


def one_axis(p, x, y, *, BM):
    p.write(y, [BM])[p.id(0)] = p.read(x, [BM])[p.id(0)] * 2


# Refusals


def refused(kernel: object, text: str, *args: object, **named: object) -> None:
    with pytest.raises(tile.TileError, match=text) as caught:
        kernel(*args, **named)
    assert caught.value.filename == __file__


def test_without_macos_or_a_gpu(monkeypatch, scaled):
    devices._name.cache_clear()
    x = on_mps(torch.zeros(4, 4))
    refused(scaled, r"there is no Apple GPU: torch.backends.mps.is_available\(\) is False", x, x, 1.0)


def test_without_the_compiler(mps, monkeypatch, scaled):
    monkeypatch.delattr(torch.mps, "compile_shader")
    x = on_mps(torch.zeros(4, 4))
    refused(
        scaled,
        "launches on Metal go through torch.mps.compile_shader, which PyTorch has from 2.7 on",
        x,
        x,
        1.0,
    )


def test_another_makers_gpu(monkeypatch, scaled):
    devices._name.cache_clear()
    FakeMps(monkeypatch, "AMD Radeon Pro 5500M")
    x = on_mps(torch.zeros(4, 4))
    refused(scaled, "the GPU 'AMD Radeon Pro 5500M' is not one that Metal code is written for", x, x, 1.0)
    devices._name.cache_clear()


def test_types_that_there_are_none_of(mps, scaled):
    x = on_mps(torch.zeros(4, 4, dtype=torch.complex64))
    refused(
        scaled,
        "argument 'x' of scaled holds complex64, which is not supported",
        x,
        on_mps(torch.zeros(4, 4)),
        1.0,
    )


def test_tensors_on_two_devices(mps, scaled):
    refused(
        scaled, "is on metal:0 and argument 'y' on cpu", on_mps(torch.zeros(4, 4)), torch.zeros(4, 4), 1.0
    )


def test_streams(mps, scaled):
    x = on_mps(torch.zeros(4, 4))
    refused(scaled, "on Metal launches are on PyTorch's own queue; leave stream out", x, x, 1.0, stream=7)


def test_more_threads_than_a_launch_counts(mps, scaled):
    x, y = on_mps(torch.zeros(1, 1)), on_mps(torch.zeros(1, 1))
    with pytest.raises(tile.TileError, match="a grid of 65536 x 65536 has 4294967296 programs"):
        scaled[65536, 65536](x, y, 1.0)
    assert not mps.launches


def test_more_registers_than_the_gpu_has(mps, scaled):
    mps.most_threads = 16
    x = on_mps(torch.zeros(4, 4))
    refused(
        scaled, r"kernel scaled has \d+ threads, and its registers leave room for 16 on this GPU", x, x, 1.0
    )


def test_a_text_that_metal_refuses(mps, monkeypatch, scaled):
    def refuse(text):
        raise SyntaxError("program_source:3: error: unknown type")

    monkeypatch.setattr(torch.mps, "compile_shader", refuse)
    x = on_mps(torch.zeros(4, 4))
    refused(
        scaled,
        "Metal's compiler refuses its text, which is a defect of this package: .*unknown type",
        x,
        x,
        1.0,
    )
