"""Tile programs as bytes, for the disk cache."""

from __future__ import annotations

import pickle
from typing import Any

from gizml_tile.nodes import Node, Region, TileProgram


def store(program: TileProgram) -> bytes:
    """A program as bytes: its nodes in order with operands by number, so that depth does not matter."""
    writer = _Writer()
    body = writer.region(program.body)
    fields = (
        program.name,
        program.tensors,
        program.scalars,
        program.writes,
        program.warps,
        program.stages,
        program.approx,
        program.variants,
        program.records,
        program.fused,
        dict(program.written),
    )
    return pickle.dumps((fields, body))


def restore(data: bytes) -> TileProgram:
    """The program that `store` wrote."""
    (name, tensors, scalars, writes, *settings), body = pickle.loads(data)
    return TileProgram(name, tensors, scalars, writes, _region(body, []), *settings)


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[Node, int] = {}

    def region(self, region: Region) -> tuple[Any, ...]:
        params = [self._node(param) for param in region.params]
        nodes = [self._node(node) for node in region.nodes]
        return params, nodes, [self._numbers[node] for node in region.results]

    def _node(self, node: Node) -> tuple[Any, ...]:
        args = [self._numbers[arg] for arg in node.args]
        regions = [self.region(region) for region in node.regions]
        self._numbers[node] = len(self._numbers)
        return node.op, args, node.attr, node.shape, node.dtype, node.place, regions


def _region(stored: tuple[Any, ...], known: list[Node]) -> Region:
    params, nodes, results = stored
    made_params = tuple([_node(each, known) for each in params])
    made = tuple([_node(each, known) for each in nodes])
    return Region(made_params, made, tuple(known[number] for number in results))


def _node(stored: tuple[Any, ...], known: list[Node]) -> Node:
    op, args, attr, shape, dtype, place, regions = stored
    made_regions = tuple([_region(each, known) for each in regions])
    node = Node(op, tuple(known[arg] for arg in args), attr, shape, dtype, place, made_regions)
    known.append(node)
    return node
