"""A kernel as Python runs it: programs one after the other, tiles as NumPy arrays, indices as integers."""

from __future__ import annotations

import itertools

import numpy as np


class Program:
    """What a kernel's first parameter is, of one program; outside of tensors is 0, and nothing is stored."""

    def __init__(self, position):
        self.position = position

    def id(self, axis):
        return self.position[axis]

    def zeros(self, shape, dtype=None):
        return np.zeros((1, shape[0]) if len(shape) == 1 else tuple(shape), np.float32)

    def read(self, tensor, block):
        return _Blocks(tensor, block)

    write = read


class _Blocks:
    def __init__(self, tensor, block):
        self.tensor, self.block = tensor, block

    def _places(self, at):
        at = at if isinstance(at, tuple) else (at,)
        first = self.tensor.ndim - len(self.block)
        sizes = (1,) * first + tuple(self.block)
        return [np.arange(size) + place * size for size, place in zip(sizes, at, strict=True)]

    def __getitem__(self, at):
        found = np.zeros(self.block, self.tensor.dtype)
        places = self._places(at)
        for inner in np.ndindex(*self.block):
            outer = tuple(p[0] for p in places[: len(places) - len(inner)])
            place = outer + tuple(int(p[i]) for p, i in zip(places[-len(inner) :], inner, strict=True))
            if all(0 <= each < size for each, size in zip(place, self.tensor.shape, strict=True)):
                found[inner] = self.tensor[place]
        return found.reshape(1, -1) if len(self.block) == 1 else found

    def __setitem__(self, at, tile):
        places = self._places(at)
        tile = np.broadcast_to(tile, (1, self.block[0]) if len(self.block) == 1 else tuple(self.block))
        for inner in np.ndindex(*self.block):
            outer = tuple(p[0] for p in places[: len(places) - len(inner)])
            place = outer + tuple(int(p[i]) for p, i in zip(places[-len(inner) :], inner, strict=True))
            if all(0 <= each < size for each, size in zip(place, self.tensor.shape, strict=True)):
                self.tensor[place] = tile.reshape(self.block)[inner]

    def index(self, at):
        return int(self[at].flat[0])

    def blocks(self, axis):
        return -(-self.tensor.shape[axis] // self.block[axis - self.tensor.ndim])


def run(kernel, grid, *args, **constants):
    """The kernel's function as it was written, once for each program."""
    for position in itertools.product(*(range(size) for size in reversed(grid))):
        kernel.__wrapped__(Program(position[::-1]), *args, **constants)
