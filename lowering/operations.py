"""How operations of a plan are done, in words: those that cost something and have no table of variants."""

from __future__ import annotations

from collections.abc import Iterable

from gizml_tile.dtypes import F64
from gizml_tile.lowering.expand.expansion import Move
from gizml_tile.lowering.planning.along import bits_along, reducing_layout
from gizml_tile.lowering.planning.dots import ASK_FOR_TF32, MULTIPLY_ADD
from gizml_tile.lowering.planning.elements import atomic_name
from gizml_tile.lowering.planning.plan import UNIFORM, Plan, TileLayout
from gizml_tile.nodes import APPROXIMABLE, EARLY, MOVES, REDUCTIONS, Elements, Node, Random, tensor_of
from gizml_tile.text import counted

# Functions that the shared mathematics makes of IEEE operations.
_FUNCTIONS = APPROXIMABLE | frozenset("expm1 log1p softplus erf gelu_erf pow".split())
# What a device can that has its own of a function; of most others it is the exponential.
_OWN = {"tanh": "tanh_f32"}
_MADE_OF = {"bits": "words", "uniform": "uniform numbers", "normal": "normal numbers, by Box and Muller"}


def how(plan: Plan, node: Node, moves: Iterable[Move]) -> str | None:
    """How an operation is done and why; None for one that a table tells of, or that costs next to nothing."""
    if node.op in REDUCTIONS:
        return None if node in plan.reasons else _reduction(plan, node)
    if node.op in _FUNCTIONS:
        return _function(plan, node)
    match node.op:
        case "random":
            return _random(node)
        case "loop":
            return _loop(plan, node)
        case "cond":
            told = "all threads of a program go the same way, and only that arm runs"
            return f"{told}; the longer one is counted"
        case "element":
            return "every thread reads the same number, as an index has to be known to all"
        case "scatter" if isinstance(node.attr, Elements) and node.attr.combine:
            return _combining(plan, node)
        case _ if node.op in MOVES or node.op == "transpose":
            return _move(plan, node, moves)
    return None


def _reduction(plan: Plan, node: Node) -> str:
    """Where the elements meet: in a thread, then its warp, then all warps."""
    axis = node.attr
    assert isinstance(axis, int)

    def home(tile: Node) -> TileLayout | None:
        return UNIFORM if tile.shape == (1, 1) else plan.layouts.get(tile)

    layout = reducing_layout(node.args[0], home, plan.target, plan.warps)
    counts = {name: 1 << len(bits_along(layout.linear, name, axis)) for name in ("register", "lane", "warp")}
    steps = (
        ("register", "of each thread's own {}"),
        ("lane", "over {} lanes by exchanges"),
        ("warp", "over {} warps through workgroup memory, with a barrier"),
    )
    told = [text.format(counts[name]) for name, text in steps if counts[name] > 1]
    return f"in pairs: {', then '.join(told)}" if told else "of one element"


def _function(plan: Plan, node: Node) -> str:
    wanted = node.attr is True
    if not wanted:
        faster = "; approx=True or p.approx() takes the device's own" if _may_be_approximate(node) else ""
        return f"within a few ulp, of operations with the same bits on every device{faster}"
    if plan.target.can(_OWN.get(node.op, "exp2_f32")):
        return "approximate, by the device's unit for special functions, as asked"
    return f"exact, as {plan.target.arch} has no approximate one"


def _may_be_approximate(node: Node) -> bool:
    """Whether ``approx`` changes a function on devices that have their own: those are of F32."""
    return node.op in APPROXIMABLE and node.dtype is not F64


def is_exact_function(plan: Plan, node: Node) -> bool:
    """Whether a function is made of exact operations, and the device has one that is not."""
    if not _may_be_approximate(node) or node.attr is True:
        return False
    return plan.target.can(_OWN.get(node.op, "exp2_f32"))


def is_exact_for_multiply_adds(plan: Plan, node: Node) -> bool:
    """Whether a product is made of multiply-adds only because matrix units would round its operands."""
    tables = [choice for what, choice in plan.choices.get(node, ()) if what == "dot"]
    return any(
        choice.chosen == MULTIPLY_ADD and any(ASK_FOR_TF32 in each.reason for each in choice.candidates)
        for choice in tables
    )


def _random(node: Node) -> str:
    assert isinstance(node.attr, Random)
    made = _MADE_OF[node.attr.kind]
    return f"ten rounds of Philox for each four {made}, of the counter alone: no state is kept"


def _loop(plan: Plan, loop: Node) -> str:
    if loop.attr == EARLY:
        return "goes on while its condition holds, so no turn's blocks are copied before it is known to come"
    slots = [stage.slots for stage in plan.stages.values() if stage.loop is loop]
    if plan.specialised is not None and loop in plan.specialised.loops:
        return f"other warps bring the blocks of up to {max(slots, default=1)} turns ahead"
    if slots:
        ahead = max(slots) - 1
        return (
            f"copies blocks {'a turn' if ahead == 1 else f'{ahead} turns'} ahead of the one that multiplies"
        )
    return "each turn reads what it takes; other warps run while it waits"


def _combining(plan: Plan, node: Node) -> str:
    elements = node.attr
    assert isinstance(elements, Elements)
    dtype = plan.program.tensors[tensor_of(node)].dtype
    vector = plan.accesses[node].vector
    if plan.target.can(atomic_name(elements.combine, dtype, vector)):
        return f"by atomic operations on {counted(vector, 'neighbours')}, in any order"
    return (
        "by comparing and exchanging each element until no other came between: the device has no such atomic"
    )


def _move(plan: Plan, node: Node, moves: Iterable[Move]) -> str:
    if node in plan.bypassed:
        return "nothing moves: products take the block as it lies"
    if any(node in (move.user, move.moved) for move in moves):
        return "its elements move to other threads: see the moves between layouts"
    return "threads keep their elements, or trade them within a warp"
