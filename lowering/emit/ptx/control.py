"""Leaves, loops, branches, roles, and where threads meet or exchange values."""

from __future__ import annotations

from collections.abc import Iterable

from gizml_tile.dtypes import MASK, DType
from gizml_tile.lowering.emit.ptx.arithmetic import mnemonic
from gizml_tile.lowering.emit.ptx.packing import stretched
from gizml_tile.lowering.emit.ptx.writer import CLASSES, Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import APART, Barrier, Block, Instruction, Parameter, Role

_AXES = "xyz"
# A loop is kept from being unrolled where its turns wait for others, or where one turn has so many
# registers' worth of instructions that there is nothing left to gain.
_WAITING = frozenset(
    "barrier cluster_barrier cluster_begun copy_wait signal_wait bulk_wait group_wait".split()
)
_LARGE = 256


# Leaves


def _thread(writer: Writer) -> str:
    return writer.once(("thread",), "r", "mov.u32 {}, %tid.x;")


def _warp(writer: Writer) -> str:
    # Through a shuffle, so that the assembler knows that all lanes have the same number.
    return writer.once(
        ("warp",),
        "r",
        f"shr.u32 {{}}, {_thread(writer)}, 5;",
        "shfl.sync.idx.b32 {0}, {0}, 0, 0x1f, 0xffffffff;",
    )


def _leaf(writer: Writer, instruction: Instruction) -> Words:
    op, axis = instruction.op, instruction.attr
    if op == "thread":
        return (_thread(writer),)
    if op == "warp":
        return (_warp(writer),)
    if op == "rank":
        return (writer.once((op,), "r", "mov.u32 {}, %cluster_ctarank;"),)
    if op == "lane":
        return (writer.once((op,), "r", "mov.u32 {}, %laneid;"),)
    assert isinstance(axis, int)
    name = "%ctaid" if op == "workgroup" else "%nctaid"
    return (writer.once((op, axis), "r", f"mov.u32 {{}}, {name}.{_AXES[axis]};"),)


def _parameter(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, Parameter) and instruction.dtype is not None
    return (writer.parameter(instruction.attr, instruction.dtype),)


# Moves


def parallel_moves(writer: Writer, moves: Iterable[tuple[str, str]]) -> None:
    """Set registers to what others hold, all at once: a register is written when nobody still reads it."""
    pending = {target: source for target, source in moves if target != source}
    readers: dict[str, int] = {}
    for source in pending.values():
        readers[source] = readers.get(source, 0) + 1
    ready = [target for target in reversed(pending) if not readers.get(target)]
    while pending:
        if not ready:
            # Only circles are left: one register steps aside.
            target = next(iter(pending))
            aside = writer.register(target[1])
            _move(writer, aside, target)
            for each, source in pending.items():
                if source == target:
                    pending[each] = aside
            readers[aside], readers[target] = readers[target], 0
            ready.append(target)
        target = ready.pop()
        source = pending.pop(target)
        _move(writer, target, source)
        readers[source] -= 1
        if not readers[source] and source in pending:
            ready.append(source)


def _move(writer: Writer, target: str, source: str) -> None:
    writer.lines.append(f"mov{CLASSES[target[1]]} {target}, {source};")


def _settle(writer: Writer, targets: Iterable[Words], sources: Iterable[Words]) -> None:
    parallel_moves(
        writer,
        [
            pair
            for target, source in zip(targets, sources, strict=True)
            for pair in zip(target, source, strict=True)
        ],
    )


def _own(writer: Writer, value: Instruction) -> Words:
    """New registers for a value that several places set."""
    assert value.dtype is not None
    return writer.fresh(value.dtype, value.count)


# Structure


def _loop(writer: Writer, instruction: Instruction) -> Words:
    start, stop, step, *inits = instruction.args
    (block,) = instruction.blocks
    counter, *carried = block.params
    assert counter.dtype is not None
    homes = [_own(writer, param) for param in carried]
    for param, home in zip(carried, homes, strict=True):
        writer.values[param] = home
    number = _own(writer, counter)
    writer.values[counter] = number
    firsts = [stretched(writer, init, param.count) for init, param in zip(inits, carried, strict=True)]
    _settle(writer, [number, *homes], [writer.words(start), *firsts])
    bounds = (number[0], writer.words(stop)[0], writer.words(step)[0], counter.dtype)
    again, end = writer.label(), writer.label()
    flag = carried[instruction.attr] if isinstance(instruction.attr, int) else None
    goes = _goes_on(writer, bounds, flag)
    writer.lines += (f"@!{goes} bra.uni {end};", f"{again}:")
    if _stays_rolled(block):
        writer.lines.append('.pragma "nounroll";')
    with writer.loop():
        for param in carried:
            writer.made_in[param] = writer.loops[-1]
        writer.block(block)
        _settle(writer, homes, [writer.words(each) for each in block.results])
    writer.lines.append(f"{mnemonic('add', counter.dtype)} {number[0]}, {number[0]}, {bounds[2]};")
    goes = _goes_on(writer, bounds, flag)
    writer.lines += (f"@{goes} bra.uni {again};", f"{end}:")
    writer.results[instruction] = tuple(homes)
    return ()


def _goes_on(writer: Writer, bounds: tuple[str, str, str, DType], flag: Instruction | None) -> str:
    """A predicate: whether a loop has a further turn, which its flag is 0 against where there is one."""
    goes = _in_range(writer, *bounds)
    if flag is None:
        return goes
    assert flag.dtype is not None
    made = writer.register("p")
    kind, word = f"s{flag.dtype.bits}", writer.words(flag)[0]
    writer.lines.append(f"setp.ne.and.{kind} {made}, {word}, 0, {goes};")
    return made


def _in_range(writer: Writer, number: str, stop: str, step: str, dtype: DType) -> str:
    """A predicate: whether a counter has not come to its end. A step of zero is there from the start."""
    suffix = f"s{dtype.bits}"
    if step[0] != "%":
        made = writer.register("p")
        relation = "lt" if int(step) > 0 else "gt"
        writer.lines.append(f"setp.{relation}.{suffix} {made}, {number}, {stop};")
        return made
    up, down, forward, made = writer.registers("p", 4)
    writer.lines += (
        f"setp.lt.{suffix} {up}, {number}, {stop};",
        f"setp.gt.{suffix} {down}, {number}, {stop};",
        f"setp.gt.{suffix} {forward}, {step}, 0;",
        f"and.pred {up}, {up}, {forward};",
        f"setp.lt.{suffix} {forward}, {step}, 0;",
        f"and.pred {down}, {down}, {forward};",
        f"or.pred {made}, {up}, {down};",
    )
    return made


def _stays_rolled(block: Block) -> bool:
    size = 0
    for instruction in block.walk():
        size += max(instruction.count, 1)
        if instruction.op in _WAITING or size > _LARGE:
            return True
    return False


def _branch(writer: Writer, instruction: Instruction) -> Words:
    then, otherwise = instruction.blocks
    homes = [_own(writer, value) for value in then.results]
    other, end = writer.label(), writer.label()
    jump = "bra" if instruction.attr == APART else "bra.uni"
    writer.lines.append(f"@!{writer.words(instruction.args[0])[0]} {jump} {other};")
    writer.block(then)
    _settle(writer, homes, [writer.words(each) for each in then.results])
    writer.lines += (f"{jump} {end};", f"{other}:")
    writer.block(otherwise)
    _settle(writer, homes, [writer.words(each) for each in otherwise.results])
    writer.lines.append(f"{end}:")
    writer.results[instruction] = tuple(homes)
    return ()


def _when(writer: Writer, instruction: Instruction) -> Words:
    end = writer.label()
    writer.lines.append(f"@!{writer.words(instruction.args[0])[0]} bra {end};")
    writer.block(instruction.blocks[0])
    writer.lines.append(f"{end}:")
    return ()


def _result(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, int)
    return writer.results[instruction.args[0]][instruction.attr]


def _roles(writer: Writer, instruction: Instruction) -> Words:
    """Each role's warps run its block; they meet again at the kernel's end."""
    roles, warp, end = instruction.attr, _warp(writer), writer.label()
    assert isinstance(roles, tuple)
    for role, block in zip(roles, instruction.blocks, strict=True):
        assert isinstance(role, Role)
        others, number, outside = writer.label(), writer.register("r"), writer.register("p")
        writer.lines += (
            f"sub.u32 {number}, {warp}, {role.first_warp};",
            f"setp.ge.u32 {outside}, {number}, {role.warps};",
            f"@{outside} bra.uni {others};",
        )
        writer.block(block)
        writer.lines += (f"bra.uni {end};", f"{others}:")
    writer.lines.append(f"{end}:")
    return ()


# Between threads


def _barrier(writer: Writer, instruction: Instruction) -> Words:
    barrier = instruction.attr
    assert isinstance(barrier, Barrier)
    form = "arrive" if barrier.arrive else "sync"
    everyone = barrier.number == 0 and barrier.threads == writer.kernel.threads and not barrier.arrive
    number = str(barrier.number)
    if barrier.ring:
        number = _barrier_of_ring(writer, barrier)
    elif barrier.each:
        number = _own_barrier(writer, barrier.number, barrier.threads)
    writer.lines.append(f"bar.{form} {number}{'' if everyone else f', {barrier.threads}'};")
    return ()


def _own_barrier(writer: Writer, number: int, threads: int) -> str:
    """The number of the barrier of a thread's own group of so many threads."""
    warps = threads // writer.kernel.target.facts.lanes
    return writer.once(
        ("barrier", number, threads),
        "r",
        f"shr.u32 {{}}, {_warp(writer)}, {warps.bit_length() - 1};",
        f"add.u32 {{0}}, {{0}}, {number};",
    )


def _barrier_of_ring(writer: Writer, barrier: Barrier) -> str:
    """The barrier of a thread's own group, or to arrive at that of the group after it."""
    own = _own_barrier(writer, barrier.number, barrier.threads // 2)
    if not barrier.arrive:
        return own
    key, end = ("barrier after", own, barrier.ring), barrier.number + barrier.ring
    found = writer.cached(key)
    if found is None:
        found, last = writer.keep(key, writer.register("r")), writer.register("p")
        writer.lines += (
            f"add.u32 {found}, {own}, 1;",
            f"setp.eq.u32 {last}, {found}, {end};",
            f"selp.b32 {found}, {barrier.number}, {found}, {last};",
        )
    return found


def _warp_barrier(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("bar.warp.sync 0xffffffff;")
    return ()


def _shuffle(writer: Writer, instruction: Instruction) -> Words:
    value, *lanes = instruction.args
    assert value.dtype is not None
    if lanes:
        form, sources = "idx", writer.words(lanes[0])
        if len(sources) > 1 and value.dtype.bits < 32 and value.dtype is not MASK:
            raise LookupError(f"PTX has no entry for the instruction 'shuffle' of {value.dtype} by register")
    else:
        form, sources = "bfly", (str(instruction.attr),)
    words = writer.words(value)
    sources = sources if len(sources) == len(words) else sources * len(words)
    wide = _shuffle_double if value.dtype.bits == 64 else _shuffle_word
    shuffle = _shuffle_mask if value.dtype is MASK else wide
    return tuple([shuffle(writer, form, *each) for each in zip(words, sources, strict=True)])


def _shuffle_word(writer: Writer, form: str, word: str, source: str) -> str:
    made = writer.register("r")
    writer.lines.append(f"shfl.sync.{form}.b32 {made}, {writer.named(word)}, {source}, 0x1f, 0xffffffff;")
    return made


def _shuffle_double(writer: Writer, form: str, word: str, source: str) -> str:
    low, high = writer.registers("r", 2)
    made = writer.register("d")
    writer.lines.append(f"mov.b64 {{{low}, {high}}}, {writer.named(word, 'd')};")
    low, high = (_shuffle_word(writer, form, half, source) for half in (low, high))
    writer.lines.append(f"mov.b64 {made}, {{{low}, {high}}};")
    return made


def _shuffle_mask(writer: Writer, form: str, word: str, source: str) -> str:
    number, made = writer.register("r"), writer.register("p")
    writer.lines.append(f"selp.b32 {number}, 1, 0, {word};")
    number = _shuffle_word(writer, form, number, source)
    writer.lines.append(f"setp.ne.s32 {made}, {number}, 0;")
    return made


RULES: dict[str, Rule] = {
    **dict.fromkeys("thread lane warp workgroup workgroups rank".split(), _leaf),
    "parameter": _parameter,
    "loop": _loop,
    "branch": _branch,
    "when": _when,
    "result": _result,
    "roles": _roles,
    "barrier": _barrier,
    "warp_barrier": _warp_barrier,
    "shuffle": _shuffle,
}
