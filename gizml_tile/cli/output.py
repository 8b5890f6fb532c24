"""What is printed: plain text where it is piped, in colour on a terminal."""

from __future__ import annotations

import sys


def show(text: str, language: str = "") -> None:
    """Print a text, on a terminal in the colours of its language."""
    if not language or not sys.stdout.isatty():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(text, language, background_color="default", word_wrap=False))
