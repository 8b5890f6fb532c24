"""What a device reaches at most, measured by short launches: bytes of memory and operations by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gizml_tile import placing
from gizml_tile.dtypes import DType, to_numpy
from gizml_tile.errors import TileError
from gizml_tile.gridded import Gridded
from gizml_tile.grids import cdiv
from gizml_tile.kernel import Kernel, kernel
from gizml_tile.program import Program
from gizml_tile.runtime.host import host

MEMORY = "memory"
# Each ceiling is measured for so long, and by so many launches at most.
_SECONDS, _MOST_RUNS = 0.2, 30
# A copy is of more than caches hold, but of the CPU's, which are shared, of no more than this.
_LEAST_COPIED, _MOST_COPIED, _GPU_COPIED = 1 << 26, 1 << 28, 1 << 30
# Products are large enough that beginning and end of a launch do not count.
_CPU_SIZE, _GPU_SIZE = 1024, 8192
# Block sizes that are tried; the fastest that fits a device stands for it.
_SIZES: tuple[Mapping[str, int], ...] = (
    {"BM": 128, "BN": 128, "BK": 64},
    {"BM": 128, "BN": 256, "BK": 64},
    {"BM": 128, "BN": 128, "BK": 16, "warps": 8, "stages": 3},
    {"BM": 64, "BN": 64, "BK": 32},
)
_RANDOM = 1 << 20


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A rate of a device: bytes a second of ``memory``, or operations a second on a type."""

    name: str
    rate: float


def ceilings(device: str, types: tuple[DType, ...]) -> Iterator[Ceiling]:
    """The rates of a device, memory's first. Raises TileError where launches on it cannot be measured.

    That of a type is of matrix products of it, a multiply-add counted as two operations.
    """
    with placing.on(device) as place:
        yield Ceiling(MEMORY, _copied(device, place))
    for dtype in types:
        with placing.on(device) as place:
            yield Ceiling(dtype.text, _multiplied(device, place, dtype))


def _grid_of_copy(y: Any, BLOCK: int) -> Any:
    return cdiv(y.shape[0], BLOCK)


@kernel(grid=_grid_of_copy)
def _copy(p: Program, x: Any, y: Any, *, BLOCK: int) -> None:
    p.write(y, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)]


def _grid_of_product(c: Any, BM: int, BN: int, **_: int) -> tuple[int, int]:
    return cdiv(c.shape[0], BM), cdiv(c.shape[1], BN)


@kernel(grid=_grid_of_product)
def _product(p: Program, a: Any, b: Any, c: Any, *, BM: int, BN: int, BK: int) -> None:
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


def _copied(device: str, place: placing.Place) -> float:
    size = _GPU_COPIED
    if device == "cpu":
        size = min(max(4 * host().l3_bytes, _LEAST_COPIED), _MOST_COPIED)
    x, y = (place(np.zeros(size // 4, np.float32)) for _ in range(2))
    options = ({"BLOCK": size} for size in (1024, 4096))
    return 2 * size / _fastest(_copy, (x, y), options)


def _multiplied(device: str, place: placing.Place, dtype: DType) -> float:
    n = _CPU_SIZE if device == "cpu" else _GPU_SIZE
    a, b = (place(_numbers(n, dtype)) for _ in range(2))
    # Integers are summed in I32.
    result = np.float32 if dtype.is_float else np.int32
    c = place(np.zeros((n, n), result))
    return 2 * n**3 / _fastest(_product, (a, b, c), iter(_SIZES))


def _numbers(n: int, dtype: DType) -> np.ndarray[Any, Any]:
    """Random numbers, as zeros may be multiplied faster; they repeat, as so many would take long."""
    few = np.random.default_rng(0).normal(0, 1, min(n * n, _RANDOM))
    return np.resize(few.astype(to_numpy(dtype)), (n, n))


def _fastest(of: Kernel, tensors: tuple[Any, ...], options: Iterator[Mapping[str, int]]) -> float:
    """The seconds of a launch with the best of some constants. Raises TileError where none can serve."""
    times: list[float] = []
    refused: TileError | None = None
    for constants in options:
        try:
            found = Gridded(of, of.grid).bench(_SECONDS, _MOST_RUNS, *tensors, **constants)
        except TileError as error:
            refused = error
            continue
        times += found.seconds
    if not times:
        assert refused is not None
        raise refused
    return min(times)
