"""Functions of many registers, a few registers at a time."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import BF16, F16, F64
from gizml_tile.lowering.kernel_ir.builder import Builder, Value

# A function such as gelu holds ten temporaries at once. Over the 64 or 128 registers of a tile they would
# not fit into a thread's 255, over 8 they do, and 8 independent chains are enough to hide latencies. Of F64,
# whose registers are pairs and whose units are fewer, 4 are.
CHUNK, DOUBLE_CHUNK = 8, 4


def in_chunks(build: Builder, function: Callable[..., Value], *args: Value) -> Value:
    """``function`` of vectors, on a few registers after the other; it must work register by register."""
    count = max(arg.count for arg in args)
    step = DOUBLE_CHUNK if args[0].dtype is F64 else CHUNK
    if count <= step:
        return function(*args)
    parts = []
    for first in range(0, count, step):
        registers = range(first, min(first + step, count))
        part = function(*(arg if arg.count == 1 else build.pick(arg, registers) for arg in args))
        assert part.count == len(registers), f"{len(registers)} registers gave {part}"
        parts.append(part)
    return build.join(parts)


def extreme(build: Builder, op: str, value: Value, left: int = 1) -> Value:
    """The registers of a value joined, until ``left`` are: by ``min``, ``max``, ``minimum``, ``maximum``, or
    their bits by ``or`` or ``and``.
    """
    packed = value.dtype in (F16, BF16)
    while op in ("or", "and") or packed:
        # Many GPUs take three operands' bits at once, or three pairs of 16 bits.
        third = value.count // 3
        third -= third % 2 if packed else 0
        if not third or value.count - 2 * third < left:
            break
        a, b, c = (build.pick(value, range(first, first + third)) for first in (0, third, 2 * third))
        last = [build.pick(value, range(3 * third, value.count))] if value.count > 3 * third else []
        value = build.join([build.map(op, build.map(op, a, b), c), *last])
    while value.count > left:
        half = value.count // 2
        joined = build.map(op, build.pick(value, range(half)), build.pick(value, range(half, 2 * half)))
        last = [build.pick(value, [value.count - 1])] if value.count % 2 else []
        value = build.join([joined, *last])
    return value
