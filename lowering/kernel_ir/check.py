"""The kernel IR's rules, one for each operation, for tests and between passes."""

from __future__ import annotations

from gizml_tile.dtypes import I32, I64, MASK
from gizml_tile.lowering.kernel_ir import check_memory, check_threads, check_values
from gizml_tile.lowering.kernel_ir.check_values import Rule, expect, operands
from gizml_tile.lowering.kernel_ir.instructions import APART, Block, Instruction, Kernel, Role

# Every device with clusters takes these sizes.
_CLUSTERS = (1, 2, 4, 8)


def check(kernel: Kernel) -> None:
    """Raise AssertionError where a kernel breaks a rule of the kernel IR."""
    facts = kernel.target.facts
    lanes = facts.lanes
    assert kernel.threads % lanes == 0 and 0 < kernel.threads <= facts.workgroup_threads, (
        f"{kernel.threads} threads"
    )
    assert kernel.workgroup_memory <= facts.workgroup_memory, (
        f"{kernel.workgroup_memory} bytes of workgroup memory, {kernel.target} has {facts.workgroup_memory}"
    )
    for buffer in kernel.buffers:
        assert buffer.offset >= 0 and buffer.offset % buffer.dtype.bytes == 0, f"{buffer} is not aligned"
    assert kernel.cluster in _CLUSTERS, f"clusters of {kernel.cluster} workgroups"
    assert kernel.cluster == 1 or kernel.target.can("cluster"), f"{kernel.target} has no clusters"
    assert kernel.axes in (1, 2, 3), f"{kernel.axes} axes"
    assert not kernel.body.params and not kernel.body.results, "the body takes or gives values"
    _Walk(kernel).block(kernel.body)


class _Walk:
    """What is defined at a place: an operand stands before its use, in its block or in one around it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._defined: set[Instruction] = set()
        self._seen: set[Instruction] = set()

    def block(self, block: Block) -> None:
        for number, param in enumerate(block.params):
            assert param.op == "param" and param.attr == number, f"parameter {number} is {param}"
            self._define(param)
        for instruction in block.instructions:
            self._instruction(instruction)
        for result in block.results:
            assert result in self._defined, f"a block gives {result}, which is not defined there"
        self._defined.difference_update(block.params, block.instructions)

    def _instruction(self, instruction: Instruction) -> None:
        for arg in instruction.args:
            assert arg in self._defined, f"{instruction} uses {arg}, which is not defined before"
        rule = RULES.get(instruction.op)
        assert rule is not None, f"{instruction}: no operation {instruction.op}"
        rule(instruction, self._kernel)
        if instruction.dtype is None:
            assert instruction.count == 0, f"{instruction} has registers without a type"
        for block in instruction.blocks:
            self.block(block)
        self._define(instruction)

    def _define(self, instruction: Instruction) -> None:
        assert instruction not in self._seen, f"{instruction} stands in two places"
        self._seen.add(instruction)
        self._defined.add(instruction)


def _loop(i: Instruction, kernel: Kernel) -> None:
    operands(i, *range(3, len(i.args) + 1))
    expect(i, None)
    dtype = i.args[0].dtype
    assert dtype in (I32, I64), f"{i} counts in {dtype}"
    for bound in i.args[:3]:
        assert bound.dtype is dtype and bound.count == 1, f"{i}: bound {bound}"
    assert len(i.blocks) == 1, f"{i} has {len(i.blocks)} blocks"
    (block,) = i.blocks
    inits = i.args[3:]
    assert len(block.params) == len(inits) + 1 and len(block.results) == len(inits), (
        f"{i} carries {len(inits)}, {len(block.params) - 1}, {len(block.results)} values"
    )
    assert (block.params[0].dtype, block.params[0].count) == (dtype, 1), f"{i}: counter {block.params[0]}"
    for init, param, result in zip(inits, block.params[1:], block.results, strict=True):
        for each in (param, result):
            assert (each.dtype, each.count) == (init.dtype, init.count), f"{i}: carries {init}, {each}"
    if i.attr is not None:
        assert type(i.attr) is int and 0 <= i.attr < len(inits), f"{i}: flag {i.attr!r}"
        flag = inits[i.attr]
        assert flag.dtype in (I32, I64) and flag.count == 1, f"{i}: flag {flag}"


def _mask_of_one(i: Instruction) -> None:
    operands(i, 1)
    expect(i, None)
    assert (i.args[0].dtype, i.args[0].count) == (MASK, 1), f"{i}: mask {i.args[0]}"


def _branch(i: Instruction, kernel: Kernel) -> None:
    _mask_of_one(i)
    assert len(i.blocks) == 2, f"{i} has {len(i.blocks)} blocks"
    assert i.attr in (None, APART), f"{i}: {i.attr!r}"
    yes, no = i.blocks
    assert not yes.params and not no.params, f"{i}: its blocks take nothing"
    kinds = [[(each.dtype, each.count) for each in block.results] for block in i.blocks]
    assert kinds[0] == kinds[1], f"{i}: gives {list(yes.results)} and {list(no.results)}"


def _when(i: Instruction, kernel: Kernel) -> None:
    _mask_of_one(i)
    assert len(i.blocks) == 1, f"{i} has {len(i.blocks)} blocks"
    assert not i.blocks[0].params and not i.blocks[0].results, f"{i}: its block takes and gives nothing"


def _roles(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert isinstance(i.attr, tuple) and len(i.attr) == len(i.blocks) > 0, f"{i}: {i.attr!r}"
    warps = kernel.threads // kernel.target.facts.lanes
    taken: set[int] = set()
    for role, block in zip(i.attr, i.blocks, strict=True):
        assert isinstance(role, Role), f"{i}: {role!r}"
        mine = set(range(role.first_warp, role.first_warp + role.warps))
        assert mine and mine <= set(range(warps)) and not mine & taken, f"{i}: warps of {role.name}"
        assert role.groups > 0 and role.warps % role.groups == 0, f"{i}: {role.groups} groups of {role.name}"
        taken |= mine
        assert not block.params and not block.results, f"{i}: its blocks take and give nothing"


def _result(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1)
    (source,) = i.args
    assert source.op in ("loop", "branch") and type(i.attr) is int, f"{i} of {source}"
    value = source.blocks[0].results[i.attr]
    expect(i, value.dtype, value.count)


RULES: dict[str, Rule] = {
    **check_values.RULES,
    **check_memory.RULES,
    **check_threads.RULES,
    "loop": _loop,
    "branch": _branch,
    "when": _when,
    "roles": _roles,
    "result": _result,
    "update": check_memory.check_update,
}
