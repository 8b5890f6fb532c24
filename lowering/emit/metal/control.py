"""Leaves, loops, branches, and where threads meet or exchange values."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import BF16, F32, MASK
from gizml_tile.lowering.emit.metal.spelling import has_bfloat, type_name
from gizml_tile.lowering.emit.metal.words import Words, without_brackets
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Barrier, Instruction, Kernel, Parameter

_AXES = "xyz"
_THREADS = {
    "thread": ("thread_index_in_threadgroup", "thread_index", "tid"),
    "lane": ("thread_index_in_simdgroup", "lane_index", "lane"),
    "warp": ("simdgroup_index_in_threadgroup", "simdgroup_index", "simdgroup"),
}
_GROUPS = {
    "workgroup": ("threadgroup_position_in_grid", "group"),
    "workgroups": ("threadgroups_per_grid", "groups"),
}


# Leaves


def _thread(writer: Writer, instruction: Instruction) -> Words:
    attribute, parameter, name = _THREADS[instruction.op]
    writer.attribute(attribute, parameter)
    writer.line(f"const int {name} = int({parameter});")
    return (name,)


def _group(writer: Writer, instruction: Instruction) -> Words:
    attribute, parameter = _GROUPS[instruction.op]
    assert isinstance(instruction.attr, int)
    axis = _AXES[instruction.attr]
    writer.attribute(attribute, parameter, "uint3")
    name = writer.name(f"{parameter}_{axis}")
    writer.line(f"const int {name} = int({parameter}.{axis});")
    return (name,)


def _parameter(writer: Writer, instruction: Instruction) -> Words:
    parameter = instruction.attr
    assert isinstance(parameter, Parameter)
    if parameter not in writer.kernel.parameters or parameter.kind == "pointer":
        raise LookupError(f"kernel {writer.kernel.name} has no number {parameter}")
    structure = "scalars" if instruction.dtype is F32 else "numbers"
    return (f"{structure}.{writer.parameter(parameter)}",)


# Structure


def _settle(writer: Writer, homes: Sequence[Words], values: Sequence[Instruction]) -> None:
    """Set variables to values, all at once: what another one still reads is kept aside first."""
    moves = []
    for home, value in zip(homes, values, strict=True):
        words = writer.stretched(value, len(home))
        if words != home:
            moves.append((home, words, value))
    written = {word for home, _, _ in moves for word in home}
    assignments = []
    for home, words, value in moves:
        if any(word in written and word != own for own, word in zip(home, words, strict=True)):
            kept = _own(writer, value, len(words), "kept")
            writer.each([kept, words], "{} = {};".format)
            words = kept
        assignments.append((home, words))
    for home, words in assignments:
        writer.each([home, words], "{} = {};".format)


def _own(writer: Writer, value: Instruction, count: int, stem: str) -> Words:
    """New variables for a value that several places set."""
    assert value.dtype is not None
    return writer.fresh(value.dtype, count, stem)


def _loop(writer: Writer, instruction: Instruction) -> Words:
    start, stop, step, *inits = instruction.args
    (block,) = instruction.blocks
    counter, *carried = block.params
    assert counter.dtype is not None
    homes = [_own(writer, param, param.count, "carried") for param in carried]
    _settle(writer, homes, inits)
    name = writer.numbered("turn")
    values = dict(zip(block.params, [(name,), *homes], strict=True))
    writer.values.update(values)
    type, first, by = type_name(counter.dtype, writer.target), writer.text(start), writer.text(step)
    goes = _goes_on(name, writer.text(stop), by)
    if isinstance(instruction.attr, int):
        goes = f"({goes}) && {homes[instruction.attr][0]} != 0"
    writer.line(f"for ({type} {name} = {first}; {goes}; {name} += {by}) {{")
    with writer.loop():
        for param in carried:
            writer.made_in[param] = writer.loops[-1]
            writer.owners.add(param)
        writer.block(block)
        _settle(writer, homes, block.results)
    writer.line("}")
    writer.results[instruction] = tuple(homes)
    return ()


def _goes_on(counter: str, stop: str, step: str) -> str:
    """Whether a counter has not come to its end. A run-time step of zero is there from the start."""
    number = step.strip("()L")
    if number.lstrip("-").isdigit():
        return f"{counter} {'<' if int(number) > 0 else '>'} {stop}"
    return f"({step} > 0 && {counter} < {stop}) || ({step} < 0 && {counter} > {stop})"


def _branch(writer: Writer, instruction: Instruction) -> Words:
    then, otherwise = instruction.blocks
    homes = [_own(writer, value, value.count, "chosen") for value in then.results]
    writer.line(f"if ({without_brackets(writer.text(instruction.args[0]))}) {{")
    for block in instruction.blocks:
        if block is otherwise:
            writer.line("} else {")
        with writer.indented():
            writer.block(block)
            _settle(writer, homes, block.results)
    writer.line("}")
    writer.results[instruction] = tuple(homes)
    return ()


def _when(writer: Writer, instruction: Instruction) -> Words:
    writer.line(f"if ({without_brackets(writer.text(instruction.args[0]))}) {{")
    with writer.indented():
        writer.block(instruction.blocks[0])
    writer.line("}")
    return ()


def _result(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, int)
    return writer.results[instruction.args[0]][instruction.attr]


# Between threads


def fences(kernel: Kernel) -> str:
    """The memory that a barrier orders: that of tensors too where one is written and read."""
    loaded, stored = tensors_of(kernel, "load"), tensors_of(kernel, "store", "atomic", "update")
    both = stored and loaded if kernel.may_alias else stored & loaded
    return "mem_flags::mem_device | mem_flags::mem_threadgroup" if both else "mem_flags::mem_threadgroup"


def tensors_of(kernel: Kernel, *ops: str) -> set[int]:
    """The tensors that such instructions access."""
    return {
        each.attr.memory
        for each in kernel.body.walk()
        if each.op in ops and isinstance(each.attr, Access) and each.attr.space == GLOBAL
    }


def _barrier(writer: Writer, instruction: Instruction) -> Words:
    barrier, threads = instruction.attr, writer.kernel.threads
    assert isinstance(barrier, Barrier)
    everyone = barrier.threads == threads and not barrier.number
    alone = barrier.each and barrier.threads == writer.target.facts.lanes
    if barrier.arrive or not (everyone or alone):
        raise LookupError(f"Metal has no entry for the instruction 'barrier' of {barrier.threads} threads")
    scope = "simdgroup" if alone and not everyone else "threadgroup"
    writer.line(f"{scope}_barrier({fences(writer.kernel)});")
    return ()


def _warp_barrier(writer: Writer, instruction: Instruction) -> Words:
    writer.line(f"simdgroup_barrier({fences(writer.kernel)});")
    return ()


def _shuffle(writer: Writer, instruction: Instruction) -> Words:
    value, *lanes = instruction.args
    dtype = value.dtype
    assert dtype is not None
    columns: list[Words] = [writer.words(value)]
    if lanes:
        columns.append(writer.stretched(lanes[0], value.count))
    text = "simd_shuffle({}, ushort({{}}))" if lanes else f"simd_shuffle_xor({{}}, {instruction.attr})"
    # Metal shuffles neither bool nor long, and its compiler has been seen to fail on bfloat.
    type = type_name(dtype, writer.target)
    if dtype is MASK:
        text = f"bool({text.format('int({})')})"
    elif dtype.bits == 64:
        text = f"as_type<{type}>({text.format('as_type<uint2>({})')})"
    elif dtype is BF16 and has_bfloat(writer.target):
        text = f"as_type<{type}>({text.format('as_type<ushort>({})')})"
    else:
        text = text.format("{}")
    return writer.made(instruction, columns, text.format, inline=False)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_THREADS, _thread),
    **dict.fromkeys(_GROUPS, _group),
    "parameter": _parameter,
    "loop": _loop,
    "branch": _branch,
    "when": _when,
    "result": _result,
    "barrier": _barrier,
    "warp_barrier": _warp_barrier,
    "shuffle": _shuffle,
}
