"""Gathers and scatters: along which axis their elements are neighbours, and how wide a vector moves them."""

from __future__ import annotations

from collections.abc import Iterator

from gizml_tile.dtypes import DType
from gizml_tile.errors import TileError
from gizml_tile.layout import vector_width
from gizml_tile.lowering.planning.plan import Access, TileLayout
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.lowering.planning.vectors import VECTOR_BYTES
from gizml_tile.lowering.steps import is_masked_along, run_axis
from gizml_tile.nodes import EFFECTS, READS, Elements, Node, TileProgram, tensor_of
from gizml_tile.target import Target
from gizml_tile.text import counted


def fast_axis(signature: Signature, node: Node) -> int | None:
    """The axis of a gather's or scatter's tile along which its elements are neighbours in memory."""
    elements = node.attr
    assert isinstance(elements, Elements)
    kinds = signature.strides[elements.tensor]
    for axis in (1, 0):
        along = run_axis(node, axis) if elements.shape[axis] > 1 else None
        if along is not None and kinds[along] == "unit":
            return axis
    return None


def atomic_name(combine: str, dtype: DType | None, vector: int = 1) -> str:
    """The ability to combine so many neighbours in memory at once."""
    assert dtype is not None
    return f"{combine}_{dtype.text}" + (f"x{vector}" if vector > 1 else "")


def widest_atomic(program: TileProgram, node: Node, target: Target) -> int | None:
    """The most neighbours that a scatter which combines moves at once; None for what only moves.

    Raises TileError where the target cannot combine elements of the tensor's type at all.
    """
    elements = node.attr
    if not isinstance(elements, Elements) or not elements.combine:
        return None
    dtype = program.tensors[elements.tensor].dtype
    if not target.can(atomic_name(elements.combine, dtype)) and not target.can(f"exchange_{dtype.bits}"):
        raise TileError(
            f"{target.arch} has no atomic operations for scatter_{elements.combine} to {dtype}; write to a "
            "tensor of I32 or F32",
            node.place,
        )
    vectors = (VECTOR_BYTES // dtype.bytes >> bit for bit in range(5))
    able = (each for each in vectors if each > 1 and target.can(atomic_name(elements.combine, dtype, each)))
    return next(able, 1)


def plan_elements(
    program: TileProgram,
    node: Node,
    layout: TileLayout,
    signature: Signature,
    facts: AccessFacts,
    forced: str | None = None,
    widest: int | None = None,
) -> tuple[Access, Choice]:
    """How a gather or scatter moves its elements, with the vectors that were looked at.

    ``widest`` is the most elements that may move at once, if there is a limit.
    """
    axis = fast_axis(signature, node)
    variants = list(_variants(program, node, layout, signature, facts, axis, widest))
    candidates = [candidate for _, candidate in variants]
    chosen = choose("read" if node.op == "gather" else "put", candidates, forced, node.place)
    number = [candidate.name for candidate in candidates].index(chosen)
    outside = tuple(not each for each in facts.inside)
    vector, fast = variants[number][0], 1 if axis is None else axis
    access = Access(layout, fast, vector, (False, False), False, compared=outside)
    return access, Choice(tuple(candidates[: number + 1]), chosen)


def _variants(
    program: TileProgram,
    node: Node,
    layout: TileLayout,
    signature: Signature,
    facts: AccessFacts,
    axis: int | None,
    widest: int | None,
) -> Iterator[tuple[int, Candidate]]:
    elements = node.attr
    assert isinstance(elements, Elements)
    size = program.tensors[elements.tensor].dtype.bytes
    for vector in (VECTOR_BYTES // size >> bit for bit in range(5)):
        if vector <= 1:
            break
        reason = _why_not(program, node, elements, layout, signature, facts, axis, vector, size)
        if reason is None and widest is not None and vector > widest:
            reason = f"the device has no atomic {elements.combine} of so many elements"
        yield vector, Candidate(f"vector {vector * size} bytes", reason is None, reason or "")
    yield 1, Candidate("element", True, "")


def _is_written(program: TileProgram, signature: Signature, tensor: int) -> bool:
    """Whether a program may write elements of a tensor."""
    stores = [each for each in program.body.walk() if each.op in EFFECTS]
    return any(signature.may_alias or tensor_of(each) == tensor for each in stores)


def _why_not(
    program: TileProgram,
    node: Node,
    elements: Elements,
    layout: TileLayout,
    signature: Signature,
    facts: AccessFacts,
    axis: int | None,
    vector: int,
    size: int,
) -> str | None:
    """What forbids a vector of so many elements; None where nothing does."""
    if axis is None:
        return "elements are not known to be neighbours in memory along an axis of the tile"
    along = "columns" if axis == 1 else "rows"
    if vector > elements.shape[axis]:
        return f"the tile has only {elements.shape[axis]} {along}"
    if node.op in READS and is_masked_along(node, axis) and _is_written(program, signature, elements.tensor):
        return f"the mask may differ between neighbouring {along}, of which others may be written meanwhile"
    alignment = signature.alignments[elements.tensor]
    if alignment < vector * size:
        return f"address and strides are only known to be multiples of {alignment} bytes"
    if facts.grain[axis] < vector:
        return f"places or the size are only known to be multiples of {facts.grain[axis]}"
    run, _ = vector_width(layout.linear.without_replicas(), axis)
    if vector > run:
        return f"a thread has only {counted(run, 'neighbouring ' + along)} in the layout {layout.name}"
    return None
