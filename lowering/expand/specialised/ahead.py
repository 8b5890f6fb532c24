"""A block that what follows a loop takes, and that comes to the memory of the results while the loop runs."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import fragment_from_shared
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.expand.specialised.boxes import corner, panel
from gizml_tile.lowering.expand.specialised.pieces import first_panel, group_of, panels, piece
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import BulkStore
from gizml_tile.nodes import Node, View


def open_ahead(x: Expansion) -> None:
    """Know the block that is brought ahead, if there is one, and the barriers of its bytes: one a group."""
    assert x.plan.specialised is not None
    for store in x.plan.specialised.stores.values():
        if store.block is not None:
            loops = [node for node in x.program.body.nodes if node in x.plan.specialised.loops]
            x.ahead = Ahead(x, loops[-1], store, x.plan.signals - x.plan.specialised.requests)


@dataclass(slots=True)
class Ahead:
    """The block's panels lie where the results' will: each warp reads its own rows before it writes there.

    A group's leading thread asks for them in the loop's first turn, when the copy engine has read the
    results of the program before. ``first`` is the first group's transaction barrier, of which one phase
    ends with each program.
    """

    x: Expansion
    loop: Node
    store: BulkStore
    first: int

    def prepare(self) -> None:
        """Set up the barriers; by one thread."""
        assert self.x.plan.specialised is not None
        for number in range(self.x.plan.specialised.requests):
            self.x.build.signal_init(self.x.build.constant(self.first + number, I32), 1)

    def request(self) -> None:
        """Ask for the group's panels; by its leading thread."""
        x, build, store, block = self.x, self.x.build, self.store, self._block
        assert isinstance(block.attr, View) and x.plan.specialised is not None
        found = list(panels(store, x.plan.specialised.groups))
        width, dtype = store.tile.shape[1], store.tile.dtype
        build.bulk_wait(0, reading=True)
        signal = self._signal()
        build.signal_expect(signal, len(found) * store.rows * width * dtype.bytes)
        with x.block(), x.at(block):
            *before, row, column = corner(x, block)
            own_rows, _ = store.own(x.plan.specialised.groups)
            row = build.add(row, build.mul(group_of(x), build.constant(own_rows, I32)))
            own = build.mul(group_of(x), build.constant(store.rows * width, I32))
            bulk = panel(block.attr, len(block.args), x.pieces[dtype], store.rows, width, store.span)
            for number, (down, across, _) in enumerate(found):
                to = build.add(piece(x, store, number), own)
                at = (build.constant(down, I32), build.constant(across, I32))
                further = (build.add(start, each) for start, each in zip((row, column), at, strict=True))
                build.bulk_load(bulk, to, [*before, *further], signal)

    def wait(self) -> None:
        """Until the panels are there."""
        self.x.build.signal_wait(self._signal(), self._parity())

    def registers(self, number: int) -> Value:
        """A panel's registers."""
        x, store = self.x, self.store
        shared = Shared(x.pieces[store.tile.dtype], store.tile, piece(x, store, number))
        return fragment_from_shared(x, shared, first_panel(store))

    @property
    def _block(self) -> Node:
        assert self.store.block is not None
        return self.store.block

    def _signal(self) -> Value:
        x, build = self.x, self.x.build
        assert x.plan.specialised is not None
        own = build.constant(self.first + x.team * x.plan.specialised.groups, I32)
        return build.add(group_of(x), own)

    def _parity(self) -> Value:
        """Whether the team has run an odd number of programs before: it runs every so many of one line."""
        x, build = self.x, self.x.build
        assert x.line is not None and x.plan.specialised is not None
        if not x.plan.specialised.persistent:
            return build.constant(0, I32)
        way = build.mul(build.workgroups(0), build.constant(x.plan.specialised.teams, I32))
        before = build.map("div", build.sub(x.line, build.workgroup(0)), way)
        return build.map("and", before, build.constant(1, I32))
