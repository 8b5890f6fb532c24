"""Launches of the examples, caught on their way: to run them on a simulated GPU, or to keep their code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import gizml_tile as tile
from gizml_tile.gridded import Gridded
from gizml_tile.kernel import Kernel

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "measure")
# Blocks of examples whose own suit a CPU's caches and fit no GPU.
BLOCKS = {"attention": {"BM": 32, "BN": 32}}


class Catcher:
    """Stands in for launches: ``kernel`` is called with a kernel on a grid and its arguments, ``body`` with
    a grid and a body that ``tile.run`` was given."""

    def __init__(self, monkeypatch: Any, kernel: Callable[..., Any], body: Callable[..., Any]) -> None:
        def launch(self: Kernel, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            smaller = BLOCKS.get(self.__module__, {}) if "BN" in named else {}
            return kernel(Gridded(self, grid), *args, **named | smaller)

        monkeypatch.setattr(Kernel, "_launch", launch)
        monkeypatch.setattr(tile, "run", body)


def run_example(monkeypatch: Any, name: str) -> None:
    """Run an example in its quick form, in this process, without its timing; it checks its results."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    # Kernels that were launched before may repeat their launches natively, where nobody catches them.
    for program in PROGRAMS:
        monkeypatch.delitem(sys.modules, program, raising=False)
    module = importlib.import_module(name)
    monkeypatch.setattr(module.measure, "compare", lambda *args, **named: None)
    if name == "sentence_embeddings":
        encode_few(module)
    else:
        module.main(quick=True)


def encode_few(module: ModuleType) -> None:
    """One layer of the encoder on three short sentences, with random weights of the real shapes."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    sizes = {
        "attention.self.qkv": (1152, 384),
        "attention.output.dense": (384, 384),
        "intermediate.dense": (1536, 384),
        "output.dense": (384, 1536),
    }
    weights = {f"embeddings.{part}_embeddings.weight": matrix(50, 384) for part in ("word", "position")}
    weights["embeddings.token_type_embeddings.weight"] = matrix(2, 384)
    for name, shape in sizes.items():
        weights[f"encoder.layer.0.{name}.weight"] = matrix(*shape)
        weights[f"encoder.layer.0.{name}.bias"] = matrix(shape[0])
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        weights[f"{name}.LayerNorm.weight"] = 1 + matrix(384)
        weights[f"{name}.LayerNorm.bias"] = matrix(384)
    ids = rng.integers(0, 50, (3, 11))
    used = (np.arange(11) < np.array([[11], [4], [7]])).astype(np.float32)
    module.LAYERS = 1
    vectors = module.encode(module.TileEncoder(), weights, ids, used)
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    truth = module.encode(module.NumpyEncoder(), wide, ids, used.astype(np.float64))
    assert (vectors * truth).sum(1).min() > 0.99999
