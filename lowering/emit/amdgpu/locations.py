"""Debug locations: the person's line of each instruction, as metadata."""

from __future__ import annotations

import os
import re

from gizml_tile.errors import Place


class Locations:
    """The metadata of one kernel's text; ``suffix`` says where the instruction at hand comes from."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._kernel = -1
        self._unit = -1
        self._place: Place | None = None
        self.suffix = ""

    def add(self, text: str) -> int:
        """The number of a piece of metadata, the same for the same text."""
        if text not in self._numbers:
            self._numbers[text] = self.add_distinct(text)
        return self._numbers[text]

    def add_distinct(self, text: str) -> int:
        """The number of a new piece of metadata."""
        self._texts.append(text)
        return len(self._texts) - 1

    def rolled(self) -> str:
        """What the jump back of a loop says, for LLVM not to unroll it."""
        hint = self.add('!{!"llvm.loop.unroll.disable"}')
        number = len(self._texts)
        return f", !llvm.loop !{self.add_distinct(f'distinct !{{!{number}, !{hint}}}')}"

    @property
    def kernel(self) -> str:
        """What the kernel's definition says of its place; nothing where no instruction has one."""
        return f" !dbg !{self._kernel}" if self._place else ""

    def go_to(self, place: Place) -> None:
        """Let the following instructions come from a place."""
        if place == self._place:
            return
        file = self._file(place.filename)
        if self._place is None:
            self._begin(file, place.line)
        self._place = place
        scope = self.add(f"!DILexicalBlockFile(scope: !{self._kernel}, file: !{file}, discriminator: 0)")
        here = f"!DILocation(line: {place.line}, column: {place.column}, scope: !{scope})"
        self.suffix = f", !dbg !{self.add(here)}"

    def lines(self) -> list[str]:
        """All metadata, for the end of the text."""
        named = []
        if self._place:
            version = self.add('!{i32 2, !"Debug Info Version", i32 3}')
            named = [f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{!{version}}}"]
        return named + [f"!{number} = {text}" for number, text in enumerate(self._texts)]

    def _file(self, filename: str) -> int:
        folder, name = os.path.split(filename)
        return self.add(f'!DIFile(filename: "{_quoted(name)}", directory: "{_quoted(folder)}")')

    def _begin(self, file: int, line: int) -> None:
        self._unit = self.add_distinct(
            f'distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, producer: "gizml-tile", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        nothing = self.add("!{}")
        kind = self.add(f"!DISubroutineType(types: !{nothing})")
        self._kernel = self.add_distinct(
            f'distinct !DISubprogram(name: "{self._entry}", scope: !{file}, file: !{file}, line: {line}, '
            f"type: !{kind}, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, "
            f"unit: !{self._unit})"
        )


def _quoted(text: str) -> str:
    """A name as metadata takes it: letters of ASCII, and nothing that ends or escapes a string."""
    return re.sub(r'[^ -~]|["\\]', "?", text)
