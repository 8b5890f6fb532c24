"""The tile IR as text: an example of everything, and what makes two texts differ."""

from __future__ import annotations

import numpy as np

from gizml_tile.program import trace
from gizml_tile.text import text

DATA = np.zeros((64, 64), np.float32)
BATCH = np.zeros((2, 64, 64), np.float16)


def body(p):
    scale, n = p.arg(0.5), p.arg(7)
    A, C = p.read(BATCH, [8, 8], pad=-np.inf), p.write(DATA, [8])
    p.warps(4)
    p.approx()
    acc = p.fold(0, A.blocks(2), p.zeros([8, 8]), lambda k, acc: acc + A.window([0, k, n]) @ A[1, k, 0])
    x = p.cond(n < 3, lambda: acc.exp(), lambda: acc * scale)
    C.put(x.max(0).to(np.float16), [p.id(0), 0])


TEXT = """\
program example(t0: f16 rank 3, t1: f32 rank 2, s0: f32, s1: i64)
writes t1
warps 4, approx
 0  scalar     [1, 1] f32   s0
 1  scalar     index        s1
 2  size       index        t0 axis 2
 3  index      index        7
 4  add        index        2 3
 5  index      index        8
 6  div        index        4 5
 7  const      [8, 8] f32   0.0
 8  index      index        0
 9  index      index        1
10  loop                    8 .. 6 step 9 carries 7
11    param 0  index
12    param 1  [8, 8] f32
13    index    index        0
14    read     [8, 8] f16   t0 window 8x8 pad -inf: 13 11 1
15    index    index        1
16    index    index        0
17    read     [8, 8] f16   t0 at 8x8 pad -inf: 15 11 16
18    dot      [8, 8] f32   14 17
19    add      [8, 8] f32   12 18
      give                  19
20  result     [8, 8] f32   0: 10
21  index      index        3
22  lt         [1, 1] mask  1 21
23  cond                    22
    then
24    exp      [8, 8] f32   approx: 20
      give                  24
    else
25    mul      [8, 8] f32   20 0
      give                  25
26  result     [8, 8] f32   0: 23
27  max        [1, 8] f32   axis 0: 26
28  to         [1, 8] f16   27
29  id         index        axis 0
30  index      index        0
31  put                     t1 at 8: 28 29 30
"""


def test_an_example():
    assert text(trace("example", body).program, places=False) == TEXT


def test_places_stand_at_the_end():
    lines = text(trace("example", body).program).splitlines()
    first = body.__code__.co_firstlineno
    (loop,) = [line for line in lines if " loop " in line]
    assert loop.endswith(f"test_text.py:{first + 5}")
    (put,) = [line for line in lines if " put " in line]
    assert put.endswith(f"test_text.py:{first + 7}")


def test_layouts_have_a_column():
    found = text(
        trace("example", body).program,
        places=False,
        layouts=lambda node: "mma 2x2" if node.op == "dot" else "",
    )
    (line,) = [line for line in found.splitlines() if "{" in line]
    assert line.split()[1] == "dot" and line.endswith("{mma 2x2}")


def same(one, other):
    first, second = (text(trace("test", each).program, places=False) for each in (one, other))
    return first == second


def test_what_makes_texts_differ():
    def of(value, dtype=np.float32):
        def make(p):
            p.write(DATA, [8, 8]).put(p.full([8, 8], value, dtype), [0, 0])

        return make

    assert same(of(1.0), of(1))
    assert not same(of(0.0), of(-0.0))
    assert not same(of(0.1), of(np.nextafter(np.float32(0.1), np.float32(1))))
    assert not same(of(1.0), of(1.0, np.float16))
    assert same(of(float("nan")), of(-float("nan")))


def test_fused_products_show_their_signs():
    from gizml_tile.lowering.tile_passes.pipeline import simplify

    def make(p):
        a = p.read(DATA, [8, 8])[0, 0]
        p.write(DATA, [8, 8])[0, 0] = a - (a * 2) * 3

    assert "-product: " in text(simplify(trace("test", make).program), places=False)
