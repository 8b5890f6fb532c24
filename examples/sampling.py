"""Drawing a token: of all by the Gumbel trick, or of the likeliest that have a share of the weight together.

The largest of logit - log(-log(u)), with uniform u, is a draw from the softmax; so nothing has to be summed
first. For the likeliest tokens (top-p) nothing is sorted either: the least weight that is still drawn is
found by bisection, each step of which adds up the weights above a threshold. Numbers out of `p.random`
belong to a row and a place, so blocks of any size draw the same.
"""

import math

import measure
import numpy as np

import gizml_tile as tile


@tile.function
def drawn(p, X, logits, i, seed, least, BLOCK):
    """The place of the largest noisy logit of row i among those from ``least`` on."""
    best, place = p.full([1, 1], -math.inf), p.zeros([1, 1], tile.I32)
    for k in range(X.blocks(1)):
        t = X[i, k]
        counter = i * tile.cdiv(logits.shape[1], 4) + k * (BLOCK // 4)
        u = p.random(seed, counter, [1, BLOCK], "uniform")
        noisy = t - (-(u.log())).log() if t >= least else -math.inf
        top, at = noisy.max(1), noisy.argmax(1) + k * BLOCK
        place = at if top > best else place
        best = max(best, top)
    return place


@tile.kernel(grid=lambda tokens, **_: tokens.shape[0])
def sample(p, logits, seed, tokens, *, BLOCK=1024):
    i = p.id(0)
    X = p.read(logits, [1, BLOCK], pad=-math.inf)
    p.write(tokens, [1])[i] = drawn(p, X, logits, i, seed, -math.inf, BLOCK)


@tile.kernel(grid=lambda tokens, **_: tokens.shape[0])
def sample_likeliest(p, logits, seed, share, tokens, *, BLOCK=1024, STEPS=24):
    i = p.id(0)
    X = p.read(logits, [1, BLOCK], pad=-math.inf)
    top, total = p.full([1, 1], -1e30), p.zeros([1, 1])
    for k in range(X.blocks(1)):
        t = X[i, k]
        higher = max(top, t.max(1))
        total = total * (top - higher).exp() + (t - higher).exp().sum(1)
        top = higher
    # Between these logits is the least that is drawn: of weights below 2^-24 nobody sees the sum.
    low, high = top - 17, top
    for _ in range(STEPS):
        middle, mass = (low + high) / 2, p.zeros([1, 1])
        for k in range(X.blocks(1)):
            t = X[i, k]
            mass += ((t - top).exp() if t >= middle else 0).sum(1)
        enough = mass >= share * total
        low, high = middle if enough else low, high if enough else middle
    p.write(tokens, [1])[i] = drawn(p, X, logits, i, seed, low, BLOCK)


def likeliest(logits, share):
    """The least logit that is drawn of each row."""
    down = -np.sort(-logits, 1)
    weights = np.exp(down - down[:, :1])
    count = (np.cumsum(weights, 1) < share * weights.sum(1, keepdims=True)).sum(1)
    return np.take_along_axis(down, count[:, None], 1)


def numpy_draws(rng, logits):
    return (logits + rng.gumbel(size=logits.shape)).argmax(1)


def main(quick=False):
    rows, vocabulary, block = (400, 11, 128) if quick else (4000, 11, 128)
    logits = np.tile(measure.random(1, vocabulary, seed=3), (rows, 1))
    tokens = np.empty(rows, np.int32)
    weights = np.exp(logits[0].astype(np.float64))
    for name, share in (("sampling", 1.0), ("sampling of the likeliest", 0.6)):
        if share == 1:
            sample(logits, 42, tokens, BLOCK=block)
        else:
            sample_likeliest(logits, 42, share, tokens, BLOCK=block)
            weights = weights * (logits[0] >= likeliest(logits[:1], share)[0])
        chances = weights / weights.sum()
        counts = np.bincount(tokens, minlength=vocabulary)
        off = np.abs(counts / rows - chances) / np.sqrt(chances * (1 - chances) / rows + 1e-30)
        measure.check(f"{name}, in standard deviations", off, 0, 5)
    logits = measure.random(5, 300, seed=4) if quick else measure.random(32, 128_000, seed=4)
    one, other = (np.empty(len(logits), np.int32) for _ in range(2))
    sample(logits, 7, one)
    sample(logits, 7, other, BLOCK=256)
    measure.check("sampling, other blocks", one, other, 0)
    rng = np.random.default_rng(0)
    measure.compare(
        f"sampling {logits.shape[0]} of {logits.shape[1]}",
        1e-9 * logits.size,
        "G logits/s",
        lambda: sample(logits, 7, one),
        quick,
        NumPy=lambda: numpy_draws(rng, logits),
    )


if __name__ == "__main__":
    measure.run(main)
