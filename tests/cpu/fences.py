"""Programs whose tensors lie between pages that may not be touched: an access beyond one ends the process.

``python fences.py`` runs them; ``python fences.py beyond`` reads beyond one, which is noticed.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from agreement import TYPES, numbers
from products import Product, chain

import gizml_tile as tile

PAGE = mmap.PAGESIZE
NO_ACCESS = 0


def fenced(values: np.ndarray, *, at_end: bool) -> np.ndarray:
    """A copy of an array, C-contiguous, that ends right before a forbidden page or begins behind one."""
    size, pages = values.nbytes, -(-values.nbytes // PAGE)
    whole = np.frombuffer(mmap.mmap(-1, (pages + 2) * PAGE), np.uint8)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for place in (0, (pages + 1) * PAGE):
        assert protect(whole.ctypes.data + place, PAGE, NO_ACCESS) == 0
    inside = whole[PAGE : PAGE + pages * PAGE]
    part = inside[pages * PAGE - size :] if at_end else inside[:size]
    result = part.view(values.dtype).reshape(values.shape)
    result[...] = values
    return result


def products(at_end: bool) -> None:
    """Operands packed, turned, staged and read in place, with ends inside blocks and vectors."""
    for types in (("f32", "f32"), ("bf16", "bf16"), ("fp8", "f16"), ("i1", "u1")):
        for sizes, block in (
            ((37, 45, 51), (32, 32, 32)),
            ((5, 33, 1100), (4, 512, 16)),
            ((1, 7, 513), (1, 1024, 4)),
            ((70, 3, 5), (64, 8, 16)),
            ((16, 64, 32), (16, 32, 16)),
        ):
            for turned in (False, True):
                result = "i4" if types[0] == "i1" else "f32"
                product = Product(sizes, block, types, result, transposed=(turned, turned))
                a, b, c = (fenced(each, at_end=at_end) for each in product.operands())
                grid, body = product.program(a, b, c)
                tile.run(grid, body)
                want = chain(a.T if turned else a, b.T if turned else b)
                assert np.allclose(c, want, 1e-2, 1e-2), (types, sizes, block, turned)


def rows(at_end: bool) -> None:
    """Tiles of all widths and types, read, reduced, turned and stored over the tensors' ends."""
    rng = np.random.default_rng(0)
    for kind, dtype in TYPES.items():
        for shape, block in (((5, 37), (8, 64)), ((37, 5), (64, 8)), ((3, 1), (4, 1)), ((1, 300), (1, 256))):
            x = fenced(numbers(rng, shape, dtype), at_end=at_end)
            y = fenced(np.zeros(shape, dtype), at_end=at_end)
            z = fenced(np.zeros(shape[::-1], dtype), at_end=at_end)
            most = fenced(np.zeros((shape[0], 1), np.float32), at_end=at_end)

            def body(p, x=x, y=y, z=z, most=most, block=block):
                i, j = p.id(0), p.id(1)
                X, down = p.read(x, block), p.write(most, [block[0], 1])
                read, moved = X.at([i, j]), X.window([i - 1, j * block[1] - 3])
                p.write(y, block).put(read, [i, j])
                p.write(z, block[::-1]).put(read.transpose(), [j, i])
                down.put((moved > 0).select(read, read).to(tile.F32).max(1), [i, j])
                p.write(y, block).put_window(moved, [i * block[0] - 1, j * block[1] - 3])

            tile.run([tile.cdiv(shape[0], block[0]), tile.cdiv(shape[1], block[1])], body)
            assert np.array_equal(z, x.T), (kind, shape)


if __name__ == "__main__":
    if sys.argv[1:] == ["beyond"]:
        row = fenced(np.zeros(5, np.float32), at_end=True)
        sys.exit(int(np.lib.stride_tricks.as_strided(row, (6,), (4,))[5]))
    for end in (False, True):
        products(end)
        rows(end)
