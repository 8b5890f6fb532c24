"""The same bits from every vector unit and any number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from products import Product, assert_product

from gizml_tile.errors import TileError
from gizml_tile.runtime import host

LEVELS = [
    "native",
    "x86-64-v4+bf16",
    "x86-64-v4+vnni",
    "x86-64-v4",
    "x86-64-v3+vnni",
    "x86-64-v3",
    "x86-64-v2",
]


def run(folder: Path, cpu: str, threads: int) -> dict[str, np.ndarray]:
    """The results of ``levels.py`` in a process for this kind of CPU."""
    file = folder / f"{cpu}-{threads}.npz"
    if not file.exists():
        environment = dict(os.environ, GIZML_TILE_CPU=cpu, GIZML_TILE_THREADS=str(threads))
        environment["GIZML_TILE_CACHE"] = "off"
        command = [sys.executable, str(Path(__file__).with_name("levels.py")), str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    with np.load(file) as found:
        return dict(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("levels")


def possible(cpu: str) -> bool:
    try:
        host._host(cpu, "", "")
    except TileError:
        return False
    return True


@pytest.mark.parametrize("cpu", LEVELS)
def test_vector_units_agree(folder, cpu):
    """All results in bits but those of BF16 pairs, which each instruction adds in its own order."""
    if not possible(cpu):
        assert cpu != "native"
        return
    native, other = run(folder, "native", 1), run(folder, cpu, 1)
    assert native.keys() == other.keys()
    for name, result in other.items():
        if name.startswith("pairs"):
            a, b, _ = Product((45, 331, 71), types=("bf16", "bf16")).operands()
            if "fp8" in name:
                a, b, _ = Product((45, 331, 71), types=("fp8", "bf16")).operands()
            assert_product(result, a, b)
        else:
            assert np.array_equal(result, native[name], equal_nan=True), name


def test_threads_change_no_bit(folder):
    one, two, many = (run(folder, "native", threads) for threads in (1, 2, 5))
    for name in one:
        assert np.array_equal(one[name], two[name], equal_nan=True), name
        assert np.array_equal(one[name], many[name], equal_nan=True), name
