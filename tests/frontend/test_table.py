"""Each row of the table of what rewriting means: the explicit text, and the tile IR that both trace to."""

import textwrap

import pytest
from explicit import explicit, same_ir, scalar, tensor, written

from gizml_tile.dtypes import I32

ROWS = [
    ("a + b", "a.add(b)"),
    ("a - b", "a.sub(b)"),
    ("a * b", "a.mul(b)"),
    ("a / b", "a.div(b)"),
    ("-a", "a.neg()"),
    ("abs(a)", "a.abs()"),
    ("a + 1", "a.add(1)"),
    ("1 + a", "1 + a"),
    ("2 * a - 1", "(2 * a).sub(1)"),
    ("(a + b) * c", "a.add(b).mul(c)"),
    ("a + (b * c)", "a.add(b.mul(c))"),
    ("-a * b", "a.neg().mul(b)"),
    ("-(a * b)", "a.mul(b).neg()"),
    ("a @ b", "a.dot(b)"),
    ("c + a @ b", "c.add(a.dot(b))"),
    ("a < b", "a.lt(b)"),
    ("a <= b", "a.le(b)"),
    ("a > b", "a.gt(b)"),
    ("a >= b", "a.ge(b)"),
    ("a == b", "a.eq(b)"),
    ("a != b", "a.ne(b)"),
    ("0 < a", "a.gt(0)"),
    ("0 <= a < n", "a.ge(0).and_(a.lt(n))"),
    ("0 <= a < b <= 4", "a.ge(0).and_(a.lt(b)).and_(b.le(4))"),
    ("a < b and b < c", "a.lt(b).and_(b.lt(c))"),
    ("a < b or b < c or c < 0", "a.lt(b).or_(b.lt(c)).or_(c.lt(0))"),
    ("not a < b", "a.lt(b).not_()"),
    ("(a < b) & (b < c)", "a.lt(b).and_(b.lt(c))"),
    ("(a < b) | (b < c)", "a.lt(b).or_(b.lt(c))"),
    ("~(a < b)", "a.lt(b).not_()"),
    ("(a < b) ^ (b < c)", "a.lt(b).ne(b.lt(c))"),
    ("a if a < b else b", "a.lt(b).select(a, b)"),
    ("i if i < j else j", "i.lt(j).select(i, j)"),
    ("(a, i) if i < j else (b, j)", "i.lt(j).select((a, i), (b, j))"),
    ("min(a, b)", "a.minimum(b)"),
    ("max(a, b)", "a.maximum(b)"),
    ("max(a, b, c, 0)", "a.maximum(b).maximum(c).maximum(0)"),
    ("min(i, j)", "i.minimum(j)"),
    ("a ** 3", "a.pow(3)"),
    ("a ** -2", "a.pow(-2)"),
    ("a ** 0.5", "a.pow(0.5)"),
    ("a ** b", "a.pow(b)"),
    ("2.5 ** a", "2.5 ** a"),
    ("a % 2.5", "a.floormod(2.5)"),
    ("round(a) + 1", "round(a).add(1)"),
    ("a.isnan() and not b.sin() < c", "a.isnan().and_(b.sin().lt(c).not_())"),
    ("a.bitcast(I).popcount() + 1", "a.bitcast(I).popcount().add(1)"),
    ("i // 2", "i.floordiv(2)"),
    ("i % j", "i.floormod(j)"),
    ("(i + 1) * j", "i.add(1).mul(j)"),
    ("i ** 2", "i.pow(2)"),
    ("A[i, j]", "A.at([i, j])"),
    ("A[i + 1, 0].T", "A.at([i.add(1), 0]).transpose()"),
    ("a.T @ b", "a.transpose().dot(b)"),
    ("A.blocks(0) * 2", "A.blocks(0).mul(2)"),
    ("x.shape[1] + 1", "x.shape[1].add(1)"),
    ("a.sum(1) + 1", "a.sum(1).add(1)"),
    ("3 if DEBUG else 4", "3 if DEBUG else 4"),
    ("SIZE and SIZE + 1 or not SIZE", "SIZE and SIZE + 1 or not SIZE"),
    ("min(SIZE, 3)", "min(SIZE, 3)"),
    ("0 < SIZE < 9", "0 < SIZE < 9"),
    ("a * n", "a.mul(n)"),
    ("n * 2", "n * 2"),
    ("n < 3 and n > 1", "tile.dispatch.and_(n < 3, lambda: n > 1)"),
    ("n < 3 or n > 4 or n == 0", "tile.dispatch.or_(n < 3, lambda: n > 4, lambda: n == 0)"),
    ("not n < 3", "tile.dispatch.not_(n < 3)"),
    ("1 < n < 3", 'tile.dispatch.chain(1, "<", n, "<", lambda: 3)'),
    ("a if n < 3 else b", "tile.dispatch.select(n < 3, lambda: a, lambda: b)"),
    ("min(n, i)", "tile.dispatch.minimum(n, i)"),
    ("max(2, i)", "tile.dispatch.maximum(2, i)"),
    ("abs(n)", "tile.dispatch.abs(n)"),
]

HEAD = """
def kernel(p, x, y, n, *, DEBUG=False, SIZE=8):
    i, j = p.id(0), p.id(1)
    A, C = p.read(x, [8, 8]), p.write(y, [8, 8])
    a, b, c = A.at([0, 0]), A.at([0, 1]), A.at([1, 0])
"""


@pytest.mark.parametrize(("source", "expected"), ROWS, ids=[source for source, _ in ROWS])
def test_expression(source, expected):
    function = written(f"{HEAD}    value = {source}\n    keep(value)\n", keep=lambda value: None, I=I32)
    text = explicit(function)
    assert text == f"{HEAD}    value = {expected}\n    tile.dispatch.helper(keep)(value)\n".lstrip(
        "\n"
    )
    same_ir(function, tensor("x"), tensor("y"), scalar("n"))


STATEMENTS = [
    ("C[i, j] = a", "C.put(a, [i, j])"),
    ("C[i, j] = a + b * 2", "C.put(a.add(b.mul(2)), [i, j])"),
    ("C[i, 0] = C2[0, i] = a", "C[i, 0] = C2[0, i] = a"),
    ("p.write(z, [8, 8])[i, 0] = a", "p.write(z, [8, 8]).put(a, [i, 0])"),
    (
        "p.write(z, [8, 8])[i, 0] = a + b",
        "value_1 = a.add(b)\np.write(z, [8, 8]).put(value_1, [i, 0])",
    ),
    ("a += b", "a = a.add(b)"),
    ("a -= 1", "a = a.sub(1)"),
    ("a *= b; b /= 2", "a = a.mul(b); b = b.div(2)"),
    ("a @= b  # squares", "a = a.dot(b)  # squares"),
    ("i //= 2", "i = i.floordiv(2)"),
    ("n += 1", "n += 1"),
    (
        "for k in range(4):\n    a += b",
        "def loop_1(k, a):\n    a = a.add(b)\n    return a\na = p.fold(0, 4, a, loop_1)",
    ),
    (
        "for k in range(1, A.blocks(1)):\n    C[i, k] = a",
        "def loop_1(k, carried):\n    C.put(a, [i, k])\np.loop(1, A.blocks(1), [], loop_1)",
    ),
    (
        "for k in range(i, 0, -2):\n    a = b\n    b = a + c",
        "def loop_1(k, carried):\n    a, b = carried\n    a = b\n    b = a.add(c)\n    return a, b\n"
        "a, b = p.loop(i, 0, [a, b], loop_1, step=-2)",
    ),
    (
        "for k in tile.unroll(2):\n    a += A[k, 0]",
        "for k in tile.unroll(2):\n    a = a.add(A.at([k, 0]))",
    ),
    ("for t in [a, b]:\n    c += t", "for t in [a, b]:\n    c = c.add(t)"),
    ("if DEBUG:\n    a = b", "if DEBUG:\n    a = b"),
    ("while SIZE > 2:\n    SIZE //= 2", "while SIZE > 2:\n    SIZE //= 2"),
    (
        "if i < j:\n    a = b",
        "def then_1():\n    a = b\n    return a\na = p.cond(i.lt(j), then_1, lambda: a)",
    ),
    (
        "if i < j:\n    a += b\nelse:\n    b = a",
        "def then_1(a=a):\n    a = a.add(b)\n    return a, b\n"
        "def else_1():\n    b = a\n    return a, b\n"
        "a, b = p.cond(i.lt(j), then_1, else_1)",
    ),
    (
        "if i == 0:\n    C[0, 0] = a\nelif i == 1:\n    C[0, 1] = b",
        "def then_1():\n    C.put(a, [0, 0])\n"
        "def else_1():\n    def then_2():\n        C.put(b, [0, 1])\n    p.cond(i.eq(1), then_2)\n"
        "p.cond(i.eq(0), then_1, else_1)",
    ),
    (
        "if n > 2:\n    a = b",
        "def then_1():\n    a = b\n    return a\na = tile.dispatch.cond(n > 2, then_1, lambda: a)",
    ),
]


@pytest.mark.parametrize(
    ("source", "expected"), STATEMENTS, ids=[source for source, _ in STATEMENTS]
)
def test_statement(source, expected):
    head = HEAD.replace("y, n", "y, z, n").replace(
        "p.write(y, [8, 8])\n", "p.write(y, [8, 8])\n    C2 = C\n"
    )
    tail = "    C.put(a, [2, 0])\n    C.put(b, [3, 0])\n"
    function = written(head + textwrap.indent(source, "    ") + "\n" + tail)
    assert explicit(function) == (head + textwrap.indent(expected, "    ") + "\n" + tail).lstrip(
        "\n"
    )
    same_ir(function, tensor("x"), tensor("y"), tensor("z"), scalar("n"))
