"""What the person's own file does while a command looks at it: what it prints, and its own exceptions."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache
from types import FrameType, TracebackType

from gizml_tile.cli.misuse import Failure, Misuse
from gizml_tile.errors import Place, TileError, is_own_file


@contextmanager
def running() -> Iterator[None]:
    """While the person's code runs: what it prints goes to stderr, for stdout is the command's answer.

    Raises Failure with the line in the person's file for an exception that comes from there.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (TileError, Misuse, BrokenPipeError):
        raise
    except SystemExit as stop:
        place = _place(stop.__traceback__)
        if place is None:
            raise
        advice = "put what runs a script under if __name__ == '__main__':"
        raise Failure(f"{place}: the file ends the process; {advice}") from stop
    except SyntaxError as error:
        raise Failure(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except Exception as error:
        place = _place(error.__traceback__)
        if place is None:
            raise
        raise Failure(f"{place}: {type(error).__name__}: {error}".rstrip(": ")) from error


def _place(traceback: TracebackType | None) -> str | None:
    """The innermost line of the person's; None where the library itself fails below it."""
    place = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if is_own_file(filename):
            place = None
        elif not _is_installed(filename):
            place = f"{filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def place_of(error: TileError) -> Place | None:
    """The line of an error in the person's own file; None for one of what called the command line."""
    place = error.place
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if place is not None and frame.f_code.co_filename == place.filename:
            return None
        frame = frame.f_back
    return None if place is None or _is_installed(place.filename) else place


def _is_installed(filename: str) -> bool:
    """Whether a file is of Python or of an installed package."""
    return filename.startswith(("<", *_folders()))


@lru_cache
def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
