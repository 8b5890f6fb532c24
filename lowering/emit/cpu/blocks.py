"""Parts of blocks: a slice of what is read is read alone, tiles that were joined are stored one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gizml_tile.nodes import ARITHMETIC, Node, Steps, View

# What a processor's prefetching sees as one run of memory.
PAGE_BYTES = 4096

Add = Callable[..., Node]
Coordinates = tuple[Node, ...]


def part_of_block(read: Node, parts: tuple[Steps, Steps], add: Add) -> Node | None:
    """A read of neighbouring rows and columns of a block; None for steps other than 1."""
    view = read.attr
    assert isinstance(view, View)
    if view.visible or any(steps.step != 1 for steps in parts):
        return None
    coordinates, narrower = _part(read.args, view, parts, add)
    return add("read", coordinates, narrower, read)


def put_parts(
    tile: Node, coordinates: Coordinates, view: View, add: Add
) -> Iterator[tuple[Node, Coordinates, View]]:
    """What a put stores, where and as which block: each part of a tile that was joined by itself.

    Parts of rows that are short stay together, so that memory is written in its order.
    """
    assert tile.dtype is not None
    is_joined = tile.op == "concat" and tile.shape == view.shape and not view.visible
    if not is_joined or (tile.attr == 1 and tile.args[0].shape[1] * tile.dtype.bytes < PAGE_BYTES):
        yield tile, coordinates, view
        return
    begin = 0
    for part in tile.args:
        size = part.shape[tile.attr]  # type: ignore[index]
        parts = [Steps.whole(each) for each in tile.shape]
        parts[tile.attr] = Steps(begin, 1, size)  # type: ignore[index]
        yield from put_parts(part, *_part(coordinates, view, (parts[0], parts[1]), add), add)
        begin += size


def _part(
    coordinates: Coordinates, view: View, parts: tuple[Steps, Steps], add: Add
) -> tuple[Coordinates, View]:
    """Where a part of a block begins, and its view: it counts blocks where it can, else elements."""
    steps = parts[-len(view.block) :]
    block = tuple(each.size for each in steps)
    leading = len(coordinates) - len(block)
    aligned = all(
        size % each.size == 0 and each.start % each.size == 0
        for size, each in zip(view.block, steps, strict=True)
    )
    places = list(coordinates)
    for number, (size, each) in enumerate(zip(view.block, steps, strict=True), leading):
        if view.mode == "at" and aligned:
            factor, start = size // each.size, each.start // each.size
        else:
            factor, start = size if view.mode == "at" else 1, each.start
        places[number] = _index("add", _index("mul", places[number], factor, add), start, add)
    mode = "at" if view.mode == "at" and aligned else "window"
    return tuple(places), replace(view, block=block, mode=mode)


def _index(op: str, a: Node, b: int, add: Add) -> Node:
    """``a op b`` of indices, where it is not a itself."""
    if b == (1 if op == "mul" else 0):
        return a
    if a.op == "index":
        assert isinstance(a.attr, int)
        return add("index", (), a.attr * b if op == "mul" else a.attr + b, a)
    return add(op, (a, add("index", (), b, a)), None, a)


def are_apart(one: Node, other: Node) -> bool:
    """Whether two stores to one tensor surely have no element in common, as parts of one block have none."""
    view, second = one.attr, other.attr
    if not isinstance(view, View) or not isinstance(second, View):
        return False
    if (view.block, view.visible, view.mode) != (second.block, second.visible, second.mode):
        return False
    places = [tuple(map(_place, pair)) for pair in zip(one.args[1:], other.args[1:], strict=True)]
    if not all(_is_same(a, b) for (a, _), (b, _) in places):
        return False
    sizes = view.block if view.mode == "window" else (1,) * len(view.block)
    distances = [abs(a - b) for (_, a), (_, b) in places[-len(sizes) :]]
    return any(distance >= size for distance, size in zip(distances, sizes, strict=True))


def _place(index: Node) -> tuple[Node | None, int]:
    """An index as another one and a constant that is added; a constant alone has no other."""
    if index.op == "index":
        assert isinstance(index.attr, int)
        return None, index.attr
    if index.op == "add" and isinstance(index.args[1].attr, int) and index.args[1].op == "index":
        return index.args[0], index.args[1].attr
    return index, 0


def _is_same(a: Node | None, b: Node | None) -> bool:
    """Whether two indices are one, or computed alike of the same."""
    if a is b:
        return True
    if a is None or b is None or a.op != b.op or a.attr != b.attr:
        return False
    return a.op in ARITHMETIC | {"index"} and all(map(_is_same, a.args, b.args))
