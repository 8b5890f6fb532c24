"""Targets: the kinds of devices that programs are compiled for, and the facts that plans rest on.

A further GPU of a known vendor is data alone: a row of facts here; where its matrix unit is new, that unit's
rule and rows in ``lowering/atoms.py``, with the vendor's formulas in ``tests/planning/test_matrix_cores.py``;
and its name in the tables of what the emitter may call (``lowering/emit/amdgpu/intrinsics.py``) and of what
the runtime launches on (``runtime/hip/devices.py``). Nothing that plans, expands or simulates knows a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.errors import TileError, here

KINDS = ("cpu", "cuda", "hip", "metal")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a GPU has. Memory is in bytes, ``units`` are its multiprocessors.

    ``lanes`` are the threads of a warp, which run in lockstep: what layouts, plans and kernels call a warp,
    whatever the hardware's own word. A person's ``warps`` count 32 threads each on every device (see
    `Target.warps`). ``workgroup_memory`` is what one workgroup may have, ``unit_memory`` what those of one
    unit share, ``reserved_memory`` what the hardware takes of that for each; ``registers`` are 32-bit ones
    of a thread, of which ``accumulators`` should be results of products at most, ``unit_registers`` of a
    unit. Rates are of the largest board in use with the architecture, for predictions alone: memory in bytes
    a second, the clock in hertz, and of one unit in a cycle: fused multiply-adds, approximate ``functions``,
    ``doubles``, fused multiply-adds of F64, and ``matrix_rates``, multiply-adds by the bits of an operand.
    ``abilities`` name what only some architectures have:

    ===================  ==============================================================================
    copy                 asynchronous copies from tensors to workgroup memory
    matrix_load          8x8 matrices between workgroup memory and fragments, reading
    matrix_store         and writing
    bf16_convert         instructions that round to BF16
    fp8_convert          instructions that convert FP8
    bulk                 the copy engine for boxes of tensors, transaction barriers
    group_matrix         asynchronous matrix operations of four warps on workgroup memory
    cluster              workgroups that run together and reach each other's workgroup memory
    nan_minimum          the smaller and the larger of two floats, NaN if one is
    extremes_16          the smaller and the larger of F16 and BF16, of two pairs at once
    f64                  mathematics in F64
    exp2_f32 tanh_f32    approximate functions
    add_f32x4 max_i64 .. atomic operations on so many neighbours in memory
    exchange_16 ..       elements of so many bits compared and exchanged, atomically
    near_reciprocal      approximate reciprocals that one of Newton's steps makes rounded ones
    f16_16x8x8 ...       atoms, by the names that the table of atoms gives them
    ===================  ==============================================================================
    """

    lanes: int
    workgroup_threads: int
    workgroup_memory: int
    unit_memory: int
    reserved_memory: int
    registers: int
    accumulators: int
    unit_registers: int
    unit_threads: int
    unit_workgroups: int
    units: int
    banks: int
    memory_rate: float
    clock: float
    multiply_adds: int
    functions: int
    doubles: int
    matrix_rates: tuple[tuple[int, float], ...]
    abilities: frozenset[str]


# near_reciprocal: as ptxas makes 1 / a of a's that are neither large nor small, on each of them.
_INTEGER_ATOMICS = [f"{op}_{kind}" for op in ("add", "max", "min") for kind in ("i32", "u32", "i64", "u64")]
_EXCHANGES = "exchange_16 exchange_32 exchange_64".split()
_TURING = frozenset(
    [
        *"matrix_load f16_16x8x8 i8_8x8x16 tanh_f32 exp2_f32 near_reciprocal f64".split(),
        *("add_f64", "add_f32", "add_f16", *_INTEGER_ATOMICS, *_EXCHANGES),
    ]
)
# PTX ISA, "red": vectors of floats, and BF16, from sm_90 on.
_VECTOR_ATOMICS = frozenset(
    "add_f32x2 add_f32x4 add_f16x2 add_f16x4 add_f16x8 add_bf16 add_bf16x2 add_bf16x4 add_bf16x8".split()
)
_AMPERE = _TURING | frozenset(
    "copy bf16_convert nan_minimum extremes_16 f16_16x8x16 bf16_16x8x8 bf16_16x8x16 tf32_16x8x8 f64_8x8x4 "
    "i8_16x8x32".split()
)
_ADA = _AMPERE | frozenset("fp8_convert fp8_16x8x32".split())
# On sm_90 the FP8 atom of a single warp is emulated, slower than converting to F16.
_SINCE_HOPPER = _ADA | _VECTOR_ATOMICS | frozenset("matrix_store bulk cluster f64_16x8x16".split())
_HOPPER = (_SINCE_HOPPER | {"group_matrix"}) - {"fp8_16x8x32"}
_BLACKWELL = _SINCE_HOPPER

# CUDA C++ Programming Guide, "Arithmetic Instructions" (results of a multiprocessor in a cycle); AMD's SIMDs
# make functions in a quarter of the lanes, as Apple's do.
_FUNCTIONS = 16


def _nvidia(
    memory: int,
    unit_memory: int,
    threads: int,
    workgroups: int,
    units: int,
    memory_rate: float,
    clock: float,
    multiply_adds: int,
    matrix_rate: float,
    doubles: tuple[int, float],
    abilities: frozenset[str],
) -> Facts:
    """``matrix_rate`` is that of 16 bits, ``doubles`` are the rates of F64 without and with matrix units."""
    rates = ((16, matrix_rate), (8, 2 * matrix_rate), (32, matrix_rate / 2), (64, doubles[1]))
    return Facts(
        lanes=32,
        workgroup_threads=1024,
        workgroup_memory=memory * 1024,
        unit_memory=unit_memory * 1024,
        reserved_memory=1024,
        registers=255,
        accumulators=128,
        unit_registers=65536,
        unit_threads=threads,
        unit_workgroups=workgroups,
        units=units,
        banks=32,
        memory_rate=memory_rate,
        clock=clock,
        multiply_adds=multiply_adds,
        functions=_FUNCTIONS,
        doubles=doubles[0],
        matrix_rates=rates,
        abilities=abilities,
    )


# CUDA C++ Programming Guide, "Compute Capabilities" (memory, threads, workgroups of a multiprocessor,
# 128 or 64 FP32 lanes, results of FP64); boards: T4, A100, A40, L40S, H200, B200, RTX PRO 6000, by their data
# sheets. Hopper multiplies matrices at 1.83 GHz and does all else at 1.98 GHz, by the white paper of H100.
_SLOWER = 1.83 / 1.98
_NVIDIA = {
    "sm_75": _nvidia(64, 64, 1024, 16, 40, 0.32e12, 1.59e9, 64, 512, (2, 2), _TURING),
    "sm_80": _nvidia(163, 164, 2048, 32, 108, 2.0e12, 1.41e9, 64, 1024, (32, 64), _AMPERE),
    "sm_86": _nvidia(99, 100, 1536, 16, 84, 0.7e12, 1.74e9, 128, 512, (2, 2), _AMPERE),
    "sm_89": _nvidia(99, 100, 1536, 24, 142, 0.86e12, 2.52e9, 128, 512, (2, 2), _ADA),
    "sm_90a": _nvidia(
        227, 228, 2048, 32, 132, 4.8e12, 1.98e9, 128, 2048 * _SLOWER, (64, 128 * _SLOWER), _HOPPER
    ),
    "sm_100a": _nvidia(227, 228, 2048, 32, 148, 8.0e12, 1.97e9, 128, 2048, (64, 64), _BLACKWELL),
    "sm_120a": _nvidia(99, 100, 1536, 24, 188, 1.79e12, 2.6e9, 128, 512, (2, 2), _BLACKWELL),
}

# Matrix cores of CDNA 2, 3 and 4, and of RDNA 3 and 4. CDNA 3 multiplies FP8 of another encoding than ours.
_MFMA_F16 = "mfma_f16_16x16x16 mfma_f16_32x32x8 mfma_bf16_16x16x16 mfma_bf16_32x32x8".split()
_MFMA_WIDE = "mfma_f32_16x16x4 mfma_f32_32x32x2 mfma_f64_16x16x4".split()
_AMD_ABILITIES = ["f64", "add_f32", *_INTEGER_ATOMICS, *_EXCHANGES]
_CDNA = frozenset([*_AMD_ABILITIES, *_MFMA_F16, *_MFMA_WIDE, "add_f64", "exp2_f32"])
_CDNA2 = _CDNA | {"mfma_i8_16x16x16", "mfma_i8_32x32x8"}
_CDNA3 = _CDNA | {"mfma_i8_16x16x32", "mfma_i8_32x32x16"}
_CDNA4 = _CDNA3 | frozenset(
    "mfma_f16_16x16x32 mfma_f16_32x32x16 mfma_bf16_16x16x32 mfma_bf16_32x32x16 mfma_fp8_16x16x32 "
    "mfma_fp8_32x32x16 mfma_i8_16x16x64 mfma_i8_32x32x32".split()
)
_RDNA3 = frozenset(
    [*_AMD_ABILITIES, *"wmma11_f16_16x16x16 wmma11_bf16_16x16x16 wmma11_i8_16x16x16 exp2_f32".split()]
)
_RDNA4 = frozenset(_AMD_ABILITIES) | frozenset(
    "wmma12_f16_16x16x16 wmma12_bf16_16x16x16 wmma12_fp8_16x16x16 wmma12_i8_16x16x16 exp2_f32".split()
)


def _cdna(
    memory: int,
    banks: int,
    units: int,
    memory_rate: float,
    clock: float,
    multiply_adds: int,
    matrix_rates: tuple[int, int, int, int],
    abilities: frozenset[str],
) -> Facts:
    """``matrix_rates`` are those of 64, 32, 16 and 8 bits."""
    return Facts(
        lanes=64,
        workgroup_threads=1024,
        workgroup_memory=memory * 1024,
        unit_memory=memory * 1024,
        reserved_memory=0,
        registers=512,
        accumulators=256,
        unit_registers=4 * 512 * 64,
        unit_threads=2048,
        unit_workgroups=16,
        units=units,
        banks=banks,
        memory_rate=memory_rate,
        clock=clock,
        multiply_adds=multiply_adds,
        functions=_FUNCTIONS,
        doubles=64,
        matrix_rates=tuple(zip((64, 32, 16, 8), matrix_rates, strict=True)),
        abilities=abilities,
    )


def _rdna(
    accumulators: int,
    units: int,
    memory_rate: float,
    clock: float,
    matrix_rates: tuple[int, int],
    abilities: frozenset[str],
) -> Facts:
    """``matrix_rates`` are those of 16 and 8 bits. Operands of RDNA 3 take twice the registers."""
    return Facts(
        lanes=32,
        workgroup_threads=1024,
        workgroup_memory=64 * 1024,
        unit_memory=64 * 1024,
        reserved_memory=0,
        registers=256,
        accumulators=accumulators,
        unit_registers=2 * 1536 * 32,
        unit_threads=1024,
        unit_workgroups=16,
        units=units,
        banks=32,
        memory_rate=memory_rate,
        clock=clock,
        multiply_adds=128,
        functions=_FUNCTIONS,
        doubles=4,
        matrix_rates=tuple(zip((16, 8), matrix_rates, strict=True)),
        abilities=abilities,
    )


# AMD's ISA guides of CDNA 2, 3, 4 and RDNA 3, 3.5, 4 (registers, workgroup memory and its banks, waves of a
# SIMD) and LLVM's "User Guide for AMDGPU Backend"; boards by their data sheets: one die of MI250X, MI300X,
# MI355X, RX 7900 XTX, Radeon 8060S, RX 9060 XT, RX 9070 XT.
_AMD = {
    "gfx90a": _cdna(64, 32, 110, 1.6e12, 1.7e9, 64, (128, 128, 512, 512), _CDNA2),
    "gfx942": _cdna(64, 32, 304, 5.3e12, 2.1e9, 128, (128, 128, 1024, 2048), _CDNA3),
    "gfx950": _cdna(160, 64, 256, 8.0e12, 2.4e9, 128, (64, 128, 2048, 4096), _CDNA4),
    "gfx1100": _rdna(32, 96, 0.96e12, 2.5e9, (256, 256), _RDNA3),
    "gfx1151": _rdna(32, 40, 0.256e12, 2.9e9, (256, 256), _RDNA3),
    "gfx1200": _rdna(64, 32, 0.32e12, 3.13e9, (512, 1024), _RDNA4),
    "gfx1201": _rdna(64, 64, 0.64e12, 2.97e9, (512, 1024), _RDNA4),
}

# MSL has atomic words of 32 bits alone; of 64 bits a sum is one of two such words.
_APPLE7 = frozenset(
    "simdgroup_f16_8x8x8 simdgroup_f32_8x8x8 exp2_f32 add_f32 add_i32 max_i32 min_i32 add_u32 max_u32 "
    "min_u32 add_i64 add_u64 exchange_16 exchange_32".split()
)
_APPLE8 = _APPLE7 | {"simdgroup_bf16_8x8x8"}


def _apple(units: int, memory_rate: float, clock: float, abilities: frozenset[str]) -> Facts:
    return Facts(
        lanes=32,
        workgroup_threads=1024,
        workgroup_memory=32 * 1024,
        unit_memory=60 * 1024,
        reserved_memory=0,
        registers=128,
        accumulators=64,
        unit_registers=208 * 1024 // 4,
        unit_threads=3072,
        unit_workgroups=32,
        units=units,
        banks=32,
        memory_rate=memory_rate,
        clock=clock,
        multiply_adds=128,
        functions=2 * _FUNCTIONS,
        doubles=0,
        matrix_rates=((16, 128), (32, 128)),
        abilities=abilities,
    )


# Apple's "Metal Feature Set Tables" (workgroup memory, threads, lanes) and "Metal Shading Language
# Specification" (types of matrices). Apple documents no more: units, registers and rates are as published
# by those who measured them (metal-benchmarks); boards: M1 Max, M2 Ultra, M4 Max.
_APPLE = {
    "apple7": _apple(32, 0.4e12, 1.3e9, _APPLE7),
    "apple8": _apple(76, 0.8e12, 1.4e9, _APPLE8),
    "apple9": _apple(40, 0.546e12, 1.58e9, _APPLE8),
}
_FACTS = {**_NVIDIA, **_AMD, **_APPLE}
_ARCHS = {"cuda": tuple(_NVIDIA), "hip": tuple(_AMD), "metal": tuple(_APPLE)}
_DEFAULT_ARCH = {"cuda": "sm_90a", "hip": "gfx942", "metal": "apple9"}
# What a person counts as one warp.
_WARP_THREADS = 32


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device and its architecture; ``native`` is the computer's own CPU."""

    kind: str
    arch: str

    @property
    def facts(self) -> Facts:
        """What this GPU has. Raises KeyError for the CPU, which is not planned for by such facts."""
        return _FACTS[self.arch]

    def can(self, ability: str) -> bool:
        """Whether this GPU has an ability (see `Facts`)."""
        return ability in self.facts.abilities

    def warps(self, count: int) -> int:
        """This GPU's own warps that have the threads of so many warps of 32, at least one."""
        return max(count * _WARP_THREADS // self.facts.lanes, 1)

    def __str__(self) -> str:
        return f"{self.kind} ({self.arch})"


def gpus() -> tuple[Target, ...]:
    """Every GPU that programs are planned for."""
    return tuple(Target(kind, arch) for kind, archs in _ARCHS.items() for arch in archs)


def target(kind: str | None, arch: str | None, devices: tuple[str, ...] = ()) -> Target:
    """The target asked for, by default that of the tensors' device.

    Raises TileError for a kind or an architecture that is unknown.
    """
    if kind is None:
        kind = devices[0].partition(":")[0] if devices else "cpu"
    if kind not in KINDS:
        raise TileError(f"kind {kind!r} is not known; kinds are {', '.join(KINDS)}", here())
    if kind == "cpu":
        if arch not in (None, "", "native"):
            raise TileError(
                f"arch {arch!r} is not known for the CPU; it is compiled for the computer's own, 'native' "
                "(GIZML_TILE_CPU chooses less)",
                here(),
            )
        return Target(kind, "native")
    chosen = arch or _DEFAULT_ARCH[kind]
    if chosen not in _ARCHS[kind]:
        raise TileError(
            f"arch {arch!r} is not known for kind {kind!r}; known are {', '.join(_ARCHS[kind])}", here()
        )
    return Target(kind, chosen)


def require_launches(kind: str) -> None:
    """Raise TileError for a kind of device that this version cannot launch on."""
    if kind not in KINDS:
        raise TileError(
            f"launches on kind {kind!r} are not built yet; this version launches on {', '.join(KINDS)}",
            here(),
        )
