"""Conversions through workgroup memory, with the swizzle that suits both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from gizml_tile.layout.banks import CHUNK_BYTES, WORD_BYTES, ideal_wavefronts, wavefronts
from gizml_tile.layout.bits import Span, bit_length, combine, independent, intersection, reduced
from gizml_tile.layout.linear import Linear
from gizml_tile.layout.shuffle import copies


@dataclass(frozen=True, slots=True)
class Access:
    """One side of an exchange: how each thread stores its registers, or loads them.

    An access moves the registers of one of ``groups`` to or from consecutive elements that begin at
    ``offset ^ thread``, where thread is the exclusive or of the ``lane`` and ``warp`` entries of the
    bits set. Threads with a bit of ``lane_mask`` or ``warp_mask`` set take no part (they hold replicas).
    """

    element_bytes: int
    groups: tuple[tuple[int, tuple[int, ...]], ...]  # (offset, registers in the order of memory)
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    lane_mask: int = 0
    warp_mask: int = 0

    @property
    def width(self) -> int:
        """The elements that one access moves."""
        return len(self.groups[0][1])

    @property
    def width_bytes(self) -> int:
        return self.width * self.element_bytes

    def addresses(self, group: int = 0, warp: int = 0) -> list[int | None]:
        """Each lane's byte address in one access, None for a lane that takes no part."""
        base = self.groups[group][0] ^ combine(self.warp, warp)
        return [
            None if lane & self.lane_mask else (base ^ combine(self.lane, lane)) * self.element_bytes
            for lane in range(1 << len(self.lane))
        ]

    def wavefronts(self, banks: int = 32) -> int:
        """The turns of the banks in one access of a warp; the same for each, as the map is linear."""
        return wavefronts(self.addresses(), self.width_bytes, banks)

    def ideal_wavefronts(self, banks: int = 32) -> int:
        """The turns that the words need with no conflict."""
        return ideal_wavefronts(self.addresses(), self.width_bytes, banks)

    def __str__(self) -> str:
        turns = f"{self.wavefronts()} of {self.ideal_wavefronts()} wavefronts"
        return f"{len(self.groups)} x {self.width_bytes} bytes at {turns}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A conversion through workgroup memory: store, wait, load, and fill in replicas.

    ``memory`` maps (row, column) to the element offset. ``target[r]`` is the loaded register
    ``copies[r]``. ``within_warp`` tells that no element leaves its warp, so the warp alone has to
    wait. The whole tile needs ``bytes``; ``parts`` says into how many turns the exchange can be split,
    each needing that part of it: turn t has the groups whose offset is ``t * elements // parts`` or
    more, up to the next turn's.
    """

    source: Linear
    target: Linear
    memory: Linear
    store: Access
    load: Access
    copies: tuple[int, ...]
    within_warp: bool
    parts: int
    banks: int

    kind = "workgroup"

    @property
    def bytes(self) -> int:
        return self.source.elements * self.store.element_bytes

    @property
    def wavefronts(self) -> int:
        """The turns of the banks for all accesses of one warp."""
        return sum(side.wavefronts(self.banks) * len(side.groups) for side in (self.store, self.load))

    @property
    def is_conflict_free(self) -> bool:
        sides, banks = (self.store, self.load), self.banks
        return all(side.wavefronts(banks) == side.ideal_wavefronts(banks) for side in sides)

    def __str__(self) -> str:
        return f"workgroup: store {self.store}, load {self.load}, {self.bytes} bytes"


def exchange(source: Linear, target: Linear, element_bytes: int, banks: int = 32) -> Exchange:
    """The exchange with the fewest turns of the banks and accesses, of some ways to fill a vector."""
    sides = (_Side.of(source, once=True), _Side.of(target, once=False))
    options = [
        _build(
            source,
            target,
            vector,
            *_memory(order, vector, source.shape, element_bytes, banks),
            element_bytes,
            banks,
        )
        for order, vector in _vectors(sides, element_bytes)
    ]
    return min(options, key=lambda each: each.wavefronts + len(each.store.groups) + len(each.load.groups))


def exchange_along(
    source: Linear, target: Linear, element_bytes: int, axis: int, run: int, banks: int = 32
) -> Exchange:
    """The exchange with the fewest turns, of those whose vectors go along an axis, at most ``run`` elements.

    For a target that is loaded in parts, whose elements along other axes belong to different ones.
    """
    sides = (_Side.of(target, once=False), _Side.of(source, once=True))
    step = source.shape[1] if axis == 0 else 1
    most = bit_length(min(run, max(CHUNK_BYTES // element_bytes, 1)))
    options = []
    for bits in range(most + 1):
        vector = tuple(step << bit for bit in range(bits))
        for order in (sides, sides[::-1]):
            memory, parts = _memory(order, vector, source.shape, element_bytes, banks)
            options.append(_build(source, target, vector, memory, parts, element_bytes, banks))
    return min(options, key=lambda each: each.wavefronts + len(each.store.groups) + len(each.load.groups))


@dataclass(frozen=True, slots=True)
class _Side:
    """What the algebra needs of a layout: places as row-major numbers, 0 for bits that take no part."""

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    @staticmethod
    def of(layout: Linear, once: bool) -> _Side:
        """``once`` for the side that stores, where replicas take no part."""

        def taking_part(name: str) -> tuple[int, ...]:
            free = layout.free_bits(name) if once else 0
            return tuple(0 if free >> bit & 1 else basis for bit, basis in enumerate(layout.packed(name)))

        return _Side(layout.packed("register"), taking_part("lane"), taking_part("warp"))

    @property
    def threads(self) -> tuple[int, ...]:
        return (*self.lane, *self.warp)


_Sides = tuple[_Side, _Side]


def _vectors(sides: _Sides, element_bytes: int) -> Iterator[tuple[_Sides, tuple[int, ...]]]:
    """Ways to fill a vector: what both sides have in registers, alone or going on with one side's.

    Memory is contiguous along a vector, so a side can move as many elements at once as the leading
    part that its registers reach. The side whose registers go on comes first in the answer.
    """
    limit = bit_length(max(CHUNK_BYTES // element_bytes, 1))
    both = intersection(sides[0].register, sides[1].register)
    common = independent((*sides[0].threads, *sides[1].threads), both)[:limit]
    yield sides, tuple(common)
    for side, other in (sides, sides[::-1]):
        # Bits that the other side has in lanes spread its accesses over banks.
        preferred = [*intersection(side.register, other.lane), *reduced(side.register)]
        extension = independent((*side.threads, *common), preferred)[: limit - len(common)]
        for count in range(1, len(extension) + 1):
            yield (side, other), (*common, *extension[:count])


def _phase(side: _Side, vector: Sequence[int], element_bytes: int, banks: int) -> list[int]:
    """What the lanes that access the banks together reach, with the vector."""
    registers, width = Span(side.register), element_bytes
    for basis in vector:
        if basis not in registers:
            break
        width *= 2
    together = max(banks // max(width // WORD_BYTES, 1), 1)
    return [*vector, *side.lane[: bit_length(together)]]


def _memory(
    sides: _Sides, vector: tuple[int, ...], shape: tuple[int, int], element_bytes: int, banks: int
) -> tuple[Linear, int]:
    """The map from places to offsets, and into how many parts it can be cut.

    An offset's bits are, from the lowest, the vector, the bank and the segment. Two lanes conflict when
    they differ by a sum of segment places, so these are chosen outside of what the lanes of either
    side reach together: first what neither reaches, then sums of one that only the first side reaches
    and one that only the second does. What is over after that conflicts.
    """
    places = bit_length(shape[0] * shape[1])
    segments = max(places - bit_length(banks * WORD_BYTES // element_bytes), 0)
    units = [1 << bit for bit in range(places)]
    threads = (*sides[0].threads, *sides[1].threads)
    # Places that are registers on both sides go on top: the exchange can be done in that many turns.
    common = intersection(sides[0].register, sides[1].register)
    turns = independent((*vector, *threads), common)
    turns = turns[len(turns) - min(len(turns), segments) :]
    # Threads must not move within a vector or between turns, so the other bits are theirs first.
    apart = (*vector, *turns)
    rest = independent(apart, [*reduced(sides[0].threads), *reduced(sides[1].threads), *units])
    frame = Span((*apart, *rest))

    def outside(place: int) -> int:
        """The place without its part along the vector and the turns."""
        chosen = frame.solve(place)
        assert chosen is not None, "vector, turns and rest span all places"
        return combine((*apart, *rest), chosen >> len(apart) << len(apart))

    first, second = (_phase(side, vector, element_bytes, banks) for side in sides)
    shared = intersection(first, second)
    only_first, only_second = independent(shared, first), independent(shared, second)
    neither = independent((*first, *second, *turns), rest)
    mixed = [outside(one ^ other) for one, other in zip(only_first, only_second, strict=False)]
    over = [outside(place) for place in (*only_first, *only_second, *shared)]
    segment = [*neither, *mixed, *independent((*apart, *neither, *mixed), over)][: segments - len(turns)]
    bank = independent((*apart, *segment), rest)
    basis = Span((*vector, *bank, *segment, *turns))
    offsets = [(0, basis.solve(unit) or 0) for unit in units]
    columns = bit_length(shape[1])
    return Linear.of((1, 1 << places), row=offsets[columns:], column=offsets[:columns]), 1 << len(turns)


def _build(
    source: Linear,
    target: Linear,
    vector: tuple[int, ...],
    memory: Linear,
    parts: int,
    element_bytes: int,
    banks: int,
) -> Exchange:
    store = _access(source, memory, element_bytes, vector, once=True)
    load = _access(target.without_replicas(), memory, element_bytes, vector, once=False)
    within = _within_warp(source, target)
    return Exchange(source, target, memory, store, load, copies(target), within, parts, banks)


def _within_warp(source: Linear, target: Linear) -> bool:
    """Whether each warp of the target holds nothing that its own warp of the source does not store."""
    own = Span(source.packed("register", "lane"))
    pairs = zip(source.packed("warp"), target.packed("warp"), strict=True)
    crossed = [before ^ after for before, after in pairs]
    return not source.free_bits("warp") and all(
        basis in own for basis in (*target.packed("register", "lane"), *crossed)
    )


def _access(layout: Linear, memory: Linear, element_bytes: int, vector: Sequence[int], once: bool) -> Access:
    """The accesses of a thread, its registers in the order of memory; ``once`` leaves replicas out."""
    offsets = memory.compose(layout)
    free = {name: layout.free_bits(name) if once else 0 for name in ("lane", "warp")}
    threads = {
        name: tuple(0 if mask >> bit & 1 else offset for bit, (_, offset) in enumerate(offsets.bases(name)))
        for name, mask in free.items()
    }
    within = 0
    for offset in chain.from_iterable(threads.values()):
        within |= offset
    registers, masks = Span(layout.packed("register")), []
    for bit, basis in enumerate(vector):
        mask = registers.solve(basis)
        if mask is None or within >> bit & 1:
            break  # the thread's own address would not be a multiple of the width
        masks.append(mask)
    width = 1 << len(masks)
    replicas = layout.free_bits("register")
    units = [1 << bit for bit in range(layout.bits("register")) if not replicas >> bit & 1]
    moves = [(0, 0)]  # a register of each group, and its offset: the sums of what single bits move
    for unit in independent(masks, units):
        unit ^= combine(masks, offsets.apply(register=unit)[1] & width - 1)
        step = offsets.apply(register=unit)[1]
        moves += [(register ^ unit, offset ^ step) for register, offset in moves]
    elements = [combine(masks, element) for element in range(width)]
    groups = [(offset, tuple(register ^ each for each in elements)) for register, offset in moves]
    return Access(element_bytes, tuple(groups), threads["lane"], threads["warp"], free["lane"], free["warp"])
