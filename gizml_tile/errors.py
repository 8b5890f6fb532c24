"""Errors that point at the person's own file, line and expression."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, TracebackType

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(_PACKAGE)
# frontend/ and lowering/ stand beside the package in a checkout and inside it when installed.
_OWN_FOLDERS = tuple(
    os.path.join(folder, "")
    for folder in (_PACKAGE, os.path.join(_ROOT, "frontend"), os.path.join(_ROOT, "lowering"))
)

_HANDING_ON = tuple(os.path.join("site-packages", name, "") for name in ("numpy", "torch"))


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of the person's source; lines and columns count from 1, the end is exclusive."""

    filename: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    caller: Place | None = None

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}"

    def callers(self) -> Iterator[Place]:
        """The calls that led here, innermost first, this place left out."""
        place = self.caller
        while place is not None:
            yield place
            place = place.caller


class TileError(Exception):
    """A mistake in a tile program or a launch, with the line and expression where it was made.

    ``filename``, ``lineno`` and ``column`` (from 1) are None where no line of the person's is known.
    """

    def __init__(self, message: str, place: Place | None = None) -> None:
        self.message = message
        self.place = place
        self.filename = place.filename if place else None
        self.lineno = place.line if place else None
        self.column = place.column if place else None
        super().__init__(_text(message, place))

    def __reduce__(self) -> tuple[type[TileError], tuple[str, Place | None]]:
        return type(self), (self.message, self.place)


class TileAttributeError(TileError, AttributeError):
    """A name that an object of this library does not have: for ``hasattr`` and ``getattr`` as any other."""


class TileWarning(UserWarning):
    """Something a tile program does that is allowed but surely slower or other than meant."""


def _text(message: str, place: Place | None) -> str:
    if place is None:
        return message
    parts = [f"{place}: {message}", *_excerpt(place)]
    for caller in place.callers():
        parts.append(f"called from {caller}")
        parts.extend(_excerpt(caller))
    return "\n".join(parts)


def _excerpt(place: Place) -> list[str]:
    """The source line and a caret line under the expression (tabs kept, so that columns line up)."""
    source = linecache.getline(place.filename, place.line).rstrip("\n")
    if not source.strip():
        return []
    end = place.end_column if place.end_line == place.line else len(source) + 1
    width = max(1, min(end, len(source) + 1) - place.column)
    lead = "".join("\t" if char == "\t" else " " for char in source[: place.column - 1])
    return [f"    {source}", f"    {lead}{'^' * width}"]


def is_own_file(filename: str) -> bool:
    """Whether a file belongs to this library, so that its frames are never shown to the person."""
    return filename.startswith(_OWN_FOLDERS)


def _is_between(filename: str) -> bool:
    """Whether a file is of a library whose functions hand what they are given on to ours."""
    return any(folder in filename for folder in _HANDING_ON)


@lru_cache(maxsize=4096)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


# Code objects are looked up by identity: hashing one, as a dictionary of them would, costs more than
# everything else that finding a place does. The object itself is kept, so its id is not given again.
_own_codes: dict[int, tuple[CodeType, bool]] = {}
_places: dict[tuple[int, int], tuple[CodeType, Place]] = {}
_MOST_PLACES = 1 << 16


def _own_code(code: CodeType) -> bool:
    known = _own_codes.get(id(code))
    if known is None:
        if len(_own_codes) >= _MOST_PLACES:
            _own_codes.clear()
        own = is_own_file(code.co_filename) or _is_between(code.co_filename)
        known = _own_codes[id(code)] = (code, own)
    return known[1]


def _byte_column(filename: str, line: int, offset: int) -> int:
    """The 1-based character column of a 0-based UTF-8 byte offset, which is what code objects hold."""
    source = linecache.getline(filename, line)
    if source.isascii():
        return offset + 1
    return len(source.encode()[:offset].decode(errors="replace")) + 1


def _frame_place(frame: FrameType, caller: Place | None) -> Place:
    return _code_place(frame.f_code, frame.f_lasti, frame.f_lineno, caller)


def _code_place(code: CodeType, instruction: int, at: int | None, caller: Place | None) -> Place:
    key = (id(code), instruction)
    known = _places.get(key)
    if known is None:
        if len(_places) >= _MOST_PLACES:
            _places.clear()
        known = _places[key] = (code, _lone_place(code, instruction, at))
    place = known[1]
    if caller is None:
        return place
    return Place(
        place.filename,
        place.line,
        place.column,
        place.end_line,
        place.end_column,
        place.function,
        caller,
    )


def _lone_place(code: CodeType, instruction: int, at: int | None) -> Place:
    line, end_line, column, end_column = _positions(code)[instruction // 2]
    line = line or at or code.co_firstlineno
    filename = code.co_filename
    return Place(
        filename,
        line,
        1 if column is None else _byte_column(filename, line, column),
        end_line or line,
        0 if end_column is None else _byte_column(filename, end_line or line, end_column),
        code.co_qualname,
    )


def here() -> Place | None:
    """The innermost expression of the person's that is being evaluated, with its chain of calls.

    While a program is traced the chain ends at the trace: frames above are about how the program came
    to launch, not about the kernel. The functions that loops and branches are traced in are part of the
    function around them, which is not a caller of theirs.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    crossed = False
    while frame is not None:
        code = frame.f_code
        if _own_code(code):
            crossed = True
            if code.co_name == "trace" and frames:
                break
        else:
            if not (frames and crossed and code.co_qualname == frames[-1].f_code.co_qualname):
                frames.append(frame)
            crossed = False
        frame = frame.f_back
    place: Place | None = None
    if frame is None and frames:
        frames = frames[:1]
    for outer in reversed(frames):
        place = _frame_place(outer, place)
    return place


def place_of(trace: TracebackType) -> Place | None:
    """The person's expression where an error was raised that left a trace, with its chain of calls."""
    entries: list[TracebackType] = []
    crossed = False
    step: TracebackType | None = trace
    while step is not None:
        code = step.tb_frame.f_code
        if _own_code(code):
            crossed = True
        else:
            # A loop's or branch's function is part of the function around it.
            if entries and crossed and entries[-1].tb_frame.f_code.co_qualname == code.co_qualname:
                entries.pop()
            entries.append(step)
            crossed = False
        step = step.tb_next
    place: Place | None = None
    for entry in entries:
        place = _code_place(entry.tb_frame.f_code, entry.tb_lasti, entry.tb_lineno, place)
    return place
