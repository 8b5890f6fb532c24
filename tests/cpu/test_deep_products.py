"""Loops that add up products block by block: every type, order, edge, start and bound."""

from dataclasses import replace

import numpy as np
import pytest
from agreement import TYPES, agree, laid_out, numbers
from products import Product, assert_product

import gizml_tile as tile

# What reads past a ragged end is counted here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")

EXACT = [("f32", "f32"), ("f16", "f16"), ("f32", "bf16"), ("fp8", "f16"), ("f16", "f32")]
PAIRS = [("bf16", "bf16"), ("fp8", "fp8"), ("bf16", "fp8"), ("fp8", "bf16")]
INTEGERS = [("i1", "i1"), ("u1", "u1"), ("i1", "u1"), ("u1", "i1")]
# M, K, N: single elements, less than a vector, exact blocks, ragged every way, several chunks of k.
SIZES = [(1, 1, 1), (3, 5, 2), (32, 32, 32), (37, 65, 53), (16, 530, 40)]
ORDERS = ["C", "F", "inside", "turned", "steps", "back"]


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("types", EXACT + PAIRS + INTEGERS)
def test_types_and_orders(types, transposed):
    """Operands as they lie and turned in the program; the result is one chain along k or within bounds."""
    result = "i4" if types in INTEGERS else "f32"
    for sizes in SIZES:
        Product(sizes, (32, 32, 32), types, result, transposed=transposed).check_plain()


@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "bf16"), ("u1", "i1")])
@pytest.mark.parametrize("order", ORDERS)
def test_layouts(types, order):
    """The same numbers give the same bits however they lie in memory."""
    result = "i4" if types[0] == "u1" else "f32"
    product = Product((37, 65, 53), (16, 32, 32), types, result)
    plain = product.launch(product.operands())
    for other in ("C", "F", order):
        here = replace(product, orders=(order, other, order))
        assert np.array_equal(here.launch(here.operands()), plain)
        there = replace(product, orders=(other, order, other))
        assert np.array_equal(there.launch(there.operands()), plain)


BLOCKS = [(1, 1, 1), (1, 1, 2), (1, 16, 4), (2, 2, 8), (4, 8, 1), (8, 1, 16), (16, 128, 2), (128, 128, 32)]
BLOCKS += [(64, 16, 128), (256, 4, 64), (4, 512, 8), (1, 256, 256), (32, 32, 1024), (1, 1, 4096), (16, 4, 4)]


@pytest.mark.parametrize("type_", ["f32", "bf16", "i1"])
def test_block_sizes_change_no_bit(type_):
    """Blocks from one element to thousands, in a product that spans several chunks and ends anywhere.

    For BF16 a block of k holds whole pairs, which the hardware multiplies in an order of its own.
    """
    result = "i4" if type_ == "i1" else "f32"
    blocks = [block for block in BLOCKS if type_ != "bf16" or block[2] > 1]
    results = []
    for block in blocks:
        product = Product((45, 531, 71), block, (type_, type_), result)
        results.append(product.launch(product.operands()))
    product.check_plain()
    for block, other in zip(blocks, results, strict=True):
        assert np.array_equal(other, results[-1]), block


@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16])
def test_few_rows(rows):
    """With few rows, long rows of the right operand are read in place where all of it is there."""
    for block in ((rows, 64, 64), (rows, 512, 16), (rows, 1024, 4)):
        product = Product((rows, 272, 1100), block)
        for sizes in ((rows, 272, 1100), (rows, 256, 1024), (rows, 7, 3), (3, 301, 600)):
            replace(product, sizes=sizes).check_plain()
        starting = replace(product, sizes=(rows, 70, 1100), start=STARTS["a computed tile"])
        replace(starting, turns=TURNS["past the end"], orders=("steps", "inside", "back")).check()
        replace(starting, turns=TURNS["before the start"], orders=("C", "steps", "C")).check()


def test_few_columns():
    for columns in (1, 2, 4, 8):
        Product((50, 100, columns), (16, columns, 8)).check_plain()


def row(kind, values):
    """An operand changed by a vector: of k, or of its other axis, that a program reads beside it."""

    def change(block, p, k, i, axis, of_k):
        length = block.shape[axis]
        shape = [1, length] if axis == 1 else [length, 1]
        vector = p.read(values if axis == 1 else values.T, shape)
        at = k if of_k else i
        vector = vector.at([0, at] if axis == 1 else [at, 0])
        return block * vector if kind == "scale" else block - vector

    return change


VALUES = numbers(np.random.default_rng(5), (1, 600), np.dtype(np.float32))
SCALE, SHIFT = row("scale", VALUES), row("shift", VALUES)
CHANGES = {
    "scaled": (lambda x, p, k, i: x * 2, lambda y, p, k, j: y * 0.5),
    "shifted": (lambda x, p, k, i: x + 1, lambda y, p, k, j: y - 1),
    "relu": (lambda x, p, k, i: x.relu(), lambda y, p, k, j: abs(y)),
    "rows of the sides": (
        lambda x, p, k, i: SCALE(x, p, k, i, 0, False),
        lambda y, p, k, j: SCALE(y, p, k, j, 1, False),
    ),
    "vectors along k": (
        lambda x, p, k, i: SCALE(x, p, k, i, 1, True),
        lambda y, p, k, j: SHIFT(y, p, k, j, 0, True),
    ),
    "numbered along the sides": (
        lambda x, p, k, i: x + p.iota(x.shape, 0),
        lambda y, p, k, j: y + p.iota(y.shape, 1),
    ),
    "numbered within a block of k": (
        lambda x, p, k, i: x + p.iota(x.shape, 1),
        lambda y, p, k, j: y * p.iota(y.shape, 0),
    ),
    "changed by the block of k": (lambda x, p, k, i: x * k.value(), lambda y, p, k, j: y + k.value()),
    "masked": (
        lambda x, p, k, i: (x > 0.1).select(x, p.k(0.5)),
        lambda y, p, k, j: (y < 0).select(p.k(0), y),
    ),
    "rounded": (lambda x, p, k, i: x.to(tile.F16), lambda y, p, k, j: y.to(tile.FP8)),
    "exact functions": (lambda x, p, k, i: abs(x).sqrt(), lambda y, p, k, j: (y * 3).floor()),
}


@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
@pytest.mark.parametrize("name", CHANGES)
def test_work_on_the_operands(name, transposed):
    """What changes elements on the way, also where it depends on k and where it changes the pad."""
    left, right = CHANGES[name]
    for sizes, block in (((37, 75, 50), (32, 16, 32)), ((20, 33, 10), (16, 16, 4))):
        product = Product(sizes, block, left=left, right=right, transposed=transposed)
        product.check()
        replace(product, pads=(1, 2), right=lambda y, p, k, j: y).check()


@pytest.mark.parametrize("storage", ["i1", "u1", "i2", "fp8", "bf16"])
def test_dequantised_operands(storage):
    """Small integers and floats with a scale for each row of the weights and one for each block of k."""
    rng = np.random.default_rng(1)
    m, k, n = 19, 130, 37
    x = numbers(rng, (m, k), np.dtype(np.float32))
    for order in ("C", "F"):
        w = laid_out(numbers(rng, (n, k), TYPES[storage]), order)
        per_row, zero = numbers(rng, (n, 1), np.dtype(np.float32)), numbers(rng, (n, 5), np.dtype(np.float32))
        y = np.empty((m, n), np.float32)

        def body(p, w=w, per_row=per_row, zero=zero, y=y):
            i, j = p.id(0), p.id(1)
            X, W, S = p.read(x, [16, 32]), p.read(w, [16, 32]), p.read(per_row, [16, 1])
            Z, Y = p.read(zero, [16, 1]), p.write(y, [16, 16])

            def turn(k, total):
                weights = (W.at([j, k]).to(tile.F32) - Z.at([j, k])) * S.at([j, 0])
                return total + X.at([i, k]).dot(weights.transpose())

            Y.put(p.fold(0, X.blocks(1), p.zeros([16, 16]), turn), [i, j])

        agree([2, 3], body)


STARTS = {
    "a number": lambda p, C, place: p.full(C.block, 3),
    "negative zeros": lambda p, C, place: p.full(C.block, -0.0),
    "a row": lambda p, C, place: p.iota([1, C.block[1]], 1) + p.zeros(C.block),
    "a computed tile": lambda p, C, place: (p.iota(C.block, 0) * place[-1].value()).sqrt(),
}


@pytest.mark.parametrize("name", STARTS)
def test_starts(name):
    for sizes in ((37, 50, 40), (37, 0, 40)):
        Product(sizes, (16, 32, 8), start=STARTS[name]).check()


def test_a_start_that_is_read_from_what_is_written():
    """c += a @ b, in place, also where c lies in steps and is of a narrow type."""
    for order, result in (("C", "f32"), ("steps", "f32"), ("F", "bf16"), ("back", "f16")):
        product = Product((37, 50, 40), (16, 32, 8), orders=("C", "C", order), result=result)
        a, b, c = product.operands()
        start = lambda p, C, place, c=c: p.read(c, C.block).at(place).to(tile.F32) * 0.5
        agree(*replace(product, start=start).program(a, b, c))


TURNS = {
    "from the second block": lambda p, blocks, i: (1, blocks),
    "up to the row": lambda p, blocks, i: (0, i + 1),
    "from the row": lambda p, blocks, i: (i, blocks),
    "past the end": lambda p, blocks, i: (0, blocks + 3),
    "before the start": lambda p, blocks, i: (-2, blocks),
    "none": lambda p, blocks, i: (blocks, 0),
    "a run-time number": lambda p, blocks, i: (p.arg(1), p.arg(3)),
    "a product of ids": lambda p, blocks, i: ((p.id(0) * p.id(1)) % 3, blocks - p.id(1)),
}


@pytest.mark.parametrize("name", TURNS)
def test_bounds_of_the_loop(name):
    """The loop's bounds, also those that differ from program to program and leave the tensor."""
    for types in (("f32", "f32"), ("f16", "f32")):
        product = Product((70, 61, 50), (16, 16, 16), types, turns=TURNS[name])
        product.check()
        replace(product, orders=("F", "F", "C"), pads=(1, 0.5)).check()


@pytest.mark.parametrize("batch", [(1,), (5,), (2, 3)])
def test_leading_dimensions(batch):
    for orders in (("C", "C", "C"), ("F", "steps", "inside"), ("inside", "F", "F")):
        Product((20, 33, 18), (16, 16, 8), batch=batch, orders=orders).check_plain()


def test_a_leading_dimension_that_all_share():
    """One matrix for a whole batch, as a view without a stride."""
    rng = np.random.default_rng(2)
    a = numbers(rng, (4, 20, 33), np.dtype(np.float32))
    b = np.broadcast_to(numbers(rng, (1, 33, 18), np.dtype(np.float32)), (4, 33, 18))
    product = Product((20, 33, 18), (16, 16, 8), batch=(4,))
    for left, right in ((a, b), (b.transpose(0, 2, 1), a.transpose(0, 2, 1))):
        sizes = (left.shape[1], 33, right.shape[2])
        c = np.empty((4, sizes[0], sizes[2]), np.float32)
        agree(*replace(product, sizes=sizes).program(left, right, c))


@pytest.mark.parametrize("columns_first", [False, True])
@pytest.mark.parametrize("sizes", [(300, 64, 8), (8, 64, 300), (200, 64, 200), (16, 64, 16)])
def test_programs_that_share_blocks(sizes, columns_first):
    """Many programs or few use a block, so that it is packed for the launch or by each of them."""
    for orders in (("C", "C", "C"), ("F", "F", "F"), ("steps", "back", "C")):
        for types in (("f32", "f32"), ("f16", "f16")):
            Product(sizes, (16, 16, 16), types, orders=orders, columns_first=columns_first).check_plain()


def test_two_products_in_one_loop():
    """A gate and its value share the left operand; one product starts elsewhere."""
    rng = np.random.default_rng(3)
    x, g, v = (numbers(rng, shape, np.dtype(np.float32)) for shape in ((21, 70), (70, 36), (70, 36)))
    for rows in (1, 16):
        y, z = np.empty((21, 36), np.float32), np.empty((21, 36), np.float32)

        def body(p, rows=rows, y=y, z=z):
            i, j = p.id(0), p.id(1)
            X, G, V = p.read(x, [rows, 16]), p.read(g, [16, 32]), p.read(v, [16, 32])

            def turn(k, both):
                left = X.at([i, k])
                return [both[0] + left.dot(G.at([k, j])), both[1] + (left * 2).dot(V.at([k, j]))]

            gate, value = p.loop(0, X.blocks(1), [p.zeros([rows, 32]), p.full([rows, 32], 1)], turn)
            p.write(y, [rows, 32]).put(gate.relu() * value, [i, j])
            p.write(z, [rows, 32]).put(gate, [i, j])

        agree([tile.cdiv(21, rows), 2], body)


@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("fp8", "i1")])
def test_two_products_of_their_own_blocks_and_types(types):
    """Nothing but the loop joins them; their numbers are whole, so that every order gives the same."""
    rng = np.random.default_rng(8)

    def whole(rows, columns, kind):
        return rng.integers(-2, 3, (rows, columns)).astype(np.float32).astype(TYPES[kind])

    for (rows, depth, columns), other in (
        ((16, 16, 32), (8, 64, 16)),
        ((32, 64, 8), (64, 2, 128)),
        ((1, 4, 512), (16, 32, 16)),
    ):
        a, b = whole(2 * rows - 1, 4 * depth - 1, types[0]), whole(4 * depth - 1, 2 * columns - 3, types[0])
        d, e = (
            whole(2 * other[0], 4 * other[1], types[1]),
            whole(4 * other[1], 2 * other[2], types[1]),
        )
        kind = tile.I32 if types[1] == "i1" else tile.F32
        first = np.zeros((len(a), b.shape[1]), np.float32)
        second = np.zeros((len(d), e.shape[1]), np.int32 if types[1] == "i1" else np.float32)

        def body(p, blocks=((rows, depth, columns), other), kind=kind, arrays=(a, b, d, e, first, second)):
            (m, k, n), (m2, k2, n2) = blocks
            shapes = [m, k], [k, n], [m2, k2], [k2, n2]
            A, B, D, E = (p.read(array, shape) for array, shape in zip(arrays, shapes, strict=False))
            i, j = p.id(0), p.id(1)

            def turn(k, both):
                return [
                    both[0] + A.at([i, k]).dot(B.at([k, j])),
                    both[1] + D.at([i, k]).dot(E.at([k, j])),
                ]

            x, y = p.loop(0, 4, [p.zeros([m, n]), p.full([m2, n2], 1, kind)], turn)
            p.write(arrays[4], [m, n]).put(x, [i, j])
            p.write(arrays[5], [m2, n2]).put(y, [i, j])

        agree([2, 2], body)


def test_a_result_that_is_stored_twice_and_used_on():
    rng = np.random.default_rng(4)
    a, b = numbers(rng, (40, 50), np.dtype(np.float32)), numbers(rng, (50, 30), np.dtype(np.float32))
    c, turned, total = np.empty((40, 30), np.float32), np.empty((30, 40), np.float16), np.empty((40, 2), "f4")

    def body(p):
        i, j = p.id(0), p.id(1)
        A, B = p.read(a, [16, 8]), p.read(b, [8, 16])
        s = p.fold(0, A.blocks(1), p.zeros([16, 16]), lambda k, t: t + A.at([i, k]).dot(B.at([k, j])))
        p.write(c, [16, 16]).put(s, [i, j])
        p.write(turned, [16, 16]).put(s.transpose(), [j, i])
        p.write(total, [16, 1]).put(s.max(1), [i, j])

    agree([3, 2], body)


@pytest.mark.parametrize("type_", ["f32", "bf16", "i1"])
def test_what_is_stored_with_a_product(type_):
    """Blocks are stored as they become whole: what they meet, edges on all sides, two places, no turn."""
    rng = np.random.default_rng(5)
    for m, depth, n, block in (
        (75, 40, 90, (32, 16, 64)),
        (40, 700, 33, (32, 64, 32)),
        (37, 0, 20, (16, 8, 16)),
    ):
        bm, bk, bn = block
        a, b = numbers(rng, (m, depth), TYPES[type_]), numbers(rng, (depth, n), TYPES[type_])
        row, column, near = (numbers(rng, shape, np.dtype(np.float32)) for shape in ((n,), (m, 1), (m, n)))
        c, d = np.empty((m + 8, n + 5), np.float32), np.empty((m, n - 3), np.float32)

        def body(p, a=a, b=b, row=row, column=column, near=near, c=c, d=d, bm=bm, bk=bk, bn=bn):
            i, j = p.id(0), p.id(1)
            A, B, N = p.read(a, [bm, bk]), p.read(b, [bk, bn]), p.read(near, [bm, bn])
            zero = p.zeros([bm, bn], tile.I32 if type_ == "i1" else tile.F32)
            s = p.fold(0, A.blocks(1), zero, lambda k, t: t + A.at([i, k]).dot(B.at([k, j])))
            value = (
                s.to(tile.F32) * p.read(column, [bm, 1]).at([i, 0]) + p.read(row, [bn]).at([j]) - N.at([i, j])
            )
            p.write(c, [bm, bn]).put_window(value + p.iota([bm, bn], 1), [i * bm - 3, j * bn - 7])
            p.write(d, [bm, bn]).put(value.relu(), [i, j])

        agree([-(-m // bm), -(-n // bn)], body, bound=1e-3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_fp8_code_in_a_product(side):
    """Codes times the identity, with edges inside a vector; a NaN takes its row or column with it."""
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    codes = np.concatenate([codes, codes[:, ::-1], codes[:, :19]], axis=1).view(TYPES["fp8"])
    unit = np.eye(147, dtype=np.float32).astype(TYPES["bf16"])
    a, b = (codes, unit) if side == "left" else (np.eye(4, dtype=np.float32).astype(TYPES["bf16"]), codes)
    for bm, bk, bn in ((16, 64, 32), (16, 32, 128)):
        c = np.empty((4, 147), np.float32)

        def body(p, c=c, bm=bm, bk=bk, bn=bn):
            j = p.id(0)
            A, B = p.read(a, [bm, bk]), p.read(b, [bk, bn])
            s = p.fold(0, A.blocks(1), p.zeros([bm, bn]), lambda k, t: t + A.at([0, k]).dot(B.at([k, j])))
            p.write(c, [bm, bn]).put(s, [0, j])

        agree([-(-147 // bn)], body)
        assert np.isnan(c).any() and np.isfinite(c).any()


def test_the_result_takes_the_left_operands_place():
    """a = a @ b, each program with rows of its own; and a view that overlaps what is written."""
    rng = np.random.default_rng(6)
    a, b = numbers(rng, (48, 32), np.dtype(np.float32)), numbers(rng, (32, 32), np.dtype(np.float32))
    agree(*Product((48, 32, 32), (16, 32, 8)).program(a, b, a))
    memory = numbers(rng, (80, 32), np.dtype(np.float32))
    # rows 16 to 64 are read and rows 0 to 48 written by one program after the other of one program
    grid, body = Product((64, 32, 32), (64, 32, 8)).program(memory[16:], b, memory[:64])
    agree(grid, body)


def test_windows_as_operands():
    """A convolution along one axis: the left operand moves by elements, the right one by blocks."""
    rng = np.random.default_rng(7)
    x, w = numbers(rng, (40, 24), np.dtype(np.float32)), numbers(rng, (5, 24, 18), np.dtype(np.float32))
    for order in ("C", "F"):
        image, y = laid_out(x, order), np.empty((40, 18), np.float32)

        def body(p, image=image, y=y):
            i, j = p.id(0), p.id(1)
            X, W = p.read(image, [16, 8]), p.read(w, [8, 16])

            def tap(t, total):
                def turn(k, total):
                    return total + X.window([i * 16 + t - 2, k * 8]).dot(W.at([t, k, j]))

                return p.fold(0, X.blocks(1), total, turn)

            p.write(y, [16, 16]).put(p.fold(0, 5, p.zeros([16, 16]), tap), [i, j])

        agree([3, 2], body)


def test_special_values_go_through():
    """Infinities and NaN reach the elements they should, and padding adds none."""
    for type_ in ("f32", "bf16", "f16"):
        product = Product((37, 45, 50), (32, 32, 32), (type_, type_))
        a, b, c = product.operands()
        a[3, 5], a[7, 44], b[44, 9] = np.inf, np.nan, -np.inf
        with np.errstate(all="ignore"):
            want = a.astype(np.float64) @ b.astype(np.float64)
        product.launch((a, b, c))
        assert np.array_equal(np.isnan(c), np.isnan(want))
        assert np.array_equal(np.isposinf(c), np.isposinf(want))
        assert np.array_equal(np.isneginf(c), np.isneginf(want))


@pytest.mark.parametrize("type_", ["f32", "bf16", "f16"])
def test_infinities_beyond_the_loops_bounds_stay_out(type_):
    """A loop over a part of k, in blocks shorter than the hardware's steps, sees that part alone."""
    for depth in (1, 2, 4, 8, 16, 32):
        product = Product((40, 100, 30), (16, 16, depth), (type_, type_))
        product = replace(product, turns=lambda p, blocks, i: (p.arg(1), p.arg(2)))
        a, b, c = product.operands()
        a[:, :depth], a[:, 2 * depth :], b[:depth], b[2 * depth :] = np.nan, np.inf, np.inf, np.nan
        product.launch((a, b, c))
        assert_product(c, a[:, depth : 2 * depth], b[depth : 2 * depth])


def test_bytes_that_are_kept_are_no_codes():
    """Another tensor is read through memory that the program stores to, so blocks are read once and kept."""
    a = numbers(np.random.default_rng(1), (32, 32), np.dtype(TYPES["fp8"]))
    c = np.zeros((32, 32), np.float32)
    flags, marks = np.zeros(8, bool), np.ones(8, bool)
    seen = flags[:]

    def body(p):
        block = p.read(a, [32, 32]).at([0, 0])
        p.write(c, [32, 32]).put(block.dot(block), [0, 0])
        p.write(flags, [8]).put(p.read(seen, [8]).at([0]) | p.read(marks, [8]).at([0]), [0])

    tile.run([1], body)
    assert_product(c, a, a)
    assert flags.all()
