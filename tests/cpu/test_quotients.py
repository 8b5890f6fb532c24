"""A whole row divided by one number is IEEE division to the bit, also where it is not written as one."""

import numpy as np
import pytest
from agreement import assert_close

import gizml_tile as tile

COLUMNS = 1024
POWERS = np.ldexp(1.0, np.arange(-149, 128)).astype(np.float32)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 2.0**-126, 3.4028235e38], np.float32)


def any_floats(rng, *shape):
    """All bit patterns alike: subnormals, infinities and NaN among them."""
    return rng.integers(0, 2**32, shape, np.uint32).view(np.float32)


def near(rng, center, *shape):
    """Floats within a few binary orders of ``center``, of both signs."""
    values = np.exp2(rng.uniform(-3, 3, shape)) * center * rng.choice([-1, 1], shape)
    return values.astype(np.float32)


def quotients(x, s):
    """Each row of ``x`` by the number beside it, in blocks that hold many and few rows."""
    results = []
    for rows in (1, 8):
        out = np.empty_like(x)

        def body(p, out=out, rows=rows):
            i = p.id(0)
            divisor = p.read(s, [rows, 1]).at([i, 0])
            block = p.read(x, [rows, COLUMNS]).at([i, 0])
            p.write(out, [rows, COLUMNS]).put(block / divisor, [i, 0])

        tile.run([tile.cdiv(len(x), rows)], body)
        results.append(out)
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    return results[0]


def check(x, s):
    with np.errstate(all="ignore"):
        want = x / s
    result = quotients(x, s)
    assert_close(result, want)
    zero = want == 0
    assert np.array_equal(np.signbit(result[zero]), np.signbit(want[zero]))


def test_all_bit_patterns():
    rng = np.random.default_rng(0)
    check(any_floats(rng, 4000, COLUMNS), any_floats(rng, 4000, 1))


def test_usual_numbers_by_usual_ones():
    """The case that the reciprocal serves: every row takes the short way."""
    rng = np.random.default_rng(1)
    check(near(rng, 1.0, 4000, COLUMNS), near(rng, 1.0, 4000, 1))


@pytest.mark.parametrize("power", [-149, -140, -126, -110, -101, -100, -99, -20, 20, 99, 100, 101, 120, 126])
def test_the_ends_of_the_short_way(power):
    """Elements of this size, whose quotients may be subnormal or infinite, by numbers of all sizes."""
    rng = np.random.default_rng(power + 200)
    with np.errstate(over="ignore"):
        x = near(rng, 2.0**power, len(POWERS), COLUMNS)
    check(x, (POWERS * rng.uniform(1, 2, len(POWERS)).astype(np.float32))[:, None])


def test_divisors_at_the_ends_of_their_range():
    rng = np.random.default_rng(3)
    around = [np.float32(2.0**-20), np.float32(2.0**20)]
    divisors = [np.nextafter(s, np.float32(way)) for s in around for way in (0, 1e30)] + around
    divisors = np.array([*divisors, *SPECIAL, *(-s for s in divisors)], np.float32)
    x = near(rng, 1.0, len(divisors), COLUMNS)
    x[:, : len(SPECIAL)] = SPECIAL
    x[:, 100:200] = any_floats(rng, len(divisors), 100)
    check(x, divisors[:, None])


def test_one_odd_element_does_not_disturb_its_neighbours():
    rng = np.random.default_rng(4)
    x = near(rng, 1.0, 40 * len(SPECIAL), COLUMNS)
    for row in range(len(x)):
        x[row, rng.integers(COLUMNS)] = SPECIAL[row % len(SPECIAL)]
    check(x, near(rng, 3.0, len(x), 1))


def test_exact_quotients_and_those_just_beside_them():
    """x = q * s exactly, and one unit beside it; and quotients next to the middle between two floats."""
    rng = np.random.default_rng(5)
    s = rng.integers(1, 2**12, (500, 1)).astype(np.float32)
    q = rng.integers(1, 2**12, (500, COLUMNS)).astype(np.float32)
    for step in (-1, 0, 1):
        x = q * s
        x = (x.view(np.int32) + step).view(np.float32)
        check(x, s)
    # the float next to (q + half a unit) * s for q of 24 bits
    q = rng.integers(2**23, 2**24, (500, COLUMNS)).astype(np.float64) + 0.5
    s = rng.integers(2**23, 2**24, (500, 1)).astype(np.float64)
    x = (q * s).astype(np.float32) * np.float32(2.0**-47)
    check(x, (s * 2.0**-23).astype(np.float32))


def test_a_softmax_row_sums_to_what_division_gives():
    """The quotient in its place: e / sum(e) equals NumPy's division of the stored numerators and sums."""
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((50, COLUMNS)) * 20).astype(np.float32)
    e, total, y = np.empty_like(x), np.empty((50, 1), np.float32), np.empty_like(x)

    def body(p):
        i = p.id(0)
        row = p.read(x, [1, COLUMNS]).at([i, 0])
        numerator = (row - row.max(1)).exp()
        denominator = numerator.sum(1)
        p.write(e, [1, COLUMNS]).put(numerator, [i, 0])
        p.write(total, [1, 1]).put(denominator, [i, 0])
        p.write(y, [1, COLUMNS]).put(numerator / denominator, [i, 0])

    tile.run([50], body)
    assert np.array_equal(y, e / total)
    assert_close(y.sum(1), np.ones(50), 1e-5)
