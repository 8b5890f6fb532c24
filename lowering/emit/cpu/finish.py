"""Stores a product's blocks as soon as they are whole, with what is computed from them on the way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gizml_tile.lowering.emit.cpu.access import block_of
from gizml_tile.lowering.emit.cpu.builder import Value
from gizml_tile.lowering.emit.cpu.deep_writer import Write
from gizml_tile.lowering.emit.cpu.evaluate import Pass, RowPlace
from gizml_tile.lowering.emit.cpu.schedule import Buffer, Group
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.steps import put_value
from gizml_tile.nodes import Node


def finisher(scope: Scope, buffers: dict[Node, Buffer], group: Group, product: Buffer) -> Write:
    """Writes a group that only stores, one block of rows and columns at each call.

    A call tells where ``product`` would start if all of it lay where its block does.
    """
    function = scope.function
    tasks = group.steps[0].tasks
    roots = tuple(task.node.args[0] for task in tasks)
    shared = Pass(scope, buffers)
    shared.prepare(roots)
    puts = {task: block_of(scope, task.node) for task in tasks}
    width = min(scope.unit.lanes, tasks[0].columns)

    def finish(address: str, first_row: Value, rows: int, column: Value, columns: int) -> None:
        scope.homes[product] = address

        def in_row(local: Value, _: list[str], *, inside: bool) -> Sequence[str]:
            row = function.add(first_row, local)
            place = RowPlace(shared, row, local, width)
            place.prepare(roots)
            lines = {task: block.row(row, width) for task, block in puts.items()}
            for step in range(0, columns, width):
                here = place.at(function.add(column, step), inside=inside)
                for task, line in lines.items():
                    around = function.come_from(task.node.place)
                    value = put_value(scope, task, here)
                    line.store(scope.arithmetic(width), value, here.column, here.masks)
                    function.come_from(around)
            return ()

        def in_rows(inside: bool) -> Sequence[str]:
            function.loop(0, rows, 1, partial(in_row, inside=inside))
            return ()

        checks = [block.holds(first_row, rows, column, columns) for block in puts.values()]
        for node, block in shared.blocks.items():
            down = (first_row, rows) if node.shape[0] > 1 else (0, 1)
            across = (column, columns) if node.shape[1] > 1 else (0, 1)
            checks.append(block.holds(*down, *across))
        function.when(function.all_of(checks), partial(in_rows, True), partial(in_rows, False))

    return finish
