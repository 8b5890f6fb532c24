"""PyTorch's compiler of Metal shaders, and where its tensors are."""

from __future__ import annotations

import sys
from typing import Any

from ...errors import TileError, here


def compiler() -> Any:
    """The module ``torch.mps``. Raises TileError where it cannot compile or there is no GPU."""
    torch: Any = sys.modules.get("torch")
    mps = getattr(torch, "mps", None)
    if mps is None or not hasattr(mps, "compile_shader"):
        version = getattr(torch, "__version__", "none")
        raise TileError(
            "launches on Metal go through torch.mps.compile_shader, which PyTorch has from 2.7 on; the one "
            f"imported here is {version}",
            here(),
        )
    if not torch.backends.mps.is_available():
        raise TileError(
            "there is no Apple GPU: torch.backends.mps.is_available() is False; launches on Metal need macOS "
            "on an Apple M1 or later (ir, source, explain and simulate take kind='metal' anywhere)",
            here(),
        )
    return mps


def place(tensor: Any) -> int:
    """A number for where a tensor of PyTorch's device ``mps`` begins, as an address among its own.

    PyTorch gives a buffer's object instead of an address, to which it adds an offset. Buffers are made
    distinct by far more than their sizes, so that two tensors meet where their elements do.
    """
    storage = tensor.untyped_storage().data_ptr()
    return int(storage) << 48 | int(tensor.storage_offset() * tensor.element_size())
