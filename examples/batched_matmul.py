"""Many products at once: leading dimensions are addressed by element, the last two in blocks."""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(
    grid=lambda c, BM, BN: (
        tile.cdiv(c.shape[2], BM),
        tile.cdiv(c.shape[3], BN),
        c.shape[0] * c.shape[1],
    )
)
def batched_matmul(p, a, b, c, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    outer, inner = p.id(2) // c.shape[1], p.id(2) % c.shape[1]
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(3)):
        acc += A[outer, inner, i, k] @ B[outer, inner, k, j]
    C[outer, inner, i, j] = acc


def main(quick=False):
    outer, inner, m, n, k = (2, 3, 65, 40, 33) if quick else (8, 12, 192, 192, 192)
    a = measure.random(outer, inner, m, k, seed=1)
    b = measure.random(outer, inner, n, k, seed=2).swapaxes(2, 3)  # any strides will do
    c = np.empty((outer, inner, m, n), np.float32)
    batched_matmul(a, b, c)
    wide = a.astype(np.float64), b.astype(np.float64)
    measure.check("batched_matmul", c, wide[0] @ wide[1], k * 2.0**-24 * (abs(wide[0]) @ abs(wide[1])))
    peers = {"NumPy": lambda: np.matmul(a, b, out=c)}
    if measure.torch:
        ta, tb, tc = (measure.torch.from_numpy(array) for array in (a, b, c.copy()))
        peers["PyTorch"] = lambda: measure.torch.matmul(ta, tb, out=tc)
    measure.compare(
        f"batched_matmul {outer}x{inner}x{m}x{n}x{k}",
        2e-9 * outer * inner * m * n * k,
        "GFLOP/s",
        lambda: batched_matmul(a, b, c),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
