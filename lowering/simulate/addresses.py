"""Where vector accesses go, checked; and the moves of their elements.

An access moves a *vector*: some neighbouring elements. Vectors of a value are arrays
[accesses, threads, width], while registers are [accesses * width, threads].
"""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Buffer, Instruction
from gizml_tile.lowering.simulate import costs
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.threads import Threads

Places = tuple[tuple[int, int], ...]


def offsets_of(threads: Threads, value: Instruction, places: Places) -> Array:
    """The first element of each access: [accesses, threads]."""
    held = threads.wide(value)
    registers = [register for register, _ in places]
    constants = np.array([number for _, number in places], held.dtype)[:, None]
    if registers == list(range(len(held))):
        return np.asarray(held + constants)
    return np.asarray(held[registers] + constants)


def mask_of(threads: Threads, mask: Instruction | None, accesses: int) -> Array | None:
    """Which accesses take place: [accesses, threads], or None where all do."""
    given = None if mask is None else threads.get(mask)
    if given is not None and given.all():
        given = None
    if given is None and threads.active is None:
        return None
    chosen = np.ones((1, 1), np.bool_) if given is None else given
    if threads.active is not None:
        chosen = chosen & threads.active
    return np.broadcast_to(chosen, (accesses, threads.size))


def registers_of(vectors: Array) -> Array:
    """[accesses, threads, width] as [accesses * width, threads]."""
    accesses, threads, width = vectors.shape
    if width == 1:
        return vectors.reshape(accesses, threads)
    made = np.empty((accesses, width, threads), vectors.dtype)
    for number in range(width):
        made[:, number] = vectors[:, :, number]
    return made.reshape(accesses * width, threads)


def vectors_of(registers: Array, width: int) -> Array:
    """[accesses * width, threads] as [accesses, threads, width]."""
    threads = registers.shape[1]
    return np.ascontiguousarray(registers.reshape(-1, width, threads).transpose(0, 2, 1))


# NumPy moves a vector at once, as one element of a type of its size.
_WHOLE = {2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class Vectors:
    """Vectors in a memory: the first element of each, and which take place (None: all)."""

    def __init__(self, data: Array, first: Array, width: int, mask: Array | None, aligned: bool) -> None:
        self.data = data
        self.first = first
        self.width = width
        self.mask = mask
        self._type = _WHOLE.get(width * data.itemsize) if aligned and width > 1 else None
        if data.ctypes.data % (width * data.itemsize):  # which NumPy would copy first
            self._type = None

    def take(self) -> Array:
        """The elements; anything where a vector does not take place."""
        if self.width == 1:
            return self.data.take(self.first, mode="clip")[:, :, None]
        if self._type is None:
            return self.data.take(self.first[:, :, None] + np.arange(self.width), mode="clip")
        taken = self._whole().take(self.first // self.width, mode="clip")
        return taken.view(self.data.dtype).reshape(*self.first.shape, self.width)

    def put(self, vectors: Array) -> None:
        """Replace the elements; of vectors in the same place the last one stays."""
        first = self.first if self.mask is None else self.first[self.mask]
        chosen = vectors if self.mask is None else vectors[self.mask]
        if self.width == 1:
            self.data[first] = chosen[..., 0]
        elif self._type is None:
            self.data[first[..., None] + np.arange(self.width)] = chosen
        else:
            whole: Array = np.ascontiguousarray(chosen).view(self._type)
            self._whole()[first // self.width] = whole[..., 0]

    def _whole(self) -> Array:
        assert self._type is not None
        return self.data[: self.data.size // self.width * self.width].view(self._type)

    def elements(self, threads: Threads) -> tuple[Array, Array]:
        """The elements that are accessed, vector by vector, and the thread of each."""
        who = self.who(threads)
        first = self.first.reshape(-1) if self.mask is None else self.first[self.mask]
        if self.width == 1:
            return first, who
        return (first[:, None] + np.arange(self.width)).reshape(-1), np.repeat(who, self.width)

    def who(self, threads: Threads) -> Array:
        """The thread of each vector that takes place."""
        if self.mask is None:
            return np.broadcast_to(threads.everyone, self.first.shape).reshape(-1)
        return np.nonzero(self.mask)[1]


def in_tensor(
    threads: Threads, at: Instruction, tensor: Tensor, first: Array, width: int, mask: Array | None
) -> Vectors:
    """Vectors of a tensor; those outside of it are reported and left out."""
    batch = threads.batch
    first = first.astype(np.int64) + tensor.offset
    bad = ~tensor.inside(first, width)
    if mask is not None:
        bad &= mask
    name = tensor.name
    if bad.any():
        access, thread = np.argwhere(bad)[0]
        element = int(first[access, thread]) - tensor.offset
        text = f"{threads.name(thread)} accesses element {element} of {name}, which has {tensor.extent}"
        batch.log.add("out of bounds", at, text, int(bad.sum()))
        mask = ~bad if mask is None else mask & ~bad
    size = tensor.data.itemsize
    address = first * size
    aligned = width == 1 or _aligned(threads, at, address, width * size, mask, name)
    if batch.counts:
        costs.sectors(threads, at, name, address, width * size, mask)
    if mask is not None:
        first = np.where(mask, first, tensor.first)
    return Vectors(tensor.data, first, width, mask, aligned)


class WorkgroupVectors(Vectors):
    """Vectors of a buffer; those outside of it are reported and left out.

    ``address`` is the byte of each in its workgroup's memory, which is that of ``whose`` workgroup by thread.
    """

    def __init__(
        self,
        threads: Threads,
        at: Instruction,
        buffer: Buffer,
        first: Array,
        width: int,
        mask: Array | None,
        whose: Array | None = None,
    ) -> None:
        batch = threads.batch
        self.whose = threads.workgroup if whose is None else whose
        size = buffer.dtype.bytes
        self.bytes = width * size
        first = first.astype(np.int64)
        bad = (first < 0) | (first > buffer.elements - width)
        if mask is not None:
            bad &= mask
        if bad.any():
            access, thread = np.argwhere(bad)[0]
            text = f"{threads.name(thread)} accesses element {int(first[access, thread])} of {buffer.name}, "
            text += f"which has {buffer.elements} elements"
            batch.log.add("out of bounds", at, text, int(bad.sum()))
            mask = ~bad if mask is None else mask & ~bad
        if mask is not None:
            first = np.where(mask, first, 0)
        self.address = first * size + buffer.offset
        aligned = width == 1 or _aligned(threads, at, self.address, self.bytes, mask, buffer.name)
        if batch.counts:
            costs.wavefronts(threads, at, buffer.name, self.address, self.bytes, mask)
        place = first + self.whose * (batch.memory.bytes // size) + buffer.offset // size
        super().__init__(batch.memory.view(buffer), place, width, mask, aligned)

    def granules(self, threads: Threads, mask: Array | None) -> tuple[Array, Array]:
        """The granules of the vectors of a mask, and the thread of each."""
        if mask is None:
            address, who = self.address.reshape(-1), self.who(threads)
        else:
            address, who = self.address[mask], np.nonzero(mask)[1]
        return threads.batch.memory.keys(self.whose, address, who, self.bytes)


def _aligned(
    threads: Threads, at: Instruction, address: Array, bytes: int, mask: Array | None, name: str
) -> bool:
    """Whether addresses are multiples of the vectors' size; reports those that are not."""
    bytes &= -bytes
    bad = address & (bytes - 1) != 0
    if not bad.any():
        return True
    if mask is not None:
        bad &= mask
    if bad.any():
        access, thread = np.argwhere(bad)[0]
        byte = int(address[access, thread])
        text = f"{threads.name(thread)} accesses {bytes} bytes of {name} at byte {byte}, no multiple of that"
        threads.batch.log.add("misaligned", at, text, int(bad.sum()))
    return False
