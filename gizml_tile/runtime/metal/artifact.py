"""What an emitter delivers for an Apple GPU: a kernel's text, its parameters and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..parameters import Parameter, facts_of, of_arguments


@dataclass(frozen=True, slots=True)
class Artifact:
    """A kernel in the Metal Shading Language, with ``threads`` in each threadgroup.

    ``parameters`` are tensors, then 64-bit integers, then 32-bit floats.
    """

    text: str
    entry: str
    threads: int
    parameters: tuple[Parameter, ...]


def of_emitted(emitted: Any) -> Artifact:
    """The artifact of what the Metal emitter gives."""
    return Artifact(emitted.text, emitted.entry, emitted.threads, of_arguments(emitted.arguments))


def restore(metadata: dict[str, Any], text: str) -> Artifact:
    """The artifact that `described` told, with its text."""
    return Artifact(text, **facts_of(metadata))
