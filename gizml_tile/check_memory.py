"""The rules of what reads and stores elements of tensors."""

from __future__ import annotations

from gizml_tile.check_values import Rule, dtype_of, expect, expect_element, expect_shape, operands
from gizml_tile.dtypes import ACCUMULATED, I32, I64, MASK, math_dtype
from gizml_tile.nodes import EFFECTS, EXACT, Elements, Node, TileProgram, View, broadcast, places


def _view(node: Node, coordinates: tuple[Node, ...], program: TileProgram) -> View:
    view = node.attr
    assert isinstance(view, View), f"{node} has no view"
    rank = program.tensors[view.tensor].rank
    assert len(view.block) in (1, 2) and len(view.block) <= rank, f"{node}: block {view.block}"
    assert view.mode in ("at", "window"), f"{node}: mode {view.mode}"
    expect_shape(node, view.shape)
    assert len(view.own) == len(view.block), f"{node}: of {view.block} {view.visible} are visible"
    for size, whole in zip(view.own, view.block, strict=True):
        assert 0 < size <= whole, f"{node}: of {view.block} {view.visible} are visible"
    assert len(coordinates) == rank, f"{node}: {len(coordinates)} coordinates for rank {rank}"
    for each in coordinates:
        assert each.is_index, f"{node}: coordinate {each}"
    return view


def _read(node: Node, program: TileProgram) -> None:
    operands(node, len(node.args))
    view = _view(node, node.args, program)
    dtype = program.tensors[view.tensor].dtype
    expect_element(view.pad, dtype, node)
    expect(node, view.shape, dtype)


def _put(node: Node, program: TileProgram) -> None:
    operands(node, len(node.args))
    view = _view(node, node.args[1:], program)
    _stores(node, view.tensor, view.shape, program)


def _elements(node: Node, program: TileProgram) -> Elements:
    """The rules for where the elements of a gather or scatter are."""
    elements = node.attr
    assert isinstance(elements, Elements), f"{node} does not say where its elements are"
    rank, tiled = elements.rank, elements.tiled
    assert rank == program.tensors[elements.tensor].rank, f"{node}: rank {rank}"
    assert list(tiled) == sorted(set(tiled)) and set(tiled) <= set(range(rank)), f"{node}: axes {tiled}"
    expect_shape(node, elements.shape)
    least = (node.op in EFFECTS) + rank + len(tiled)
    operands(node, least, least + 1)
    found = places(node)
    for index in found.indices:
        assert index.is_index, f"{node}: coordinate {index}"
    tiles = [tile for tile in found.tiles if tile is not None]
    for tile in tiles:
        assert tile.is_tile and math_dtype(dtype_of(tile)) in (I32, I64), f"{node}: coordinate {tile}"
    mask = found.mask
    assert mask is None or mask.dtype is MASK, f"{node}: {mask} is no mask"
    for each in tiles if mask is None else [*tiles, mask]:
        assert broadcast(each.shape, elements.shape) == elements.shape, f"{node}: {each}"
    return elements


def _gather(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    dtype = program.tensors[elements.tensor].dtype
    expect_element(elements.pad, dtype, node)
    expect(node, elements.shape, dtype)


def _element(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    dtype = program.tensors[elements.tensor].dtype
    assert dtype.is_integer and not elements.tiled and places(node).mask is None, f"{node} of {dtype}"
    expect_element(elements.pad, dtype, node)
    expect(node, (), I64)


def _scatter(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    assert elements.combine in ("", "add", EXACT, "max", "min"), f"{node}: combine {elements.combine!r}"
    dtype = program.tensors[elements.tensor].dtype
    assert not elements.combine or dtype in ACCUMULATED, f"{node}: {elements.combine} of {dtype}"
    assert elements.combine != EXACT or dtype.is_float, f"{node}: {elements.combine} of {dtype}"
    _stores(node, elements.tensor, elements.shape, program)


def _stores(node: Node, tensor: int, shape: tuple[int, int], program: TileProgram) -> None:
    """The rules for the tile that a node stores in a place of a shape."""
    tile = node.args[0]
    assert tensor in program.writes, f"{node} stores in a tensor that is not written"
    assert broadcast(tile.shape, shape) == shape, f"{node}: {tile} for {shape}"
    kind, found = program.tensors[tensor].dtype, dtype_of(tile)
    fits = (
        found is kind
        or (found.is_float and kind.is_float)
        or (found.is_integer and kind.is_integer and kind.bits >= found.bits)
    )
    assert fits, f"{node}: {found} into {kind}"
    expect(node, (), None)


RULES: dict[str, Rule] = {
    "read": _read,
    "put": _put,
    "gather": _gather,
    "scatter": _scatter,
    "element": _element,
}
