"""relu(a @ b + bias), written in both styles: the result is checked and timed beside NumPy's."""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda c, BM, BN: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, bias, c, *, BM=128, BN=128, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = (acc + p.read(bias, [BN])[j]).relu()


def matmul_explicit(a, b, bias, c, *, BM=128, BN=128, BK=64):
    """The same program without the decorator: ``body`` closes over the tensors and calls methods."""

    def body(p):
        i, j = p.id(0), p.id(1)
        A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
        acc = p.fold(
            0,
            A.blocks(1),
            p.zeros([BM, BN]),
            lambda k, acc: acc.add(A.at([i, k]).dot(B.at([k, j]))),
        )
        C.put(acc.add(p.read(bias, [BN]).at([j])).relu(), [i, j])

    return tile.run([tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)], body)


def main(quick=False):
    m, n, k = (130, 200, 77) if quick else (1024, 1024, 1024)
    a, b, bias = measure.random(m, k, seed=1), measure.random(k, n, seed=2), measure.random(n, seed=3)
    c, d = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    matmul(a, b, bias, c)
    matmul_explicit(a, b, bias, d)
    measure.same_bits("matmul", c, d)
    wide = a.astype(np.float64), b.astype(np.float64)
    truth = np.maximum(wide[0] @ wide[1] + bias, 0)
    # At most one rounding for each of the k products, and one for the bias.
    bound = (k + 1) * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(bias))
    measure.check("matmul", c, truth, bound)

    def numpy_matmul():
        np.matmul(a, b, out=d)
        np.add(d, bias, out=d)
        np.maximum(d, 0, out=d)

    peers = {"NumPy": numpy_matmul}
    if measure.torch:
        ta, tb, tbias = (measure.torch.from_numpy(array) for array in (a, b, bias))
        peers["PyTorch"] = lambda: measure.torch.relu_(measure.torch.addmm(tbias, ta, tb))
    measure.compare(
        f"matmul {m}x{n}x{k}",
        2e-9 * m * n * k,
        "GFLOP/s",
        lambda: matmul(a, b, bias, c),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
