"""Memory of Apple's GPU for the time of launches: PyTorch's, which gives it to others in their order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import TileError, here
from ..tensors import TensorInfo
from .shaders import place


@contextmanager
def lent(
    tensors: Sequence[TensorInfo], sizes: Sequence[int], stream: object = None
) -> Iterator[tuple[list[tuple[int, Any]], tuple[()]]]:
    """Memory of so many bytes each for launches of tensors: places with owners, and no stream."""
    if stream is not None:
        raise TileError("on Metal launches are on PyTorch's own queue; leave stream out", here())
    torch: Any = sys.modules["torch"]
    rooms = [torch.empty(size, dtype=torch.uint8, device="mps") for size in sizes]
    yield [(place(room), room) for room in rooms], ()
