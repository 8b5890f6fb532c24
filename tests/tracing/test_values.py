"""What each method gives: operation, shape and type; operators, numbers and arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.check import check
from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I16, I32, I64, MASK, U8, DType
from gizml_tile.index import Index
from gizml_tile.nodes import UNARY_FLOAT
from gizml_tile.program import Program, current, trace
from gizml_tile.text import text
from gizml_tile.tile import Tile

TENSORS = {each: np.zeros((64, 64), ml_dtypes.bfloat16) for each in "ab"}


def made(function):
    """The value that ``function(p)`` makes and the program around it."""
    kept = []

    def body(p):
        kept.append(function(p))

    traced = trace("test", body)
    check(traced.program)
    return kept[0], traced.program


def tiles(p, dtype, shape=(8, 4)):
    """A tile of a type that is no constant."""
    array = np.zeros((64, 64), _numpy(dtype))
    return p.read(array, shape).at([0, 0])


def _numpy(dtype):
    from gizml_tile.dtypes import to_numpy

    return to_numpy(dtype)


FLOAT_TYPES = [F32, F16, BF16, FP8]
INTEGER_TYPES = [I8, U8, I16, I32, I64]

UNARY = sorted(UNARY_FLOAT | {"neg", "abs"})


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_functions_give_f32(op, dtype):
    value, program = made(lambda p: getattr(tiles(p, dtype), op)())
    assert (value.shape, value.dtype) == ((8, 4), F32)
    assert program.body.nodes[-1].op == op


@pytest.mark.parametrize("op", "add sub mul div maximum minimum".split())
@pytest.mark.parametrize("a", FLOAT_TYPES)
@pytest.mark.parametrize("b", FLOAT_TYPES)
def test_float_arithmetic_gives_f32(op, a, b):
    value, _ = made(lambda p: getattr(tiles(p, a, (8, 1)), op)(tiles(p, b, (1, 4))))
    assert (value.shape, value.dtype) == ((8, 4), F32)


INTEGER_ARITHMETIC = "add sub mul rem floordiv floormod maximum minimum and_ or_ xor shl shr".split()


@pytest.mark.parametrize("op", INTEGER_ARITHMETIC)
@pytest.mark.parametrize("a", INTEGER_TYPES)
@pytest.mark.parametrize("b", INTEGER_TYPES)
def test_integer_arithmetic_gives_i32_or_i64(op, a, b):
    value, _ = made(lambda p: getattr(tiles(p, a), op)(tiles(p, b)))
    assert value.dtype is (I64 if I64 in (a, b) else I32)


@pytest.mark.parametrize("op", "lt le gt ge eq ne".split())
@pytest.mark.parametrize("dtype", [*FLOAT_TYPES, *INTEGER_TYPES])
def test_comparisons_give_masks(op, dtype):
    value, _ = made(lambda p: getattr(tiles(p, dtype), op)(tiles(p, dtype, (1, 4))))
    assert (value.shape, value.dtype) == ((8, 4), MASK)


@pytest.mark.parametrize("source", [*FLOAT_TYPES, *INTEGER_TYPES, MASK])
@pytest.mark.parametrize("dtype", [*FLOAT_TYPES, *INTEGER_TYPES])
def test_conversions(source, dtype):
    value, _ = made(lambda p: tiles(p, source).to(dtype))
    assert (value.shape, value.dtype) == ((8, 4), dtype)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
@pytest.mark.parametrize("dtype", [BF16, I8, I64, MASK])
def test_reductions(op, axis, dtype):
    value, _ = made(lambda p: getattr(tiles(p, dtype), op)(axis))
    assert value.shape == ((1, 4) if axis % 2 == 0 else (8, 1))
    wanted = {BF16: F32, I8: I32, I64: I64, MASK: I32 if op == "sum" else MASK}
    assert value.dtype is wanted[dtype]


@pytest.mark.parametrize("dtype", [BF16, I8, I64])
def test_along_an_axis(dtype):
    kind = {BF16: F32, I8: I32, I64: I64}[dtype]
    for name in ("prod", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin"):
        value, _ = made(lambda p, name=name: getattr(tiles(p, dtype), name)(0))
        assert value.shape == ((8, 4) if name.startswith("cum") else (1, 4)), name
        assert value.dtype is (I32 if name.startswith("arg") else kind), name
    pair, _ = made(lambda p: tiles(p, dtype).reduce(lambda a, b, c, d: (a, d), 1, tiles(p, I32)))
    assert [(each.shape, each.dtype) for each in pair] == [((8, 1), kind), ((8, 1), I32)]
    value, _ = made(lambda p: tiles(p, dtype, (8, 1)).cumsum(1))
    assert (value.shape, value.dtype) == ((8, 1), kind)
    for shape, function in (((8, 4), lambda a: a.sort(1)), ((2, 4), lambda a: a.topk(2, 0, largest=False))):
        pair, _ = made(lambda p, function=function: function(tiles(p, dtype)))
        assert [(each.shape, each.dtype) for each in pair] == [(shape, kind), (shape, I32)]
    pair, _ = made(lambda p: tiles(p, dtype, (1, 4)).sort(0))
    assert [(each.shape, each.dtype) for each in pair] == [((1, 4), kind), ((1, 4), I32)]
    if dtype.is_integer:
        value, _ = made(lambda p: tiles(p, dtype).histogram(16))
        assert (value.shape, value.dtype) == ((1, 16), I32)
    value, _ = made(lambda p: tiles(p, MASK).cumsum(-1))
    assert (value.shape, value.dtype) == ((8, 4), I32)
    value, _ = made(lambda p: tiles(p, MASK).any(-1).all(0))
    assert (value.shape, value.dtype) == ((1, 1), MASK)


@pytest.mark.parametrize(
    ("a", "b", "result"), [(BF16, BF16, F32), (FP8, F32, F32), (I8, U8, I32), (I8, I8, I32)]
)
def test_matrix_products(a, b, result):
    value, _ = made(lambda p: tiles(p, a, (8, 16)) @ tiles(p, b, (16, 2)))
    assert (value.shape, value.dtype) == ((8, 2), result)


def test_tuples_are_chosen_pair_by_pair():
    value, _ = made(lambda p: tiles(p, F32).lt(0).select((tiles(p, BF16), 1), (tiles(p, BF16), tiles(p, U8))))
    assert [each.dtype for each in value] == [BF16, I32]


def test_what_keeps_the_storage_type():
    value, _ = made(lambda p: tiles(p, BF16).T)
    assert (value.shape, value.dtype) == ((4, 8), BF16)
    value, _ = made(lambda p: tiles(p, F32).lt(0).select(tiles(p, BF16), tiles(p, BF16)))
    assert value.dtype is BF16
    value, _ = made(lambda p: tiles(p, F32).lt(0).select(tiles(p, BF16), tiles(p, F16)))
    assert value.dtype is F32
    value, _ = made(lambda p: tiles(p, F32).lt(0).select(tiles(p, U8), 0))
    assert value.dtype is I32
    value, _ = made(lambda p: tiles(p, F32).lt(0).select(1, 0))
    assert (value.shape, value.dtype) == ((8, 4), F32)
    value, _ = made(lambda p: tiles(p, F32).lt(0).select(True, tiles(p, MASK)))
    assert value.dtype is MASK


def test_select_of_indices():
    for yes, no in ((lambda p: p.id(1), lambda p: 3), (lambda p: 1, lambda p: 0)):
        value, _ = made(lambda p, y=yes, n=no: (p.id(0) < 4).select(y(p), n(p)))
        assert isinstance(value, Index)
    value, _ = made(lambda p: ((p.id(0) < 4) & (p.id(1) >= 2)).not_().select(p.id(0), 1))
    assert isinstance(value, Index)
    value, _ = made(lambda p: (p.id(0) < 4).select(p.id(0), 0.5))
    assert (value.shape, value.dtype) == ((1, 1), F32)
    value, _ = made(lambda p: (p.id(0) < 4).select(tiles(p, I8), p.id(0)))
    assert (value.shape, value.dtype) == ((8, 4), I32)


OPERATORS = {
    "add": lambda x: x + 2,
    "sub": lambda x: x - 2,
    "mul": lambda x: x * 2,
    "floordiv": lambda x: x // 2,
    "floormod": lambda x: x % 2,
    "and_": lambda x: x & 2,
    "or_": lambda x: x | 2,
    "xor": lambda x: x ^ 2,
    "shl": lambda x: x << 2,
    "shr": lambda x: x >> 2,
    "lt": lambda x: x < 2,
    "le": lambda x: x <= 2,
    "gt": lambda x: x > 2,
    "ge": lambda x: x >= 2,
    "eq": lambda x: x == 2,
    "ne": lambda x: x != 2,
}
REFLECTED = {
    "add": lambda x: 2 + x,
    "sub": lambda x: 2 - x,
    "mul": lambda x: 2 * x,
    "floordiv": lambda x: 2 // x,
    "floormod": lambda x: 2 % x,
    "and_": lambda x: 2 & x,
    "or_": lambda x: 2 | x,
    "xor": lambda x: 2 ^ x,
    "shl": lambda x: 2 << x,
    "shr": lambda x: 2 >> x,
}


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_are_the_methods(op):
    _, one = made(lambda p: OPERATORS[op](tiles(p, I32)))
    _, other = made(lambda p: getattr(tiles(p, I32), op)(2))
    assert text(one, places=False) == text(other, places=False)
    assert one.body.nodes[-1].op == op


@pytest.mark.parametrize("op", REFLECTED)
def test_reflected_operators_keep_the_order(op):
    _, program = made(lambda p: REFLECTED[op](tiles(p, I32)))
    *_, node = program.body.nodes
    assert node.op == op
    assert [arg.op for arg in node.args] == ["const", "read"]


@pytest.mark.parametrize("op", "add sub mul floordiv floormod lt le gt ge eq ne".split())
def test_index_operators(op):
    value, program = made(lambda p: OPERATORS[op](p.id(0)))
    assert isinstance(value, Tile if op in "lt le gt ge eq ne" else Index)
    assert [node.op for node in program.body.nodes] == ["id", "index", op]


def test_float_operators():
    for function, op in (
        (lambda x: x / 2, "div"),
        (lambda x: 2 / x, "div"),
        (lambda x: -x, "neg"),
        (lambda x: abs(x), "abs"),
        (lambda x: x**0.5, "sqrt"),
        (lambda x: x**-0.5, "rsqrt"),
        (lambda x: x**0, "const"),
        (lambda x: x @ x.T, "dot"),
    ):
        _, program = made(lambda p, f=function: f(tiles(p, F32)))
        assert program.body.nodes[-1].op == op
    _, program = made(lambda p: ~tiles(p, MASK))
    assert program.body.nodes[-1].op == "not_"
    _, program = made(lambda p: tiles(p, MASK) ^ tiles(p, MASK))
    assert program.body.nodes[-1].op == "ne"


@pytest.mark.parametrize(
    ("exponent", "products"),
    [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4), (8, 3), (-1, 0), (-6, 3), (2.0, 1)],
)
def test_powers_are_products(exponent, products):
    _, program = made(lambda p: tiles(p, F32) ** exponent)
    ops = [node.op for node in program.body.nodes]
    assert ops.count("mul") == products
    assert ops.count("div") == (exponent < 0)


def test_a_first_power_is_mathematics_too():
    value, _ = made(lambda p: tiles(p, BF16) ** 1)
    assert value.dtype is F32
    value, _ = made(lambda p: p.id(0) ** 3)
    assert isinstance(value, Index)


def test_numpy_scalars_on_the_left():
    for scalar in (np.float32(2), np.float64(2), np.int64(2), ml_dtypes.bfloat16(2), np.array(2.0)):
        value, program = made(lambda p, s=scalar: s * tiles(p, F32))
        assert (value.shape, value.dtype) == ((8, 4), F32)
        assert program.body.nodes[-2].attr.value == 2.0
    value, _ = made(lambda p: np.int32(2) < p.id(0))
    assert value.dtype is MASK
    value, _ = made(lambda p: np.int32(2) - p.id(0))
    assert isinstance(value, Index)


def test_numbers_round_once():
    for value, wanted in (
        (0.1, float(np.float32(0.1))),
        (16777217, 16777216.0),
        (1e60, float("inf")),
        (2**200, float("inf")),
        (True, 1.0),
    ):
        _, program = made(lambda p, v=value: tiles(p, F32) + v)
        assert program.body.nodes[-2].attr.value == wanted
    # Half way between two BF16 numbers but for a bit that rounding to F32 first would drop.
    value = 1 + 2**-8 + 2**-30
    _, program = made(lambda p: p.full([8], value, BF16))
    assert program.body.nodes[-1].attr.value == 1 + 2**-7
    for dtype, value, wanted in ((FP8, 1e9, 448.0), (F16, 1e9, float("inf")), (FP8, -np.inf, -448.0)):
        _, program = made(lambda p, d=dtype, v=value: p.full([8], v, d))
        assert program.body.nodes[-1].attr.value == wanted


def test_an_index_beside_tiles():
    for dtype, wanted in ((F32, F32), (BF16, F32), (I8, I32), (I64, I64)):
        value, program = made(lambda p, d=dtype: tiles(p, d) + p.id(0))
        assert program.body.nodes[-2].op == "value" and program.body.nodes[-2].attr is wanted
        value, _ = made(lambda p, d=dtype: p.id(0) - tiles(p, d))
        assert value.dtype is wanted


def test_shapes_and_types_of_what_a_program_makes():
    value, _ = made(lambda p: p.zeros([4]))
    assert (value.shape, value.dtype) == ((1, 4), F32)
    value, _ = made(lambda p: p.zeros(16))
    assert value.shape == (1, 16)
    value, _ = made(lambda p: p.zeros(np.array([2, 4]), np.int32))
    assert (value.shape, value.dtype) == ((2, 4), I32)
    value, _ = made(lambda p: p.full((2, 4), 1.5, ml_dtypes.bfloat16))
    assert value.dtype is BF16
    value, _ = made(lambda p: p.iota([2, 4], -1, I8))
    assert (value.shape, value.dtype) == ((2, 4), I8)
    value, _ = made(lambda p: p.k(3, DType.I64))
    assert (value.shape, value.dtype) == ((1, 1), I64)
    value, _ = made(lambda p: p.zeros([4]).k(1.0))
    assert value.shape == (1, 1)
    value, _ = made(lambda p: p.id(0).k(7))
    assert isinstance(value, Index)
    value, _ = made(lambda p: p.id(0).value(I64))
    assert value.dtype is I64


def test_the_grid_has_three_axes():
    _, program = made(lambda p: [p.id(0), p.count(2)])
    assert [node.op for node in program.body.nodes] == ["id", "count"]

    def body(p):
        p.id(1), p.count(1), p.id(0)

    nodes = trace("test", body, grid_rank=1).program.body.nodes
    assert [(node.op, node.attr) for node in nodes] == [("index", 0), ("index", 1), ("id", 0)]


def test_settings_of_a_program():
    _, program = made(lambda p: (p.warps(4), p.stages(3), p.approx(), tiles(p, F32).exp().gelu().gelu_erf()))
    assert (program.warps, program.stages, program.approx) == (4, 3, True)
    assert [node.attr for node in program.body.nodes[-3:]] == [True, True, None]
    _, program = made(lambda p: (tiles(p, F32).exp(approx=True), tiles(p, F32).exp()))
    assert [node.attr for node in program.body.nodes if node.op == "exp"] == [True, False]


def test_run_time_numbers():
    def body(p):
        p.arg(3), p.arg(0.1), p.arg(np.float32(2)), p.arg(3)

    traced = trace("test", body)
    assert traced.scalars == (3, float(np.float32(0.1)), 2.0, 3)
    assert [each.dtype for each in traced.program.scalars] == [I64, F32, F32, I64]
    assert len({each.name for each in traced.program.scalars}) == 4
    check(traced.program)


def test_arguments_of_a_signature():
    a = TensorArgument("a", BF16, 3, 0)
    c = TensorArgument("c", F32, 2, 1)
    n, scale = ScalarArgument("n", I64, 0), ScalarArgument("scale", F32, 1)

    def body(p):
        assert current()._trace is p._trace
        assert isinstance(p, Program)
        assert (a.ndim, a.dtype, c.dtype) == (3, BF16, F32)
        rows = a.shape[1]
        A, C = p.read(a, [8, 8]), p.write(c, [8, 8])
        assert isinstance(p.arg(n) + rows, Index)
        C[p.arg(n), 0] = A[0, p.arg(n), 0] * p.arg(scale)

    traced = trace("kernel", body)
    assert current() is None
    check(traced.program)
    assert traced.tensors == (a, c)
    assert traced.writes == (1,)
    assert traced.scalars == (n, scale)
    assert [(each.name, each.dtype, each.rank) for each in traced.program.tensors] == [
        ("a", BF16, 3),
        ("c", F32, 2),
    ]
    assert len(traced.program.scalars) == 2


def test_one_tensor_read_and_written_is_one():
    data, other = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)

    def body(p):
        p.write(data, [8, 8]).put(p.read(data, [8, 8])[0, 0] + p.read(other, [8, 8])[0, 0], [0, 0])
        p.write(other, [8])
        p.write(data, [8])

    traced = trace("test", body)
    assert len(traced.tensors) == 2
    assert traced.tensors[0] is data and traced.tensors[1] is other
    assert traced.writes == (0, 1, 0)


def test_blocks_and_sizes():
    data = np.zeros((3, 100, 70), np.float32)

    def body(p):
        A = p.read(data, [32, 1])
        assert (A.block, A.ndim, A.dtype) == ((32, 1), 3, F32)
        assert isinstance(A.blocks(0), Index)
        A.blocks(-2)
        A.blocks(2)
        A.dim(-1)

    program = trace("test", body).program
    ops = [(node.op, node.attr) for node in program.body.nodes]
    blocks = [("size", (0, 1)), ("index", 31), ("add", None), ("index", 32), ("div", None)]
    assert ops == [("size", (0, 0)), *blocks, ("size", (0, 2)), ("size", (0, 2))]


def test_pads_are_elements():
    for dtype, pad, wanted in (
        (F32, -np.inf, -np.inf),
        (BF16, 0.1, float(ml_dtypes.bfloat16(0.1))),
        (I8, 3.0, 3),
    ):
        data = np.zeros((8, 8), _numpy(dtype))
        _, program = made(lambda p, d=data, pad=pad: p.read(d, [8], pad=pad)[0, 0])
        found = program.body.nodes[-1].attr.pad
        assert found == wanted and type(found) is type(wanted)
    _, program = made(lambda p: p.read(np.zeros(8, bool), [8], pad=True)[0])
    assert program.body.nodes[-1].attr.pad is True


def test_a_single_coordinate_needs_no_list():
    data = np.zeros(64, np.float32)

    def body(p):
        A, C = p.read(data, [8]), p.write(data, [8])
        C[p.id(0)] = A[p.id(0)] + A.window(3) + A.at([np.int64(2)])

    check(trace("test", body).program)


def test_stores_of_other_types():
    for dtype, source in ((BF16, F32), (F32, FP8), (I64, U8), (I8, U8), (I32, I16), (MASK, MASK)):
        data = np.zeros((64, 64), _numpy(dtype))
        _, program = made(lambda p, d=data, s=source: p.write(d, [8, 4]).put(tiles(p, s), [0, 0]))
        assert program.body.nodes[-1].op == "put"
    for dtype, number in ((I8, -128), (U8, 255), (MASK, True), (F16, 3), (F32, True), (I64, 2**40)):
        data = np.zeros((64, 64), _numpy(dtype))
        _, program = made(lambda p, d=data, n=number: p.write(d, [8, 4]).put(n, [0, 0]))
        assert program.body.nodes[0].attr.value == number


def test_branches_take_what_is_known_to_be_uniform():
    def body(p):
        i = p.id(0)
        uniform = [i < 3, p.k(True, MASK), ~(i < 3), (i < 3) & (i > 1) | True, (i < 3) ^ (i > 1)]
        uniform.append((i < 3).select(i == 2, False))
        for condition in uniform:
            p.cond(condition, lambda: None)
        p.cond(True, lambda: None)

    program = trace("test", body).program
    check(program)
    assert [node.op for node in program.body.nodes].count("cond") == 6


def test_branches_give_values_in_the_form_that_they_return():
    def body(p):
        i = p.id(0)
        assert p.cond(i < 3, lambda: None, lambda: None) is None
        assert isinstance(p.cond(i < 3, lambda: i, lambda: 3), Index)
        assert p.cond(i < 3, lambda: 1, lambda: 2.5).dtype is F32
        assert p.cond(i < 3, lambda: True, lambda: False).dtype is MASK
        kept, tile = p.cond(i < 3, lambda: ("name", p.zeros([8])), lambda: ("name", p.zeros([8])))
        assert kept == "name" and tile.shape == (1, 8)
        assert p.cond(i < 3, lambda: tiles(p, I8, (1, 1)), lambda: 7).dtype is I8
        assert p.cond(False, lambda: 1, lambda: (2, 3)) == (2, 3)
        assert p.cond(False, lambda: 1) is None

    check(trace("test", body).program)


def test_loops_carry_what_they_are_given():
    def body(p):
        i = p.id(0)
        values = p.loop(i, 8, (0, 0.5, i < 3, tiles(p, BF16)), lambda k, carried: tuple(carried), step=-1)
        assert [type(each) for each in values] == [Index, Tile, Tile, Tile]
        assert [each.dtype for each in values[1:]] == [F32, MASK, BF16]
        assert isinstance(p.fold(0, 3, 5, lambda k, j: k), Index)
        assert p.fold(0, 3, 1.0, lambda k, x: 2).dtype is F32
        assert p.loop(0, 3, [], lambda k, carried: None) == []

    check(trace("test", body).program)


def test_an_index_stays_one():
    out = np.zeros(4, np.int32)

    def body(p):
        i = p.int(p.id(0) + 1)
        p.write(out, [1]).put(i.value(tile.I32), [p.id(0)])

    tile.run([4], body)
    assert out.tolist() == [1, 2, 3, 4]
