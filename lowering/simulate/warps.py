"""What the lanes of a warp do together: shuffles and products of matrices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gizml_tile.dtypes import F32, F64, I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.kernel_ir.instructions import Instruction, Matrix
from gizml_tile.lowering.simulate.fused import fma
from gizml_tile.lowering.simulate.numbers import Array, to_float32
from gizml_tile.lowering.simulate.threads import Threads


def shuffle(threads: Threads, at: Instruction) -> Array:
    threads.meet_in_warps(at)
    value = threads.wide(at.args[0])
    lanes = threads.batch.lanes
    if at.attr is not None:
        assert isinstance(at.attr, int)
        order = np.arange(lanes) ^ at.attr
        return np.asarray(value.reshape(len(value), -1, lanes)[:, :, order].reshape(value.shape))
    lane = threads.wide(at.args[1])
    source = threads.everyone - threads.lane + (lane & (lanes - 1))
    if len(source) == 1:
        return np.asarray(value[:, source[0]])
    return np.asarray(np.take_along_axis(value, source, axis=1))


def outer(threads: Threads, at: Instruction) -> Array:
    a, b, c = (threads.get(arg) for arg in at.args)
    rows, columns = len(a), len(b)
    assert at.dtype in (F32, F64), f"outer of {at.dtype}: the kernel IR has it for floats of 32 and 64 bits"
    return fma(np.repeat(a, columns, axis=0), np.tile(b, (rows, 1)), c)


@lru_cache(maxsize=256)
def _holders(layout: Linear, lanes: int) -> Array:
    """For each element of a fragment (row-major) one place that holds it: register * lanes + lane."""
    rows, columns = layout.shape
    holder = np.zeros(rows * columns, np.int64)
    for lane in reversed(range(lanes)):
        for register, (row, column) in enumerate(layout.table("register", lane=lane)):
            holder[row * columns + column] = register * lanes + lane
    return holder


@lru_cache(maxsize=256)
def _elements(layout: Linear, lanes: int) -> Array:
    """The element (row-major) that each register of each lane holds: [registers * lanes]."""
    columns = layout.shape[1]
    held = [
        [row * columns + column for row, column in layout.table("register", lane=lane)]
        for lane in range(lanes)
    ]
    return np.array(held, np.int64).T.reshape(-1)


def _blocks(holders: Array, shape: tuple[int, int], outer: int, inner: int, by: int) -> Array:
    """Places of the elements of ``outer`` x ``inner`` fragments as one matrix, ``by`` places each."""
    rows, columns = shape
    fragments = np.arange(outer * inner).reshape(outer, 1, inner, 1) * by
    own = holders.reshape(rows, 1, columns)
    return np.asarray((fragments + own[None]).reshape(outer * rows, inner * columns))


@lru_cache(maxsize=64)
def _tables(matrix: Matrix, lanes: int) -> tuple[Array, Array, Array]:
    """Places of a's elements [m, k], of b's [k, n], and the element of c [m, n] at each place of c."""
    atom = matrix.atom
    a = _blocks(_holders(atom.a, lanes), atom.a.shape, matrix.m, matrix.k, atom.a.size("register") * lanes)
    # b's fragments are ordered by (n, k), its elements by (k, n): turned around on both ends.
    turned = _holders(atom.b, lanes).reshape(atom.b.shape).T.reshape(-1)
    b = _blocks(turned, (atom.n, atom.k), matrix.n, matrix.k, atom.b.size("register") * lanes).T
    held = _elements(atom.c, lanes)
    row, column = held // atom.n, held % atom.n
    m = np.arange(matrix.m)[:, None, None] * atom.m
    n = np.arange(matrix.n)[None, :, None] * atom.n
    c = (m + row) * (matrix.n * atom.n) + n + column
    return a, np.ascontiguousarray(b), np.asarray(c.reshape(-1))


def mma(threads: Threads, at: Instruction) -> Array:
    """Products in float32 (or float64) with sums of that in no particular order, or exact ones of integers.

    Of types narrower than F32 the products are exact. Subnormals stay what they are on every target.
    """
    threads.meet_in_warps(at)
    matrix = at.attr
    assert isinstance(matrix, Matrix)
    lanes = threads.batch.lanes
    a_places, b_places, c_elements = _tables(matrix, lanes)
    if threads.batch.checks:
        _check_replicas(threads, at, at.args[0], matrix.atom.a)
        _check_replicas(threads, at, at.args[1], matrix.atom.b)
    a = _gathered(threads, at.args[0], a_places, matrix)
    b = _gathered(threads, at.args[1], b_places, matrix)
    c = threads.get(at.args[2])
    product = np.matmul(a, b).reshape(len(a), -1)
    spread = product.take(c_elements, axis=1).reshape(len(a), at.count, lanes)
    spread = spread.transpose(1, 0, 2).reshape(at.count, threads.size)
    if at.dtype is I32:
        return np.asarray((c + spread.astype(np.int64)).astype(np.int32))
    assert at.dtype in (F32, F64), at.dtype
    return np.asarray(c + spread).astype(c.dtype)


def _check_replicas(threads: Threads, at: Instruction, value: Instruction, fragment: Linear) -> None:
    """Report lanes that do not hold the same where a fragment has an element in several of them."""
    lanes = threads.batch.lanes
    free = [bit for bit, basis in enumerate(fragment.bases("lane")) if basis == (0, 0)]
    if not free:
        return
    held = threads.wide(value)
    bits = np.ascontiguousarray(held).view(f"u{held.itemsize}").reshape(len(held), -1, lanes)
    differs = np.zeros(bits.shape[1:], np.bool_)
    for bit in free:
        differs |= (bits != bits[:, :, np.arange(lanes) ^ 1 << bit]).any(axis=0)
    if threads.active is not None:
        differs &= threads.active.reshape(differs.shape)
    if differs.any():
        text = "lanes that share an element of an operand hold different ones"
        threads.batch.log.add("divergent", at, text, int(differs.any(axis=1).sum()))


def _gathered(threads: Threads, value: Instruction, places: Array, matrix: Matrix) -> Array:
    """A fragment of each warp as matrices of numbers."""
    lanes = threads.batch.lanes
    held = threads.wide(value)
    by_warp = held.reshape(len(held), -1, lanes).transpose(1, 0, 2).reshape(-1, len(held) * lanes)
    taken = by_warp.take(places, axis=1)
    assert value.dtype is not None
    if value.dtype.is_integer or value.dtype is F64:
        return np.asarray(taken.astype(np.float64))
    if matrix.atom.ignored_bits:
        return (taken.view(np.int32) & np.int32(-1 << matrix.atom.ignored_bits)).view(np.float32)
    return to_float32(taken, value.dtype)
