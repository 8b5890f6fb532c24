"""Byte addresses of tensors and of workgroup memory, each computed once where its offset is at hand."""

from __future__ import annotations

from gizml_tile.dtypes import I64, DType
from gizml_tile.lowering.emit.ptx.arithmetic import low_half
from gizml_tile.lowering.emit.ptx.writer import Writer
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Instruction, Parameter


def address(
    writer: Writer, space: str, memory: int, offsets: Instruction, place: tuple[int, int]
) -> tuple[str, int]:
    """The register (or symbol) and the constant bytes of an access's place."""
    register, constant = place
    words = writer.words(offsets)
    word, wide = words[register if len(words) > 1 else 0], offsets.dtype is I64
    if space == GLOBAL:
        return _global_address(writer, memory, word, wide, constant)
    return workgroup_address(writer, memory, word, wide, constant)


def written(base: str, constant: int, further: int = 0) -> str:
    """The operand of a memory instruction."""
    constant += further
    return f"[{base}+{constant}]" if constant else f"[{base}]"


def element_type(writer: Writer, space: str, memory: int) -> DType:
    """The storage type of a tensor or of a buffer."""
    kernel = writer.kernel
    return kernel.tensors[memory].dtype if space == GLOBAL else kernel.buffers[memory].dtype


def _global_address(writer: Writer, tensor: int, word: str, wide: bool, constant: int) -> tuple[str, int]:
    size = writer.kernel.tensors[tensor].dtype.bytes
    base = writer.parameter(Parameter("pointer", tensor), I64)
    if word[0] != "%":
        return _within_reach(writer, base, (int(word) + constant) * size)
    key = (GLOBAL, tensor, word)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.register("d"))
        if not wide:
            writer.lines.append(f"mad.wide.s32 {found}, {word}, {size}, {base};")
        elif size == 1:
            writer.lines.append(f"add.s64 {found}, {word}, {base};")
        else:
            scaled = writer.register("d")
            writer.lines += (
                f"shl.b64 {scaled}, {word}, {size.bit_length() - 1};",
                f"add.s64 {found}, {scaled}, {base};",
            )
    return _within_reach(writer, found, constant * size)


def _within_reach(writer: Writer, base: str, constant: int) -> tuple[str, int]:
    """A constant that an instruction can hold beside its register; a longer one is added first."""
    near = (constant + 2**31) % 2**32 - 2**31
    if near == constant:
        return base, constant
    far = constant - near
    key = ("far", base, far)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.register("d"))
        writer.lines.append(f"add.s64 {found}, {base}, {far};")
    return found, near


def workgroup_address(
    writer: Writer, buffer: int, word: str, wide: bool = False, constant: int = 0
) -> tuple[str, int]:
    """The address of an element of a buffer: a register or the symbol, and constant bytes."""
    memory = writer.kernel.buffers[buffer]
    size = memory.dtype.bytes
    if word[0] != "%":
        return writer.memory, memory.offset + (int(word) + constant) * size
    base = _scaled(writer, low_half(writer, word) if wide else word, size)
    return base, memory.offset + constant * size


def signal_address(writer: Writer, signal: Instruction) -> str:
    """The operand that names a transaction barrier by its number."""
    return written(*_signal(writer, signal))


def signal_register(writer: Writer, signal: Instruction) -> str:
    """The address of a transaction barrier in a register."""
    return as_register(writer, *_signal(writer, signal))


def _signal(writer: Writer, signal: Instruction) -> tuple[str, int]:
    kernel = writer.kernel
    first = kernel.workgroup_memory - 8 * kernel.signals
    word = writer.words(signal)[0]
    if word[0] != "%":
        return writer.memory, first + 8 * int(word)
    return _scaled(writer, low_half(writer, word) if signal.dtype is I64 else word, 8), first


def _scaled(writer: Writer, word: str, size: int) -> str:
    """Workgroup memory's address plus a number of elements."""
    key = ("workgroup", size, word)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.register("r"))
        base = writer.workgroup_base()
        text = (
            f"add.s32 {found}, {word}, {base};"
            if size == 1
            else f"mad.lo.s32 {found}, {word}, {size}, {base};"
        )
        writer.lines.append(text)
    return found


def as_register(writer: Writer, base: str, constant: int) -> str:
    """A workgroup memory address in a register of its own, for what takes no constant beside it."""
    if base == writer.memory:
        base = writer.workgroup_base()
    if not constant:
        return base
    key = ("sum", base, constant)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.register("r"))
        writer.lines.append(f"add.s32 {found}, {base}, {constant};")
    return found
