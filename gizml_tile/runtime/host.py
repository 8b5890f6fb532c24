"""What this computer's CPU may be asked to do, chosen from a list of features known to be safe."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import TileError, here

CPU_VARIABLE = "GIZML_TILE_CPU"
THREADS_VARIABLE = "GIZML_TILE_THREADS"

# A CPU model's name stands for everything that model can do, also what a virtual machine or the
# operating system has turned off; so code is generated for a base and these features alone.
_X86_LEVELS = {
    "x86-64-v2": ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"),
    "x86-64-v3": ("avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
# Products of bytes in vectors, by the bits of a vector.
_VNNI = {256: "avxvnni", 512: "avx512vnni"}
# The matrix unit, of which all CPUs that have it have these parts.
_AMX = ("amx-tile", "amx-bf16", "amx-int8")
# CPUs that are a level and one feature more.
_EXTENDED = {
    "x86-64-v3+vnni": "avxvnni",
    "x86-64-v4+vnni": "avx512vnni",
    "x86-64-v4+bf16": "avx512bf16",
}
_X86_FEATURES = (
    *(name for level in _X86_LEVELS.values() for name in level),
    *_EXTENDED.values(),
)
# NumPy knows nothing of these, and no opinion is not a yes.
_UNKNOWN_TO_NUMPY = ("avxvnni", *_AMX)
# How /proc/cpuinfo and NumPy spell a feature, where they differ from LLVM. NumPy knows fewer.
_LINUX_NAMES = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "avx512bf16": "avx512_bf16",
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "neon": "asimd",
}
_NUMPY_NAMES = {"sse4.1": "SSE41", "sse4.2": "SSE42", "fma": "FMA3", "neon": "ASIMD"}

_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18
_SYS_ARCH_PRCTL = 158


@dataclass(frozen=True, slots=True)
class Host:
    """The CPU that kernels are compiled for and how many threads a launch may use; caches in bytes."""

    triple: str
    cpu_base: str
    features: tuple[str, ...]
    vector_bits: int
    bf16_dot: bool
    amx: bool
    threads: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    @property
    def feature_text(self) -> str:
        """The features as LLVM takes them, such as ``+avx,+avx2``."""
        return ",".join("+" + feature for feature in self.features)

    @property
    def i16_dot(self) -> bool:
        """Whether there are products of pairs of I16 that are added to I32: since SSE2."""
        return self.cpu_base == "x86-64"

    @property
    def i8_dot(self) -> bool:
        """Whether there are products of fours of U8 and I8 that are added to I32."""
        return _VNNI.get(self.vector_bits) in self.features

    @property
    def stream_bytes(self) -> int:
        """Tensors of more bytes are stored past the caches; 0 where no instructions for that are known."""
        return self.l3_bytes if self.cpu_base == "x86-64" else 0

    @property
    def key(self) -> str:
        """Everything that compiled code depends on: the part of a cache key that names the CPU."""
        extra = f"{'+bf16' if self.bf16_dot else ''}{'+amx' if self.amx else ''}"
        caches = f"{self.l1_bytes},{self.l2_bytes},{self.l3_bytes}"
        return (
            f"{self.triple} {self.cpu_base} {self.feature_text} {self.vector_bits}{extra} {caches}"
        )


def host() -> Host:
    """This computer, as GIZML_TILE_CPU, GIZML_TILE_THREADS and OMP_NUM_THREADS let it be used."""
    environment = os.environ
    return _host(
        environment.get(CPU_VARIABLE, "") or "native",
        environment.get(THREADS_VARIABLE, ""),
        environment.get("OMP_NUM_THREADS", ""),
    )


@lru_cache
def _host(cpu: str, threads: str, omp_threads: str) -> Host:
    machine = platform.machine().lower()
    caches = _cache_sizes()
    count = _thread_count(threads, omp_threads)
    if machine in ("x86_64", "amd64"):
        features, vector_bits, bf16_dot, amx = _x86(cpu)
        return Host(
            "x86_64-" + _system(),
            "x86-64",
            features,
            vector_bits,
            bf16_dot,
            amx,
            count,
            *caches,
        )
    if cpu != "native":
        raise TileError(
            f"{CPU_VARIABLE}={cpu} is for x86-64; on {machine} only native is known", here()
        )
    if machine in ("aarch64", "arm64"):
        return Host("aarch64-" + _system(), "generic", ("neon",), 128, False, False, count, *caches)
    raise TileError(
        f"no CPU code can be made for {machine}; x86-64 and aarch64 are supported", here()
    )


def _x86(cpu: str) -> tuple[tuple[str, ...], int, bool, bool]:
    """Features, vector bits, and whether the BF16 pair and the matrix instructions may be used."""
    present = _present_features()
    wanted, _, extension = cpu.partition("+")
    known = ["native", *_X86_LEVELS, *_EXTENDED]
    if cpu not in known:
        raise TileError(f"{CPU_VARIABLE}={cpu} is not known; it may be {', '.join(known)}", here())
    features: tuple[str, ...] = ()
    for level, names in _X86_LEVELS.items():
        missing = [name for name in names if name not in present]
        if missing and wanted == "native":
            break
        if missing:
            raise TileError(f"{CPU_VARIABLE}={cpu}: this CPU lacks {', '.join(missing)}", here())
        features += names
        if level == wanted:
            break
    vector_bits = 512 if "avx512f" in features else 256 if "avx2" in features else 128
    if extension and _EXTENDED[cpu] not in present:
        raise TileError(f"{CPU_VARIABLE}={cpu}: this CPU lacks {_EXTENDED[cpu]}", here())
    vnni = _VNNI.get(vector_bits)
    if vnni in present and (cpu == "native" or _EXTENDED.get(cpu) == vnni):
        features += (vnni,)
    bf16 = vector_bits == 512 and "avx512bf16" in present and cpu in ("native", "x86-64-v4+bf16")
    amx = cpu == "native" and bf16 and set(_AMX) <= present and _request_amx()
    # Intel's CPUs multiply pairs at half the rate of F32, so there F32 serves better without the matrix unit.
    pairs = bf16 and (cpu != "native" or _vendor() == "AuthenticAMD")
    return features, vector_bits, pairs, amx


@lru_cache
def _vendor() -> str:
    """Who made the CPU, as Linux spells it; empty elsewhere."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "vendor_id":
                    return value.strip()
    except OSError:
        pass
    return ""


@lru_cache
def _present_features() -> frozenset[str]:
    """Features that every witness asked agrees on: the operating system's list and NumPy's."""
    witnesses = [
        witness for witness in (_linux_features(), _numpy_features()) if witness is not None
    ]
    found = {
        name
        for name in (*_X86_FEATURES, *_AMX)
        if witnesses and all(witness.get(name, True) for witness in witnesses)
    }
    if _linux_features() is None:
        found.difference_update(_UNKNOWN_TO_NUMPY)
    return frozenset(found)


def _linux_features() -> dict[str, bool] | None:
    """Features of the first processor by /proc/cpuinfo, which lists what the kernel has enabled."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    flags = set(value.split())
                    break
            else:
                return None
    except OSError:
        return None
    return {name: _LINUX_NAMES.get(name, name) in flags for name in (*_X86_FEATURES, *_AMX)}


def _numpy_features() -> dict[str, bool] | None:
    """Features by NumPy, which asks the CPU itself and whether its registers are saved."""
    for place in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            features = importlib.import_module(place).__cpu_features__
            break
        except (ImportError, AttributeError):
            continue
    else:
        return None
    spelled = {name: _NUMPY_NAMES.get(name, name.upper()) for name in _X86_FEATURES}
    return {name: bool(features[there]) for name, there in spelled.items() if there in features}


@lru_cache
def _request_amx() -> bool:
    """Ask Linux for the matrix unit's registers, for this process and the threads it makes later."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    syscall.restype = ctypes.c_long
    request = (
        ctypes.c_long(value)
        for value in (_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    )
    return bool(syscall(*request) == 0)


def _system() -> str:
    if sys.platform == "darwin":
        return "apple-darwin"
    # Code is loaded from memory, and LLVM's loader on Windows takes ELF objects.
    return "pc-windows-msvc-elf" if sys.platform == "win32" else "unknown-linux-gnu"


def _thread_count(threads: str, omp_threads: str) -> int:
    """Threads of a launch: what GIZML_TILE_THREADS says, else the CPUs this process may use."""
    if threads:
        return _positive(THREADS_VARIABLE, threads)
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _cgroup_quota()
    if quota is not None:
        count = min(count, max(1, int(quota)))
    # OpenMP allows a list, one number for each level of nesting; launches do not nest.
    outer = omp_threads.partition(",")[0].strip()
    return min(count, int(outer)) if outer.isdecimal() and int(outer) else count


def _positive(variable: str, text: str) -> int:
    if text.strip().isdecimal() and 0 < int(text) <= 1024:
        return int(text)
    raise TileError(f"{variable}={text} is not a number of threads from 1 to 1024", here())


def _cgroup_quota() -> float | None:
    """CPUs' worth of time that the process's control group may use; None where it is not limited."""
    folder = "/"
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            folder = line[3:]
    quotas = []
    for place in dict.fromkeys(
        (f"/sys/fs/cgroup{folder.rstrip('/')}/cpu.max", "/sys/fs/cgroup/cpu.max")
    ):
        quotas.append(_read(place).split())
    version_1 = "/sys/fs/cgroup/cpu/cpu.cfs_"
    quotas.append(f"{_read(version_1 + 'quota_us')} {_read(version_1 + 'period_us')}".split())
    limits = [
        int(words[0]) / int(words[1])
        for words in quotas
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words)
    ]
    return min(limits, default=None)


def _cache_sizes() -> tuple[int, int, int]:
    """Bytes of the first, second and third level of data cache; common sizes where unknown."""
    sizes = {1: 32 << 10, 2: 1 << 20, 3: 8 << 20}
    units = {"K": 1 << 10, "M": 1 << 20}
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}/"
        level, size = _read(folder + "level"), _read(folder + "size")
        if _read(folder + "type") == "Instruction" or not level.isdecimal() or not size:
            continue
        if size[:-1].isdecimal() and size[-1] in units:
            sizes[int(level)] = int(size[:-1]) * units[size[-1]]
    return sizes[1], sizes[2], sizes[3]


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
