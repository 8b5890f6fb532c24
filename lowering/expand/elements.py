"""Gathers and scatters: elements of tensors to registers and back, each from where its coordinates say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from gizml_tile.dtypes import I32, I64, DType, math_dtype
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import (
    Along,
    Moves,
    fits,
    meet,
    near,
    stored_value,
)
from gizml_tile.lowering.expand.places import coordinate, holder
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access
from gizml_tile.lowering.planning.elements import atomic_name
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.lowering.steps import is_masked_along
from gizml_tile.nodes import ACCESSES, Const, Elements, Node, places


def expand_gather(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """The elements in a layout; the pad where they lie outside the tensor or the mask is false.

    A vector is read where the mask has any of its elements, of which those that it has not become the pad.
    """
    meet(x, node)
    access, elements = x.plan.accesses[node], elements_of(node)
    dtype = x.program.tensors[elements.tensor].dtype
    moves = Moves.of(layout.linear, access.axis, access.vector)
    offsets, which, inside = _where(x, node, layout, moves)
    chosen = _chosen(x, node, layout, moves)
    varies = chosen is not None and chosen.count > len(which)
    mask = x.build.both(inside, _together(x, "or", chosen, moves.width) if varies else chosen)
    pad = int(elements.pad) if isinstance(elements.pad, bool) else elements.pad
    memory = Access(GLOBAL, elements.tensor, moves.width, which, pad)
    loaded = x.build.load(memory, offsets, storage.storage_dtype(dtype), mask)
    value = storage.from_storage(x.build, x.build.pick(loaded, moves.found), dtype)
    found = places(node).mask
    if not varies or found is None:
        return value
    return x.build.select(x.registers(found, layout), value, _pad(x, elements, dtype))


def expand_scatter(x: Expansion, node: Node) -> None:
    """Store a tile's elements where they belong: rounded to the tensor's type, nothing outside the tensor.

    A vector is stored at once where the mask has all of its elements, else those that it has one by one.
    """
    meet(x, node)
    access, elements = x.plan.accesses[node], elements_of(node)
    linear = access.layout.linear
    moves = Moves.of(linear, access.axis, access.vector)
    value = stored_value(x, node.args[0], access.layout, x.program.tensors[elements.tensor].dtype)
    build = x.build
    offsets, which, inside = _where(x, node, access.layout, moves)
    chosen = _chosen(x, node, access.layout, moves)
    mask = build.both(holder(build, linear.free_bits("lane"), linear.free_bits("warp")), inside)
    memory = Access(GLOBAL, elements.tensor, moves.width, which, combine=elements.combine)
    value = build.pick(value, moves.registers)
    if chosen is None or chosen.count <= len(which):
        _store(x, memory, value, offsets, build.both(mask, chosen))
        return
    whole = _together(x, "and", chosen, moves.width)
    _store(x, memory, value, offsets, build.both(mask, whole))
    each = [number // moves.width for number in range(chosen.count)]
    some = build.map("and", chosen, build.pick(build.map("not", whole), each))
    if mask is not None:
        some = build.map("and", some, mask if mask.count == 1 else build.pick(mask, each))
    steps = [(register, constant + n) for register, constant in which for n in range(moves.width)]
    _store(x, replace(memory, width=1, places=tuple(steps)), value, offsets, some)


def _store(x: Expansion, memory: Access, value: Value, offsets: Value, mask: Value | None) -> None:
    """Store elements, or combine them with what is there."""
    if not memory.combine:
        x.build.store(memory, value, offsets, mask)
    elif x.target.can(atomic_name(memory.combine, value.dtype, memory.width)):
        x.build.atomic(memory, value, offsets, mask)
    else:
        _update(x, memory, value, offsets, mask)


def _chosen(x: Expansion, node: Node, layout: TileLayout, moves: Moves) -> Value | None:
    """Which accesses a mask has, or which of their elements where it differs along them; None for all."""
    mask = places(node).mask
    if mask is None:
        return None
    if moves.width > 1 and is_masked_along(node, x.plan.accesses[node].axis):
        return x.build.pick(x.registers(mask, layout), moves.registers)
    chosen = _Place(x, mask, layout, moves)
    return chosen.all(chosen.value)


def _together(x: Expansion, op: str, chosen: Value | None, width: int) -> Value:
    """Of each access whether a mask has any (``or``) or all (``and``) of its elements."""
    assert chosen is not None
    lanes = [x.build.pick(chosen, range(n, chosen.count, width)) for n in range(width)]
    return reduce(partial(x.build.map, op), lanes)


def _pad(x: Expansion, elements: Elements, dtype: DType) -> Value:
    """The pad as a register of the tensor's type."""
    if not dtype.is_float:
        return x.build.constant(elements.pad, dtype)
    return storage.convert(x.build, x.target, x.build.constant(float(elements.pad), math_dtype(dtype)), dtype)


def _update(x: Expansion, memory: Access, value: Value, offsets: Value, mask: Value | None) -> None:
    """Combine elements one by one, each anew until no other thread's came between."""
    build, dtype = x.build, value.dtype
    assert dtype is not None and memory.width == 1
    wide = math_dtype(dtype)
    given = storage.convert(build, x.target, value, wide)
    for number, (register, constant) in enumerate(memory.places):
        mine = build.pick(given, (number,))

        def new(old: Value, mine: Value = mine) -> Value:
            found = storage.convert(build, x.target, old, wide)
            return storage.convert(build, x.target, build.map(memory.combine, found, mine), dtype)

        chosen = mask if mask is None or mask.count == 1 else build.pick(mask, (number,))
        alone = Access(GLOBAL, memory.memory, 1, ((0, constant),))
        build.update(alone, dtype, build.pick(offsets, (register,)), new, chosen)


def load_element(x: Expansion, node: Node) -> Value:
    """An integer out of a tensor, the same for all threads, as an index."""
    build, elements = x.build, elements_of(node)
    dtype = x.program.tensors[elements.tensor].dtype
    accesses = [each for each in x.program.body.walk() if each.op in ACCESSES]
    inside = x.plan.signature.facts[accesses.index(node)].inside
    # Roles also count the turns of programs that another team runs, or that there are not.
    everywhere = x.plan.specialised is not None
    offset, checks = build.constant(0, I64), []
    for axis, index in enumerate(node.args):
        along = _along(x, elements.tensor, axis, index)
        offset = build.add(offset, build.mul(along.start, along.stride))
        checks.append(fits(x, along, 1) if everywhere or not inside[axis] else None)
    memory = Access(GLOBAL, elements.tensor, 1, ((0, 0),), int(elements.pad))
    offset = build.convert(offset, x.offset_dtype())
    loaded = build.load(memory, offset, storage.storage_dtype(dtype), build.both(*checks))
    return storage.convert(build, x.target, loaded, I64)


def elements_of(node: Node) -> Elements:
    assert isinstance(node.attr, Elements)
    return node.attr


def _where(
    x: Expansion, node: Node, layout: TileLayout, moves: Moves
) -> tuple[Value, tuple[tuple[int, int], ...], Value | None]:
    """Offsets in elements, each access's register of them and constant, and which accesses are inside.

    What does not change along an axis of the tile is computed once for all registers along it.
    """
    build, dtype = x.build, x.offset_dtype()
    elements, access, found = elements_of(node), x.plan.accesses[node], places(node)
    count = len(moves.registers) // moves.width
    total, checks = build.constant(0, I64), []
    constants = [0] * count
    parts: list[tuple[Value, Sequence[int]]] = []
    for axis, (index, tile) in enumerate(zip(found.indices, found.tiles, strict=True)):
        along = _along(x, elements.tensor, axis, index)
        total = build.add(total, build.mul(along.start, along.stride))
        if tile is None:
            checks.append(fits(x, along, 1) if access.compared[axis] else None)
            continue
        place = _Place(x, tile, layout, moves)
        if along.kind == "unit" and place.steps is not None:
            parts.append((build.convert(place.thread, dtype), [0] * count))
            constants = [sum(each) for each in zip(constants, place.steps, strict=True)]
        elif along.kind != "zero":
            stride = build.convert(along.stride, dtype)
            parts.append((build.mul(build.convert(place.value, dtype), stride), place.of))
        if access.compared[axis]:
            checks.append(place.all(_inside(x, along, tile, place.value)))
    together = list(zip(*(of for _, of in parts), strict=True)) or [()] * count
    distinct = list(dict.fromkeys(together))
    offsets = build.convert(total, dtype)
    for number, (part, _) in enumerate(parts):
        offsets = build.add(build.pick(part, [of[number] for of in distinct]), offsets)
    which = tuple(
        (distinct.index(of), constant) for of, constant in zip(together, constants, strict=True)
    )
    return build.spread(offsets, len(distinct)), which, build.both(*checks)


def _along(x: Expansion, tensor: int, axis: int, index: Node) -> Along:
    kind = x.plan.signature.strides[tensor][axis]
    return Along(x.index(index), index in x.nonnegative, x.size(tensor, axis), x.stride(tensor, axis), kind)


class _Place:
    """The elements of a tile beside the accesses: ``value`` has each different one once, and ``of`` tells
    which one each access has. A count is also the ``thread``'s part and the ``steps`` of accesses from there.
    """

    def __init__(self, x: Expansion, tile: Node, layout: TileLayout, moves: Moves) -> None:
        self._build = x.build
        self.steps: Sequence[int] | None = None
        self.of: Sequence[int]
        firsts = moves.registers[:: moves.width]
        if tile.op == "iota" and isinstance(tile.attr, Const) and tile.attr.dtype is I32:
            axis = tile.attr.value
            assert isinstance(axis, int)
            self.thread, registers = coordinate(x.build, moves.layout, axis)
            self.steps = registers[:: moves.width]
            distinct = list(dict.fromkeys(self.steps))
            self.value = x.build.add(self.thread, x.build.constant(distinct, I32))
            self.of = [distinct.index(each) for each in self.steps]
            return
        value = x.operand(tile, layout)
        if tile.dtype is not None and tile.dtype.is_integer:
            value = storage.convert(x.build, x.target, value, math_dtype(tile.dtype))
        if value.count == 1:
            self.value, self.of = value, [0] * len(firsts)
            return
        linear = layout.linear
        for axis in (0, 1):
            linear = linear.slice(axis) if tile.shape[axis] == 1 else linear
        same = copies(linear)
        needed = [same[register] for register in firsts]
        distinct = list(dict.fromkeys(needed))
        self.value = x.build.pick(value, [same.index(each) for each in distinct])
        self.of = [distinct.index(each) for each in needed]

    def all(self, value: Value) -> Value:
        """A value of each different element as one of each access."""
        return value if value.count == 1 else self._build.pick(value, self.of)


def _inside(x: Expansion, along: Along, tile: Node, place: Value) -> Value:
    """Whether places from an index on are inside a tensor, in 32 bits where nothing can wrap."""
    build = x.build
    zero = build.constant(0, I64)
    if tile.op == "iota":
        # A place p of the tile is inside where -start <= p < size - start; p is small and not negative.
        mask = build.map("lt", place, near(x, build.sub(along.size, along.start)))
        if along.nonnegative:
            return mask
        return build.map("and", mask, build.map("ge", place, near(x, build.sub(zero, along.start))))
    start = along.start
    if place.dtype is I32 and start.op == "constant" and start.attr == 0:
        last = build.sub(along.size, build.constant(1, I64))
        last = build.convert(build.map("min", last, build.constant((1 << 31) - 1, I64)), I32)
        return build.map("and", build.map("ge", place, build.constant(0, I32)), build.map("le", place, last))
    place = build.add(build.convert(place, I64), start)
    return build.map("and", build.map("ge", place, zero), build.map("lt", place, along.size))
