"""Operands of products by four warps, as they lie in workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.layout.banks import CHUNK_BYTES
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import Operand
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.panels import span_of
from gizml_tile.nodes import Node

# Rows of a span that the unit takes together, and what it ignores where a distance does not matter.
_ROWS_TOGETHER = 8
_NO_DISTANCE = 16


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: ``piece`` is how much of k one instruction reaches, in elements.

    ``width`` elements of a row are in a panel, and ``lines`` rows; ``by_k`` tells that rows run along k.
    ``base`` and all offsets are in chunks of 16 bytes, of which ``each`` is how many elements one has.
    """

    operand: Operand
    base: Value
    piece: int
    width: int
    lines: int
    by_k: bool
    each: int

    def along(self, k: int) -> int:
        """The offset of a step of k: a multiple of the piece, or of 32 bytes inside a row."""
        if self.by_k:
            return (k // self.width * self.lines * self.width + k % self.width) // self.each
        return k * self.width // self.each

    def across(self, number: int) -> int:
        """The offset of a row of a (or a column of b), a multiple of 64."""
        if self.by_k:
            return number * self.width // self.each
        return number // self.width * self.lines * self.width // self.each


def side(x: Expansion, arg: Node, k_axis: int) -> Side:
    """The operand ``arg`` of a product, whose axis ``k_axis`` is k."""
    found = operand(arg)
    shared: Shared = x.shared(found.node)
    # What is computed and stays is in rows.
    fast = x.plan.stages[found.node].axis if found.node in x.plan.stages else 1
    by_k = (k_axis == fast) != found.transposed
    lines, extent = found.node.shape[1 - fast], found.node.shape[fast]
    dtype = shared.tile.dtype
    span = span_of(dtype, extent)
    stride = _ROWS_TOGETHER * span
    assert shared.chunk is not None
    if by_k:
        described = Operand(shared.buffer, span, _NO_DISTANCE, stride)
    else:
        described = Operand(shared.buffer, span, lines * span, stride, transposed=True)
    width = span // dtype.bytes
    each = CHUNK_BYTES // dtype.bytes
    return Side(described, shared.chunk, width if by_k else lines, width, lines, by_k, each)
