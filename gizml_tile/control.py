"""Loops and branches of a program: running their bodies once, and joining the values they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gizml_tile.batch import gathered, spread
from gizml_tile.dtypes import F32, I64, MASK, DType, math_dtype
from gizml_tile.errors import Place, TileError, here
from gizml_tile.helpful import called
from gizml_tile.index import Index
from gizml_tile.lifting import constant, describe, lift_index, number
from gizml_tile.naming import carried_names, returned_names
from gizml_tile.nodes import EARLY, Const, Node, Region, Shape, rebuild
from gizml_tile.rounding import round_to
from gizml_tile.tile import Tile
from gizml_tile.tracing import Block, Trace, Value, article, fail, noun

# The turns of a loop that ends by its condition alone.
_ENDLESS = (1 << 63) - 1


def trace_loop(
    trace: Trace,
    bounds: tuple[object, object, object],
    inits: list[object],
    body: Callable[..., Any],
    *,
    single: bool,
    condition: Callable[..., Any] | None = None,
    named: Callable[..., Any] | None = None,
) -> list[Any]:
    """Record a loop over range(*bounds), while a condition holds if there is one; the values after it.

    ``named`` is the person's function whose names for the carried values errors say, by default the body.
    """
    what = "fold" if single else "loop" if named is None else "while_"
    named = named or body
    start, stop, step = bounds
    if isinstance(body, Value) or not callable(body):
        fail(f"{what} takes its body as a function of the turn and what it carries, found {describe(body)}")
    if not isinstance(step, Value) and number(step) == 0:
        fail("the step of a loop is 0; use a step of 1 or -1")
    place = here()
    limits = tuple(
        lift_index(trace, each, f"the {name} of a loop")
        for name, each in (("start", start), ("stop", stop), ("step", step))
    )
    flat, counts = spread(inits)
    owners = _owners(counts)
    carried = [_carry(trace, value, what) for value in flat]
    types = []
    for node in carried:
        assert node.dtype is not None
        types.append((node.shape, node.dtype))
    asked = None if condition is None else _asked(trace, condition, types, counts, what)
    if asked is not None:
        carried.append(_answer(trace, asked, carried))
        types.append(((), I64))
    with trace.open_block() as block:
        k, *params = trace.add_params(types)
        values = gathered([_wrap(block, param) for param in params[: len(flat)]], counts)
        names = "the turn's number and what the loop carries"
        carries = values[0] if single else values
        returned = called(body, f"the body of {what}", names, Index(block, k), carries)
        given, found = spread([returned] if single else _returned(returned, len(inits), what))
        if found != counts:
            fail(f"the loop carries batches of {counts} tiles (0 for a tile), and a turn gives {found}")
        known = [
            _Carried(named, owner, init, len(inits), single)
            for owner, init in zip(owners, carried[: len(flat)], strict=True)
        ]
        results = tuple(
            [_turn(trace, *each) for each in zip(given, params[: len(flat)], known, strict=True)]
        )
        if asked is not None:
            results = (*results, _answer(trace, asked, results))
    attr = None if asked is None else EARLY
    loop = Node("loop", (*limits, *carried), attr, (), None, place, (block.region(results),))
    return gathered(_results(trace, loop, results)[: len(flat)], counts)


def trace_while(
    trace: Trace, inits: list[object], condition: Callable[..., Any], body: Callable[..., Any]
) -> list[Any]:
    """Record a loop while a condition holds; the values after it."""
    for function in (condition, body):
        if isinstance(function, Value) or not callable(function):
            fail(f"while_ takes two functions of what the loop carries, found {describe(function)}")

    def turn(_: Index, values: list[Any]) -> Any:
        return called(body, "the body of while_", "what the loop carries", values)

    bounds = (0, _ENDLESS, 1)
    return trace_loop(trace, bounds, inits, turn, single=False, condition=condition, named=body)


def _asked(
    trace: Trace,
    condition: Callable[..., Any],
    types: list[tuple[Shape, DType]],
    counts: list[int],
    what: str,
) -> Region:
    """A condition as a region of the carried values, which may be asked again and again."""
    if isinstance(condition, Value) or not callable(condition):
        fail(f"the condition of {what} is a function of what it carries, found {describe(condition)}")
    with trace.open_block() as block:
        _, *params = trace.add_params(types)
        values = gathered([_wrap(block, param) for param in params], counts)
        answer = called(condition, f"the condition of {what}", "what the loop carries", values)
        host = None if isinstance(answer, Value) else number(answer)
        if isinstance(host, bool):
            result = trace.record("const", (), Const((1, 1), MASK, host))
        else:
            result = _condition(trace, answer, "the condition of a loop")
    for node in block.nodes:
        if node.regions or node.dtype is None:
            raise TileError(
                "the condition of a loop compares indices and nothing else; do that in the loop", node.place
            )
    return block.region((result,))


def _answer(trace: Trace, asked: Region, carried: Sequence[Node]) -> Node:
    """Whether a condition holds for some values, as an index of 1 or 0."""
    new = dict(zip(asked.params[1:], carried, strict=False))
    for node in asked.nodes:
        made = rebuild(node, tuple([new.get(arg, arg) for arg in node.args]))
        new[node] = trace.record_node(made)
    mask = new.get(asked.results[0], asked.results[0])
    yes, no = (trace.record("index", (), value) for value in (1, 0))
    return trace.record("select", (mask, yes, no))


def trace_cond(trace: Trace, condition: object, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Record a branch; the values after it, in the form that its functions return."""
    for function in (then, otherwise):
        if isinstance(function, Value) or not callable(function):
            fail(f"cond takes two functions without arguments, found {describe(function)}")
    host = None if isinstance(condition, Value) else number(condition)
    if isinstance(host, bool):
        return called(then if host else otherwise, "a branch of cond", "nothing")
    mask = _condition(trace, condition)
    place = here()
    with trace.open_block() as yes_block:
        yes = called(then, "a branch of cond", "nothing")
    with trace.open_block() as no_block:
        no = called(otherwise, "a branch of cond", "nothing")
    (yes_values, counts), (no_values, others) = spread(_arm(yes)), spread(_arm(no))
    if counts != others and len(yes_values) == len(no_values):
        fail(f"the two ways of a branch give batches of {counts} and of {others} tiles (0 for a tile)")
    if len(yes_values) != len(no_values):
        fail(
            f"the two functions of cond give the same number of values, found {len(yes_values)} and "
            f"{len(no_values)}; the one without a new value returns the old one"
        )
    pairs: list[tuple[Node, Node]] = []
    kept: list[Any] = []
    for number_, (a, b) in enumerate(zip(yes_values, no_values, strict=True)):
        given = _Given(then, _owners(counts)[number_], len(counts))
        if a is b and number(a) is None and not isinstance(a, Value):
            kept.append(a)
            continue
        with trace.reopened(yes_block):
            left = _joined(trace, a, b, given)
        with trace.reopened(no_block):
            right = _joined(trace, b, a, given)
        _check_arms(left, right, given, no_block)
        pairs.append((left, right))
        kept.append(pairs)
    regions = (
        yes_block.region(tuple([left for left, _ in pairs])),
        no_block.region(tuple([right for _, right in pairs])),
    )
    node = Node("cond", (mask,), None, (), None, place, regions)
    made = iter(_results(trace, node, regions[0].results))
    values = gathered([next(made) if each is pairs else each for each in kept], counts)
    if isinstance(yes, tuple | list):
        return tuple(values)
    return values[0] if values else None


def _owners(counts: list[int]) -> list[int]:
    """For each tile or other value which of the person's it belongs to."""
    return [owner for owner, count in enumerate(counts) for _ in range(max(count, 1))]


def _results(trace: Trace, node: Node, values: tuple[Node, ...]) -> list[Any]:
    trace.record_node(node)
    block = trace.blocks[-1]
    return [
        _wrap(
            block,
            trace.record_node(Node("result", (node,), number, value.shape, value.dtype, node.place)),
        )
        for number, value in enumerate(values)
    ]


def _wrap(block: Block, node: Node) -> Index | Tile:
    return Index(block, node) if node.is_index else Tile(block, node)


def _carry(trace: Trace, value: object, what: str) -> Node:
    """A carried value before the loop: numbers become an index or a [1, 1] tile."""
    if isinstance(value, Value):
        return trace.use(value)
    host = number(value)
    if host is None or isinstance(host, bool):
        fail(
            f"a loop carries tiles, masks, indices and numbers, found {describe(value)}; keep other values "
            "out of the loop, or unroll it with tile.unroll"
        )
    if isinstance(host, float):
        return trace.record("const", (), Const((1, 1), F32, round_to(host, F32)))
    return lift_index(trace, host, "a carried value of a loop")


def _returned(value: object, count: int, what: str) -> list[object]:
    if value is None and count == 0:
        return []
    if isinstance(value, Value) or not isinstance(value, list | tuple):
        fail(f"the body of {what} returns a list of {count} carried values, found {describe(value)}")
    if len(value) != count:
        fail(f"the body of {what} returns {count} carried values, as many as it is given, found {len(value)}")
    return list(value)


@dataclass(frozen=True, slots=True)
class _Carried:
    """A value that a loop carries; its text, for errors alone, is its name or number."""

    body: Callable[..., Any]
    number: int
    init: Node
    count: int
    single: bool

    def __str__(self) -> str:
        name = carried_names(self.body, self.count, single=self.single)[self.number]
        return f"the carried value `{name}`" if name else f"carried value {self.number} of the loop"


def _turn(trace: Trace, value: object, param: Node, carried: _Carried) -> Node:
    """A carried value at the end of a turn: of the shape and type it had before."""
    node = trace.use(value) if isinstance(value, Value) else _number_beside(trace, value, param, carried)
    if node.shape == param.shape and node.dtype is param.dtype:
        return node
    found = f"{article(noun(param))} before the loop and {article(noun(node))} after a turn"
    if carried.init.op == "index" and node.is_tile:
        start = f"start it as a tile, with p.zeros({list(node.shape)}) or p.full, in place of an integer"
        raise TileError(f"{carried} changes: it is {found}; {start}", _place_in(trace.blocks[-1], node))
    _mismatch(f"{carried} changes: it is {found}", param, node, "before the loop", trace.blocks[-1])


def _number_beside(trace: Trace, value: object, other: Node, what: object) -> Node:
    """A host number as the kind of value that ``other`` is."""
    host = number(value)
    if host is None:
        fail(f"{what} is {article(noun(other))}, found {describe(value)}; give a value of the same kind")
    if other.is_index:
        if isinstance(host, float):
            return trace.record("const", (), Const((1, 1), F32, round_to(host, F32)))
        return lift_index(trace, int(host), str(what))
    assert other.dtype is not None
    if other.dtype.is_integer and isinstance(host, float):
        return trace.record("const", (), Const((1, 1), F32, round_to(host, F32)))
    return trace.record("const", (), Const((1, 1), other.dtype, constant(host, other.dtype, str(what))))


def _mismatch(message: str, first: Node, second: Node, where: str, block: Block) -> NoReturn:
    """Raise the error that a value does not stay what it was, at its expression if that is in the block."""
    ways = []
    if first.shape != second.shape:
        if first.is_index or second.is_index:
            ways.append("make the index a tile with i.value()")
        else:
            ways.append(f"give it the shape {list(second.shape)} {where}, as with p.zeros")
    if first.dtype is not second.dtype and first.is_tile and second.is_tile:
        assert second.dtype is not None
        computed = first.dtype is not None and second.dtype is math_dtype(first.dtype)
        reason = "mathematics on a storage type gives F32 (I32 for integers): " if computed else ""
        ways.append(f"{reason}convert with .to({second.dtype}) {where}, or with .to({first.dtype}) after")
    raise TileError(f"{message}; {'; '.join(ways)}", _place_in(block, second))


def _place_in(block: Block, node: Node) -> Place | None:
    """Where a value was made if that was in the block, else where the block is traced."""
    return node.place if node in block.nodes and node.place else here()


def _condition(trace: Trace, condition: object, what: str = "a branch") -> Node:
    if isinstance(condition, Tile):
        node = trace.use(condition)
        if condition._uniform:
            return node
        if node.dtype is MASK:
            fail(
                f"{what} takes a comparison of indices, as in i < n, found {describe(condition)} of data; "
                "choose elements with m.select(yes, no), or read a number of an integer tensor with "
                "A.index([i])"
            )
    way = "; compare it, as in i != 0" if isinstance(condition, Index) else ""
    fail(f"{what} takes a comparison of indices, as in i < n, found {describe(condition)}{way}")


def _arm(value: object) -> tuple[object, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that a branch gives; its text, for errors alone, is its name or number."""

    then: Callable[[], Any]
    number: int
    count: int

    def __str__(self) -> str:
        name = returned_names(self.then, self.count)[self.number]
        return f"`{name}`" if name else f"value {self.number} of the branch"


def _joined(trace: Trace, value: object, other: object, what: _Given) -> Node:
    """One arm's value as a node: numbers become what the other arm's value is."""
    if isinstance(value, Value):
        return trace.use(value)
    host = number(value)
    if host is None:
        fail(
            f"{what} is {describe(value)} in one branch and {describe(other)} in the other; "
            "a branch gives tiles, masks, indices and numbers"
        )
    if isinstance(other, Value):
        return _number_beside(trace, value, other._node, what)
    beside = number(other)
    if isinstance(host, bool) and isinstance(beside, bool):
        return trace.record("const", (), Const((1, 1), MASK, host))
    if isinstance(host, float) or isinstance(beside, float):
        return trace.record("const", (), Const((1, 1), F32, round_to(host, F32)))
    return lift_index(trace, int(host), str(what))


def _check_arms(first: Node, second: Node, what: _Given, block: Block) -> None:
    if first.shape == second.shape and first.dtype is second.dtype:
        return
    message = (
        f"{what} is {article(noun(first))} in the first branch and {article(noun(second))} in the second"
    )
    _mismatch(message, first, second, "in the first branch", block)
