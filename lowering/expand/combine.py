"""Values along an axis combined by a function: within each thread, over its warp, and over the workgroup.

Places meet in the order of the bits of their position, the lowest first: neighbours, then pairs of
neighbours, and so on; where a reduction's function commutes, those of a thread before others. Of each block
of places so far there is the *total*; a scan also has for each place what comes *before* the block of the
lowest bits that it has itself, which it is combined with at the end::

    places       a b c d e f g h      4 registers a thread, 2 lanes
    own          a ab abc abcd        e ef efg efgh
    total        abcd                 efgh
    before       -                    abcd
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.values import make_tile
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.along import meeting_layout, place_bits
from gizml_tile.lowering.planning.plan import UNIFORM, TileLayout
from gizml_tile.nodes import Combining, Node

Values = list[Value]


def expand_combining(x: Expansion, node: Node) -> Values:
    """The registers of a reduction's or scan's values in their homes."""
    how = node.attr
    assert isinstance(how, Combining)
    layout = meeting_layout(node, x.home, x.target, x.plan.warps)
    bits = place_bits(layout.linear, how.axis)
    assert bits is not None, layout
    values = [x.registers(arg, layout) for arg in node.args]
    meeting = _Meeting(x, how, layout, bits, values)
    results = meeting.scanned() if node.op == "scan" else meeting.reduced()
    own = layout if node.op == "scan" else layout.slice(how.axis)
    moved = []
    for number, value in enumerate(results):
        part = x.part_of(node, number)
        home = None if part is None or part.shape == (1, 1) else x.home(part)
        moved.append(value if home is None else convert(x, value, own, home))
    return moved


@dataclass
class _Meeting:
    """The values of a thread's places, and how far they have met.

    ``kept`` are the register bits that the totals' registers have, lowest first, and ``done`` the bits of the
    position by which places have met.
    """

    x: Expansion
    how: Combining
    layout: TileLayout
    bits: Sequence[tuple[str, int]]
    values: Values
    kept: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = list(range(self.layout.linear.bits("register")))

    def reduced(self) -> Values:
        """All places' values combined, in the registers of the layout's slice."""
        kinds = ("register", "lane", "warp")
        order = list(range(len(self.bits)))
        if self.how.commutative:
            order.sort(key=lambda bit: kinds.index(self.bits[bit][0]))
        totals = self.values
        while order:
            totals, met, _ = self._meet(totals, order)
            order = order[met:]
        return totals

    def scanned(self) -> Values:
        """Each place's value combined with all before it."""
        own, totals = self._runs()
        before = _Before(self, list(self.kept))
        order = list(range(len(self.done), len(self.bits)))
        while order:
            totals, met, earlier = self._meet(totals, order)
            order = order[met:]
            before.add(earlier)
        return before.combined(own)

    def apply(self, early: Values, late: Values) -> Values:
        """The function of an earlier and a later place's values."""
        x, function = self.x, self.how.function
        known: dict[Node, Value] = dict(zip(function.params, (*early, *late), strict=True))
        for node in function.nodes:
            if node.op == "const":
                known[node] = make_tile(x, node, UNIFORM)
            else:
                args = [known[arg] for arg in node.args]
                known[node] = expand_elementwise(x.build, x.target, node, args)
        return [x.build.spread(known[result], early[0].count) for result in function.results]

    def pick(self, values: Values, registers: Sequence[int]) -> Values:
        return [self.x.build.pick(value, registers) for value in values]

    def select(self, mask: Value, yes: Values, no: Values) -> Values:
        return [self.x.build.select(mask, *pair) for pair in zip(yes, no, strict=True)]

    def is_late(self, name: str, mask: int) -> Value:
        """Whether a thread's bits of its lane or warp say that there are places before its own."""
        build = self.x.build
        number = build.map("and", build.lane() if name == "lane" else build.warp(), build.constant(mask, I32))
        return build.map("ne", number, build.constant(mask if self.how.reverse else 0, I32))

    def scan_registers(self, values: Values, bits: Sequence[int]) -> Values:
        """Running values over some register bits, the first of which tells neighbours apart."""
        build, count = self.x.build, values[0].count
        last = 0
        for bit in bits:
            late = [r for r in range(count) if (r >> bit & 1) != self.how.reverse]
            # The last place of the earlier half.
            ends = 0 if self.how.reverse else last
            sources = [(r ^ 1 << bit) & ~last | ends for r in late]
            made = self.apply(self.pick(values, sources), self.pick(values, late))
            order = [count + late.index(r) if r in late else r for r in range(count)]
            values = [build.pick(build.join(pair), order) for pair in zip(values, made, strict=True)]
            last |= 1 << bit
        return values

    def _runs(self) -> tuple[Values, Values]:
        """Running values over the lowest bits as far as these are a register's, with their totals."""
        bits = [bit for _, bit in itertools.takewhile(lambda each: each[0] == "register", self.bits)]
        own = self.scan_registers(self.values, bits)
        self.done = list(range(len(bits)))
        return own, self._last(own, bits)

    def _last(self, values: Values, bits: Sequence[int]) -> Values:
        """The last place's of each run over some register bits, which are no longer kept."""
        mask = 0 if self.how.reverse else sum(1 << self.kept.index(bit) for bit in bits)
        fixed = sum(1 << self.kept.index(bit) for bit in bits)
        chosen = [r for r in range(values[0].count) if r & fixed == mask]
        self.kept = [bit for bit in self.kept if bit not in bits]
        return self.pick(values, chosen)

    def _meet(self, totals: Values, order: Sequence[int]) -> tuple[Values, int, _Earlier]:
        """The totals of blocks twice as large, or as much larger as there are warps; by how many bits."""
        name, bit = self.bits[order[0]]
        together = [order[0]]
        if name == "register":
            made, earlier = self._meet_registers(totals, bit)
        elif name == "lane":
            made, earlier = self._meet_lanes(totals, bit)
        else:
            together = list(itertools.takewhile(lambda each: self.bits[each][0] == "warp", order))
            made, earlier = self._meet_warps(totals, together)
        self.done += together
        return made, len(together), earlier

    def _meet_registers(self, totals: Values, bit: int) -> tuple[Values, _Earlier]:
        place = self.kept.index(bit)
        halves = [[r for r in range(totals[0].count) if r >> place & 1 == half] for half in (0, 1)]
        early, late = (self.pick(totals, half) for half in (reversed(halves) if self.how.reverse else halves))
        self.kept.remove(bit)
        return self.apply(early, late), _Earlier(early, list(self.kept), register=bit)

    def _meet_lanes(self, totals: Values, bit: int) -> tuple[Values, _Earlier]:
        build = self.x.build
        others = [build.shuffle_xor(value, 1 << bit) for value in totals]
        late = self.is_late("lane", 1 << bit)
        earlier = _Earlier(others, list(self.kept), late=late)
        if self.how.commutative:
            return self.apply(totals, others), earlier
        pair = self.select(late, others, totals), self.select(late, totals, others)
        return self.apply(*pair), earlier

    def _meet_warps(self, totals: Values, together: Sequence[int]) -> tuple[Values, _Earlier]:
        """Every thread gets the totals of all warps, as further registers."""
        warps = [self.bits[each][1] for each in together]
        count = totals[0].count
        totals = [self._gathered(value, together) for value in totals]
        above = [count.bit_length() - 1 + number for number in range(len(warps))]
        running = self.scan_registers(totals, above)
        parts = [range(number * count, (number + 1) * count) for number in range(1 << len(warps))]
        if self.how.reverse:
            parts.reverse()
        # What comes before a warp's own part: chosen bit by bit of the warp's number.
        choices = [self.pick(running, part) for part in (parts[0], *parts[:-1])]
        if self.how.reverse:
            choices.reverse()
        build = self.x.build
        for bit in warps:
            own = build.map("and", build.warp(), build.constant(1 << bit, I32))
            is_set = build.map("ne", own, build.constant(0, I32))
            pairs = zip(choices[::2], choices[1::2], strict=True)
            choices = [self.select(is_set, high, low) for low, high in pairs]
        late = self.is_late("warp", sum(1 << bit for bit in warps))
        return self.pick(running, parts[-1]), _Earlier(choices[0], list(self.kept), late=late)

    def _gathered(self, value: Value, together: Sequence[int]) -> Value:
        """A total's registers of all warps one after the other, through workgroup memory."""
        axis, linear = self.how.axis, self.layout.linear
        open_bits = [bit for bit in range(len(self.bits)) if bit not in self.done]
        places = [1 << open_bits.index(bit) for bit in together]
        warps = [self.bits[bit][1] for bit in together]

        def left(basis: tuple[int, int]) -> tuple[int, int]:
            row, column = basis
            place = sum((basis[axis] >> bit & 1) << number for number, bit in enumerate(open_bits))
            return (place, column) if axis == 0 else (row, place)

        rows, columns = linear.shape
        size = 1 << len(open_bits)
        shape = (size, columns) if axis == 0 else (rows, size)
        registers = [left(linear.bases("register")[bit]) for bit in self.kept]
        source = Linear.of(
            shape,
            register=registers,
            lane=[left(basis) for basis in linear.bases("lane")],
            warp=[left(basis) for basis in linear.bases("warp")],
        )
        moving = [(place, 0) if axis == 0 else (0, place) for place in places]
        others = [(0, 0) if bit in warps else basis for bit, basis in enumerate(source.bases("warp"))]
        target = source.with_bases("warp", others).extended("register", moving)
        return convert(
            self.x, value, TileLayout("parts of warps", source), TileLayout("parts of all warps", target)
        )


@dataclass(frozen=True)
class _Earlier:
    """What the places of a later block find before them when two blocks meet.

    ``values`` have the register bits ``kept``. The later block has a ``register`` bit set (clear, if
    reversed), or is in the threads of a mask ``late``.
    """

    values: Values
    kept: Sequence[int]
    register: int | None = None
    late: Value | None = None


class _Before:
    """What comes before the runs of a thread, for those that have something before them."""

    def __init__(self, meeting: _Meeting, kept: Sequence[int]) -> None:
        self._meeting = meeting
        self._kept = kept
        self._values: Values | None = None
        # Registers with something before them in every thread, and the threads that have it for all.
        self._always: set[int] = set()
        self._mask: Value | None = None

    def add(self, earlier: _Earlier) -> None:
        """Put what a meeting found before the later block before all that was there."""
        meeting, build = self._meeting, self._meeting.x.build
        count = 1 << len(self._kept)
        places = [self._kept.index(bit) for bit in earlier.kept]
        sources = [sum((r >> place & 1) << n for n, place in enumerate(places)) for r in range(count)]
        found = meeting.pick(earlier.values, sources)
        if self._values is None:
            self._values = found
        else:
            self._values = self._joined(found, self._values, earlier)
        if earlier.register is not None:
            place = self._kept.index(earlier.register)
            self._always.update(r for r in range(count) if (r >> place & 1) != meeting.how.reverse)
        else:
            assert earlier.late is not None
            self._mask = earlier.late if self._mask is None else build.map("or", self._mask, earlier.late)

    def _joined(self, found: Values, before: Values, earlier: _Earlier) -> Values:
        """``found`` and then what was before, in the later block; what was before in the others."""
        meeting = self._meeting
        both = self._where(meeting.apply(found, before), found)
        if earlier.late is not None:
            return meeting.select(earlier.late, both, before)
        assert earlier.register is not None
        place = self._kept.index(earlier.register)
        count = found[0].count
        order = [r + count * ((r >> place & 1) == meeting.how.reverse) for r in range(count)]
        build = meeting.x.build
        return [build.pick(build.join(pair), order) for pair in zip(both, before, strict=True)]

    def _where(self, combined: Values, alone: Values) -> Values:
        """``combined`` where a register has something before it, else ``alone``."""
        meeting = self._meeting
        count = combined[0].count
        never = [r for r in range(count) if r not in self._always]
        if not never:
            return combined
        rest = meeting.pick(alone, never)
        if self._mask is not None:
            rest = meeting.select(self._mask, meeting.pick(combined, never), rest)
        order = [count + never.index(r) if r in never else r for r in range(count)]
        build = meeting.x.build
        return [build.pick(build.join(pair), order) for pair in zip(combined, rest, strict=True)]

    def combined(self, own: Values) -> Values:
        """The running values of each run with what comes before the run."""
        if self._values is None:
            return own
        count = own[0].count
        kept = self._kept
        sources = [sum((r >> bit & 1) << n for n, bit in enumerate(kept)) for r in range(count)]
        before = self._meeting.pick(self._values, sources)
        self._always = {r for r in range(count) if sources[r] in self._always}
        return self._where(self._meeting.apply(before, own), own)
