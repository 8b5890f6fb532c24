"""Memory of the host that a CUDA device writes, for what programs print and check."""

from __future__ import annotations

from ..pinned import Driver, PinnedRows
from . import driver
from .devices import current, device, ordinal_of

_DRIVER = Driver(driver.call, driver.attempt, "cuMemHostAlloc", "cuCtxSynchronize", "cuMemFreeHost")


class DeviceRows(PinnedRows):
    """Words in memory that the device of a name writes."""

    def __init__(self, count: int, name: str) -> None:
        where = device(ordinal_of(name))
        super().__init__(count, _DRIVER, lambda: current(where))
