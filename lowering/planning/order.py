"""Where the threads of a workgroup must meet, so that its reads and puts of a tensor happen in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gizml_tile.lowering.planning.plan import Access
from gizml_tile.nodes import ACCESSES, EFFECTS, Elements, Node, Region, TileProgram, View


@dataclass(frozen=True, slots=True)
class _Touch:
    """A read or put since the threads last met.

    Two with one ``place`` leave each element to one thread, and a thread does things in order: blocks
    of one size and layout are the same or have nothing in common, windows are the same where their
    coordinates are. ``shared`` tells that several threads hold each element, ``combine`` how a scatter
    changes what is there: two that do so alike may come in any order.
    """

    tensor: int
    writes: bool
    place: tuple[object, ...] | None
    shared: bool
    window: bool
    combine: str = ""


def meetings(program: TileProgram, accesses: Mapping[Node, Access], may_alias: bool) -> frozenset[Node]:
    """The reads and puts before which all threads of the workgroup must meet.

    Others may have written what is read or overwritten there, or may still be reading it.
    """
    order = _Order(accesses, may_alias, set())
    found = -1
    while len(order.found) > found:
        found = len(order.found)
        order.region(program.body, frozenset())
    return frozenset(order.found)


@dataclass(slots=True)
class _Order:
    accesses: Mapping[Node, Access]
    may_alias: bool
    found: set[Node]

    def region(self, region: Region, before: frozenset[_Touch]) -> frozenset[_Touch]:
        """The touches that are pending after a region."""
        pending = before
        for node in region.nodes:
            if node.op in ACCESSES:
                pending = self.access(node, pending)
            elif node.op == "loop":
                pending = self.loop(node.regions[0], pending)
            elif node.op == "cond":
                pending = frozenset().union(*(self.region(arm, pending) for arm in node.regions))
        return pending

    def loop(self, body: Region, before: frozenset[_Touch]) -> frozenset[_Touch]:
        """A body follows itself, with its windows elsewhere."""
        pending = before
        while True:
            after = self.region(body, pending)
            last = frozenset(
                _Touch(each.tensor, each.writes, None, each.shared, True) if each.window else each
                for each in after
            )
            if last <= pending:
                return pending | after
            pending |= last

    def access(self, node: Node, pending: frozenset[_Touch]) -> frozenset[_Touch]:
        """The touches pending after a read or put, which may be the place to meet."""
        touch = self.touch(node)
        if node in self.found or any(self.meets(touch, other) for other in pending):
            self.found.add(node)
            return frozenset({touch})
        return pending | {touch}

    def touch(self, node: Node) -> _Touch:
        view = node.attr
        writes = node.op in EFFECTS
        if isinstance(view, Elements):  # data tell which thread goes where
            return _Touch(view.tensor, writes, None, True, False, view.combine)
        assert isinstance(view, View)
        window = view.mode == "window"
        access = self.accesses.get(node)
        if access is None:  # it goes through workgroup memory, so other threads read it
            return _Touch(view.tensor, writes, None, True, window)
        linear = access.layout.linear
        coordinates = node.args[writes:] if window else ()
        shared = bool(linear.free_bits("lane") or linear.free_bits("warp"))
        place = (view.tensor, view.block, view.own, linear, coordinates)
        return _Touch(view.tensor, writes, place, shared, window)

    def meets(self, one: _Touch, other: _Touch) -> bool:
        """Whether two touches in this order want a meeting between them."""
        if not (one.writes or other.writes) or not (self.may_alias or one.tensor == other.tensor):
            return False
        if one.combine and one.combine == other.combine:
            return False
        if one.place is None or one.place != other.place or one.window != other.window:
            return True
        return one.shared and not (one.writes and other.writes)
