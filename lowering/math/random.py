"""Random numbers from counters: Philox 4x32-10, and the numbers that are made of its words.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.math.arithmetic import Arithmetic, V
from gizml_tile.lowering.math.logarithms import log_of_positive
from gizml_tile.lowering.math.trigonometric import sine

# The factors of the two products of a round, what each word of the key grows by between rounds, and how
# many rounds there are.
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_QUARTER = 1.5707963267948966 * 2.0**-30


def random_numbers(e: Arithmetic[V], kind: str, counter: tuple[V, V], key: tuple[V, V]) -> list[V]:
    """Four numbers of one counter, whose upper two words are 0.

    ``"bits"`` are the words of Philox. ``"uniform"`` are their upper 24 bits in units of 2^-24. ``"normal"``
    are two pairs of numbers of the normal distribution, each made of two words.
    """
    zero = e.bits_constant(0)
    words = philox(e, (*counter, zero, zero), key)
    if kind == "bits":
        return words
    if kind == "uniform":
        unit = e.constant(2.0**-24)
        return [e.mul(e.bits_to_float(e.shift_right_logical(word, 8)), unit) for word in words]
    assert kind == "normal", kind
    return [*_normal(e, words[0], words[1]), *_normal(e, words[2], words[3])]


def philox(e: Arithmetic[V], counter: Sequence[V], key: Sequence[V]) -> list[V]:
    """The four words of a counter of four."""
    words: Sequence[V] = counter
    keys: Sequence[V] = key
    factors = [e.bits_constant(_signed(factor)) for factor in _FACTORS]
    for number in range(_ROUNDS):
        if number:
            keys = [
                e.bits_add(word, e.bits_constant(_signed(step)))
                for word, step in zip(keys, _STEPS, strict=True)
            ]
        first, second = (
            e.bits_product(factor, words[place]) for factor, place in zip(factors, (0, 2), strict=True)
        )
        words = (
            e.bits_xor(e.bits_xor(second[0], words[1]), keys[0]),
            second[1],
            e.bits_xor(e.bits_xor(first[0], words[3]), keys[1]),
            first[1],
        )
    return list(words)


def _normal(e: Arithmetic[V], first: V, second: V) -> tuple[V, V]:
    """Two numbers by the method of Box and Muller: sqrt(-2 log u) times the cosine and the sine of an angle.

    u is (n + 1/2) / 2^31 with the upper 31 bits n of first; the angle is second / 2^32 of a turn.
    """
    uniform = e.fma(
        e.bits_to_float(e.shift_right_logical(first, 1)), e.constant(2.0**-31), e.constant(2.0**-32)
    )
    radius = e.sqrt(e.mul(log_of_positive(e, uniform), e.constant(-2.0)))
    quarters = e.shift_right_logical(e.bits_add(second, e.bits_constant(1 << 29)), 30)
    rest = e.bits_sub(second, e.shift_left(quarters, 30))
    angle = e.mul(e.bits_to_float(rest), e.constant(_QUARTER))
    cosine = sine(e, angle, e.bits_add(quarters, e.bits_constant(1)))
    return e.mul(radius, cosine), e.mul(radius, sine(e, angle, quarters))


def _signed(word: int) -> int:
    """A constant of 32 bits as the signed number that has them."""
    return (word ^ 1 << 31) - (1 << 31)
