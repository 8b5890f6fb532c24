"""Reads and puts: blocks of tensors to registers and back, by vectors and by masks where edges need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gizml_tile.dtypes import I32, I64, DType
from gizml_tile.index_bits import farthest, starts
from gizml_tile.layout import Linear, reorder_registers, vector_width
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import coordinate, holder, with_bits
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node, View

# Larger than any place in a tile, and far from the ends of an I32.
_FAR = 1 << 30


def expand_read(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """The block's elements in a layout; what lies outside the tensor is the pad."""
    meet(x, node)
    access = x.plan.accesses[node]
    view = view_of(node)
    block = block_of(x, view, node.args)
    dtype = x.program.tensors[view.tensor].dtype

    def load(vector: int, masked: tuple[bool, bool], leading: bool) -> Value:
        moves = Moves.of(layout.linear, access.axis, vector)
        offsets, places = offsets_of(x, block, moves)
        mask = x.build.both(leading_inside(x, block) if leading else None, inside(x, block, moves, masked))
        memory = Access(GLOBAL, view.tensor, moves.width, places, stored_pad(view))
        loaded = x.build.load(memory, offsets, storage.storage_dtype(dtype), mask)
        return storage.from_storage(x.build, x.build.pick(loaded, moves.found), dtype)

    if not access.branch:
        return load(access.vector, access.masked, access.leading)
    (result,) = x.build.branch(
        whole(x, block, view.shape, access.masked, access.leading),
        lambda: [load(access.vector, (False, False), False)],
        lambda: [load(1, access.masked, access.leading)],
    )
    return result


def read_part(
    x: Expansion, node: Node, linear: Linear, registers: Sequence[int], further: Value
) -> Value:
    """Some registers' elements of a block in a layout, as `expand_read` gives all.

    They are those ``further`` columns (an I32) to the right.
    """
    access = x.plan.accesses[node]
    view = view_of(node)
    block = block_of(x, view, node.args)
    rows, columns = block.axes
    start = x.build.add(columns.start, x.build.convert(further, I64))
    block = replace(block, axes=(rows, replace(columns, start=start)))
    dtype = x.program.tensors[view.tensor].dtype

    def load(vector: int, masked: tuple[bool, bool], leading: bool) -> Value:
        moves = Moves.of(linear, access.axis, vector)
        moved = [moves.found[register] for register in registers]
        numbers = sorted({each // moves.width for each in moved})
        offsets, places = offsets_of(x, block, moves)
        mask = x.build.both(leading_inside(x, block) if leading else None, inside(x, block, moves, masked))
        if mask is not None and mask.count > 1:
            mask = x.build.pick(mask, numbers)
        chosen = tuple(places[number] for number in numbers)
        memory = Access(GLOBAL, view.tensor, moves.width, chosen, stored_pad(view))
        loaded = x.build.load(memory, offsets, storage.storage_dtype(dtype), mask)
        found = [numbers.index(each // moves.width) * moves.width + each % moves.width for each in moved]
        return storage.from_storage(x.build, x.build.pick(loaded, found), dtype)

    if not access.branch:
        return load(access.vector, access.masked, access.leading)
    (result,) = x.build.branch(
        whole(x, block, view.shape, access.masked, access.leading),
        lambda: [load(access.vector, (False, False), False)],
        lambda: [load(1, access.masked, access.leading)],
    )
    return result


Registers = Callable[[Sequence[int]], Value]


def expand_put(x: Expansion, node: Node) -> None:
    """Store a tile as a block: rounded to the tensor's type, nothing outside the tensor."""
    meet(x, node)
    access = x.plan.accesses[node]
    value = stored_value(x, node.args[0], access.layout, x.program.tensors[view_of(node).tensor].dtype)
    store_block(x, node, lambda registers: x.build.pick(value, registers))


def store_block(x: Expansion, node: Node, given: Registers, at_once: int | None = None) -> None:
    """Store a block whose registers are ``given`` in the layout of the put, as they lie in memory.

    ``at_once`` is the most registers to ask for at once, by default all.
    """
    access = x.plan.accesses[node]
    view = view_of(node)
    linear = access.layout.linear
    block = block_of(x, view, node.args[1:])
    alone = holder(x.build, linear.free_bits("lane"), linear.free_bits("warp"))

    def store(vector: int, masked: tuple[bool, bool], leading: bool) -> None:
        moves = Moves.of(linear, access.axis, vector)
        offsets, places = offsets_of(x, block, moves)
        mask = x.build.both(
            alone, leading_inside(x, block) if leading else None, inside(x, block, moves, masked)
        )
        step = max(1, (at_once or len(moves.registers)) // moves.width)
        for first in range(0, len(places), step):
            part = range(first, min(first + step, len(places)))
            memory = Access(GLOBAL, view.tensor, moves.width, tuple(places[number] for number in part))
            registers = moves.registers[part.start * moves.width : part.stop * moves.width]
            inside_part = mask if mask is None or mask.count == 1 else x.build.pick(mask, part)
            x.build.store(memory, given(registers), offsets, inside_part)

    if not access.branch:
        store(access.vector, access.masked, access.leading)
        return

    def wide() -> Sequence[Value]:
        store(access.vector, (False, False), False)
        return ()

    def narrow() -> Sequence[Value]:
        store(1, access.masked, access.leading)
        return ()

    x.build.branch(whole(x, block, view.shape, access.masked, access.leading), wide, narrow)


def meet(x: Expansion, node: Node) -> None:
    """Wait for the other threads where they may still be writing or reading what this one goes to."""
    if node in x.meetings:
        x.memory.barrier()


def view_of(node: Node) -> View:
    assert isinstance(node.attr, View)
    return node.attr


def stored_pad(view: View) -> float | int:
    return int(view.pad) if isinstance(view.pad, bool) else view.pad


def stored_value(x: Expansion, tile: Node, layout: TileLayout, dtype: DType) -> Value:
    """A tile's registers in a layout, as they lie in memory.

    What gets narrower is rounded before it moves to the layout, so that less moves.
    """
    assert tile.dtype is not None
    home = x.home(tile)
    narrows = dtype.bytes < tile.dtype.bytes
    if narrows and home is not None and tile.shape == layout.linear.shape and tile.shape != (1, 1):
        value = storage.convert(x.build, x.target, x.value(tile, home), dtype)
        value = convert(x, value, home, layout)
    else:
        value = storage.convert(x.build, x.target, x.operand(tile, layout), dtype)
    return x.build.spread(storage.to_storage(x.build, value), layout.registers)


@dataclass(frozen=True, slots=True)
class Moves:
    """The registers that a thread moves: each once, ``width`` neighbours of memory after the other.

    ``registers`` are those of the layout in the order of the accesses, ``found`` says for each register
    of the layout which moved one holds its element, and ``layout`` has the moved ones.
    """

    width: int
    registers: tuple[int, ...]
    found: tuple[int, ...]
    layout: Linear

    @staticmethod
    def of(layout: Linear, axis: int, vector: int) -> Moves:
        kept = layout.without_replicas()
        run, order = vector_width(kept, axis)
        free = layout.free_bits("register")
        bits = [bit for bit in range(layout.bits("register")) if not free >> bit & 1]
        count = kept.size("register")
        moved = [with_bits(number, order) for number in range(count)]
        number_of = {register: number for number, register in enumerate(moved)}
        return Moves(
            min(run, vector),
            tuple(with_bits(register, bits) for register in moved),
            tuple(number_of[register] for register in copies(layout)),
            reorder_registers(kept, order),
        )


@dataclass(frozen=True, slots=True)
class Along:
    """An axis of a tensor: where the block starts (an I64), the axis's size and stride."""

    start: Value
    nonnegative: bool  # the start is not before the tensor
    size: Value
    stride: Value
    kind: str


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a tensor: the coordinates before, and the two axes of the tile (None for no axis)."""

    leading: tuple[Along, ...]
    axes: tuple[Along | None, Along]


def block_of(x: Expansion, view: View, coordinates: Sequence[Node]) -> Block:
    first = len(coordinates) - len(view.block)
    along = []
    for axis, coordinate_node in enumerate(coordinates):
        start = x.index(coordinate_node)
        if axis >= first and view.mode == "at":
            start = first_element(x, coordinate_node, view.own[axis - first])
        kind = x.plan.signature.strides[view.tensor][axis]
        nonnegative = coordinate_node in x.nonnegative
        size, stride = x.size(view.tensor, axis), x.stride(view.tensor, axis)
        if axis >= first and view.own[axis - first] < view.block[axis - first]:
            # What is beyond the block's own end is as what is beyond the tensor's.
            end = x.build.add(start, x.build.constant(view.own[axis - first], I64))
            size = x.build.map("min", size, end)
        along.append(Along(start, nonnegative, size, stride, kind))
    rows = along[-2] if len(view.block) == 2 else None
    return Block(tuple(along[:first]), (rows, along[-1]))


def first_element(x: Expansion, coordinate: Node, own: int) -> Value:
    """Where a block of so many elements begins along an axis."""
    build, start = x.build, x.index(coordinate)
    limit = farthest(coordinate, own, starts(x.program))
    if limit is not None:
        start = build.map("min", start, build.constant(limit, I64))
        if coordinate not in x.nonnegative:
            start = build.map("max", start, build.constant(-limit, I64))
    return build.mul(start, build.constant(own, I64))


def offsets_of(x: Expansion, block: Block, moves: Moves) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """Each access's offset in elements: a register and a constant."""
    return offsets_at(x, block, moves.layout, moves.layout.table("register")[:: moves.width])


def offsets_at(
    x: Expansion, block: Block, layout: Linear, at: Sequence[tuple[int, int]]
) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """The offset in elements of each of some places from where a thread's part begins in a layout.

    Along the axis of unit stride a place is the constant; along others it is multiplied by the stride, once
    for each place that there is.
    """
    build, dtype = x.build, x.offset_dtype()
    total = build.constant(0, I64)
    for along in (*block.leading, *block.axes):
        if along is not None:
            total = build.add(total, build.mul(along.start, along.stride))
    total = build.convert(total, dtype)
    constants = [0] * len(at)
    spread: list[tuple[Value, list[int]]] = []  # strides, and each access's place along them
    for axis, along in enumerate(block.axes):
        if along is None or along.kind == "zero":
            continue
        thread, _ = coordinate(build, layout, axis)
        places = [place[axis] for place in at]
        stride = build.convert(along.stride, dtype)
        total = build.add(total, build.mul(build.convert(thread, dtype), stride))
        if along.kind == "unit":
            constants = [sum(each) for each in zip(constants, places, strict=True)]
        else:
            spread.append((stride, places))
    together = list(zip(*(places for _, places in spread), strict=True)) or [()] * len(at)
    distinct = list(dict.fromkeys(together))
    for number, (stride, _) in enumerate(spread):
        steps = build.constant([places[number] for places in distinct], dtype)
        total = build.add(total, build.mul(steps, stride))
    return total, tuple(
        (distinct.index(places), constant) for places, constant in zip(together, constants, strict=True)
    )


def inside(x: Expansion, block: Block, moves: Moves, masked: tuple[bool, bool]) -> Value | None:
    """Which accesses are inside the tensor."""
    return inside_at(x, block, moves.layout, moves.layout.table("register")[:: moves.width], masked)


def inside_at(
    x: Expansion, block: Block, layout: Linear, at: Sequence[tuple[int, int]], masked: tuple[bool, bool]
) -> Value | None:
    """Which of some places from where a thread's part begins are inside; there are none before it.

    That takes one comparison for each place along an axis.
    """
    build = x.build
    result: Value | None = None
    for axis, along in enumerate(block.axes):
        if along is None or not masked[axis]:
            continue
        thread, _ = coordinate(build, layout, axis)
        places = [place[axis] for place in at]
        distinct = list(dict.fromkeys(places))
        steps = build.constant(distinct, I32)
        # A place p of the tile is inside where -start <= p < size - start; p is small and not negative.
        end = near(x, build.sub(along.size, along.start))
        mask = build.map("lt", thread, build.sub(end, steps))
        if not along.nonnegative:
            first = near(x, build.sub(build.constant(0, I64), along.start))
            mask = build.map("and", mask, build.map("ge", thread, build.sub(first, steps)))
        if len(distinct) > 1:
            mask = build.pick(mask, [distinct.index(place) for place in places])
        result = build.both(result, mask)
    return result


def near(x: Expansion, bound: Value) -> Value:
    """A bound of places in a tile as an I32: those out of reach become 0 or very far."""
    build = x.build
    clamped = build.map("min", build.map("max", bound, build.constant(0, I64)), build.constant(_FAR, I64))
    return build.convert(clamped, I32)


def leading_inside(x: Expansion, block: Block) -> Value | None:
    """Whether the coordinates before the block's are inside, the same for all threads."""
    return x.build.both(*(fits(x, along, 1) for along in block.leading))


def whole(
    x: Expansion, block: Block, shape: tuple[int, int], masked: tuple[bool, bool], leading: bool
) -> Value:
    """Whether all of a block is inside, the same for all threads."""
    checks = [leading_inside(x, block) if leading else None]
    for along, extent, compared in zip(block.axes, shape, masked, strict=True):
        if along is not None and compared:
            checks.append(fits(x, along, extent))
    whole = x.build.both(*checks)
    assert whole is not None, "a branch has something to compare"
    return whole


def fits(x: Expansion, along: Along, extent: int) -> Value:
    """Whether ``extent`` places from the start are inside."""
    build = x.build
    last = build.sub(along.size, build.constant(extent, I64))
    below = build.map("le", along.start, last)
    if along.nonnegative:
        return below
    return build.map("and", build.map("ge", along.start, build.constant(0, I64)), below)
