"""The rules of the tile IR, one for each operation; a broken one is a mistake of ours, not the person's."""

from __future__ import annotations

from gizml_tile import check_memory, check_moves, check_values
from gizml_tile.check_values import Rule, expect, no_attribute, operands
from gizml_tile.dtypes import MASK
from gizml_tile.nodes import EARLY, Combining, Node, Region, TileProgram


def check(program: TileProgram) -> None:
    """Assert every rule of the tile IR for a program; the message names the node that breaks one."""
    for number in program.writes:
        assert 0 <= number < len(program.tensors), f"write {number} names no tensor"
    names = [tensor.name for tensor in program.tensors] + [each.name for each in program.scalars]
    assert len({*names[: len(program.tensors)]}) == len(program.tensors), f"names repeat: {names}"
    assert not program.body.params and not program.body.results, "the body takes and gives nothing"
    _check_region(program.body, program, set())


def _check_region(region: Region, program: TileProgram, seen: set[Node]) -> None:
    """Check the nodes of a region, whose operands must come from before or from regions around it."""
    added: list[Node] = []
    for param in region.params:
        assert param.op == "param" and not param.args, f"{param} is no parameter"
        assert param not in seen, f"{param} belongs to two regions"
        seen.add(param)
        added.append(param)
    for node in region.nodes:
        assert node not in seen, f"{node} stands twice in the program"
        for arg in node.args:
            assert arg in seen, f"{node}: operand {arg} is not defined before it in a region around it"
        rule = RULES.get(node.op)
        assert rule is not None, f"unknown operation {node.op}"
        rule(node, program)
        for inner in node.regions:
            _check_region(inner, program, seen)
        if isinstance(node.attr, Combining):
            _check_region(node.attr.function, program, set())
        seen.add(node)
        added.append(node)
    for result in region.results:
        assert result in seen, f"result {result} is not defined in its region"
    seen.difference_update(added)


def _loop(node: Node, program: TileProgram) -> None:
    operands(node, len(node.args))
    assert node.attr in (None, EARLY), f"{node}: {node.attr!r}"
    assert node.attr is None or (len(node.args) > 3 and node.args[-1].is_index), f"{node} carries no flag"
    assert len(node.args) >= 3 and len(node.regions) == 1, f"{node}: operands, regions"
    assert all(arg.is_index for arg in node.args[:3]), f"{node}: bounds are no indices"
    (region,) = node.regions
    inits = node.args[3:]
    assert len(region.params) == len(inits) + 1 and len(region.results) == len(inits), (
        f"{node} carries {len(inits)}, {len(region.params) - 1}, {len(region.results)} values"
    )
    assert region.params[0].is_index, f"{node}: loop variable {region.params[0]}"
    for init, param, result in zip(inits, region.params[1:], region.results, strict=True):
        for each in (param, result):
            assert each.shape == init.shape and each.dtype is init.dtype, f"{node}: carries {init}, {each}"
    expect(node, (), None)


def _cond(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    no_attribute(node)
    assert node.args[0].dtype is MASK and node.args[0].shape == (1, 1), f"{node}: {node.args[0]}"
    assert len(node.regions) == 2, f"{node} has {len(node.regions)} regions"
    yes, no = node.regions
    assert not yes.params and not no.params, f"{node}: branches take nothing"
    assert len(yes.results) == len(no.results), f"{node}: branches give different counts"
    for a, b in zip(yes.results, no.results, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype, f"{node}: gives {a} and {b}"
    expect(node, (), None)


def _result(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (source,) = node.args
    assert source.op in ("loop", "cond") and type(node.attr) is int, f"{node} of {source}"
    value = source.regions[0].results[node.attr]
    expect(node, value.shape, value.dtype)


RULES: dict[str, Rule] = {
    **check_values.RULES,
    **check_memory.RULES,
    **check_moves.RULES,
    "loop": _loop,
    "cond": _cond,
    "result": _result,
}
