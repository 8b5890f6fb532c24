"""What an emitter delivers for an AMD GPU: the text of one kernel, its parameters and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..parameters import Parameter, facts_of, of_arguments


@dataclass(frozen=True, slots=True)
class Artifact:
    """A kernel as LLVM IR for one architecture, such as ``gfx942``; ``workgroup_memory`` in bytes.

    Where ``per_unit`` is not 0, a launch has at most so many workgroups for each compute unit, which then
    run all programs; else it has one for each program.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int
    parameters: tuple[Parameter, ...]
    per_unit: int = 0


def of_emitted(emitted: Any) -> Artifact:
    """The artifact of what the AMDGPU emitter gives."""
    return Artifact(
        emitted.text,
        emitted.entry,
        emitted.arch,
        emitted.threads,
        emitted.workgroup_memory,
        of_arguments(emitted.arguments),
        emitted.resident if emitted.persistent else 0,
    )


def restore(metadata: dict[str, Any], text: str) -> Artifact:
    """The artifact that `described` told, with its text."""
    return Artifact(text, **facts_of(metadata))
