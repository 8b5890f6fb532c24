"""Slips in kernels: each is right after all, or a TileError at the person's line, never another error.

Tokens of a few kernels are exchanged, left out or added by chance, from a seed. A slip that Python itself
finds (a name that is not there, an item of a number) is Python's error, raised on the person's line.
"""

import io
import keyword
import linecache
import random
import tokenize
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.errors import is_own_file

F32 = np.float32
MATMUL = """
@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def kernel(p, a, b, c, *, BM=16, BN=8, BK=8):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc.relu()
"""
SOFTMAX = """
@tile.kernel(grid=lambda x, ROWS, **_: tile.cdiv(x.shape[0], ROWS))
def kernel(p, x, y, *, ROWS=4, COLUMNS=16):
    i = p.id(0)
    X, Y = p.read(x, [ROWS, COLUMNS], pad=float("-inf")), p.write(y, [ROWS, COLUMNS])
    t = X[i, 0]
    e = (t - t.max(1)).exp()
    Y[i, 0] = e / e.sum(1)
"""
GATHER = """
@tile.kernel(grid=lambda ids, R, **_: tile.cdiv(ids.shape[0], R))
def kernel(p, table, ids, out, counts, *, R=4, C=8):
    i = p.id(0)
    T, I = p.read(table, [1, C]), p.read(ids, [R])
    O, N = p.write(out, [R, C]), p.write(counts, [16])
    rows = I[i].T
    x = T.gather([rows, p.iota([1, C], 1, tile.I32)], mask=rows >= 0)
    O.put(x, [i, 0], mask=rows.ge(0))
    N.scatter_add(p.full([R, 1], 1, tile.I32), [rows])
    if I.index([0]) > 2:
        O[i, 0] = x * 2
    else:
        O[i, 0] = x.cumsum(1)
"""
MANY = """
@tile.kernel(grid=1)
def kernel(p, x, y, n, *, SIZE=8):
    X, Y = p.read(x, [SIZE, SIZE]), p.write(y, [SIZE, SIZE])
    t = X[0, 0]
    values, places = t.topk(4, 1)
    low, high = t.split(1)
    u = low.concat(high, 1).reshape([4, 16]).reshape([SIZE, SIZE])
    for step in tile.unroll(3):
        u = u[::-1] + step
    while n > 0:
        n -= 1
        if n == 5:
            break
        u = u + n
    r = p.random(1, n, [SIZE, SIZE], "uniform")
    z = t.reduce(lambda a, b: a * b, 1) + t.associative_scan(lambda a, b: a + b, 1)
    h = t.argmax(1).histogram(SIZE)
    p.check(u > 0, "positive", u)
    p.print("u", u.sum(1).sum(0))
    v = u.clamp(0, 1) + r + z + h.to(tile.F32) + u.to(tile.BF16).to(tile.F32) + values.sum(1)
    Y[0, 0] = v if n < 9 else v.select(0, 1) if False else -v
"""
BATCHES = """
@tile.kernel(grid=lambda x, **_: (x.shape[0], 2))
def kernel(p, x, w, s, y, *, B=2, M=8):
    i, j = p.id(0), p.count(1)
    X, Y = p.read(x, [B, M, M]), p.write(y, [B, M, M])
    W, S = p.read(w, [M // 2, M]), p.read(s, [2, M])
    t = X[i, 0, 0]
    q = W.window([0, i]).unpack4(0).scale_blocks(S[0, 0], 0)
    u = t @ q if M > 4 else t
    Y.put_window(u.T.exp2().minimum(3) * j, [i, 0, 1])
    for b in u:
        b.sum(0)
"""
KERNELS = {
    "matmul": (MATMUL, lambda: (np.ones((20, 12), F32), np.ones((12, 9), F32), np.zeros((20, 9), F32))),
    "softmax": (SOFTMAX, lambda: (np.ones((9, 13), F32), np.zeros((9, 13), F32))),
    "gather": (
        GATHER,
        lambda: (
            np.ones((10, 8), F32),
            np.arange(8, dtype=np.int32),
            np.zeros((8, 8), F32),
            np.zeros(16, np.int32),
        ),
    ),
    "many": (MANY, lambda: (np.ones((8, 8), F32), np.zeros((8, 8), F32), 7)),
    "batches": (
        BATCHES,
        lambda: (
            np.ones((2, 8, 8), F32),
            np.ones((4, 8), np.int8),
            np.ones((2, 8), F32),
            np.zeros((2, 8, 8), F32),
        ),
    ),
}
PUBLIC = [
    name
    for kind in (tile.Tile, tile.Program, tile.In, tile.Out)
    for name in dir(kind)
    if not name.startswith("_")
]
VALUES = (
    "None True 0 1 -1 2.5 'x' [] (1,2) [8,8] p x tile tile.I32 tile.F16 float('nan') 10**30 2**20 Ellipsis"
).split()
SIGNS = "+ - * / // % @ ** < <= == != & | ^ << >>".split()
SIZES = "1 2 3 4 5 7 8 16 17 33 64 128 1000".split()


def slip(text, chance):
    """A text with one token of the kernel's head or body exchanged, left out or added to."""
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.start[0] > 2
        and token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)
        and token.string != "tile"
    ]
    place = chance.randrange(1, len(tokens))
    token, before = tokens[place], tokens[place - 1].string
    if token.type == tokenize.NUMBER:
        new = chance.choice((*VALUES, *SIZES))
    elif token.type == tokenize.NAME and before == ".":
        new = chance.choice((chance.choice(PUBLIC), token.string[:-1], token.string + "s"))
    elif token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        names = sorted({each.string for each in tokens if each.type == tokenize.NAME})
        new = chance.choice((chance.choice(names), chance.choice(VALUES), ""))
    elif token.string in SIGNS:
        new = f" {chance.choice(SIGNS)} "
    elif token.string in ("(", "["):
        new = f"{token.string}{chance.choice(VALUES)}, "
    elif token.string in (")", "]"):
        new = f", {chance.choice(VALUES)}{token.string}"
    else:
        new = ""
    lines = text.splitlines(keepends=True)
    (line, start), (_, end) = token.start, token.end
    lines[line - 1] = lines[line - 1][:start] + new + lines[line - 1][end:]
    return "".join(lines)


def outcome(text, arguments, name):
    """What becomes of a text: ``right``, ``located``, ``python`` for its own errors, ``no program``."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        code = compile(text, name, "exec")
    except (SyntaxError, ValueError):
        return "no program"
    # A slip may assign to its names, which must stay the package's.
    public = SimpleNamespace(**{each: getattr(tile, each) for each in tile.__all__})
    names = {"tile": public, "__name__": "slips"}
    try:
        exec(code, names)
        kernel = names["kernel"]
        kernel.ir(*arguments)
        for kind, arch in (("cuda", "sm_90a"), ("hip", "gfx1100")):
            kernel.ir(*arguments, kind=kind, arch=arch)
    except tile.TileError as error:
        assert error.filename == name, f"{text}\n{error}"
        assert error.column is not None and str(error).count("^") > 0
        return "located"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert not is_own_file(last.filename), f"{text}\n{error!r} at {last}"
        return "python"
    return "right"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KERNELS)
def test_slips(name):
    text, arguments = KERNELS[name]
    text = text.lstrip("\n")
    assert outcome(text, arguments(), f"<{name}>") == "right"
    chance = random.Random(name)
    found = [outcome(slip(text, chance), arguments(), f"<{name} {number}>") for number in range(40)]
    assert found.count("located") >= 8
    assert found.count("python") <= 24
