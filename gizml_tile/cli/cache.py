"""``gizml-tile cache``: the compiled kernels kept on disk, listed, limited and cleared."""

from __future__ import annotations

import argparse
import time

from gizml_tile.cli import output
from gizml_tile.cli.misuse import Misuse
from gizml_tile.cli.reports import Cache, CacheEntry
from gizml_tile.runtime import disk_cache

_DAY = 24 * 3600
_AGES = (("days", _DAY), ("hours", 3600), ("minutes", 60))


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=["list", "size", "limit", "clear"],
        help="list the entries (the default), or only what they take; remove the longest unused; remove all",
    )
    parser.add_argument("bytes", nargs="?", help="for limit: keep at most so much, such as 64M")
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    removed = 0
    if options.bytes is not None and options.action != "limit":
        raise Misuse(f"cache {options.action} takes no size; see cache limit")
    if options.action == "limit":
        removed = disk_cache.trim(_bytes(options.bytes))
    elif options.action == "clear":
        removed = disk_cache.clear()
    report = _report(removed, options.action == "list")
    if options.json:
        output.put_json(report)
    else:
        _print(report, options)
    return 0


def _bytes(text: str | None) -> int:
    found = None if text is None else disk_cache.bytes_of(text)
    if text is None:
        raise Misuse("cache limit needs a size, such as 64M")
    if found is None:
        raise Misuse(f"{text} is not a number of bytes, such as 64M")
    return found


def _report(removed: int, listed: bool) -> Cache:
    folder = disk_cache.folder()
    stored = disk_cache.entries()
    entries = tuple(
        CacheEntry(each.path.name, disk_cache.holds(each), each.bytes, each.used) for each in stored
    )
    total = sum(each.bytes for each in stored)
    where = None if folder is None else str(folder)
    return Cache(where, len(stored), total, disk_cache.limit(), removed, entries if listed else None)


def _print(report: Cache, options: argparse.Namespace) -> None:
    if report.folder is None:
        print(f"the cache is turned off by {disk_cache.CACHE_VARIABLE}")
        return
    if options.action == "clear":
        print(f"removed {report.removed} entries from {report.folder}")
        return
    if options.action == "limit":
        kept = f"{disk_cache.LIMIT_VARIABLE}={options.bytes} keeps it so"
        print(f"removed {report.removed} entries; {kept}")
        return
    if report.entries:
        rows = [(str(each.bytes), _age(each.used), each.holds, each.file) for each in report.entries]
        output.table(("bytes", "last used", "holds", "file"), rows, (0,))
    print(f"{report.count} entries, {report.bytes} of {report.limit_bytes} bytes, in {report.folder}")


def _age(used: float) -> str:
    """How long ago something was, in the largest unit of which it is one at least."""
    seconds = max(time.time() - used, 0)
    for unit, length in _AGES:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit if count > 1 else unit.removesuffix('s')} ago"
    return "just now"
