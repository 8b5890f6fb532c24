"""Sums in which the order of additions leaves no trace, out of additions of integers.

``scatter_add(..., deterministic=True)`` to a tensor of floats asks for such sums. Programs of a launch add in
no order, and neither do the threads of one; integers do not mind. So a launch with such sums becomes several,
with two more tensors for each that is added to: ``sizes`` (I32), the exponent of the largest addend of each
place, 0 where there is none; and ``sums`` (I64), multiples of a unit that is 2^-33 of that::

    all places of both are 0                                  (gizml_tile/exact.py, as the last step)
    sizes = max of the exponents of what a program adds       `sizing`: the program for nothing else
    sums += addend / unit                                     `summing`: the program with all that it does
    tensor += sums * unit

The unit's power of two follows from an exponent in one step, so addends are scaled without rounding and
then cut. Addends are below 2^34 units: 2^29 of them have room in a sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gizml_tile.dtypes import F32, I32, I64, DType
from gizml_tile.errors import Place
from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.rewriting import Emit, Rewriting
from gizml_tile.nodes import (
    EFFECTS,
    EXACT,
    RECORDS,
    Attr,
    Const,
    Elements,
    Node,
    Tensor,
    TileProgram,
    View,
    make,
)

# Of F32: the bits of its fraction, what its exponents have too much, and the exponent of what is not finite.
FRACTION_BITS, BIAS, NOT_FINITE = 23, 127, 255
# Bits of an addend below the last one of the largest addend.
_MORE_BITS = 10
# The unit of an exponent e is 2 to the power of e - UNIT.
UNIT = BIAS + FRACTION_BITS + _MORE_BITS
# Sums of places where something is not finite count what points up, and above these bits what points down.
COUNT_BITS = 31
# More than an addend has, also if the two runs of a program differ in rounding.
_MOST = 2.0 ** (FRACTION_BITS + _MORE_BITS + 3)


def summed(program: TileProgram) -> tuple[int, ...]:
    """The numbers of the tensors that a program adds to exactly."""
    found = {node.attr.tensor for node in program.body.walk() if is_exact(node)}  # type: ignore[union-attr]
    return tuple(sorted(found))


def more_tensors(program: TileProgram) -> tuple[Tensor, ...]:
    """The tensors after a program's own that the steps have: for each of `summed` its sizes and sums."""
    made = []
    for number in summed(program):
        tensor = program.tensors[number]
        made.append(Tensor(f"{tensor.name}_sizes", I32, tensor.rank))
        made.append(Tensor(f"{tensor.name}_sums", I64, tensor.rank))
    return tuple(made)


def sizing(program: TileProgram) -> TileProgram:
    """The program that does nothing but find the size of the largest addend of each place."""
    steps = _Steps(program)

    def rule(node: Node, emit: Emit) -> Node:
        if is_exact(node):
            return steps.at(node, emit).size()
        # Nobody uses the value of an effect.
        return emit(make("index", (), 0)) if node.op in EFFECTS | RECORDS else node

    found = steps.rewritten(rule, steps.sizes, records=None)
    return replace(eliminate_dead(found), name=f"{program.name}_sizes")


def summing(program: TileProgram) -> TileProgram:
    """The program that adds multiples of each place's unit, and does all else."""
    steps = _Steps(program)
    others = tuple(number for number in program.writes if number not in steps.sizes)

    def rule(node: Node, emit: Emit) -> Node:
        return steps.at(node, emit).sum() if is_exact(node) else node

    sums = {number: size + 1 for number, size in steps.sizes.items()}
    return steps.rewritten(rule, sums, others, records=program.records)


def is_exact(node: Node) -> bool:
    """Whether a node adds to a tensor in an order that must leave no trace."""
    return isinstance(node.attr, Elements) and node.attr.combine == EXACT


class _Steps:
    """What steps share: ``sizes`` has the number of each summed tensor's sizes, its sums' is one more."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.tensors = (*program.tensors, *more_tensors(program))
        first = len(program.tensors)
        self.sizes = {number: first + 2 * n for n, number in enumerate(summed(program))}

    def at(self, node: Node, emit: Emit) -> _Addition:
        """What makes an addition anew."""
        return _Addition(node, emit, self.tensors, self.sizes)

    def rewritten(
        self, rule: object, written: Mapping[int, int], others: tuple[int, ...] = (), *, records: int | None
    ) -> TileProgram:
        """The program by a rule, which writes other tensors in place of those summed."""
        body = Rewriting(rule).region(self.program.body)  # type: ignore[arg-type]
        writes = (*others, *written.values())
        return replace(self.program, tensors=self.tensors, writes=writes, body=body, records=records)


class _Addition:
    """One addition of a tile's elements to places of a tensor."""

    def __init__(
        self, node: Node, emit: Emit, tensors: tuple[Tensor, ...], sizes: Mapping[int, int]
    ) -> None:
        assert isinstance(node.attr, Elements)
        self._node, self._emit, self._tensors = node, emit, tensors
        self._attr: Elements = node.attr
        self._sizes = sizes[node.attr.tensor]
        tile = node.args[0]
        self._tile = tile if tile.dtype is F32 else self._make("to", (tile,), F32)

    def size(self) -> Node:
        """The exponents of the addends, at least 1, kept where they are the largest."""
        bits = self._make("bitcast", (self._tile,), I32)
        raised = self._make("shr", (bits, self._number(FRACTION_BITS)))
        exponent = self._make("and_", (raised, self._number(NOT_FINITE)))
        return self._store(self._make("maximum", (exponent, self._number(1))), self._sizes, "max")

    def sum(self) -> Node:
        """The addends in units, added; counts where something is not finite."""
        size = self._size_there()
        scaled = self._make("to", (self._scaled(size),), I64)
        special = self._make("eq", (size, self._number(NOT_FINITE)))
        return self._store(self._make("select", (special, self._counts(), scaled)), self._sizes + 1, "add")

    def _size_there(self) -> Node:
        args = self._node.args[1:]
        attr = replace(self._attr, tensor=self._sizes, combine="", pad=0)
        if len(args) == self._attr.rank:  # of one place, which is a block of one element
            return self._make("read", args, View(self._sizes, (1,), "window"))
        return self._make("gather", args, attr)

    def _scaled(self, size: Node) -> Node:
        shift = self._make("sub", (self._number(UNIT), size))
        half = self._make("shr", (shift, self._number(1)))
        once = self._make("mul", (self._tile, self._power(half)))
        twice = self._make("mul", (once, self._power(self._make("sub", (shift, half)))))
        above = self._make("minimum", (twice, self._number(_MOST, F32)))
        return self._make("maximum", (above, self._number(-_MOST, F32)))

    def _power(self, exponent: Node) -> Node:
        """2 to the power of an I32, as the bits of an F32."""
        raised = self._make("add", (exponent, self._number(BIAS)))
        return self._make("bitcast", (self._make("shl", (raised, self._number(FRACTION_BITS))),), F32)

    def _counts(self) -> Node:
        """1 for what is not finite and points up, 2^COUNT_BITS for down; a NaN counts as both."""
        zero = self._number(0.0, F32)
        finite = self._make("lt", (self._make("abs", (self._tile,)), self._number(math.inf, F32)))
        up, down = (
            self._make("not_", (self._make(other, (self._tile, zero)),)) for other in ("le", "ge")
        )
        none, one, many = (self._number(value, I64) for value in (0, 1, 1 << COUNT_BITS))
        both = self._make(
            "add", (self._make("select", (up, one, none)), self._make("select", (down, many, none)))
        )
        return self._make("select", (finite, none, both))

    def _store(self, tile: Node, tensor: int, combine: str) -> Node:
        attr = replace(self._attr, tensor=tensor, combine=combine)
        return self._make("scatter", (tile, *self._node.args[1:]), attr)

    def _number(self, value: float | int, dtype: DType = I32) -> Node:
        return self._make("const", (), Const((1, 1), dtype, value))

    def _make(self, op: str, args: tuple[Node, ...], attr: Attr = None) -> Node:
        place: Place | None = self._node.place
        return self._emit(make(op, args, attr, place, tensors=self._tensors))
