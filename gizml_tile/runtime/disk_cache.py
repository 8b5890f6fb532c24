"""Compiled kernels kept on disk, shared by processes: a broken or foreign entry is a miss, never a crash."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import TileError, here

CACHE_VARIABLE = "GIZML_TILE_CACHE"
LIMIT_VARIABLE = "GIZML_TILE_CACHE_LIMIT"

_DEFAULT_LIMIT = 256 << 20
_MAGIC = b"gizml-tile cache 2\n"
_DIGEST_BYTES = 16
_LENGTH = struct.Struct("<Q")
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES + _LENGTH.size
_SUFFIX = ".kernel"
_PARTIAL = ".partial"
_PARTIAL_SECONDS = 3600
# Reading every entry's size takes longer than writing one, so only some writes look at the limits.
_PUTS_BETWEEN_TRIMS = 64
_MOST_ENTRIES = 1 << 13
# A trim makes room for some time.
_KEPT_EIGHTHS = 7
# An entry's time of use is written at most this often, so that reading a cache stays reading.
_USE_SECONDS = 3600

_partials = itertools.count()


@dataclass(frozen=True, slots=True)
class Entry:
    """What a key stands for: facts that fit JSON, and bytes (an object file)."""

    metadata: dict[str, Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of the cache: its path, its size in bytes and when it was last used, in seconds since 1970."""

    path: Path
    bytes: int
    used: float


def folder() -> Path | None:
    """Where entries are kept: the user's cache folder, or what GIZML_TILE_CACHE says; None where off."""
    return _folder(os.environ.get(CACHE_VARIABLE, ""))


@lru_cache
def _folder(setting: str) -> Path | None:
    if setting.lower() in ("0", "off"):
        return None
    if setting:
        return Path(setting).expanduser().absolute()
    if sys.platform.startswith("linux"):
        # What platformdirs answers, without importing it: that takes longer than a launch from the disk.
        base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
        return Path(base, "gizml_tile")
    import platformdirs

    return Path(platformdirs.user_cache_dir("gizml_tile", appauthor=False))


def get(key: str) -> Entry | None:
    """The entry of a key; None where there is none, or none that is whole."""
    place = folder()
    if place is None:
        return None
    path = place / _name(key)
    try:
        with open(path, "rb") as file:
            content = file.read()
            used = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    entry = _unpack(content)
    if entry is not None and time.time() - used > _USE_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path)
    return entry


def put(key: str, entry: Entry, holds: str) -> None:
    """Keep an entry for later processes; where the folder cannot be written, nothing is kept.

    ``holds`` says what it is to a person who looks at the cache.
    """
    place = folder()
    if place is None:
        return
    path = place / _name(key)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{next(_partials)}{_PARTIAL}")
    try:
        place.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(_pack(entry, holds))
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        return
    # Names are digests, so every process comes to its share of the trims, however few entries it puts.
    due = int(path.name[:8], 16) % _PUTS_BETWEEN_TRIMS == 0
    if due or len(entry.data) * _PUTS_BETWEEN_TRIMS > limit():
        _keep_within(limit())


def entries() -> list[Stored]:
    """Every entry, the longest unused first."""
    return [Stored(Path(path), size, used) for used, size, path in sorted(_files(_SUFFIX))]


def holds(stored: Stored) -> str:
    """What an entry is, as it was said when it was put; empty where it is not whole."""
    try:
        found = _parts(stored.path.read_bytes())
    except OSError:
        return ""
    return "" if found is None else str(found[0])


def size() -> int:
    """Bytes of all entries."""
    return sum(stored.bytes for stored in entries())


def limit() -> int:
    """Bytes that entries may take: what GIZML_TILE_CACHE_LIMIT says, such as 64M, or 256 MiB."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not text:
        return _DEFAULT_LIMIT
    found = bytes_of(text)
    if found is None:
        raise TileError(
            f"{LIMIT_VARIABLE}={text} is not a number of bytes, such as 64M or 1G", here()
        )
    return found


def bytes_of(text: str) -> int | None:
    """A number of bytes written as ``1000``, ``64K``, ``64M`` or ``1G``; None for anything else."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 0)
    number = text[:-1] if unit else text
    return int(number) * (unit or 1) if number.isdecimal() else None


def trim(limit_bytes: int) -> int:
    """Remove the longest unused entries until the rest takes at most ``limit_bytes``; the number removed."""
    removed = _trim(sorted(_files(_SUFFIX)), limit_bytes, _MOST_ENTRIES)
    # What a process that was killed left half written.
    for used, _, path in list(_files(_PARTIAL)):
        if time.time() - used > _PARTIAL_SECONDS:
            _remove(path)
    return removed


def _keep_within(limit_bytes: int) -> None:
    """Trim where there is more than the limits allow, by somewhat more than is needed."""
    known = list(_files(_SUFFIX))
    if len(known) > _MOST_ENTRIES or sum(bytes_each for _, bytes_each, _ in known) > limit_bytes:
        trim_to = limit_bytes * _KEPT_EIGHTHS // 8, _MOST_ENTRIES * _KEPT_EIGHTHS // 8
        _trim(sorted(known), *trim_to)


def _trim(known: list[tuple[float, int, str]], limit_bytes: int, most: int) -> int:
    total = sum(bytes_each for _, bytes_each, _ in known)
    removed = 0
    for _, bytes_each, path in known:
        if total <= limit_bytes and len(known) - removed <= most:
            break
        _remove(path)
        total -= bytes_each
        removed += 1
    return removed


def clear() -> int:
    """Remove every entry; the number removed."""
    known = [path for suffix in (_SUFFIX, _PARTIAL, _FINGERPRINT) for _, _, path in _files(suffix)]
    for path in known:
        _remove(path)
    return sum(path.endswith(_SUFFIX) for path in known)


def _files(suffix: str) -> Iterator[tuple[float, int, str]]:
    """When each file of a kind was last used, its size and its path."""
    place = folder()
    if place is None:
        return
    try:
        with os.scandir(place) as found:
            for file in found:
                if file.name.endswith(suffix):
                    # Another process may have removed it since.
                    with contextlib.suppress(OSError):
                        status = file.stat()
                        yield status.st_mtime, status.st_size, file.path
    except OSError:
        return


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + _SUFFIX


def _pack(entry: Entry, holds: str) -> bytes:
    metadata = json.dumps([holds, entry.metadata], separators=(",", ":")).encode()
    content = _LENGTH.pack(len(metadata)) + metadata + entry.data
    return _MAGIC + _digest(content) + content


def _unpack(content: bytes) -> Entry | None:
    found = _parts(content)
    return None if found is None else Entry(*found[1:])


def _parts(content: bytes) -> tuple[str, dict[str, Any], bytes] | None:
    """What an entry is, its facts and its bytes; None where it is not whole."""
    start = len(_MAGIC) + _DIGEST_BYTES
    if len(content) < _HEADER_BYTES or not content.startswith(_MAGIC):
        return None
    if _digest(content[start:]) != content[len(_MAGIC) : start]:
        return None
    (length,) = _LENGTH.unpack_from(content, start)
    end = _HEADER_BYTES + length
    told, metadata = json.loads(content[_HEADER_BYTES:end])
    return told, metadata, content[end:]


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


_FINGERPRINT = ".fingerprint"


@lru_cache
def package_fingerprint() -> str:
    """A hash of this package's own files, a part of every key: other code may compile otherwise.

    The files' sizes and times of change stand for their contents once those have been read.
    """
    files = sorted(_package_files())
    stamp = [(name, found.st_size, found.st_mtime_ns) for name, _, found in files]
    place = folder()
    known = None
    if place is not None:
        known = place / (hashlib.sha256(repr(stamp).encode()).hexdigest() + _FINGERPRINT)
        with contextlib.suppress(OSError):
            text = known.read_text()
            if len(text) == 64:
                return text
    contents = hashlib.sha256()
    for name, path, _ in files:
        data = Path(path).read_bytes()
        contents.update(f"{name} {len(data)}\n".encode())
        contents.update(data)
    fingerprint = contents.hexdigest()
    if known is not None:
        partial = known.with_name(f"{known.name}.{os.getpid()}{_PARTIAL}")
        with contextlib.suppress(OSError):
            known.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(fingerprint)
            os.replace(partial, known)
    return fingerprint


def _package_files() -> Iterator[tuple[str, str, os.stat_result]]:
    """Names, paths and status of the package's modules, wherever its parts are installed."""
    package = __package__.partition(".")[0]
    for part in (package, f"{package}.frontend", f"{package}.lowering"):
        spec = importlib.util.find_spec(part)
        for root in (spec.submodule_search_locations or []) if spec else []:
            yield from _modules(part, root)


def _modules(name: str, folder: str) -> Iterator[tuple[str, str, os.stat_result]]:
    with os.scandir(folder) as found:
        for file in found:
            if file.name.endswith(".py"):
                yield f"{name}/{file.name}", file.path, file.stat()
            elif file.name != "__pycache__" and file.is_dir():
                yield from _modules(f"{name}/{file.name}", file.path)
