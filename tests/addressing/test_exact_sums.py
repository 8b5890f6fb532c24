"""``scatter_add(..., deterministic=True)``: the same bits in every order, checked by whole numbers."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from references import ARCHS, KINDS

import gizml_tile as tile
from gizml_tile import F32, I32, TileError
from gizml_tile.lowering.simulate.findings import COSTS

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


def nearest(value: Fraction) -> float:
    """The F32 nearest to a sum; its numerator has more bits than a float64 keeps."""
    if not value:
        return 0.0
    size = abs(value)
    power = max(size.numerator.bit_length() - size.denominator.bit_length() - 25, -149)
    unit = Fraction(2) ** power
    while size / unit >= 1 << 24:
        unit *= 2
    whole = round(size / unit)  # to even
    result = float(whole * unit) if whole * unit < Fraction(2) ** 128 else np.inf
    return result if value > 0 else -result


def summed(values, before):
    """What becomes of a place: its addends are cut, added, rounded, and added to what was there."""
    values = [float(each) for each in values]
    if not values:
        return before
    odd = [each for each in values if not np.isfinite(each)]
    if odd:
        total = float(np.sum(odd)) if len(set(map(repr, odd))) == 1 else np.nan
    else:
        largest = max(max(int(np.frexp(each)[1]) - 1 if each else -126 for each in values), -126)
        unit = Fraction(2) ** (largest - 33)
        cut = [int(Fraction(each) / unit) for each in values]  # toward zero
        total = nearest(sum(cut) * unit)
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.float32(before) + np.float32(total)).astype(before.dtype)


def wanted(tensor, values, places):
    """Of rows of values that go to rows of a tensor."""
    result = tensor.copy()
    for row, column in np.ndindex(tensor.shape):
        result[row, column] = summed(values[places == row, column], tensor[row, column])
    return result


@tile.kernel(grid=lambda x, BR, BC, **_: (tile.cdiv(x.shape[0], BR), tile.cdiv(x.shape[1], BC)))
def add_rows(p, x, ids, y, *, BR=16, BC=32, EXACT=True):
    i, j = p.id(0), p.id(1)
    rows = p.read(ids, [BR], pad=-1)[i].T
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [1, BC]).scatter_add(p.read(x, [BR, BC])[i, j], [rows, columns], deterministic=EXACT)


def spread(rows, columns, kind=np.float32):
    """Numbers of very different sizes."""
    sizes = 2.0 ** RNG.integers(-12, 8, (rows, columns))
    return (RNG.standard_normal((rows, columns)) * sizes).astype(kind)


def bits(array):
    single = array.astype(np.float32)
    return np.where(np.isnan(single), np.float32(np.nan), single).tobytes()


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_every_device_and_any_blocks(kind):
    x, ids, before = spread(50, 40, kind), RNG.integers(-1, 8, 50).astype(np.int32), spread(7, 40, kind)
    want = bits(wanted(before, x, ids))
    order = RNG.permutation(50)
    for rows, columns in ((16, 32), (1, 8), (64, 64)):
        y = before.copy()
        assert add_rows(x, ids, y, BR=rows, BC=columns) == (y,)
        assert bits(y) == want
        y = before.copy()
        add_rows(x[order], ids[order], y, BR=rows, BC=columns)
        assert bits(y) == want
    for arch in ARCHS:
        y = before.copy()
        ran = add_rows.simulate(x, ids, y, kind=KINDS[arch], arch=arch)
        assert not [str(each) for each in ran.findings if each.kind not in COSTS]
        assert bits(y) == want, arch


def test_numbers_at_the_ends():
    """Cancelled large ones, subnormals, the largest, infinities and what is not a number; untouched zeros."""
    columns = [
        [2.0**100, 1.0, -(2.0**100), 2.0**-20],
        [1.0, 2.0**-33, 2.0**-34, -(2.0**-33)],
        [2.0**-149, 2.0**-149, -(2.0**-126), 2.0**-140],
        [3.4e38, 3.4e38, -3.4e38, 1.0],
        [3.4e38, 3.4e38, 3.4e38, 1.0],
        [np.inf, 1.0, np.inf, -5.0],
        [-np.inf, 1.0, 3.4e38, -5.0],
        [-np.inf, 1.0, np.inf, -5.0],
        [np.nan, 1.0, 2.0, -np.inf],
        [0.0, -0.0, 0.0, 0.0],
    ]
    x = np.array(columns, np.float32).T.copy()
    ids = np.zeros(4, np.int32)
    before = np.zeros((2, 10), np.float32)
    before[1], before[0, 4] = -0.0, -np.inf
    want = wanted(before, x, ids)
    assert want[0, 0] == 0 and want[0, 1] == 1 and want[0, 2] == 2.0**-140 - 2.0**-126 + 2.0**-148
    y = before.copy()
    add_rows(x, ids, y)
    assert bits(y) == bits(want)
    assert np.signbit(y[1]).all()
    for arch in ("sm_90a", "gfx942"):
        y = before.copy()
        add_rows.simulate(x, ids, y, kind=KINDS[arch], arch=arch)
        assert bits(y) == bits(want)


@pytest.mark.parametrize("shape", [(5,), (3, 4, 7), (2, 3, 4, 5)], ids=str)
def test_tensors_of_other_ranks_and_steps(shape):
    """In turns of a loop, of single elements at indices too, outside of the tensor and masked."""
    at = [RNG.integers(-1, size + 1, (8, 16)).astype(np.int32) for size in shape]
    x = spread(8, 16)
    before = np.zeros(shape[::-1], np.float32).T
    y = before.copy(order="F")

    def body(p):
        out, one = p.write(y, [1]), p.read(x, [1, 16])
        for k in tile.unroll(range(8)):
            rows = [p.read(each, [1, 16])[k, 0] for each in at]
            out.scatter_add(one[k, 0], rows, mask=one[k, 0] < 100, deterministic=True)
        out.scatter_add(p.iota([1, 1], 0).to(F32) + 3, [0] * len(shape), deterministic=True)

    def results():
        y[...] = before
        yield tile.run([2], body)
        for arch in ("sm_80", "gfx1100"):
            y[...] = before
            yield tile.simulate([2], body, kind=KINDS[arch], arch=arch)

    added = {}
    for place in np.ndindex(x.shape):
        where = tuple(int(each[place]) for each in at)
        if all(0 <= index < size for index, size in zip(where, shape, strict=True)) and x[place] < 100:
            added.setdefault(where, []).append(x[place])
    added.setdefault((0,) * len(shape), []).append(3.0)
    want = before.copy()
    for where, values in added.items():
        want[where] = summed(values * 2, before[where])
    for _ in results():
        assert bits(y) == bits(want)


def test_sums_of_products():
    """Whose bits differ between devices: each device's own are the same each time, and near."""
    a, b = RNG.standard_normal((2, 64, 64)).astype(ml_dtypes.bfloat16)
    ids = RNG.integers(0, 5, 64).astype(np.int32)

    def add(y):
        def body(p):
            acc = p.zeros([32, 64])
            A, B = p.read(a, [32, 32]), p.read(b, [32, 64])
            acc = p.fold(0, 2, acc, lambda k, acc: acc.add(A.at([p.id(0), k]).dot(B.at([k, 0]))))
            rows = p.read(ids, [32])[p.id(0)].T
            p.write(y, [1, 1]).scatter_add(acc, [rows, p.iota([1, 64], 1, I32)], deterministic=True)

        return body

    want = np.zeros((5, 64))
    np.add.at(want, ids, a.astype(np.float64) @ b.astype(np.float64))
    for arch in ("cpu", "sm_90a", "gfx950"):
        first = np.zeros((5, 64), np.float32)
        for _ in range(2):
            y = np.zeros((5, 64), np.float32)
            if arch == "cpu":
                tile.run([2], add(y))
            else:
                tile.simulate([2], add(y), kind=KINDS[arch], arch=arch)
            assert np.abs(y - want).max() < 1e-4
            assert not first.any() or bits(y) == bits(first)
            first = y


def test_both_runs_compute_the_same_addends():
    """A product that is stored, too, is rounded before something is taken from it, and so in both runs."""
    x = np.full(8, 1 + 2.0**-12, np.float32)
    square, y, z = x * x, np.zeros(8, np.float32), np.zeros(8, np.float32)

    def body(p):
        a = p.read(x, [8]).at([0])
        product = a.mul(a)
        none = product.sub(p.read(square, [8]).at([0])).eq(0)
        p.write(z, [8]).put(product, [0])
        p.write(y, [8]).scatter_add(none.select(1, 1e-20), [p.iota([1, 8], 1, I32)], deterministic=True)

    tile.run([1], body)
    assert (y == 1).all() and (z == square).all()
    y[...] = 0
    tile.simulate([1], body, kind="cuda", arch="sm_80")
    assert (y == 1).all()


@pytest.mark.parametrize("alone", [True, False])
def test_what_adds_nothing(alone):
    """An addition in a loop that surely has no turns leaves its tensor alone, and others their sums."""
    never, y, z = np.full(8, 3, np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)

    def body(p):
        place = [p.iota([1, 8], 1, I32)]
        first, second, third = (p.write(each, [8]) for each in (never, y, z))
        p.fold(2, 2, p.k(0.5), lambda k, a: first.scatter_add(a, place, deterministic=True) or a)
        if not alone:
            second.scatter_add(p.k(2.0), place, deterministic=True)
        third.put(p.zeros([1, 8]).add(4), [0])

    def results():
        yield tile.run([2], body)
        yield tile.simulate([2], body, kind="cuda", arch="sm_80")

    for _ in results():
        assert (never == 3).all() and (y == (1 if alone else 5)).all() and (z == 4).all()
        y[...], z[...] = 1, 0


def test_what_is_shown():
    x, ids, y = spread(50, 40), RNG.integers(0, 8, 50).astype(np.int32), spread(8, 40)
    assert "exact to y +tile 0 +tile 1" in add_rows.ir(x, ids, y)
    for kind, arch in (("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")):
        told = str(add_rows.explain(x, ids, y, kind=kind, arch=arch))
        names = ("add_rows_clear", "add_rows_sizes", "add_rows", "add_rows_finish")
        assert [line.split()[0] for line in told.splitlines() if f" for {kind} " in line] == list(names)
        assert add_rows.source(x, ids, y, kind=kind, arch=arch).count("add_rows_finish") >= 1
    add_rows[add_rows.grid].check(x, ids, y)
    assert "add to y_sums" in str(add_rows.view(x, ids, y, kind="cuda", arch="sm_90a"))
    assert "for all of them" in str(add_rows.explain(x, ids, y, measure=True))
    as_kernel = tile.kernel(grid=add_rows.grid, configs=[{"BR": 8}, {"BR": 32}], measure=True)
    tuned = as_kernel(add_rows.__wrapped__)
    before = y.copy()
    tuned(x, ids, y)
    add_rows(x, ids, before)
    assert bits(y) == bits(before)


def test_integers_and_prints(capsys):
    x, ids, y = RNG.integers(-9, 9, (20, 8)), RNG.integers(0, 3, 20), np.zeros((3, 8), np.int64)
    add_rows(x, ids, y)
    want = np.zeros((3, 8), np.int64)
    np.add.at(want, ids, x)
    assert (y == want).all()
    z = np.zeros(4, np.float32)

    def body(p):
        p.print("program", p.id(0))
        p.write(z, [4]).scatter_add(p.iota([1, 4], 1).to(F32), [p.iota([1, 4], 1, I32)], deterministic=True)

    tile.run([2], body, debug=True)
    assert list(z) == [0, 2, 4, 6]
    assert len(capsys.readouterr().out.splitlines()) == 2  # once for each program


def test_refusals():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)

    def body(reads, writes):
        def run(p):
            value = p.read(reads, [8]).at([0])
            p.write(y, [8]).scatter_add(value, [p.iota([1, 8], 1, I32)], deterministic=True)
            if writes is not None:
                p.write(writes, [8]).put(value, [0])

        return run

    with pytest.raises(TileError, match="for which programs run twice, and reads"):
        tile.run([1], body(x, x))
    with pytest.raises(TileError, match="for which programs run twice, and reads"):
        tile.run([1], body(y[::-1], None))
    with pytest.raises(TileError, match="is written and, with deterministic=True, added to"):
        tile.run([1], body(x, y))
    with pytest.raises(TileError, match="t2 is written, and shares memory with t1"):
        tile.run([1], body(x, y[2:]))
    assert not y.any() and x.all()

    def wrong(p):
        p.write(y, [8]).scatter_add(1.0, [p.iota([1, 8], 1, I32)], deterministic=2)

    with pytest.raises(TileError, match="deterministic is True or False, found"):
        tile.run([1], wrong)


def test_empty_tensors():
    y = np.zeros((0, 40), np.float32)
    add_rows(spread(5, 40), np.zeros(5, np.int32), y)
    y = np.ones((3, 40), np.float32)
    add_rows(spread(0, 40), np.zeros(0, np.int32), y)
    assert (y == 1).all()
