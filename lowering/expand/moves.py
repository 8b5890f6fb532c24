"""Operations that move elements: in registers where layouts allow, else through workgroup memory."""

from __future__ import annotations

from functools import partial

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear, parts
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.convert import in_halves, register_half
from gizml_tile.lowering.expand.expansion import Expansion, Move
from gizml_tile.lowering.expand.places import coordinate, holder, thread_part
from gizml_tile.lowering.expand.reflow import expand_reflow
from gizml_tile.lowering.expand.shared import shared_side, store_side
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.accesses import best_blocked
from gizml_tile.lowering.planning.moves import after, before, strides
from gizml_tile.lowering.planning.plan import SharedTile, TileLayout
from gizml_tile.nodes import Node, Reflow, Steps, slices


def expand_move(x: Expansion, node: Node) -> tuple[Value, TileLayout]:
    """A tile whose elements come from elsewhere, and the layout in which its registers are."""
    home = x.home(node)
    assert home is not None
    match node.op:
        case "transpose":
            # An operand without a home is made where it is wanted, so no register moves at all.
            there = x.home(node.args[0]) or home.transposed()
            return x.registers(node.args[0], there), there.transposed()
        case "reshape" if isinstance(node.attr, Reflow):
            there = x.plan.layouts.get(node.args[0]) or _spread(x, node.args[0])
            return expand_reflow(x, node, there, home), home
        case "reshape":
            there = x.home(node.args[0]) or before(node, home) or home
            return x.registers(node.args[0], there), after(node, there) or home
        case "slice":
            return _slice(x, node, home)
    return _join(x, node, home)


def _join(x: Expansion, node: Node, home: TileLayout) -> tuple[Value, TileLayout]:
    """Two tiles whose registers stand beside each other."""
    axis, in_turn = node.attr, node.op == "interleave"
    assert isinstance(axis, int)
    found = parts.halves(home.linear, axis, in_turn)
    if found is not None:
        half, bit = found
        layout = TileLayout(f"half of {home.name}", half)
        both = x.build.join([x.registers(arg, layout) for arg in node.args])
        low = (1 << bit) - 1
        order = [
            (number & low | number >> bit + 1 << bit) + (number >> bit & 1) * layout.registers
            for number in range(home.registers)
        ]
        return x.build.pick(both, order), home
    there = next((x.plan.layouts[arg] for arg in node.args if arg in x.plan.layouts), None)
    there = there or _spread(x, node.args[0])
    layout_of_both = after(node, there)
    assert layout_of_both is not None
    return x.build.join([x.registers(arg, there) for arg in node.args]), layout_of_both


def _slice(x: Expansion, node: Node, home: TileLayout) -> tuple[Value, TileLayout]:
    """Elements of a tile: a choice of registers, an exchange of lanes, or loads from workgroup memory."""
    (operand,) = node.args
    there = x.plan.layouts.get(operand) or _wanted(x, node, home)
    value = x.registers(operand, there)
    taken = slices(node.attr)
    found = parts.part(there.linear, *strides(node))
    if found is not None:
        backwards = tuple(steps.size - 1 if steps.step < 0 else 0 for steps in taken)
        turned = parts.turned(found.linear, (backwards[0], backwards[1]))
        if turned is not None:
            value = _turned(x, x.build.pick(value, found.registers), *turned)
            # What registers alone tell apart every thread has.
            is_uniform = node.shape == (1, 1)
            return value, home if is_uniform else TileLayout(f"part of {there.name}", found.linear)
    return _through_memory(x, node, value, there, home), home


def _wanted(x: Expansion, node: Node, home: TileLayout) -> TileLayout:
    """A layout to make a slice's operand in: around the slice, if that takes no more than a few registers."""
    wanted, spread = before(node, home), _spread(x, node.args[0])
    if wanted is None or node.shape == (1, 1) or wanted.registers > 2 * spread.registers:
        return spread
    return wanted


def _turned(x: Expansion, value: Value, register: int, lane: int) -> Value:
    """Each register of what the thread has that differs in some bits of the register's and lane's number."""
    value = x.build.pick(value, [number ^ register for number in range(value.count)])
    if not lane:
        return value
    assert value.dtype is not None
    moved = x.build.shuffle_xor(storage.to_storage(x.build, value), lane)
    return storage.from_storage(x.build, moved, value.dtype)


def _spread(x: Expansion, node: Node) -> TileLayout:
    """A layout for a tile that is made where it is wanted, but not as it is wanted."""
    return best_blocked((node.shape[0], node.shape[1]), [], 1, x.target, x.plan.warps)


def _through_memory(x: Expansion, node: Node, value: Value, source: TileLayout, target: TileLayout) -> Value:
    """The elements of a slice by way of workgroup memory; masks travel as bytes.

    Of an axis of which one element is taken no others are copied: of a single column those in it.
    """
    dtype = value.dtype
    assert dtype is not None
    whole, copy, (along_rows, along_columns) = source.linear, source.linear, slices(node.attr)
    mask = holder(x.build, whole.free_bits("lane"), whole.free_bits("warp"))
    if along_rows.size == 1 and (row := parts.line(copy, 0, along_rows.start)):
        mask = x.build.both(mask, _holds(x.build, whole, 0, row.thread))
        copy, value, along_rows = row.linear, x.build.pick(value, row.registers), Steps.whole(1)
    if along_columns.size == 1 and (column := parts.line(copy, 1, along_columns.start)):
        mask = x.build.both(mask, _holds(x.build, whole, 1, column.thread))
        copy, value, along_columns = column.linear, x.build.pick(value, column.registers), Steps.whole(1)
    rows, columns = copy.shape
    stored = storage.to_storage(x.build, value)
    assert stored.dtype is not None
    width = _width(target.linear.without_replicas(), along_columns, min(16 // stored.dtype.bytes, columns))
    bytes_ = rows * columns * stored.dtype.bytes
    what = f"[{rows}, {columns}] {dtype.text} from {source.name} to a part of it in {target.name}"
    text = f"{what} by workgroup memory: {bytes_} bytes, loads of {width * stored.dtype.bytes} bytes"
    turns = 2 * bytes_ // (4 * x.target.facts.banks)
    x.moves.append(Move(x.build.place, text, x.user, node.args[0], turns, turns))
    moved = _copied(x, (along_rows, along_columns), mask, stored, copy, target.linear)
    return storage.from_storage(x.build, moved, dtype)


def _holds(build: Builder, layout: Linear, axis: int, place: int) -> Value | None:
    """Whether a thread's own part of a coordinate is a place; None where threads have no part of it."""
    lane, warp = ([basis[axis] for basis in layout.bases(name)] for name in ("lane", "warp"))
    if not any((*lane, *warp)):
        return None
    return build.map("eq", thread_part(build, lane, warp), build.constant(place, I32))


def _copied(
    x: Expansion,
    taken: tuple[Steps, Steps],
    mask: Value | None,
    value: Value,
    source: Linear,
    target: Linear,
) -> Value:
    """The elements from a copy of the operand, row by row; of halves of it in turn where it does not fit.

    Of the threads that hold the same elements those store them that ``mask`` tells.
    Halves are made along an axis of which all is taken.
    """
    dtype, (rows, columns) = value.dtype, source.shape
    assert dtype is not None
    if not x.memory.fits(rows * columns * dtype.bytes, x.memory.limit):
        for axis, steps in enumerate(taken):
            half = register_half(source, axis) if steps == Steps.whole(source.shape[axis]) else None
            if half is not None:
                own = Steps.whole(steps.size // 2)
                pieces = (own, taken[1]) if axis == 0 else (taken[0], own)
                return in_halves(x, value, source, target, half, partial(_copied, x, pieces, mask))
    buffer = x.memory.allocate("slice", dtype, rows * columns)
    tile = SharedTile(dtype, (rows, columns), _bits(rows, columns), _bits(columns, 1), "rows")
    x.memory.before_write(buffer)
    store_side(x.build, buffer, shared_side(source, tile), value, mask=mask)
    x.memory.before_read(buffer)
    linear = target.without_replicas()
    width = _width(linear, taken[1], min(16 // dtype.bytes, columns))
    offsets, places = _offsets(x.build, linear, taken, source.shape, width)
    loaded = x.build.load(Access(WORKGROUP, buffer, width, places), offsets, dtype)
    x.memory.release(buffer)
    if taken[1].step < 0:
        loaded = x.build.pick(loaded, [number ^ width - 1 for number in range(loaded.count)])
    return x.build.pick(loaded, copies(target))


def _bits(size: int, scale: int) -> tuple[int, ...]:
    """The distance of each bit of a coordinate."""
    return tuple(scale << bit for bit in range(size.bit_length() - 1))


def _offsets(
    build: Builder, linear: Linear, taken: tuple[Steps, Steps], shape: tuple[int, int], width: int
) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """Where a thread's vectors are in the copy, each by a register and a constant.

    Along an axis of which a slice leaves the end each place needs a register of its own, modulo the size.
    """
    total = build.constant(0, I32)
    constants = [0] * (linear.size("register") // width)
    wrapped: list[tuple[Value, list[int], int, int]] = []
    for axis, (steps, scale) in enumerate(zip(taken, (shape[1], 1), strict=True)):
        thread, registers = coordinate(build, linear, axis)
        thread = build.map("mul", thread, build.constant(steps.step, I32))
        # Of neighbours in reverse order the last one is the first in memory.
        ahead = width - 1 if axis == 1 and steps.step < 0 else 0
        firsts = [steps.start + steps.step * (each + ahead) for each in registers[::width]]
        if _leaves(steps, shape[axis]):
            wrapped.append((thread, firsts, shape[axis], scale))
            continue
        total = build.add(total, build.map("mul", thread, build.constant(scale, I32)))
        constants = [before + each * scale for before, each in zip(constants, firsts, strict=True)]
    # Steps backwards are taken off a thread's part, so that what is added to it is never negative.
    least = min(constants)
    if least:
        total = build.add(total, build.constant(least, I32))
    together = list(zip(*(firsts for _, firsts, _, _ in wrapped), strict=True)) or [()] * len(constants)
    distinct = list(dict.fromkeys(together))
    for number, (thread, _, size, scale) in enumerate(wrapped):
        places = build.add(thread, build.constant([each[number] for each in distinct], I32))
        places = build.map("and", places, build.constant(size - 1, I32))
        total = build.add(total, build.map("mul", places, build.constant(scale, I32)))
    return total, tuple(
        (distinct.index(which), each - least) for which, each in zip(together, constants, strict=True)
    )


def _leaves(steps: Steps, size: int) -> bool:
    """Whether places of a slice lie beyond either end of an axis."""
    last = steps.start + steps.step * (steps.size - 1)
    return not (0 <= steps.start < size and 0 <= last < size)


def _width(linear: Linear, steps: Steps, most: int) -> int:
    """How many neighbouring columns a thread loads at once: its own, which begin at a multiple of that."""
    registers = linear.bases("register")
    threads = [*linear.bases("lane"), *linear.bases("warp")]
    bits = 0
    while (
        abs(steps.step) == 1
        and bits < len(registers)
        and 1 << bits < most
        and registers[bits] == (0, 1 << bits)
    ):
        bits += 1
    # Backwards a vector ends where the slice begins.
    first = steps.start + 1 if steps.step < 0 else steps.start
    columns = [column for _, column in (*registers[bits:], *threads)]
    while any(each % (1 << bits) for each in (first, *columns)):
        bits -= 1
    return 1 << bits
