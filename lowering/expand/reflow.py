"""Tiles whose rows are read on in rows of another length, by way of workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import I32, DType
from gizml_tile.layout import Linear
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion, Move
from gizml_tile.lowering.expand.places import coordinate, holder
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.plan import SharedTile, TileLayout
from gizml_tile.nodes import Node, Reflow


def expand_reflow(x: Expansion, node: Node, source: TileLayout, target: TileLayout) -> Value:
    """The elements in the target's layout: stored row by row, and loaded from where they are then.

    Some rows after the others where not all of them fit workgroup memory.
    """
    (operand,), flow = node.args, node.attr
    assert isinstance(flow, Reflow)
    rows, columns = operand.shape
    value = x.registers(operand, source)
    dtype = value.dtype
    assert dtype is not None
    stored = storage.to_storage(x.build, value)
    held = stored.dtype
    assert held is not None
    linear = target.linear.without_replicas()
    width = _width(linear, min(16 // held.bytes, flow.run))
    row, column = _places(x.build, linear, flow, rows, width)
    together = rows
    while together > 1 and not x.memory.fits(together * columns * held.bytes, x.memory.limit):
        together //= 2
    if together == rows:
        buffer = x.memory.allocate("reshape", held, rows * columns)
        tile = SharedTile(held, (rows, columns), _bits(rows, columns), _bits(columns, 1), "rows")
        x.memory.before_write(buffer)
        store_shared(x, buffer, tile, None, stored, source)
        x.memory.before_read(buffer)
        loaded = _load(x.build, buffer, held, (row, column), columns, width)
        x.memory.release(buffer)
    else:
        loaded = _in_pieces(x, stored, source.linear, (row, column), together, width)
    bytes_ = rows * columns * held.bytes
    what = f"[{rows}, {columns}] {dtype.text} from {source.name} to other rows in {target.name}"
    text = f"{what} by workgroup memory: {bytes_} bytes, loads of {width * held.bytes} bytes"
    turns = 2 * bytes_ // (4 * x.target.facts.banks)
    x.moves.append(Move(x.build.place, text, x.user, operand, turns, turns))
    return storage.from_storage(x.build, x.build.pick(loaded, copies(target.linear)), dtype)


def _in_pieces(
    x: Expansion, value: Value, source: Linear, places: tuple[Value, Value], together: int, width: int
) -> Value:
    """What is loaded of so many rows at a time: of each, what is of those rows."""
    build, (rows, columns), held = x.build, source.shape, value.dtype
    assert held is not None
    kept = source.without_replicas()
    found = copies(source)
    value = build.pick(value, [found.index(register) for register in range(kept.size("register"))])
    (down, below), (across, beside) = (coordinate(build, kept, axis) for axis in (0, 1))
    own = build.add(down, build.constant(below, I32)), build.add(across, build.constant(beside, I32))
    low, bits = build.constant(together - 1, I32), build.constant(together.bit_length() - 1, I32)

    def piece_of(row: Value, number: int) -> Value:
        return build.map("eq", build.map("ushr", row, bits), build.constant(number, I32))

    once = holder(build, kept.free_bits("lane"), kept.free_bits("warp"))
    row, column = places
    stored_row, loaded_row = (build.map("and", each, low) for each in (own[0], row))
    offsets = build.add(build.map("mul", stored_row, build.constant(columns, I32)), own[1])
    result: Value | None = None
    buffer = x.memory.allocate("reshape", held, together * columns)
    for number in range(rows // together):
        x.memory.before_write(buffer)
        mine = build.both(piece_of(own[0], number), once)
        access = Access(WORKGROUP, buffer, 1, tuple((each, 0) for each in range(offsets.count)))
        build.store(access, value, offsets, mine)
        x.memory.before_read(buffer)
        loaded = _load(build, buffer, held, (loaded_row, column), columns, width)
        there = piece_of(row, number)
        each = [register // width for register in range(loaded.count)]
        result = loaded if result is None else build.select(build.pick(there, each), loaded, result)
    x.memory.release(buffer)
    assert result is not None
    return result


def _bits(size: int, scale: int) -> tuple[int, ...]:
    return tuple(scale << bit for bit in range(size.bit_length() - 1))


def _width(linear: Linear, most: int) -> int:
    """How many neighbouring columns a thread loads at once."""
    width = 1
    for basis in linear.bases("register"):
        if 2 * width > most or basis != (0, width):
            break
        width *= 2
    return width


def _places(build: Builder, linear: Linear, flow: Reflow, rows: int, width: int) -> tuple[Value, Value]:
    """The row and the column of the operand where each of a thread's vectors is."""
    (down, below), (across, beside) = (coordinate(build, linear, axis) for axis in (0, 1))
    own = build.add(build.map("mul", down, build.constant(flow.after, I32)), across)
    further = [row * flow.after + column for row, column in zip(below, beside, strict=True)][::width]
    number = build.add(own, build.constant(further, I32))
    before = build.constant(flow.before, I32)
    row = build.map("div", number, before)
    column = build.map("sub", number, build.map("mul", row, before))
    return build.map("and", row, build.constant(rows - 1, I32)), column


def _load(
    build: Builder, buffer: int, dtype: DType, places: tuple[Value, Value], columns: int, width: int
) -> Value:
    row, column = places
    offsets = build.add(build.map("mul", row, build.constant(columns, I32)), column)
    access = Access(WORKGROUP, buffer, width, tuple((number, 0) for number in range(offsets.count)))
    return build.load(access, offsets, dtype)
