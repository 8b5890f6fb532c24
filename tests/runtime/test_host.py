"""The host's CPU: witnesses agree, overrides hold, threads are counted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gizml_tile.errors import TileError
from gizml_tile.runtime import host as module
from gizml_tile.runtime.host import host


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("GIZML_TILE_CPU", "GIZML_TILE_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    module._host.cache_clear()
    yield
    module._host.cache_clear()


def test_llvm_agrees_with_every_feature():
    import llvmlite.binding as llvm

    found = llvm.get_host_cpu_features()
    for feature in host().features:
        assert found[feature], feature


def test_facts_are_sane():
    found = host()
    assert found.vector_bits in (128, 256, 512)
    assert 4096 <= found.l1_bytes <= found.l2_bytes
    assert found.l3_bytes > 0 and found.threads >= 1
    assert found is host()
    assert found.key.startswith(found.triple)


@pytest.mark.parametrize(
    ("level", "bits", "last"),
    [("x86-64-v2", 128, "popcnt"), ("x86-64-v3", 256, "lzcnt"), ("x86-64-v4", 512, "avx512vl")],
)
def test_levels(monkeypatch, level, bits, last):
    monkeypatch.setattr(module, "_present_features", lambda: frozenset(_ALL))
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("GIZML_TILE_CPU", level)
    found = host()
    assert (found.vector_bits, found.features[-1]) == (bits, last)
    assert not found.bf16_dot and not found.amx


_ALL = set(module._X86_FEATURES)


@pytest.mark.parametrize(
    ("cpu", "bits", "bf16", "vnni"),
    [
        ("x86-64-v3+vnni", 256, False, ["avxvnni"]),
        ("x86-64-v4+vnni", 512, False, ["avx512vnni"]),
        ("x86-64-v4+bf16", 512, True, []),
        ("x86-64-v3", 256, False, []),
        ("native", 512, True, ["avx512vnni"]),
    ],
)
def test_levels_and_one_feature_more(monkeypatch, cpu, bits, bf16, vnni):
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module, "_present_features", lambda: frozenset(_ALL))
    monkeypatch.setattr(module, "_vendor", lambda: "AuthenticAMD")
    monkeypatch.setenv("GIZML_TILE_CPU", cpu)
    found = host()
    assert (found.vector_bits, found.bf16_dot, found.i8_dot) == (bits, bf16, bool(vnni))
    assert [name for name in found.features if "vnni" in name] == vnni


@pytest.mark.parametrize(("vendor", "pairs"), [("AuthenticAMD", True), ("GenuineIntel", False)])
def test_native_takes_what_is_there_and_fast(monkeypatch, vendor, pairs):
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module, "_present_features", lambda: frozenset(_ALL))
    monkeypatch.setattr(module, "_vendor", lambda: vendor)
    assert host().bf16_dot is pairs and not host().amx and host().vector_bits == 512
    module._host.cache_clear()
    monkeypatch.setattr(module, "_present_features", lambda: frozenset(_ALL - {"avx512cd"}))
    assert host().vector_bits == 256 and not host().bf16_dot and host().features[-1] == "avxvnni"
    module._host.cache_clear()
    monkeypatch.setattr(module, "_present_features", lambda: frozenset())
    assert host().vector_bits == 128 and host().features == ()


def test_a_feature_needs_every_witness(monkeypatch):
    everything = dict.fromkeys(_ALL | set(module._AMX), True)
    monkeypatch.setattr(module, "_linux_features", lambda: everything)
    monkeypatch.setattr(module, "_numpy_features", lambda: {"avx512f": False, "avx2": True})
    found = module._present_features.__wrapped__()
    assert "avx512f" not in found and "avx2" in found and {"amx-tile", "avxvnni"} <= found
    monkeypatch.setattr(module, "_linux_features", lambda: None)
    assert not {"amx-tile", "avxvnni"} & module._present_features.__wrapped__()
    monkeypatch.setattr(module, "_numpy_features", lambda: None)
    assert module._present_features.__wrapped__() == frozenset()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "GIZML_TILE_CPU",
            "pentium",
            "GIZML_TILE_CPU=pentium is not known; it may be native, x86-64-v2",
        ),
        ("GIZML_TILE_CPU", "x86-64-v4", "GIZML_TILE_CPU=x86-64-v4: this CPU lacks avx512f"),
        ("GIZML_TILE_CPU", "x86-64-v4+bf16", "this CPU lacks avx512f"),
        ("GIZML_TILE_CPU", "x86-64-v3+vnni", "x86-64-v3+vnni: this CPU lacks avxvnni"),
        ("GIZML_TILE_THREADS", "many", "GIZML_TILE_THREADS=many is not a number of threads"),
        ("GIZML_TILE_THREADS", "0", "GIZML_TILE_THREADS=0 is not a number of threads"),
    ],
)
def test_wrong_settings_are_errors(monkeypatch, variable, value, message):
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module, "_present_features", lambda: frozenset(_ALL - {"avx512f", "avxvnni"}))
    monkeypatch.setenv(variable, value)
    with pytest.raises(TileError, match=message.replace("+", r"\+")):
        host()


def test_arm_and_others(monkeypatch):
    monkeypatch.setattr(module.platform, "machine", lambda: "arm64")
    assert (host().vector_bits, host().features) == (128, ("neon",))
    monkeypatch.setenv("GIZML_TILE_CPU", "x86-64-v3")
    with pytest.raises(TileError, match="is for x86-64"):
        host()
    monkeypatch.delenv("GIZML_TILE_CPU")
    module._host.cache_clear()
    monkeypatch.setattr(module.platform, "machine", lambda: "vax")
    with pytest.raises(TileError, match="no CPU code can be made for vax"):
        host()


def test_threads(monkeypatch):
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(module, "_cgroup_quota", lambda: None)
    count = module._thread_count
    assert [count("", ""), count("", "2"), count("", "4,2"), count("", "64"), count("", "x")] == [
        6,
        2,
        4,
        6,
        6,
    ]
    assert count("12", "2") == 12
    monkeypatch.setattr(module, "_cgroup_quota", lambda: 2.5)
    assert count("", "") == 2
    monkeypatch.setattr(module, "_cgroup_quota", lambda: 0.2)
    assert count("", "") == 1


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"/sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "/proc/self/cgroup": "0::/box",
                "/sys/fs/cgroup/box/cpu.max": "100000 100000",
                "/sys/fs/cgroup/cpu.max": "300000 100000",
            },
            1.0,
        ),
        (
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        (
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "25000",
            },
            2.0,
        ),
    ],
)
def test_quota_of_the_control_group(monkeypatch, files, quota):
    monkeypatch.setattr(module, "_read", lambda path: files.get(path, ""))
    assert module._cgroup_quota() == quota


def test_the_key_needs_no_llvmlite():
    code = "from gizml_tile.runtime.host import host; import sys; host(); print('llvmlite' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
