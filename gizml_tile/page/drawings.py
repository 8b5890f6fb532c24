"""The layouts of a plan's tiles as data that a page draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gizml_tile.nodes import Node
from gizml_tile.page.data import Drawing, Memory, Registers

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.plan import Plan, SharedTile, TileLayout

# What a drawing shows: the layout, its name, and the shape and type of the tile.
_Shown = tuple[Registers | Memory, str, tuple[int, int], str]


@dataclass
class Drawings:
    """The drawings of a page, each once: with all that it is used for, and the links of those lines."""

    _shown: dict[_Shown, tuple[dict[str, None], dict[int, None]]] = field(default_factory=dict)

    def of(self, plan: Plan, node: Node, link: int) -> tuple[int, ...]:
        """The numbers of the drawings of a tile of a plan."""
        numbers: dict[int, None] = {}
        for use, shown in _found(plan, node):
            uses, links = self._shown.setdefault(shown, ({}, {}))
            uses[use] = None
            links[link] = None
            numbers[list(self._shown).index(shown)] = None
        return tuple(numbers)

    def all(self) -> tuple[Drawing, ...]:
        """All that were asked for."""
        return tuple(
            Drawing(title, tuple(uses), shape, dtype, tuple(link for link in links if link >= 0), layout)
            for (layout, title, shape, dtype), (uses, links) in self._shown.items()
        )


def _found(plan: Plan, node: Node) -> Iterator[tuple[str, _Shown]]:
    moved = node.args[0] if node.op == "put" else node
    dtype = moved.dtype.text if moved.dtype is not None else ""
    layout = plan.layouts.get(node)
    if layout is not None and node.shape != (1, 1):
        yield node.op, _held(layout, dtype)
    access = plan.accesses.get(node)
    if access is not None and access.layout != layout and access.layout.linear.elements > 1:
        yield f"which thread moves what of the {node.op}", _held(access.layout, dtype)
    stage = plan.stages.get(node)
    if stage is not None:
        use = "block in workgroup memory" if stage.loop is None else f"each of {stage.slots} slots"
        yield use, _stored(plan, stage.tile)
        if not stage.span:
            yield "which thread copies what of the block", _held(stage.layout, dtype)
    dot = plan.dots.get(node)
    if dot is not None and not dot.groups:
        for name, operand, of in zip(("left", "right"), (dot.a, dot.b), dot.operands, strict=True):
            yield f"{name} operand of the product", _held(operand, of.text)
    store = plan.specialised.stores.get(node) if plan.specialised is not None else None
    if store is not None:
        yield node.op, _held(store.layout, store.tile.dtype.text)
        yield "panel on its way to the tensor", _stored(plan, store.tile)


def _stored(plan: Plan, tile: SharedTile) -> _Shown:
    memory = Memory(tile.rows, tile.columns, tile.dtype.bytes, plan.target.facts.banks)
    return memory, tile.name, tile.shape, tile.dtype.text


def _held(layout: TileLayout, dtype: str) -> _Shown:
    linear = layout.linear
    registers = Registers(linear.bases("register"), linear.bases("lane"), linear.bases("warp"))
    return registers, layout.name, linear.shape, dtype
