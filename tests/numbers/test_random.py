"""Random numbers: Philox's published words, the documented rule of counters, the same bits on all devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from floats import ulps
from numpy_arithmetic import NumpyArithmetic
from philox import drawn

import gizml_tile as tile
from gizml_tile.lowering import math as shared
from gizml_tile.lowering.simulate.findings import COSTS

DEVICES = [("cpu", ""), ("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("hip", "gfx1100")]
DEVICES += [("metal", "apple9")]
KINDS = {"bits": np.uint32, "uniform": np.float32, "normal": np.float32}

# Random123, "kat_vectors": counter, key, words.
PUBLISHED = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def _words(text: str) -> list[np.ndarray]:
    return [np.array([int(word, 16)], np.uint32).view(np.int32) for word in text.split()]


@pytest.mark.parametrize("counter, key, words", PUBLISHED)
def test_published_words(counter: str, key: str, words: str) -> None:
    found = shared.philox(NumpyArithmetic(), _words(counter), _words(key))
    assert [each.tolist() for each in found] == [each.tolist() for each in _words(words)]


def reference(kind: str, seed: int, counters: np.ndarray) -> np.ndarray:
    """The four numbers of each counter along a new last axis."""

    def halves(numbers: Any) -> tuple[np.ndarray, np.ndarray]:
        wide = np.asarray(numbers, np.int64).view(np.uint64)
        low, high = (np.asarray(each, np.uint32).view(np.int32) for each in (wide & 0xFFFFFFFF, wide >> 32))
        return low, high

    key = halves(np.full(counters.shape, seed, np.int64))
    if kind != "normal":
        return drawn(kind, counters, seed).astype(KINDS[kind])
    return np.stack(shared.random_numbers(NumpyArithmetic(), kind, halves(counters), key), -1)


def launch(grid: list[int], body: Any, device: str, arch: str) -> None:
    if device == "cpu":
        tile.run(grid, body)
        return
    found = tile.simulate(grid, body, kind=device, arch=arch).findings
    assert not [each for each in found if each.kind not in COSTS]


SHAPES = [(1, 1), (1, 2), (8, 1), (8, 2), (1, 4), (4, 64), (64, 8), (16, 16), (1, 512), (3, 6), (5, 80)]


@pytest.mark.parametrize("device, arch", DEVICES)
def test_counters_from_an_index(device: str, arch: str) -> None:
    offset, seed = 2**33 - 5, -7 - 2**40
    for rows, columns in SHAPES:
        groups = -(-columns // 4)
        for kind, dtype in KINDS.items():
            y = np.zeros((2 * rows, columns), dtype)

            def body(p: Any, y: Any = y, kind: str = kind, rows: int = rows, columns: int = columns) -> None:
                first = p.id(0) * (rows * -(-columns // 4)) + offset
                p.write(y, [rows, columns]).put(p.random(seed, first, [rows, columns], kind), [p.id(0), 0])

            launch([2], body, device, arch)
            wanted = reference(kind, seed, offset + np.arange(2 * rows * groups))
            wanted = wanted.reshape(2 * rows, 4 * groups)[:, :columns]
            assert (y.view(np.int32) == wanted.view(np.int32)).all(), (rows, columns, kind)


@pytest.mark.parametrize("device, arch", DEVICES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_do_not_matter(device: str, arch: str, order: str) -> None:
    """Counters of where elements belong: any blocks, types of counters and tensors by rows or columns."""
    size, seed = (32, 64), 12345
    wanted = reference("normal", seed, np.arange(32 * 16).reshape(32, 16)).reshape(size)
    for rows, columns, dtype in ((8, 64, tile.I32), (32, 16, tile.I64), (16, 4, tile.U32), (1, 32, tile.U64)):
        y = np.zeros(size, np.float32, order)

        def body(p: Any, y: Any = y, m: int = rows, n: int = columns, dtype: Any = dtype) -> None:
            i, j = p.id(1), p.id(0)
            row = p.iota([m, 1], 0, dtype) + i * m
            counter = row * (size[1] // 4) + p.iota([1, n // 4], 1, dtype) + j * (n // 4)
            drawn = p.random(p.arg(seed), counter, [m, n], "normal")
            p.write(y, [m, n]).put(drawn + 0, [i, j])

        launch([size[1] // columns, size[0] // rows], body, device, arch)
        assert (y == wanted).all(), (rows, columns)


@pytest.mark.parametrize("device, arch", DEVICES)
def test_counters_from_data_and_layouts_of_products(device: str, arch: str) -> None:
    """Counters that are read, also below 0, for numbers beside a product and along rows."""
    x = np.random.default_rng(3).integers(-(2**31), 2**31, (32, 8)).astype(np.int32)
    a = np.eye(32, dtype=np.float32)
    y, z = np.zeros((32, 32), np.float32), np.zeros((32, 1), np.float32)

    def body(p: Any) -> None:
        counters = p.read(x, [32, 8]).at([0, 0])
        drawn = p.random(counters.max(0).max(1), counters, [32, 32], "uniform")
        block = p.read(a, [32, 32]).at([0, 0])
        p.write(y, [32, 32]).put(block.dot(block) * drawn, [0, 0])
        p.write(z, [32, 1]).put(drawn.max(1), [0, 0])

    launch([1], body, device, arch)
    wanted = reference("uniform", int(x.max()), x.astype(np.int64)).reshape(32, 32)
    assert (y == a * wanted).all()
    assert (z == wanted.max(1, keepdims=True)).all()


MOVED = {
    "backwards": (lambda t: t.flip(1), lambda w: w[:, ::-1]),
    "from an odd place on": (lambda t: t[:, 1:33], lambda w: w[:, 1:33]),
    "every fourth": (lambda t: t[:, 3::4], lambda w: w[:, 3::4]),
    "pairs": (lambda t: t.reshape([256, 2]), lambda w: w.reshape(256, 2)),
    "one by one": (lambda t: t.reshape([512, 1]), lambda w: w.reshape(512, 1)),
    "wider": (lambda t: t.reshape([4, 128]), lambda w: w.reshape(4, 128)),
    "turned": (lambda t: t.T, lambda w: w.T),
}


@pytest.mark.parametrize("device, arch", DEVICES[:2])
@pytest.mark.parametrize("name", MOVED)
def test_parts_of_what_is_drawn(name: str, device: str, arch: str) -> None:
    method, moved = MOVED[name]
    wanted = moved(drawn("bits", np.arange(128).reshape(8, 16), 3).reshape(8, 64))
    y = np.zeros(wanted.shape, np.uint32)

    def body(p: Any) -> None:
        p.write(y, list(y.shape)).put(method(p.random(3, 0, [8, 64])) + 0, [0, 0])

    launch([1], body, device, arch)
    assert (y == wanted).all()


def test_normal_numbers_are_near_the_true_ones() -> None:
    counters = np.arange(1 << 16) * 977
    assert ulps(reference("normal", 5, counters), drawn("normal", counters, 5)).max() < 8


def test_distributions() -> None:
    """Moments of 2^20 numbers within five deviations, no number out of range, the tails there."""
    count = 1 << 20
    uniform = reference("uniform", 9, np.arange(count // 4)).ravel().astype(np.float64)
    assert 0 <= uniform.min() < 1e-5 and 1 - 1e-5 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * np.sqrt(1 / 12 / count)
    assert abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) < 5 / np.sqrt(count)
    normal = reference("normal", 9, np.arange(count // 4)).ravel().astype(np.float64)
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs((normal**power).mean() - moment) < 5 * deviation / np.sqrt(count)
    assert 4.4 < np.abs(normal).max() < 6.67
    pairs = normal.reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / np.sqrt(count / 2)
