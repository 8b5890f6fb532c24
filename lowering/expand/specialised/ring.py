"""Rings of blocks that one thread brings by the copy engine while others multiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gizml_tile.dtypes import F32, I32, I64
from gizml_tile.layout.banks import CHUNK_BYTES
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import fragment_from_shared
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.expand.specialised.boxes import corner, panel
from gizml_tile.lowering.expand.specialised.clusters import turns_of
from gizml_tile.lowering.expand.specialised.neighbours import of_neighbour, turns_of_all
from gizml_tile.lowering.expand.storage import from_storage
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.nodes import Node, View

GROUP_THREADS = 128
_GROUP_WARPS = 4
# The first of the barriers of the groups; 0 is everybody's, 1 and 2 are the teams'.
GROUP_BARRIER = 3
# What the longest swizzle repeats in.
_WHOLE_BYTES = 1024


@dataclass(slots=True)
class BulkRing:
    """The buffers of blocks that are brought together, with two transaction barriers for each slot.

    One tells that it is full, one that it is empty. ``users`` are the products that take the blocks. What a
    loop carries is the slot's number and the parity of the phase that it is in, which go on from program to
    program: ``state`` has both now, apart so that a turn can begin at once. Each warp gives back what its
    threads read, ``by_warps``, and each group what only products take. A slot has blocks of ``each`` of so
    many programs that share the workgroup. With ``shares`` each of so many groups, of all programs, has its
    own part of a slot's blocks, and two barriers for that alone. Where teams take turns, one waits at
    barrier ``enter`` before the loop, and lets the other go at ``leave`` after it.
    """

    x: Expansion
    loop: Node | None
    nodes: Sequence[Node]
    users: Sequence[Node]
    buffers: Sequence[int]
    slots: int
    full: int
    groups: int
    state: Value
    by_warps: bool = False
    each: int = 1
    shares: int = 1
    enter: int | None = None
    leave: int | None = None
    _start: Value | None = None
    _counter: Value | None = None
    _any_turn: Value | None = None

    @property
    def asynchronous(self) -> bool:
        """Others bring the blocks."""
        return True

    @property
    def _flows(self) -> int:
        """The groups of products that a turn leaves to the next one."""
        assert self.x.plan.specialised is not None
        return 0 if self.loop is None else self.x.plan.specialised.flowing.get(self.loop, 0)

    def begin(self, start: Value, stop: Value, step: Value) -> Value:
        """Where the last program left the ring."""
        self.x.loop = self.loop
        if self.enter is not None:
            self.x.build.barrier(self.enter, 2 * self.x.plan.threads)
        self._start = start
        if self._flows or self._asks:
            assert isinstance(step.attr, int)
            self._any_turn = self.x.build.map("lt" if step.attr > 0 else "gt", start, stop)
        return self.state

    def turn(self, counter: Value, stop: Value, step: Value, slot: Value) -> None:
        """Wait until a turn's blocks are there."""
        self._counter = counter
        self.state = slot
        self.take()

    def take(self) -> None:
        """Wait until the blocks that come next are there."""
        build = self.x.build
        number, parity = self._split(self.state)
        build.signal_wait(self._full(number, self._own_share()), parity)
        if self.each > 1:
            # A slot has a block of each program's own.
            assert self.x.neighbour is not None
            number = build.add(build.mul(number, build.constant(self.each, I32)), self.x.neighbour)
        for node, buffer in zip(self.nodes, self.buffers, strict=True):
            tile = self.x.plan.stages[node].tile
            base = build.mul(number, build.constant(tile.elements, I32))
            chunk = build.mul(number, build.constant(tile.elements * tile.dtype.bytes // CHUNK_BYTES, I32))
            self.x.define_shared(node, Shared(buffer, tile, base, chunk))

    def load(self, counter: Value, stop: Value, step: Value) -> list[Value]:
        """Nothing goes through registers."""
        return []

    def store(self, values: Sequence[Value], slot: Value) -> None:
        """Nothing goes through registers."""

    def next(self, slot: Value) -> Value:
        """Give a slot back: this turn's, or the last turn's if this one's products are still being made."""
        build = self.x.build
        assert self._counter is not None and self._start is not None
        if self._asks:
            self._ask(build.map("eq", self._counter, self._start))
        if self._flows:
            build.emit("group_wait", attr=self._flows)
            later = build.map("ne", self._counter, self._start)
            self._release(self._before(slot), later)
        else:
            self._meet()
            self._release(slot)
        return self._following(slot)

    def _meet(self) -> None:
        """One lane gives back what all lanes of its warp have read by now.

        The copy engine's writes must come after reads by threads, of which it else knows nothing.
        """
        if self.by_warps:
            self.x.build.emit("fence_async")
            self.x.build.warp_barrier()

    def give(self) -> None:
        """Give the blocks back that were taken last."""
        self._meet()
        self._release(self.state)
        self.state = self._following(self.state)

    def _release(self, slot: Value, mask: Value | None = None) -> None:
        """One thread of each group tells that its products have read a slot, or of each warp that it has."""
        build = self.x.build
        number, _ = self._split(slot)
        empty = self._empty(number, self._own_share())
        leading = build.map("eq", build.lane(), build.constant(0, I32)) if self.by_warps else leads(self.x)
        build.when(build.both(leading, mask), lambda: build.signal_arrive(empty))

    def _before(self, state: Value) -> Value:
        """The slot before, as a state of either phase."""
        build = self.x.build
        number, parity = self._split(state)
        first = build.map("eq", number, build.constant(0, I32))
        last = build.constant(self.slots - 1, I32)
        before = build.select(first, last, build.sub(number, build.constant(1, I32)))
        return build.join([before, parity])

    def end(self, slot: Value) -> None:
        """The next program goes on where this one ends."""
        self.x.loop = None
        if self.leave is not None:
            self.x.build.barrier(self.leave, 2 * self.x.plan.threads, arrive=True)
        if self._flows:
            self.x.build.emit("group_wait", attr=0)
            self._meet()
            self._release(self._before(slot), self._any_turn)
        if self._asks:
            assert self._any_turn is not None
            self._ask(self.x.build.map("not", self._any_turn))
        self.state = slot

    @property
    def _asks(self) -> bool:
        """Whether a block that what follows takes comes while the turns run."""
        return self.x.ahead is not None and self.x.ahead.loop is self.loop

    def _ask(self, mask: Value) -> None:
        assert self.x.ahead is not None
        self.x.build.when(self.x.build.both(leads(self.x), mask), self.x.ahead.request)

    def skip(self) -> None:
        """Go on past the turns of a program that another team runs."""
        x, build = self.x, self.x.build
        assert self.loop is not None
        start, stop, step = (x.index(arg) for arg in self.loop.args[:3])
        assert isinstance(step.attr, int)
        size = build.constant(abs(step.attr), I64)
        way = build.sub(stop, start) if step.attr > 0 else build.sub(start, stop)
        way = build.map("max", way, build.constant(0, I64))
        turns = build.map("div", build.add(way, build.sub(size, build.constant(1, I64))), size)
        number, parity = self._split(self.state)
        slots = build.constant(self.slots, I32)
        reached = build.add(number, build.convert(turns, I32))
        rounds = build.map("div", reached, slots)
        number = build.sub(reached, build.mul(rounds, slots))
        odd = build.map("and", rounds, build.constant(1, I32))
        parity = build.map("xor", parity, odd)
        self.state = build.join([number, parity])

    def prepare(self) -> None:
        """Set up the barriers; by one thread."""
        build = self.x.build
        arrivals = self.groups // self.shares * (_GROUP_WARPS if self.by_warps else 1)
        for share in range(self.shares):
            for slot in range(self.slots):
                number = build.constant(slot, I32)
                build.signal_init(self._full(number, build.constant(share, I32)), 1)
                build.signal_init(self._empty(number, build.constant(share, I32)), arrivals)

    def bring(self, counter: Value | None = None) -> None:
        """Bring the next blocks, in a loop those of the turn that ``counter`` tells; by one thread."""
        x, build = self.x, self.x.build
        number, parity = self._split(self.state)
        before = build.map("xor", parity, build.constant(1, I32))
        tiles = [x.plan.stages[node].tile for node in self.nodes]
        bytes = self.each * sum(tile.elements * tile.dtype.bytes for tile in tiles)
        for share in range(self.shares):
            full, empty = (find(number, build.constant(share, I32)) for find in (self._full, self._empty))
            # In the first round every slot is empty: the phase before the first counts as over.
            build.signal_wait(empty, before)
            build.signal_expect(full, bytes // self.shares)
            if self.each == 1:
                self._bring_blocks(number, full, share)
                continue
            slot = build.mul(number, build.constant(self.each, I32))
            for place in range(self.each) if self.shares == 1 else [share]:
                with of_neighbour(x, place):
                    if self.loop is not None and counter is not None:
                        x.define_index(self.loop.regions[0].params[0], counter)
                    self._bring_blocks(build.add(slot, build.constant(place, I32)), full)
        self.state = self._following(self.state)

    def _bring_blocks(self, slot: Value, full: Value, share: int = 0) -> None:
        for node, buffer in zip(self.nodes, self.buffers, strict=True):
            with self.x.at(node):
                self._bring_block(node, buffer, slot, full, share)

    def _bring_block(self, node: Node, buffer: int, slot: Value, full: Value, share: int) -> None:
        x, build, view, stage = self.x, self.x.build, node.attr, self.x.plan.stages[node]
        assert isinstance(view, View)
        lines, extent = stage.tile.shape[1 - stage.axis], stage.tile.shape[stage.axis]
        width = stage.span // stage.tile.dtype.bytes
        first = build.mul(slot, build.constant(stage.tile.elements, I32))
        where = corner(x, node)
        along, across = len(where) - 2 + stage.axis, len(where) - 1 - stage.axis
        # A group's own rows are some lines of all panels, or all lines of some panels.
        rows = stage.tile.shape[0] // (self.shares if self.each == 1 else 1)
        (line, own), panels = ((share * rows, rows), range(0, extent, width))
        if stage.axis == 0:
            (line, own), panels = (0, lines), range(share * rows, (share + 1) * rows, width)
        bulk = panel(view, len(node.args), buffer, own, width, stage.span, stage.axis)
        # Products of F32 blocks take TF32; what is computed of blocks takes them as they are.
        bulk = replace(bulk, rounded=stage.tile.dtype is F32 and self._is_multiplied(node))
        for start in panels:
            to = build.add(first, build.constant(start * lines + line * width, I32))
            there = list(where)
            there[along] = build.add(there[along], build.constant(start, I32))
            there[across] = build.add(there[across], build.constant(line, I32))
            build.bulk_load(bulk, to, there, full)

    def _is_multiplied(self, node: Node) -> bool:
        """Whether a product takes a block itself."""
        return any(operand(arg).node is node for product in self.users for arg in product.args[:2])

    def _full(self, slot: Value, share: Value) -> Value:
        """The barrier that tells that a group's part of a slot is full, or all of it where they share it."""
        build = self.x.build
        own = build.mul(share, build.constant(2 * self.slots, I32))
        return build.add(build.add(slot, own), build.constant(self.full, I32))

    def _empty(self, slot: Value, share: Value) -> Value:
        """The barrier that tells that a group, or all, have given a slot back."""
        return self.x.build.add(self._full(slot, share), self.x.build.constant(self.slots, I32))

    def _own_share(self) -> Value:
        """Which part of a slot is this group's."""
        build = self.x.build
        if self.shares == 1:
            return build.constant(0, I32)
        if self.each > 1:
            assert self.x.neighbour is not None
            return self.x.neighbour
        return build.map("ushr", build.warp(), build.constant(_GROUP_WARPS.bit_length() - 1, I32))

    def _split(self, state: Value) -> tuple[Value, Value]:
        return self.x.build.pick(state, [0]), self.x.build.pick(state, [1])

    def _following(self, state: Value) -> Value:
        """The next slot; after the last the first, in the other phase."""
        build = self.x.build
        number, parity = self._split(state)
        one = build.constant(1, I32)
        last = build.map("eq", number, build.constant(self.slots - 1, I32))
        return build.join(
            [
                build.select(last, build.constant(0, I32), build.add(number, one)),
                build.select(last, build.map("xor", parity, one), parity),
            ]
        )


def bring_turns(x: Expansion, loop: Node, rings: Sequence[BulkRing]) -> None:
    """Bring the blocks of every turn of a loop; by one thread."""
    assert x.plan.specialised is not None
    start, stop, step = turns_of(x, loop) if x.plan.specialised.together == 1 else turns_of_all(x, loop)

    def turn(counter: Value, states: tuple[Value, ...]) -> Sequence[Value]:
        with x.block():
            x.define_index(loop.regions[0].params[0], counter)
            for ring, state in zip(rings, states, strict=True):
                ring.state = state
                ring.bring(counter)
            return [ring.state for ring in rings]

    with x.at(loop):
        states = x.build.loop(start, stop, step, [ring.state for ring in rings], turn)
    for ring, state in zip(rings, states, strict=True):
        ring.state = state


def first_state(x: Expansion) -> Value:
    """The state of a ring before its first turn: slot 0, in the phase of parity 0."""
    return x.build.spread(x.build.constant(0, I32), 2)


def take_once(x: Expansion, node: Node) -> None:
    """Wait for a block that stays for the whole program."""
    ring = x.rings[node]
    assert isinstance(ring, BulkRing)
    ring.take()


def read_beside(x: Expansion, node: Node) -> Value:
    """A group's own rows of a block that is computed on beside products; it is given back at once."""
    ring, home = x.rings[node], x.home(node)
    assert isinstance(ring, BulkRing) and home is not None and node.dtype is not None
    ring.take()
    value = fragment_from_shared(x, x.shared(node), home)
    ring.give()
    return from_storage(x.build, value, node.dtype)


def give_once(x: Expansion, loop: Node) -> None:
    """Give back the blocks for a whole program whose last products were those of a loop."""
    inside = set(loop.regions[0].walk())
    for ring in bulk_rings(x, None):
        if ring.users[-1] in inside:
            ring.give()


def leads(x: Expansion) -> Value:
    """Whether a thread is the first of its group of four warps."""
    build = x.build
    within = build.map("and", build.thread(), build.constant(GROUP_THREADS - 1, I32))
    return build.map("eq", within, build.constant(0, I32))


def open_rings(x: Expansion) -> None:
    """The rings of all blocks that are brought."""
    assert x.plan.specialised is not None
    full = 0
    for stream in x.plan.specialised.streams:
        buffers = []
        beside = any(node in x.plan.specialised.beside for node in stream.nodes)
        each = x.plan.specialised.together if stream.loop is None or beside else 1
        for node in stream.nodes:
            tile = x.plan.stages[node].tile
            name = x.program.tensors[node.attr.tensor].name  # type: ignore[union-attr]
            name = f"block of {name}" if stream.loop is None else f"{stream.slots} stages of {name}"
            elements = stream.slots * each * tile.elements
            buffers.append(x.memory.allocate(name, tile.dtype, elements, _WHOLE_BYTES))
        users = [
            product
            for product in x.plan.dots
            if any(operand(arg).node in stream.nodes for arg in product.args[:2])
        ]
        # Loops whose blocks all come and go together know their ring themselves.
        whole = stream.loop is not None and stream.loop not in x.plan.specialised.chained
        key = stream.loop if whole else stream.nodes[0]
        assert key is not None
        state, groups = first_state(x), x.plan.specialised.all_groups
        by_warps = x.plan.specialised.computed | x.plan.specialised.computed_on
        read = beside or not by_warps.isdisjoint(stream.nodes)
        x.rings[key] = BulkRing(
            x,
            stream.loop,
            stream.nodes,
            users,
            buffers,
            stream.slots,
            full,
            groups,
            state,
            read,
            each,
            stream.shares,
        )
        full += 2 * stream.slots * stream.shares


def bulk_rings(x: Expansion, loop: Node | None) -> list[BulkRing]:
    """The rings of a loop's blocks, or with None of those that stay for the whole program."""
    return [ring for ring in x.rings.values() if isinstance(ring, BulkRing) and ring.loop is loop]
