"""The passes over the kernel IR that every GPU shares, in order, each with its reason to stand there."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.lowering.kernel_ir.instructions import Kernel
from gizml_tile.lowering.passes.conversions import convert_once
from gizml_tile.lowering.passes.cse import eliminate_common
from gizml_tile.lowering.passes.dce import eliminate_dead
from gizml_tile.lowering.passes.fold import fold
from gizml_tile.lowering.passes.hoist import hoist
from gizml_tile.lowering.passes.interleave import interleave

STEPS: tuple[Callable[[Kernel], Kernel], ...] = (
    fold,  # first: idle structure disappears before anything looks into it
    eliminate_common,  # expansion asks for the same offsets again and again
    fold,  # common values show that both sides of a select or a difference are one
    eliminate_dead,  # what nobody needs must not take a loop's room for hoisted values
    hoist,
    eliminate_common,  # what sibling loops computed alike now stands before them
    convert_once,  # once equal parts are one, what overlaps is known
    eliminate_dead,  # what the last step left without a use
    interleave,  # last: it makes many short instructions of long ones, which every other step would visit
)


def simplify(kernel: Kernel) -> Kernel:
    """The kernel as it is emitted: the same stores, in fewer instructions."""
    for step in STEPS:
        kernel = step(kernel)
    return kernel
