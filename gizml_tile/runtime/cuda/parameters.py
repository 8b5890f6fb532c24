"""A launch's parameters in memory: words, tensor maps, and the list of their addresses."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from ..parameters import WORD_BYTES, Parameter
from ..tensors import TensorInfo
from . import maps
from .artifact import MapSpec


def encode_maps(specs: Sequence[MapSpec], tensors: Sequence[TensorInfo]) -> list[bytes]:
    """Every tensor map of a launch."""
    return [maps.encode(spec, tensors[spec.tensor]) for spec in specs]


def in_memory(parameters: Sequence[Parameter], packed: bytes, encoded: Sequence[bytes]) -> tuple[object, int]:
    """The memory that holds a launch's parameters, and where in it the list of their addresses starts."""
    count = len(parameters)
    memory = ctypes.create_string_buffer(63 + maps.BYTES * len(encoded) + 2 * WORD_BYTES * count)
    base = (ctypes.addressof(memory) + 63) & ~63
    first = base + maps.BYTES * len(encoded)
    addresses = [
        base + maps.BYTES * each.index if each.kind == "tensor_map" else first + WORD_BYTES * number
        for number, each in enumerate(parameters)
    ]
    content = b"".join(encoded) + packed + struct.pack(f"={count}Q", *addresses)
    ctypes.memmove(base, content, len(content))
    return memory, first + WORD_BYTES * count
