"""Memory that Apple's GPU writes, for what programs print and check."""

from __future__ import annotations

import sys
from typing import Any

from .shaders import place


class DeviceRows:
    """Words in a tensor of PyTorch's."""

    def __init__(self, count: int, name: str) -> None:
        torch: Any = sys.modules["torch"]
        self.owner: Any = torch.zeros(count, dtype=torch.int64, device="mps")
        self.pointer = place(self.owner)

    def taken(self) -> Any:
        """A copy of the words once the device has done everything launched so far."""
        return self.owner.cpu().numpy()
