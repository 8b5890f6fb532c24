"""Explanations that a person has read; ``--update-golden`` writes them anew for review."""

from pathlib import Path

import explained_kernels as kernels
import numpy as np
import pytest

import gizml_tile as tile

FOLDER = Path(__file__).parent / "explain"
BF16 = tile.BF16


def explained(name, arch):
    def zeros(*shape):
        return np.zeros(shape, np.float32)

    match name:
        case "matmul":
            arguments = [zeros(1024, 1024) for _ in range(3)]
        case "softmax":
            arguments = [zeros(64, 4096) for _ in range(2)]
        case "transpose":
            arguments = [zeros(1024, 1024) for _ in range(2)]
        case "attention":
            arguments = [*(zeros(4, 1024, 64) for _ in range(4)), 0.125]
    storage = [BF16] * sum(isinstance(each, np.ndarray) for each in arguments)
    return getattr(kernels, name).explain(*arguments, kind="cuda", arch=arch, storage=storage)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["matmul", "softmax", "transpose", "attention"])
def test_explanation(name, arch, golden):
    golden(FOLDER / f"{name}.{arch}.txt", explained(name, arch))
