"""Products by groups of four warps: which types they take, and who has which elements of the result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.dtypes import F32, DType
from gizml_tile.layout import Linear
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.atoms import GROUP_UNITS, GroupUnit
from gizml_tile.lowering.planning.boxes import is_once, tensor_name
from gizml_tile.lowering.planning.computed_on import blocks_computed_on
from gizml_tile.lowering.planning.dots import plan_by_halves
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import UNIFORM, Dot, Promotion, TileLayout
from gizml_tile.lowering.planning.prologues import piece_of, prologue_of, unit_dtypes
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Choice
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

GROUP_MATRIX = "group_matrix"
# Registers of a thread for a total and a part's sums, which leave enough for the rest.
MOST_IN_PARTS = 192
_GROUP_THREADS, _GROUP_WARPS = 128, 4
_ROWS = 64  # of a product by four warps
# Sums of so many columns beside the total leave a thread enough registers: 64 of it for each 64 rows.
_PART_COLUMNS = 128
# And atoms, whose operands are in registers, make so many at a time.
_ATOM_COLUMNS = 32
# From so many elements of k on sums whose terms all have one sign are within the language's bound for dot,
# K * 2^-24 of |a| |b|, too; those of random signs are from a few hundred on.
_LONG = 4096
# A kernel that asks for such sums gets what cuBLAS does without its fast ones: measured on an H200.
_ASKED_DEPTH = 128


def why_not_by_groups(state: Planning, node: Node, *, alone: bool) -> Iterator[str]:
    """Why four warps cannot make a product of operands of such types, that lie so.

    ``alone`` tells that turns of the loop do not just add to one product of all their elements of k.
    """
    found = [operand(arg) for arg in node.args[:2]]
    dtypes = unit_dtypes(state, node)
    unit, names = GROUP_UNITS.get(dtypes), " and ".join(sorted(map(str, set(dtypes))))
    if unit is None:
        known = dict.fromkeys(dtype for pair in GROUP_UNITS for dtype in pair)
        yield f"operands are {names}, not both {_alternatives(known)}"
        return
    if F32 in dtypes:
        yield from _why_not_tf32(node)
    asked = state.forced.get("dot", GROUP_MATRIX)
    if asked != GROUP_MATRIX:
        yield f"products are asked for by {asked}"
    if unit.step and alone and not is_asked(state):
        yield (
            f"a product of {node.args[0].shape[1]} elements of k alone would be summed in about "
            f"{unit.sum_bits} bits; ask for that with p.variant('dot', '{GROUP_MATRIX}')"
        )
    if unit.step and any(arg.dtype is not dtype for arg, dtype in zip(node.args, dtypes, strict=False)):
        yield f"operands are converted from {names}, whose products are summed in fewer bits"
    for side, each in enumerate(found):
        if not unit.turned and _k_is_slow(state, each.node, each.transposed, 1 - side):
            yield f"k is not the contiguous axis of both operands, as products of {names} need it"


def _why_not_tf32(node: Node) -> Iterator[str]:
    if node.attr != "tf32":
        yield "operands are F32: TF32 keeps 10 bits of 23; ask for it with precision='tf32'"
    if any(operand(arg).node.op != "read" for arg in node.args[:2]):
        yield "a computed operand is F32, and only the copy engine rounds to TF32 on the way"


def _alternatives(dtypes: Iterable[DType]) -> str:
    *others, last = map(str, dtypes)
    return f"{', '.join(others)} or {last}"


def _k_is_slow(state: Planning, node: Node, transposed: bool, k_axis: int) -> bool:
    # What is computed and stays is in rows.
    fast = fast_axis(state.signature, node) if node.op == "read" else 1
    return fast is not None and (fast == k_axis) == transposed


def is_asked(state: Planning) -> bool:
    """Whether a kernel asks for such products whatever their sums keep."""
    return state.forced.get("dot") == GROUP_MATRIX


def is_turned(state: Planning, product: Node) -> bool:
    """Whether b' @ a' is made in place of a product, so that its columns are the rows.

    That is where it has too few rows, or its right operand is computed, which only the left one may be.
    """
    computed = prologue_of(state, product)
    if computed is not None:
        return computed.side == 1
    rows, columns = product.shape
    return rows % _ROWS != 0 and columns % _ROWS == 0


def sides_of(state: Planning, product: Node) -> tuple[int, int]:
    """The rows and columns of a product as it is made."""
    rows, columns = product.shape
    return (columns, rows) if is_turned(state, product) else (rows, columns)


def why_not_turned(state: Planning, product: Node) -> Iterator[str]:
    """Why a product cannot be made with rows and columns exchanged, if it is one with few rows."""
    if is_turned(state, product) and prologue_of(state, product) is None:
        if any(operand(arg).node.op != "read" for arg in product.args[:2]):
            yield f"a product of {product.shape[0]} rows takes what is computed, not blocks of tensors"
        if parts_of(state, product) is not None:
            yield f"a product of {product.shape[0]} rows is summed in parts"


def parts_of(state: Planning, node: Node) -> Promotion | None:
    """The parts that a product's sums are made in, where the unit's own sums are not exact enough."""
    unit = GROUP_UNITS.get(unit_dtypes(state, node))
    if unit is None or not unit.step:
        return None
    return Promotion(min(_depth(unit), node.args[0].shape[1]), min(node.shape[1], _PART_COLUMNS))


def _depth(unit: GroupUnit) -> int:
    """How much of k a unit may sum before F32 additions take over.

    What n steps of terms of one sign lose grows with the terms' number and with the sum so far: simulated, it
    is about n^2 / 2 times the sum's last bit.
    """
    return math.isqrt(2 * _LONG >> 25 - unit.sum_bits) * unit.step


def _plan_parts(state: Planning, node: Node) -> Promotion | None:
    """A product's parts, and how it is made where it has too few elements of k for them."""
    parts = parts_of(state, node)
    assert state.specialised is not None
    if parts is None:
        return None
    groups, (rows, columns) = state.specialised.groups, node.shape
    own = rows // groups
    # A second part's sums would leave threads too few registers beside the total.
    held = own * columns + 2 * _ROWS * parts.columns
    parts = replace(parts, one_set=held > MOST_IN_PARTS * _GROUP_THREADS)
    if is_asked(state):
        return replace(parts, depth=min(_ASKED_DEPTH, node.args[0].shape[1]))
    warp_rows = [16, 32, *(own << bit for bit in range(bit_length(groups)))]
    shape = (rows, columns, node.args[0].shape[1])
    dtypes = unit_dtypes(state, node)
    exact = plan_by_halves(state.target, dtypes, shape, warp_rows, min(columns, _ATOM_COLUMNS))
    return replace(parts, least=_LONG, otherwise=exact)


def group_dot(state: Planning, node: Node) -> Dot:
    """How groups of four warps make a product: PTX ISA, "wgmma: register fragments"."""
    assert state.specialised is not None
    groups = state.specialised.groups
    rows, columns = sides_of(state, node)
    left, depth = operand(node.args[0]).node, node.args[0].shape[1]
    dtypes, parts = unit_dtypes(state, node), _plan_parts(state, node)
    a, b, told = UNIFORM, UNIFORM, "operands in workgroup memory"
    computed, turned = prologue_of(state, node), is_turned(state, node)
    # Pairs of 8 x 8 pieces of a result lie as the left operand of a product wants them.
    paired = _has_pairs(state)
    held = _group_layout(groups, rows, depth, paired)
    if computed is not None and turned:
        b, told = held.transposed(), "the right operand computed in registers"
    elif computed is not None:
        a, told = held, "the left operand computed in registers"
    elif left.op != "read" and not is_once(state, left):
        a, told = held, "the left operand in registers"
    c = _group_layout(groups, rows, columns, paired)
    c = c.transposed() if turned else c
    piece = 0 if computed is None else piece_of(depth)
    made = Dot(None, dtypes, (4 * groups, 1), a, b, c, groups, parts, turned, piece)
    told = f"asynchronous, 64 x {columns if parts is None else parts.columns} by each four warps, {told}"
    if computed is not None:
        told += f", {piece} elements of k at a time"
        names = " and ".join(dict.fromkeys(tensor_name(state, block) for block in computed.blocks))
        state.because(
            computed.node,
            f"computed in registers by the warps that multiply, where the product takes it, from blocks of "
            f"{names} in workgroup memory",
        )
    if turned:
        told = f"rows and columns exchanged, {told}"
    if parts is not None:
        told += f", sums of {parts.depth} of k in about {GROUP_UNITS[dtypes].sum_bits} bits added in F32"
        if parts.otherwise is not None and parts.otherwise.atom is not None:
            told += f", but by {parts.otherwise.atom.name} where there are less than {parts.least} of k"
    state.chose(node, "dot", Choice((Candidate(GROUP_MATRIX, True, told),), GROUP_MATRIX))
    return made


def layout_computed_on(state: Planning, block: Node) -> TileLayout:
    """The layout in which groups compute on a block that a product takes, too."""
    assert state.specialised is not None
    side, axis = blocks_computed_on(state, state.dots)[block]
    groups, lines, depth = state.specialised.groups, block.shape[1 - axis], block.shape[axis]
    if side == int(any(dot.turned for dot in state.dots.values())):
        layout = _group_layout(groups, lines, depth, _has_pairs(state))
    else:
        layout = _layout_of_each_warp(groups, lines, depth)
    return layout if axis == 1 else layout.transposed()


def _has_pairs(state: Planning) -> bool:
    """Whether all products have rows that lie in pairs: neighbours where the unit has rows 8 apart.

    A block of bytes whose rows are neighbours then goes to registers as 8x8 matrices of pairs, and no product
    minds the order of its rows but those that take them from workgroup memory.
    """
    return all(_takes_pairs(state, node) for node in state.program.body.walk() if node.op == "dot")


def _takes_pairs(state: Planning, product: Node) -> bool:
    computed = prologue_of(state, product)
    if computed is None:
        return False
    k_axis = (1 - computed.side) ^ computed.transposed
    return any(
        block.dtype is not None and block.dtype.bytes == 1 and fast_axis(state.signature, block) != k_axis
        for block in computed.blocks
    )


def _layout_of_each_warp(groups: int, columns: int, depth: int) -> TileLayout:
    """All of a right operand in every warp: of its columns each lane has those that it has of results.

    So what is summed along k lies as a row of the result does.
    """
    across = [(8 << bit, 0) for bit in range(bit_length(columns // 8))]
    along = [(0, 8 << bit) for bit in range(bit_length(depth // 8))]
    lane, warp = [(2, 0), (4, 0), (0, 1), (0, 2), (0, 4)], [(0, 0)] * bit_length(_GROUP_WARPS * groups)
    linear = Linear.of((columns, depth), register=[(1, 0), *across, *along], lane=lane, warp=warp)
    return TileLayout("whole in every warp", linear)


def _group_layout(groups: int, rows: int, columns: int, paired: bool) -> TileLayout:
    across = [(0, 8 << bit) for bit in range(bit_length(columns // 8))]
    own = rows // groups
    warp = [(16, 0), (32, 0), *((own << bit, 0) for bit in range(bit_length(groups)))]
    eighth, *others = [(1, 0), (2, 0), (4, 0), (8, 0)] if paired else [(8, 0), (1, 0), (2, 0), (4, 0)]
    down = [(_ROWS << bit, 0) for bit in range(bit_length(own // _ROWS))]
    lane, register = [(0, 2), (0, 4), *others], [(0, 1), eighth, *across, *down]
    linear = Linear.of((rows, columns), register=register, lane=lane, warp=warp)
    name = f"result of {groups} x 4 warps" if groups > 1 else "result of 4 warps"
    return TileLayout(f"{name}, rows in pairs" if paired else name, linear)
