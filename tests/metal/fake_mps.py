"""A stand-in for PyTorch's device ``mps``: tensors in this computer's memory that say they are there, and a
compiler of Metal shaders that runs them with the shim."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from metal_shim import Texts

from gizml_tile.lowering.emit.metal import MetalArtifact

_empty = torch.empty


class MpsTensor(torch.Tensor):
    """A CPU's tensor that says it is on an Apple GPU."""

    @property
    def device(self) -> torch.device:
        return torch.device("mps:0")


def on_mps(tensor: torch.Tensor) -> MpsTensor:
    """A view of a tensor, with its strides and its offset."""
    return tensor.as_subclass(MpsTensor)


class Function:
    """A compiled kernel: called as PyTorch's are, with tensors, lists of numbers, and counts of threads."""

    def __init__(self, mps: FakeMps, text: str, entry: str) -> None:
        self.mps = mps
        threads = int(re.search(r"\[\[max_total_threads_per_threadgroup\((\d+)\)\]\]", text)[1])  # type: ignore[index]
        memory = re.search(r"threadgroup uchar memory\[(\d+)\]", text)
        self.threads, size = threads, int(memory[1]) if memory else 0
        self.max_threads_per_threadgroup = mps.most_threads
        artifact = MetalArtifact(text, entry, "apple9", threads, size, ())
        with tempfile.TemporaryDirectory() as folder:
            self.texts = Texts([artifact], Path(folder))

    def __call__(self, *args: Any, threads: int, group_size: int) -> None:
        assert group_size == self.threads and threads % group_size == 0
        self.mps.launches.append((args, threads))
        kept = [self._buffer(each) for each in args]
        problem = self.texts.launch(0, [address for address, _ in kept], [threads // group_size])
        assert not problem, problem

    @staticmethod
    def _buffer(value: torch.Tensor | Sequence[int | float]) -> tuple[int, object]:
        """As PyTorch does: a tensor's buffer from its offset on, integers of 64 bits, floats of 32."""
        if isinstance(value, torch.Tensor):
            assert isinstance(value, MpsTensor)
            return value.data_ptr(), value
        assert value, "an empty list cannot be an argument to a Metal kernel"
        whole = all(type(each) is int for each in value)
        packed = np.array(value, np.int64 if whole else np.float32)
        return packed.ctypes.data, packed


class Library:
    def __init__(self, mps: FakeMps, text: str) -> None:
        self._mps, self._text = mps, text

    def __getattr__(self, name: str) -> Function:
        return Function(self._mps, self._text, name)


class FakeMps:
    """What ``torch.mps`` and ``torch.backends.mps`` have, as far as launches ask for it."""

    def __init__(self, monkeypatch: Any, name: str = "Apple M3 Max") -> None:
        self.texts: list[str] = []
        self.launches: list[tuple[tuple[Any, ...], int]] = []
        self.most_threads = 1024
        monkeypatch.setattr(torch.mps, "compile_shader", self.compile_shader)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        monkeypatch.setattr(torch, "empty", self.empty)
        monkeypatch.setattr(torch.backends.mps, "get_name", lambda: name)

    def empty(self, *sizes: Any, device: Any = None, **given: Any) -> torch.Tensor:
        made = _empty(*sizes, **given)
        return on_mps(made) if device == "mps" else made

    def compile_shader(self, text: str) -> Library:
        self.texts.append(text)
        return Library(self, text)
