"""``cache``: what is listed, limited and cleared."""

import json
import os
import re
import time

import pytest

from gizml_tile.runtime import disk_cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(count):
    for number in range(count):
        disk_cache.put(f"key {number}", disk_cache.Entry({}, bytes(1000)), f"code of kernel {number}")
    return sum(each.bytes for each in disk_cache.entries())


def test_listed_limited_and_cleared(command, folder):
    total = put(3)
    old = disk_cache.entries()[0].path
    os.utime(old, (time.time() - 3 * 86400,) * 2)
    code, out, _ = command("cache")
    head, *rows, last = out.splitlines()
    assert code == 0 and head.split() == ["bytes", "last", "used", "holds", "file"]
    assert [row.split()[0] for row in rows] == [str(total // 3)] * 3
    assert re.search(rf"  3 days ago  code of kernel \d  {old.name}$", rows[0]) and "just now" in rows[1]
    assert last == f"3 entries, {total} of {disk_cache.limit()} bytes, in {folder}"
    assert command("cache", "size")[1].splitlines() == [last]
    told = "removed 2 entries; GIZML_TILE_CACHE_LIMIT=2K keeps it so\n"
    assert command("cache", "limit", "2K")[1] == told
    assert command("cache", "clear")[1] == f"removed 1 entries from {folder}\n"
    assert not list(folder.glob("*.kernel"))


def test_as_json(command, folder):
    total = put(2)
    report = json.loads(command("cache", "--json")[1])
    entries = report.pop("entries")
    facts = {
        "folder": str(folder),
        "count": 2,
        "bytes": total,
        "limit_bytes": disk_cache.limit(),
        "removed": 0,
    }
    assert report == facts
    assert {each["file"] for each in entries} == {each.path.name for each in disk_cache.entries()}
    assert {each["holds"] for each in entries} == {"code of kernel 0", "code of kernel 1"}
    assert all(each["bytes"] == total // 2 and time.time() - each["used"] < 60 for each in entries)
    assert json.loads(command("cache", "size", "--json")[1]) == facts | {"entries": None}
    report = json.loads(command("cache", "clear", "--json")[1])
    assert (report["removed"], report["count"], report["bytes"]) == (2, 0, 0)


def test_turned_off(command):
    assert command("cache")[1] == "the cache is turned off by GIZML_TILE_CACHE\n"
    assert json.loads(command("cache", "--json")[1])["folder"] is None
