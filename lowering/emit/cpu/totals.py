"""The running totals of reductions: their type, their start, their steps and how they are combined."""

from __future__ import annotations

from gizml_tile.dtypes import I32, MASK, DType
from gizml_tile.lowering.emit.cpu.evaluate import Place
from gizml_tile.lowering.emit.cpu.schedule import Task
from gizml_tile.lowering.emit.cpu.scope import Scope, register_dtype

# Operations whose results hold no signaling NaN.
QUIET = frozenset({"dot", "add", "sub", "mul", "div", "fma", "exp", "log", "sum"})


def total_type(task: Task) -> DType:
    """The type that a reduction is done in: masks are counted in I32."""
    source = register_dtype(task.node.args[0])
    return I32 if source is MASK and task.node.op == "sum" else source


def total_value(scope: Scope, task: Task, here: Place) -> str:
    value = here.value(task.node.args[0])
    source = register_dtype(task.node.args[0])
    return value if source is total_type(task) else here.arithmetic.convert(source, I32, value)


def identity(scope: Scope, task: Task, width: int) -> str:
    return scope.arithmetic(width).identity(task.node.op, total_type(task))


def accumulate(scope: Scope, task: Task, total: str, here: Place) -> str:
    value = total_value(scope, task, here)
    quiet = task.node.args[0].op in QUIET
    return here.arithmetic.accumulate(task.node.op, total_type(task), total, value, quiet=quiet)


def fold_pairs(scope: Scope, task: Task, values: list[str], width: int) -> str:
    """Values combined as a tree of neighbours."""
    arithmetic = scope.arithmetic(width)
    while len(values) > 1:
        values = [
            arithmetic.accumulate(task.node.op, total_type(task), a, b, quiet=task.kind == "reduce")
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]


def combine(scope: Scope, task: Task, totals: list[str], width: int) -> str:
    """A row's running totals as one scalar."""
    total = fold_pairs(scope, task, totals, width)
    return scope.arithmetic(width).reduce(task.node.op, total_type(task), total)
