"""Reductions, transposes and stores of whole tiles: every type, edge, alignment and direction."""

import math

import numpy as np
import pytest
from agreement import HALF_ULP, TYPES, agree, assert_close, laid_out, launch, numbers

import gizml_tile as tile

SINGLE = np.dtype(np.float32)
STORAGE = TYPES | {"bool": np.dtype(bool)}
ORDERS = ["C", "F", "inside", "turned", "steps", "back"]


def wide(kind):
    """The type that a storage type is computed in."""
    if kind in ("f32", "f16", "bf16", "fp8"):
        return tile.F32, SINGLE
    return (tile.I64, np.dtype(np.int64)) if kind == "i8" else (tile.I32, np.dtype(np.int32))


def small(rng, shape, kind):
    """Small whole numbers of a type, whose sums are exact in any order."""
    if kind == "bool":
        return rng.random(shape) < 0.5
    low = 0 if kind == "u1" else -6
    return rng.integers(low, 7, shape).astype(np.int8).astype(np.float32).astype(STORAGE[kind])


# Sums.


def sums(x, axis):
    rows, columns = x.shape
    out = np.empty((rows, 1) if axis == 1 else (1, columns), np.float32)

    def body(p):
        block = p.read(x, [rows, columns]).at([0, 0])
        p.write(out, list(out.shape)).put(block.sum(axis), [0, 0])

    launch([1], body)
    return out


SUM_SHAPES = [(1, 2**20), (2**20, 1), (1024, 1024), (2**16, 16), (4, 2**18)]
SUM_SHAPES += [(2**10, 2), (2, 512), (64, 64), (128, 8)]


@pytest.mark.parametrize(("axis", "shape"), [(axis, s) for s in SUM_SHAPES for axis in (0, 1) if s[axis] > 1])
def test_sums_are_within_the_bound(axis, shape):
    """Numbers whose errors all point one way, tiny ones beside large ones, and those that cancel."""
    rng = np.random.default_rng(0)
    number, count = np.indices(shape)[axis], shape[axis]
    for values in (
        np.full(shape, 0.1),
        rng.random(shape),
        1 + number / count,
        np.where(number % 2 == 0, 1, 1.5 * HALF_ULP),
        np.where(number < 64, 2.0**24, 1.9),
        np.where(number % 2 == 0, 1, -1) * rng.random(shape) * 1e6,
    ):
        x = values.astype(np.float32)
        if x.size == count:
            true = np.reshape(math.fsum(x.ravel().tolist()), (1, 1))
        else:
            true = x.astype(np.float64).sum(axis, keepdims=True)
        bound = (count / 64 + 8) * HALF_ULP * np.abs(x.astype(np.float64)).sum(axis, keepdims=True)
        assert_close(sums(x, axis), true, bound)


def test_sums_of_infinities_and_nan():
    x = np.ones((8, 512), np.float32)
    x[1, 3], x[2, 500], x[3, 7], x[4, 0], x[4, 1] = np.inf, -np.inf, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        assert_close(sums(x, 1), x.sum(1, keepdims=True))
        assert_close(sums(np.ascontiguousarray(x.T), 0), x.sum(1, keepdims=True).T)


# Every storage type, in tiles of all widths, in memory of all kinds.

# Tiles narrower than a vector, as wide, wider; rows and columns; tensors that end inside a block.
TILES = [(1, 1), (1, 2), (2, 1), (4, 4), (1, 8), (8, 2), (16, 16), (32, 64), (1, 1024), (256, 1)]
TILES += [(128, 4), (2, 256)]


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("block", TILES)
def test_types_and_shapes(block, kind):
    """Copies, transposes and all reductions of a tile that is read, and of one that is computed."""
    rng = np.random.default_rng(len(kind))
    rows, columns = block
    math_type, numpy_type = wide(kind)
    shape = (2 * rows - rows // 3, 2 * columns - columns // 3)
    orders = [ORDERS[(rows + columns + number) % 6] for number in range(3)]
    x = laid_out(small(rng, shape, kind), orders[0])
    copy = laid_out(small(rng, shape, kind), orders[1])
    turned = laid_out(np.zeros(shape[::-1], numpy_type), orders[2])
    wide_copy = laid_out(np.zeros(shape, numpy_type), orders[1])
    downs = np.zeros((3, 2, shape[1]), numpy_type)
    acrosses = np.zeros((3, shape[0], 2), numpy_type)

    def body(p):
        i, j = p.id(0), p.id(1)
        read = p.read(x, [rows, columns]).at([i, j])
        computed = read if kind == "bool" else read + read
        p.write(copy, [rows, columns]).put(read, [i, j])
        p.write(turned, [columns, rows]).put(computed.to(math_type).transpose(), [j, i])
        p.write(wide_copy, [rows, columns]).put(computed.to(math_type), [i, j])
        down, across = p.write(downs, [1, columns]), p.write(acrosses, [rows, 1])
        for number, name in enumerate(("sum", "max", "min")):
            down.put(getattr(computed, name)(0).to(math_type), [number, i, j])
            across.put(getattr(read, name)(1).to(math_type), [number, i, j])

    agree([2, 2], body)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "fp8", "i1", "bool"])
def test_every_alignment_and_end(kind):
    """Windows that start and end anywhere: before the tensor, inside a vector, past the end."""
    rng = np.random.default_rng(1)
    x = small(rng, (5, 75), kind)
    pad = True if kind == "bool" else 3
    y = np.zeros((90, 8, 64), STORAGE[kind])

    def body(p):
        i = p.id(0)
        block = p.read(x, [8, 64], pad=pad).window([i % 7 - 3, i - 20])
        p.write(y, [8, 64]).put(block, [i, 0, 0])

    agree([90], body)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["f32", "f16", "bool", "i8"])
def test_stores_to_every_place(kind, order):
    """Windows that are stored anywhere, in one order after another: nothing outside is touched."""
    rng = np.random.default_rng(2)
    x, y = small(rng, (20, 40), kind), laid_out(small(rng, (23, 45), kind), order)

    def body(p):
        block = p.read(x, [8, 32]).at([0, 0])
        Y = p.write(y, [8, 32])
        for down, right in ((-3, -20), (20, 30), (4, 7), (5, 8), (0, 44), (22, -31), (100, 0), (0, -100)):
            Y.put_window(block, [down, right])
        p.write(y, [1, 4]).put_window(block.max(1).transpose().max(1), [10, 20])

    agree([1], body)


# What goes together in one program.


def test_broadcast_stores():
    """A number, a row and a column fill their block."""
    rng = np.random.default_rng(3)
    x = numbers(rng, (20, 40), SINGLE)
    for order in ORDERS:
        ys = [laid_out(np.zeros((20, 40), np.float32), order) for _ in range(4)]

        def body(p, ys=ys):
            block = p.read(x, [32, 64]).at([0, 0])
            Ys = [p.write(y, [32, 64]) for y in ys]
            for Y, value in zip(Ys, (block.max(1), block.min(0), block.max(1).max(0), p.k(4)), strict=True):
                Y.put(value, [0, 0])

        agree([1], body)


def test_masks_and_integers_of_computed_tiles():
    rng = np.random.default_rng(4)
    x = numbers(rng, (30, 50), SINGLE)
    mask, turned, count, place = (
        np.zeros((30, 50), bool),
        np.zeros((50, 30), bool),
        np.zeros((30, 1), np.int32),
        np.zeros((50, 30), np.int64),
    )

    def body(p):
        block = p.read(x, [32, 64]).at([0, 0])
        above = block > block.sum(0) * 0.01
        p.write(mask, [32, 64]).put(above, [0, 0])
        p.write(turned, [64, 32]).put(above.transpose().not_(), [0, 0])
        p.write(count, [32, 1]).put(above.sum(1), [0, 0])
        numbered = above.to(tile.I32) * p.iota([32, 64], 1, tile.I32) - p.iota([32, 1], 0, tile.I32)
        p.write(place, [64, 32]).put(numbered.transpose().to(tile.I64), [0, 0])

    # the sum's order is free, so the mask is compared with its own
    launch([1], body)
    total = np.pad(x, ((0, 2), (0, 14))).astype(np.float64).sum(0)[:50]
    sure = np.abs(x - total * 0.01) > 1e-5
    assert np.array_equal(mask[sure], (x > total * 0.01)[sure])
    padded = np.zeros((32, 64), bool)
    padded[:30, :50] = mask
    assert np.array_equal(turned, ~mask.T)
    assert np.array_equal(place, (mask * np.arange(50) - np.arange(30)[:, None]).T)
    assert np.all(count.ravel() - mask.sum(1) >= 0)


def test_softmax_and_layer_norm_rows():
    """The rows that everyone writes, of lengths around a vector's and blocks' ends."""
    rng = np.random.default_rng(5)
    for columns in (1, 2, 15, 16, 17, 63, 64, 65, 1000):
        x = (rng.standard_normal((13, columns)) * 4).astype(np.float32)
        soft, norm = np.empty_like(x), np.empty_like(x)
        length = 1 << max(0, (columns - 1).bit_length())

        def body(p, x=x, soft=soft, norm=norm, length=length):
            i = p.id(0)
            row = p.read(x, [4, length], pad=float("-inf")).at([i, 0])
            e = (row - row.max(1)).exp()
            p.write(soft, [4, length]).put(e / e.sum(1), [i, 0])
            R = p.read(x, [4, length])
            row, n = R.at([i, 0]), R.dim(1).value()
            mean = row.sum(1) / n
            centred = (p.iota([1, length], 1) < n).select(row - mean, p.k(0))
            p.write(norm, [4, length]).put(centred * ((centred * centred).sum(1) / n + 1e-5).rsqrt(), [i, 0])

        launch([4], body)
        wide_x = x.astype(np.float64)
        e = np.exp(wide_x - wide_x.max(1, keepdims=True))
        assert_close(soft, e / e.sum(1, keepdims=True), 40 * HALF_ULP)
        centred = wide_x - wide_x.mean(1, keepdims=True)
        assert_close(norm, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5), 1e-4)


# Program order.


def test_reads_and_stores_of_one_tensor_happen_in_program_order():
    """Store, read back, change, store again; also where rows and columns of the tensor are swapped."""
    rng = np.random.default_rng(6)
    for order in ("C", "F", "steps"):
        x = laid_out(numbers(rng, (20, 24), SINGLE), order)

        def body(p, x=x):
            X, Y = p.read(x, [8, 8]), p.write(x, [8, 8])
            i = p.id(0)
            first = X.at([0, 0])
            Y.put(first + 1, [0, 1])
            Y.put(X.at([0, 1]) * 2, [1, 1])
            again = X.at([0, 1])
            Y.put(first.transpose(), [0, 0])
            Y.put(X.at([0, 0]) + again, [2, i])
            Y.put(X.window([1, 1]), [2, 2])

        agree([1], body)


def test_a_store_in_a_loop_is_read_in_the_next_turn():
    """A running sum along the rows of a tensor, in place."""
    x = np.arange(70, dtype=np.float32).reshape(35, 2)

    def body(p):
        X, Y = p.read(x, [1, 2]), p.write(x, [1, 2])

        def turn(k, total):
            Y.put(X.at([k, 0]) + X.at([k - 1, 0]), [k, 0])
            return total + X.at([k, 0]).max(1)

        Y.put(p.fold(1, X.blocks(0), p.zeros([1, 1]), turn), [0, 0])

    agree([1], body)


def test_arguments_that_share_memory():
    """One array read and written under several views, in one program and over a grid."""
    memory = np.arange(400, dtype=np.float32)
    square, shifted, back = memory.reshape(20, 20), memory[20:], memory[::-1]

    def one(p):
        S, L, B = p.write(square, [4, 4]), p.write(shifted, [16]), p.read(back, [16])
        block = p.read(square, [4, 4]).at([0, 0])
        L.put(B.at([1]), [0])
        S.put(block + p.read(square, [4, 4]).at([0, 1]), [1, 1])
        L.put_window(B.at([0]) * p.read(memory, [16]).at([1]), [3])
        S.put(p.read(square.T, [4, 4]).at([0, 0]), [0, 0])

    agree([1], one)

    def rows(p):
        i = p.id(0)
        p.write(memory, [4]).put(p.read(memory, [4]).at([i]) + p.read(back, [4]).at([99 - i]).sum(1), [i])

    agree([100], rows)


def test_two_outputs_and_the_last_store_wins():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    y, z = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)

    def body(p):
        X, Y, Z = p.read(x, [8, 8]).at([0, 0]), p.write(y, [8, 8]), p.write(z, [8, 8])
        Y.put(X.transpose(), [0, 0])
        Z.put(X.max(0) + X.max(1), [0, 0])
        Y.put(X + 1, [0, 0])
        p.write(y, [1, 4]).put(X.max(1).max(0) + p.zeros([1, 4]), [2, 1])
        Y.put_window(X, [6, 6])

    agree([1], body)
