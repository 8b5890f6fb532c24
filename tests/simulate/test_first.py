import numpy as np
from kernels import buffer, random, run


def test_vector_add():
    a, b, c = random(1000), random(1000, seed=1), np.zeros(1000, np.float32)

    def write(k):
        k.at(1)
        i = k.add(k.mul(k.workgroup(), k.number(128)), k.thread())
        mask = k.map("lt", i, k.number(1000))
        k.put(2, k.add(k.get(0, i, mask=mask), k.get(1, i, mask=mask)), i, mask=mask)

    found = run(write, [a, b, c], grid=(8,), threads=128)
    assert not found.found, found
    assert (c == a + b).all()


def test_out_of_bounds():
    a, c = random(1000), np.zeros(1000, np.float32)

    def write(k):
        k.at(1)
        i = k.add(k.mul(k.workgroup(), k.number(128)), k.thread())
        k.at(2)
        v = k.get(0, i)
        k.at(3)
        k.put(1, v, i)

    found = run(write, [a, c], grid=(8,), threads=128)
    assert [(f.kind, f.place.line, f.count) for f in found] == [
        ("out of bounds", 2, 24),
        ("out of bounds", 3, 24),
    ]
    assert (c == a).all()


def reverse(barrier):
    def write(k):
        k.at(1)
        t = k.thread()
        v = k.get(0, t)
        k.at(2).keep(0, v, t)
        if barrier:
            k.at(3).barrier(0, 64)
        k.at(4)
        v = k.take(0, k.sub(k.number(63), t))
        k.at(5).put(1, v, t)

    return write


def test_reverse():
    a, c = random(64), np.zeros(64, np.float32)
    found = run(reverse(True), [a, c], [buffer("s", 64)])
    assert not found.found, found
    assert (c == a[::-1]).all()
    found = run(reverse(False), [a, c], [buffer("s", 64)])
    assert [(f.kind, f.place.line) for f in found] == [("race", 4)], found
    print(found)
