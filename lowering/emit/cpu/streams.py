"""Stores past the caches, into tensors that no cache would hold until someone reads them.

A store into a line that is in no cache has the line read first; one past the caches does not, if whole lines
are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.emit.cpu.access import Line
from gizml_tile.lowering.emit.cpu.builder import Function, Value
from gizml_tile.lowering.emit.cpu.evaluate import Place
from gizml_tile.lowering.emit.cpu.schedule import Task
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.shapes import CACHE_LINE_BYTES
from gizml_tile.nodes import tensor_of

_COPY = "memcpy"
# Shorter rows are copied before a call returns.
_LONG_BYTES = 1024
_FENCE = "llvm.x86.sse.sfence"


@dataclass
class Streams:
    """The stores of a pass; ``exceeds`` tells whether the tensors are larger than the caches.

    The stores of one turn wait until its end, where one branch chooses between the two kinds: no value is
    computed in two places.
    """

    scope: Scope
    exceeds: str
    waiting: list[tuple[str, str, str, int, int]] = field(default_factory=list)

    @staticmethod
    def of(scope: Scope, tasks: Sequence[Task]) -> Streams:
        function = scope.function
        total: Value = 0
        for number in sorted({tensor_of(task.node) for task in tasks}):
            size: Value = scope.unit.program.tensors[number].dtype.bytes
            for extent in scope.tensors[number].sizes:
                size = function.mul(size, extent)
            total = function.add(total, size)
        return Streams(scope, function.compare("sgt", total, scope.unit.stream_bytes))

    def begin(self, lines: Iterable[Line]) -> str:
        """Whether the stores of rows that are inside go past the caches; empty where they never do."""
        function, checks = self.scope.function, [self.exceeds]
        for line in lines:
            if line.stride_bytes != line.block.dtype.bytes:
                return ""
            address = function.emit(f"ptrtoint ptr {line.pointer} to i64")
            rest = function.emit(f"and i64 {address}, {CACHE_LINE_BYTES - 1}")
            checks.append(function.compare("eq", rest, 0))
        return function.all_of(checks)

    def take(self, line: Line, value: str, here: Place) -> None:
        """Takes a vector that lies inside, to be stored with the others of its turn."""
        dtype, arithmetic = line.block.dtype, here.arithmetic
        raw = arithmetic.encode(dtype, value)
        sizes = dtype.bytes, line.width * dtype.bytes
        self.waiting.append((arithmetic.storage_type(dtype), raw, line.address(here.column), *sizes))

    def store(self, past: str) -> None:
        """Stores what waits, past the caches if ``past``."""
        if not self.waiting:
            return
        function, waiting = self.scope.function, self.waiting
        self.waiting = []

        def around() -> list[str]:
            for kind, raw, address, _, align in waiting:
                function.store_past_caches(kind, raw, address, align)
            return []

        def through() -> list[str]:
            for kind, raw, address, align, _ in waiting:
                function.store(kind, raw, address, align)
            return []

        function.when(past, around, through)


def is_copy(to: Line, line: Line, columns: int) -> bool:
    """Whether a row is stored as it is read: neighbours of one type, and enough of them for a call."""
    dtype = line.block.dtype
    neighbours = to.stride_bytes == line.stride_bytes == dtype.bytes
    return neighbours and to.block.dtype is dtype is not MASK and columns * dtype.bytes >= _LONG_BYTES


def copy_row(
    function: Function, past: str, to: Line, line: Line, count: Value, turns: Callable[[], list[str]]
) -> None:
    """Copies elements of a row from the first on: past the caches by ``turns``, else by the C library.

    That knows what a processor moves fastest: rows of 4 KiB that caches hold come 5 % faster on a Zen 5.
    """

    def by_library() -> Sequence[str]:
        size = function.mul(count, line.block.dtype.bytes)
        function.module.declare(_COPY, f"ptr @{_COPY}(ptr, ptr, i64)")
        function.call("ptr", _COPY, f"ptr {to.pointer}", f"ptr {line.pointer}", f"i64 {size}")
        return ()

    function.when(past, turns, by_library)


def fence(function: Function) -> None:
    """Lets no thread see that programs are done before it sees what they stored past the caches."""
    function.module.declare(_FENCE, f"void @{_FENCE}()")
    function.call_void(_FENCE)
