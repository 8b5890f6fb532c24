"""The CPU computes what the tile IR means, bit for bit, where the language leaves no choice."""

from __future__ import annotations

import numpy as np
import pytest
from made_programs import assert_same_bits, tensors
from random_statements import random_body
from tile_ir_interpreter import interpret

import gizml_tile as tile
from gizml_tile.lowering.tile_passes.pipeline import simplify
from gizml_tile.program import trace


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_random_programs(seed):
    wanted, found = tensors(seed), tensors(seed)
    body = random_body(seed, sums=False)
    traced = trace("random", lambda p: body(p, *wanted.values()))
    interpret(simplify(traced.program), traced.tensors, (1,))
    tile.run((1,), lambda p: body(p, *found.values()))
    # The sign of a zero that a product gives is not specified.
    pairs = [[each[name] + 0 for name in ("out", "ints")] for each in (found, wanted)]
    assert_same_bits(*pairs)
    assert not np.array_equal(found["ints"], tensors(seed)["ints"])
