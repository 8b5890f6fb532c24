"""Asynchronous matrix operations of four warps on operands in workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator

from gizml_tile.dtypes import F32
from gizml_tile.lowering.emit.ptx.addresses import as_register, workgroup_address
from gizml_tile.lowering.emit.ptx.matrix import TYPES
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix, Instruction, Operand

_STEP_BYTES = 32  # of k in one instruction, whatever the type
_ROWS = 64
_REGISTERS = 4  # words of a in one instruction, where a is in registers
_SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}
# Values whose words are another value's, or nobody's.
_RENAMED = frozenset("constant pick join bitcast".split())


def _group_mma(writer: Writer, instruction: Instruction) -> Words:
    matrix, (a, b, c) = instruction.attr, instruction.args
    assert isinstance(matrix, GroupMatrix) and c.dtype is not None
    sums = _sums(writer, c, matrix)
    size = matrix.dtypes[0].bytes
    steps = max(matrix.k * size // _STEP_BYTES, 1)
    form = _form(matrix, c.dtype is F32, matrix.k // steps)
    if matrix.a is None:
        lefts = list(_fragments(writer, a, matrix.m))
    else:
        further = _rows_further(matrix.a, size)
        lefts = [_descriptors(writer, matrix.a, a, part * further) for part in range(matrix.m)]
    right = _descriptors(writer, matrix.b, b)
    each, ending = len(sums) // matrix.m, _ending(matrix)
    totals = [", ".join(sums[part * each : (part + 1) * each]) for part in range(matrix.m)]
    for step, second, *firsts in zip(range(steps), right, *lefts, strict=False):
        adds = 0 if matrix.fresh and step == 0 else 1
        for total, first in zip(totals, firsts, strict=True):
            writer.lines.append(f"{form} {{{total}}}, {first}, {second}, {adds}{ending};")
    return sums


def _rows_further(operand: Operand, size: int) -> int:
    """The bytes from 64 rows of an operand to the next 64."""
    if not operand.transposed:
        return _ROWS // 8 * operand.stride
    return _ROWS * size // (operand.swizzle or 16) * operand.leading


def _form(matrix: GroupMatrix, floats: bool, depth: int) -> str:
    total, (a, b) = "f32" if floats else "s32", map(TYPES.__getitem__, matrix.dtypes)
    return f"wgmma.mma_async.sync.aligned.m64n{matrix.n}k{depth}.{total}.{a}.{b}"


def _ending(matrix: GroupMatrix) -> str:
    """The signs of a and b, where there are any, and which of them have k as their slow axis."""
    operands = [each for each in (matrix.a, matrix.b) if each is not None]
    dtype = matrix.dtypes[0]
    if dtype.bytes == 2:
        return ", 1, 1" + "".join(f", {int(each.transposed)}" for each in operands)
    if any(each.transposed for each in operands):
        raise LookupError(f"PTX has no entry for the instruction 'group_mma' of transposed {dtype}")
    return ", 1, 1" if dtype.is_float else ""


def _sums(writer: Writer, c: Instruction, matrix: GroupMatrix) -> Words:
    """The registers that are added to: c's own where nobody else reads them any more, else new ones.

    Moves between asynchronous operations would make the assembler wait for each of them.
    """
    words = writer.words(c)
    if c.op not in _RENAMED and (writer.may_overwrite(c) or (matrix.fresh and c.op == "group_mma")):
        return words
    assert c.dtype is not None
    made = writer.fresh(c.dtype, matrix.m * matrix.n // 2)
    if not matrix.fresh:
        filled = words if len(words) == len(made) else words * len(made)
        writer.lines += [f"mov.b32 {out}, {word};" for out, word in zip(made, filled, strict=True)]
    return made


def _fragments(writer: Writer, a: Instruction, parts: int) -> Iterator[Iterator[str]]:
    """The words of each 64 rows, for one step of k after the other."""
    words = writer.all_named(writer.words(a))
    steps = [
        f"{{{', '.join(words[first : first + _REGISTERS])}}}" for first in range(0, len(words), _REGISTERS)
    ]
    each = len(steps) // parts
    for part in range(parts):
        yield iter(steps[part * each : (part + 1) * each])


def _descriptors(writer: Writer, operand: Operand, offset: Instruction, first: int = 0) -> Iterator[str]:
    """Descriptors of an operand from so many bytes on, one for each step of k.

    PTX ISA, "Matrix Descriptor Format": in units of 16 bytes the address (bits 0 to 13), the leading
    distance (16 to 29) and the stride (32 to 45), and above them the swizzle (62 and 63).
    """
    word = writer.words(offset)[0]
    address = as_register(writer, *workgroup_address(writer, operand.buffer, "0"))
    low = _first_descriptor(writer, address, operand.leading)
    if word[0] == "%":
        key = ("descriptor", low, word)
        made = writer.cached(key)
        if made is None:
            made = writer.keep(key, writer.register("r"))
            writer.lines.append(f"add.s32 {made}, {low}, {word};")
        low = made
    else:
        first += int(word) << 4
    high = _SWIZZLES[operand.swizzle] << 30 | operand.stride >> 4
    distance = first
    while True:
        start, made = low, writer.register("d")
        if distance:
            start = writer.register("r")
            writer.lines.append(f"add.s32 {start}, {low}, {distance >> 4};")
        writer.lines.append(f"mov.b64 {made}, {{{start}, 0x{high:08X}}};")
        yield made
        distance += _advance(operand)


def _first_descriptor(writer: Writer, address: str, leading: int) -> str:
    """The lower half of the descriptor at the beginning of a buffer, to which chunks are added."""
    key = ("descriptor", address, leading)
    low = writer.cached(key)
    if low is None:
        low, short = writer.keep(key, writer.register("r")), writer.register("r")
        writer.lines += (
            f"shr.u32 {short}, {address}, 4;",
            # Addresses in clusters have the workgroup's rank above their 18 bits.
            f"and.b32 {short}, {short}, 0x3FFF;",
            f"or.b32 {low}, {short}, {leading >> 4 << 16};",
        )
    return low


def _advance(operand: Operand) -> int:
    """The bytes from one step of k to the next, inside one span of the swizzle."""
    if operand.transposed:
        # 16 rows, of which the stride spans 8.
        return 2 * operand.stride
    # Without a swizzle, two core matrices of 16 bytes a row, which the leading distance separates.
    return _STEP_BYTES if operand.swizzle else 2 * operand.leading


def _group_fence(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("wgmma.fence.sync.aligned;")
    return ()


def _group_commit(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append("wgmma.commit_group.sync.aligned;")
    return ()


def _group_wait(writer: Writer, instruction: Instruction) -> Words:
    writer.lines.append(f"wgmma.wait_group.sync.aligned {instruction.attr};")
    return ()


RULES: dict[str, Rule] = {
    "group_mma": _group_mma,
    "group_fence": _group_fence,
    "group_commit": _group_commit,
    "group_wait": _group_wait,
}
