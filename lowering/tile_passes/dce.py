"""Dead code: what no store depends on is left out, values that loops carry for nothing as well."""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.nodes import EARLY, EFFECTS, Node, Region, TileProgram, param, rebuild


def eliminate_dead(program: TileProgram) -> TileProgram:
    """The program with only what its stores need."""
    liveness = _Liveness(program)
    liveness.mark_all()
    return replace(program, body=_Rebuilding(liveness).region(program.body))


class _Liveness:
    """Which nodes and which carried values the stores of a program need."""

    def __init__(self, program: TileProgram) -> None:
        self.live: set[Node] = set()
        # For each loop or branch the numbers of the values it has to give.
        self.slots: dict[Node, set[int]] = {}
        # Carried values that never change, and the results of them: what they are before the loop.
        self.same: dict[Node, Node] = {}
        self._owner: dict[Node, Node] = {}
        self._work: list[Node] = []
        self._stores: list[Node] = []
        self._survey(program.body, None)
        self._find_same(program.body)

    def resolve(self, node: Node) -> Node:
        """The node itself, or what a carried value that never changes is."""
        while (other := self.same.get(node)) is not None:
            node = other
        return node

    def mark_all(self) -> None:
        """Find what is live, from the stores backwards."""
        for store in self._stores:
            self._mark(store)
        while self._work:
            node = self._work.pop()
            owner = self._owner.get(node)
            if owner is not None:
                self._mark(owner)
            if node.op == "param":
                assert isinstance(node.attr, int) and owner is not None
                if node.attr:
                    self._mark_slot(owner, node.attr - 1)
            elif node.op == "result":
                assert isinstance(node.attr, int)
                self._mark(node.args[0])
                self._mark_slot(node.args[0], node.attr)
            else:
                for arg in node.args[:3] if node.op == "loop" else node.args:
                    self._mark(arg)

    def _mark(self, node: Node) -> None:
        node = self.resolve(node)
        if node not in self.live:
            self.live.add(node)
            self._work.append(node)
            if node.attr == EARLY:
                # The last carried value says when it ends.
                self._mark_slot(node, len(node.args) - 4)

    def _mark_slot(self, node: Node, number: int) -> None:
        slots = self.slots[node]
        if number in slots:
            return
        slots.add(number)
        for region in node.regions:
            self._mark(region.results[number])
        if node.op == "loop":
            self._mark(node.args[3 + number])

    def _survey(self, region: Region, owner: Node | None) -> None:
        if owner is not None:
            for each in (*region.params, *region.nodes):
                self._owner[each] = owner
        for node in region.nodes:
            if node.op in EFFECTS:
                self._stores.append(node)
            elif node.regions:
                self.slots[node] = set()
                for inner in node.regions:
                    self._survey(inner, node)

    def _find_same(self, region: Region) -> None:
        """Find what the values of loops and branches of a region are anyway."""
        for node in region.nodes:
            if node.op == "loop":
                self._find_unchanged(node)
            elif node.op == "result":
                self.same.pop(node, None)
                assert isinstance(node.attr, int)
                kept = self._kept(node.args[0], node.attr)
                if kept is not None:
                    self.same[node] = kept
            else:
                for inner in node.regions:
                    self._find_same(inner)

    def _find_unchanged(self, loop: Node) -> None:
        """Find what no turn of a loop changes: all that it carries, until a turn is seen to change it.

        So ``x`` stays what it was in turns that give ``x`` one way and what it was before the loop the other.
        """
        (region,) = loop.regions
        carried = list(zip(region.params[1:], loop.args[3:], region.results, strict=True))
        self.same.update((each, init) for each, init, _ in carried)
        while True:
            self._find_same(region)
            changed = [
                each
                for each, init, result in carried
                if each in self.same and self.resolve(result) is not self.resolve(init)
            ]
            if not changed:
                return
            for each in changed:
                del self.same[each]

    def _kept(self, node: Node, number: int) -> Node | None:
        """What a loop carries and no turn changes, or what both ways of a branch give."""
        if node.op == "loop":
            return self.same.get(node.regions[0].params[number + 1])
        one, other = (self.resolve(region.results[number]) for region in node.regions)
        return one if one is other else None


class _Rebuilding:
    """Copies a program without what is dead."""

    def __init__(self, liveness: _Liveness) -> None:
        self._liveness = liveness
        self._new: dict[Node, Node] = {}

    def region(self, region: Region, slots: list[int] | None = None) -> Region:
        """A region with its live nodes, giving the results of the numbered slots."""
        nodes = []
        for node in region.nodes:
            if node in self._liveness.live:
                self._new[node] = self._copy(node)
                nodes.append(self._new[node])
        params = region.params
        if slots is not None and params:
            kept_params = [params[0], *(params[number + 1] for number in slots)]
            params = tuple([self._new.get(each, each) for each in kept_params])
        kept = region.results if slots is None else tuple([region.results[number] for number in slots])
        results = self._values(kept)
        if nodes == list(region.nodes) and results == region.results and params == region.params:
            return region
        return Region(params, tuple(nodes), results)

    def _values(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        values = []
        for node in nodes:
            node = self._liveness.resolve(node)
            values.append(self._new.get(node, node))
        return tuple(values)

    def _copy(self, node: Node) -> Node:
        if node.op == "result":
            slots = sorted(self._liveness.slots[node.args[0]])
            number = slots.index(node.attr)  # type: ignore[arg-type]
            source = self._new[node.args[0]]
            if source is node.args[0] and number == node.attr:
                return node
            return Node("result", (source,), number, node.shape, node.dtype, node.place)
        if not node.regions:
            args = self._values(node.args)
            return node if args == node.args else rebuild(node, args)
        slots = sorted(self._liveness.slots[node])
        if node.op == "loop":
            for number, slot in enumerate(slots):
                old = node.regions[0].params[slot + 1]
                if number != slot:
                    assert old.dtype is not None
                    self._new[old] = param(old.shape, old.dtype, number + 1)
            args = self._values((*node.args[:3], *(node.args[3 + slot] for slot in slots)))
        else:
            args = self._values(node.args)
        regions = tuple([self.region(each, slots) for each in node.regions])
        if args == node.args and regions == node.regions:
            return node
        return rebuild(node, args, regions)
