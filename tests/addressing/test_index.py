"""Numbers out of tensors as indices: bounds of loops, places of blocks, conditions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from references import KINDS, agree, everywhere

import gizml_tile as tile
from gizml_tile import I32, TileError
from gizml_tile.lowering.simulate.findings import COSTS

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_bounds_places_and_conditions_of_every_type(kind):
    """Each program adds so many blocks from a place on, and stores where it is told, if at all."""
    first = np.array([0, 2, 1, 3], kind)
    counts, to = np.array([[3, 0], [1, 2]], kind), np.array([3, 1, 100, 0], kind)
    x, y = RNG.integers(-9, 9, (6, 16)).astype(np.float32), np.zeros((4, 16), np.float32)

    def body(p):
        i = p.id(0)
        F, N, T = p.read(first, [1], pad=1), p.read(counts, [1, 1]), p.read(to, [4])
        X, Y = p.read(x, [1, 16]), p.write(y, [1, 16])
        start = F.index([i])
        count = N.index([i // 2, i % 2]) + F.index([-1]) - 1
        total = p.fold(start, start + count, p.zeros([1, 16]), lambda k, acc: acc + X[k, 0])

        def store():
            Y[T.index([i]), 0] = total * count.value() + F.index([9]).value()

        p.cond(start.lt(3), store)

    want = np.zeros_like(y)
    for i in range(4):
        begin, count, place = int(first[i]), int(counts[i // 2, i % 2]), int(to[i])
        if begin < 3 and 0 <= place < 4:
            want[place] = x[begin : begin + count].sum(0) * count + 1
    for _, (got,) in everywhere([4], body, [y]):
        agree(got, want)


def test_what_the_program_wrote_is_read_in_its_order():
    """A walk through a list that the program changes on its way, in a loop, a branch and after both."""
    following, y = np.array([2, 0, 3, 1], np.int32), np.zeros(6, np.int32)

    def body(p):
        N, M, Y = p.read(following, [1]), p.write(following, [1]), p.write(y, [1])

        def turn(k, at):
            after = N.index([at])
            Y[k] = after.value(I32)
            M[at] = N.index([after]).value(I32)
            return after

        last = p.fold(0, 5, p.int(0), turn)
        p.cond(N.index([last]).gt(1), lambda: Y.put(N.index([0]).value(I32), [5]), lambda: Y.put(-1, [5]))

    walk, want, at = following.copy(), np.zeros(6, np.int32), 0
    for k in range(5):
        after = walk[at]
        want[k], walk[at], at = after, walk[after], after
    want[5] = walk[0] if walk[at] > 1 else -1
    for _, (got, left) in everywhere([1], body, [y, following]):
        agree(got, want)
        agree(left, walk)


def test_tensors_that_share_memory_are_read_in_order():
    memory, y = np.arange(8, dtype=np.int64), np.zeros(1, np.int64)
    other = memory[2:]

    def body(p):
        A, B, Y = p.read(memory, [1]), p.write(other, [1]), p.write(y, [1])
        before = A.index([3])
        B[1] = p.k(50, tile.I64)
        Y[0] = (before * 100 + A.index([3])).value(tile.I64)

    tile.run([1], body)
    agree(y, np.array([350]))


def test_blocks_ahead_of_a_loop_follow_numbers_out_of_tensors():
    """A table of pages: without roles several turns' blocks are on their way."""
    table = RNG.permutation(9)[:6].reshape(2, 3).astype(np.int32)
    x, w = RNG.integers(-2, 3, (9, 16, 32)), RNG.integers(-2, 3, (2, 16, 16))
    x, w, y = x.astype(np.float32), w.astype(np.float32), np.zeros((2, 16, 32), np.float32)

    def body(p):
        i = p.id(0)
        X, W, T = p.read(x, [16, 32]), p.read(w, [16, 16]), p.read(table, [1, 1])
        turn = lambda k, acc: acc + W[i, 0, 0].dot(X[T.index([i, k]), 0, 0])
        p.write(y, [16, 32])[i, 0, 0] = p.fold(0, T.blocks(1), p.zeros([16, 32]), turn)

    want = np.stack([sum(w[i] @ x[page] for page in table[i]) for i in range(2)])
    for _, (got,) in everywhere([2], body, [y]):
        agree(got, want)
    assert "4 stages of t0" in tile.explain([2], body, kind="cuda", arch="sm_80")


@pytest.mark.parametrize("programs", [2, 3])
def test_roles_bring_blocks_that_numbers_out_of_tensors_name(programs):
    """Tensors tell which weights a group has, and how deep: two teams, one of which may have no program."""
    rows, depth = 128, 128
    x = RNG.integers(-2, 3, (programs * rows, depth)).astype(ml_dtypes.bfloat16)
    w = RNG.integers(-2, 3, (3, depth, 128)).astype(ml_dtypes.bfloat16)
    group, deep = np.array([2, 0, 1], np.int32)[:programs], np.array([128, 64, 0], np.int64)[:programs]
    y = np.zeros((programs * rows, 128), np.float32)

    def body(p):
        i = p.id(0)
        X, W, Y = p.read(x, [rows, 64]), p.read(w, [64, 128]), p.write(y, [rows, 128])
        g, stop = p.read(group, [1]).index([i]), p.read(deep, [1]).index([i]) // 64
        Y[i, 0] = p.fold(0, stop, p.zeros([rows, 128]), lambda k, acc: acc + X[i, k].dot(W[g, k, 0]))

    want = np.zeros_like(y)
    for i, (g, stop) in enumerate(zip(group, deep, strict=True)):
        part = x[i * rows : (i + 1) * rows, :stop].astype(np.float32)
        want[i * rows : (i + 1) * rows] = part @ w[g, :stop].astype(np.float32)
    told = tile.explain([programs], body, kind="cuda", arch="sm_90a")
    assert "alternating  chosen" in told
    ran = tile.simulate([programs], body, kind=KINDS["sm_90a"], arch="sm_90a")
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    agree(y, want)


def test_roles_are_refused_where_the_program_writes_the_numbers():
    x, w = np.ones((128, 128), ml_dtypes.bfloat16), np.ones((3, 128, 128), ml_dtypes.bfloat16)
    group, y = np.zeros(1, np.int32), np.zeros((128, 128), np.float32)

    def body(p):
        X, W, Y = p.read(x, [128, 64]), p.read(w, [64, 128]), p.write(y, [128, 128])
        g = p.read(group, [1]).index([0])
        Y[0, 0] = p.fold(0, 2, p.zeros([128, 128]), lambda k, acc: acc + X[0, k].dot(W[g, k, 0]))
        p.write(group, [1])[0] = p.k(1, I32)

    told = tile.explain([1], body, kind="cuda", arch="sm_90a")
    assert "depends on what tensors hold or on earlier turns" in told and "alternating  chosen" not in told


def test_decorated_kernels_loop_and_branch_over_numbers_out_of_tensors():
    @tile.kernel(grid=lambda y: y.shape[0])
    def kernel(p, x, starts, y):
        i = p.id(0)
        X, S, Y = p.read(x, [16]), p.read(starts, [1]), p.write(y, [1, 16])
        total = p.zeros([1, 16])
        for k in range(S.index([i]), S.index([i + 1])):
            total += X[k]
        if S.index([i]) >= 1 and i > 0:
            total = total + 1000
        Y[i, 0] = total

    x, starts = RNG.integers(-9, 9, 80).astype(np.float32), np.array([0, 2, 2, 5], np.int32)
    y = np.zeros((3, 16), np.float32)
    kernel(x, starts, y)
    blocks = x.reshape(5, 16)
    agree(y, np.stack([blocks[:2].sum(0), blocks[:0].sum(0) + 1000, blocks[2:].sum(0) + 1000]))


ERRORS = [
    (lambda p, x, n: x.index([0]), "index reads integers, found an F32 tensor; gather reads"),
    (lambda p, x, n: n.index([0, 1]), "index takes 1 coordinate, one for each dimension"),
    (lambda p, x, n: n.index([p.iota([1, 4], 1, I32)]), r"the coordinates of index are indices, .*gather"),
    (lambda p, x, n: n.index([0.5]), "a coordinate of index takes an index or an integer, found 0.5"),
]


@pytest.mark.parametrize("wrong, message", ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_mistakes_are_told_at_their_line(wrong, message):
    x, n = np.zeros(4, np.float32), np.zeros(4, np.int32)
    with pytest.raises(TileError, match=message) as caught:
        tile.run([1], lambda p: wrong(p, p.read(x, [4]), p.read(n, [4])))
    assert caught.value.filename == __file__


# Some of them times a block's size are 2^64 or nearly that, which 64 bits take for 0 or the first elements.
FAR = [-(2**63), 2**63 - 1, 2**62, -(2**61), 2**61 + 1, 2**60, -1, 1]


@pytest.mark.parametrize("own", [4, 8, 5])
def test_block_numbers_out_of_a_tensor_may_be_anything(own):
    """Blocks that begin anywhere but at the tensor's own read the pad, and stores there do nothing."""
    numbers, x = np.array(FAR, np.int64), np.arange(25, dtype=np.float32).reshape(5, 5) + 1
    count = len(FAR)
    y, z = np.zeros((4 * count * own, 2 * own), np.float32), np.full((own, own), 7, np.float32)

    def body(p):
        X, Y, Z = p.read(x, [own, own], pad=-1), p.write(y, [own, own]), p.write(z, [own, own])
        mask = p.iota([1, own], 1, I32) >= 0
        for k in tile.unroll(count):
            n = p.read(numbers, [1]).index([k])
            for number, place in enumerate((n, n.maximum(0), n.abs(), n.add(n))):
                Y[4 * k + number, 0] = X[place, 0]
                Y[4 * k + number, 1] = X.at([0, place], mask=mask)
            Z[n, 0] = p.zeros([own, own])
            Z.put(p.zeros([own, own]), [n, 0], mask=mask)

    block = np.pad(x, ((0, 8), (0, 8)), constant_values=-1)
    right = np.full_like(y, -1)
    for k, n in enumerate(FAR):
        for number, place in enumerate((n, max(n, 0), abs(n) if n > -(2**63) else n, _wrapped(2 * n))):
            if 0 <= place * own < 5:
                start, row = place * own, (4 * k + number) * own
                right[row : row + own, :own] = block[start : start + own, :own]
                right[row : row + own, own:] = block[:own, start : start + own]
    for _, (read, written) in everywhere([1], body, [y, z]):
        agree(read, right)
        agree(written, z)


def test_loops_in_large_steps_leave_a_tensor():
    """Of blocks 0, 2^60, 2^61, ... of 16 elements each only the first is inside."""
    x, y = np.arange(16, dtype=np.float32) + 1, np.zeros((2, 16), np.float32)

    def body(p):
        X, Y, zeros = p.read(x, [16]), p.write(y, [1, 16]), p.zeros([1, 16])
        for number, (begin, end, step) in enumerate(((0, 2**62, 2**60), (0, -(2**62), -(2**60)))):
            Y[number, 0] = p.fold(begin, end, zeros, lambda k, t: t + X.at([k]), step=step)

    for _, (found,) in everywhere([1], body, [y]):
        agree(found, np.array([x, x]))


def _wrapped(number):
    return (number + 2**63) % 2**64 - 2**63
