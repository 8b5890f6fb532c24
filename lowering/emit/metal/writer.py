"""The text that grows: indented lines, names, values' registers, and loops over the registers of a value."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gizml_tile.dtypes import DType
from gizml_tile.errors import Place
from gizml_tile.lowering.emit.lines import Lines
from gizml_tile.lowering.emit.metal.spelling import RESERVED, name_of, type_name
from gizml_tile.lowering.emit.metal.uses import Uses
from gizml_tile.lowering.emit.metal.words import (
    Array,
    Word,
    Words,
    registers,
    run_text,
    spelled,
    without_brackets,
)
from gizml_tile.lowering.kernel_ir.instructions import ELEMENTWISE, Block, Instruction, Kernel, Parameter

Rule = Callable[["Writer", Instruction], Words]
Column = Sequence[Word | int]

_INDENT = "    "
# A value that is used once stands where it is used, as long as it is no longer than this.
_INLINE = 44
# What is computed register by register.
_ROW_BY_ROW = ELEMENTWISE - {"again"}
# What only names registers shows no line of the person's.
_SILENT = frozenset(
    "constant pick join bitcast result parameter thread lane warp workgroup workgroups".split()
)
# So many registers are written one by one, more in a loop that is unrolled.
_FEW = 2


class Writer:
    """Writes one kernel; rules append lines and give the registers of their value.

    ``values`` has each instruction's registers, ``results`` those of each value that a loop or a branch
    gives, ``helpers`` the functions that the text begins with, ``attributes`` what the hardware tells a
    thread (its parameter's name and type by Metal's name), ``made_in`` the loop that a value was made in,
    ``owners`` the values whose variables are their own.
    """

    def __init__(self, kernel: Kernel, rules: dict[str, Rule]) -> None:
        self.kernel = kernel
        self.target = kernel.target
        self.lines = Lines()
        self.values: dict[Instruction, Words] = {}
        self.results: dict[Instruction, tuple[Words, ...]] = {}
        self.helpers: dict[str, None] = {}
        self.attributes: dict[str, str] = {}
        self.loops = [0]
        self.made_in: dict[Instruction, int] = {}
        self.owners: set[Instruction] = set()
        self.uses = Uses(kernel.body)
        self._loop_count = 0
        self._rules = rules
        self._depth = 1
        self._fused: dict[Instruction, Words] = {}
        self._place: tuple[str, int] | None = None
        self._names = set(RESERVED)
        self._counts: dict[str, int] = {}
        self.tensors = [self.name(name_of(each.name, "tensor")) for each in kernel.tensors]
        self.buffers = [self.name(name_of(each.name, "buffer")) for each in kernel.buffers]

    # Names

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        made, number = wanted, 1
        while made in self._names:
            number += 1
            made = f"{wanted}_{number}"
        self._names.add(made)
        return made

    def numbered(self, stem: str) -> str:
        """A new name: the stem and a number."""
        number = self._counts.get(stem, -1) + 1
        self._counts[stem] = number
        return self.name(f"{stem}_{number}")

    def helper(self, name: str) -> str:
        """The name of a function that the text begins with, from now on."""
        self.helpers[name] = None
        return name

    def attribute(self, attribute: str, name: str, type: str = "uint") -> str:
        """The parameter with what the hardware tells a thread."""
        self.attributes[attribute] = f"{type} {name}"
        return name

    def parameter(self, parameter: Parameter) -> str:
        """The name of a number that the launch passes, in the structure that it lies in."""
        match parameter.kind:
            case "scalar" | "grid":
                return f"{parameter.kind}_{parameter.number or parameter.axis}"
            case _:
                return f"{self.tensors[parameter.number]}_{parameter.kind}_{parameter.axis}"

    # Lines

    def line(self, text: str) -> None:
        self.lines.append(f"{_INDENT * self._depth}{text}" if text else "")

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def each(self, columns: Sequence[Column], statement: Callable[..., str]) -> None:
        """A statement for each row of columns: in a loop where one text says all, else one by one."""
        self._rows(columns, 0, len(columns[0]), statement)

    def _rows(self, columns: Sequence[Column], first: int, count: int, statement: Callable[..., str]) -> None:
        if count == 1:
            row = [column[first] for column in columns]
            self.line(statement(*(str(each) if isinstance(each, int) else spelled(each) for each in row)))
            return
        if count > _FEW:
            texts = [run_text(column[first : first + count]) for column in columns]
            if None not in texts:
                self.line(f"UNROLL for (ushort r = 0; r < {count}; r++)")
                with self.indented():
                    self.line(statement(*texts))
                return
        half = 1 << (count - 1).bit_length() - 1
        self._rows(columns, first, half, statement)
        self._rows(columns, first + half, count - half, statement)

    def nested(self, loops: Sequence[tuple[str, int]], statement: str) -> None:
        """A statement in unrolled loops over some names, from the outermost."""
        if not loops:
            self.line(statement)
            return
        (name, count), *others = loops
        self.line(f"UNROLL for (ushort {name} = 0; {name} < {count}; {name}++)")
        with self.indented():
            self.nested(others, statement)

    # Values

    def words(self, value: Instruction) -> Words:
        """The registers of a value."""
        return self.values[value]

    def text(self, value: Instruction) -> str:
        """A value of one register."""
        return spelled(self.values[value][0])

    def stretched(self, value: Instruction, count: int) -> Words:
        """A value's registers, with one repeated to ``count``."""
        words = self.values[value]
        return words if len(words) == count else words * count

    def fresh(self, dtype: DType, count: int, stem: str = "v") -> Words:
        """New variables for ``count`` registers of a type, declared."""
        name = self.numbered(stem)
        type = type_name(dtype, self.target)
        if count == 1:
            self.line(f"{type} {name};")
            return (name,)
        self.line(f"{type} {name}[{count}];")
        return registers(Array(name, count))

    def made(
        self,
        instruction: Instruction,
        columns: Sequence[Words],
        expression: Callable[..., str],
        *,
        inline: bool = True,
    ) -> Words:
        """A value's registers, by an expression of each row of columns."""
        if self._fused:
            return self._fused_row(instruction, columns, expression)
        if instruction.count == 1:
            text = expression(*(spelled(each[0]) for each in columns))
            return (self.single(instruction, text, inline=inline),)
        home = self.target_of(instruction)
        self.each([home, *columns], lambda out, *others: f"{out} = {without_brackets(expression(*others))};")
        return home

    def renamed(self, instruction: Instruction) -> Words:
        """The registers of a value's operand, as they are."""
        words = self.values[instruction.args[0]]
        return self.made(instruction, [words], "{}".format) if self._fused else words

    def single(self, instruction: Instruction, text: str, *, inline: bool) -> str:
        """One register with what an expression gives, or the expression where it is used once."""
        if inline and self.uses.is_inline(instruction) and len(text) <= _INLINE:
            return text
        assert instruction.dtype is not None
        name = self.numbered("v")
        self.line(f"const {type_name(instruction.dtype, self.target)} {name} = {without_brackets(text)};")
        return name

    def _fused_row(
        self, instruction: Instruction, columns: Sequence[Words], expression: Callable[..., str]
    ) -> Words:
        """A row of a value, in a loop with others: a variable of a turn, unless it is needed later."""
        assert instruction.dtype is not None
        text, count = expression(*map(run_text, columns)), instruction.count
        home = self._fused[instruction]
        if home:
            self.line(f"{run_text(home)} = {without_brackets(text)};")
            return home
        if self.uses.count(instruction) == 1 and len(text) <= _INLINE:
            return (text,) * count
        name = self.numbered("v")
        self.line(f"const {type_name(instruction.dtype, self.target)} {name} = {without_brackets(text)};")
        return (name,) * count

    def target_of(self, instruction: Instruction, operands: Sequence[Instruction] | None = None) -> Words:
        """Variables for a value: those of an operand that nobody else reads, else new ones.

        So what a loop adds to stays where it is from turn to turn.
        """
        dtype, count = instruction.dtype, instruction.count
        assert dtype is not None
        found = None
        for operand in instruction.args if operands is None else operands:
            own = operand in self.owners and (operand.dtype, operand.count) == (dtype, count)
            if own and self.made_in.get(operand) == self.loops[-1] and self.uses.count(operand) == 1:
                found = self.values[operand]
        self.owners.add(instruction)
        return found or self.fresh(dtype, count)

    def array(self, value: Instruction) -> str:
        """The name of an array with a value's registers in order, which is made where there is none."""
        words = self.values[value]
        first = words[0]
        if not isinstance(first, str) and first[0].width == 1 and words == registers(first[0]):
            return first[0].name
        assert value.dtype is not None
        home = self.fresh_array(value.dtype, value.count)
        self.each([registers(home), words], "{} = {};".format)
        return home.name

    def fresh_array(self, dtype: DType, count: int, stem: str = "v") -> Array:
        """A new array, declared, also of one element."""
        name = self.numbered(stem)
        self.line(f"{type_name(dtype, self.target)} {name}[{count}];")
        return Array(name, count)

    # Blocks

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Lines written inside run again and again."""
        self._loop_count += 1
        self.loops.append(self._loop_count)
        with self.indented():
            yield
        self.loops.pop()

    def block(self, block: Block) -> None:
        """Write a block's instructions in order."""
        at, instructions = 0, block.instructions
        around = self.lines.place
        while at < len(instructions):
            together = self._alike(instructions, at)
            if len(together) > 1:
                self._fuse(together)
            else:
                self._instruction(instructions[at])
            at += max(len(together), 1)
        self.lines.come_from(around)

    def _instruction(self, instruction: Instruction) -> None:
        rule = self._rules.get(instruction.op)
        if rule is None:
            raise LookupError(f"Metal has no entry for the instruction {instruction.op!r}")
        if instruction.place is not None:
            self.lines.come_from(instruction.place)
            if instruction.op not in _SILENT:
                self._locate(instruction.place)
        self.values[instruction] = rule(self, instruction)
        self.made_in[instruction] = self.loops[-1]

    def _alike(self, instructions: Sequence[Instruction], first: int) -> list[Instruction]:
        """Instructions from one on that compute register by register, each from one expression of it."""
        found: dict[Instruction, None] = {}
        count = instructions[first].count
        for instruction in instructions[first:] if count > 1 else ():
            if instruction.op not in _ROW_BY_ROW or instruction.count != count:
                break
            outside = [self.stretched(each, count) for each in instruction.args if each not in found]
            if any(run_text(words) is None for words in outside):
                break
            found[instruction] = None
        return list(found)

    def _fuse(self, together: Sequence[Instruction]) -> None:
        """Write instructions in one loop over their registers."""
        if together[0].place is not None:
            self.lines.come_from(together[0].place)
            self._locate(together[0].place)
        for instruction in together:
            needed = not self.uses.is_within(instruction, together)
            self._fused[instruction] = self.target_of(instruction) if needed else ()
        head = len(self.lines)
        self.line(f"UNROLL for (ushort r = 0; r < {together[0].count}; r++)")
        with self.indented():
            for instruction in together:
                self._instruction(instruction)
        if len(self.lines) > head + 2:
            self.lines[head] += " {"
            self.line("}")
        self._fused.clear()

    def _locate(self, place: Place) -> None:
        """The person's line, as a comment above what it became."""
        here = (place.filename, place.line)
        if here == self._place:
            return
        self._place = here
        text = linecache.getline(place.filename, place.line).strip()
        comment = f"// {os.path.basename(place.filename)}:{place.line}: {text}".rstrip(": \\")
        self.line("")
        self.line(comment.encode("ascii", "replace").decode())
