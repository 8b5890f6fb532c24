"""Loops and branches in random programs, and what leaves them before their end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from programs import INDEX, Arg, Block, Literal, Op, Type, leaves

from gizml_tile.dtypes import BF16, F32, F64, MASK

if TYPE_CHECKING:
    from programs import ViewSpec
    from writer import Writer

COMPARISONS = "lt le gt ge eq ne".split()


@dataclass(frozen=True)
class While:
    """A condition of ``while`` on a counter n, which every turn makes larger (or halves), and two indices."""

    holds: Callable[[int, int, int], bool]
    text: str
    explicit: str


WHILES = {
    "below": While(lambda n, limit, other: n < limit, "{n} < {limit}", "{n}.lt({limit})"),
    "both": While(
        lambda n, limit, other: n < limit and n != other,
        "{n} < {limit} and {n} != {other}",
        "{n}.lt({limit}).and_({n}.ne({other}))",
    ),
    "neither": While(
        lambda n, limit, other: not (n >= limit or n == other),
        "not ({n} >= {limit} or {n} == {other})",
        "{n}.ge({limit}).or_({n}.eq({other})).not_()",
    ),
    "square": While(
        lambda n, limit, other: n * n <= limit, "{n} * {n} <= {limit}", "{n}.mul({n}).le({limit})"
    ),
    "halves": While(lambda n, limit, other: n > 0, "{n} > 0", "{n}.gt(0)"),
    "true": While(lambda n, limit, other: n < limit, "{n} < {limit}", "{n}.lt({limit})"),
}


def loop(writer: Writer, depth: int) -> None:
    """A loop over a range or while a condition holds, which may be left early."""
    random, owner = writer.random, writer.owner
    inits: list[Arg] = [
        writer.pick(lambda t: t.dtype is not None, many=True) or writer.floats()
        for _ in range(random.randrange(1, 4))
    ]
    if random.random() < 0.3:
        inits.append(writer.pick(lambda t: t.is_index) or writer.emit("id", INDEX, attr=0))
    inits = list(dict.fromkeys(inits))
    kinds = tuple(Type(t.dtype, t.shape, batch=t.batch) for t in (writer.names[name] for name in inits))
    if random.random() < 0.25:
        _while(writer, inits, kinds, depth)
        return
    start, stop, step = random.choice(
        [(0, 3, 1), (0, 1, 1), (2, 2, 1), (0, 4, 2), (3, 0, -1), (5, -1, -2), (-1, 2, 1), (0, 7, 3)]
    )
    bound: Arg = Literal(stop)
    if step == 1 and random.random() < 0.4:
        limit = writer.element() if random.random() < 0.3 else writer.index()
        if isinstance(limit, str):
            bound = writer.emit("minimum", INDEX, limit, Literal(3))
            start = max(start, 0)
    name = "fold" if len(inits) == 1 and random.random() < 0.4 else "loop"
    inside = _inside(writer, may_leave=name == "loop")
    k = owner.fresh("k")
    inside.names[k] = INDEX
    params = _params(inside, kinds)
    _grow(inside, kinds, params, depth, may_leave=name == "loop")
    body = Block((k, *params), tuple(inside.ops), latest(inside, kinds, params))
    _add(writer, name, kinds, (Literal(start), bound, *inits), step, body)


def _while(writer: Writer, inits: list[Arg], kinds: tuple[Type, ...], depth: int) -> None:
    """A loop that counts itself, so that it ends."""
    random = writer.random
    form = random.choice(sorted(WHILES))
    most = {"square": 20, "halves": 40}.get(form, 5)
    limit, other = (writer.element() if random.random() < 0.2 else writer.index() for _ in range(2))
    if isinstance(limit, str):
        limit = writer.emit("minimum", INDEX, limit, Literal(most))
    start = random.randrange(3)
    first: Arg = writer.emit("int", INDEX, attr=start)
    if form == "halves":
        first = writer.emit("minimum", INDEX, writer.emit("add", INDEX, first, writer.index()), Literal(most))
    elif isinstance(limit, str) and form != "true" and random.random() < 0.3:
        first = Literal(start)
    kinds = (INDEX, *kinds)
    inside = _inside(writer, may_leave=True)
    params = _params(inside, kinds)
    if form == "halves":
        further = inside.emit("floordiv", INDEX, params[0], Literal(2))
    else:
        further = inside.emit("add", INDEX, params[0], Literal(random.choice([1, 1, 2, 3])))
    _grow(inside, kinds, params, depth, may_leave=True, first=further)
    body = Block(tuple(params), tuple(inside.ops), (further, *latest(inside, kinds[1:], params[1:])))
    _add(writer, "while", kinds, (limit, other, first, *inits), form, body)


def _inside(writer: Writer, *, may_leave: bool) -> Writer:
    inside = type(writer)(writer.owner, dict(writer.names))
    inside.many, inside.may_return = True, writer.may_return and may_leave
    return inside


def _params(inside: Writer, kinds: tuple[Type, ...]) -> list[str]:
    params = [inside.owner.fresh("c") for _ in kinds]
    inside.names.update(zip(params, kinds, strict=True))
    return params


def _add(
    writer: Writer, name: str, kinds: tuple[Type, ...], args: tuple[Arg, ...], attr: object, body: Block
) -> None:
    results = tuple(writer.owner.fresh("r") for _ in kinds)
    writer.ops.append(Op(name, results, kinds, args, attr, (body,)))
    writer.names.update(zip(results, kinds, strict=True))


def _grow(
    inside: Writer,
    kinds: tuple[Type, ...],
    params: list[str],
    depth: int,
    *,
    may_leave: bool,
    first: str | None = None,
) -> None:
    """What a turn does, and where it may be left; ``first`` is what a counter becomes in every turn."""
    random = inside.random

    def leave(where: Writer) -> None:
        name = random.choice(["break", "break", "continue"] + ["return"] * where.may_return)
        condition = comparison(where)
        gives: tuple[str, ...] = ()
        if name != "return":
            gives = latest(where, kinds, params)
            gives = gives if first is None else (first, *gives[1:])
        where.ops.append(Op(name, (), (), (condition, *gives)))

    inside.leave = leave if may_leave else None
    if may_leave and inside.owner.branches:
        cond(inside, depth + 1)
    inside.grow(random.randrange(1, 6), depth + 1)
    maybe_put(inside)
    while may_leave and random.random() < 0.3:
        leave(inside)
        inside.grow(random.randrange(0, 3), depth + 1)
        maybe_put(inside)


def comparison(writer: Writer) -> str:
    """Two indices compared."""
    left = writer.pick(lambda t: t.is_index) or writer.emit("id", INDEX, attr=0)
    name = writer.random.choice(COMPARISONS)
    return writer.emit(name, Type(MASK, (1, 1), True), left, writer.index())


def maybe_put(writer: Writer) -> None:
    """A store inside a loop or a branch, and perhaps what comes after it."""
    if writer.random.random() < 0.2:
        writer.owner.put(writer, writer.pick(lambda t: t.dtype is not None) or writer.floats())
        writer.grow(writer.random.randrange(0, 3), 2)


def latest(writer: Writer, kinds: tuple[Type, ...], fallback: list[str]) -> tuple[str, ...]:
    """The latest value of each type that has one."""
    gives = []
    for kind, default in zip(kinds, fallback, strict=True):
        wanted = (kind.dtype, kind.shape, kind.batch)
        found = writer.pick(lambda t, wanted=wanted: (t.dtype, t.shape, t.batch) == wanted, many=True)
        gives.append(found or default)
    return tuple(gives)


def cond(writer: Writer, depth: int) -> None:
    """A branch on a comparison of indices, in whose arms the loop or the program may be left."""
    random = writer.random
    condition = comparison(writer)
    defaults = [
        writer.pick(lambda t: not t.uniform, many=True) or writer.floats()
        for _ in range(random.randrange(1, 3))
    ]
    kinds = tuple(writer.names[name] for name in defaults)
    arms = []
    for _ in range(2):
        inside = type(writer)(writer.owner, dict(writer.names))
        inside.leave, inside.may_return = writer.leave, writer.may_return
        inside.grow(random.randrange(1, 4), depth + 1)
        maybe_put(inside)
        if (inside.leave or inside.may_return) and random.random() < (0.8 if inside.owner.branches else 0.4):
            if random.random() < 0.3 and depth < 3:
                cond(inside, depth + 1)  # one in another's arm
            elif inside.leave:
                inside.leave(inside)
            else:
                inside.ops.append(Op("return", (), (), (comparison(inside),)))
            inside.grow(random.randrange(0, 2), depth + 1)
        arms.append(Block((), tuple(inside.ops), latest(inside, kinds, defaults)))
    results = tuple(writer.owner.fresh("r") for _ in defaults)
    made = Op("cond", results, kinds, (condition,), None, tuple(arms))
    # Names that an arm may leave without a value have one before, where a branch is written with ``if``.
    writer.ops.append(replace(made, args=(condition, *defaults)) if leaves(made) else made)
    writer.names.update(zip(results, kinds, strict=True))


def product_loop(writer: Writer) -> None:
    """A matrix product block by block, as kernels write it, with operands read or computed."""
    random, owner = writer.random, writer.owner
    sizes = random.choice([[1, 2, 4, 8, 16, 16, 32, 64]] * 4 + [[3, 16, 24, 48, 80], [64, 128]])
    rows, depth, columns = (random.choice(sizes) for _ in range(3))
    dtypes = [owner.float_dtype()] * 2 if random.random() < 0.6 else [F32, owner.float_dtype()]
    turned = [random.random() < 0.25 for _ in range(2)]
    shapes = [(rows, depth), (depth, columns)]
    views = [
        owner.input(dtype, shape[::-1] if turn else shape, fresh=True)
        for dtype, shape, turn in zip(dtypes, shapes, turned, strict=True)
    ]
    real = F64 if F64 in dtypes else F32
    kind = Type(real, (rows, columns))
    init = writer.emit("zeros", kind, attr=((rows, columns), real))
    if random.random() < 0.3:
        init = writer.emit("full", kind, attr=((rows, columns), writer.number(), real))
    k, acc = owner.fresh("k"), owner.fresh("c")
    inside = type(writer)(owner, dict(writer.names) | {k: INDEX, acc: kind})
    operands = []
    for view, turn, along in zip(views, turned, (1, 0), strict=True):
        operands.append(_product_operand(inside, view, k, along, turn))
    product = inside.emit("dot", kind, *operands)
    if random.random() < 0.2:
        product = inside.emit("mul", kind, product, Literal(writer.number()))
    args = (acc, product) if random.random() < 0.8 else (product, acc)
    total = inside.emit("add", kind, *args)
    stop: Arg = Literal(random.choice([0, 1, 2, 3, 5]))
    tensor = owner.tensor(views[0].tensor)
    axis = len(tensor.axes) - (2 if turned[0] else 1)
    if random.random() < 0.7 and len(views[0].block) == 2:
        stop = writer.emit("blocks", INDEX, attr=(views[0].name, axis))
        stop = writer.emit("minimum", INDEX, stop, Literal(6))
    body = Block((k, acc), tuple(inside.ops), (total,))
    _add(writer, "fold", (kind,), (Literal(0), stop, init), 1, body)


def _product_operand(inside: Writer, view: ViewSpec, k: str, along: int, turned: bool) -> str:
    """One operand of a product's turn: its block at k, perhaps computed with, perhaps turned."""
    random, owner = inside.random, inside.owner
    rank = len(owner.tensor(view.tensor).axes)
    coordinates: list[Arg] = [inside.index() if random.random() < 0.3 else Literal(0) for _ in range(rank)]
    place = rank - 2 + (1 - along if turned else along)
    coordinates[place if len(view.block) == 2 else rank - 1] = k
    dtype = owner.tensor(view.tensor).dtype
    found = inside.emit("read", Type(dtype, view.tile), *coordinates, attr=(view.name, "at"))
    if random.random() < 0.25:
        name = random.choice(["neg", "relu", "abs"] + ["exp", "tanh"] * (not owner.ieee))
        found = inside.emit(name, Type(inside.real(found), view.tile), found)
        if random.random() < 0.4:
            found = inside.emit("to", Type(BF16, view.tile), found, attr=BF16)
    if turned:
        found = inside.emit("transpose", Type(inside.names[found].dtype, view.tile[::-1]), found)
    return found
