"""The pages that people read, as programs: what stands in them is run as they would run it.

A fenced block of a page is one of these, and nothing else:

- ``python``: run in order with the others of its page, which together are one program, ``page.py``; where
  its first line is ``# name.py`` it is a file of its own instead, which the reader saves under that name.
  With the word ``gpu`` it needs a GPU, and is only compiled where there is none.
- ``sh``: commands, each line by itself, run in the repository.
- with the word ``output``: what the block before prints, with ``...`` for what differs from machine to
  machine or is left out.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "examples/README.md", "examples/coming_from.md")
_FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind its fence, its text, and the line of the page where that begins."""

    page: str
    words: tuple[str, ...]
    text: str
    line: int
    output: str | None = None

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def file(self) -> str:
        """The name of the file that the block is; empty where it is none."""
        found = _FILE.match(self.text)
        return found[1] if found and self.language == "python" else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """The blocks of a page, each with the output that the page shows of it."""
    text = (ROOT / page).read_text()
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        words, line = tuple(match[1].split()), text.count("\n", 0, match.start()) + 2
        if "output" in words:
            last = found.pop()
            assert last.output is None, f"{page}:{line}: a second output of one block"
            found.append(Block(page, last.words, last.text, last.line, match[2]))
        else:
            found.append(Block(page, words, match[2], line))
    return found


def write_files(page: str, folder: Path) -> None:
    """Lay out a folder as the reader's: the repository, with the files that the page has saved."""
    for each in ROOT.iterdir():
        if each.name != ".git":
            (folder / each.name).symlink_to(each)
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text)


def run_programs(page: str, folder: Path, gpu: bool = False) -> Iterator[tuple[Block, str]]:
    """Run the Python blocks of a page in a folder, which is current; each with what it printed."""
    programs = [each for each in blocks(page) if each.language == "python" and not each.file]
    file = folder / "page.py"
    file.write_text("\n".join(block.text for block in programs))
    first = 0
    names = {"__name__": file.stem, "__file__": str(file)}
    for block in programs:
        code = compile("\n" * first + block.text, str(file), "exec")
        first += block.text.count("\n") + 1
        if gpu or "gpu" not in block.words:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            yield block, printed.getvalue()


def check_output(block: Block, printed: str, folder: Path) -> None:
    """Raise AssertionError where a page shows another output than a block's."""
    if block.output is None:
        return
    printed = printed.replace(f"{folder}/", "").rstrip("\n") + "\n"
    if not doctest.OutputChecker().check_output(block.output, printed, doctest.ELLIPSIS):
        raise AssertionError(f"{block} prints\n{printed}\nand the page shows\n{block.output}")
