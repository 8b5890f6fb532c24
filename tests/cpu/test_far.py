"""Offsets beyond 32 bits, and the arena: a thread's memory is as large as a program says."""

import numpy as np
from agreement import agree, assert_close, numbers

import gizml_tile as tile

FAR = 3 * 2**31


def repeated(row, times):
    """``times`` rows that all lie in one place, so that sizes are huge and memory is not."""
    return np.lib.stride_tricks.as_strided(row, (times, len(row)), (0, row.strides[0]))


def test_rows_behind_2_to_the_31():
    """A block near the end of a tensor of so many rows, at block coordinates, at offsets, and past it."""
    x = repeated(np.arange(100, dtype=np.float32), FAR + 3)
    y = np.full((3, 8, 128), 7, np.float32)

    def body(p):
        X, Y = p.read(x, [8, 128], pad=-1), p.write(y, [8, 128])
        last = X.blocks(0) - 1
        Y.put(X.at([last, 0]), [0, 0, 0])
        Y.put(X.window([X.dim(0) - 2, 50]), [1, 0, 0])
        Y.put(X.window([p.arg(FAR), -1]), [2, 0, 0])

    tile.run([1], body)
    row = np.pad(x[0], (0, 28), constant_values=-1)
    outside = np.full(128, -1)
    assert_close(y[0], np.array([row] * 3 + [outside] * 5, np.float32))
    shifted = np.concatenate([x[0, 50:], np.full(78, -1)])
    assert_close(y[1], np.array([shifted] * 2 + [outside] * 6, np.float32))
    assert_close(y[2], np.array([np.concatenate([[-1], row[:-1]])] * 3 + [outside] * 5, np.float32))


def lazy(*shape):
    """Bytes that take no memory until they are touched, beyond 2^31 of them."""
    return np.empty(shape, np.uint8)


def test_elements_behind_2_to_the_31_are_written():
    """In one long row, and in a matrix either way up; what lies before and behind stays."""
    memory = lazy(2**31 + 2**16)
    end = memory[-(2**16) :]
    end[...] = 7
    start = memory[: 2**16]
    start[...] = 5
    matrix = memory.reshape(2**15 + 1, 2**16)
    x = np.arange(64, dtype=np.uint8)

    def body(p):
        block = p.read(x, [64]).at([0])
        Y, wide, tall = p.write(memory, [64]), p.write(matrix, [2, 64]), p.write(matrix.T, [64, 2])
        Y.put(block, [Y.blocks(0) - 1])
        Y.put_window(block, [Y.dim(0) - 200])
        wide.put((block + 2).to(tile.U8), [2**14, 3])
        tall.put_window((block + 100).to(tile.U8).transpose(), [1000, 2**15 - 1])

    tile.run([1], body)
    want = np.full(2**16, 7, np.uint8)
    want[-64:], want[-200:-136], want[192:256] = x, x, x + 2
    want[1000:1064] = x + 100
    assert np.array_equal(end, want)
    assert np.array_equal(matrix[-2, 1000:1064], x + 100)
    assert np.all(start == 5)


def test_a_product_of_rows_2_to_the_31_bytes_apart():
    """Row and column strides beyond 32 bits, in operands that are read in place, packed and turned."""
    rng = np.random.default_rng(0)
    memory = lazy(2, 2**31 + 2**12)
    left = np.lib.stride_tricks.as_strided(memory.view(np.float32), (2, 64), (memory.strides[0], 4))
    left[...] = numbers(rng, (2, 64), np.dtype(np.float32))
    right = numbers(rng, (64, 24), np.dtype(np.float32))
    results = []
    for a, b in ((left, right), (right.T, left.T)):
        c = np.empty((len(a), b.shape[1]), np.float32)

        def body(p, a=a, b=b, c=c):
            i, j = p.id(0), p.id(1)
            A, B, C = p.read(a, [16, 16]), p.read(b, [16, 16]), p.write(c, [16, 16])
            C.put(
                p.fold(0, A.blocks(1), p.zeros([16, 16]), lambda k, t: t + A.at([i, k]).dot(B.at([k, j]))),
                [i, j],
            )

        agree([tile.cdiv(len(a), 16), tile.cdiv(b.shape[1], 16)], body)
        results.append(c)
    assert np.array_equal(results[0], results[1].T)


def test_coordinates_far_outside():
    """Blocks a long way off on either side read the pad and store nothing."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    y, z = np.zeros((6, 4, 8), np.float32), np.full((4, 6), 7, np.float32)
    places = [2**31, -(2**31), 2**33 + 1, -(2**40), 2**55, -(2**55)]

    def body(p):
        X, Y, Z = p.read(x, [4, 8], pad=3), p.write(y, [4, 8]), p.write(z, [4, 8])
        for number, place in enumerate(places):
            Y.put(X.at([0, place]) + X.window([place, 0]), [number, 0, 0])
            Z.put(p.zeros([4, 8]), [place, 0])
            Z.put_window(p.zeros([4, 8]), [1, place])

    tile.run([1], body)
    assert np.all(y == 6)
    assert np.all(z == 7)
