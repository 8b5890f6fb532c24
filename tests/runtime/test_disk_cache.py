"""Entries survive processes, limits and damage."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gizml_tile.errors import TileError
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.disk_cache import Entry, clear, entries, get, limit, put, size, trim

ENTRY = Entry({"arena": 64, "layout": [["pointer", 0, 0]]}, bytes(range(256)) * 8)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GIZML_TILE_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


def test_what_is_put_is_got():
    assert get("a") is None
    put("a", ENTRY, "an entry")
    put("b", Entry({}, b""), "an entry")
    assert get("a") == ENTRY and get("b") == Entry({}, b"")
    assert get("c") is None
    put("a", Entry({"new": 1}, b"x"), "an entry")
    assert get("a") == Entry({"new": 1}, b"x")


def test_what_entries_hold(place):
    put("a", ENTRY, "code of a kernel")
    (stored,) = entries()
    assert disk_cache.holds(stored) == "code of a kernel"
    stored.path.write_bytes(stored.path.read_bytes()[:-1])
    assert disk_cache.holds(stored) == ""
    stored.path.unlink()
    assert disk_cache.holds(stored) == ""


def test_every_truncation_is_a_miss_and_is_replaced(place):
    put("a", ENTRY, "an entry")
    path = entries()[0].path
    whole = path.read_bytes()
    for length in [*range(200), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert get("a") is None, length
    put("a", ENTRY, "an entry")
    assert get("a") == ENTRY


def test_a_flipped_byte_is_a_miss():
    put("a", ENTRY, "an entry")
    path = entries()[0].path
    whole = path.read_bytes()
    for at in [*range(120), *range(120, len(whole), 29), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert get("a") is None, at


@pytest.mark.parametrize("setting", ["0", "off", "OFF"])
def test_off(monkeypatch, setting):
    monkeypatch.setenv("GIZML_TILE_CACHE", setting)
    put("a", ENTRY, "an entry")
    assert get("a") is None and entries() == [] and clear() == 0 and disk_cache.folder() is None


@pytest.mark.parametrize("setting", ["", "/elsewhere/cache"])
def test_the_users_cache_folder_by_default(monkeypatch, setting):
    import platformdirs

    monkeypatch.setenv("XDG_CACHE_HOME", setting)
    expected = platformdirs.user_cache_dir("gizml_tile", appauthor=False)
    assert str(disk_cache._folder.__wrapped__("")) == expected


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "file" / "below"))
    put("a", ENTRY, "an entry")
    assert get("a") is None and entries() == [] and size() == 0


def test_the_longest_unused_go_first():
    for number in range(10):
        put(str(number), ENTRY, "an entry")
    one = entries()[0].bytes
    for number in range(10):
        os.utime(disk_cache.folder() / disk_cache._name(str(number)), (number + 1e9, number + 1e9))
    assert get("0") == ENTRY
    assert trim(4 * one) == 6
    assert [number for number in range(10) if get(str(number))] == [0, 7, 8, 9]
    assert size() == 4 * one
    assert clear() == 4 and entries() == []


def test_the_limit_holds_while_putting(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE_LIMIT", "20K")
    for number in range(40):
        put(str(number), ENTRY, "an entry")
        assert size() <= 20 << 10
    assert get("39") == ENTRY


def test_the_number_of_entries_is_bounded(monkeypatch):
    monkeypatch.setattr(disk_cache, "_MOST_ENTRIES", 24)
    monkeypatch.setattr(disk_cache, "_PUTS_BETWEEN_TRIMS", 4)
    most = 0
    for number in range(120):
        put(str(number), ENTRY, "an entry")
        most = max(most, len(entries()))
    assert 21 <= len(entries()) <= most < 64
    assert get("119") == ENTRY


@pytest.mark.parametrize(
    ("text", "value"), [("", 256 << 20), ("100", 100), ("2k", 2048), ("1G", 1 << 30)]
)
def test_limits(monkeypatch, text, value):
    monkeypatch.setenv("GIZML_TILE_CACHE_LIMIT", text)
    assert limit() == value


def test_a_wrong_limit_is_an_error(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE_LIMIT", "lots")
    with pytest.raises(TileError, match="GIZML_TILE_CACHE_LIMIT=lots is not a number of bytes"):
        limit()


def test_what_a_killed_process_left_is_removed(place):
    put("a", ENTRY, "an entry")
    old, new = place / "x.1.0.partial", place / "y.1.0.partial"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    trim(1 << 30)
    assert not old.exists() and new.exists()
    clear()
    assert not new.exists()


RACE = """
import sys
from gizml_tile.runtime.disk_cache import Entry, get, put
seed = int(sys.argv[1])
for turn in range(15):
    for key in range(4):
        found = get(str(key))
        assert found is None or found.data == bytes([found.metadata["fill"]]) * 50_000, "torn"
        fill = (seed + turn) % 256
        put(str(key), Entry({"fill": fill}, bytes([fill]) * 50_000), "an entry")
print("ok")
"""


def test_eight_processes_at_once(place):
    children = [
        subprocess.Popen([sys.executable, "-c", RACE, str(seed)], stdout=subprocess.PIPE)
        for seed in range(8)
    ]
    assert [child.communicate()[0] for child in children] == [b"ok\n"] * 8
    assert len(entries()) == 4 and all(get(str(key)) for key in range(4))
    assert not [name for name in os.listdir(place) if name.endswith(".partial")]


def test_the_fingerprint_follows_the_files(tmp_path, monkeypatch):
    files = []
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(f"{name} = 1")
        files.append((name, str(tmp_path / name)))
    monkeypatch.setattr(
        disk_cache,
        "_package_files",
        lambda: ((name, path, os.stat(path)) for name, path in files),
    )
    fingerprint = disk_cache.package_fingerprint.__wrapped__
    first = fingerprint()
    assert len(first) == 64 and fingerprint() == first
    os.utime(tmp_path / "one.py", (1e9, 1e9))
    assert fingerprint() == first
    (tmp_path / "one.py").write_text("one = 22")
    assert fingerprint() != first
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
    (tmp_path / "one.py").write_text("one.py = 1")
    assert fingerprint() == first


def test_the_fingerprint_covers_all_three_parts():
    names = [name for name, _, _ in disk_cache._package_files()]
    assert {"gizml_tile/runtime/disk_cache.py", "gizml_tile.frontend/__init__.py"} <= set(names)
    assert "gizml_tile.lowering/emit/cpu/__init__.py" in names
    assert len(disk_cache.package_fingerprint()) == 64
