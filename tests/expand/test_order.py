"""Reads and puts of one tensor, or of tensors that share memory, happen in program order."""

import random

import numpy as np
import pytest
from expansion_kernels import named, run_program, signature_of, strided
from test_convert import random_layout
from tile_ir_interpreter import interpret

from gizml_tile.dtypes import F32
from gizml_tile.layout import blocked
from gizml_tile.lowering.planning.accesses import plan_access
from gizml_tile.lowering.planning.order import meetings
from gizml_tile.lowering.simulate import Memory
from gizml_tile.program import trace

BLOCK = [8, 16]


def random_case(seed):
    """Reads and puts in any order, in loops and branches, of two tensors which may share memory."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    shape = (2, 24, 40)
    a, a_view = strided(numbers, shape, F32)
    shared = rng.random() < 0.5
    if shared:
        b, b_view = Memory(a.data, a.offset, shape, a.strides), a_view
    else:
        b, b_view = strided(numbers, shape, F32)
    views = [a_view, b_view]
    apart = rng.random() < 0.5  # what is written is another parameter of the program

    def body(p):
        ins = [p.read(view, BLOCK) for view in views]
        outs = [p.write(view[:] if apart else view, BLOCK) for view in views]
        fixed = [0, 1, rng.randrange(3)]

        def step(tiles, known):
            number = rng.randrange(2)
            places = [p.id(0), rng.choice(known), rng.choice(known)]
            window = rng.random() < 0.5
            if window:
                places = [
                    places[0],
                    *(p.id(0).mul(0).add(each).mul(rng.choice([4, 8, 8])) for each in places[1:]),
                ]
            if rng.random() < 0.5:
                tiles.append(ins[number].window(places) if window else ins[number].at(places))
            else:
                (outs[number].put_window if window else outs[number].put)(rng.choice(tiles), places)

        def steps(tiles, known, depth):
            for _ in range(rng.randrange(2, 6)):
                if depth and rng.random() < 0.3:
                    p.loop(0, 2, [], lambda k, _: steps(list(tiles), [*known, k], depth - 1) or [])
                elif depth and rng.random() < 0.2:
                    p.cond(
                        p.id(0).lt(1),
                        lambda: steps(list(tiles), known, 0) or (),
                        lambda: steps(list(tiles), known, 0) or (),
                    )
                else:
                    step(tiles, known)

        steps([ins[0].at([p.id(0), 0, 0])], fixed, 2)
        for number, out in enumerate(outs):
            out.put(ins[number].at([p.id(0), 2, 0]), [p.id(0), 2, 0])

    traced = trace("test", body, grid_rank=1)
    memories = [a if view is None or np.shares_memory(view, a.data) else b for view in traced.tensors]
    warps = rng.choice([1, 2])
    choices = [named(random_layout(rng, tuple(BLOCK), warps, replicas=False)) for _ in range(2)]
    choices.append(named(random_layout(rng, tuple(BLOCK), warps)))
    layouts = {node: rng.choice(choices) for node in traced.program.body.walk() if node.op in ("read", "put")}
    may_alias = len({id(memory.data) for memory in memories}) < len(memories)
    return traced.program, memories, layouts, warps, may_alias


@pytest.mark.parametrize("seed", range(120))
def test_random_orders(seed):
    program, memories, layouts, warps, may_alias = random_case(seed)
    datas = {id(memory.data): memory.data.copy() for memory in memories}
    views = [
        np.lib.stride_tricks.as_strided(
            datas[id(memory.data)][memory.offset :], memory.shape, [4 * each for each in memory.strides]
        )
        for memory in memories
    ]
    interpret(program, views, (2,))
    _, findings = run_program(program, memories, (2,), layouts, warps=warps, may_alias=may_alias)
    assert not findings.wrong, findings
    for memory in memories:
        np.testing.assert_array_equal(memory.data, datas[id(memory.data)])


def found(body, may_alias=False, layouts=None):
    """The names of the accesses before which a program meets."""
    traced = trace("test", body)
    memories = [Memory.of(np.ascontiguousarray(each)) for each in traced.tensors]
    signature = signature_of(traced.program, memories, [each.shape for each in memories], (1, 1, 1))
    nodes = [node for node in traced.program.body.walk() if node.op in ("read", "put")]
    default = named(blocked((16, 16), vector=4, warps=2))
    accesses = {
        node: plan_access(traced.program, node, (layouts or {}).get(number, default), signature, fact)[0]
        for number, (node, fact) in enumerate(zip(nodes, signature.facts, strict=True))
    }
    chosen = meetings(traced.program, accesses, may_alias)
    return [number for number, node in enumerate(nodes) if node in chosen]


X, Y = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
OTHER = named(blocked((16, 16), (0, 1), 4, warps=2))
COPIES = named(blocked((16, 16), vector=16, warps=2))


def test_what_meets_and_what_does_not():
    def update(p):
        ins, outs = p.read(X, [16, 16]), p.write(X, [16, 16])

        def turn(k, _):
            outs.put(ins.at([k, 0]).add(1), [k, 0])
            return []

        p.loop(0, 2, [], turn)

    # A thread updates its own elements in place, turn after turn, as blocks of one size do not overlap.
    assert found(update) == []
    # In another layout, or where several threads hold an element, others' elements are touched.
    assert found(update, layouts={1: OTHER}) == [0, 1]
    assert found(update, layouts={0: COPIES, 1: COPIES}) == [0, 1]

    def windows(p):
        outs = p.write(X, [16, 16])

        def turn(k, _):
            outs.put_window(p.zeros([16, 16]).add(k.value()), [k, 0])
            return []

        p.loop(0, 2, [], turn)

    assert found(windows) == [0]

    def copy(p):
        p.write(Y, [16, 16]).put(p.read(X, [16, 16]).at([0, 0]), [0, 0])

    assert found(copy) == []
    assert found(copy, may_alias=True) == [1]
