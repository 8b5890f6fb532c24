"""What passes make of F64: constants of all bits, conversions that may go, products rounded before sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_programs import record

from gizml_tile.dtypes import BF16, F16, F32, F64, I64
from gizml_tile.lowering.tile_passes.pipeline import simplify


def operations_of(function):
    """The operations and types of a program that stores a function of an F64 and an F32 block."""
    x, y, out = np.zeros((8, 8)), np.zeros((8, 8), np.float32), np.zeros((8, 8))
    data = {"x": x, "y": y, "n": 0, "out": out, "ints": 0}

    def body(p, x, y, n, out, ints):
        a, b = p.read(x, [8, 8])[0, 0], p.read(y, [8, 8])[0, 0]
        p.write(out, [8, 8])[0, 0] = function(p, a, b)

    program = simplify(record(body, data).program)
    nodes = [node for node in program.body.walk() if node.op not in ("read", "put", "index")]
    return [(node.op, node.dtype) for node in nodes], nodes


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (lambda p: p.k(0.1, F64) + 0.2, 0.1 + 0.2),
        (lambda p: p.k(1, F64) / 3, 1 / 3),
        (lambda p: p.k(2, F64).sqrt(), math.sqrt(2)),
        (lambda p: p.k(2, F64).rsqrt() - 1e300, 1 / math.sqrt(2) - 1e300),
        (lambda p: p.k(1 / 3, F64).to(F32).to(F64), float(np.float32(1 / 3))),
        (lambda p: p.k(1 + 2.0**-11 + 2.0**-40, F64).to(F16).to(F64), 1 + 2.0**-10),
        (lambda p: p.k(2**53 + 1, I64).to(F64), 2.0**53),
        (lambda p: p.k(1e300, F64).maximum(p.k(math.nan)), 1e300),
    ],
)
def test_constants_keep_all_bits(made, value):
    found, nodes = operations_of(lambda p, a, b: made(p))
    assert found == [("const", F64)] and nodes[0].attr.value == value


@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (lambda p, a, b: b.to(F64).to(F32), []),
        (lambda p, a, b: b.to(F16).to(F64).to(F16), [("to", F16)]),
        (lambda p, a, b: a.to(F32).to(F64), [("to", F32), ("to", F64)]),
        (lambda p, a, b: a.to(BF16).to(F32), [("to", BF16), ("to", F32)]),
        (lambda p, a, b: a * 1 + a.k(-0.0, F64), []),
        # A product in F32 is rounded to it before it is added.
        (lambda p, a, b: b * b + a, [("mul", F32), ("add", F64)]),
        (lambda p, a, b: a * b + b, [("fma", F64)]),
        (lambda p, a, b: b - a * a, [("fma", F64)]),
    ],
)
def test_conversions_and_products(function, operations):
    assert operations_of(function)[0] == operations


def test_an_accumulator_of_another_type_does_not_start_a_product():
    found = operations_of(lambda p, a, b: (b @ b) + a)[0]
    assert found == [("dot", F32), ("add", F64)]
    found = operations_of(lambda p, a, b: (a @ b) + b)[0]
    assert found == [("to", F64), ("dot", F64)]
