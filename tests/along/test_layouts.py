"""Where elements are while they meet along an axis."""

from itertools import product

import pytest

from gizml_tile.layout import Linear, blocked
from gizml_tile.lowering.planning.accesses import best_blocked
from gizml_tile.lowering.planning.along import place_bits
from gizml_tile.target import Target

SHAPES = [(1, 8192), (256, 64), (64, 256), (4, 1024), (32, 32), (2, 2), (1, 2), (128, 4)]


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("hip", "gfx942")])
def test_running_tiles_have_neighbours_in_threads_and_warps(kind, arch):
    target = Target(kind, arch)
    for shape, fast, runs, warps in product(SHAPES, (0, 1), (0, 1), (1, 4, 8)):
        linear = best_blocked(shape, [], fast, target, warps, runs=runs).linear
        plain = best_blocked(shape, [], fast, target, warps).linear
        assert linear.is_surjective
        assert [linear.size(name) for name in linear.names] == [plain.size(name) for name in plain.names]
        bits = place_bits(linear, runs)
        assert bits is not None
        kinds = [name for name, _ in bits]
        # No place of another warp stands between two of one.
        assert kinds == sorted(kinds, key=lambda name: name == "warp"), (shape, fast, runs, warps, linear)
        if fast != runs and shape[0] * shape[1] >= 32 * linear.size("lane") * warps:
            assert not kinds or kinds[0] == "register"


def test_bits_of_a_position():
    layout = blocked((4, 128), vector=4, warps=4)
    assert place_bits(layout, 1) == [("register", 0), ("register", 1), *(("lane", bit) for bit in range(5))]
    assert place_bits(layout, 0) == [("warp", 0), ("warp", 1)]
    # A copy at the place itself does no harm, a bit that moves two others does.
    copied = Linear.of((1, 4), register=[(0, 1), (0, 2)], lane=[(0, 0)])
    assert place_bits(copied, 1) == [("register", 0), ("register", 1)]
    assert place_bits(Linear.of((1, 4), register=[(0, 1), (0, 3)]), 1) is None
    assert place_bits(Linear.of((2, 2), register=[(0, 1)], lane=[(1, 1)]), 1) is None
    assert place_bits(Linear.of((1, 4), register=[(0, 1), (0, 2)], lane=[(0, 1)]), 1) is None
