"""What is said of a command that cannot be carried out as it was given."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Misuse(Exception):
    """A command that cannot be carried out as it was given: one line that says what to do."""


def near(word: str, known: Iterable[str]) -> str:
    """``; did you mean preview?`` for a word like some that are known, and nothing for one like none."""
    found = difflib.get_close_matches(word, list(known), 3, 0.5)
    return f"; did you mean {' or '.join(found)}?" if found else ""
