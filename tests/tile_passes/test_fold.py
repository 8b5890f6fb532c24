"""Folding keeps every bit: each identity on special values, each constant as the devices compute it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from made_programs import assert_same_bits, operations, outputs, record
from tile_ir_interpreter import interpret_values

from gizml_tile.check import check
from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, I16, I32, I64, MASK, U8, U16, U32, U64
from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.fold import fold
from gizml_tile.nodes import Const, Node, Region, Slice, Steps, TileProgram, make

FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, -7.25, 1e-42, 3e38, -3e38, math.inf, -math.inf, math.nan, 1 / 3]
INTEGERS = [0, 1, -1, 2, 7, -7, 31, 2**31 - 1, -(2**31)]


def const(value, dtype=F32, shape=(1, 1)):
    if dtype is F32:
        value = float(np.float32(value))
    return make("const", (), Const(shape, dtype, value))


def program(*nodes):
    return TileProgram("test", (), (), (), Region((), nodes, ()))


def folded(*nodes):
    """What the last of the nodes folds to, and what it computes."""
    before = program(*nodes)
    check(before)
    after = fold(before)
    check(after)
    (value,) = interpret_values(before, [nodes[-1]])
    return after.body.nodes[-1], np.asarray(value)


def assert_constant(node, value):
    """Assert that a node is a constant that holds the value in every bit."""
    assert node.op == ("index" if node.is_index else "const")
    got = node.attr if node.is_index else np.full(node.shape, node.attr.value)
    if isinstance(got, np.ndarray) and got.dtype.kind == "f":
        same = (got == value) & (np.signbit(got) == np.signbit(value))
        assert np.all(same | (np.isnan(got) & np.isnan(value)))
    else:
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("op", "add sub mul div maximum minimum lt le gt ge eq ne".split())
def test_constant_floats(op):
    for a, b in product(FLOATS, FLOATS):
        left, right = const(a), const(b)
        assert_constant(*folded(left, right, make(op, (left, right))))


@pytest.mark.parametrize("op", "neg abs sqrt rsqrt floor ceil trunc round relu".split())
def test_constant_float_functions(op):
    for a in FLOATS:
        left = const(a)
        assert_constant(*folded(left, make(op, (left,))))


@pytest.mark.parametrize("dtype", [I32, I64])
def test_constant_counts_of_bits(dtype):
    for value in INTEGERS:
        number = const(value, dtype)
        for op in ("popcount", "clz"):
            assert_constant(*folded(number, make(op, (number,))))


def test_casts_of_casts():
    """The same type is the tile itself; there and back too. Constants stay: a NaN's bits are the device's."""
    x = make("id", (), 0)
    tile = make("value", (x,), I32)
    there = make("bitcast", (tile,), F32)
    ops = [node.op for node in fold(program(x, tile, make("bitcast", (tile,), I32))).body.nodes]
    assert ops == ["id", "value"]
    ops = [node.op for node in fold(program(x, tile, there, make("bitcast", (there,), I32))).body.nodes]
    assert ops == ["id", "value", "bitcast"]
    number = const(math.nan)
    assert folded(number, make("bitcast", (number,), I32))[0].op == "bitcast"


BINARY = "add sub mul rem floordiv floormod maximum minimum and_ or_ xor shl shr lt le gt ge eq ne"


@pytest.mark.parametrize("op", BINARY.split())
@pytest.mark.parametrize("dtype", [I32, I64])
def test_constant_integers(op, dtype):
    for a, b in product(INTEGERS, INTEGERS):
        left, right = const(a, dtype), const(b, dtype)
        assert_constant(*folded(left, right, make(op, (left, right))))


@pytest.mark.parametrize(
    "op", "add sub mul div rem floordiv floormod maximum minimum lt le gt ge eq ne".split()
)
def test_constant_indices(op):
    for a, b in product([*INTEGERS, 2**62, -(2**63)], [*INTEGERS, 2**63 - 1]):
        left, right = make("index", (), a), make("index", (), b)
        assert_constant(*folded(left, right, make(op, (left, right))))


@pytest.mark.parametrize("op", ["and_", "or_", "xor", "eq", "ne"])
def test_constant_masks(op):
    for a, b in product([False, True], [False, True]):
        left, right = const(a, MASK), const(b, MASK)
        assert_constant(*folded(left, right, make(op, (left, right))))


@pytest.mark.parametrize("dtype", [F32, F16, BF16, FP8, E5M2, I8, U8, I16, U16, I32, U32, I64, U64])
def test_constant_conversions(dtype):
    values = [*FLOATS, 448, 463.9, 464, 465, 65504, 65519.9, 65520, 3.4e38, 2**31, -(2**31) - 1, 2**63]
    cases = [const(value) for value in values]
    cases += [const(value, I64) for value in [*INTEGERS, 2**62 + 1, 2**24 + 1, 2**53 + 1]]
    cases += [const(value, MASK) for value in (False, True)]
    for case in cases:
        assert_constant(*folded(case, make("to", (case,), dtype)))


def test_constant_broadcast_and_reductions():
    wide, tall = const(2.0, shape=(1, 8)), const(-3.5, shape=(4, 1))
    both = make("mul", (wide, tall))
    node, value = folded(wide, tall, both)
    assert node.shape == (4, 8)
    assert_constant(node, value)
    for op, axis in product(["max", "min"], [0, 1]):
        assert_constant(*folded(wide, tall, both, make(op, (both,), axis)))
    counted = const(True, MASK, (4, 8))
    assert_constant(*folded(counted, make("sum", (counted,), 0)))
    many = const(2**30, I32, (4, 8))
    assert_constant(*folded(many, make("sum", (many,), 1)))
    # A sum of floats rounds as the device adds, which is not known here.
    assert folded(wide, make("sum", (wide,), 1))[0].op == "sum"


def test_index_values():
    for value, dtype in product([3, -1, 2**24 + 1, 2**40 + 3], [F32, I32, I64]):
        index = make("index", (), value)
        assert_constant(*folded(index, make("value", (index,), dtype)))


IDENTITIES = {
    "x + -0.0": lambda x: x + x.k(-0.0),
    "-0.0 + x": lambda x: x.k(-0.0) + x,
    "x - 0.0": lambda x: x - 0.0,
    "x * 1": lambda x: x * 1,
    "1 * x": lambda x: 1 * x,
    "x / 1": lambda x: x / 1,
    "neg neg": lambda x: x.neg().neg(),
    "to F32": lambda x: x.to(F32),
    "transposed twice": lambda x: x.T.T,
    "select same": lambda x: (x < 1).select(x, x),
}
NOT_IDENTITIES = {
    "x + 0.0": (lambda x: x + 0.0, "add"),
    "x - -0.0": (lambda x: x - x.k(-0.0), "sub"),
    "0.0 - x": (lambda x: 0.0 - x, "sub"),
    "x * 0": (lambda x: x * 0, "mul"),
    "x - x": (lambda x: x - x, "sub"),
    "x / x": (lambda x: x / x, "div"),
    "x == x": (lambda x: (x == x).to(F32), "eq"),
    "relu relu": (lambda x: x.relu().relu(), "relu"),
    "to BF16 and back": (lambda x: x.to(BF16).to(F32), "to"),
    "broadcast": (lambda x: x.max(0).max(1) + x.k(-0.0).maximum(x.k(-0.0)) * (x - x), "sub"),
}


def elementwise(function, source="y"):
    def body(p, x, y, n, out, ints):
        at = [p.id(0), p.id(1)]
        tile = function(p.read({"y": y, "n": n}[source], [8, 8]).at(at))
        p.write(out if tile.dtype.is_float else ints, [8, 8]).put(tile, at)

    return record(body)


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities_vanish_and_keep_bits(name):
    traced = elementwise(IDENTITIES[name])
    after = eliminate_dead(fold(traced.program))
    check(after)
    assert operations(after) == ["id", "id", "read", "put"]
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


@pytest.mark.parametrize("name", NOT_IDENTITIES)
def test_what_would_change_bits_stays(name):
    function, op = NOT_IDENTITIES[name]
    traced = elementwise(function)
    after = eliminate_dead(fold(traced.program))
    check(after)
    assert op in operations(after)
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


INTEGER_IDENTITIES = {
    "x + 0": lambda x: x + 0,
    "x - 0": lambda x: x - 0,
    "x * 1": lambda x: x * 1,
    "x // 1": lambda x: x // 1,
    "x & -1": lambda x: x & -1,
    "x | 0": lambda x: x | 0,
    "x ^ 0": lambda x: x ^ 0,
    "x << 0": lambda x: x << 0,
    "x >> 0": lambda x: x >> 0,
    "~~x": lambda x: ~~x,
    "neg neg": lambda x: x.neg().neg(),
}


@pytest.mark.parametrize("name", INTEGER_IDENTITIES)
def test_integer_identities_vanish(name):
    traced = elementwise(INTEGER_IDENTITIES[name], "n")
    after = eliminate_dead(fold(traced.program))
    check(after)
    assert operations(after) == ["id", "id", "read", "put"]
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


def test_integer_products_with_zero_are_zero():
    traced = elementwise(lambda x: (x * 0) + (x & 0), "n")
    after = eliminate_dead(fold(traced.program))
    assert sorted(operations(after)) == ["const", "id", "id", "put"]
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


INDEX_FORMS = {
    "chain": (lambda i, j: (i + 3) + 4 - 5, 1),
    "left constant": (lambda i, j: 3 + (4 + i), 1),
    "products": (lambda i, j: (i * 3) * 4, 1),
    "zero": (lambda i, j: i * 0 + j - j, 0),
    "remainder": (lambda i, j: i % 1 + j.rem(-1), 0),
    "same": (lambda i, j: i.maximum(i), 0),
    "negated": (lambda i, j: i.neg().neg(), 0),
    "kept": (lambda i, j: (i + j) * 2 - i // 3, 4),
}


@pytest.mark.parametrize("name", INDEX_FORMS)
def test_index_arithmetic(name):
    function, count = INDEX_FORMS[name]

    def body(p, x, y, n, out, ints):
        index = function(p.id(0), p.id(1))
        p.write(ints, [1, 1]).put(index.value(I32), [p.id(0), p.id(1)])

    traced = record(body)
    after = eliminate_dead(fold(traced.program))
    check(after)
    left = [op for op in operations(after) if op not in ("id", "index", "const", "value", "put")]
    assert len(left) == count
    assert_same_bits(outputs(after, traced, (5, 4)), outputs(traced.program, traced, (5, 4)))


def test_known_branches_and_loops_without_turns_disappear():
    def body(p, x, y, n, out, ints):
        X = p.read(x, [8, 8])
        i, j = p.id(0), p.id(1)
        one = p.cond(p.int(3) < 4, lambda: X.at([i, j]), lambda: X.at([j, i]))
        two, at = p.cond(p.int(3) > 4, lambda: (X.at([i, j]), i), lambda: (one.exp(), j))
        three = p.fold(5, 5, two, lambda k, acc: acc + 1)
        four = p.fold(0, 5, three, lambda k, acc: acc + 2, step=-1)
        p.write(out, [8, 8]).put(four, [i, at])

    traced = record(body)
    after = eliminate_dead(fold(traced.program))
    check(after)
    assert operations(after) == ["id", "id", "read", "exp", "put"]
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


def test_stores_in_a_known_branch_stay():
    def body(p, x, y, n, out, ints):
        C = p.write(out, [8, 8])
        p.cond(p.int(1) > 0, lambda: C.put(1.0, [p.id(0), 0]), lambda: C.put(2.0, [p.id(0), 0]))

    traced = record(body)
    after = fold(traced.program)
    check(after)
    assert "cond" not in operations(after) and operations(after).count("put") == 1
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))


def test_uniform_selects():
    def body(p, x, y, n, out, ints):
        one = (p.int(2) > 1).select(p.id(0), p.id(1))
        two = (p.id(0) > 1).select(one, one)
        p.write(out, [8, 8]).put(1.0, [two, p.id(1)])

    traced = record(body)
    after = eliminate_dead(fold(traced.program))
    assert operations(after) == ["id", "id", "const", "put"]


def test_an_unchanged_program_is_the_same_object():
    traced = elementwise(lambda x: x.exp() * x)
    assert fold(traced.program) is traced.program


def test_nodes_made_by_folding_know_their_line():
    traced = elementwise(lambda x: x * (x.k(2) * 3))
    (made,) = [
        node for node in fold(traced.program).body.nodes if node.op == "const" and node.attr.value == 6
    ]
    assert made.place is not None and made.place.filename == __file__
    assert isinstance(made, Node)


def tile_of(shape=(8, 16), dtype=F32):
    return make("iota", (), Const(shape, dtype, 0))


def whole(size):
    return Steps.whole(size)


def kept(*nodes):
    """The node that the last one folds to."""
    return folded(*nodes, make("neg", (nodes[-1],)))[0].args[0]


def test_moves_that_come_to_nothing():
    x, y = tile_of(), tile_of()
    across = make("reshape", (x,), (4, 32))
    assert kept(x, across, make("reshape", (across,), (8, 16))) is x
    assert kept(x, make("reshape", (x,), (8, 16))) is x
    twice = make("slice", (x,), Slice(Steps(7, -1, 8), whole(16)))
    assert kept(x, twice, make("slice", (twice,), Slice(Steps(7, -1, 8), whole(16)))) is x
    halves = [make("slice", (x,), Slice(whole(8), Steps(start, 1, 8))) for start in (0, 8)]
    assert kept(x, *halves, make("concat", tuple(halves), 1)) is x
    for axis, taken in enumerate((Slice(Steps(8, 1, 8), whole(16)), Slice(whole(8), Steps(16, 1, 16)))):
        both = make("concat", (x, y), axis)
        assert kept(x, y, both, make("slice", (both,), taken)) is y


def test_moves_that_do_something_stay():
    x = tile_of((8, 8))
    halves = [make("slice", (x,), Slice(whole(8), Steps(start, 1, 4))) for start in (0, 4)]
    swapped = make("concat", tuple(halves[::-1]), 1)
    assert folded(x, *halves, swapped)[0].op == "concat"
    below = make("concat", tuple(halves), 0)
    assert folded(x, *halves, below)[0].op == "concat"
    once = make("reshape", (make("reshape", (x,), (4, 16)),), (16, 4))
    node, value = folded(x, once.args[0], once)
    assert node.op == "reshape" and node.args[0].op == "iota" and value.shape == (16, 4)


@pytest.mark.parametrize("first", [Steps(1, 2, 8), Steps(14, -2, 8), Steps(3, 1, 8)])
@pytest.mark.parametrize("second", [Steps(1, 3, 2), Steps(7, -1, 8), Steps(6, -4, 2), Steps(5, 1, 1)])
def test_slices_of_slices_are_one(first, second):
    x = tile_of((16, 4))
    inner = make("slice", (x,), Slice(first, whole(4)))
    node, value = folded(x, inner, make("slice", (inner,), Slice(second, Steps(3, -1, 4))))
    assert node.op == "slice" and node.args[0].op == "iota"
    taken = np.arange(16)[first.start :: first.step][:8]
    expected = [taken[second.start + second.step * number] for number in range(second.size)]
    assert value[:, 0].tolist() == expected
    (again,) = interpret_values(program(x, node), [node])
    assert np.array_equal(again, value)


def test_constants_stay_constant():
    for values in ((2.0, 2.0), (math.nan, math.nan), (0.0, -0.0), (1.0, 2.0)):
        a, b = (const(value, shape=(4, 8)) for value in values)
        for op in ("concat", "interleave"):
            node, value = folded(a, b, make(op, (a, b), 1))
            assert (node.op == "const") == (repr(values[0]) == repr(values[1]))
            if node.op == "const":
                assert_constant(node, value)
    for node in (make("reshape", (a,), (2, 16)), make("slice", (a,), Slice(Steps(1, 1, 2), Steps(7, -1, 8)))):
        assert_constant(*folded(a, node))
