"""Targets: the kinds of devices that programs are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.errors import TileError, here

KINDS = ("cpu", "cuda", "hip", "metal")
_BUILT = ("cpu",)


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device and its architecture; ``native`` is the computer's own CPU."""

    kind: str
    arch: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.arch})"


def target(kind: str | None, arch: str | None, devices: tuple[str, ...] = ()) -> Target:
    """The target asked for, by default that of the tensors' device.

    Raises TileError for a kind that is unknown or not built yet.
    """
    if kind is None:
        kind = devices[0].partition(":")[0] if devices else "cpu"
    if kind not in KINDS:
        raise TileError(f"kind {kind!r} is not known; kinds are {', '.join(KINDS)}", here())
    require_built(kind)
    if arch not in (None, "", "native"):
        raise TileError(
            f"arch {arch!r} is not known for the CPU; it is compiled for the computer's own, 'native' "
            "(GIZML_TILE_CPU chooses less)",
            here(),
        )
    return Target(kind, "native")


def require_built(kind: str) -> None:
    """Raise TileError for a kind of device that this version has no code for."""
    if kind not in _BUILT:
        raise TileError(
            f"kind {kind!r} is not built yet; this version compiles for {', '.join(_BUILT)}", here()
        )
