"""Memory of the host that an AMD device writes, for what programs print and check."""

from __future__ import annotations

from ..pinned import Driver, PinnedRows
from . import driver
from .devices import current, device, ordinal_of

_DRIVER = Driver(driver.call, driver.attempt, "hipHostMalloc", "hipDeviceSynchronize", "hipHostFree")


class DeviceRows(PinnedRows):
    """Words in memory that the device of a name writes."""

    def __init__(self, count: int, name: str) -> None:
        where = device(ordinal_of(name))
        super().__init__(count, _DRIVER, lambda: current(where))
