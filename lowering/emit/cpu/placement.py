"""Puts tasks into groups and steps: when a value is there, and which loop can compute it on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from gizml_tile.lowering.emit.cpu.homes import captured
from gizml_tile.lowering.emit.cpu.moves import moves_rows
from gizml_tile.lowering.emit.cpu.schedule import (
    AlongItem,
    Buffer,
    CondItem,
    Group,
    Item,
    LoopItem,
    Step,
    Task,
    is_scalar,
)
from gizml_tile.nodes import MOVES, Node, Region


@dataclass
class Placement:
    """The items of a region so far, and which of them makes which value."""

    region: Region
    buffers: dict[Node, Buffer]
    items: list[Item] = field(default_factory=list)
    # the item after which a scalar, or what an item other than a group makes, is there
    done: dict[Node, int] = field(default_factory=dict)
    tasks: dict[Node, Task] = field(default_factory=dict)
    needs: dict[tuple[Node, int], int] = field(default_factory=dict)
    inside: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.inside = set(self.region.nodes)

    def need(self, node: Node, rows: int) -> int:
        """The first item in which ``node`` can be used row by row beside ``rows`` rows; 0 rows: whole."""
        key = (node, rows)
        if key not in self.needs:
            self.needs[key] = self._need(node, rows)
        return self.needs[key]

    def _need(self, node: Node, rows: int) -> int:
        if node in self.done:
            return self.done[node] + 1
        task = self.tasks.get(node)
        if task is not None:
            alongside = node.shape[0] == rows and task.kind != "column_reduce"
            return task.group if alongside else task.group + 1
        if node not in self.inside or node in self.buffers:
            return 0
        inner_rows = 0 if node.op == "transpose" or moves_rows(node) else rows
        return max((self.need(arg, inner_rows) for arg in node.args), default=0)

    def whole(self, nodes: tuple[Node, ...]) -> int:
        return max((self.need(node, 0) for node in nodes), default=0)

    def add(self, task: Task, earliest: int = 0) -> Task:
        """Puts a task into the first group that can take it, and there into the first step."""
        for node in task.inputs:
            elsewhere = task.kind == "turn" or (task.makes and moves_rows(task.node))
            rows = 0 if elsewhere else task.rows
            earliest = max(earliest, self.need(node, rows))
        earliest = max([earliest, *(before.group for before in task.after)])
        for number in range(earliest, len(self.items)):
            item = self.items[number]
            if isinstance(item, Group) and item.rows == task.rows:
                task.group = number
                break
        else:
            task.group = len(self.items)
            self.items.append(Group(task.rows))
        group = self.items[task.group]
        assert isinstance(group, Group)
        self._add_to_step(group, task)
        if task.makes:
            self.tasks[task.node] = task
        return task

    def _add_to_step(self, group: Group, task: Task) -> None:
        first = 0
        moved = self._moved_in(task)
        for before in (*task.after, *self._made_in(task.inputs, task.group)):
            if before.group == task.group:
                together = before.kind == "store" and before.key == task.key and before not in moved
                first = max(first, before.step if together else before.step + 1)
        for number in range(first, len(group.steps)):
            if group.steps[number].key == task.key:
                task.step = number
                group.steps[number].tasks.append(task)
                return
        task.step = len(group.steps)
        group.steps.append(Step(task.key, [task]))

    def _moved_in(self, task: Task) -> list[Task]:
        """The tasks of a task's group of whose rows it needs other places than those that it has come to."""
        pending, seen = [*task.inputs, *([task.node] if task.makes else [])], set[Node]()
        moving: list[Node] = []
        while pending:
            node = pending.pop()
            if node in seen or node in self.tasks or node not in self.inside:
                continue
            seen.add(node)
            if node.op in MOVES:
                moving.extend(node.args)
            pending.extend(node.args)
        return self._made_in(tuple(moving), task.group)

    def _made_in(self, inputs: tuple[Node, ...], group: int) -> list[Task]:
        """The tasks of a group that virtual inputs are made from."""
        found, pending, seen = [], list(inputs), set[Node]()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            task = self.tasks.get(node)
            if task is not None:
                if task.group == group:
                    found.append(task)
            elif node in self.inside and node not in self.done:
                pending.extend(node.args)
        return found

    def mark_full_homes(self) -> None:
        """A home that another item than its own group reads must have all rows."""
        for number, item in enumerate(self.items):
            if isinstance(item, Group):
                for task in item.tasks:
                    self._mark(task.inputs, number)
                    for before in task.after:
                        if before.group != number and before.buffer is not None:
                            before.buffer.full = True
            elif isinstance(item, AlongItem):
                self._mark(item.node.args, -1)
            elif isinstance(item, LoopItem | CondItem):
                self._mark(tuple(value for inner in item.node.regions for value in captured(inner)), -1)
        self._mark(tuple(value for value in self.region.results if is_scalar(value)), -1)

    def _mark(self, values: tuple[Node, ...], group: int) -> None:
        pending, seen = list(values), set[Node]()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            task = self.tasks.get(node)
            if task is not None:
                if task.group != group and task.buffer is not None:
                    task.buffer.full = True
            elif node in self.inside:
                pending.extend(node.args)
