"""Workgroup memory while a kernel is expanded: who has which bytes, and where barriers must stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gizml_tile.dtypes import I32, DType
from gizml_tile.errors import TileError
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import Buffer

_ALIGNMENT = 128
# A new buffer avoids bytes that a barrier would have to free, as long as the total stays under this.
_ROOMY_BYTES = 16 * 1024

_Range = tuple[int, int]


@dataclass(slots=True)
class _Pending:
    """The byte ranges that threads have written and read since they last met."""

    written: list[_Range]
    read: list[_Range]


class WorkgroupMemory:
    """Hands out buffers, takes them back, and puts a barrier before an access that needs one.

    A write needs one where bytes were read or written since the last barrier, a read where they were
    written. A loop's body starts as if everything had just been used, because its last turn may have.
    """

    def __init__(self, build: Builder, threads: int, limit: int, barrier: int = 0) -> None:
        self.buffers: list[Buffer] = []
        self._build = build
        self._threads = threads
        self._barrier = barrier
        # Of how many programs beside one another each has bytes of its own, and which of them runs.
        self._shares: int = 1
        self._share: Value | None = None
        self.limit = limit
        self._taken: dict[int, _Range] = {}
        self._idle: list[int] = []
        self._pending = _Pending([], [])

    @property
    def bytes(self) -> int:
        """Bytes in use by all buffers so far."""
        return max((buffer.offset + buffer.bytes for buffer in self.buffers), default=0)

    def allocate(self, name: str, dtype: DType, elements: int, whole: int = _ALIGNMENT) -> int:
        """A buffer's number; it takes ``whole`` bytes or a multiple.

        Raises TileError where the device has not that much.
        """
        size = -(-elements * dtype.bytes // whole) * whole * self._shares
        busy = [*self._pending.written, *self._pending.read]
        offset = self._place(size, [*self._taken.values(), *busy])
        if offset + size > max(self.bytes, _ROOMY_BYTES):
            offset = self._place(size, list(self._taken.values()))
        if offset + size > self.limit:
            for number in self._idle:
                self.release(number)
            self._idle = []
            offset = self._place(size, list(self._taken.values()))
        if offset + size > self.limit:
            raise TileError(
                f"the program needs {offset + size} bytes of workgroup memory and a workgroup has "
                f"{self.limit}; make the blocks smaller or the stages fewer",
                self._build.place,
            )
        number = len(self.buffers)
        elements = elements if self._share is None else size // dtype.bytes
        self.buffers.append(Buffer(name, dtype, elements, offset))
        if self._share is not None:
            each = self._build.constant(size // self._shares // dtype.bytes, I32)
            self._build.shifts[number] = self._build.mul(self._share, each)
        self._taken[number] = (offset, offset + size)
        return number

    def fits(self, bytes: int, limit: int) -> bool:
        """Whether a buffer of so many bytes ends below a limit."""
        return self._place(bytes, list(self._taken.values())) + bytes <= limit

    def release(self, number: int) -> None:
        """Let others have a buffer's bytes, where all threads would know that it is free."""
        if self._shares == 1:
            del self._taken[number]

    def idle(self, number: int) -> None:
        """Let others have a buffer's bytes where they find no room else."""
        self.before_read(number)
        self._idle.append(number)

    def barrier(self) -> None:
        """All threads of the workgroup meet."""
        self._build.barrier(self._barrier, self._threads, each=self._shares > 1)
        self._pending = _Pending([], [])

    def before_write(self, number: int) -> None:
        """Meet if someone may still be using these bytes, and note that they are written."""
        mine = self._range(number)
        if _meets(mine, self._pending.written) or _meets(mine, self._pending.read):
            self.barrier()
        self._pending.written.append(mine)

    def before_read(self, *numbers: int) -> None:
        """Meet if someone may still be writing these bytes, and note that they are read from now on."""
        ranges = [self._range(number) for number in numbers]
        if any(_meets(mine, self._pending.written) for mine in ranges):
            self.barrier()
        self._pending.read += ranges

    def next_team(self) -> None:
        """Other threads run beside those so far; they meet at the next barrier and have their own bytes."""
        self._barrier += 1
        self._taken.update({number: self._range(number) for number in range(len(self.buffers))})
        self._pending = _Pending([], [])

    def share_out(self, shares: int, share: Value, barrier: int) -> None:
        """From here on each of some programs, of which one runs, has its own barrier and bytes."""
        self._shares, self._share, self._barrier = shares, share, barrier

    def in_place(self, number: int) -> None:
        """Note that each thread overwrites bytes which nobody else has used since the last meeting."""
        self._pending.written.append(self._range(number))

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Around a block that runs after itself, or not at all."""
        everything = (0, self.limit)
        before = self._pending
        self._pending = _Pending([everything], [everything])
        yield
        self._pending = _Pending(
            [*before.written, *self._pending.written], [*before.read, *self._pending.read]
        )

    @contextmanager
    def branched(self) -> Iterator[Callable[[], None]]:
        """Around a branch, each arm of which begins by calling what this gives.

        What one arm waits for the other has not; after the branch either may have run.
        """
        before, ends = self._pending, list[_Pending]()

        def begin() -> None:
            ends.append(self._pending)
            self._pending = _Pending([*before.written], [*before.read])

        yield begin
        ends.append(self._pending)
        written = [each for end in ends for each in end.written]
        self._pending = _Pending(written, [each for end in ends for each in end.read])

    def renamed(self, number: int, name: str) -> None:
        """Give a buffer a better name for the explanation."""
        self.buffers[number] = replace(self.buffers[number], name=name)

    def _range(self, number: int) -> _Range:
        buffer = self.buffers[number]
        return buffer.offset, buffer.offset + buffer.bytes

    def _place(self, size: int, taken: list[_Range]) -> int:
        offset = 0
        for start, end in sorted(taken):
            if offset + size <= start:
                break
            offset = max(offset, end)
        return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _meets(mine: _Range, others: list[_Range]) -> bool:
    return any(mine[0] < end and start < mine[1] for start, end in others)
