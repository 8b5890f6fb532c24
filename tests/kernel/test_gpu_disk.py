"""A kernel for GPUs in a second process: its machine code comes from the disk, with little loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys, time
import numpy as np
from fake_cuda import FakeCuda

driver = sys.modules["cuda.bindings.driver"] = FakeCuda()
import gizml_tile as tile

class OnGpu:
    def __init__(self, array):
        self.shape, self.array = array.shape, array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
        }

@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=64, BN=64, BK=32):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc.relu()

a, b, c = (OnGpu(np.zeros((256, 256), np.float16)) for _ in range(3))
start = time.process_time()
matmul(a, b, c)
seconds = time.process_time() - start
(launch,) = driver.launches
(image,) = driver.images
told = {"seconds": seconds, "grid": launch.grid, "modules": sorted(sys.modules), "image": str(image)}
print(json.dumps(told))
"""

MAKING = (
    "libcst subprocess gizml_tile.frontend.rewriting gizml_tile.lowering.tile_passes "
    "gizml_tile.lowering.planning.planner gizml_tile.lowering.planning.plan gizml_tile.lowering.expand "
    "gizml_tile.lowering.passes gizml_tile.lowering.kernel_ir gizml_tile.lowering.emit"
).split()
NEVER = ("llvmlite", "gizml_tile.lowering.simulate", "rich", "ml_dtypes")


@pytest.fixture
def launched(tmp_path):
    """Runs the program in a process of its own; what it tells."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = os.environ | {
        "GIZML_TILE_CACHE": str(tmp_path / "cache"),
        "GIZML_TILE_PTXAS": "off",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)]),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def launch():
        result = subprocess.run([sys.executable, file], capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return launch


def loaded(told, names):
    return [name for name in names if any(f"{module}.".startswith(f"{name}.") for module in told["modules"])]


def test_a_second_process_neither_traces_nor_plans(launched):
    first = launched()
    assert loaded(first, MAKING) == MAKING
    second = launched()
    assert loaded(second, MAKING) == []
    assert loaded(first, NEVER) == loaded(second, NEVER) == []
    assert [name for name in second["modules"] if name.startswith("gizml_tile.layout.")] == []
    assert (second["image"], second["grid"]) == (first["image"], first["grid"])
    # 15 ms where nothing else runs.
    assert min(second["seconds"], *(launched()["seconds"] for _ in range(2))) < 0.06
