"""Loops that end early and programs that return early: as Python runs the same function."""

import as_python
import numpy as np
import pytest
from control_cases import KERNELS, operands, product

import gizml_tile as tile

TARGETS = (("cuda", "sm_80"), ("hip", "gfx942"), ("hip", "gfx1100"), ("metal", "apple9"))
NUMBERS = [(0, 1), (1, 1), (3, 2), (6, 3), (7, 12), (2, 40)]


def results(launch, numbers=NUMBERS):
    x = np.arange(400, dtype=np.float32) % 37
    found = []
    for n, m in numbers:
        y = np.full((5, 8), -1, np.float32)
        launch(x, y, n, m)
        found.append(y)
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_as_python(name):
    kernel = KERNELS[name]
    want = results(lambda *args: as_python.run(kernel, (5,), *args))
    np.testing.assert_array_equal(results(kernel), want)


@pytest.mark.parametrize("kind, arch", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_simulated(name, kind, arch):
    kernel = KERNELS[name]

    def simulate(*args):
        assert [
            each for each in kernel.simulate(*args, kind=kind, arch=arch).findings if not each.is_cost
        ] == []

    some = NUMBERS[2:4]
    np.testing.assert_array_equal(results(simulate, some), results(kernel, some))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("size", [32, 128])
def test_products(dtype, size):
    a, b, c = operands(size, dtype)
    for n in (0, 3, 9):
        wide = np.zeros((2 * size, size))
        for k in [*range(0, min(n, 5), 2), *range(min(n + 1, 5))]:
            blocks = slice(k * size, k * size + size)
            wide += a[:, blocks].astype(float) @ b[blocks].astype(float)
        product(a, b, c, n, BLOCK=size)
        np.testing.assert_array_equal(c, wide)
        for kind, arch in (*TARGETS, ("cuda", "sm_90a")) if n == 3 else ():
            c[:] = -1
            run = product.simulate(a, b, c, n, BLOCK=size, kind=kind, arch=arch)
            assert [each for each in run.findings if not each.is_cost] == []
            np.testing.assert_array_equal(c, wide)


def test_no_roles_where_a_loop_may_end_early():
    half = [np.zeros((256, 256), np.float16) for _ in range(3)]

    @tile.kernel(grid=2)
    def early(p, a, b, c, n):
        A, B, C = p.read(a, [128, 64]), p.read(b, [64, 128]), p.write(c, [128, 128])
        acc = p.zeros([128, 128])
        k = p.int(0)
        while k < n:
            acc += A[p.id(0), k] @ B[k, 0]
            k += 1
        C[p.id(0), 0] = acc

    assert "no        the loop may end before its last turn" in early.explain(
        *half, 3, kind="cuda", arch="sm_90a"
    )


def test_numbers_out_of_tensors_bound_loops():
    @tile.kernel(grid=3)
    def follow(p, links, y):
        L, Y = p.read(links, [1]), p.write(y, [1])
        at, steps = p.id(0), p.int(0)
        while at >= 0 and steps < 100:
            at = L.index([at])
            steps += 1
        Y[p.id(0)] = steps.value(tile.I32)

    links = np.array([3, -1, 4, 1, 5, 0], np.int64)
    y = np.zeros(3, np.int32)
    follow(links, y)
    assert list(y) == [3, 1, 6]
    for kind, arch in TARGETS:
        y[:] = 0
        assert follow.simulate(links, y, kind=kind, arch=arch).findings == ()
        assert list(y) == [3, 1, 6]


def test_masks_and_several_types_are_carried():
    @tile.kernel(grid=1)
    def carry(p, x, y, n):
        t = p.read(x, [8])[0]
        seen, total, k = t < 0, t.to(tile.I32), p.int(1)
        while k < n:
            seen = seen | (t == k)
            total = total * 2 + k
            k = k * 3
        p.write(y, [8])[0] = seen.select(total, -total)

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.int32)
    carry(x, y, 20)
    seen, total, k = x < 0, x.astype(np.int32), 1
    while k < 20:
        seen, total, k = seen | (x == k), total * 2 + k, k * 3
    np.testing.assert_array_equal(y, np.where(seen, total, -total))
    for kind, arch in TARGETS:
        z = np.zeros(8, np.int32)
        carry.simulate(x, z, 20, kind=kind, arch=arch)
        np.testing.assert_array_equal(z, y)


def test_prints_in_loops_that_end_early(capsys):
    @tile.kernel(grid=2)
    def tell(p, y):
        k = p.id(0)
        while k < 3:
            p.print("turn", k)
            k += 1
        for j in range(10):
            if j > k - 2:
                break
            p.check(j < 2 - p.id(0), "few", j)
        p.write(y, [8])[p.id(0)] = p.zeros([8])

    with pytest.raises(tile.TileError, match="few: in program 1 where the value is 1"):
        tell(np.zeros(16, np.float32), debug=True)
    text = capsys.readouterr().out
    assert [line.partition("program ")[2] for line in text.splitlines()] == [
        f"{i}: turn {k}" for i in range(2) for k in range(i, 3)
    ]
    for kind, arch in TARGETS:
        run = tell.simulate(np.zeros(16, np.float32), debug=True, kind=kind, arch=arch)
        assert capsys.readouterr().out == text
        assert [each.kind for each in run.findings] == ["check"]


@pytest.mark.parametrize("kind, arch", TARGETS[::2])
def test_a_loop_that_never_ends_is_found(kind, arch):
    @tile.kernel(grid=1)
    def endless(p, y, n):
        k = p.int(0)
        while k < n:
            k = 1 - k
        p.write(y, [8])[0] = p.zeros([8]) + k

    (finding,) = endless.simulate(np.zeros(8, np.float32), 3, kind=kind, arch=arch).findings
    assert finding.kind == "endless" and finding.text == "loop: has not ended after 65536 turns"
    assert finding.line == endless.__wrapped__.__code__.co_firstlineno + 3


def test_the_explicit_form():
    y = np.zeros(8, np.float32)

    def body(p):
        def smaller(carried):
            return carried[0].lt(10)

        k, acc = p.while_([1, 0.0], smaller, lambda c: (c[0].mul(2), c[1].add(c[0].value())))
        j, total = p.loop(
            0, 5, [1, acc], lambda k, c: (c[0].sub(k), c[1].add(1)), condition=lambda c: c[0].ge(0)
        )
        p.write(y, [8]).put(total.add(k.value()).add(j.value()), [0])

    tile.run(1, body)
    assert set(y) == {(1 + 2 + 4 + 8) + 3 + 16 - 2}


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda p, X: p.while_(3, len, len), "while_ takes a list of carried values first, found 3"),
        (lambda p, X: p.while_([1], 3, len), "while_ takes two functions of what the loop carries, found 3"),
        (
            lambda p, X: p.while_([1], lambda c: c[0], lambda c: c),
            "the condition of a loop takes a comparison of",
        ),
        (
            lambda p, X: p.while_([1], lambda c: X.at([c[0]]).lt(1), lambda c: c),
            "found a mask [1, 8] of data",
        ),
        (lambda p, X: p.while_([1], lambda c: c[0].lt(2), lambda c: 3), "returns a list of 1 carried values"),
        (lambda p, X: p.loop(0, 2, [1], lambda k, c: c, condition=3), "the condition of loop is a function"),
        (
            lambda p, X: p.while_([1], lambda c: (p.print(c[0]), c[0].lt(2))[1], lambda c: c),
            "the condition of a loop compares indices and nothing else",
        ),
    ],
)
def test_wrong_explicit_loops(wrong, message):
    x = np.zeros(8, np.float32)
    with pytest.raises(tile.TileError) as caught:
        tile.run(1, lambda p: wrong(p, p.read(x, [8])) and None, debug=True)
    assert message in caught.value.message
