"""What is said of kernels that are slow or wrong on purpose: the line, the reason and what to do; and that
nothing is said of the same kernels when they are mended, or where it does not matter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import slow_kernels as slow
from ml_dtypes import bfloat16
from slow_kernels import column_major, zeros

from gizml_tile.errors import TileWarning
from gizml_tile.gridded import Gridded

SOURCE = Path(slow.__file__)
KINDS = {"sm_90a": "cuda", "sm_80": "cuda", "gfx942": "hip", "apple9": "metal"}
ALL = tuple(KINDS)


def line_of(comment):
    """The line that a comment of the kernels' file names."""
    (line,) = (
        number
        for number, text in enumerate(SOURCE.read_text().splitlines(), 1)
        if text.endswith(f"# {comment}")
    )
    return line


def told(kernel, arguments, arch, **constants):
    """The warnings of a check, with their lines."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Gridded(kernel, kernel.grid).check(*arguments, kind=KINDS[arch], arch=arch, **constants)
    assert all(issubclass(each.category, TileWarning) for each in found)
    assert all(each.filename == str(SOURCE) for each in found)
    return [(each.lineno, str(each.message)) for each in found]


def square(size, dtype=np.float32, count=3):
    return [zeros(size, size, dtype=dtype) for _ in range(count)]


def overlapping(size, dtype):
    """Operands and a result whose rows begin amid those of the left operand."""
    memory = zeros(2 * size, size, dtype=dtype)
    return [memory[:size], zeros(size, size, dtype=dtype), memory[size // 2 : -size // 2]]


@dataclass(frozen=True)
class Slow:
    """A slow kernel: what the warning at the named line says, and the constants and tensors that mend it."""

    comment: str
    kernel: Any
    tensors: Callable[[], list[Any]]
    why: str
    fix: str
    mended: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    better: Callable[[], list[Any]] | None = None
    by: Any = None
    archs: tuple[str, ...] = ALL

    def __str__(self) -> str:
        return self.comment


CASES = [
    Slow(
        "uncoalesced",
        slow.doubled,
        lambda: [column_major(8192, 8192), column_major(8192, 8192)],
        "x is read by single elements: the block has only 1 row, and neighbours in memory are in different "
        "rows; of each 32 bytes that memory moves 12% are used",
        "use blocks of x with at least 8 rows",
        {"BR": 64, "BC": 64},
    ),
    Slow(
        "uncoalesced",
        slow.doubled,
        lambda: [zeros(8192, 16384)[:, ::2], zeros(8192, 8192)],
        "x is read by single elements: no axis of the block is contiguous in memory; of each 32 bytes that",
        "make the last axis of x contiguous before the launch",
        better=lambda: square(8192)[:2],
    ),
    Slow(
        "product",
        slow.matmul,
        lambda: [zeros(4096, 4099, dtype=bfloat16)[:, :4096], *square(4096, bfloat16, 2)],
        "a is read by single elements: address and strides are multiples of 2 bytes only",
        "begin a and each of its rows at multiples of 16 bytes: make its rows a multiple of 8 elements long",
        better=lambda: square(4096, bfloat16),
        archs=("sm_80", "gfx942"),
    ),
    Slow(
        "product",
        slow.matmul,
        lambda: square(4096, bfloat16),
        "as this read is in the way: outside a the copy engine gives zeros, and pad is 1",
        "read a with pad 0 and choose what lies outside with select",
        {"PAD": 0.0},
        {"PAD": 1.0},
        archs=("sm_90a",),
    ),
    Slow(
        "mixed",
        slow.added,
        lambda: [zeros(8192, 8192), column_major(8192, 8192), zeros(8192, 8192)],
        "y is read by single elements: the block has only 1 row",
        "use blocks of y with at least 8 rows",
        {"BR": 64, "BC": 64},
    ),
    Slow(
        "converted",
        slow.turned_in_the_loop,
        lambda: [zeros(8192, 8192, dtype=bfloat16), zeros(8192, 64, dtype=bfloat16), zeros(8192, 64)],
        "goes through workgroup memory in every turn of the loop at slow_kernels.py",
        "transpose once, outside of the loop",
        by=slow.turned_after_the_loop,
    ),
    Slow(
        "product",
        slow.matmul,
        lambda: square(4096, bfloat16),
        "stages=1 copies the blocks of no turns ahead, so that the turns of the loop at slow_kernels.py",
        "leave out stages, or ask for",
        constants={"stages": 1},
        archs=("sm_90a", "sm_80", "gfx942"),
    ),
    Slow(
        "product",
        slow.matmul,
        lambda: overlapping(4096, bfloat16),
        ", as a written tensor shares memory with another one",
        "write to a tensor that has memory of its own",
        better=lambda: square(4096, bfloat16),
        archs=("sm_90a", "sm_80", "gfx942"),
    ),
    Slow(
        "in a branch",
        slow.lower_matmul,
        lambda: square(4096, bfloat16),
        "none brings their blocks with the copy engine meanwhile, as the loop with the product stands in a "
        "branch, which a return before it makes, too",
        "let the loop have no turns instead, as in `for k in range(n if wanted else 0)`",
        {"RETURN": False},
        archs=("sm_90a",),
    ),
    Slow(
        "unaligned",
        slow.shifted_matmul,
        lambda: square(4096, bfloat16),
        "a is read by single elements: offsets and size are multiples of 1 elements only",
        "let the window begin at a multiple of 8 elements along the columns",
        {"SHIFT": 8},
        archs=("sm_80", "gfx942"),
    ),
    Slow(
        "unaligned",
        slow.shifted_matmul,
        lambda: square(4096, bfloat16),
        "all warps multiply alike, and none brings their blocks with the copy engine meanwhile, as this",
        "let the window begin at a multiple of 8 elements along the columns",
        {"SHIFT": 8},
        archs=("sm_90a",),
    ),
    Slow(
        "spill",
        slow.three_norms,
        lambda: [zeros(1 << 16, 1024), zeros(1 << 16, 1024)],
        "the tiles that are in use together at this sum take 392 registers of each of 128 threads",
        "use warps=8, which halves what a thread holds, or smaller blocks",
        {"R": 4},
        {"warps": 4},
        archs=("sm_90a", "sm_80", "apple9"),
    ),
    Slow(
        "replicated",
        slow.activated,
        lambda: [zeros(1 << 20, 64), zeros(1 << 20, 64)],
        "4 threads each compute the same elements here, as the workgroup has 256 and the largest tile is",
        "leave out warps, or ask for 2",
        {"R": 32},
        {"warps": 8},
    ),
    Slow(
        "few programs",
        slow.row_sums,
        lambda: [zeros(512, 1 << 18), zeros(512, 1)],
        "8 programs keep 8 of",
        "use smaller blocks, so that there are more programs",
        {"R": 1, "N": 256},
        archs=("sm_90a", "sm_80", "gfx942"),
    ),
]


@pytest.mark.parametrize(
    "case, arch", [(case, arch) for case in CASES for arch in case.archs], ids=lambda each: str(each)
)
def test_slow(case, arch):
    found = told(case.kernel, case.tensors(), arch, **case.constants)
    (text,) = (text for line, text in found if line == line_of(case.comment) and case.why in text)
    assert case.fix in text and f" of a launch on {KINDS[arch]} ({arch}); " in text
    constants = {name: each for name, each in case.constants.items() if name not in ("stages", "warps")}
    tensors = case.better or case.tensors
    assert (
        told(case.by or case.kernel, tensors(), arch, **(case.mended or ({} if case.better else constants)))
        == []
    )
