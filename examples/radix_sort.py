"""Sorting by digits of four bits: count, add up, put in place; and what programs can know of each other.

Programs of a launch do not see each other, so each pass is three launches. The first counts the digits of
each block. The second adds up all counts before each, in the order of digits and then of blocks: that is
where the block's elements with that digit begin. The third ranks the elements of a block among those with
the same digit by a running sum, and scatters them. Equal digits keep their order, so eight passes sort 32
bits.
"""

import measure
import numpy as np

import gizml_tile as tile

DIGITS = 16


@tile.function
def digits(p, keys, i, shift, BLOCK):
    """The keys of a block and their digits; past the end a digit is -1."""
    key = p.read(keys, [BLOCK])[i]
    inside = p.iota([1, BLOCK], 1, tile.I32) + i * BLOCK < keys.shape[0]
    return key, ((key >> shift) & (DIGITS - 1)).to(tile.I32) if inside else -1


@tile.kernel(grid=lambda counts, **_: counts.shape[1])
def count(p, keys, shift, counts, *, BLOCK):
    i = p.id(0)
    _, digit = digits(p, keys, i, shift, BLOCK)
    p.write(counts, [DIGITS, 1])[0, i] = digit.histogram(DIGITS).T


@tile.kernel(grid=1)
def add_up(p, counts, starts, *, BLOCK=1024):
    """Each number becomes the sum of all before it, row by row."""
    C, S, before = p.read(counts, [1, BLOCK]), p.write(starts, [1, BLOCK]), p.zeros([1, 1], tile.I32)
    for digit in range(DIGITS):
        for k in range(C.blocks(1)):
            t = C[digit, k]
            S[digit, k] = t.cumsum(1) - t + before
            before += t.sum(1)


@tile.kernel(grid=lambda starts, **_: starts.shape[1])
def put_in_place(p, keys, shift, starts, out, *, BLOCK):
    i = p.id(0)
    key, digit = digits(p, keys, i, shift, BLOCK)
    own = (p.iota([DIGITS, 1], 0, tile.I32) == digit).to(tile.I32)  # [DIGITS, BLOCK]: one 1 in each column
    place = ((own.cumsum(1) - own + p.read(starts, [DIGITS, 1])[0, i]) * own).sum(0)
    p.write(out, [1]).scatter(key, [place], mask=digit >= 0)


def radix_sort(counts, starts, other, keys, BLOCK=1024):
    """Sort unsigned numbers of 32 bits in place, with another tensor and counts of all blocks as room."""
    for shift in range(0, 32, 4):
        count(keys, shift, counts, BLOCK=BLOCK)
        add_up(counts, starts)
        put_in_place(keys, shift, starts, other, BLOCK=BLOCK)
        keys, other = other, keys


def main(quick=False):
    n, block = (1001, 256) if quick else ((1 << 20) + 1, 1024)
    given = np.random.default_rng(0).integers(0, 1 << 32, n, np.uint32)
    keys = given.copy()
    counts, starts = (np.empty((DIGITS, tile.cdiv(n, block)), np.int32) for _ in range(2))
    rooms = counts, starts, np.empty_like(keys)
    radix_sort(*rooms, keys, BLOCK=block)
    measure.check("radix_sort", keys, np.sort(given), 0)

    def ours():
        keys[:] = given
        radix_sort(*rooms, keys, BLOCK=block)

    measure.compare(f"sorting {n} numbers", 1e-6 * n, "M/s", ours, quick, NumPy=lambda: np.sort(given))


if __name__ == "__main__":
    measure.run(main)
