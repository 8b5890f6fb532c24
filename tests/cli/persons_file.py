"""The text of a file that a person might have."""

TEXT = '''\
"""Two kernels and a helper."""

import gizml_tile as tile


@tile.function
def negated(x):
    return -x if x < 0 else x


@tile.kernel(grid=lambda out, BM, **_: tile.cdiv(out.shape[0], BM))
def scale(p, x, out, factor, *, BM=8, mode="plain"):
    # Kept.
    p.write(out, [BM])[p.id(0)] = negated(p.read(x, [BM])[p.id(0)]) * factor


class Layer:
    @tile.kernel
    def copy(p, x, out):
        p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]


if __name__ == "__main__":
    raise SystemExit("this is not run")
'''
