"""Sizes that are no powers of two: every tile grows to the next ones, and what was added is never seen.

A tile of [96, 3] becomes one of [128, 4] whose further elements hold anything. Where elements meet along an
axis (sums, products, sorting) they are replaced by something that does not count; blocks keep their own
sizes as what is ``visible`` of them, outside of which a read gives its pad and a put stores nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import I32, MASK, DType, integer_range
from gizml_tile.errors import Place, TileError
from gizml_tile.nodes import (
    ALONG,
    EFFECTS,
    Attr,
    Combining,
    Const,
    Elements,
    Node,
    Places,
    Random,
    Reflow,
    Region,
    Shape,
    Slice,
    Sorting,
    Steps,
    TileProgram,
    View,
    make,
    param,
    places,
    slices,
    with_places,
)
from gizml_tile.rounding import Number


def padded(shape: tuple[int, ...]) -> tuple[int, int]:
    """The sizes that a tile is computed in."""
    rows, columns = (1 << (size - 1).bit_length() for size in shape)
    return rows, columns


def pad(program: TileProgram) -> TileProgram:
    """The program with powers of two for all sizes; the same where they are such already."""
    if all(_is_plain(node) for node in program.body.walk()):
        return program
    body = _Padding(program).region(program.body, program.body.params)
    return replace(program, body=body, written=_written(program))


def _written(program: TileProgram) -> dict[tuple[Place | None, Shape], Shape]:
    """The shapes of tiles by their place and the shape that they grow to, where a place has but one."""
    found: dict[tuple[Place | None, Shape], set[Shape]] = {}
    for node in program.body.walk():
        if node.is_tile:
            found.setdefault((node.place, padded(node.shape)), set()).add(node.shape)
    return {key: shapes.pop() for key, shapes in found.items() if len(shapes) == 1}


def grown_blocks(program: TileProgram) -> Iterator[str]:
    """What a padded program's tensors are read and written in, and how large that is inside; once each."""
    told: set[str] = set()
    for node in program.body.walk():
        view = node.attr
        if not isinstance(view, View) or not view.visible:
            continue
        own, inside = (" x ".join(map(str, sizes)) for sizes in (view.visible, view.block))
        verb = "stored" if node.op in EFFECTS else "read"
        text = f"blocks of {own} {verb} in {program.tensors[view.tensor].name} are computed as {inside}"
        if text not in told:
            told.add(text)
            yield text


def _is_plain(node: Node) -> bool:
    """Whether all of a node's sizes are powers of two."""
    view = node.attr
    shape = view.shape if isinstance(view, View | Elements) else node.shape
    return not shape or padded(shape) == shape


@dataclass
class _Padding:
    """The copy of a program while it is made; nodes of the original are known by what stands for them."""

    program: TileProgram
    new: dict[Node, Node] = field(default_factory=dict)
    # A node's own first value where the copy has it as another's part.
    shifted: dict[Node, Node] = field(default_factory=dict)
    out: list[Node] = field(default_factory=list)

    def region(self, region: Region, params: tuple[Node, ...]) -> Region:
        """The copy of a region that takes ``params``."""
        outer, self.out = self.out, []
        self.new.update(zip(region.params, params, strict=True))
        for node in region.nodes:
            self.new[node] = self.node(node, tuple(self.new[arg] for arg in node.args))
        nodes, self.out = tuple(self.out), outer
        return Region(params, nodes, tuple(self.new[result] for result in region.results))

    def emit(self, node: Node) -> Node:
        self.out.append(node)
        return node

    def add(self, op: str, args: Sequence[Node], attr: Attr, like: Node) -> Node:
        """An operation on padded tiles, at a node's place in the person's source."""
        return self.emit(make(op, tuple(args), attr, like.place, tensors=self.program.tensors))

    def node(self, node: Node, args: tuple[Node, ...]) -> Node:
        """What stands for a node."""
        if node.op == "part" and node.args[0] in self.shifted:
            assert isinstance(node.attr, int)
            return self.add("part", (self.shifted[node.args[0]],), node.attr + 1, node)
        if node.regions:
            return self.structured(node, args)
        plain = _is_plain(node) and all(map(_is_plain, node.args))
        if plain and args == node.args:
            return self.emit(node)
        if plain and node.op not in EFFECTS:
            return self.add(node.op, args, node.attr, node)
        match node.op, node.attr:
            case "const" | "iota", Const() as const:
                return self.add(node.op, (), replace(const, shape=padded(const.shape)), node)
            case "read" | "put", View() as view:
                return self.add(node.op, args, _view(view), node)
            case "gather" | "scatter", Elements() as elements:
                return self.elements(node, args, elements)
            case "random", Random() as random:
                return self.add("random", args, replace(random, shape=padded(random.shape)), node)
            case "reshape", tuple():
                return self.reshape(node, args[0])
            case "slice", Slice():
                return self.slice(node, args[0], slices(node.attr))
            case "concat", int(axis):
                return self.concat(node, args, axis)
            case "dot", _:
                a, b, *c = args
                depth = node.args[0].shape[1]
                operands = [self.filled(each, axis, depth, 0, node) for each, axis in ((a, 1), (b, 0))]
                return self.add("dot", (*operands, *c), node.attr, node)
        if node.op in ALONG:
            return self.along(node, args)
        if node.is_tile:
            made = self.add(node.op, args, node.attr, node)
            assert made.shape == padded(node.shape), f"{node} of padded operands is {made}"
            return made
        raise TileError(f"{node.op} takes only sizes that are powers of two", node.place)

    def structured(self, node: Node, args: tuple[Node, ...]) -> Node:
        regions = []
        for region in node.regions:
            params = tuple(
                each if _is_plain(each) else param(padded(each.shape), _dtype(each), number)
                for number, each in enumerate(region.params)
            )
            regions.append(self.region(region, params))
        return self.emit(Node(node.op, args, node.attr, (), None, node.place, tuple(regions)))

    # Elements beyond the visible ones.

    def visible(self, shape: tuple[int, int], axis: int, size: int, like: Node) -> Node:
        """The mask of the places along an axis that are among the first ``size``."""
        along = (shape[0], 1) if axis == 0 else (1, shape[1])
        numbers = self.add("iota", (), Const(along, I32, axis), like)
        return self.add("lt", (numbers, self.add("const", (), Const((1, 1), I32, size), like)), None, like)

    def filled(self, tile: Node, axis: int, size: int, value: Number, like: Node) -> Node:
        """A tile with a value in place of what is beyond the first ``size`` elements along an axis."""
        if tile.shape[axis] == size or (value == 0 and _is_zero_beyond(tile, axis, size)):
            return tile
        dtype = _dtype(tile)
        typed = float(value) if dtype.is_float else bool(value) if dtype is MASK else int(value)
        rows, columns = tile.shape
        mask = self.visible((rows, columns), axis, size, like)
        other = self.add("const", (), Const((1, 1), dtype, typed), like)
        return self.add("select", (mask, tile, other), None, like)

    def elements(self, node: Node, args: tuple[Node, ...], elements: Elements) -> Node:
        """A gather or scatter, of which a scatter leaves out what is not visible."""
        shape = padded(elements.shape)
        copy = Node(node.op, args, replace(elements, shape=shape), node.shape, node.dtype, node.place)
        found = places(copy)
        mask = found.mask
        for axis in (0, 1):
            if node.op == "scatter" and elements.shape[axis] != shape[axis]:
                here = self.visible(shape, axis, elements.shape[axis], node)
                mask = here if mask is None else self.add("and_", (mask, here), None, node)
        copy = with_places(copy, Places(found.indices, found.tiles, mask))
        return self.add(node.op, copy.args, copy.attr, node)

    # Where elements of a tile meet.

    def along(self, node: Node, args: tuple[Node, ...]) -> Node:
        attr = node.attr
        if isinstance(attr, Combining):
            return self.combined(node, args, attr)
        (a,) = args
        dtype = _dtype(a)
        if isinstance(attr, Sorting):
            size = node.args[0].shape[attr.axis]
            last = math.nan if dtype.is_float else integer_range(dtype)[0 if attr.descending else 1]
            keep = 1 << (attr.keep - 1).bit_length()
            filled = self.filled(a, attr.axis, size, last, node)
            return self.add("sort", (filled,), replace(attr, keep=keep), node)
        assert isinstance(attr, int)
        if node.op == "histogram":
            bins = 1 << (attr - 1).bit_length()
            for axis in (0, 1):
                a = self.filled(self.counted(a, node), axis, node.args[0].shape[axis], -1, node)
            return self.add("histogram", (a,), bins, node)
        size = node.args[0].shape[attr]
        return self.add(node.op, (self.filled(a, attr, size, _neutral(node.op, dtype), node),), attr, node)

    def counted(self, tile: Node, like: Node) -> Node:
        """Integers in a type that has a number which is counted nowhere."""
        return tile if _dtype(tile).bits >= I32.bits else self.add("to", (tile,), I32, like)

    def combined(self, node: Node, args: tuple[Node, ...], how: Combining) -> Node:
        """A reduction or scan by a function, which is told which places are visible."""
        size, shape = node.args[0].shape[how.axis], args[0].shape
        if shape[how.axis] == size or (node.op == "scan" and not how.reverse):
            return self.add(node.op, args, how, node)
        rows, columns = shape
        one = self.add("const", (), Const((rows, columns), I32, 1), node)
        there = self.filled(one, how.axis, size, 0, node)
        made = self.add(node.op, (there, *args), replace(how, function=_of_visible(how.function)), node)
        self.shifted[node] = made
        return self.add("part", (made,), 1, node)

    # Elements in other places.

    def reshape(self, node: Node, a: Node) -> Node:
        """Rows of a power of two, and a single row, hold their elements where the padded ones do."""
        (_, before), (_, after) = shapes = node.args[0].shape, node.shape
        if any(rows > 1 and columns & (columns - 1) for rows, columns in shapes):
            return self.add("reshape", (a,), Reflow(padded(node.shape), before, after), node)
        return self.add("reshape", (a,), padded(node.shape), node)

    def longer(self, tile: Node, axis: int, size: int, like: Node) -> Node:
        """A tile that is repeated along an axis until it has so many elements there."""
        while tile.shape[axis] < size:
            tile = self.add("concat", (tile, tile), axis, like)
        return tile

    def slice(self, node: Node, a: Node, taken: tuple[Steps, Steps]) -> Node:
        """A slice that takes more than is visible takes that from a tile that repeats."""
        wider = []
        for axis, steps in enumerate(taken):
            size, held = 1 << (steps.size - 1).bit_length(), a.shape[axis]
            step = steps.step
            if steps.size == 1:
                wider.append(steps)
                continue
            first = steps.start + min(0, step * (size - 1))
            start = steps.start + -(first // held) * held if first < 0 else steps.start
            last = max(start, start + step * (size - 1))
            a = self.longer(a, axis, last + 1, node)
            wider.append(Steps(start, step, size))
        return self.add("slice", (a,), Slice(wider[0], wider[1]), node)

    def concat(self, node: Node, args: tuple[Node, ...], axis: int) -> Node:
        """The second tile begins where the visible part of the first ends."""
        size, other = (arg.shape[axis] for arg in node.args)
        first, second = args
        if size == other and size & (size - 1) == 0:
            return self.add("concat", args, axis, node)
        whole = 1 << (size + other - 1).bit_length()
        first, second = self.longer(first, axis, whole, node), self.longer(second, axis, 2 * whole, node)
        taken = [Steps.whole(each) for each in second.shape]
        taken[axis] = Steps(whole - size, 1, whole)
        moved = self.add("slice", (second,), Slice(taken[0], taken[1]), node)
        rows, columns = moved.shape
        return self.add("select", (self.visible((rows, columns), axis, size, node), first, moved), None, node)


def _view(view: View) -> View:
    """A block of padded sizes, of which its own are visible."""
    shape = padded((1, *view.block)[-2:])
    block = shape[-len(view.block) :]
    return view if block == view.block else replace(view, block=block, visible=view.block)


def _dtype(node: Node) -> DType:
    assert node.dtype is not None
    return node.dtype


def _neutral(op: str, dtype: DType) -> Number:
    """What does not count in a sum, or among the largest or smallest: NaN loses against every number."""
    if op == "sum" or dtype is MASK:
        return 1 if op == "min" else 0
    if dtype.is_float:
        return math.nan
    return integer_range(dtype)[0 if op == "max" else 1]


def _is_zero_beyond(tile: Node, axis: int, size: int) -> bool:
    """Whether a tile surely has zeros beyond its first elements along an axis."""
    view = tile.attr
    match tile.op:
        case "read":
            assert isinstance(view, View)
            visible = ((1,) * (2 - len(view.block)) + view.visible)[axis] if view.visible else 0
            return view.pad == 0 and visible == size
        case "transpose":
            return _is_zero_beyond(tile.args[0], 1 - axis, size)
        case "to":
            return _is_zero_beyond(tile.args[0], axis, size)
    return isinstance(view, Const) and tile.op == "const" and view.value == 0


def _of_visible(function: Region) -> Region:
    """A function of two places of which each is told whether it is visible; what is not stands for nothing.

    Of (there_a, a) and (there_b, b) it gives (there_a | there_b, f(a, b) or the one that is there).
    """
    count = len(function.params) // 2
    dtypes = [I32, *(_dtype(each) for each in function.params[:count])]
    params = tuple(param((1, 1), dtypes[n % (count + 1)], n) for n in range(2 * (count + 1)))
    first, second = params[: count + 1], params[count + 1 :]
    new = dict(zip(function.params, (*first[1:], *second[1:]), strict=True))
    nodes: list[Node] = []

    def add(op: str, *args: Node, attr: Attr = None) -> Node:
        nodes.append(make(op, args, attr))
        return nodes[-1]

    for node in function.nodes:
        new[node] = add(node.op, *(new[arg] for arg in node.args), attr=node.attr)
    zero = add("const", attr=Const((1, 1), I32, 0))
    here, there = (add("ne", flag, zero) for flag in (first[0], second[0]))
    both = add("and_", here, there)
    results = [add("or_", first[0], second[0])]
    for result, a, b in zip(function.results, first[1:], second[1:], strict=True):
        one = add("select", here, a, b)
        results.append(add("select", both, new[result], one))
    return Region(params, tuple(nodes), tuple(results))


