"""A state that decays and takes in each step, computed by products of matrices, as in Mamba 2.

s[t] = exp(a dt[t]) s[t - 1] + dt[t] b[t] x[t]' and y[t] = c[t]' s[t]. Step by step this is a long chain of
small operations. Within a chunk of C steps it is also y = (c b' with decays, below the diagonal) x, as
attention is, and what came before the chunk adds c' s, decayed. So a loop over chunks carries the state, and
matrix units do the work.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, BP, **_: (tile.cdiv(y.shape[2], BP), y.shape[0]))
def chunk_scan(p, x, dt, a, b, c, y, *, N, BP=32, C=32):
    """x and y are [heads, steps, P], b and c [heads, steps, N], dt [heads, steps], a [heads]."""
    j, head = p.id(0), p.id(1)
    X, Y, B, Queries = p.read(x, [C, BP]), p.write(y, [C, BP]), p.read(b, [C, N]), p.read(c, [C, N])
    DT, rate = p.read(dt, [C]), p.read(a, [1])[head]
    lower = p.iota([C, 1], 0, tile.I32) >= p.iota([1, C], 1, tile.I32)
    state = p.zeros([N, BP])
    for t in range(X.blocks(1)):
        inputs, outputs, values, step = B[head, t, 0], Queries[head, t, 0], X[head, t, j], DT[head, t]
        decay = (step * rate).cumsum(1)  # [1, C]: the logarithm of what is left of the state
        whole = (step * rate).sum(1)
        # From step s to step t a state decays by exp(decay[t] - decay[s]).
        near = (outputs @ inputs.T) * (decay.T - decay).exp() * step if lower else 0
        far = (outputs @ state.to(x.dtype)) * decay.T.exp()
        Y[head, t, j] = far + near.to(x.dtype) @ values
        taken = inputs * ((whole - decay).exp() * step).T
        state = state * whole.exp() + taken.to(x.dtype).T @ values


def reference(x, dt, a, b, c):
    state, y = np.zeros((len(a), b.shape[2], x.shape[2]), x.dtype), np.empty_like(x)
    for t in range(x.shape[1]):
        state *= np.exp(a * dt[:, t])[:, None, None]
        state += (dt[:, t, None] * b[:, t])[:, :, None] * x[:, t, None]
        y[:, t] = (c[:, t, None] @ state)[:, 0]
    return y


def main(quick=False):
    heads, steps, width, states = (2, 70, 40, 32) if quick else (16, 2000, 64, 64)
    rng = np.random.default_rng(0)
    x = measure.random(heads, steps, width)
    b, c = (measure.random(heads, steps, states, seed=seed) for seed in (1, 2))
    dt, a = rng.random((heads, steps), np.float32) * np.float32(0.2), -rng.random(heads, np.float32)
    y = np.empty_like(x)
    chunk_scan(x, dt, a, b, c, y, N=states)
    truth = reference(*(array.astype(np.float64) for array in (x, dt, a, b, c)))
    measure.check("chunk_scan", y, truth, 1e-5 * np.abs(truth).max())
    measure.compare(
        f"chunk scan {heads}x{steps}x{width}, {states} states",
        4e-9 * x.size * states,
        "GFLOP/s of the step-by-step form",
        lambda: chunk_scan(x, dt, a, b, c, y, N=states),
        quick,
        NumPy=lambda: reference(x, dt, a, b, c),
    )


if __name__ == "__main__":
    measure.run(main)
