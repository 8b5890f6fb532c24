"""Whether tiles fit the registers that threads have, and have types that the GPU computes with."""

from __future__ import annotations

from collections.abc import Mapping

from gizml_tile.dtypes import F64, MASK
from gizml_tile.errors import TileError
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import ACCESSES, Node, TileProgram, tensor_of
from gizml_tile.target import Target

_REGISTER_BYTES = 4


def thread_registers(target: Target, warps: int) -> int:
    """The most registers that each thread of a workgroup of so many warps may have."""
    facts = target.facts
    return min(facts.registers, facts.unit_registers // (warps * facts.lanes))


def tile_registers(node: Node, layout: TileLayout) -> int:
    """The registers of a thread that a tile takes: one or two an element. Masks are kept elsewhere."""
    assert node.dtype is not None
    return 0 if node.dtype is MASK else layout.registers * -(-node.dtype.bytes // _REGISTER_BYTES)


def check_types(program: TileProgram, target: Target) -> None:
    """Raise TileError for an F64 tile on a GPU that has no mathematics in F64."""
    if target.can("f64"):
        return
    for node in program.body.walk():
        kinds = [node.dtype, *(arg.dtype for arg in node.args)]
        kinds += [program.tensors[tensor_of(node)].dtype] if node.op in ACCESSES else []
        if F64 in kinds:
            raise TileError(
                f"{target} has no F64, which this {node.op} takes or gives; pass float32 tensors, convert "
                "tiles with .to(F32)",
                node.place,
            )


def check_registers(
    program: TileProgram, target: Target, warps: int, homes: Mapping[Node, TileLayout]
) -> None:
    """Raise TileError for a tile, or tiles that a loop carries together, that surely do not fit."""
    limit = thread_registers(target, warps)
    for node in program.body.walk():
        tiles = [node, *(param for region in node.regions for param in region.params)]
        needed = [tile_registers(tile, homes[tile]) for tile in tiles if tile in homes]
        if sum(needed) <= limit:
            continue
        what = "the tiles that this loop carries take" if node.regions else f"the {_described(program, node)}"
        threads = warps * target.facts.lanes
        raise TileError(
            f"{what} {sum(needed)} registers of each of {threads} threads and a thread has {limit}; "
            f"{_advice(target, warps, sum(needed))}",
            node.place,
        )


# What a person calls operations that have other names in the tile IR.
_NAMES = {"const": "constant", "result": "loop or branch", "scalar": "number", "part": "second result"}


def _described(program: TileProgram, node: Node) -> str:
    shape, what = program.written_shape(node), _NAMES.get(node.op, node.op)
    computed = "" if shape == node.shape else f", which is computed as {list(node.shape)},"
    return f"{list(shape)} {node.dtype} tile of this {what}{computed} takes"


def _advice(target: Target, warps: int, needed: int) -> str:
    """Smaller blocks, or the fewest warps that have enough registers."""
    most = target.facts.workgroup_threads // target.facts.lanes
    more = 2 * warps
    while more <= most and needed * warps > more * thread_registers(target, more):
        more *= 2
    return f"use {more} warps or smaller blocks" if more <= most else "use smaller blocks"
