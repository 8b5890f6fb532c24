"""Kernels whose pages are looked at, each with its tensors and constants."""

import numpy as np

import gizml_tile as tile

TARGETS = [
    ("cpu", None),
    ("cuda", "sm_80"),
    ("cuda", "sm_90a"),
    ("hip", "gfx942"),
    ("hip", "gfx1100"),
    ("metal", "apple9"),
]
IDS = [arch or kind for kind, arch in TARGETS]


@tile.function
def shifted(t, by):
    # A helper, whose lines belong to the call's too.
    return t + by


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, bias, c, *, BM=128, BN=128, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = shifted(acc, p.read(bias, [BN])[j]).relu()


@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 4))
def softmax(p, x, y, *, COLUMNS=256):
    i = p.id(0)
    # -inf is what does not count in a maximum.
    row = p.read(x, [4, COLUMNS], pad=float("-inf"))[i, 0]
    powers = (row - row.max(1)).exp()
    p.write(y, [4, COLUMNS])[i, 0] = powers / powers.sum(1)


HOSTILE = "</script><img src=x onerror='window.hacked = 1'><!--{data}"


@tile.kernel(grid=1)
def hostile(p, x, y):
    # </script><script>window.hacked = 1</script>
    t = p.read(x, [8])[0]
    p.print("</script><img src=x onerror='window.hacked = 1'><!--{data}", t.sum(1))
    p.write(y, [8])[0] = t * 2


@tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 64))
def totals(p, x, rows, out):
    i = p.id(0)
    # Added in no order that leaves a trace, which programs one after the other do.
    p.write(out, [16]).scatter_add(p.read(x, [64])[i], [p.read(rows, [64])[i]], deterministic=True)


def tensors(*shapes, dtype=np.float16):
    return [np.zeros(shape, dtype) for shape in shapes]


CASES = {
    "matmul": (matmul, tensors((256, 256), (256, 256), (256,), (256, 256)), {}),
    "softmax": (softmax, tensors((64, 200), (64, 200), dtype=np.float32), {}),
    "totals": (
        totals,
        [np.zeros(256, np.float32), np.zeros(256, np.int32), np.zeros(16, np.float32)],
        {},
    ),
    "hostile": (hostile, tensors((8,), (8,), dtype=np.float32), {}),
}
