"""Kernels whose loops end early and whose programs return early, each as a person would write it."""

import numpy as np
from gpu_cases import Case

import gizml_tile as tile

KERNELS = {}


def case(function):
    KERNELS[function.__name__] = tile.kernel(grid=5)(function)
    return function


@case
def while_on_a_comparison(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    k = p.id(0)
    while k < n:
        acc += X[k]
        k += 1
    Y[i, 0] = acc + k


@case
def while_with_a_host_start(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc, k = p.zeros([1, 8]), 0
    while k * k < n + i * 3 and k < m:
        acc += X[k]
        k += 1
    else:
        acc = acc * 2
    Y[i, 0] = acc + k


@case
def while_with_a_host_value_in_part(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc, k = p.zeros([1, 8]), 1
    most = min(i + n, 4)
    while not (k >= most or k == 3):
        acc += X[k]
        k += 1
    j = 1
    while j == 1 or j < most:
        acc += X[j + i]
        j += 2
    Y[i, 0] = acc


@case
def while_of_one_value(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    k = i + n
    while k % m != 0:
        k += 1
    Y[i, 0] = X[k // m]


@case
def whiles_in_each_other(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    k = i * 0
    while k < n:
        j = k
        while j > i:
            acc += X[j]
            j -= 2
        acc = acc * 0.5 + j
        k += 1
    Y[i, 0] = acc


@case
def while_true(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    k = i
    while True:
        if k >= n:
            break
        acc += X[k]
        if k == m:
            acc = acc * 3
            break
        k += 1
    Y[i, 0] = acc


@case
def while_true_with_run_time_numbers(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc, k = p.zeros([1, 8]), 0
    while 1:
        if k > n:
            if k > m:
                break
            acc += 10
        k += 1
        acc += X[k + i]
    Y[i, 0] = acc


@case
def breaks(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    for k in range(n):
        if k * i > m:
            break  # on its line
        acc += X[k]
    Y[i, 0] = acc


@case
def break_at_once(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    for k in range(i, n):
        acc += X[k]
        break
    for _ in range(n):
        break
    Y[i, 0] = acc


@case
def break_backwards(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc, k = p.zeros([1, 8]), 100
    for k in range(n, -1, -2):
        acc += X[k]
        if k < i:
            acc += 1
            break
    Y[i, 0] = acc + k


@case
def break_by_a_step(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    for k in range(0, n, i + 1):
        acc += X[k]
        if k > m:
            break
    else:
        acc += 1000
    Y[i, 0] = acc


@case
def continues(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    for k in range(n):
        if k == i:
            continue
        elif k == m:
            acc += 5
        else:
            acc += 1
            if k % 3 == 0:
                continue
            acc += 2
        acc += X[k]
    Y[i, 0] = acc


@case
def continue_in_while(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc, k = p.zeros([1, 8]), i
    while k < n:
        k += 1
        if k % 2 == 1:
            continue
        acc += X[k]
        if k > m:
            break
    Y[i, 0] = acc + k


@case
def returns(p, x, y, n, m):
    """Programs beyond the end have nothing to do."""
    i = p.id(0)
    if i >= n:
        return
    p.write(y, [1, 8])[i, 0] = p.read(x, [8])[i]


@case
def returns_after_stores(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    t = X[3]
    if i == n:
        Y[i, 0] = X[0]
        return
    elif i > n:
        t = X[1]
        if i > m:
            return
        t = t + 1
    else:
        t = X[2]
    Y[i, 0] = t


@case
def returns_in_loops(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    for k in range(n):
        for j in range(n):
            if j > k:
                break
            if k * j > m:
                if j == i:
                    Y[i, 0] = acc
                    return
                acc += 100
            acc += X[k]
        if k == 5:
            Y[i, 0] = acc * 2
            return
        acc = acc * 0.5
    else:
        acc += 7
    Y[i, 0] = acc + 1


@case
def returns_in_while(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    k = i
    while k < n:
        t = X[k]
        if k == m:
            Y[i, 0] = t
            return
        Y[i, 0] = t * 2
        k += 1
    Y[i, 0] = X[k] + k


@case
def all_together(p, x, y, n, m):
    i = p.id(0)
    X, Y = p.read(x, [8]), p.write(y, [1, 8])
    acc = p.zeros([1, 8])
    if i == 4:
        return
    for k in range(n):
        j = k
        while True:
            j += 1
            if j % 3 == 0:
                continue
            if j > m:
                break
            acc += X[j]
            if j * k == 6 + i:
                Y[i, 0] = acc
                return
        if j % 2 == 0:
            continue
        if k + j > 2 * n:
            acc += 0.25
            break
        acc = acc - X[k]
    else:
        acc = acc * 4
    Y[i, 0] = acc


@tile.kernel(grid=2)
def product(p, a, b, c, n, *, BLOCK=32):
    """Every second block of a sum of products, and then some of the first ones."""
    A, B, C = p.read(a, [BLOCK, BLOCK]), p.read(b, [BLOCK, BLOCK]), p.write(c, [BLOCK, BLOCK])
    acc = p.zeros([BLOCK, BLOCK])
    k = 0
    while k < n:
        acc += A[p.id(0), k] @ B[k, 0]
        k += 2
    for k in range(A.blocks(1)):
        if k > n:
            break
        acc += A[p.id(0), k] @ B[k, 0]
    C[p.id(0), 0] = acc


def operands(size: int, dtype: type) -> list[np.ndarray]:
    """Small integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    shapes = (2 * size, 5 * size), (5 * size, size)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in shapes)
    return [a, b, np.zeros((2 * size, size), np.float32)]


def _vectors() -> list[np.ndarray]:
    return [np.arange(400, dtype=np.float32) % 37, np.full((5, 8), -1, np.float32)]


_SOME = "while_with_a_host_start while_true break_by_a_step continues returns_in_loops all_together".split()
CASES = [
    *(Case(name.replace("_", " "), KERNELS[name], lambda: [*_vectors(), 6, 3]) for name in _SOME),
    Case("product that ends early", product, lambda: [*operands(32, np.float16), 3]),
]
