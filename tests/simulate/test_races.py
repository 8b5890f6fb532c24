"""Races of random kernels, against every pair of accesses compared thread by thread."""

import numpy as np
import pytest
from small_writers import buffer, run

from gizml_tile.dtypes import I32
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access

THREADS, WORDS = 64, 16


class Order:
    """What each thread knows of each other one, and all accesses so far."""

    def __init__(self):
        self.known = np.zeros((THREADS, THREADS), int)  # how many steps of the other are over
        self.step = np.ones(THREADS, int)
        self.accesses = [[] for _ in range(WORDS)]
        self.racing = []

    def meet(self, threads):
        self.known[threads, threads] = self.step[threads]
        self.known[threads] = self.known[threads].max(axis=0)
        self.step[threads] += 1

    def access(self, line, mask, places, width, writes):
        now = []
        for thread in np.flatnonzero(mask):
            for word in range(places[thread], places[thread] + width):
                for other, step, wrote in self.accesses[word]:
                    if other != thread and (wrote or writes) and self.known[thread, other] < step:
                        self.racing.append(line)
                now.append((word, thread))
        if writes:
            words = [word for word, _ in now]
            if len(set(words)) < len(words):  # all values differ
                self.racing.append(line)
        for word, thread in now:
            self.accesses[word].append((thread, self.step[thread], writes))


def steps_of(rng, tidy):
    """A random kernel: each step's name, which threads, where to, and how wide."""
    thread = np.arange(THREADS)
    for _ in range(rng.integers(3, 20)):
        kinds = ["load", "store", "load", "store", "barrier", "warps", "one warp", "shuffle"]
        name = str(rng.choice(kinds, p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.2, 0.05]))
        width = int(rng.choice([1, 2]))
        mask = rng.random(THREADS) < rng.choice([0.03, 0.2, 1.0])
        places = rng.integers(0, WORDS // width, THREADS) * width
        if tidy:
            # Few threads to a word, so that most kernels have no race.
            mask = thread < WORDS // width
            places = np.where(mask, thread * width, 0)
            places = np.where(mask, (places + width * rng.integers(0, 3)) % WORDS, 0)
        yield name, mask, places, width


@pytest.mark.parametrize("tidy", [False, True])
def test_races(tidy):
    clean = 0
    for seed in range(150):
        clean += check(np.random.default_rng(seed), tidy)
    assert clean > (20 if tidy else 3)


def check(rng, tidy):
    """Whether a random kernel has no race; the simulator must tell its first, and no wrong one."""
    steps = list(steps_of(rng, tidy))
    order = Order()
    everyone = np.arange(THREADS)
    warps = [everyone[:32], everyone[32:]]
    order.access(0, everyone < WORDS, np.minimum(everyone, WORDS - 1), 1, True)
    order.meet(everyone)
    tables = [places.astype(np.int32) for _, _, places, _ in steps]
    masks = [mask.astype(np.int32) for _, mask, _, _ in steps]

    def write(k):
        thread = k.thread()
        k.at(1000).keep(0, thread, thread, mask=k.map("lt", thread, k.number(WORDS)))
        k.barrier(0, THREADS)
        for line, (name, _, _, width) in enumerate(steps):
            k.at(1000)
            places = k.get(line, thread, I32)
            mask = k.map("ne", k.get(len(steps) + line, thread, I32), k.number(0))
            k.at(line)
            access = Access(WORKGROUP, 0, width, ((0, 0),))
            if name == "load" and line % 2:
                k.when(mask, lambda access=access, places=places: k.load(access, places, I32) and None)
            elif name == "load":
                k.load(access, places, I32, mask)
            elif name == "store":
                values = k.add(thread, k.number(100 * line + 100))
                pair = k.join([values, k.add(values, k.number(5000))][:width])
                k.store(access, pair, places, mask)
            elif name == "barrier":
                k.barrier(0, THREADS)
            elif name == "warps":
                k.warp_barrier()
            elif name == "one warp":
                k.when(k.map("eq", k.warp(), k.number(line % 2)), k.warp_barrier)
            else:
                k.shuffle_xor(thread, 1)

    for line, (name, mask, places, width) in enumerate(steps):
        if name in ("load", "store"):
            order.access(line, mask, places, width, name == "store")
        elif name == "barrier":
            order.meet(everyone)
        elif name == "one warp":
            order.meet(warps[line % 2])
        else:
            for warp in warps:
                order.meet(warp)
    found = run(write, [*tables, *masks], [buffer("s", WORDS, I32)])
    told = {each.place.line for each in found.wrong}
    assert all(each.kind == "race" for each in found.wrong), found
    assert told <= set(order.racing), (found, order.racing)
    if order.racing:
        assert order.racing[0] in told, (found, order.racing)
    return not order.racing
