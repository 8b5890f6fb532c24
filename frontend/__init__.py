"""From the text of a person's function to the explicit program that it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gizml_tile.frontend.source import Source, capture

if TYPE_CHECKING:
    from gizml_tile.frontend.rewriting import Rewritten, What

__all__ = ["Rewritten", "Source", "capture", "rewrite"]


def rewrite(source: Source, kind: What) -> Rewritten:
    """Rewrite a function. Raises TileError at what the language does not have."""
    # Loaded here: libcst is needed only where a function is rewritten, not where a cache answers.
    from gizml_tile.frontend.rewriting import rewrite as run

    return run(source, kind)


def __getattr__(name: str) -> object:
    if name == "Rewritten":
        from gizml_tile.frontend.rewriting import Rewritten

        return Rewritten
    raise AttributeError(name)
