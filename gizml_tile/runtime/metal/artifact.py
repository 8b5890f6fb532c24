"""What an emitter delivers for an Apple GPU: a kernel's text, its parameters and how it is launched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..parameters import Parameter, of_arguments


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


def describe(artifact: Artifact) -> dict[str, Any]:
    """Everything of an artifact but its text, in a form that fits JSON."""
    facts = asdict(artifact)
    del facts["text"]
    return facts


def restore(metadata: dict[str, Any], text: str) -> Artifact:
    """The artifact that `describe` told, with its text."""
    facts = dict(metadata)
    parameters = tuple(Parameter(**each) for each in facts.pop("parameters"))
    return Artifact(text, parameters=parameters, **facts)
