"""Make a failing random program smaller while it still fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from programs import EXITS, STORES, TELLS, Arg, Axis, Block, Op, Program, count_ops, has_effects, prune


def shrink(program: Program, fails: Callable[[Program], bool], attempts: int = 400) -> Program:
    """The smallest program found that still fails, by trying one simplification after the other."""
    progress = True
    while progress and attempts > 0:
        progress = False
        for candidate in _candidates(program):
            attempts -= 1
            if attempts <= 0:
                break
            if _size(candidate) < _size(program) and fails(candidate):
                program, progress = candidate, True
                break
    return program


def _size(program: Program) -> tuple[int, ...]:
    axes = [axis for tensor in program.tensors for axis in tensor.axes]
    return (
        count_ops(program.body),
        len(program.tensors),
        sum(program.grid),
        sum(axis.before + axis.after + (axis.step != 1) for axis in axes),
        sum(tensor.wild for tensor in program.tensors) + sum(view.pad is not None for view in program.views),
    )


def _candidates(program: Program) -> Iterator[Program]:
    ops = list(_walk(program.body))
    stores = [op for op in ops if op.name in STORES]
    for op in ops:
        if op.name in TELLS | EXITS or (op.name in STORES and len(stores) > 1):
            yield prune(_with_body(program, _without(program.body, op)))
    types = {name: type_ for op in ops for name, type_ in zip(op.results, op.types, strict=True)}
    for op in reversed(ops):
        for region in op.regions:
            if not has_effects(region) and not region.params:
                yield prune(_with_body(program, _inline(program.body, op, region)))
        for number, result in enumerate(op.results):
            if op.types[number].is_index:
                continue
            for name in _earlier(ops, op):
                if types.get(name) == op.types[number]:
                    yield prune(_with_body(program, _rename(program.body, result, name)))
    for axis, size in enumerate(program.grid):
        if size > 1:
            yield dataclasses.replace(program, grid=(*program.grid[:axis], 1, *program.grid[axis + 1 :]))
    aliased = {tensor.alias for tensor in program.tensors} - {""}
    for number, tensor in enumerate(program.tensors):
        if tensor.alias or tensor.name in aliased:
            continue
        plain = tuple(Axis(axis.size) for axis in tensor.axes)
        for simpler in (
            dataclasses.replace(tensor, wild=False),
            dataclasses.replace(tensor, axes=plain, order=tuple(range(len(plain)))),
        ):
            tensors = (*program.tensors[:number], simpler, *program.tensors[number + 1 :])
            yield dataclasses.replace(program, tensors=tensors)
    for number, view in enumerate(program.views):
        if view.pad is not None:
            plain_view = dataclasses.replace(view, pad=None)
            views = (*program.views[:number], plain_view, *program.views[number + 1 :])
            yield dataclasses.replace(program, views=views)


def _with_body(program: Program, body: Block) -> Program:
    return dataclasses.replace(program, body=body)


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)


def _earlier(ops: list[Op], op: Op) -> list[str]:
    """Names that may stand for an operation's result: its operands first, then what is outside regions."""
    before = ops[: next(i for i, each in enumerate(ops) if each is op)]
    operands = [arg for arg in op.args if isinstance(arg, str)]
    return [*operands, *(name for each in before[:12] for name in each.results)]


def _map(block: Block, change: Callable[[Op], list[Op]], rename: Callable[[str], str]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        for each in change(op):
            args: tuple[Arg, ...] = tuple(rename(arg) if isinstance(arg, str) else arg for arg in each.args)
            regions = tuple(_map(region, change, rename) for region in each.regions)
            ops.append(dataclasses.replace(each, args=args, regions=regions))
    return Block(block.params, tuple(ops), tuple(rename(name) for name in block.gives))


def _without(block: Block, gone: Op) -> Block:
    return _map(block, lambda op: [] if op is gone else [op], lambda name: name)


def _rename(block: Block, old: str, new: str) -> Block:
    return _map(block, lambda op: [op], lambda name: new if name == old else name)


def _inline(block: Block, op: Op, region: Block) -> Block:
    """A branch replaced by one of its arms."""
    renames = dict(zip(op.results, region.gives, strict=True))
    return _map(
        block,
        lambda each: list(region.ops) if each is op else [each],
        lambda name: renames.get(name, name),
    )
