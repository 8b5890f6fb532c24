"""What PyTorch's functions say of tiles, and its GPU of Apple's among the devices."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gizml_tile.cli import main
from gizml_tile.errors import TileError
from gizml_tile.program import trace

METAL = Path(__file__).parents[1] / "metal"
X = np.zeros((16, 16), np.float32)


def wrong(use):
    """The error that a use of a tile raises in a program."""
    with pytest.raises(TileError) as caught:
        trace("wrong", lambda p: use(p.read(X, [8, 8]).at([0, 0])))
    assert caught.value.filename == __file__
    return caught.value


def test_functions_of_torch():
    functional = torch.nn.functional
    assert wrong(lambda t: torch.exp(t)).message == (
        "torch.exp takes tensors, found an F32 tile [8, 8]; write t.exp()"
    )
    assert (
        "write e = (t - t.max(1)).exp(), then e / e.sum(1)"
        in wrong(lambda t: functional.softmax(t, dim=1)).message
    )
    assert wrong(lambda t: torch.cat([t, t])).message.startswith("torch.cat takes tensors, found")
    assert wrong(lambda t: torch.zeros(2) * t).message.startswith("torch.mul takes tensors, found")
    assert wrong(lambda t: t.to(torch.float16)).message.endswith("write tile.F16")


def test_apple_with_a_gpu(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(METAL))
    from fake_mps import FakeMps

    from gizml_tile.runtime.metal import devices as apples

    FakeMps(monkeypatch)
    apples._name.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["devices", "--json"]) == 0
    (gpu,) = json.loads(capsys.readouterr().out)["gpus"]
    apples._name.cache_clear()
    assert (gpu["device"], gpu["name"], gpu["arch"]) == ("metal:0", "Apple M3 Max", "apple9")
    assert gpu["driver"] == f"PyTorch {torch.__version__}"
