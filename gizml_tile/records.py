"""Configurations: any mapping or record of constants, read as names and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def fields(record: Any) -> dict[str, object] | None:
    """A mapping's or a record's names and values; None for something that has none."""
    if isinstance(record, Mapping):
        return dict(record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    if isinstance(record, tuple):
        names = getattr(record, "_fields", None)
        return None if names is None else dict(zip(names, record, strict=True))
    found = getattr(record, "__dict__", None)
    return None if found is None or isinstance(record, type) else dict(found)
