"""Sorting along an axis by a bitonic network, and the first few of a tile's elements alone.

A stage merges blocks of places that are in order, one upward and one downward: it compares places whose
positions differ in one bit, from the block's highest to the lowest, and leaves the lesser where the bit is
clear (K. E. Batcher, "Sorting networks and their applications", 1968). Which registers go downward is known;
threads that do have their keys complemented before and after, so that all comparisons are alike. Bits of a
position are in registers, where two registers trade; in lanes, which shuffle; and in warps: before such a bit
is compared it changes its place with one of a register, through workgroup memory.

Of blocks of k places in order, one upward and one downward, the lesser at each place are the k least of both,
and bitonic again. So the first k of a tile need sorting in blocks of k, and then halve it again and again.

Places stand below their elements in one integer: of 64 bits, or of 32 where narrow types leave room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, I16, I32, I64, U8, U16, DType, math_dtype
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand.convert import convert, without_bit
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.values import make_tile
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.planning.along import meeting_layout
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Const, Node, Sorting, make

_LARGEST = 0x7FFFFFFF


def expand_sort(x: Expansion, node: Node) -> list[Value]:
    """The registers of the sorted values, and of the places that they had, in their homes."""
    how = node.attr
    assert isinstance(how, Sorting)
    layout = meeting_layout(node, x.home, x.target, x.plan.warps)
    value = x.registers(node.args[0], layout)
    places = None
    if x.part_of(node, 1) is not None:
        iota = make("iota", (), Const(_shape(node.args[0]), I32, how.axis))
        places = make_tile(x, iota, layout)
    beside = None if places is None else _bits_beside(node.args[0], how.axis)
    network = _Network(x, how.axis, layout.linear, _keys(x.build, value, how, places, beside))
    network.sort(how.keep)
    results = _values(x.build, network.keys, node, how, places is not None, beside)
    own = TileLayout(f"sorted, {layout.name}", network.linear)
    moved = []
    for number, result in enumerate(results):
        part = x.part_of(node, number)
        home = None if part is None or part.shape == (1, 1) else x.home(part)
        moved.append(result if home is None else convert(x, result, own, home))
    return moved


def _shape(node: Node) -> tuple[int, int]:
    rows, columns = node.shape
    return rows, columns


# The low bits of a word that are the same for all elements of a narrow type, as F32 or moved up as integers.
_SPARE_BITS = {BF16: 16, F16: 13, FP8: 20, E5M2: 21, I8: 24, U8: 23, I16: 16, U16: 15}


def _bits_beside(tile: Node, axis: int) -> int | None:
    """How many bits a place along an axis has, if it fits into one word with an element; else None."""
    source = tile.args[0].dtype if tile.op == "to" else None
    # I16 as F32, say, takes other bits than as I32.
    if source not in _SPARE_BITS or tile.dtype is not math_dtype(source):
        return None
    bits = (tile.shape[axis] - 1).bit_length()
    return bits if bits <= _SPARE_BITS[source] else None


def _keys(
    build: Builder, value: Value, how: Sorting, places: Value | None, beside: int | None
) -> list[Value]:
    """Integers whose order, one after the other, is that of the elements and then of their places.

    Places of so many bits stand ``beside`` a narrow element in one word.
    """
    dtype = value.dtype
    assert dtype in (F32, I32, I64)
    key = value
    if dtype is F32:
        bits = build.bitcast(value, I32)
        sign = build.map("shr", bits, build.constant(31, I32))
        key = build.map("xor", bits, build.map("and", sign, build.constant(_LARGEST, I32)))
    if how.descending:
        key = build.map("not", key)
    if dtype is F32:
        nan = build.map("ne", value, value)
        key = build.select(nan, build.constant(_LARGEST, I32), key)
    if places is None:
        return [key]
    if beside is not None:
        # Places have the low bits: those of floats are the same anyway, integers make room.
        op, number = ("and", -1 << beside) if dtype is F32 else ("shl", beside)
        return [build.map("or", build.map(op, key, build.constant(number, I32)), places)]
    if dtype is I64:
        return [key, places]
    high = build.map("shl", build.convert(key, I64), build.constant(32, I64))
    return [build.map("or", high, build.convert(places, I64))]


def _values(
    build: Builder, keys: list[Value], node: Node, how: Sorting, placed: bool, beside: int | None
) -> list[Value]:
    """The elements and, if asked for, their places from what was sorted."""
    found = keys
    if beside is not None:
        place = build.map("and", keys[0], build.constant((1 << beside) - 1, I32))
        key = keys[0] if node.dtype is F32 else build.map("shr", keys[0], build.constant(beside, I32))
        found = [key, place]
    elif placed and len(keys) == 1:
        high = build.map("shr", keys[0], build.constant(32, I64))
        found = [build.convert(high, I32), build.convert(keys[0], I32)]
    key = build.map("not", found[0]) if how.descending else found[0]
    if node.dtype is F32:
        sign = build.map("shr", key, build.constant(31, I32))
        bits = build.map("xor", key, build.map("and", sign, build.constant(_LARGEST, I32)))
        if beside is not None:
            bits = build.map("and", bits, build.constant(-1 << beside, I32))
        key = build.bitcast(bits, F32)
    return [key, *found[1:]]


@dataclass
class _Network:
    """Keys in registers while they are sorted, and the layout that they are in."""

    x: Expansion
    axis: int
    linear: Linear
    keys: list[Value]

    def sort(self, keep: int) -> None:
        """Leave the least ``keep`` keys along the axis, in order."""
        kept = range(keep.bit_length() - 1)
        # What a thread has, and then what a warp has, is halved first: it is less to do afterwards.
        kinds = ("register", "lane", "warp")
        bits = self._bits()
        rest = sorted(range(len(kept), len(bits)), key=lambda bit: (kinds.index(bits[bit][0]), -bit))
        # Blocks go downward by the bit whose halves meet next.
        meeting = rest[0] if rest else None
        for stage in kept:
            self._merge(range(stage, -1, -1), stage + 1 if stage + 1 < len(kept) else meeting)
        while rest:
            halved = rest.pop(0)
            self._halve(halved)
            # The bits above it are one lower now.
            rest = [bit - (bit > halved) for bit in rest]
            self._merge(kept[::-1], rest[0] if rest else None)

    def _bits(self) -> dict[int, tuple[str, int]]:
        """Where each bit of the position is that has not been halved."""
        return {
            basis[self.axis].bit_length() - 1: (name, place)
            for name in self.linear.names
            for place, basis in enumerate(self.linear.bases(name))
            if basis[self.axis]
        }

    def _merge(self, bits: Sequence[int], downward: int | None) -> None:
        """Put bitonic blocks in order: downward where that bit of the position is set."""
        places = self._bits()
        name, place = ("", 0) if downward is None else places[downward]
        if name == "register" and all(places[bit][0] != "warp" for bit in bits):
            turned = frozenset(r for r in range(self.keys[0].count) if r >> place & 1)
            for bit in bits:
                self._compare(bit, turned)
            return
        if bits and downward is not None:
            self._complement(downward)
        for bit in bits:
            self._compare(bit)
        if bits and downward is not None:
            self._complement(downward)

    def _complement(self, bit: int) -> None:
        """Turn the order of the places that have a bit of the position set."""
        build, (name, place) = self.x.build, self._bits()[bit]
        if name == "register":
            count = self.keys[0].count
            turned = [r for r in range(count) if r >> place & 1]
            order = [count + turned.index(r) if r in turned else r for r in range(count)]
            others = [build.map("not", build.pick(key, turned)) for key in self.keys]
            self.keys = [build.pick(build.join(pair), order) for pair in zip(self.keys, others, strict=True)]
            return
        number = build.lane() if name == "lane" else build.warp()
        only = build.map("and", number, build.constant(1 << place, I32))
        flips = build.sub(build.constant(0, I32), build.map("ushr", only, build.constant(place, I32)))
        self.keys = [build.map("xor", key, build.convert(flips, _dtype(key))) for key in self.keys]

    def _compare(self, bit: int, turned: frozenset[int] = frozenset()) -> None:
        """The lesser of two places to where the bit is clear, the larger to where it is set.

        In ``turned`` registers it is the other way round.
        """
        name, place = self._at_hand(bit)
        build, count = self.x.build, self.keys[0].count
        if name == "lane":
            others = [build.shuffle_xor(key, 1 << place) for key in self.keys]
            own = build.map("and", build.lane(), build.constant(1 << place, I32))
            sides = [build.map(op, own, build.constant(0, I32)) for op in ("ne", "eq")[: 1 + bool(turned)]]
            takes_larger = build.pick(build.join(sides), [int(r in turned) for r in range(count)])
            stays = build.map("xor", self._less(self.keys, others), takes_larger)
            self.keys = [build.select(stays, *pair) for pair in zip(self.keys, others, strict=True)]
            return
        low = [r for r in range(count) if not r >> place & 1]
        lesser, larger = self._in_order(low, [r | 1 << place for r in low])
        order = [
            low.index(r & ~(1 << place)) + len(low) * ((r >> place & 1) != (r in turned))
            for r in range(count)
        ]
        self.keys = [build.pick(build.join(pair), order) for pair in zip(lesser, larger, strict=True)]

    def _in_order(self, one: Sequence[int], other: Sequence[int]) -> tuple[list[Value], list[Value]]:
        """The lesser and the larger of some registers and others."""
        build = self.x.build
        a, b = ([build.pick(key, registers) for key in self.keys] for registers in (one, other))
        if len(self.keys) == 1:
            lesser = build.map("min", a[0], b[0])
            if lesser.dtype is I32:
                return [lesser], [build.map("max", a[0], b[0])]
            # Of 64 bits what is left of both takes one operation a word, and a maximum a comparison too.
            return [lesser], [build.map("xor", build.map("xor", a[0], b[0]), lesser)]
        less = self._less(a, b)
        pairs = list(zip(a, b, strict=True))
        return [build.select(less, *pair) for pair in pairs], [
            build.select(less, *pair[::-1]) for pair in pairs
        ]

    def _less(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """Whether keys stand before others: the first that differ decide."""
        build = self.x.build
        less = build.map("lt", a[-1], b[-1])
        for one, other in zip(a[-2::-1], b[-2::-1], strict=True):
            tie = build.map("and", build.map("eq", one, other), less)
            less = build.map("or", build.map("lt", one, other), tie)
        return less

    def _halve(self, bit: int) -> None:
        """The lesser of two places for both, of which one is left."""
        if self._bits()[bit][0] == "warp":
            self._gather(bit)
        name, place = self._bits()[bit]
        build, count = self.x.build, self.keys[0].count
        if name == "lane":
            others = [build.shuffle_xor(key, 1 << place) for key in self.keys]
            less = self._less(self.keys, others)
            self.keys = [build.select(less, *pair) for pair in zip(self.keys, others, strict=True)]
        else:
            low = [r for r in range(count) if not r >> place & 1]
            self.keys, _ = self._in_order(low, [r | 1 << place for r in low])
        bases = list(self.linear.bases(name))
        if name == "register":
            del bases[place]
        else:
            bases[place] = (0, 0)
        self.linear = without_bit(self.linear.with_bases(name, bases), self.axis, bit)

    def _gather(self, bit: int) -> None:
        """Every thread gets the keys of both warps that a bit of the position tells apart."""
        _, place = self._bits()[bit]
        warps = list(self.linear.bases("warp"))
        moving, warps[place] = warps[place], (0, 0)
        self._move(
            self.linear.with_bases("warp", warps).extended("register", [moving]), "halves of both warps"
        )

    def _at_hand(self, bit: int) -> tuple[str, int]:
        """Where a bit of the position is, after it traded places with a register's if it was a warp's."""
        name, place = self._bits()[bit]
        if name != "warp":
            return name, place
        warps, registers = (list(self.linear.bases(each)) for each in ("warp", "register"))
        trades = min(sum(1 for basis in warps if basis[self.axis]), len(registers))
        moving = [number for number, basis in enumerate(warps) if basis[self.axis]]
        moving = sorted(moving, key=lambda number: number != place)[:trades]
        for register, warp in enumerate(moving):
            registers[register], warps[warp] = warps[warp], registers[register]
        target = self.linear.with_bases("register", registers).with_bases("warp", warps)
        self._move(target, "traded places")
        return self._bits()[bit]

    def _move(self, target: Linear, name: str) -> None:
        source, wanted = TileLayout("places in order", self.linear), TileLayout(name, target)
        self.keys = [convert(self.x, key, source, wanted) for key in self.keys]
        self.linear = target


def _dtype(key: Value) -> DType:
    assert key.dtype is not None
    return key.dtype
