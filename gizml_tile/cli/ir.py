"""``gizml-tile ir``: the tile IR of a launch, for a GPU with the layout of each tile."""

from __future__ import annotations

import argparse
from dataclasses import replace

from gizml_tile.cli import launches, output, person, targets
from gizml_tile.cli.reports import Ir, IrNode, IrProgram, IrTensor, Line
from gizml_tile.nodes import Node, Region, TileProgram
from gizml_tile.text import Layouts, attribute, text


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)
    targets.describe(parser)
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    target = targets.one(options)
    launch = launches.launch(options)
    with output.steps(1) as step, person.running():
        step(f"planning for {target}")
        programs = launch.gridded.tile_ir(*launch.values, **launch.on(target))
    if options.json:
        listed = tuple(_program(program, layouts) for program, layouts in programs)
        output.put_json(Ir(launch.name, target.kind, target.arch, listed))
    else:
        output.show("\n".join(text(program, layouts=layouts) for program, layouts in programs), "tile-ir")
    return 0


def _program(program: TileProgram, layouts: Layouts | None) -> IrProgram:
    nodes: list[IrNode] = []
    _list(program, program.body, layouts, None, {}, nodes)
    return IrProgram(program.name, _tensors(program), tuple(nodes), text(program, layouts=layouts))


def _tensors(program: TileProgram) -> tuple[IrTensor, ...]:
    tensors = (
        IrTensor(each.name, each.dtype.text, each.rank, number in program.writes)
        for number, each in enumerate(program.tensors)
    )
    return (*tensors, *(IrTensor(each.name, each.dtype.text, 0, False) for each in program.scalars))


def _list(
    program: TileProgram,
    region: Region,
    layouts: Layouts | None,
    parent: int | None,
    numbers: dict[Node, int],
    found: list[IrNode],
) -> tuple[int, ...]:
    """List a region's nodes with the numbers that they have in the text, and give its results."""
    for node in (*region.params, *region.nodes):
        number = numbers[node] = len(numbers)
        place = len(found)
        made = IrNode(
            number,
            node.op,
            attribute(node, program),
            tuple(numbers[arg] for arg in node.args),
            node.shape,
            "" if node.dtype is None else node.dtype.text,
            layouts(node) if layouts and node.is_tile else "",
            parent,
            (),
            Line.of(node.place),
        )
        found.append(made)
        results = tuple(_list(program, each, layouts, number, numbers, found) for each in node.regions)
        found[place] = replace(made, results=results)
    return tuple(numbers[node] for node in region.results)
