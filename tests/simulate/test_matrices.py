"""Matrix accesses, and products on matrix units, against NumPy."""

import numpy as np
import pytest
from small_writers import buffer, random, run

from gizml_tile.dtypes import BF16, F16, F32, I32, to_numpy
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    Access,
    Copy,
    Matrix,
    MatrixAccess,
)
from gizml_tile.target import gpus


def table(layout, blocks, order):
    """Row and column of each register (blocks in order, then the fragment's own) of each lane."""
    rows, columns = layout.shape
    lanes = layout.size("lane")
    held = [layout.table("register", lane=lane) for lane in range(lanes)]
    result = []
    for first, second in np.ndindex(*blocks):
        block = (first, second) if order == "first" else (second, first)
        for register in range(layout.size("register")):
            result.append(
                [
                    (block[0] * rows + held[lane][register][0], block[1] * columns + held[lane][register][1])
                    for lane in range(lanes)
                ]
            )
    return np.array(result)


def integers(shape, dtype, seed):
    low = 0 if dtype.name == "U8" else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(to_numpy(dtype))


def multiplied(atom, m, n, k, a, b, c):
    """``c + a @ b`` by m x n atoms and k steps; each lane loads and stores as the atom says."""
    lanes = atom.c.size("lane")
    d = np.zeros_like(c)
    places = [
        table(atom.a, (m, k), "first"),
        table(atom.b, (n, k), "second"),
        table(atom.c, (m, n), "first"),
    ]
    offsets = [
        (place[..., 0] * matrix.shape[1] + place[..., 1]).astype(np.int32)
        for place, matrix in zip(places, (a, b, c), strict=True)
    ]

    def write(kernel):
        def at(tensor):
            count = len(offsets[tensor])
            access = Access(GLOBAL, 4 + tensor, 1, tuple((0, lanes * each) for each in range(count)))
            return kernel.load(access, kernel.lane(), I32)

        def fragment(tensor, dtype):
            count = len(offsets[tensor])
            access = Access(GLOBAL, tensor, 1, tuple((each, 0) for each in range(count)))
            return kernel.load(access, at(tensor), dtype)

        matrix = Matrix(atom, m, n, k)
        value = kernel.mma(
            matrix, fragment(0, atom.a_dtype), fragment(1, atom.b_dtype), fragment(2, atom.c_dtype)
        )
        count = len(offsets[2])
        kernel.store(Access(GLOBAL, 3, 1, tuple((each, 0) for each in range(count))), value, at(2))

    arch = next(each.arch for each in gpus() if each.can(atom.needs))
    found = run(write, [a, b, c, d, *offsets], threads=lanes, arch=arch)
    assert not found.wrong, found
    return d


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (2, 3, 2)])
def test_products_are_exact_on_small_integers(atom, m, n, k):
    a = integers((m * atom.m, k * atom.k), atom.a_dtype, 0)
    b = integers((k * atom.k, n * atom.n), atom.b_dtype, 1)
    c = integers((m * atom.m, n * atom.n), atom.c_dtype, 2)
    d = multiplied(atom, m, n, k, a, b, c)
    assert (d == c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)).all()


FLOATS = [atom for atom in ATOMS if atom.a_dtype.is_float and not atom.ignored_bits]


@pytest.mark.parametrize("atom", FLOATS, ids=lambda atom: atom.name)
def test_products_are_within_their_bound(atom):
    k = 64 // atom.k
    a = random(atom.m, 64, seed=0).astype(to_numpy(atom.a_dtype))
    b = random(64, atom.n, seed=1).astype(to_numpy(atom.b_dtype))
    c = random(atom.m, atom.n, seed=2)
    d = multiplied(atom, 1, 1, k, a, b, c)
    a, b, c = (each.astype(np.float64) for each in (a, b, c))
    assert (np.abs(d - (c + a @ b)) <= 65 * 2.0**-24 * (np.abs(c) + np.abs(a) @ np.abs(b))).all()


@pytest.mark.parametrize("differs", [False, True])
def test_lanes_that_share_an_element_must_agree_about_it(differs):
    """RDNA 3 wants each half of a wave to hold the whole operand."""
    atom = next(each for each in ATOMS if each.name == "wmma11_f16_16x16x16")

    def write(k):
        row = k.lane() if differs else k.map("and", k.lane(), k.number(15))
        a = k.get(0, k.mul(row, k.number(16)), F16, 16)
        c = k.spread(k.number(0.0, F32), 8)
        k.put(1, k.at(5).mma(Matrix(atom, 1, 1, 1), a, a, c), k.mul(k.lane(), k.number(8)), 8)

    found = run(write, [random(32, 16, dtype=np.float16), random(32, 8)], threads=32, arch="gfx1100")
    text = "mma: lanes that share an element of an operand hold different ones"
    assert [(each.kind, each.line, each.text) for each in found.wrong] == [("divergent", 5, text)] * differs


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_matrix_load_and_store(matrices, transposed):
    a = np.arange(64 * matrices, dtype=np.float16)
    out = np.zeros((32, 2 * matrices), np.float16)
    back = np.zeros_like(a)

    def write(k):
        lane = k.lane()
        k.keep(
            0,
            k.get(0, k.mul(lane, k.number(2 * matrices)), F16, 2 * matrices),
            k.mul(lane, k.number(2 * matrices)),
            2 * matrices,
        )
        k.barrier(0, 32)
        rows = k.map("and", k.mul(lane, k.number(8)), k.number(64 * matrices - 1))
        access = MatrixAccess(0, matrices, transposed, ((0, 0),))
        value = k.matrix_load(access, rows, F16)
        k.put(1, value, k.mul(lane, k.number(2 * matrices)), 2 * matrices)
        k.at(7).matrix_store(MatrixAccess(1, matrices, transposed, ((0, 0),)), value, rows)
        k.barrier(0, 32)
        k.put(
            2,
            k.take(1, k.mul(lane, k.number(2 * matrices)), F16, 2 * matrices),
            k.mul(lane, k.number(2 * matrices)),
            2 * matrices,
        )

    buffers = [buffer("s", 64 * matrices, F16), buffer("t", 64 * matrices, F16, 128 * matrices)]
    found = run(write, [a, out, back], buffers, threads=32)
    assert not found.wrong, found
    tiles = a.reshape(matrices, 8, 8)
    for lane in range(32):
        for matrix in range(matrices):
            for register in range(2):
                row, column = lane // 4, 2 * (lane % 4) + register
                if transposed:
                    row, column = column, row
                assert out[lane, 2 * matrix + register] == tiles[matrix, row, column]
    assert (back == a).all()


def pipelined_product(depth, waits=1, barrier=True):
    """Each workgroup: 16 x 8 of a [16g, K] @ b [K, 8] with two stages of asynchronous copies."""
    atom = next(each for each in ATOMS if each.name == "bf16_16x8x16")

    def write(k):
        lane = k.lane()
        row, half = k.map("shr", lane, k.number(1)), k.map("and", lane, k.number(1))
        column = k.mul(half, k.number(8))

        def stage(step, place):
            """Fetch step's 16x16 of a and 16x8 of b to the stage at place."""
            first = k.mul(step, k.number(16))
            a_row = k.add(k.mul(k.workgroup(), k.number(16)), row)
            source = k.add(k.mul(a_row, k.number(depth)), k.add(first, column))
            inside = k.map("lt", step, k.number(depth // 16))
            to = k.add(k.add(k.mul(row, k.number(16)), column), k.mul(place, k.number(256)))
            k.at(10).copy(Copy(0, 0, 8, ((0, 0),), ((0, 0),)), to, source, inside)
            b_row = k.add(first, lane)
            to_b = k.add(k.mul(lane, k.number(8)), k.mul(place, k.number(128)))

            def b_rows():
                k.at(11).copy(Copy(1, 1, 8, ((0, 0),), ((0, 0),)), to_b, k.mul(b_row, k.number(8)), inside)

            k.when(k.map("lt", lane, k.number(16)), b_rows)
            k.at(12).copy_commit()

        stage(k.number(0), k.number(0))

        def body(step, carried):
            place = k.map("and", step, k.number(1))
            stage(k.add(step, k.number(1)), k.map("xor", place, k.number(1)))
            k.at(20).copy_wait(waits)
            if barrier:
                k.at(21).barrier(0, 32)
            rows = k.add(
                k.mul(k.map("and", lane, k.number(15)), k.number(16)),
                k.mul(k.map("shr", lane, k.number(4)), k.number(8)),
            )
            k.at(22)
            a = k.matrix_load(
                MatrixAccess(0, 4, False, ((0, 0),)), k.add(rows, k.mul(place, k.number(256))), BF16
            )
            a = k.pick(a, [0, 1, 2, 3, 4, 5, 6, 7])
            b_rows = k.mul(k.map("and", lane, k.number(15)), k.number(8))
            b = k.at(23).matrix_load(
                MatrixAccess(1, 2, True, ((0, 0),)), k.add(b_rows, k.mul(place, k.number(128))), BF16
            )
            result = k.at(24).mma(Matrix(atom, 1, 1, 1), a, b, carried[0])
            k.at(25).barrier(0, 32)
            return [result]

        zero = k.constant([0.0] * 4, F32)
        zero = k.spread(zero, 4) if zero.count == 4 else k.emit("pick", (zero,), (0, 0, 0, 0), F32, 4)
        (total,) = k.loop(k.number(0), k.number(depth // 16), k.number(1), [zero], body)
        group, quad = k.map("shr", lane, k.number(2)), k.map("and", lane, k.number(3))
        first = k.add(
            k.mul(k.workgroup(), k.number(128)), k.add(k.mul(group, k.number(8)), k.mul(quad, k.number(2)))
        )
        k.at(30).store(Access(GLOBAL, 2, 2, ((0, 0), (0, 64))), total, first)

    return write


def product_data(depth):
    import ml_dtypes

    rng = np.random.default_rng(0)
    a = rng.standard_normal((48, depth)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((depth, 8)).astype(ml_dtypes.bfloat16)
    return a, b, np.zeros((48, 8), np.float32)


BUFFERS = [buffer("a", 512, BF16), buffer("b", 256, BF16, 1024)]


def test_pipelined_product():
    a, b, c = product_data(64)
    found = run(pipelined_product(64), [a, b, c], BUFFERS, grid=(3,), threads=32)
    assert not found.wrong, found
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - expected).max() < 1e-4


def test_pipelined_product_without_its_wait():
    a, b, c = product_data(64)
    found = run(pipelined_product(64, waits=2), [a, b, c], BUFFERS, grid=(3,), threads=32)
    assert {(each.kind, each.place.line) for each in found.wrong} >= {("in flight", 22), ("in flight", 23)}
