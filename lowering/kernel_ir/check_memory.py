"""The rules of accesses to tensors and to workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import I32, I64, MASK, U8, DType
from gizml_tile.lowering.kernel_ir.check_values import Rule, expect, operands
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    ORDERED,
    STRUCTURED,
    WORKGROUP,
    Access,
    Bulk,
    BulkWait,
    Copy,
    Instruction,
    Kernel,
    MatrixAccess,
)

# The widest access of one thread, in bytes.
_WIDEST = 16

Places = tuple[tuple[int, int], ...]


def _places(i: Instruction, places: Places, offsets: Instruction) -> None:
    assert offsets.dtype in (I32, I64), f"{i}: offsets {offsets}"
    assert places, f"{i} accesses nothing"
    for register, constant in places:
        assert 0 <= register < offsets.count, f"{i}: register {register} of {offsets}"
        assert type(constant) is int, f"{i}: constant {constant!r}"


def _inside(
    i: Instruction, places: Places, offsets: Instruction, kernel: Kernel, buffer: int, width: int
) -> None:
    """Accesses to a buffer at constant places stay in it."""
    assert 0 <= buffer < len(kernel.buffers), f"{i}: buffer {buffer}"
    if offsets.op != "constant":
        return
    numbers = offsets.attr if isinstance(offsets.attr, tuple) else (offsets.attr,)
    elements = kernel.buffers[buffer].elements
    for register, constant in places:
        number = numbers[register]
        assert isinstance(number, int)
        first = number + constant
        assert 0 <= first <= elements - width, f"{i}: element {first} of {kernel.buffers[buffer].name}"


def _access(i: Instruction, offsets: Instruction, mask: tuple[Instruction, ...], kernel: Kernel) -> DType:
    """The type of the memory, whose access is checked."""
    access = i.attr
    assert isinstance(access, Access), f"{i}: {access!r}"
    assert access.space in (GLOBAL, WORKGROUP), f"{i}: space {access.space!r}"
    _places(i, access.places, offsets)
    if access.space == WORKGROUP:
        _inside(i, access.places, offsets, kernel, access.memory, access.width)
        dtype = kernel.buffers[access.memory].dtype
    else:
        assert 0 <= access.memory < len(kernel.tensors), f"{i}: tensor {access.memory}"
        dtype = kernel.tensors[access.memory].dtype
        dtype = U8 if dtype is MASK else dtype
    width = access.width
    assert width > 0 and width & (width - 1) == 0 and width * dtype.bytes <= _WIDEST, f"{i}: width {width}"
    for each in mask:
        assert each.dtype is MASK and each.count in (1, len(access.places)), f"{i}: mask {each}"
    return dtype


def _load(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1, 2)
    dtype = _access(i, i.args[0], i.args[1:], kernel)
    assert isinstance(i.attr, Access)
    expect(i, dtype, i.attr.width * len(i.attr.places))


def _atomic(i: Instruction, kernel: Kernel) -> None:
    _store(i, kernel)
    assert isinstance(i.attr, Access), f"{i}: {i.attr!r}"
    memory = kernel.tensors if i.attr.space == GLOBAL else kernel.buffers
    dtype, combine = memory[i.attr.memory].dtype, i.attr.combine
    assert i.attr.space == GLOBAL or (dtype is I32 and i.attr.width == 1), f"{i}: {dtype} in a buffer"
    assert combine in (("add",) if dtype.is_float else ("add", "max", "min")), f"{i}: {combine!r} of {dtype}"


def check_update(i: Instruction, kernel: Kernel) -> None:
    """The rules of the access of an update, whose block is checked as others are."""
    operands(i, 1, 2)
    expect(i, None)
    dtype = _access(i, i.args[0], i.args[1:], kernel)
    assert isinstance(i.attr, Access)
    assert i.attr.space == GLOBAL and i.attr.width == len(i.attr.places) == 1, f"{i}: {i.attr!r}"
    assert len(i.blocks) == 1, f"{i} has {len(i.blocks)} blocks"
    (block,) = i.blocks
    for each in (*block.params, *block.results):
        assert (each.dtype, each.count) == (dtype, 1), f"{i}: {each}"
    assert len(block.params) == len(block.results) == 1, f"{i}: its block takes and gives one value"
    for inner in block.walk():
        assert inner.op not in ORDERED | STRUCTURED, f"{i}: {inner.op} in its block"


def _store(i: Instruction, kernel: Kernel) -> None:
    operands(i, 2, 3)
    value, offsets, *mask = i.args
    dtype = _access(i, offsets, tuple(mask), kernel)
    assert isinstance(i.attr, Access)
    count = i.attr.width * len(i.attr.places)
    assert value.dtype is dtype and value.count in (1, count), f"{i}: {value} for {dtype} x {count}"
    expect(i, None)


def _remote(i: Instruction, kernel: Kernel, rank: Instruction) -> None:
    assert kernel.cluster > 1, f"{i} in a kernel without clusters"
    assert isinstance(i.attr, Access) and i.attr.space == WORKGROUP, f"{i}: {i.attr!r}"
    assert rank.dtype is I32 and rank.count == 1, f"{i}: rank {rank}"


def _remote_load(i: Instruction, kernel: Kernel) -> None:
    operands(i, 2, 3)
    _remote(i, kernel, i.args[1])
    dtype = _access(i, i.args[0], i.args[2:], kernel)
    assert isinstance(i.attr, Access)
    expect(i, dtype, i.attr.width * len(i.attr.places))


def _remote_store(i: Instruction, kernel: Kernel) -> None:
    operands(i, 3, 4)
    value, offsets, rank, *mask = i.args
    _remote(i, kernel, rank)
    dtype = _access(i, offsets, tuple(mask), kernel)
    assert isinstance(i.attr, Access)
    count = i.attr.width * len(i.attr.places)
    assert value.dtype is dtype and value.count in (1, count), f"{i}: {value} for {dtype} x {count}"
    expect(i, None)


def _remote_send(i: Instruction, kernel: Kernel) -> None:
    operands(i, 4)
    value, offsets, rank, signal = i.args
    _remote(i, kernel, rank)
    dtype = _access(i, offsets, (), kernel)
    assert isinstance(i.attr, Access)
    assert i.attr.width * dtype.bytes in (4, 8, 16), f"{i}: width {i.attr.width}"
    assert (value.dtype, value.count) == (dtype, i.attr.width * len(i.attr.places)), f"{i}: {value}"
    assert kernel.signals > 0, f"{i} in a kernel without signals"
    assert signal.dtype is I32 and signal.count == 1, f"{i}: signal {signal}"
    expect(i, None)


def _matrices(i: Instruction, offsets: Instruction, kernel: Kernel, ability: str) -> tuple[DType, int]:
    access = i.attr
    assert isinstance(access, MatrixAccess), f"{i}: {access!r}"
    assert kernel.target.can(ability), f"{kernel.target} has no {i.op}"
    assert access.matrices in (1, 2, 4), f"{i}: {access.matrices} matrices"
    _places(i, access.places, offsets)
    dtype = kernel.buffers[access.memory].dtype
    other = i.op == "matrix_load" and (dtype.bits == 8 or (dtype.bits == 32 and not access.transposed))
    assert dtype.bits == 16 or other, f"{i} of {dtype}"
    _inside(i, access.places, offsets, kernel, access.memory, 16 // dtype.bytes)
    return dtype, 4 // dtype.bytes * access.matrices * len(access.places)


def _matrix_load(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1)
    dtype, count = _matrices(i, i.args[0], kernel, "matrix_load")
    expect(i, dtype, count)


def _matrix_store(i: Instruction, kernel: Kernel) -> None:
    operands(i, 2)
    value, offsets = i.args
    dtype, count = _matrices(i, offsets, kernel, "matrix_store")
    assert (value.dtype, value.count) == (dtype, count), f"{i}: {value} for {dtype} x {count}"
    expect(i, None)


def _copy(i: Instruction, kernel: Kernel) -> None:
    operands(i, 2, 3)
    to, source, *masks = i.args
    copy = i.attr
    assert isinstance(copy, Copy), f"{i}: {copy!r}"
    assert kernel.target.can("copy"), f"{kernel.target} has no {i.op}"
    assert 0 <= copy.tensor < len(kernel.tensors), f"{i}: tensor {copy.tensor}"
    _places(i, copy.to_places, to)
    _places(i, copy.from_places, source)
    _inside(i, copy.to_places, to, kernel, copy.buffer, copy.width)
    assert len(copy.to_places) == len(copy.from_places), f"{i}: {copy}"
    of, into = kernel.tensors[copy.tensor].dtype, kernel.buffers[copy.buffer].dtype
    assert of.bits == into.bits, f"{i}: {of} to {into}"
    assert copy.width * of.bytes in (4, 8, 16), f"{i}: width {copy.width}"
    for each in masks:
        assert each.dtype is MASK and each.count in (1, len(copy.to_places)), f"{i}: mask {each}"
    expect(i, None)


def bulk(i: Instruction, coordinates: tuple[Instruction, ...], offset: Instruction, kernel: Kernel) -> None:
    """A box between a tensor and a buffer by the copy engine."""
    attr = i.attr
    assert isinstance(attr, Bulk), f"{i}: {attr!r}"
    assert kernel.target.can("bulk"), f"{kernel.target} has no {i.op}"
    assert 0 <= attr.tensor < len(kernel.tensors), f"{i}: tensor {attr.tensor}"
    assert 0 <= attr.buffer < len(kernel.buffers), f"{i}: buffer {attr.buffer}"
    rank = kernel.tensors[attr.tensor].rank
    assert len(attr.box) == len(coordinates) == rank, f"{i}: {len(coordinates)} coordinates for rank {rank}"
    assert all(1 <= size <= 256 for size in attr.box), f"{i}: box {attr.box}"
    assert attr.swizzle in (0, 32, 64, 128), f"{i}: swizzle {attr.swizzle}"
    for each in (offset, *coordinates):
        assert each.dtype in (I32, I64) and each.count == 1, f"{i}: coordinate {each}"
    expect(i, None)


def _bulk_load(i: Instruction, kernel: Kernel) -> None:
    assert len(i.args) >= 3, f"{i} has {len(i.args)} operands"
    to, *coordinates, signal = i.args
    bulk(i, tuple(coordinates), to, kernel)
    assert signal.dtype is I32 and signal.count == 1, f"{i}: signal {signal}"


def _bulk_store(i: Instruction, kernel: Kernel) -> None:
    assert len(i.args) >= 2, f"{i} has {len(i.args)} operands"
    bulk(i, i.args[1:], i.args[0], kernel)


def _groups(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert type(i.attr) is int and i.attr >= 0, f"{i}: {i.attr!r} groups"


def _bulk_wait(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert isinstance(i.attr, BulkWait) and i.attr.groups >= 0, f"{i}: {i.attr!r}"


RULES: dict[str, Rule] = {
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "remote_load": _remote_load,
    "remote_store": _remote_store,
    "remote_send": _remote_send,
    "matrix_load": _matrix_load,
    "matrix_store": _matrix_store,
    "copy": _copy,
    "copy_wait": _groups,
    "bulk_load": _bulk_load,
    "bulk_store": _bulk_store,
    "bulk_wait": _bulk_wait,
}
