"""``gizml-tile cache``: the compiled kernels kept on disk, listed, limited and cleared."""

from __future__ import annotations

import argparse

from gizml_tile.cli.misuse import Misuse
from gizml_tile.runtime import disk_cache


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("action", nargs="?", default="list", choices=["list", "size", "limit", "clear"])
    parser.add_argument("bytes", nargs="?", help="for limit: keep at most so much, such as 64M")


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    if options.bytes is not None and options.action != "limit":
        raise Misuse(f"cache {options.action} takes no size; see cache limit")
    if options.action == "limit":
        if options.bytes is None:
            raise Misuse("cache limit needs a size, such as 64M")
        limit = disk_cache.bytes_of(options.bytes)
        if limit is None:
            raise Misuse(f"{options.bytes} is not a number of bytes, such as 64M")
        print(f"removed {disk_cache.trim(limit)} entries")
        return 0
    folder = disk_cache.folder()
    if folder is None:
        print(f"the cache is turned off by {disk_cache.CACHE_VARIABLE}")
        return 0
    if options.action == "clear":
        print(f"removed {disk_cache.clear()} entries from {folder}")
        return 0
    entries = disk_cache.entries()
    if options.action == "list":
        for entry in entries:
            print(f"{entry.bytes:>10}  {entry.path.name}")
    total = sum(entry.bytes for entry in entries)
    print(f"{len(entries)} entries, {total} of {disk_cache.limit()} bytes, in {folder}")
    return 0
