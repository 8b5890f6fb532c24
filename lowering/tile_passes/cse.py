"""Common subexpressions: what is computed twice from the same operands is computed once."""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.lowering.tile_passes.rewriting import stored_tensors
from gizml_tile.nodes import (
    COMMUTATIVE,
    EFFECTS,
    READS,
    Attr,
    Const,
    Elements,
    Node,
    Region,
    TileProgram,
    View,
    rebuild,
    tensor_of,
)


def eliminate_common(program: TileProgram, *, may_alias: bool = False) -> TileProgram:
    """The program with each value computed once where it is needed.

    A read is the same as an earlier one where nothing was stored to its tensor in between; with
    ``may_alias`` nothing to any tensor, because two may be the same memory.
    """
    search = _Search(stored_tensors(program), may_alias)
    return replace(program, body=search.region(program.body))


class _Search:
    """The values known where the search stands, and the version of each tensor's contents."""

    def __init__(self, stored: dict[Node, frozenset[int]], may_alias: bool) -> None:
        self._stored = stored
        self._may_alias = may_alias
        self._known: dict[object, Node] = {}
        self._new: dict[Node, Node] = {}
        self._versions: dict[int, int] = {}
        self._version = 0

    def region(self, region: Region) -> Region:
        added: list[object] = []
        nodes: list[Node] = []
        new = self._new
        for node in region.nodes:
            args = tuple([new.get(arg, arg) for arg in node.args])
            if node.regions:
                new[node] = self._structured(node, args)
                nodes.append(new[node])
                continue
            copy = node if args == node.args else rebuild(node, args)
            if node.op in EFFECTS:
                self._store(tensor_of(node))
                nodes.append(copy)
                continue
            key = self._key(copy)
            known = self._known.setdefault(key, copy)
            if known is copy:
                added.append(key)
                nodes.append(copy)
            new[node] = known
        for key in added:
            del self._known[key]
        results = tuple([new.get(result, result) for result in region.results])
        return Region(region.params, tuple(nodes), results)

    def _structured(self, node: Node, args: tuple[Node, ...]) -> Node:
        if node.op == "loop":
            # A later turn begins with what the turns before have stored.
            self._store_all(node)
        regions = []
        before = self._versions
        for region in node.regions:
            self._versions = dict(before)
            regions.append(self.region(region))
        self._store_all(node)
        return rebuild(node, args, tuple(regions))

    def _store(self, tensor: int) -> None:
        self._version += 1
        self._versions[-1 if self._may_alias else tensor] = self._version

    def _store_all(self, node: Node) -> None:
        for tensor in sorted(self._stored[node]):
            self._store(tensor)

    def _key(self, node: Node) -> object:
        args = node.args
        if node.op in COMMUTATIVE and id(args[0]) > id(args[1]):
            args = (args[1], args[0])
        version = 0
        if node.op in READS:
            version = self._versions.get(-1 if self._may_alias else tensor_of(node), 0)
        return (node.op, args, _attribute(node.attr), version)


def _attribute(attr: Attr) -> object:
    """A key that tells 0.0 from -0.0 and 1 from True, and knows NaN from no other NaN."""
    if isinstance(attr, Const):
        return (attr.shape, attr.dtype, repr(attr.value))
    if isinstance(attr, View):
        return (attr.tensor, attr.block, attr.mode, repr(attr.pad), attr.visible)
    if isinstance(attr, Elements):
        return (attr.tensor, attr.shape, attr.tiled, repr(attr.pad), attr.combine)
    return (type(attr), attr)
