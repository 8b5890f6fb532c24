"""Brings a tile program into the form that the CPU schedules well: rows contiguous, few transposes.

A tensor whose rows are not contiguous but whose columns are is read as the transpose of its transpose, so
that every block is walked along contiguous memory. Transposes then sink through elementwise operations
until they cancel or meet an operation that takes them for free (a product's packing).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import F32, I32, MASK, math_dtype
from gizml_tile.lowering.emit.cpu.blocks import part_of_block, put_parts
from gizml_tile.nodes import (
    EFFECTS,
    MOVES,
    REDUCTIONS,
    Attr,
    Combining,
    Const,
    Node,
    Region,
    Slice,
    Sorting,
    Tensor,
    TileProgram,
    View,
    make,
    slices,
)
from gizml_tile.nodes import ELEMENTWISE as _OF_TILES

ELEMENTWISE = _OF_TILES | {"value"}


@dataclass(frozen=True, slots=True)
class Storage:
    """Which argument a tensor of the normalised program is, and whether its last two axes are swapped."""

    argument: int
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Normalised:
    program: TileProgram
    storage: tuple[Storage, ...]


def normalise(program: TileProgram, column_major: tuple[bool, ...]) -> Normalised:
    """``column_major[t]`` says that tensor t's last-but-one axis is contiguous and its last is not."""
    tensors = list(program.tensors)
    storage = [Storage(number) for number in range(len(tensors))]
    swapped: dict[int, int] = {}
    for number, tensor in enumerate(program.tensors):
        if column_major[number] and tensor.rank >= 2:
            swapped[number] = len(tensors)
            tensors.append(Tensor(tensor.name, tensor.dtype, tensor.rank))
            storage.append(Storage(number, swapped=True))
    rewriter = _Rewriter(tuple(tensors), swapped)
    body = rewriter.region(program.body, {})
    return Normalised(replace(program, tensors=tuple(tensors), body=body), tuple(storage))


@dataclass
class _Rewriter:
    tensors: tuple[Tensor, ...]
    swapped: dict[int, int]
    # how often something may have been stored, and what that was when a block was read
    stores: int = 0
    current: dict[Node, int] = field(default_factory=dict)

    def region(self, region: Region, known: dict[Node, Node]) -> Region:
        known = known | {param: param for param in region.params}
        self.stores += 1
        nodes: list[Node] = []

        def add(op: str, args: tuple[Node, ...], attr: Attr = None, like: Node | None = None) -> Node:
            if op == "transpose":
                simpler = _transposed(args[0], add)
                if simpler is not None:
                    return simpler
            place = like.place if like else None
            nodes.append(make(op, args, attr, place, tensors=self.tensors))
            return nodes[-1]

        for node in region.nodes:
            args = tuple(known[arg] for arg in node.args)
            known[node] = self.node(node, args, known, add, nodes)
        return Region(region.params, tuple(nodes), tuple(known[result] for result in region.results))

    def node(
        self,
        node: Node,
        args: tuple[Node, ...],
        known: dict[Node, Node],
        add: Callable[..., Node],
        nodes: list[Node],
    ) -> Node:
        if node.op in EFFECTS or node.regions:
            self.stores += 1
        if node.regions:
            regions = tuple(self.region(region, known) for region in node.regions)
            nodes.append(Node(node.op, args, node.attr, node.shape, node.dtype, node.place, regions))
            return nodes[-1]
        view = node.attr
        if node.op == "read" and isinstance(view, View):
            swaps = self._swaps(view)
            if swaps:
                args, view = _swap_last(args), self._swapped_view(view)
            tile = add("read", args, view, node)
            self.current[tile] = self.stores
            return add("transpose", (tile,), None, node) if swaps else tile
        if node.op == "put" and isinstance(view, View):
            tile, *coordinates = args
            if self._swaps(view):
                tile = add("transpose", (_stretched(tile, view.shape, add),), None, node)
                coordinates, view = [*_swap_last(tuple(coordinates))], self._swapped_view(view)
            for part, where, block in put_parts(tile, tuple(coordinates), view, add):
                stored = add("put", (part, *where), block, node)
            return stored
        if node.op == "transpose":
            return add("transpose", args, None, node)
        if node.op in REDUCTIONS:
            return _reduction(node, args[0], add)
        if isinstance(node.attr, Combining | Sorting):
            return _along(node, args, add)
        if node.op == "part" and args[0].op == "transpose":
            return add("transpose", (add("part", args[0].args, node.attr, node),), None, node)
        if node.op in ELEMENTWISE and any(_is_transpose(arg) for arg in args):
            inner = _all_transposed(args, add)
            if inner is not None:
                return add("transpose", (add(node.op, inner, node.attr, node),), None, node)
        if node.op in MOVES:
            return self.moved(node.op, args, node.attr, node, add)
        if args == node.args:
            nodes.append(node)
            return node
        nodes.append(Node(node.op, args, node.attr, node.shape, node.dtype, node.place))
        return nodes[-1]

    def moved(
        self, op: str, args: tuple[Node, ...], attr: Attr, like: Node, add: Callable[..., Node]
    ) -> Node:
        """A slice, tiles joined or another shape, as an operation on what was transposed before."""
        first = args[0]
        if op == "reshape" and attr == first.shape[::-1] and 1 in first.shape:
            return add("transpose", args, None, like)
        if op != "reshape" and all(map(_is_transpose, args)):
            inner = tuple(add("transpose", (arg,), None, like) for arg in args)
            if op == "slice":
                attr = Slice(*slices(attr)[::-1])
            else:
                assert isinstance(attr, int)
                attr = 1 - attr
            return add("transpose", (self.moved(op, inner, attr, like, add),), None, like)
        if op == "slice" and self.current.get(first) == self.stores:
            part = part_of_block(first, slices(attr), add)
            if part is not None:
                self.current[part] = self.stores
                return part
        return add(op, args, attr, like)

    def _swaps(self, view: View) -> bool:
        # A row [1, C] of a column-major matrix stays a strided row: as a column it would be no better.
        return view.tensor in self.swapped and len(view.block) == 2

    def _swapped_view(self, view: View) -> View:
        return replace(
            view,
            tensor=self.swapped[view.tensor],
            block=view.block[::-1],
            visible=view.visible[::-1],
        )


def _swap_last(coordinates: tuple[Node, ...]) -> tuple[Node, ...]:
    return (*coordinates[:-2], coordinates[-1], coordinates[-2])


def _is_transpose(node: Node) -> bool:
    return node.op == "transpose" and min(node.shape) > 1


def _stretched(tile: Node, shape: tuple[int, int], add: Callable[..., Node]) -> Node:
    """A tile that is stored into a larger block, written out to the block's shape where it is a vector."""
    if tile.shape == shape or tile.shape == (1, 1):
        return tile
    assert tile.dtype is not None
    everywhere = add("const", (), Const(shape, MASK, True))
    return add("select", (everywhere, tile, tile))


def _transposed(node: Node, add: Callable[..., Node]) -> Node | None:
    """The transpose of a node where it is simpler than a transpose of it."""
    if node.shape == (1, 1):
        return node
    if node.op == "transpose":
        return node.args[0]
    if node.op == "const" and isinstance(node.attr, Const):
        return add("const", (), replace(node.attr, shape=node.attr.shape[::-1]), node)
    if node.op == "iota" and isinstance(node.attr, Const):
        swapped = replace(node.attr, shape=node.attr.shape[::-1], value=1 - int(node.attr.value))
        return add("iota", (), swapped, node)
    return None


def _all_transposed(args: tuple[Node, ...], add: Callable[..., Node]) -> tuple[Node, ...] | None:
    """The operands transposed, where that needs no work: transposes, vectors, numbers, constants."""
    for arg in args:
        cheap = arg.op in ("transpose", "const", "iota") or arg.shape == () or min(arg.shape) == 1
        if not cheap:
            return None
    return tuple(arg if arg.shape == () else add("transpose", (arg,), None, arg) for arg in args)


def _reduction(node: Node, operand: Node, add: Callable[..., Node]) -> Node:
    axis = node.attr
    assert isinstance(axis, int)
    axis %= 2
    if operand.shape[axis] == 1:
        return _along_one(node, operand, add)
    if _is_transpose(operand) or (axis == 0 and operand.shape[1] == 1):
        turned = add("transpose", (operand,), None, node)
        return add("transpose", (add(node.op, (turned,), 1 - axis, node),), None, node)
    return add(node.op, (operand,), axis, node)


def _along(node: Node, args: tuple[Node, ...], add: Callable[..., Node]) -> Node:
    """Along the rows of what is transposed, and of a column."""
    how = node.attr
    assert isinstance(how, Combining | Sorting)
    stands = how.axis == 0 and args[0].shape[1] == 1
    turned = _all_transposed(args, add) if stands or any(_is_transpose(arg) for arg in args) else None
    if turned is None:
        return add(node.op, args, how, node)
    return add("transpose", (add(node.op, turned, replace(how, axis=1 - how.axis), node),), None, node)


def _along_one(node: Node, operand: Node, add: Callable[..., Node]) -> Node:
    """A reduction of single elements is the element, in the type that the reduction gives."""
    assert operand.dtype is not None
    if operand.dtype is MASK:
        return add("to", (operand,), I32, node) if node.op == "sum" else operand
    target = math_dtype(operand.dtype)
    if operand.dtype is target or target is F32:
        return operand
    return add("to", (operand,), target, node)
