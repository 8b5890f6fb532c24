"""Tensors in global memory: bounds, and races within a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gizml_tile.dtypes import DType
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Bulk, Instruction, Kernel
from gizml_tile.lowering.simulate.findings import BETWEEN_PROGRAMS, BOTH_WRITE
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

    def __init__(self, name: str, memory: Memory, dtype: DType) -> None:
        self.name = name
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

    @property
    def where(self) -> tuple[int, int]:
        """What tensors of one memory share: where its data are, and the size of an element."""
        return self.data.ctypes.data, self.data.itemsize

    @property
    def extent(self) -> str:
        """What it has, for texts."""
        return f"shape {list(self.memory.shape)} and strides {list(self.memory.strides)}"

    def named(self, element: int) -> str:
        """An element of the data by the tensor's name and its place along each axis, such as ``x[3, 17]``."""
        left, places = element - self.offset, {}
        shape, strides = self.memory.shape, self.memory.strides
        for axis in sorted(range(len(shape)), key=lambda axis: -abs(strides[axis])):
            step = strides[axis]
            places[axis] = min(max(left // step, 0), shape[axis] - 1) if step and shape[axis] > 1 else 0
            left -= places[axis] * step
        at = ", ".join(str(places[axis]) for axis in range(len(shape)))
        return f"{self.name}[{at}]" if not left else f"element {element - self.offset} of {self.name}"

    def inside(self, first: Array, width: int) -> Array:
        """Whether accesses of ``width`` elements from ``first`` on (in the data) touch only the tensor."""
        inside = (first >= self.first) & (first + (width - 1) <= self.last)
        if self.member is not None:
            for number in range(width):
                inside &= self.member[np.where(inside, first + number, self.first)]
        return np.asarray(inside)


_WORKGROUP, _TIME = 40, 10  # bits: a workgroup's number, the time in its batch, the thread
_THREAD = (1 << _TIME) - 1


class Shadow:
    """Who wrote and read each element of a memory that a kernel writes, last: one number, or -1.

    ``other`` is the last that read it of another workgroup than its ``reader`` is of. ``combined`` tells
    which ones were last written by what nothing comes between.
    """

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, -1, np.int64)
        self.reader = np.full(size, -1, np.int64)
        self.other = np.full(size, -1, np.int64)
        self.combined = np.zeros(size, np.bool_)

    def saved(self) -> tuple[Array, ...]:
        """Copies of everything, for `restore`."""
        return self.writer.copy(), self.reader.copy(), self.other.copy(), self.combined.copy()

    def restore(self, saved: tuple[Array, ...]) -> None:
        """Go back to what was saved."""
        self.writer, self.reader, self.other, self.combined = saved

    def read(self, threads: Threads, at: Instruction, tensor: Tensor, elements: Array, who: Array) -> None:
        """Check and remember reads of elements by threads, one for each."""
        threads.touch(who)
        _Accesses(threads, at, tensor, elements, who, "reads").meet(self.writer[elements], "writes")
        codes, before = _codes(threads, who), self.reader[elements]
        self.reader[elements] = codes
        now = self.reader[elements] >> _WORKGROUP
        for each in (before, codes):
            foreign = (each >= 0) & (each >> _WORKGROUP != now)
            self.other[elements[foreign]] = each[foreign]

    def before_write(
        self, threads: Threads, at: Instruction, tensor: Tensor, elements: Array, who: Array, values: Array
    ) -> None:
        """Report writes that meet others' accesses; workgroups may write the same bits."""
        writing = _Accesses(threads, at, tensor, elements, who, "writes")
        bits = _bits(values)
        writing.meet(
            self.writer[elements],
            "writes with other bits",
            tensor.data[elements].view(bits) == values.view(bits),
        )
        for readers in (self.reader, self.other):
            writing.meet(readers[elements], "reads")

    def after_write(
        self, threads: Threads, at: Instruction, tensor: Tensor, elements: Array, who: Array, values: Array
    ) -> None:
        """Remember writes; reports different ones of an element in the same instruction."""
        threads.touch(who)
        codes = _codes(threads, who)
        self.writer[elements] = codes
        self.combined[elements] = False
        twice = self.writer[elements] != codes
        if twice.any():
            bits = _bits(values)
            twice &= tensor.data[elements].view(bits) != values.view(bits)
            writing = _Accesses(threads, at, tensor, elements, who, "writes")
            others = self.writer[elements]
            writing.report(
                twice, others, "writes with other bits", others >> _WORKGROUP != codes >> _WORKGROUP
            )

    def combine(self, threads: Threads, at: Instruction, tensor: Tensor, elements: Array, who: Array) -> None:
        """Report atomic accesses that meet others' plain ones, and remember them."""
        threads.touch(who)
        changing = _Accesses(threads, at, tensor, elements, who, "changes")
        writers = self.writer[elements]
        changing.meet(np.where(self.combined[elements], -1, writers), "writes")
        for readers in (self.reader, self.other):
            changing.meet(readers[elements], "reads")
        self.writer[elements] = _codes(threads, who)
        self.combined[elements] = True


@dataclass(frozen=True, slots=True)
class _Accesses:
    """What threads do to elements of a tensor in an instruction, one to each."""

    threads: Threads
    at: Instruction
    tensor: Tensor
    elements: Array
    who: Array
    verb: str

    def meet(self, codes: Array, other: str, equal: Array | None = None) -> None:
        """Report those that meet what others did, of which a code tells for each who and when, or -1.

        Of different workgroups ``equal`` accesses may meet.
        """
        known = np.flatnonzero(codes >= 0)
        if not len(known):
            return
        foreign, unordered = np.zeros((2, len(codes)), np.bool_)
        foreign[known], unordered[known] = _found(self.threads, codes[known], self.who[known])
        if equal is not None:
            foreign &= ~equal
        self.report(foreign | unordered, codes, other, foreign)

    def report(self, bad: Array, codes: Array, other: str, foreign: Array) -> None:
        """Report bad ones, of which the ``foreign`` ones meet those of another workgroup."""
        if not bad.any():
            return
        first = int(np.flatnonzero(bad)[0])
        code, threads = int(codes[first]), self.threads
        text = (
            f"{threads.name(int(self.who[first]))} {self.verb} {self.tensor.named(int(self.elements[first]))}"
        )
        text += f", which thread {code & _THREAD} of workgroup {code >> _WORKGROUP} {other}"
        text += ", and nothing orders the two"
        both = self.verb == "writes" and other != "reads"
        fix = (BOTH_WRITE if both else BETWEEN_PROGRAMS) if foreign[first] else ""
        threads.batch.log.add("race", self.at, text, int(bad.sum()), fix)


def _codes(threads: Threads, who: Array) -> Array:
    batch = threads.batch
    place = (batch.numbers << _WORKGROUP) + (batch.clocks.now << _TIME)
    return np.asarray(place[threads.workgroup[who]] + threads.thread[who])


def _found(threads: Threads, codes: Array, who: Array) -> tuple[Array, Array]:
    """Whether accesses were another workgroup's, or of this one but not ordered before."""
    batch = threads.batch
    workgroups = threads.workgroup[who]
    foreign = codes >> _WORKGROUP != batch.numbers[workgroups]
    agents = codes & _THREAD
    times = codes >> _TIME & (1 << _WORKGROUP - _TIME) - 1
    over = batch.clocks.over(threads, who, batch.clocks.part_of[agents], times)
    return np.asarray(foreign), np.asarray(~foreign & ~over & (agents != threads.thread[who]))


def _bits(data: Array) -> np.dtype[Any]:
    return np.dtype(f"u{data.dtype.itemsize}")


def written_tensors(kernel: Kernel) -> frozenset[int]:
    """The tensors that a kernel writes."""
    written = set()
    for each in kernel.body.walk():
        match each.op, each.attr:
            case "store" | "atomic" | "update", Access(space, memory) if space == GLOBAL:
                written.add(memory)
            case "bulk_store", Bulk(tensor):
                written.add(tensor)
    return frozenset(written)


def tensors_of(kernel: Kernel, memories: list[Memory], checks: bool) -> list[Tensor]:
    """The kernel's tensors; those that share data share a shadow."""
    tensors = [
        Tensor(each.name, memory, each.dtype) for memory, each in zip(memories, kernel.tensors, strict=True)
    ]
    if checks:
        shadows: dict[tuple[int, int], Shadow] = {}
        for number in written_tensors(kernel):
            shadows.setdefault(tensors[number].where, Shadow(tensors[number].data.size))
        for tensor in tensors:
            tensor.shadow = shadows.get(tensor.where)
    return tensors
