"""Products block by block along k, as programs write them, with everything that may vary about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from agreement import HALF_ULP, TYPES, agree, assert_close, laid_out, launch, numbers
from tile_ir_interpreter import fused_multiply_add

import gizml_tile as tile


def same(block, p, along, i):
    return block


@dataclass(frozen=True)
class Product:
    """``c[..., i, j] = start + sum over k of left(A[i, k]) @ right(B[k, j])``, of M x K by K x N.

    ``left`` and ``right`` are called with the block, the program, the block of k and that of i or j;
    ``turns`` gives the loop's bounds from the program, the number of blocks and i.
    """

    sizes: tuple[int, int, int]
    block: tuple[int, int, int] = (32, 32, 16)
    types: tuple[str, str] = ("f32", "f32")
    result: str = "f32"
    orders: tuple[str, str, str] = ("C", "C", "C")
    transposed: tuple[bool, bool] = (False, False)
    pads: tuple[float, float] = (0, 0)
    left: Callable = same
    right: Callable = same
    start: Callable | None = None
    turns: Callable = lambda p, blocks, i: (0, blocks)
    batch: tuple[int, ...] = ()
    columns_first: bool = False

    def operands(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        m, k, n = self.sizes
        shapes = [(m, k), (k, n), (m, n)]
        made = []
        for shape, kind, order, turned in zip(
            shapes, (*self.types, self.result), self.orders, (*self.transposed, False), strict=True
        ):
            values = numbers(rng, (*self.batch, *(shape[::-1] if turned else shape)), TYPES[kind])
            made.append(laid_out(values, order))
        return tuple(made)

    def program(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[list[int], Callable]:
        """The grid and the body."""
        rows, columns, depth = self.block
        kind = tile.I32 if self.types[0] in ("i1", "u1") else tile.F32
        m, _, n = self.sizes
        grid = [tile.cdiv(m, rows), tile.cdiv(n, columns)]

        def body(p):
            place = [p.id(1), p.id(0)] if self.columns_first else [p.id(0), p.id(1)]
            lead = _unravel(p.id(2), self.batch)
            i, j = place
            shape_a = [depth, rows] if self.transposed[0] else [rows, depth]
            shape_b = [columns, depth] if self.transposed[1] else [depth, columns]
            A, B = p.read(a, shape_a, pad=self.pads[0]), p.read(b, shape_b, pad=self.pads[1])
            C = p.write(c, [rows, columns])

            def turn(k, total):
                x = A.at([*lead, k, i]).transpose() if self.transposed[0] else A.at([*lead, i, k])
                y = B.at([*lead, j, k]).transpose() if self.transposed[1] else B.at([*lead, k, j])
                return total.add(self.left(x, p, k, i).dot(self.right(y, p, k, j)))

            blocks = A.blocks(len(self.batch) + (not self.transposed[0]))
            start = self.start or (lambda p, C, place: p.zeros([rows, columns], kind))
            total = p.fold(*self.turns(p, blocks, i), start(p, C, [*lead, i, j]), turn)
            C.put(total, [*lead, i, j])

        if self.columns_first:
            grid.reverse()
        return [*grid, int(np.prod(self.batch))] if self.batch else grid, body

    def check(self, bound: float = 0.0) -> np.ndarray:
        """Compares with the meaning of the tile IR; gives the result."""
        operands = self.operands()
        agree(*self.program(*operands), bound)
        return operands[2]

    def launch(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        launch(*self.program(*operands))
        return operands[2]

    def check_plain(self) -> None:
        """Compares a product without work on its operands with one chain along k of the whole."""
        a, b, c = self.operands()
        self.launch((a, b, c))
        a = np.swapaxes(a, -1, -2) if self.transposed[0] else a
        b = np.swapaxes(b, -1, -2) if self.transposed[1] else b
        if c.dtype.kind == "i":
            assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
        elif {*self.types} <= {"bf16", "fp8"}:
            assert_product(c, a, b)
        else:
            assert_close(c, chain(a, b))


def assert_product(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within the language's bound of the true product, element by element."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert_close(result, x @ y, x.shape[-1] * HALF_ULP * (np.abs(x) @ np.abs(y)))


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Fused multiply-adds in F32 in the order of k, from zero."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        total = fused_multiply_add(a[..., k : k + 1], b[..., k : k + 1, :], total)
    return total


def _unravel(number, batch: tuple[int, ...]) -> list:
    """The coordinates of an index along leading dimensions."""
    places = []
    for size in reversed(batch):
        places.insert(0, number % size)
        number = number // size
    return places
