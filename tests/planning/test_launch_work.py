"""What a whole launch is said to do, against what its sizes say, and the times that this takes at least."""

import math
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

import gizml_tile as tile
from gizml_tile.target import gpus


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=128, BN=128, BK=32):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def attention(p, q, k, v, out, *, D=64, APPROX=False, CAUSAL=False, BM=64, BN=64):
    if APPROX:
        p.approx()
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query = Q[head, i, 0]
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    for j in range(min(K.blocks(1), tile.cdiv((i + 1) * BM, BN)) if CAUSAL else K.blocks(1)):
        scores = (query @ K[head, j, 0].T) * D**-0.5
        if CAUSAL:
            scores = scores if p.iota([1, BN], 1) + j * BN <= p.iota([BM, 1], 0) + i * BM else -math.inf
        higher = max(top, scores.max(1))
        weights, shrink = (scores - higher).exp(), (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[head, j, 0]
        top = higher
    p.write(out, [BM, D])[head, i, 0] = acc / total


@tile.kernel(grid=1)
def as_often_as_told(p, x, y):
    X = p.read(x, [8, 8])
    often = p.fold(0, 4, p.id(0), lambda k, last: last + k)
    p.write(y, [8, 8])[0, 0] = p.fold(0, often, p.zeros([8, 8]), lambda k, t: t + X[0, k])


@tile.kernel(grid=lambda y, B: tile.cdiv(y.shape[0], B))
def doubled_if_wanted(p, x, wanted, y, *, B=256):
    i = p.id(0)
    if p.read(wanted, [1]).index([i]) == 0:
        return
    X, total = p.read(x, [B]), p.zeros([1, B])
    for _ in range(2):
        total += X[i]
    p.write(y, [B])[i] = total


def zeros(*shape):
    """A tensor that takes no memory."""
    return np.zeros(shape, bfloat16)


class Told:
    """What `explain` says of a launch."""

    def __init__(self, kernel, *tensors, kind="cuda", arch="sm_90a", **named):
        self.text = kernel.explain(*tensors, kind=kind, arch=arch, **named).partition("The launch\n")[2]

    @property
    def multiply_adds(self):
        return sum(map(int, re.findall(r"(\d+) multiply-adds", self.text)))

    @property
    def moved(self):
        return tuple(map(int, re.search(r"(\d+) bytes from tensors, (\d+) to tensors", self.text).groups()))

    def seconds(self, what):
        number, unit = re.search(rf"{what}:? (\d+\.\d+) (\w+)", self.text).groups()
        return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]

    @property
    def bound(self):
        return re.search(r"bound by (.*): ", self.text)[1]


GPUS = [(each.kind, each.arch) for each in gpus()]


@pytest.mark.parametrize("kind, arch", GPUS)
def test_products_are_counted_whole(kind, arch):
    m, n, k = 512, 1024, 768
    told = Told(matmul, zeros(m, k), zeros(k, n), zeros(m, n), kind=kind, arch=arch)
    assert told.multiply_adds == m * n * k
    assert told.moved == (2 * k * (m + n), 2 * m * n)


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx1100")])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_counted_whole(causal, kind, arch):
    heads, length, depth = 3, 1024, 64
    tensors = [zeros(heads, length, depth) for _ in range(4)]
    told = Told(attention, *tensors, kind=kind, arch=arch, CAUSAL=causal)
    blocks = length // 64
    pairs = blocks * (blocks + 1) // 2 if causal else blocks * blocks
    assert told.multiply_adds == heads * pairs * 64 * 64 * depth * 2
    assert told.moved == (3 * 2 * heads * length * depth, 2 * heads * length * depth)


def test_workgroups_that_share_a_program_are_counted_once():
    told = Told(matmul, zeros(128, 8192), zeros(8192, 1024), zeros(128, 1024), BM=128, BN=128, BK=64)
    assert "8 programs" in told.text
    assert told.multiply_adds == 128 * 1024 * 8192
    assert told.moved == (2 * 8192 * (128 + 1024), 2 * 128 * 1024)


@pytest.mark.parametrize("causal", [False, True])
def test_programs_that_share_a_workgroup_are_counted_apart(causal):
    """Where the last workgroup along the axis has fewer programs, it counts as a whole one."""
    tensors = [zeros(32, 4032, 64) for _ in range(4)]
    told = Told(attention, *tensors, CAUSAL=causal, APPROX=True)
    blocks = 4032 // 64
    pairs = blocks * (blocks + 1) // 2 if causal else blocks * blocks
    text = attention.explain(*tensors, kind="cuda", CAUSAL=causal, APPROX=True)
    assert "3 programs in one workgroup" in text
    assert told.multiply_adds == 32 * pairs * 64 * 64 * 64 * 2


def test_f32_products_loop_over_pieces_of_k():
    a, b, c = (np.zeros((512, 512), np.float32) for _ in range(3))
    told = Told(matmul, a, b, c, BM=128, BN=128, BK=64, warps=8)
    assert told.multiply_adds == 512**3
    assert told.bound == "issuing instructions"


def test_large_products_are_bound_by_the_matrix_units():
    """An H200 makes 989 TFLOP/s of BF16, by its data sheet."""
    told = Told(matmul, *(zeros(8192, 8192) for _ in range(3)), BM=128, BN=256, BK=64)
    assert told.bound == "the matrix units"
    assert 2 * 8192**3 / told.seconds("bound by the matrix units") == pytest.approx(989e12, rel=0.01)
    assert told.seconds("the memory of the device") == pytest.approx(3 * 2 * 8192**2 / 4.8e12, rel=1e-3)


def test_exact_exponentials_bound_attention_and_approximate_ones_do_not():
    tensors = [zeros(16, 4096, 128) for _ in range(4)]
    exact, approximate = (
        Told(attention, *tensors, D=128, APPROX=approx, BM=128, BN=128) for approx in (False, True)
    )
    products, exponentials = 4 * 16 * 4096**2 * 128, 16 * 4096**2
    assert exact.bound == "issuing instructions" and "special functions" not in exact.text
    assert approximate.bound == "the matrix units"
    assert products / approximate.seconds("bound by the matrix units") == pytest.approx(989e12, rel=0.01)
    # A multiprocessor makes 16 in a cycle; the rows' own scales and sums take a few more.
    least = exponentials / (16 * 132 * 1.98e9)
    assert least < approximate.seconds("special functions") < 1.1 * least
    assert exact.seconds("bound by issuing instructions") > 1.2 * exact.seconds("the matrix units")


def test_without_the_number_of_turns_there_is_no_bound():
    told = Told(as_often_as_told, zeros(8, 64), zeros(8, 8))
    assert "is not known before" in told.text and "bound by" not in told.text


def test_tensors_that_repeat_along_an_axis_are_read_once():
    row = np.broadcast_to(np.zeros(256, bfloat16), (256, 256))
    assert Told(matmul, row, zeros(256, 256), zeros(256, 256)).moved[0] == 2 * (256 + 256 * 256)


@tile.kernel(grid=1)
def masked_out(p, x):
    p.write(x, [1]).scatter(p.zeros([1, 1]), [p.k(0, tile.I32)], mask=p.k(1) < 0)


def test_explain_of_a_launch_that_does_nothing():
    told = masked_out.explain(np.zeros(8, np.float32), kind="cuda", arch="sm_90a")
    assert (
        told.split("The launch\n")[1].split()
        == "1 program, on 132 multiprocessors 0 instructions of a warp".split()
    )


def test_of_a_branch_the_longer_way_is_counted():
    """A return before everything else is not what most programs are launched for."""
    x, wanted = zeros(1 << 20), np.zeros(1 << 12, np.int32)
    told = Told(doubled_if_wanted, x, wanted, zeros(1 << 20))
    assert told.moved == (x.nbytes + wanted.nbytes, x.nbytes)
    assert told.bound == "the memory of the device"
    assert "the longer one is counted" in doubled_if_wanted.explain(x, wanted, zeros(1 << 20), kind="cuda")
    assert "tell to do less count like those that do most" in told.text


@tile.kernel(grid=lambda y, B: tile.cdiv(y.shape[0], B))
def summed_if_wanted(p, x, wanted, y, *, B=256):
    i = p.id(0)
    X, total = p.read(x, [B]), p.zeros([1, B])
    for k in range(X.blocks(0) if p.read(wanted, [1]).index([i]) > 0 else 0):
        total += X[k]
    p.write(y, [B])[i] = total


def test_of_turns_that_tensors_choose_the_more_are_counted():
    x, wanted, y = zeros(1 << 16), np.zeros(64, np.int32), zeros(1 << 14)
    told = Told(summed_if_wanted, x, wanted, y)
    assert told.moved == (x.nbytes + wanted.nbytes, y.nbytes)
    assert "tell to do less count like those that do most" in told.text
    assert "tell to do less" not in Told(matmul, *(zeros(256, 256) for _ in range(3))).text
