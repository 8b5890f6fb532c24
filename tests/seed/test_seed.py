"""Walks the list of functions, methods, types and constants that the language promises; none is missing.

``names.txt`` has one a line. Each is found under its Python name and exercised against NumPy in float64,
with the bound that the language states.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

import gizml_tile as tile

LINES = [line.split() for line in Path(__file__).with_name("names.txt").read_text().splitlines()]
NAMES = [name for _, name in LINES]
HALF_ULP = 2.0**-24
CASES = {}


def case(*names):
    """The test of some names of the list."""

    def keep(function):
        for name in names:
            assert name not in CASES, name
            CASES[name] = function
        return function

    return keep


def python_name(name):
    """putWindow is put_window, geluErf gelu_erf, and and_."""
    owner, _, method = name.rpartition(".")
    method = re.sub("[A-Z]", lambda match: "_" + match[0].lower(), method) if owner else method
    return f"{owner}.{method}".lstrip(".") + ("_" if method in ("and", "or", "not") else "")


def find(name):
    found = tile
    for part in python_name(name).split("."):
        found = getattr(found, part)
    return found


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compute(body, *inputs, shape=None, block=(8, 16), dtype=np.float32):
    """An output whose blocks are ``body`` of the inputs' blocks at the same place (blocks of any edge)."""
    out = np.full(shape or inputs[0].shape, 7, dtype)

    def program(p):
        i, j = p.id(0), p.id(1)
        tiles = [p.read(array, block).at([i, j]) for array in inputs]
        p.write(out, block).put(body(p, *tiles), [i, j])

    tile.run([tile.cdiv(out.shape[0], block[0]), tile.cdiv(out.shape[1], block[1])], program)
    return out


def close(result, truth, bound=HALF_ULP):
    """Within ``bound`` of the true value, relatively (or half the smallest subnormal)."""
    truth = np.asarray(truth, np.float64)
    assert result.shape == truth.shape
    assert np.all(np.abs(result.astype(np.float64) - truth) <= bound * np.abs(truth) + 2.0**-150)


def ulps(result, truth, count):
    """Within ``count`` spacings of float32 at the true value."""
    spacing = np.ldexp(1.0, np.maximum(np.frexp(truth)[1] - 24, -149))
    assert np.all(np.abs(result.astype(np.float64) - truth) <= count * spacing)


@pytest.mark.parametrize(("kind", "name"), LINES)
def test_name(kind, name):
    found = find(name)
    assert isinstance(found, type) if kind == "type" else callable(found) or kind == "const"
    CASES[name]()


def test_no_name_is_missing_and_none_is_invented():
    assert set(CASES) == set(NAMES)
    assert len(NAMES) == len(set(NAMES)) == 80


@case("Program", "Tile", "Index", "In", "Out")
def types():
    x, seen = data(3, 5), []

    def program(p):
        A, Y = p.read(x, [4, 8]), p.write(np.empty_like(x), [4, 8])
        seen.extend([p, A.at([0, 0]), p.id(0), A, Y])
        assert seen[1].shape == (4, 8)
        assert seen[1].dtype == tile.F32
        Y.put(seen[1], [0, 0])

    tile.ir([1], program)  # which traces each time; a launch does so only where no kernel is stored
    assert [type(value) for value in seen] == [tile.Program, tile.Tile, tile.Index, tile.In, tile.Out]


@case("cdiv")
def cdiv():
    for a in (*range(40), 10**18):
        for b in (1, 2, 7, 128):
            assert tile.cdiv(a, b) == -(-a // b)
    with pytest.raises(tile.TileError):
        tile.cdiv(3, 0)


@case("run")
def run():
    x, first, second = data(20, 30), np.zeros((20, 30), np.float32), np.zeros((20, 30), np.float32)

    def program(p):
        block = p.read(x, [8, 16]).at([p.id(1), p.id(0)])
        p.write(first, [8, 16]).put(block * 2, [p.id(1), p.id(0)])
        p.write(second, [8, 16]).put(block + 1, [p.id(1), p.id(0)])

    results = tile.run([2, 3], program)
    assert results[0] is first and results[1] is second and len(results) == 2
    close(first, x.astype(np.float64) * 2, 0)
    close(second, x.astype(np.float64) + 1)


@case("tune")
def tune():
    x, y = data(50), np.zeros(50, np.float32)

    def program(p, config):
        p.write(y, [config["BLOCK"]]).put(p.read(x, [config["BLOCK"]]).at([p.id(0)]) * 3, [p.id(0)])

    configs = [{"BLOCK": 16}, {"BLOCK": 32}]
    results = tile.tune(configs, lambda config: [tile.cdiv(50, config["BLOCK"])], program)
    assert results[0] is y
    close(y, x.astype(np.float64) * 3)


@case("ir")
def ir():
    x = data(8, 8)

    def program(p):
        p.write(x, [8, 8]).put(p.read(x, [8, 8]).at([0, 0]).dot(p.full([8, 8], 2)), [0, 0])

    text = tile.ir([1], program)
    for word in ("read", "dot", "put", "[8, 8]", "f32", Path(__file__).name):
        assert word in text
    assert "bf16" in tile.ir([1], program, storage=[tile.BF16, tile.BF16])


@case("source")
def source():
    x = data(8, 8)

    def program(p):
        p.write(x, [8, 8]).put(p.read(x, [8, 8]).at([0, 0]) + 1, [0, 0])

    assert "define" in tile.source([1], program, kind="cpu")


@case("Program.id", "Program.count")
def position():
    out = np.zeros((2, 3, 4, 3), np.float32)

    def program(p):
        here = p.id(0) + p.count(0) * (p.id(1) + p.count(1) * p.id(2))
        place = [p.id(2), p.id(1), p.id(0), 0]
        p.write(out, [1, 1]).put(here.value(), place)

    tile.run([4, 3, 2], program)
    close(out[..., 0], np.arange(24).reshape(2, 3, 4), 0)
    assert not out[..., 1:].any()


@case("Program.int", "Index.value", "Index.k")
def integers():
    out = compute(lambda p: p.int(7).value() + p.id(0).k(-3).value() * p.full([8, 16], 1), shape=(13, 21))
    close(out, np.full((13, 21), 4.0), 0)


@case("Program.k", "Program.full", "Program.zeros", "Tile.k")
def constants():
    out = compute(
        lambda p: p.full([8, 16], 2.5) * p.k(0.1) + p.zeros([8, 16]) + p.zeros([1, 16]).k(1.0), shape=(13, 21)
    )
    close(out, np.full((13, 21), 2.5 * 0.1 + 1), 3 * HALF_ULP)


@case("Program.iota")
def iota():
    rows = compute(lambda p: p.iota([8, 16], 0), shape=(8, 16))
    columns = compute(lambda p: p.iota([8, 16], 1), shape=(8, 16))
    close(rows, np.indices((8, 16))[0], 0)
    close(columns, np.indices((8, 16))[1], 0)


@case("Program.warps", "Program.stages")
def launch_shape():
    x = data(13, 21)

    def body(p, a):
        p.warps(4)
        p.stages(3)
        return a + 1

    close(compute(body, x), x.astype(np.float64) + 1)


@case("Program.read", "In.at")
def read():
    x = data(2, 3, 13, 21)
    out = np.zeros_like(x)

    def program(p):
        a = p.read(x, [8, 16]).at([p.id(2) // 3, p.id(2) % 3, p.id(1), p.id(0)])
        p.write(out, [8, 16]).put(a, [p.id(2) // 3, p.id(2) % 3, p.id(1), p.id(0)])

    tile.run([2, 2, 6], program)
    close(out, x, 0)
    past = compute(lambda p: p.read(x, [8, 16]).at([1, 2, 1, 1]), shape=(8, 16))
    truth = np.zeros((8, 16))
    truth[:5, :5] = x[1, 2, 8:, 16:]
    close(past, truth, 0)


@case("In.window")
def window():
    x = data(13, 21)
    padded = np.pad(x, 20)
    for row, column in ((-3, 5), (0, 0), (9, -7), (12, 20), (-8, -16), (13, 3)):
        out = compute(lambda p, i=row, j=column: p.read(x, [8, 16]).window([i, j]), shape=(8, 16))
        close(out, padded[20 + row : 28 + row, 20 + column : 36 + column], 0)


@case("In.dim", "Out.dim", "In.blocks", "Out.blocks")
def sizes():
    x, out, seen = data(3, 13, 21), np.zeros((3, 13, 21), np.float32), np.zeros((4, 3), np.float32)

    def program(p):
        A, Y, S = p.read(x, [8, 16]), p.write(out, [8, 16]), p.write(seen, [1, 1])
        for axis in range(3):
            for row, value in enumerate((A.dim(axis), Y.dim(axis), A.blocks(axis), Y.blocks(axis))):
                S.put(value.value(), [row, axis])

    tile.run([1], program)
    close(seen, [[3, 13, 21]] * 2 + [[3, 2, 2]] * 2, 0)


@case("Program.write", "Out.put")
def put():
    out = np.full((13, 21), 7, np.float32)

    def program(p):
        p.write(out, [8, 16]).put(p.full([8, 16], 1), [1, 0])

    tile.run([1], program)
    truth = np.full((13, 21), 7.0)
    truth[8:, :16] = 1
    close(out, truth, 0)


@case("Out.putWindow")
def put_window():
    for row, column in ((-3, 5), (0, 0), (9, -7), (12, 20), (13, 21)):
        out = np.full((53, 61), 7, np.float32)
        inner, truth = out[20:33, 20:41], np.full((53, 61), 7.0)

        def program(p, inner=inner, row=row, column=column):
            p.write(inner, [8, 16]).put_window(p.full([8, 16], 1), [row, column])

        tile.run([1], program)
        truth[20 + max(row, 0) : 20 + min(row + 8, 13), 20 + max(column, 0) : 20 + min(column + 16, 21)] = 1
        close(out, truth, 0)


@case("Program.loop")
def loop():
    x = data(13, 21)

    def body(p, a):
        def turn(k, carried):
            total, previous = carried
            return [total + previous * k.value(), total]

        return p.loop(p.int(1), p.int(5), [a, p.zeros([8, 16])], turn)[0]

    total, previous = x.astype(np.float64), np.zeros(x.shape)
    for k in range(1, 5):
        total, previous = total + previous * k, total
    close(compute(body, x), total, 8 * HALF_ULP)
    close(compute(lambda p, a: p.loop(p.int(3), p.int(3), [a], lambda k, c: [c[0] + 1])[0], x), x, 0)


@case("Program.fold")
def fold():
    x = data(13, 21)
    out = compute(lambda p, a: p.fold(p.int(0), p.int(6), a, lambda k, acc: acc.mul(0.5).add(k.value())), x)
    truth = x.astype(np.float64)
    for k in range(6):
        truth = truth * 0.5 + k
    close(out, truth, 8 * HALF_ULP)


@case(*(f"Index.{name}" for name in "add sub mul div rem minimum maximum".split()))
def index_mathematics():
    pairs = [(a, b) for a in (-7, -1, 0, 3, 2**40) for b in (-3, 1, 2, 5)]
    names = "add sub mul div rem minimum maximum".split()
    out = np.zeros((len(pairs), len(names)), np.int64)

    def program(p):
        Y = p.write(out, [1, 1])
        for row, (a, b) in enumerate(pairs):
            for column, name in enumerate(names):
                left = p.int(a).add(p.id(0))  # the id is 0, but only when it runs
                Y.put(getattr(left, name)(p.int(b)).value(tile.I64), [row, column])

    tile.run([1], program)
    for (a, b), row in zip(pairs, out.tolist(), strict=True):
        quotient = (
            math.trunc(a / b) if abs(a) < 2**40 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        )
        assert row == [a + b, a - b, a * b, quotient, a - quotient * b, min(a, b), max(a, b)]


@case("Tile.add", "Tile.sub", "Tile.mul", "Tile.div", "Tile.maximum", "Tile.minimum")
def binary():
    x, y = data(13, 21, seed=1), data(13, 21, seed=2)
    x[0, 0] = np.nan
    wide = x.astype(np.float64), y.astype(np.float64)
    for name, truth in {
        "add": wide[0] + wide[1],
        "sub": wide[0] - wide[1],
        "mul": wide[0] * wide[1],
        "div": wide[0] / wide[1],
        "maximum": np.fmax(*wide),
        "minimum": np.fmin(*wide),
    }.items():
        out = compute(lambda p, a, b, name=name: getattr(a, name)(b), x, y)
        if name in ("maximum", "minimum"):
            close(out, truth, 0)
        else:
            assert np.isnan(out[0, 0])
            close(out.ravel()[1:], truth.ravel()[1:])
    row = compute(lambda p, a: a.sub(a.sum(1)).add(a.max(0)), data(8, 16))
    z = data(8, 16).astype(np.float64)
    assert np.abs(row - (z - z.sum(1, keepdims=True) + z.max(0))).max() < 1e-5


@case("Tile.lt", "Tile.le", "Tile.gt", "Tile.ge", "Tile.eq", "Tile.ne")
def comparisons():
    x, y = np.round(data(13, 21, seed=1)), np.round(data(13, 21, seed=2))
    x[0, 0] = np.nan
    operators = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    for name, operator in (operators | {"eq": np.equal, "ne": np.not_equal}).items():
        out = compute(lambda p, a, b, name=name: getattr(a, name)(b), x, y, dtype=np.bool_)
        assert np.array_equal(out, operator(x, y)), name


@case("Tile.and", "Tile.or", "Tile.not", "Tile.select", "MASK")
def masks():
    x, y = data(13, 21, seed=1), data(13, 21, seed=2)

    def body(p, a, b):
        mask = a.gt(0).and_(b.gt(0)).or_(a.lt(-1).not_().not_())
        assert mask.dtype == tile.MASK == -1
        return mask.select(a, b.mul(10))

    out = compute(body, x, y)
    chosen = ((x > 0) & (y > 0)) | (x < -1)
    close(out, np.where(chosen, x.astype(np.float64), y.astype(np.float64) * 10))
    assert tile.MASK == -1


@case("Tile.neg", "Tile.abs", "Tile.relu", "Tile.floor", "Tile.sqrt", "Tile.rsqrt")
def simple_functions():
    x = data(13, 21) * 3
    wide, size = x.astype(np.float64), np.abs(x.astype(np.float64))
    close(compute(lambda p, a: a.neg(), x), -wide, 0)
    close(compute(lambda p, a: a.abs(), x), size, 0)
    close(compute(lambda p, a: a.relu(), x), np.maximum(wide, 0), 0)
    close(compute(lambda p, a: a.floor(), x), np.floor(wide), 0)
    close(compute(lambda p, a: a.abs().sqrt(), x), np.sqrt(size))
    close(compute(lambda p, a: a.abs().rsqrt(), x), 1 / np.sqrt(size), 2.01 * HALF_ULP)


@case("Tile.exp", "Tile.log", "Tile.sigmoid", "Tile.tanh", "Tile.gelu", "Tile.geluErf")
def functions():
    x = data(64, 64) * 4
    wide = x.astype(np.float64)
    erfc = np.vectorize(math.erfc)
    for name, truth, count in (
        ("exp", np.exp(wide), 3),
        ("sigmoid", 1 / (1 + np.exp(-wide)), 3),
        ("tanh", np.tanh(wide), 3),
        ("gelu", wide / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))), 3.5),
        ("gelu_erf", 0.5 * wide * erfc(-wide / math.sqrt(2)), 3.5),
    ):
        ulps(compute(lambda p, a, name=name: getattr(a, name)(), x), truth, count)
    ulps(compute(lambda p, a: a.abs().log(), x), np.log(np.abs(wide)), 3)


@case("Tile.to", "F32", "F16", "BF16", "FP8")
def conversions():
    assert (tile.F32, tile.F16, tile.BF16, tile.FP8) == (0, 4, 5, 9)
    x = data(13, 21) * 100
    for dtype, numpy_type, bound in (
        (tile.F32, np.float32, 0),
        (tile.F16, np.float16, 2.0**-11),
        (tile.BF16, bfloat16, 2.0**-8),
        (tile.FP8, float8_e4m3fn, 2.0**-4),
    ):
        out = compute(lambda p, a, dtype=dtype: a.to(dtype), x)
        truth = np.clip(x, -448, 448).astype(np.float64) if dtype == tile.FP8 else x.astype(np.float64)
        assert np.all(np.abs(out - truth) <= np.maximum(bound * np.abs(truth), 2.0**-10))
        assert np.array_equal(out, out.astype(numpy_type).astype(np.float32))
        stored = compute(lambda p, a: a, x, dtype=numpy_type)
        assert np.array_equal(stored.astype(np.float32), out)
        again = compute(lambda p, a: a, stored)
        assert np.array_equal(again, out)


@case("Tile.sum", "Tile.max", "Tile.min")
def reductions():
    x = data(8, 64)
    wide = x.astype(np.float64)
    for axis in (0, 1):
        bound = (x.shape[axis] / 64 + 8) * HALF_ULP * np.abs(wide).sum(axis, keepdims=True)
        shape = (1, 64) if axis == 0 else (8, 1)
        whole = {"block": shape, "shape": shape}
        total = compute(lambda p, axis=axis: p.read(x, [8, 64]).at([0, 0]).sum(axis), **whole)
        assert np.all(np.abs(total - wide.sum(axis, keepdims=True)) <= bound)
        for name in ("max", "min"):
            out = compute(lambda p, n=name, a=axis: getattr(p.read(x, [8, 64]).at([0, 0]), n)(a), **whole)
            close(out, getattr(wide, name)(axis, keepdims=True), 0)


@case("Tile.dot")
def dot():
    for numpy_type in (np.float32, np.float16, bfloat16, float8_e4m3fn):
        a, b = data(16, 32, seed=1).astype(numpy_type), data(32, 8, seed=2).astype(numpy_type)
        out = compute(
            lambda p, a=a, b=b: p.full([16, 8], 3).add(
                p.read(a, [16, 32]).at([0, 0]).dot(p.read(b, [32, 8]).at([0, 0]))
            ),
            shape=(16, 8),
            block=(16, 8),
        )
        wide = a.astype(np.float64), b.astype(np.float64)
        bound = 33 * HALF_ULP * (np.abs(wide[0]) @ np.abs(wide[1]) + 3)
        assert np.all(np.abs(out - (wide[0] @ wide[1] + 3)) <= bound)


@case("Tile.transpose")
def transpose():
    x = data(13, 21)
    out = np.zeros((21, 13), np.float32)

    def program(p):
        p.write(out, [16, 8]).put(p.read(x, [8, 16]).at([p.id(0), p.id(1)]).transpose(), [p.id(1), p.id(0)])

    tile.run([2, 2], program)
    close(out, x.T, 0)
