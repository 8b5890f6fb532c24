"""Debugging: what ``p.print`` and ``p.check`` record while a program is traced, and whether they do."""

from __future__ import annotations

import os
from functools import lru_cache

from gizml_tile.dtypes import I64, MASK
from gizml_tile.foreign import Unread
from gizml_tile.lifting import describe, number
from gizml_tile.nodes import Const, Message, Node, broadcast
from gizml_tile.tile import Tile
from gizml_tile.tracing import Many, Trace, Value, article, fail, noun

DEBUG_VARIABLE = "GIZML_TILE_DEBUG"


@lru_cache
def asked() -> bool:
    """Whether programs print and check: GIZML_TILE_DEBUG=1, which is read once."""
    return os.environ.get(DEBUG_VARIABLE, "").strip() not in ("", "0")


def trace_print(trace: Trace, values: tuple[object, ...]) -> None:
    """Record a ``print`` where the program is debugged."""
    words: list[str | None] = []
    nodes: list[Node] = []
    for value in values:
        if isinstance(value, Unread):
            fail(f"print takes words and values, found {value._told()}, not a block of it; {value._way()}")
        if isinstance(value, Many):
            fail(f"print takes words and values, found {value._told()}; print its tiles one by one")
        if isinstance(value, Value):
            words.append(None)
            nodes.append(trace.use(value))
        else:
            words.append(str(value))
    if trace.debugs():
        trace.record("print", tuple(nodes), Message(tuple(words)))


def trace_check(trace: Trace, mask: object, text: object, value: object) -> None:
    """Record a ``check`` where the program is debugged."""
    if not isinstance(text, str):
        fail(f"check takes a mask and then a text that says what is wrong, found {describe(text)} second")
    host = number(mask)
    if isinstance(host, bool):
        chosen = trace.record("const", (), Const((1, 1), MASK, host))
    elif isinstance(mask, Tile) and mask.dtype is MASK:
        chosen = trace.use(mask)
    else:
        fail(f"check takes a mask, such as x < 1, found {describe(mask)}")
    operands = (chosen, *(() if value is None else (_beside(trace, value, chosen),)))
    if trace.debugs():
        trace.record("check", operands, Message((text,)))


def _beside(trace: Trace, value: object, mask: Node) -> Node:
    """The value that is told beside the first element which is false."""
    host = number(value)
    if host is not None or not isinstance(value, Value):
        fail(
            "the value of check is a tile or an index, which it tells beside the text, found "
            f"{describe(value)}"
        )
    node = trace.use(value)
    if node.is_index:
        node = trace.record("value", (node,), I64)
    if broadcast(node.shape, mask.shape) != mask.shape:
        fail(
            f"the value of check has the mask's shape {list(mask.shape)} (or 1 along an axis), found "
            f"{article(noun(node))}"
        )
    return node
