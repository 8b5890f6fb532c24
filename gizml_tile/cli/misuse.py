"""What is said of a command that cannot be carried out as it was given, or of a file that fails by itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Misuse(Exception):
    """A command that cannot be carried out as it was given: one line that says what to do."""


class Failure(Exception):
    """An exception of the person's own file, in one line with its place."""


def near(word: str, known: Iterable[str]) -> str:
    """``; did you mean preview?`` for a word like some that are known, and nothing for one like none."""
    by_lower = {name.lower(): name for name in known}
    found = [by_lower[name] for name in difflib.get_close_matches(word.lower(), list(by_lower), 2, 0.5)]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def listed(words: Iterable[str]) -> str:
    """Words as a sentence has them: ``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
