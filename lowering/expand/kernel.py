"""From a plan to a kernel: every node in its turn, then the passes."""

from __future__ import annotations

from gizml_tile.lowering.expand.control import expand_region
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.expansion import Expansion, Move
from gizml_tile.lowering.expand.indices import define_ids, make_index
from gizml_tile.lowering.expand.specialised import (
    expand_roles,
    open_ahead,
    open_kept,
    open_pieces,
    open_rings,
    open_sums,
)
from gizml_tile.lowering.expand.values import make_tile
from gizml_tile.lowering.kernel_ir.instructions import Kernel, Parameter
from gizml_tile.lowering.passes.pipeline import simplify
from gizml_tile.lowering.planning.plan import Plan


def expand(plan: Plan) -> Kernel:
    """The kernel of a plan. Raises TileError where it needs more workgroup memory than there is."""
    return expand_noting(plan)[0]


def expand_noting(plan: Plan) -> tuple[Kernel, list[Move]]:
    """The kernel of a plan, and what moves between layouts in it."""
    x = Expansion(plan, make_tile, make_index, convert)
    if plan.specialised is None:
        define_ids(x, plan.group, x.build.workgroup(0))
        expand_region(x, plan.program.body)
    else:
        open_rings(x)
        open_kept(x)
        open_pieces(x)
        open_ahead(x)
        open_sums(x)
        expand_roles(x, plan.specialised, lambda: expand_region(x, plan.program.body))
    body = x.build.body()
    parameters = [each.attr for each in body.walk() if each.op == "parameter"]
    tensors = range(len(plan.program.tensors))
    used = {each for each in parameters if isinstance(each, Parameter)}
    kernel = Kernel(
        plan.program.name,
        plan.target,
        plan.program.tensors,
        (
            *(Parameter("pointer", number) for number in tensors),
            *sorted(used, key=lambda each: (each.kind, each.number, each.axis)),
        ),
        tuple(x.memory.buffers),
        plan.launched_threads,
        body,
        signals=plan.signals,
        resident=plan.resident,
        persistent=plan.specialised is not None and plan.specialised.persistent,
        may_alias=plan.signature.may_alias,
        cluster=plan.cluster_size,
        together=1 if plan.specialised is None else plan.specialised.together,
        along=0 if plan.specialised is None else plan.specialised.along,
    )
    return simplify(kernel), x.moves
