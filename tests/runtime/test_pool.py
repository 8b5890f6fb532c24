"""The worker pool: every piece once, from any thread, after any fork, however late a worker wakes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from gizml_tile.errors import TileError
from gizml_tile.runtime import pool as module
from gizml_tile.runtime.pool import Pool, launch
from gizml_tile.runtime.pool_code import BUSY, pool_text


@pytest.fixture(params=["futex", "portable"] if sys.platform.startswith("linux") else ["portable"])
def pool(request):
    made = Pool(4, futex=request.param == "futex")
    yield made
    made.stop()


def arguments(array, *rest):
    return np.array([array.ctypes.data, *rest], np.int64)


def test_twenty_thousand_launches_count_right(pool, kernels):
    counts = np.zeros(4096, np.int64)
    entry = kernels.address("count")
    large, small = arguments(counts, 4096, 16, 1), arguments(counts, 37, 2, 1)
    for turn in range(20_000):
        assert pool.launch(entry, (large if turn % 2 else small).ctypes.data, 0) == 0
    assert (counts[:37] == 20_000).all() and (counts[37:] == 10_000).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 1000])
@pytest.mark.parametrize("chunk", [-1, 0, 1, 2, 7, 999, 1 << 62])
def test_every_index_once(pool, kernels, count, chunk):
    counts = np.zeros(count + 1, np.int64)
    passed = arguments(counts, count, chunk, 5)
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == 0
    assert (counts[:count] == 5).all() and counts[count] == 0


def test_phases_within_a_launch_see_each_other(pool, kernels):
    counts = np.zeros(64, np.int64)
    passed = arguments(counts, 64, 1, 5000)
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == 0
    assert (counts == 5000).all()


def test_workers_that_slept_wake(pool, kernels):
    counts = np.zeros(64, np.int64)
    passed = arguments(counts, 64, 1, 1)
    for _ in range(100):
        time.sleep(0.001)
        assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == 0
    assert (counts == 100).all()


@pytest.mark.parametrize("size", [64, 70_000, 300_000, 5_000_000])
def test_arenas_are_private_aligned_and_large_enough(pool, kernels, size):
    addresses = np.zeros(256, np.int64)
    passed = arguments(addresses, 256, size)
    assert pool.launch(kernels.address("arena"), passed.ctypes.data, size) == 0
    distinct = sorted(set(addresses))
    assert 1 <= len(distinct) <= 4 and all(address % 64 == 0 for address in distinct)
    assert all(high - low >= size for low, high in itertools.pairwise(distinct))
    assert pool.arena_bytes >= size


def test_scratch_is_kept_and_grows(pool, kernels):
    entry = kernels.address("scratch")
    place = np.zeros(1, np.int64)

    def reserve(size):
        passed = arguments(place, size)
        return pool.launch(entry, passed.ctypes.data, 0), int(place[0])

    status, first = reserve(1000)
    assert status == 0 and first % 64 == 0
    assert reserve(1 << 20) == (0, first)
    status, second = reserve(100 << 20)
    assert status == 0 and second % 64 == 0
    assert reserve(8) == (0, second)
    assert reserve(1 << 60) == (1, 0)
    assert reserve((1 << 63) - 1) == (1, 0)
    assert reserve(4096)[0] == 0


def test_a_second_launch_finds_the_pool_busy(pool, kernels):
    counts = np.zeros(8, np.int64)
    passed = arguments(counts, 8, 1, 1)
    assert pool.native.lock(pool.address)
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == BUSY
    assert (counts == 0).all()
    pool.native.unlock(pool.address)
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == 0


def test_eight_threads_launch_at_once(kernels):
    entry = kernels.address("count")
    counts = [np.zeros(512, np.int64) for _ in range(8)]
    failures = []

    def work(array):
        try:
            passed = arguments(array, 512, 8, 3)
            for turn in range(500):
                launch(entry, passed.ctypes.data, 1000 * turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(array,)) for array in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert all((array == 1500).all() for array in counts)


def test_a_forked_child_launches(kernels):
    if not hasattr(os, "fork"):
        return
    entry = kernels.address("count")
    counts = np.zeros(512, np.int64)
    passed = arguments(counts, 512, 8, 1)
    launch(entry, passed.ctypes.data, 0)
    child = os.fork()
    if child == 0:
        launch(entry, passed.ctypes.data, 0)
        os._exit(0 if (counts == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    launch(entry, passed.ctypes.data, 0)
    assert (counts == 2).all()


def test_no_thread_of_ours_is_alive_in_a_fork(kernels):
    counts = np.zeros(512, np.int64)
    launch(kernels.address("count"), arguments(counts, 512, 8, 1).ctypes.data, 0)
    workers = module.shared_pool()._workers
    assert len(workers) == module.shared_pool().threads - 1
    assert all(worker.is_alive() for worker in workers)
    module._before_fork()
    assert not any(worker.is_alive() for worker in workers)
    launch(kernels.address("count"), arguments(counts, 512, 8, 1).ctypes.data, 0)
    assert (counts == 2).all()


def test_a_child_forked_during_a_launch_launches(kernels):
    if not hasattr(os, "fork"):
        return
    entry = kernels.address("count")
    long_counts, counts = np.zeros(4096, np.int64), np.zeros(64, np.int64)
    long, short = arguments(long_counts, 4096, 16, 3000), arguments(counts, 64, 1, 1)
    thread = threading.Thread(target=launch, args=(entry, long.ctypes.data, 0))
    thread.start()
    while not long_counts[0]:
        time.sleep(0)
    child = os.fork()
    if child == 0:
        launch(entry, short.ctypes.data, 0)
        os._exit(0 if (counts == 1).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert (long_counts == 3000).all()


def test_not_enough_memory_is_an_error(kernels):
    place = np.zeros(1, np.int64)
    passed = arguments(place, 1 << 60)
    with pytest.raises(TileError, match="not enough memory for this launch's scratch space"):
        launch(kernels.address("scratch"), passed.ctypes.data, 0)
    with pytest.raises(TileError, match=r"not enough memory for \d+ bytes of scratch space"):
        launch(kernels.address("scratch"), passed.ctypes.data, 1 << 60)
    counts = np.zeros(8, np.int64)
    launch(kernels.address("count"), arguments(counts, 8, 1, 1).ctypes.data, 0)
    assert (counts == 1).all()


def test_one_thread_needs_no_workers(kernels):
    before = threading.active_count()
    pool = Pool(1)
    counts = np.zeros(100, np.int64)
    assert pool.launch(kernels.address("count"), arguments(counts, 100, 3, 7).ctypes.data, 0) == 0
    assert (counts == 7).all() and threading.active_count() == before


def test_a_pool_stops_and_starts_again(pool, kernels):
    assert sum(worker.is_alive() for worker in pool._workers) == 3
    pool.stop()
    assert not any(worker.is_alive() for worker in pool._workers)
    counts = np.zeros(100, np.int64)
    passed = arguments(counts, 100, 3, 7)
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 0) == BUSY
    pool.ensure_arena(1 << 20)
    pool.start()
    assert sum(worker.is_alive() for worker in pool._workers) == 3
    assert pool.launch(kernels.address("count"), passed.ctypes.data, 1 << 20) == 0
    assert (counts == 7).all()


@pytest.mark.parametrize(
    "triple", ["aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
)
def test_the_text_for_other_computers_is_valid(triple):
    import llvmlite.binding as llvm

    text = pool_text(triple, "linux" in triple)
    assert "<" not in text.replace("<16 x", "")
    llvm.parse_assembly(text).verify()


def test_a_process_ends_while_workers_spin(tmp_path):
    code = """
        from gizml_tile.runtime.pool import shared_pool
        pool = shared_pool()
        print(pool.threads)
    """
    environment = os.environ | {"GIZML_TILE_THREADS": "6"}
    for _ in range(5):
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "6\n", "")
