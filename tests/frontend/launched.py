"""Launching for tests: what kernels of a source text write."""

import textwrap

import numpy as np
from explicit import same_ir, tensor, written

import gizml_tile as tile


def numbers(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def run(source, *tensors, grid=1, **names):
    """Launch the kernel of a source text; what it wrote."""
    function = written(source, **names)
    return tile.kernel(grid=grid)(function)(*tensors)


def result(body, x=None, size=4, **names):
    """The row that a body leaves in ``out``, from the row ``x``."""
    source = (
        f"def kernel(p, x, y):\n    i = p.id(0)\n    X, Y = p.read(x, [{size}]), p.write(y, [{size}])\n"
        f"    out = X[0]\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n    Y[0] = out\n"
    )
    x = numbers(size) if x is None else x
    (y,) = run(source, x, np.zeros_like(x), **names)
    same_ir(written(source, **names), tensor("x", 1), tensor("y", 1))
    return y.tolist()
