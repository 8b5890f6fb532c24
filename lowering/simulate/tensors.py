"""Tensors in global memory: bounds, and races within a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gizml_tile.dtypes import DType
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Bulk, Instruction, Kernel
from gizml_tile.lowering.simulate.findings import Log
from gizml_tile.lowering.simulate.numbers import HELD, Array

if TYPE_CHECKING:
    from gizml_tile.lowering.simulate.threads import Threads


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A tensor's elements: a one-dimensional array, and which of its elements are the tensor's.

    ``data`` may be of any NumPy or ml_dtypes type whose bits are the storage type's; ``offset`` is the
    number of the element at index zero, ``strides`` count elements. Tensors may share ``data``. Element 0
    of ``data`` is taken to lie at a multiple of 256 bytes.
    """

    data: np.ndarray[Any, Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> Memory:
        """A NumPy array that lies in one piece, in row-major order, which shares its memory."""
        flat = array.reshape(-1)
        assert np.shares_memory(flat, array) or not array.size, "the array is not contiguous"
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return Memory(flat, 0, array.shape, strides)


class Tensor:
    """A tensor as a kernel's accesses see it, and the shadow of its memory if it is written."""

    def __init__(self, memory: Memory, dtype: DType) -> None:
        assert memory.data.ndim == 1, "a tensor's data is one-dimensional"
        self.memory = memory
        self.dtype = dtype
        self.data = memory.data.view(HELD[dtype])
        self.offset = memory.offset
        ends = [(size - 1) * stride for size, stride in zip(memory.shape, memory.strides, strict=True)]
        empty = 0 in memory.shape
        self.first = self.offset + sum(end for end in ends if end < 0)
        self.last = -1 if empty else self.offset + sum(end for end in ends if end > 0)
        assert empty or (self.first >= 0 and self.last < self.data.size), "a tensor outside its data"
        self.member = None if empty or self._is_dense() else self._members()
        self.shadow: Shadow | None = None

    def _is_dense(self) -> bool:
        needed = 1
        for stride, size in sorted(
            (abs(stride), size)
            for size, stride in zip(self.memory.shape, self.memory.strides, strict=True)
            if size > 1
        ):
            if stride > needed:
                return False
            needed = max(needed, stride * (size - 1) + needed)
        return True

    def _members(self) -> Array:
        member = np.zeros(self.data.size, np.bool_)
        at = np.array(self.offset)
        for size, stride in zip(self.memory.shape, self.memory.strides, strict=True):
            at = at[..., None] + np.arange(size) * stride
        member[at] = True
        return member

    def inside(self, first: Array, width: int) -> Array:
        """Whether accesses of ``width`` elements from ``first`` on (in the data) touch only the tensor."""
        inside = (first >= self.first) & (first + (width - 1) <= self.last)
        if self.member is not None:
            for number in range(width):
                inside &= self.member[np.where(inside, first + number, self.first)]
        return np.asarray(inside)


class Shadow:
    """Who wrote and read each element of a memory that a kernel writes, last."""

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, -1, np.int32)  # the workgroup's number in the launch
        self.writer_code = np.zeros(size, np.int64)  # time << 10 | thread
        self.reader = np.full(size, -1, np.int32)
        self.reader_code = np.zeros(size, np.int64)

    def saved(self) -> tuple[Array, ...]:
        """Copies of everything, for `restore`."""
        return tuple(each.copy() for each in (self.writer, self.writer_code, self.reader, self.reader_code))

    def restore(self, saved: tuple[Array, ...]) -> None:
        """Go back to what was saved."""
        self.writer, self.writer_code, self.reader, self.reader_code = saved

    def read(
        self, threads: Threads, at: Instruction, log: Log, elements: Array, who: Array, name: str
    ) -> None:
        """Check and remember reads of elements by threads, one for each."""
        workgroup = threads.batch.numbers[threads.workgroup[who]]
        writer = self.writer[elements]
        bad = (writer >= 0) & (writer != workgroup)
        bad |= (writer == workgroup) & self._unordered(threads, self.writer_code[elements], who)
        _report(threads, at, log, bad, elements, who, f"reads {name}", "write")
        self.reader[elements] = workgroup
        self.reader_code[elements] = threads.batch.clocks.now << 10 | threads.thread[who]

    def write(
        self,
        threads: Threads,
        at: Instruction,
        log: Log,
        elements: Array,
        who: Array,
        name: str,
        data: Array,
        values: Array,
    ) -> None:
        """Check and remember writes, and do them."""
        workgroup = threads.batch.numbers[threads.workgroup[who]]
        writer = self.writer[elements]
        other = data[elements].view(_bits(data)) != values.view(_bits(data))
        bad = (writer >= 0) & (writer != workgroup) & other
        bad |= (writer == workgroup) & self._unordered(threads, self.writer_code[elements], who)
        _report(threads, at, log, bad, elements, who, f"writes {name}", "write")
        reader = self.reader[elements]
        bad = (reader >= 0) & (reader != workgroup)
        bad |= (reader == workgroup) & self._unordered(threads, self.reader_code[elements], who)
        _report(threads, at, log, bad, elements, who, f"writes {name}", "read")
        data[elements] = values
        self.writer[elements] = workgroup
        codes = threads.batch.clocks.now << 10 | threads.thread[who]
        self.writer_code[elements] = codes
        twice = (self.writer_code[elements] != codes) | (self.writer[elements] != workgroup)
        if twice.any():
            twice &= data[elements].view(_bits(data)) != values.view(_bits(data))
            _report(threads, at, log, twice, elements, who, f"writes {name}", "write in the same instruction")

    def _unordered(self, threads: Threads, codes: Array, who: Array) -> Array:
        clocks = threads.batch.clocks
        times = codes >> 10
        agents = codes & 1023
        unordered = times >= clocks.floor
        if unordered.any():
            over = clocks.over(threads.workgroup[who], threads.warp[who], clocks.part_of[agents], times)
            unordered &= ~over & (agents != threads.thread[who])
        return np.asarray(unordered)


def _bits(data: Array) -> np.dtype[Any]:
    return np.dtype(f"u{data.dtype.itemsize}")


def _report(
    threads: Threads,
    at: Instruction,
    log: Log,
    bad: Array,
    elements: Array,
    who: Array,
    what: str,
    other: str,
) -> None:
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        text = f"{threads.name(int(who[first]))} {what} (element {int(elements[first])} of its memory)"
        log.add("race", at, f"{text}, not ordered with a {other} of it by another thread", int(bad.sum()))


def written_tensors(kernel: Kernel) -> frozenset[int]:
    """The tensors that a kernel writes."""
    written = set()
    for each in kernel.body.walk():
        match each.op, each.attr:
            case "store", Access(space, memory) if space == GLOBAL:
                written.add(memory)
            case "bulk_store", Bulk(tensor):
                written.add(tensor)
    return frozenset(written)


def tensors_of(kernel: Kernel, memories: list[Memory], checks: bool) -> list[Tensor]:
    """The kernel's tensors; those that share data share a shadow."""
    tensors = [Tensor(memory, each.dtype) for memory, each in zip(memories, kernel.tensors, strict=True)]
    if checks:
        shadows: dict[int, Shadow] = {}
        for number in written_tensors(kernel):
            data = tensors[number].memory.data
            shadows.setdefault(id(data), Shadow(data.size))
        for tensor in tensors:
            tensor.shadow = shadows.get(id(tensor.memory.data))
    return tensors
