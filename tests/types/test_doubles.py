"""F64 against NumPy, on the CPU and in the simulator of a GPU of each family that has it."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from everywhere import DOUBLE_PLACES
from everywhere import everywhere as on_places
from true_doubles import LIMITS, TRUE, arguments, near_multiples_of_half_pi

import gizml_tile as tile
from gizml_tile import BF16, E5M2, F16, F32, F64, FP8, I8, I16, I32, I64, U8, U16, U32, U64

everywhere = partial(on_places, places=DOUBLE_PLACES)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.5e-310, 1.7e308, -1.7e308, 1 + 2**-52, 2.0**53 + 2]


def doubles(*shape, seed=0, hard=True):
    """Numbers of all 53 bits and of many sizes, strange ones among them."""
    rng = np.random.default_rng([seed, *shape])
    x = np.ldexp(rng.standard_normal(shape), rng.integers(-40, 40, shape))
    if hard:
        x.flat[: len(SPECIAL)] = rng.permutation(SPECIAL)
    return x


def same(found, wanted):
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted, equal_nan=True)
    zeros = wanted == 0
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


@tile.kernel(grid=1)
def arithmetic(p, x, y, sums, quotients, chosen, roots, more):
    a, b = p.read(x, [16, 32])[0, 0], p.read(y, [16, 32])[0, 0]
    p.write(sums, [16, 32])[0, 0] = (a + b) * 0.1 - b
    p.write(quotients, [16, 32])[0, 0] = a / b + 1 / a
    p.write(chosen, [16, 32])[0, 0] = min(a, max(b, 0.3)) if a <= b or b != b else abs(-a)
    p.write(roots, [16, 32])[0, 0] = abs(a).sqrt() + abs(b).rsqrt() * a.relu() - b.reciprocal()
    p.write(more, [16, 32])[0, 0] = a.floor() + a.ceil().copysign(b) - b.trunc() + (a * 8).round() - a**3


def test_arithmetic_has_numpys_bits():
    x, y = doubles(16, 32, seed=1), doubles(16, 32, seed=2)
    found = everywhere(arithmetic, x, y, *(np.zeros((16, 32)) for _ in range(5)))[2:]
    with np.errstate(all="ignore"):
        total = x + y
        same(found[0], fused(total, np.full_like(x, 0.1), -y))
        same(found[1], x / y + 1 / x)
        larger = np.fmax(y, 0.3)
        smaller = np.where(np.isnan(x), larger, np.fmin(x, larger))
        same(found[2], np.where((x <= y) | np.isnan(y), smaller, abs(x)))
        positive = np.where(x > 0, x, 0.0)
        same(found[3], fused(1 / np.sqrt(abs(y)), positive, np.sqrt(abs(x))) - 1 / y)
        first = np.floor(x) + np.copysign(np.ceil(x), y) - np.trunc(y) + np.rint(x * 8)
        same(found[4], fused(-(x * x), x, first))


def fused(a, b, c):
    """a * b + c with one rounding, by the C library."""
    import ctypes
    import ctypes.util

    function = ctypes.CDLL(ctypes.util.find_library("m")).fma
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    return np.array([function(*each) for each in zip(a.flat, b.flat, c.flat, strict=True)]).reshape(a.shape)


@tile.kernel(grid=1)
def mixed(p, x, half, single, y, z, n):
    a = p.read(x, [8, 16])[0, 0]
    h, s = p.read(half, [8, 16])[0, 0], p.read(single, [8, 16])[0, 0]
    product = h * s
    p.write(y, [8, 16])[0, 0] = a + product - s.to(F64) * 0.1
    p.write(z, [8, 16])[0, 0] = h if s < a else a * (1 / 3)
    i = p.iota([8, 16], 1, F64) + p.id(0) + p.full([1, 1], 1 / 3, F64)
    p.write(n, [8, 16])[0, 0] = i.fma(1e-20, 1) + p.int(2**53 - 1).value(F64)


def test_narrower_floats_and_numbers_widen_exactly():
    x = doubles(8, 16, hard=False)
    half, single = (x / 2**30).astype(np.float16), doubles(8, 16, seed=3, hard=False).astype(np.float32)
    found = everywhere(mixed, x, half, single, *(np.zeros((8, 16)) for _ in range(3)))[3:]
    with np.errstate(all="ignore"):
        product = half.astype(np.float32) * single
        wide = single.astype(float)
        same(found[0], fused(-wide, np.full_like(x, 0.1), x + product))
        same(found[1], np.where(wide < x, half.astype(float), x * (1 / 3)))
    number = np.broadcast_to(np.arange(16) + 1 / 3, (8, 16))
    same(found[2], fused(number, np.full_like(x, 1e-20), np.ones_like(x)) + (2.0**53 - 1))


def rounded(x, digits, smallest, largest, beyond):
    """The nearest number of so many digits, in units of 2^smallest at least."""
    exponent = np.maximum(np.frexp(x)[1] - digits, smallest)
    with np.errstate(all="ignore"):
        near = np.copysign(np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent), x)
        near = np.where(np.isinf(x), x, near)
        return np.where(abs(near) > largest, np.copysign(beyond, x), near)


FORMATS = {
    F32: (np.float32, (24, -149, 3.4028234663852886e38, np.inf)),
    F16: (np.float16, (11, -24, 65504, np.inf)),
    BF16: (ml_dtypes.bfloat16, (8, -133, 3.3895313892515355e38, np.inf)),
    FP8: (ml_dtypes.float8_e4m3fn, (4, -9, 448, 448)),
    E5M2: (ml_dtypes.float8_e5m2, (3, -16, 57344, np.inf)),
}


@tile.kernel(grid=1)
def narrowed(p, x, y, z, *, KIND):
    t = p.read(x, [8, 64])[0, 0]
    p.write(y, [8, 64])[0, 0] = t
    p.write(z, [8, 64])[0, 0] = t.to(KIND).to(F64)


@pytest.mark.parametrize("kind", FORMATS, ids=str)
def test_rounding_to_narrower_floats_is_done_once(kind):
    dtype, form = FORMATS[kind]
    rng = np.random.default_rng(7)
    # Near ties of the type: next to the middle of two neighbours by one bit of F64, or of what F32 drops.
    near = rounded(doubles(8, 64, hard=False), *form).astype(dtype).astype(float)
    unit = np.ldexp(1.0, np.maximum(np.frexp(near)[1] - form[0], form[1]))
    near += unit / 2 * (1 + rng.choice([0, 2.0**-51, -(2.0**-51), 2.0**-30, -(2.0**-30)], near.shape))
    near[0, : len(SPECIAL)] = SPECIAL
    least = 2.0 ** form[1]
    near[1, :8] = [form[2], form[2] * (1 + 2.0**-12), least / 2, least * 0.75, 1e39, 1e-50, 465, 464]
    _, y, z = everywhere(narrowed, near, np.zeros((8, 64), dtype), np.zeros((8, 64)), KIND=kind)
    same(z, rounded(near, *form))
    same(y.astype(float), z)


@pytest.mark.parametrize("kind", FORMATS, ids=str)
def test_the_largest_number_overflows_as_a_constant_too(kind):
    dtype, form = FORMATS[kind]
    largest, y = float.fromhex("0x1.fffffffffffffp1023"), np.zeros((1, 1), dtype)
    tile.run(1, lambda p: p.write(y, [1, 1]).put(p.full([1, 1], -largest, F64).to(kind), [0, 0]))
    same(y.astype(float), np.full((1, 1), -form[3], float))


INTEGERS = {I8: "i1", U8: "u1", I16: "i2", U16: "u2", I32: "i4", U32: "u4", I64: "i8", U64: "u8"}


@tile.kernel(grid=1)
def to_integer(p, x, y, *, KIND):
    p.write(y, [64])[0] = p.read(x, [64])[0].to(KIND)


@tile.kernel(grid=1)
def of_integer(p, x, y):
    p.write(y, [64])[0] = p.read(x, [64])[0].to(F64)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers(kind):
    limits = np.iinfo(INTEGERS[kind])
    x = doubles(64, seed=4)
    ends = [float(limits.max), limits.max + 1.0, limits.max + 0.5, float(limits.min), limits.min - 1.5, 0.99]
    x[-24:] = [*ends, *(-end for end in ends), *np.nextafter(ends, 0), *np.nextafter(ends, np.inf)]
    wanted = [0 if math.isnan(each) else int(min(max(each, -(2.0**70)), 2.0**70)) for each in x]
    wanted = np.array([min(max(each, limits.min), limits.max) for each in wanted], limits.dtype)
    *_, found = everywhere(to_integer, x, np.zeros(64, limits.dtype), KIND=kind)
    assert np.array_equal(found, wanted), x[found != wanted]
    rng = np.random.default_rng(5)
    whole = rng.integers(limits.min, limits.max, 64, limits.dtype, endpoint=True)
    whole[:4] = [limits.min, limits.max, limits.max // 2 + 1, 1]
    *_, found = everywhere(of_integer, whole, np.zeros(64))
    same(found, whole.astype(float))


@tile.kernel(grid=1)
def along(p, x, columns, most, running, order, places, rows):
    t = p.read(x, [8, 64])[0, 0]
    p.write(most, [8, 1])[0, 0] = t.max(1) + t.argmin(1).to(F64)
    p.write(running, [8, 64])[0, 0] = t.cummax(1)
    values, where = t.sort(1, descending=True)
    p.write(order, [8, 64])[0, 0] = values
    p.write(places, [8, 64])[0, 0] = where
    finite = t if t.isfinite() else 0
    p.write(columns, [1, 64])[0, 0] = finite.min(0)
    p.write(rows, [8, 1])[0, 0] = finite.sum(1)


def test_along_an_axis():
    x = doubles(8, 64, seed=6)
    finite = np.where(abs(x) < 1e300, x, 0)
    x = np.where(abs(x) > 1e300, np.copysign(np.inf, x), x)
    shapes = [(1, 64), (8, 1), (8, 64), (8, 64)]
    arrays = [*(np.zeros(shape) for shape in shapes), np.zeros((8, 64), np.int32), np.zeros((8, 1))]
    bound = 16 * 2.0**-53 * abs(finite).sum(1, keepdims=True)
    _, columns, most, running, ordered, places, rows = everywhere(along, x, *arrays, bound=bound)
    assert (abs(rows - finite.sum(1, keepdims=True)) <= bound).all()
    same(columns, finite.min(0, keepdims=True))
    same(most, np.nanmax(x, 1, keepdims=True) + np.nanargmin(x, 1)[:, None])
    same(running, np.fmax.accumulate(x, 1))
    wanted = np.lexsort((np.signbit(x), -np.nan_to_num(x, nan=-np.inf), np.isnan(x)), axis=1)
    assert np.array_equal(places, wanted)
    same(ordered, np.take_along_axis(x, wanted, 1))


@tile.kernel(grid=1)
def combined(p, x, y, products, sums, recurrence):
    a, b = p.read(x, [4, 32])[0, 0], p.read(y, [4, 32])[0, 0]
    p.write(products, [1, 32])[0, 0] = a.prod(0)
    p.write(sums, [4, 32])[0, 0] = a.cumsum(1, reverse=True)
    _, h = a.associative_scan(lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2), 1, b)
    p.write(recurrence, [4, 32])[0, 0] = h


def test_combining():
    x, y = (np.random.default_rng(seed).uniform(0.5, 1.5, (4, 32)) for seed in (8, 9))
    for kind, arch in DOUBLE_PLACES:
        products, sums, recurrence = np.zeros((1, 32)), np.zeros((4, 32)), np.zeros((4, 32))
        if kind == "cpu":
            combined(x, y, products, sums, recurrence)
        else:
            combined.simulate(x, y, products, sums, recurrence, kind=kind, arch=arch)
        assert (abs(products / x.prod(0) - 1) <= 8 * 2.0**-53).all()
        assert (abs(sums / np.cumsum(x[:, ::-1], 1)[:, ::-1] - 1) <= 64 * 2.0**-53).all()
        wanted = np.zeros((4, 32))
        for t in range(32):
            wanted[:, t] = x[:, t] * (wanted[:, t - 1] if t else 0) + y[:, t]
        assert (abs(recurrence / wanted - 1) <= 128 * 2.0**-53).all()


@tile.kernel(grid=lambda y, **_: (3, 2))
def moved(p, x, ids, y, z, w):
    j, i = p.id(0), p.id(1)
    X = p.read(x, [8, 16], pad=math.pi)
    t = X.window([i * 8 - 3, j * 16 - 1])
    p.write(y, [8, 16])[i, j] = t.T.T.flip(1) + X[i, j]
    rows = p.read(ids, [8])[i].T
    gathered = X.gather([rows, p.iota([1, 16], 1, I32) + j * 16])
    p.write(z, [8, 16]).scatter(gathered, [rows, p.iota([1, 16], 1, I32) + j * 16], mask=rows > 2)
    p.write(w, [16, 8])[j, i] = X[i, j].T


def test_places_pads_and_transposes():
    x, ids = doubles(13, 40, hard=False), np.random.default_rng(1).permutation(16).astype(np.int32)
    _, _, y, z, w = everywhere(moved, x, ids, np.zeros((13, 40)), np.zeros((13, 40)), np.zeros((40, 13)))
    padded = np.pad(x, ((3, 19), (1, 23)), constant_values=math.pi)
    for i in range(2):
        for j in range(3):
            here = np.s_[i * 8 : i * 8 + 8, j * 16 : j * 16 + 16]
            wanted = padded[here][:, ::-1] + padded[3:, 1:][here]
            found = y[here]
            assert np.array_equal(found, wanted[: found.shape[0], : found.shape[1]])
    assert np.array_equal(z, np.where(np.arange(13)[:, None] > 2, x, 0))
    assert np.array_equal(w, x.T)


@tile.kernel(grid=1)
def looped(p, x, y, n):
    X = p.read(x, [4, 16])
    total, steps = p.zeros([4, 16], F64), p.full([1, 1], 1.0, F64)
    for k in range(n):
        if k % 2 == 0:
            total = total + X[0, k] / 3
            steps = -steps
        else:
            total = total * 0.1
        steps = steps * 0.1
    p.write(y, [4, 16])[0, 0] = total + steps


def test_carried_values():
    x = doubles(4, 80, hard=False)
    _, y = everywhere_with(looped, x, np.zeros((4, 16)), 5)
    total, steps = np.zeros((4, 16)), 1.0
    for k in range(5):
        total = total * 0.1 if k % 2 else total + x[:, 16 * k : 16 * k + 16] / 3
        steps = (steps if k % 2 else -steps) * 0.1
    same(y, total + steps)


def everywhere_with(kernel, x, y, number):
    """As everywhere, with a run-time number."""
    results = []
    for kind, arch in DOUBLE_PLACES:
        given = [x.copy(), y.copy(), number]
        kernel(*given) if kind == "cpu" else kernel.simulate(*given, kind=kind, arch=arch)
        results.append(given[:2])
    for other in results[1:]:
        same(other[1], results[0][1])
    return results[0]


@tile.kernel(grid=1)
def function(p, x, y, *, NAME):
    p.write(y, [512])[0] = getattr(p.read(x, [512])[0], NAME)()


@pytest.mark.parametrize("name", TRUE)
def test_functions_have_the_same_bits_everywhere(name):
    """How near they are to the truth is tested in tests/numbers."""
    given, exact = zip(*LIMITS[name], strict=True)
    near = near_multiples_of_half_pi()[::80] if name in ("sin", "cos") else []
    some = arguments(name, 511 - len(given) - len(near))
    x = np.array([np.nan, *given, *near, *some])
    _, y = everywhere(function, x, np.zeros(512), NAME=name)
    same(y[: 1 + len(given)], np.array([np.nan, *exact], float))


@tile.kernel(grid=1)
def of_two(p, x, y, powers, rests, remainders):
    a, b = p.read(x, [512])[0], p.read(y, [512])[0]
    p.write(rests, [512])[0] = a.rem(b)
    p.write(powers, [512])[0] = a**b
    p.write(remainders, [512])[0] = a % b


def test_powers_and_remainders_have_the_same_bits_everywhere():
    random = np.random.default_rng(5)
    x, y = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    count = (512 - x.size) // 3
    large = np.ldexp(random.standard_normal(count), random.integers(-900, 900, count))
    other = np.ldexp(random.standard_normal(count), random.integers(-900, 900, count))
    bases = np.exp(random.uniform(-30, 30, 512 - x.size - 2 * count))
    x = np.concatenate([x, large, -large, bases])
    y = np.concatenate([y, other, other, random.uniform(-20, 20, bases.size)])
    *_, powers, rests, remainders = everywhere(of_two, x, y, *(np.zeros(512) for _ in range(3)))
    with np.errstate(all="ignore"):
        same(rests, np.fmod(x, y))
        same(remainders, np.mod(x, y))
        near = np.power(x, y)
        assert np.allclose(powers, near, rtol=2.0**-51, atol=0, equal_nan=True)
        assert (np.signbit(powers) == np.signbit(near))[~np.isnan(near)].all()


@tile.kernel(grid=1)
def beside(p, x, half, y):
    a, h = p.read(x, [64])[0], p.read(half, [64])[0]
    whole = h.to(I32).to(F64)
    p.write(y, [64])[0] = a**h + 2**a + 1.5**a - a % 0.1 + h % a + 7 % a + whole.pow(a, approx=True)


def test_powers_and_remainders_of_narrower_floats_and_numbers():
    random = np.random.default_rng(6)
    x, half = random.uniform(0.1, 9, 64), random.uniform(0, 9, 64).astype(np.float16)
    _, _, y = everywhere(beside, x, half, np.zeros(64))
    h = half.astype(float)
    wanted = x**h + 2**x + 1.5**x - x % 0.1 + h % x + 7 % x + np.trunc(h) ** x
    assert np.allclose(y, wanted, rtol=2.0**-48, atol=0)


WRONG = [
    (lambda x, n: x.to(F64, random=n), "random rounds floats to a float type of fewer bits, found an F64"),
    (lambda x, n: x.copysign(n), "copysign takes floats, found a U32 tile [4, 4]"),
    (lambda x, n: x + n, "add does not mix integers and floats, found an F64 tile [4, 4] and a U32 tile"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_not_there_says_so(wrong, message):
    with pytest.raises(tile.TileError, match=re.escape(message)) as caught:
        tile.run(1, lambda p: wrong(p.zeros([4, 4], F64), p.zeros([4, 4], U32)))
    assert caught.value.filename == __file__


def test_a_gpu_without_doubles_says_so():
    x = np.zeros((16, 32))
    message = r"metal \(apple9\) has no F64, which this read takes or gives; pass float32 tensors"
    with pytest.raises(tile.TileError, match=message) as caught:
        arithmetic.source(x, x, *(x.copy() for _ in range(5)), kind="metal", arch="apple9")
    line = Path(__file__).read_text().splitlines()[caught.value.lineno - 1]
    assert caught.value.filename == __file__ and line.strip().startswith("a, b = p.read(x, [16, 32])[0, 0]")


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[1], BN), tile.cdiv(c.shape[0], BM)))
def product(p, a, b, c, *, BM=32, BN=64, BK=16):
    j, i = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    total = p.zeros([BM, BN], F64)
    for k in range(A.blocks(1)):
        total += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = total


@pytest.mark.parametrize("order", ["CC", "CF", "FC", "FF"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (33, 70, 129), (8, 300, 520), (70, 16, 65)], ids=str)
def test_products_on_the_cpu_are_chains_in_the_order_of_k(shape, order):
    rows, depth, columns = shape
    rng = np.random.default_rng(shape)
    a = np.asarray(rng.standard_normal((rows, depth)), order=order[0])
    b = np.asarray(rng.standard_normal((depth, columns)), order=order[1])
    c = np.zeros((rows, columns))
    product(a, b, c)
    wanted = np.zeros((rows, columns))
    # A few elements by the chain itself, all of them within the bound.
    for i, j in {(0, 0), (rows - 1, columns - 1), (rows // 2, columns // 3)}:
        for k in range(depth):
            wanted[i, j] = fused(a[i : i + 1, k], b[k : k + 1, j], wanted[i : i + 1, j])[0]
        assert c[i, j] == wanted[i, j]
    assert (abs(c - a @ b) <= 2 * depth * 2.0**-53 * (abs(a) @ abs(b))).all()


@tile.kernel(grid=1)
def attended(p, q, k, v, y):
    Q, K, V = p.read(q, [16, 8])[0, 0], p.read(k, [32, 8])[0, 0], p.read(v, [32, 16])[0, 0]
    scores = Q @ K.T
    weights = scores - scores.max(1)
    p.write(y, [16, 16])[0, 0] = weights.relu() @ V + weights @ V


def test_products_of_what_is_computed_and_of_narrower_floats():
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((16, 8)), rng.standard_normal((32, 8)).astype(np.float32)
    v = rng.standard_normal((32, 16)).astype(np.float16)
    scores = q @ k.T.astype(float)
    weights = scores - scores.max(1, keepdims=True)
    wanted = (np.maximum(weights, 0) + weights) @ v.astype(float)
    bound = 200 * 2.0**-53 * (abs(weights) @ abs(v.astype(float)) + 1)
    *_, y = everywhere(attended, q, k, v, np.zeros((16, 16)), bound=2 * bound)
    assert (abs(y - wanted) <= bound).all()


def test_sums_that_are_the_same_in_every_order_are_of_f32():
    out = np.zeros((4, 4))

    def body(p, kind):
        place = [p.iota([4, 1], 0, I32), p.iota([1, 4], 1, I32)]
        p.write(out, [4, 4]).scatter_add(p.zeros([4, 4], kind), place, deterministic=True)

    for kind in (F64, F32):
        message = f"scatter_add adds with deterministic=True in F32, found an {kind} tile for an F64 tensor"
        with pytest.raises(tile.TileError, match=message):
            tile.run(1, partial(body, kind=kind))


def test_prints_and_checks_show_doubles(capfd):
    x = np.array([[1 / 3, 1e300, np.nan, 2.0**-1074]])

    def body(p):
        t = p.read(x, [1, 4])[0, 0]
        p.print("t", t, "first", t[:, :1])
        p.check(t < 2, "large", t)

    with pytest.raises(tile.TileError, match=r"large.*1e\+300"):
        tile.run(1, body, debug=True)
    out = capfd.readouterr().out
    assert "1.00000000e+300" in out and "4.94065646e-324" in out and "first 0.3333333333333333" in out
