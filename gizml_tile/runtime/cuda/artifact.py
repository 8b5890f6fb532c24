"""What an emitter delivers for a GPU: the text of one kernel, its parameters and how it is launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..parameters import Parameter, of_arguments


@dataclass(frozen=True, slots=True)
class MapDimension:
    """One dimension of a tensor map: a tensor's axis, or one of the two that a split makes of it.

    ``box`` counts elements that one copy moves. With ``split`` the axis is seen as groups of so many
    elements, which it must fill: this dimension is the place in a group or, if ``outer``, the group.
    """

    axis: int
    box: int
    split: int = 0
    outer: bool = False


@dataclass(frozen=True, slots=True)
class MapSpec:
    """How bulk copies see a tensor: dimensions innermost first, of which the first has a step of 1.

    ``swizzle_bytes`` is 0, 32, 64 or 128; ``promotion_bytes`` (0, 64, 128 or 256) is how much of the
    second-level cache a copy fetches at least. Elements outside the tensor read as 0. F32 are ``rounded`` to
    TF32 on their way.
    """

    tensor: int
    dimensions: tuple[MapDimension, ...]
    swizzle_bytes: int = 128
    promotion_bytes: int = 256
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How many workgroups a launch has: ``"grid"``, one for each program, or ``"persistent"``.

    A persistent launch has at most ``per_processor`` workgroups for each multiprocessor of the device,
    rounded down to whole clusters, of which each runs as many programs as the others or one fewer. With a
    cluster a program counts as so many. ``together`` neighbours along axis ``along`` of the grid count as one
    program, and run in one workgroup.
    """

    kind: str = "grid"
    per_processor: int = 1
    together: int = 1
    along: int = 0

    def programs(self, grid: Sequence[int]) -> int:
        """How many programs a grid counts as."""
        sizes = [-(-size // self.together) if axis == self.along else size for axis, size in enumerate(grid)]
        return math.prod(sizes)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A kernel as PTX for one architecture, such as ``sm_90a``; ``workgroup_memory`` in bytes.

    With a ``cluster`` so many neighbouring workgroups run each program together.
    An ``overlapping`` kernel may begin before the one before it in its stream has ended: it waits itself.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int = 0
    cluster: int = 1
    parameters: tuple[Parameter, ...] = ()
    maps: tuple[MapSpec, ...] = ()
    launch: LaunchShape = LaunchShape()
    overlapping: bool = False


def of_emitted(emitted: Any) -> Artifact:
    """The artifact of what the PTX emitter gives: its arguments, then its maps, are the parameters.

    The emitter's boxes have the tensor's axes in order, and the driver wants the innermost first.
    """
    maps = tuple(
        MapSpec(each.tensor, _dimensions(each), each.swizzle, rounded=each.rounded) for each in emitted.maps
    )
    return Artifact(
        emitted.text,
        emitted.entry,
        emitted.arch,
        emitted.threads,
        emitted.workgroup_memory,
        emitted.cluster,
        (*of_arguments(emitted.arguments), *(Parameter("tensor_map", number) for number in range(len(maps)))),
        maps,
        LaunchShape(
            "persistent" if emitted.persistent else "grid",
            emitted.resident if emitted.persistent else 1,
            emitted.together,
            emitted.along,
        ),
        emitted.overlapping,
    )


def _dimensions(emitted: Any) -> tuple[MapDimension, ...]:
    """The dimensions of one of the emitter's maps, the contiguous one first."""
    sides = [MapDimension(axis, box) for axis, box in enumerate(emitted.box)][::-1]
    if emitted.turned:
        sides[:2] = sides[1], sides[0]
    return tuple(sides)


def describe(artifact: Artifact) -> dict[str, Any]:
    """Everything of an artifact but its text, in a form that fits JSON."""
    return {
        "entry": artifact.entry,
        "arch": artifact.arch,
        "threads": artifact.threads,
        "workgroup_memory": artifact.workgroup_memory,
        "cluster": artifact.cluster,
        "parameters": [[each.kind, each.index, each.axis, each.dtype] for each in artifact.parameters],
        "maps": [
            [
                each.tensor,
                [[side.axis, side.box, side.split, side.outer] for side in each.dimensions],
                each.swizzle_bytes,
                each.promotion_bytes,
                each.rounded,
            ]
            for each in artifact.maps
        ],
        "launch": [
            artifact.launch.kind,
            artifact.launch.per_processor,
            artifact.launch.together,
            artifact.launch.along,
        ],
        "overlapping": artifact.overlapping,
    }


def restore(metadata: dict[str, Any], text: str) -> Artifact:
    """The artifact that `describe` told, with its text."""
    return Artifact(
        text,
        metadata["entry"],
        metadata["arch"],
        metadata["threads"],
        metadata["workgroup_memory"],
        metadata["cluster"],
        tuple(Parameter(*each) for each in metadata["parameters"]),
        tuple(
            MapSpec(tensor, tuple(MapDimension(*side) for side in sides), *rest)
            for tensor, sides, *rest in metadata["maps"]
        ),
        LaunchShape(*metadata["launch"]),
        metadata["overlapping"],
    )
