"""How many neighbours a thread gets for the tensors that its registers come from and go to."""

import numpy as np
import pytest

from gizml_tile.dtypes import BF16, to_numpy
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.vectors import Traffic, best_vector, traffic
from gizml_tile.program import trace


@pytest.mark.parametrize(
    ("moves", "vector"),
    [
        ([Traffic(2, 8)], 8),
        ([Traffic(4, 4)], 4),
        ([Traffic(1, 16)], 16),
        ([Traffic(8, 2)], 2),
        # The wider type's lanes must lie side by side; the narrower one then moves 8 or 4 bytes at once.
        ([Traffic(2, 8), Traffic(4, 4)], 4),
        ([Traffic(1, 16), Traffic(4, 4)], 4),
        # What must go element by element goes with lanes side by side.
        ([Traffic(4, 1)], 1),
        ([Traffic(2, 1)], 1),
        ([Traffic(2, 2)], 2),
        ([Traffic(4, 1), Traffic(4, 4)], 1),
        ([], 4),
    ],
)
@pytest.mark.parametrize("lanes", [32, 64])
def test_the_vector_that_costs_the_fewest_turns(moves, vector, lanes):
    assert best_vector(moves, lanes) == vector


@pytest.mark.parametrize(
    ("alignment", "grain", "window", "vector"),
    [(16, 16, False, 8), (4, 16, False, 2), (2, 16, False, 1), (16, 4, True, 4), (16, 1, False, 8)],
)
def test_what_an_access_could_move(alignment, grain, window, vector):
    x = np.zeros((64, 64), to_numpy(BF16))

    def body(p):
        blocks = p.read(x, [16, 32])
        (blocks.window if window else blocks.at)([p.id(0), p.id(1)])

    program = trace("test", body).program
    (node,) = [node for node in program.body.walk() if node.op == "read"]
    facts = AccessFacts((True, False), (16, grain), True)
    signature = Signature((("any", "unit"),), (alignment,), (facts,), 2, False, False)
    assert traffic(program, node, 1, signature, facts) == Traffic(2, vector)
