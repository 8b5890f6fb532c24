"""Targets: the kinds of devices that programs are compiled for, and the facts that plans rest on."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.errors import TileError, here

KINDS = ("cpu", "cuda", "hip", "metal")
_BUILT = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a GPU has. Memory is in bytes, ``units`` are its multiprocessors.

    ``workgroup_memory`` is what one workgroup may have, ``unit_memory`` what those of one unit share;
    ``registers`` are 32-bit ones of a thread, ``unit_registers`` of a unit. Rates are of the largest board
    in use with the architecture, for predictions alone: memory in bytes a second, the clock in hertz, and
    fused multiply-adds of one unit in a cycle, with ``matrix_rates`` by the bits of a matrix operand.
    ``abilities`` name what only some architectures have:

    ===================  ==============================================================================
    copy                 asynchronous copies from tensors to workgroup memory
    matrix_load          8x8 matrices between workgroup memory and fragments, reading
    matrix_store         and writing
    bf16_convert         instructions that round to BF16
    fp8_convert          instructions that convert FP8
    bulk                 the copy engine for boxes of tensors, transaction barriers
    group_matrix         asynchronous matrix operations of four warps on workgroup memory
    nan_minimum          the smaller and the larger of two floats, NaN if one is
    exp2_f32 tanh_f32    approximate functions
    f16_16x8x8 ...       atoms, by the names that the table of atoms gives them
    ===================  ==============================================================================
    """

    lanes: int
    workgroup_threads: int
    workgroup_memory: int
    unit_memory: int
    registers: int
    unit_registers: int
    unit_threads: int
    unit_workgroups: int
    units: int
    banks: int
    memory_rate: float
    clock: float
    multiply_adds: int
    matrix_rates: tuple[tuple[int, int], ...]
    abilities: frozenset[str]


_TURING = frozenset("matrix_load f16_16x8x8 i8_8x8x16 tanh_f32 exp2_f32".split())
_AMPERE = _TURING | frozenset(
    "copy bf16_convert nan_minimum f16_16x8x16 bf16_16x8x8 bf16_16x8x16 tf32_16x8x8 i8_16x8x32".split()
)
_ADA = _AMPERE | frozenset("fp8_convert fp8_16x8x32".split())
# On sm_90 the FP8 atom of a single warp is emulated, slower than converting to F16.
_HOPPER = (_ADA | frozenset("matrix_store bulk group_matrix".split())) - {"fp8_16x8x32"}
_BLACKWELL = _ADA | frozenset("matrix_store bulk".split())


def _nvidia(
    memory: int,
    unit_memory: int,
    threads: int,
    workgroups: int,
    units: int,
    memory_rate: float,
    clock: float,
    multiply_adds: int,
    matrix_rate: int,
    abilities: frozenset[str],
) -> Facts:
    rates = ((16, matrix_rate), (8, 2 * matrix_rate), (32, matrix_rate // 2))
    return Facts(
        lanes=32,
        workgroup_threads=1024,
        workgroup_memory=memory * 1024,
        unit_memory=unit_memory * 1024,
        registers=255,
        unit_registers=65536,
        unit_threads=threads,
        unit_workgroups=workgroups,
        units=units,
        banks=32,
        memory_rate=memory_rate,
        clock=clock,
        multiply_adds=multiply_adds,
        matrix_rates=rates,
        abilities=abilities,
    )


# CUDA C++ Programming Guide, "Compute Capabilities" (memory, threads, workgroups of a multiprocessor,
# 128 or 64 FP32 lanes); boards: T4, A100, A40, L40S, H200, B200, RTX PRO 6000, by their data sheets.
_FACTS = {
    "sm_75": _nvidia(64, 64, 1024, 16, 40, 0.32e12, 1.59e9, 64, 512, _TURING),
    "sm_80": _nvidia(163, 164, 2048, 32, 108, 2.0e12, 1.41e9, 64, 1024, _AMPERE),
    "sm_86": _nvidia(99, 100, 1536, 16, 84, 0.7e12, 1.74e9, 128, 512, _AMPERE),
    "sm_89": _nvidia(99, 100, 1536, 24, 142, 0.86e12, 2.52e9, 128, 512, _ADA),
    "sm_90a": _nvidia(227, 228, 2048, 32, 132, 4.8e12, 1.98e9, 128, 2048, _HOPPER),
    "sm_100a": _nvidia(227, 228, 2048, 32, 148, 8.0e12, 1.97e9, 128, 2048, _BLACKWELL),
    "sm_120a": _nvidia(99, 100, 1536, 24, 188, 1.79e12, 2.6e9, 128, 512, _BLACKWELL),
}
_DEFAULT_ARCH = {"cuda": "sm_90a"}
_ARCHS = {"cuda": tuple(_FACTS)}


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

    def __str__(self) -> str:
        return f"{self.kind} ({self.arch})"


def target(kind: str | None, arch: str | None, devices: tuple[str, ...] = ()) -> Target:
    """The target asked for, by default that of the tensors' device.

    Raises TileError for a kind or an architecture that is unknown or not built yet.
    """
    if kind is None:
        kind = devices[0].partition(":")[0] if devices else "cpu"
    if kind not in KINDS:
        raise TileError(f"kind {kind!r} is not known; kinds are {', '.join(KINDS)}", here())
    require_built(kind)
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


def require_built(kind: str) -> None:
    """Raise TileError for a kind of device that this version has no code for."""
    if kind not in _BUILT:
        raise TileError(
            f"kind {kind!r} is not built yet; this version compiles for {', '.join(_BUILT)}", here()
        )
