"""Fits polynomials of F64's sines, powers and error functions again: ``python tests/numbers/fits.py``.

Prints how near those in use are, and whether they are found again (of ``gelu_erf`` with its divisor in use).
They are Lawson-weighted least squares on Chebyshev nodes in 120 digits: the weight of a node grows by its
error, again and again. Coefficients are rounded to F64 one at a time from low order, and what is left is
fitted again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mp, mpf

from gizml_tile.lowering.math.doubles import error_functions, powers, trigonometric

Real = Callable[[mpf], mpf]
_DIGITS = 120
_LEAST = mpf(10) ** -8  # of a node's weight


@dataclass(frozen=True)
class Fit:
    """``count`` coefficients of a polynomial in ``variable`` that is ``function`` from ``low`` to ``high``.

    ``weight`` is what an error of it is in the result's relative error. ``found`` are those in use.
    """

    function: Real
    weight: Real
    low: object
    high: object
    count: int
    found: Sequence[float]
    variable: Real = lambda x: x

    def nodes(self, count: int) -> list[mpf]:
        """Chebyshev's, so many."""
        low, high = mpf(self.low), mpf(self.high)
        middle, half = (low + high) / 2, (high - low) / 2
        return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]

    def fitted(self) -> list[float]:
        """The coefficients, low order first."""
        nodes = self.nodes(4 * self.count + 8)
        values, weights = [self.function(x) for x in nodes], [self.weight(x) for x in nodes]
        variables = [self.variable(x) for x in nodes]
        done: list[float] = []
        shares = [mpf(1)] * len(nodes)
        while len(done) < self.count:
            rows = [[v**power for power in range(len(done), self.count)] for v in variables]
            best, shares = lawson(rows, values, weights, shares, 5 if done else 14)
            done.append(float(best[0]))
            values = [value - done[-1] * row[0] for value, row in zip(values, rows, strict=True)]
        return done

    def error(self) -> float:
        """The binary logarithm of the largest error of the coefficients in use, rounding of steps apart."""
        errors = (
            abs(self.weight(x) * (self.function(x) - mp.polyval(self.found[::-1], self.variable(x))))
            for x in self.nodes(24 * self.count)
        )
        return float(mp.log(max(errors), 2))


def lawson(
    rows: list[list[mpf]], values: list[mpf], weights: list[mpf], shares: list[mpf], rounds: int
) -> tuple[list[mpf], list[mpf]]:
    """Coefficients with the smallest largest error that was found, and the nodes' shares there."""
    size, best = len(rows[0]), None
    for _ in range(rounds):
        matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
        for row, value, weight, share in zip(rows, values, weights, shares, strict=True):
            for i in range(size):
                scaled = share * weight**2 * row[i]
                right[i] += scaled * value
                for j in range(i, size):
                    matrix[i, j] += scaled * row[j]
        for i in range(size):
            for j in range(i):
                matrix[i, j] = matrix[j, i]
        found = list(mp.lu_solve(matrix, right))
        errors = [
            abs(weight * (value - mp.fdot(found, row)))
            for row, value, weight in zip(rows, values, weights, strict=True)
        ]
        largest = max(errors)
        if best is None or largest < best[0]:
            best = largest, found, shares
        shares = [share * (each / largest + _LEAST) for share, each in zip(shares, errors, strict=True)]
        total = sum(shares)
        shares = [share / total for share in shares]
    assert best is not None
    return best[1], best[2]


def _square(x: mpf) -> mpf:
    return x * x


def _phi(x: mpf) -> mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _scaled_tail(t: mpf) -> mpf:
    """t * Phi(-t) * e^(t^2 / 2)."""
    return t * mp.exp(t * t / 2) * _phi(-t)


def _below(t: mpf) -> mpf:
    """What the scaled tail's quotient is divided by."""
    return mp.polyval(error_functions._PHI_BELOW[::-1], t)


def _from_inverse(w: mpf) -> mpf:
    """Long ranges of t are taken in w = 1 / (t + 2)."""
    return 1 / w - 2


def _log2_ratio(s: mpf) -> mpf:
    """What is left of log2((1 + s) / (1 - s)) / s, over s^4."""
    first, second = (sum(map(mpf, pair)) for pair in (powers._LOG2.first, powers._LOG2.second))
    return (mp.log((1 + s) / (1 - s), 2) / s - first - second * s * s) / s**4


def fits() -> dict[str, Fit]:
    """All by the name of their coefficients."""
    quarter, ratio = mp.pi / 4 * mpf("1.0005"), (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0001")
    density, near = mpf(error_functions._DENSITY), mpf(error_functions._NEAR)
    return {
        "sin": Fit(
            lambda x: (mp.sin(x) - x) / x**3,
            lambda x: x**3 / mp.sin(x),
            "1e-3", quarter, 6, trigonometric._SIN, _square,
        ),
        "cos": Fit(
            lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4,
            lambda x: x**4 / mp.cos(x),
            "1e-3", quarter, 6, trigonometric._COS, _square,
        ),
        "log2": Fit(
            _log2_ratio,
            lambda s: s**5 / mp.log((1 + s) / (1 - s), 2),
            "0.005", ratio, 8, powers._LOG2.others, _square,
        ),
        "erf, centre": Fit(
            lambda x: (mp.erf(x) - x) / x,
            lambda x: x / mp.erf(x),
            "1e-3", 1, 13, error_functions._ERF_CENTRE, _square,
        ),
        "erf, tail": Fit(
            lambda x: mp.log(mp.erfc(x), 2),
            lambda x: mp.erfc(x) / mp.erf(x) * mp.log(2),
            1, "5.93", 19, error_functions._ERF_TAIL,
        ),
        "gelu_erf, centre": Fit(
            lambda x: ((_phi(x) - mpf(1) / 2) / x - density) / x**2,
            lambda x: x**4 / (x * _phi(-x)),
            "0.01", 1, 11, error_functions._PHI_CENTRE, _square,
        ),
        "gelu_erf, tail": Fit(
            lambda w: (near - _scaled_tail(_from_inverse(w))) * _below(_from_inverse(w)),
            lambda w: 1 / (_scaled_tail(_from_inverse(w)) * _below(_from_inverse(w))),
            mpf(1) / 41, mpf(1) / 3, 11, error_functions._PHI_ABOVE, _from_inverse,
        ),
    }  # fmt: skip


def main(names: Sequence[str]) -> None:
    with mpmath.workdps(_DIGITS):
        for name, fit in fits().items():
            if not names or name in names:
                again = "the same" if fit.fitted() == list(fit.found) else "DIFFERENT"
                print(f"{name}: within 2^{fit.error():.1f}, {again} when fitted again", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
