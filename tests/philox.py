"""Random numbers as the language defines them, from Philox 4x32-10 in 64-bit integers and float64."""

from __future__ import annotations

import numpy as np


def words(counters, seed):
    """The four words of each counter along a new last axis: integers from 0 to 2^32."""
    low = np.uint64(0xFFFFFFFF)
    wide, half = np.asarray(counters, np.int64).view(np.uint64), np.uint64(32)
    a, b, c, d = wide & low, wide >> half, np.zeros_like(wide), np.zeros_like(wide)
    key = [np.uint64(seed % 2**32), np.uint64(seed % 2**64 >> 32)]
    with np.errstate(over="ignore"):
        for _ in range(10):
            first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
            a, b, c, d = second >> half ^ b ^ key[0], second & low, first >> half ^ d ^ key[1], first & low
            key = [key[0] + np.uint64(0x9E3779B9) & low, key[1] + np.uint64(0xBB67AE85) & low]
    return np.stack([a, b, c, d], -1)


def drawn(kind, counters, seed):
    """The four numbers of each counter: int64, or float64 (normal ones to about 2^-50 of F32's)."""
    found = words(counters, seed)
    if kind == "bits":
        return found.astype(np.int64)
    if kind == "uniform":
        return (found >> np.uint64(8)).astype(np.float64) * 2.0**-24
    upper = (found[..., ::2] >> np.uint64(1)).astype(np.float32).astype(np.float64)
    # What F32 has no room for is rounded off before the logarithm.
    uniform = (upper * 2.0**-31 + 2.0**-32).astype(np.float32).astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log(uniform)), found[..., 1::2].astype(np.float64) * (2 * np.pi / 2**32)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return pairs.reshape(found.shape)


def tile_of(kind, shape, counters, seed):
    """The numbers of a tile from counters that stretch to its quarters of columns."""
    rows, columns = shape
    counters = np.broadcast_to(counters, (rows, -(-columns // 4)))
    return drawn(kind, np.ascontiguousarray(counters), seed).reshape(rows, -1)[:, :columns]
