"""Keys as names that are equal in every process, for the disk cache."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from types import CodeType, ModuleType

import numpy as np

from gizml_tile.access import code_digest
from gizml_tile.captures import Same


def portable(key: Hashable) -> bytes | None:
    """A hash of a key that is equal in every process; None where the key rests on an object's identity."""
    digest = hashlib.sha256()
    try:
        digest.update(_portable(key))
    except _NotPortable:
        return None
    return digest.digest()


class _NotPortable(Exception):
    """A key holds an object that has no name in other processes."""


def _portable(key: object) -> bytes:
    if isinstance(key, Same):
        return _name(key.thing)
    if isinstance(key, type):
        return _name(key)
    if isinstance(key, frozenset):
        return b"{%s}" % b",".join(sorted(map(_portable, key)))
    if isinstance(key, tuple):
        return b"(%s)" % b",".join(map(_portable, key))
    return repr((type(key).__name__, key)).encode()


def _name(thing: object) -> bytes:
    if isinstance(thing, CodeType):
        return code_digest(thing)
    if isinstance(thing, ModuleType):
        return f"module {thing.__name__}".encode()
    if isinstance(thing, np.dtype):
        return f"dtype {thing.str} {thing.name}".encode()
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        if "<locals>" in name:
            raise _NotPortable
        return f"{type(thing).__name__} {module}.{name}".encode()
    raise _NotPortable
