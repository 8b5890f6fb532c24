"""Kernels that are right, and the ways to break them.

A kernel writes itself with ``wrong`` naming its fault, or None. A case lists the faults, each with the
kinds and lines that the simulator must report: these, and no others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, what it must compute, and its faults."""

    name: str
    write: Callable
    arrays: Callable
    faults: dict
    expected: Callable
    buffers: tuple = ()
    launch: dict = field(default_factory=dict)


CASES = []


def case(arrays, faults, expected, buffers=(), **launch):
    """Registers ``write(k, wrong)`` as a case."""

    def register(write):
        CASES.append(Case(write.__name__, write, arrays, faults, expected, tuple(buffers), launch))
        return write

    return register


def zeros(*shape):
    return np.zeros(shape, np.float32)
