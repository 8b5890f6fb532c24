"""Every small layout that the laws are tried on."""

from itertools import permutations, product

from gizml_tile.layout import Layout, size


def nestings(leaves):
    """The ways to nest up to four leaves to at most two levels."""
    if len(leaves) == 1:
        yield leaves[0]
    yield tuple(leaves)
    if len(leaves) == 3:
        yield ((leaves[0], leaves[1]), leaves[2])
        yield (leaves[0], (leaves[1], leaves[2]))
    if len(leaves) == 4:
        yield ((leaves[0], leaves[1]), (leaves[2], leaves[3]))


def factorizations(number, most=3):
    """The ways to write a number as a product of factors above 1, in every order."""
    if number == 1:
        yield ()
        return
    if most == 0:
        return
    for factor in range(2, number + 1):
        if number % factor == 0:
            for rest in factorizations(number // factor, most - 1):
                yield (factor, *rest)


def compact(number, most=3):
    """Layouts that reach 0 to number - 1 once each: all orders, all nestings."""
    for shape in factorizations(number, most):
        for order in permutations(range(len(shape))):
            strides, current = [0] * len(shape), 1
            for leaf in order:
                strides[leaf] = current
                current *= shape[leaf]
            if not shape:
                yield Layout(1, 0)
            yield from map(Layout, nestings(shape), nestings(tuple(strides))) if shape else ()


def strided(modes, extents, steps):
    """All layouts of so many modes with extents and strides out of some."""
    for shape in product(extents, repeat=modes):
        for stride in product(steps, repeat=modes):
            yield from map(Layout, nestings(shape), nestings(stride))


COMPACT = [
    *(layout for number in (1, 2, 4, 6, 8, 12, 24) for layout in compact(number)),
    *compact(64, most=2),
]
STRIDED = [
    *strided(1, (1, 2, 3, 4, 6), (0, 1, 2, 3, 6)),
    *strided(2, (1, 2, 3, 4), (0, 1, 2, 3, 4, 12)),
    *strided(3, (2, 3), (0, 1, 2, 6)),
]
POWERS = [
    *strided(1, (2, 4, 8, 16), (0, 1, 2, 4)),
    *strided(2, (2, 4), (0, 1, 2, 4, 8)),
    *strided(3, (2,), (0, 1, 2, 4)),
]
EVERY = [*COMPACT, *STRIDED]
SHAPES = sorted({layout.shape for layout in EVERY}, key=str)


def table(layout):
    """The result at each coordinate, the leftmost mode fastest."""
    return [layout(index) for index in range(size(layout))]


def coordinates(shape):
    """Every coordinate of a shape, nested as it is, the leftmost mode fastest."""
    if not isinstance(shape, tuple):
        return list(range(shape))
    per_mode = [coordinates(mode) for mode in shape]
    return [tuple(reversed(each)) for each in product(*reversed(per_mode))]
