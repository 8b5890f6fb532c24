"""What is printed: plain text or JSON where it is piped, in colour and as tables on a terminal."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# What takes longer than this says how far it is.
_PATIENCE_SECONDS = 1.0

# What stands out in our own texts, as patterns with styles; later ones go over earlier ones.
_OURS = {
    "tile-ir": (
        (r"(?m)^\s*\d+\s+\S+", "cyan"),
        (r"\b[fiu]\d+\b|\b(bf16|fp8|e5m2|mask|index)\b", "magenta"),
        (r"\{[^}]*\}", "green"),
        (r"(?m)\S+:\d+$", "dim"),
    ),
    "plan": (
        (r"(?m)^\S.*$", "bold"),
        (r"(?m)^ +\S+ +chosen\b.*$", "green"),
        (r"(?m)^ +\S+ +no\b.*$", "dim"),
        (r"(?m)^ +(bound by|measured: ).*$", "yellow"),
    ),
}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that answer programs too."""
    told = "print the answer as JSON, in the form that gizml_tile/cli/reports.py describes"
    parser.add_argument("--json", action="store_true", help=told)


def put_json(report: Any) -> None:
    """Print a report, which is a dataclass or plain values, as JSON."""
    json.dump(_plain(report), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """JSON's own values; a number that JSON has not is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def terminal() -> Console | None:
    """The terminal that stdout is, for colours and tables; None where it is piped."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def show(text: str, language: str) -> None:
    """Print a text, on a terminal in the colours of its language, which is Pygments' or one of ours."""
    console = terminal()
    if console is None or "NO_COLOR" in os.environ:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from rich.text import Text

    if language in _OURS:
        coloured = Text(text)
        for pattern, style in _OURS[language]:
            coloured.highlight_regex(pattern, style)
    else:
        from rich.syntax import Syntax

        coloured = Syntax("", language, background_color="default").highlight(text)
    coloured.rstrip()
    # Lines stay whole, as long as they are: they are to be copied and searched.
    console.print(coloured, soft_wrap=True)


def lines(texts: Sequence[tuple[str, str]]) -> None:
    """Print lines, each with a style of its own on a terminal."""
    console = terminal()
    for text, style in texts:
        if console is None:
            print(text)
        else:
            console.print(text, style=style or None, markup=False, soft_wrap=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print rows under their heads, the columns in ``right`` by their right ends."""
    console = terminal()
    if console is not None:
        from rich import box
        from rich.table import Table

        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, head in enumerate(heads):
            drawn.add_column(head, justify="right" if number in right else "left", overflow="fold")
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)
        return
    widths = [max(len(row[number]) for row in (heads, *rows)) for number in range(len(heads))]
    for row in (heads, *rows):
        cells = zip(row, widths, range(len(row)), strict=True)
        print(
            "  ".join(
                f"{cell:{'>' if number in right else '<'}{width}}" for cell, width, number in cells
            ).rstrip()
        )


def gap() -> None:
    """Set a table off, which on a terminal stands alone by itself."""
    if not sys.stdout.isatty():
        print()


@contextmanager
def steps(count: int) -> Iterator[Callable[[str], None]]:
    """Tell on the terminal that stderr is how far something is, once it takes longer than a second.

    What this gives is called at the beginning of each step, with what is done in it.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = Console(file=sys.stderr)
    bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True, redirect_stdout=False)
    task = bar.add_task("", total=count)
    begun = -1

    def step(text: str) -> None:
        nonlocal begun
        begun += 1
        bar.update(task, description=text, completed=begun)

    timer = Timer(_PATIENCE_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield step
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
