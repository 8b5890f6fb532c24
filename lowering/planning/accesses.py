"""How reads and puts go to memory: how many threads, which spread, and how wide a vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.layout import Linear, blocked, vector_width
from gizml_tile.lowering.planning.elements import plan_elements
from gizml_tile.lowering.planning.plan import Access, TileLayout
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Cause, Choice, Refusal, choose
from gizml_tile.lowering.planning.vectors import VECTOR_BYTES, Traffic, best_vector
from gizml_tile.nodes import ALONG, Elements, Node, TileProgram, View
from gizml_tile.target import Target
from gizml_tile.text import counted

# Measured on an H200: one vector a thread in workgroups of 256 threads copies fastest. Rows that are reduced
# want 32 elements a thread, and 64 sooner than more than 256 threads, as fewer meet sooner.
_ELEMENTWISE_THREADS, _MOST_THREADS = 256, 512
_ROW_ELEMENTS, _ROW_THREADS = 32, 256
_MOST_ELEMENTS = 64


def automatic_warps(program: TileProgram, target: Target) -> int:
    """The warps of a workgroup for a program without products, by its largest tile."""
    nodes = list(program.body.walk())
    elements = max((node.shape[0] * node.shape[1] for node in nodes if node.is_tile), default=1)
    lanes = target.facts.lanes
    if any(node.op in ALONG for node in nodes):
        threads, most = elements // _ROW_ELEMENTS, _MOST_THREADS
        if threads > _ROW_THREADS:
            threads = max(threads // 2, _ROW_THREADS)
    else:
        views = [node.attr for node in nodes if isinstance(node.attr, View | Elements)]
        narrowest = min((program.tensors[view.tensor].dtype.bytes for view in views), default=4)
        threads, most = elements // (VECTOR_BYTES // narrowest), _ELEMENTWISE_THREADS
        if elements > _MOST_ELEMENTS * most:
            most = _MOST_THREADS
    return max(1, min(threads, most, target.facts.workgroup_threads) // lanes)


def best_blocked(
    shape: tuple[int, int],
    moves: Sequence[Traffic],
    axis: int,
    target: Target,
    warps: int,
    *,
    shared: int | None = None,
    runs: int | None = None,
) -> TileLayout:
    """The spread for tensors that are contiguous along an axis of the tile.

    A thread has as many neighbours as suit all their accesses, as long as that leaves something for
    every thread. Warps go along the other axis first, so that a reduction along this one stays in a warp,
    unless something is ``shared`` by all that lies along an axis: then along the other, so that a thread
    has several to use it for. Where the tile ``runs`` along an axis, a thread's elements are neighbours
    there, or at least its warp's are, which meet before those of other warps.
    """
    lanes = target.facts.lanes
    share = max(shape[0] * shape[1] // (lanes * warps), 1)
    vector = min(best_vector(moves, lanes), share, shape[axis])
    order = (1, 0) if axis == 1 else (0, 1)
    first = None if shared is None else 1 - shared
    across = min(max(share // vector, 1), shape[1 - axis]) if runs == 1 - axis else 1
    linear = blocked(shape, order, vector, lanes, warps, across, warps_first=first)
    if runs == axis:
        linear = _warps_last(linear, axis)
    return TileLayout(f"blocked {vector} wide", linear)


def _warps_last(linear: Linear, axis: int) -> Linear:
    """The layout with the bits along an axis given out anew, in the order that they have, to warps last.

    So the elements of a warp are neighbours.
    """
    sizes = [
        (name, bit, basis[axis])
        for name in linear.names
        for bit, basis in enumerate(linear.bases(name))
        if basis[axis]
    ]
    last = sorted(sizes, key=lambda each: (each[0] == "warp", each[2]))
    for (name, bit, _), size in zip(last, sorted(size for _, _, size in sizes), strict=True):
        bases = list(linear.bases(name))
        bases[bit] = (size, 0) if axis == 0 else (0, size)
        linear = linear.with_bases(name, bases)
    return linear


def plan_access(
    program: TileProgram,
    node: Node,
    layout: TileLayout,
    signature: Signature,
    facts: AccessFacts,
    forced: str | None = None,
    widest: int | None = None,
) -> tuple[Access, Choice]:
    """How a read or put moves its block, with the vectors that were looked at.

    ``widest`` limits the vectors of a gather or scatter. ``forced`` names the variant to take
    (``"vector 8 bytes"``, ``"element"``); a TileError tells where it cannot serve.
    """
    view = node.attr
    if isinstance(view, Elements):
        return plan_elements(program, node, layout, signature, facts, forced, widest)
    assert isinstance(view, View)
    axis = fast_axis(signature, node)
    outside = tuple(not each for each in facts.inside)
    masked = (False, outside[0]) if len(outside) == 1 else (outside[0], outside[1])
    variants = list(_variants(program, node, layout, signature, facts, axis))
    candidates = [candidate for _, _, candidate in variants]
    chosen = choose(node.op, candidates, forced, node.place)
    number = [candidate.name for candidate in candidates].index(chosen)
    vector, branch, _ = variants[number]
    access = Access(layout, 1 if axis is None else axis, vector, masked, not facts.leading, branch)
    # Narrower vectors would do too, which goes without saying.
    return access, Choice(tuple(candidates[: number + 1]), chosen)


def _variants(
    program: TileProgram,
    node: Node,
    layout: TileLayout,
    signature: Signature,
    facts: AccessFacts,
    axis: int | None,
) -> Iterator[tuple[int, bool, Candidate]]:
    """The vectors from the widest on: how many elements, whether with a branch, and whether it serves."""
    view = node.attr
    assert isinstance(view, View)
    size = program.tensors[view.tensor].dtype.bytes
    for vector in (VECTOR_BYTES // size >> bit for bit in range(5)):
        if vector <= 1:
            break
        name = f"vector {vector * size} bytes"
        grain = 0 if axis is None else facts.grain[axis - 2 + len(facts.grain)]
        by_blocks = grain < vector and view.mode == "at" and not view.visible
        refusal = why_not(view, signature, axis, vector, size)
        if refusal is None and grain < vector and not by_blocks:
            reason = f"offsets or the size are only known to be multiples of {grain}"
            refusal = Refusal(Cause.OFFSET, reason)
        # The layout last: it has no more neighbours where all that stands before it asks for few.
        refusal = refusal or scattered(layout, axis, vector)
        if refusal is None and by_blocks:
            # A block's offset is a multiple of its own size, so the tensor's size it is that does not fit.
            reason = f"by whole blocks; the end, as the size is only known to be a multiple of {grain}, "
            yield vector, True, Candidate(name, True, reason + "goes by elements")
        else:
            yield vector, False, Candidate.of(name, refusal)
    yield 1, False, Candidate("element", True, "")


def why_not(view: View, signature: Signature, axis: int | None, vector: int, size: int) -> Refusal | None:
    """What forbids a vector of so many elements, whatever offsets and layout; None where nothing does."""
    if axis is None:
        return Refusal(Cause.STRIDES, "no axis of the block is contiguous in memory")
    along = "columns" if axis == 1 else "rows"
    if vector > view.shape[axis]:
        shape = (1, *(view.visible or view.block))[-2:]
        return Refusal(Cause.EXTENT, f"the block has only {counted(shape[axis], along)}")
    alignment = signature.alignments[view.tensor]
    if alignment < vector * size:
        text = f"address and strides are only known to be multiples of {alignment} bytes"
        return Refusal(Cause.ALIGNMENT, text)
    return None


def scattered(layout: TileLayout, axis: int | None, vector: int) -> Refusal | None:
    """Why a layout has no vector of so many elements along an axis; None where it has."""
    assert axis is not None
    run, _ = vector_width(layout.linear.without_replicas(), axis)
    if vector <= run:
        return None
    along = "neighbouring columns" if axis == 1 else "neighbouring rows"
    return Refusal(Cause.LAYOUT, f"a thread has only {counted(run, along)} in the layout {layout.name}")
