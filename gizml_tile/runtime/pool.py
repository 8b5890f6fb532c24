"""Worker threads that share out a launch, and the launch itself: one at a time on all cores."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import mmap
import os
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import TileError, here
from . import disk_cache
from .compiler import Code, compile_text, load_object
from .host import Host, host
from .pool_code import ARENAS, BUSY, FUNCTIONS, GROW, pool_text

_SPIN_SECONDS = 40e-6
_FIRST_ARENA_BYTES = 64 << 10
_PAGE = 4096
_HUGE_PAGE = 2 << 20
# From this size on an arena in small pages costs more in address translation than it saves in memory.
_HUGE_ARENA_BYTES = 256 << 10
_STOP_SECONDS = 5.0
# Words of the pool that only this side writes; pool_code.py has them all.
_LOCK, _TICKET, _EPOCH, _STOP, _SPIN_TURNS = 56, 64, 192, 200, 208

_Address = ctypes.c_void_p
_Word = ctypes.c_int64


@dataclass(frozen=True, slots=True)
class Native:
    """The pool's native functions; `launch` and `worker` give up Python's lock while they run."""

    code: Code
    worker: Any
    launch: Any
    lock: Any
    unlock: Any
    stop: Any
    release: Any
    spin_turns: int
    futex: bool


@lru_cache
def native(futex: bool | None = None) -> Native:
    """The native functions for this computer, from the disk cache where they are there."""
    this = host()
    if futex is None:
        futex = sys.platform.startswith("linux")
    text = pool_text(this.triple, futex)
    key = f"pool {hashlib.sha256(text.encode()).hexdigest()} {this.triple}"
    entry = disk_cache.get(key)
    if entry is None:
        # Nothing here gains from vector units, so one entry serves every choice of them.
        base = Host(this.triple, this.cpu_base, (), 128, False, False, 1, 0, 0, 0)
        entry = disk_cache.Entry({}, compile_text(text, base))
        disk_cache.put(key, entry, "code that launches kernels")
    code = load_object(entry.data, FUNCTIONS)
    unlocked, locked = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
    return Native(
        code,
        unlocked(_Word, _Address, _Word)(code.address("worker")),
        unlocked(_Word, _Address, _Address, _Address, _Word)(code.address("launch")),
        locked(_Word, _Address)(code.address("lock")),
        locked(None, _Address)(code.address("unlock")),
        locked(None, _Address)(code.address("stop")),
        unlocked(None, _Address)(code.address("release")),
        _spin_turns(locked(None, _Word)(code.address("spin"))),
        futex,
    )


class Pool:
    """Threads, their arenas and the launch's scratch memory; ``address`` is what kernels are given.

    A pool of one thread starts none: everything runs in the caller.
    """

    def __init__(self, threads: int, futex: bool | None = None) -> None:
        self.native = native(futex)
        self.threads = threads
        self.arena_bytes = 0
        self._memory, self.address = _pages(ARENAS + 8 * threads)
        weakref.finalize(self, _release, self.native, self.address, self._memory)
        self._arenas: Any = None
        self._wakes = 0
        self._wake_condition = threading.Condition()
        self._workers: list[threading.Thread] = []
        code = self.native.code
        self._set(0, code.address("run"))
        self._set(8, code.address("reserve"))
        self._set(16, threads)
        self._set(_SPIN_TURNS, self.native.spin_turns)
        self._allocate(_FIRST_ARENA_BYTES)
        self.stopped = True
        self.native.lock(self.address)
        self.start()

    def start(self) -> None:
        """Start the threads of a new or stopped pool, and take launches."""
        self._set(_STOP, 0)
        self.stopped = False
        self._workers = [
            threading.Thread(
                target=self._work, args=(number,), name=f"gizml_tile {number}", daemon=True
            )
            for number in range(1, self.threads)
        ]
        for worker in self._workers:
            # A system out of threads gives fewer; the caller does what they would have done.
            with contextlib.suppress(RuntimeError):
                worker.start()
        self.native.unlock(self.address)

    def stop(self, wait: bool = True) -> None:
        """End the threads; launches find the pool busy until `start`.

        A launch that is running is waited for, or keeps the pool as it is where ``wait`` is false.
        """
        while not self.stopped and not self.native.lock(self.address):
            if not wait:
                return
            time.sleep(0)
        if self.stopped:
            return
        with self._wake_condition:
            self.stopped = True
            self._wake_condition.notify_all()
        self.native.stop(self.address)
        for worker in self._workers:
            if worker.is_alive():
                worker.join(_STOP_SECONDS)

    def abandon(self) -> None:
        """In a forked child, which has the pool's memory and none of its threads: count as stopped."""
        self._wake_condition = threading.Condition()
        self._workers = []
        self.stopped = True
        self._set(_TICKET, 0)
        self._set(_EPOCH, 0)
        self._set(_LOCK, 1)

    def launch(self, entry: int, args: int | bytes, arena_bytes: int) -> int:
        """Run a kernel's entry on all threads: its status, or BUSY where another launch is running."""
        if not self.native.futex and self._workers:
            with self._wake_condition:
                self._wakes += 1
                self._wake_condition.notify_all()
        status: int = self.native.launch(entry, args, self.address, arena_bytes)
        while status == GROW:
            self.ensure_arena(arena_bytes)
            status = self.native.launch(entry, args, self.address, arena_bytes)
        return status

    def ensure_arena(self, bytes_each: int) -> None:
        """Give every thread an arena of at least so many bytes, waiting for a launch that is running."""
        while not self.native.lock(self.address):
            if self.stopped:
                return
            time.sleep(0)
        try:
            if bytes_each > self.arena_bytes:
                self._allocate(bytes_each)
        finally:
            self.native.unlock(self.address)

    def _set(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(self.address + offset).value = value

    def _allocate(self, bytes_each: int) -> None:
        """New arenas, untouched, so that each thread's pages come to lie near the thread."""
        page = _HUGE_PAGE if bytes_each >= _HUGE_ARENA_BYTES else _PAGE
        step = -(-bytes_each // page) * page
        memory, address = _pages(step * self.threads, page)
        for number in range(self.threads):
            self._set(ARENAS + 8 * number, address + step * number)
        self._arenas = memory
        self.arena_bytes = step
        self._set(24, step)

    def _work(self, number: int) -> None:
        worker, seen = self.native.worker, 0
        while not worker(self.address, number):
            # Out of turns where the native side cannot sleep by itself.
            with self._wake_condition:
                while self._wakes == seen and not self.stopped:
                    self._wake_condition.wait()
                seen = self._wakes


def launch(entry: int, args: int | bytes, arena_bytes: int) -> None:
    """Run a kernel's entry; beside a launch that is running it runs in this thread alone.

    Raises TileError where there is not enough memory.
    """
    pool = _pool or shared_pool()
    status = pool.launch(entry, args, arena_bytes)
    if status == BUSY and pool.stopped:
        status = shared_pool().launch(entry, args, arena_bytes)
    if status == BUSY:
        status = _own_pool().launch(entry, args, arena_bytes)
    if status:
        raise TileError("there is not enough memory for this launch's scratch space", here())


def shared_pool() -> Pool:
    """The process's pool, made at the first launch and started again after a fork."""
    global _pool
    with _making:
        if _pool is None:
            _pool = Pool(host().threads)
            current_address.value = _pool.address
        elif _pool.stopped and not _exiting:
            _pool.start()
        return _pool


def _own_pool() -> Pool:
    """This thread's pool of one, for launches beside another."""
    pool: Pool | None = getattr(_thread, "pool", None)
    if pool is None:
        pool = _thread.pool = Pool(1)
    return pool


_pool: Pool | None = None
# The shared pool's address for native code, 0 before there is one. A pool is never replaced: native
# code may hold its address while the threads end and start again.
current_address = ctypes.c_int64()
_making = threading.Lock()
_thread = threading.local()
_exiting = False


def _at_exit() -> None:
    global _exiting
    with _making:
        _exiting = True
        if _pool is not None:
            _pool.stop()


def _before_fork() -> None:
    """End the threads before a fork, unless they are at work: a process without threads forks safely."""
    with _making:
        if _pool is not None:
            _pool.stop(wait=False)


def _after_fork_in_child() -> None:
    global _making, _thread
    _making = threading.Lock()
    _thread = threading.local()
    if _pool is not None:
        _pool.abandon()


# A worker's code is unmapped while the interpreter goes down, so the workers must have left it.
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def _release(functions: Native, address: int, memory: Any) -> None:
    """Give back a pool's scratch memory; ``memory`` only has to live until then."""
    functions.release(address)


def _pages(size: int, alignment: int = _PAGE) -> tuple[Any, int]:
    """Zeroed private memory of its own pages: what keeps it, and its address."""
    size = -(-size // _PAGE) * _PAGE + (alignment if alignment > _PAGE else 0)
    try:
        if sys.platform == "win32":
            memory = mmap.mmap(-1, size)
        else:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
    except (OSError, ValueError, OverflowError):
        raise TileError(
            f"there is not enough memory for {size} bytes of scratch space", here()
        ) from None
    if alignment > _PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(start)
    return (memory, start), -(-address // alignment) * alignment


def _spin_turns(spin: Any) -> int:
    """How many turns of waiting take as long as going to sleep and being woken."""
    turns = 256
    seconds = min(_timed(spin, turns) for _ in range(4))
    return max(16, int(turns * _SPIN_SECONDS / seconds))


def _timed(function: Any, argument: int) -> float:
    start = time.perf_counter()
    function(argument)
    return max(time.perf_counter() - start, 1e-9)
