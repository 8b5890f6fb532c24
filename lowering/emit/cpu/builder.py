"""LLVM IR text, written one function at a time.

Plain strings are enough: an SSA name is the value, and text is what llvmlite parses anyway. Integers of
Python stand for i64 constants, so that address arithmetic folds while it is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gizml_tile.errors import Place
from gizml_tile.lowering.emit.lines import Lines, Origins, origins

Value = str | int

# The name of what marks stores that go past the caches.
PAST_CACHES = "!0"


@dataclass
class Module:
    """Functions and declarations of one compilation unit; declarations are made on first use."""

    functions: list[Function] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def declare(self, name: str, signature: str) -> str:
        """Declares an intrinsic or function (``signature`` is the text after ``declare``) and names it."""
        self.declarations[name] = f"declare {signature}"
        return name

    def constant(self, kind: str, value: str) -> str:
        """The address of a constant in memory."""
        text = f"private unnamed_addr constant {kind} {value}, align 64"
        for name, known in self.constants.items():
            if known == text:
                return name
        name = f"@constant{len(self.constants)}"
        self.constants[name] = text
        return name

    def text(self) -> str:
        parts = [f"{name} = {text}" for name, text in self.constants.items()]
        parts.append("\n".join(function.text() for function in self.functions))
        parts.extend(sorted(self.declarations.values()))
        parts.extend(f"attributes {name} = {{ {text} }}" for name, text in self.attributes.items())
        parts.extend(f"{name} = {text}" for name, text in self.metadata.items())
        return "\n".join(parts) + "\n"

    def origins(self) -> Origins:
        """Where the lines of the text come from."""
        functions = [part for each in self.functions for part in (each.header, each.lines, "}")]
        return origins([""] * len(self.constants), *functions)


class Function:
    """One function being written; ``emit`` names a new value, ``line`` writes without naming."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[tuple[str, str]],
        result: str = "void",
        attributes: str = "#0",
        linkage: str = "",
    ) -> None:
        self.module = module
        self.name = name
        self.header = (
            f"define {linkage + ' ' if linkage else ''}{result} @{name}("
            f"{', '.join(f'{kind} %{label}' for kind, label in parameters)}) {attributes} {{"
        )
        self.lines = Lines(["entry:"])
        self.block = "entry"
        self._temps = 0
        self._labels = 0
        module.functions.append(self)

    def text(self) -> str:
        return "\n".join([self.header, *self.lines, "}"])

    def come_from(self, place: Place | None) -> Place | None:
        """Let the lines that follow come from a place, where there is one; gives the one before."""
        return self.lines.come_from(place or self.lines.place)

    def temp(self) -> str:
        self._temps += 1
        return f"%t{self._temps}"

    def label(self) -> str:
        self._labels += 1
        return f"b{self._labels}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def emit(self, expression: str) -> str:
        name = self.temp()
        self.lines.append(f"  {name} = {expression}")
        return name

    def start(self, label: str) -> None:
        """Opens a basic block; the one before must have ended in a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def ret(self, value: str = "void") -> None:
        self.line(f"ret {value}")

    # i64 arithmetic; constants fold

    def add(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self.emit(f"add i64 {a}, {b}")

    def sub(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.emit(f"sub i64 {a}, {b}")

    def mul(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        return self.emit(f"mul i64 {a}, {b}")

    def divide(self, a: Value, b: int) -> Value:
        """The quotient of non-negative ``a`` and a positive constant."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self.emit(f"udiv i64 {a}, {b}")

    def remainder(self, a: Value, b: int) -> Value:
        """The remainder of non-negative ``a`` and a positive constant."""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else self.emit(f"urem i64 {a}, {b}")

    def compare(self, predicate: str, a: Value, b: Value) -> str:
        return self.emit(f"icmp {predicate} i64 {a}, {b}")

    def choose(self, condition: str, yes: Value, no: Value) -> Value:
        return yes if yes == no else self.emit(f"select i1 {condition}, i64 {yes}, i64 {no}")

    def minimum(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.choose(self.compare("slt", a, b), a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.choose(self.compare("sgt", a, b), a, b)

    def all_of(self, conditions: Sequence[str]) -> str:
        result = conditions[0] if conditions else "true"
        for condition in conditions[1:]:
            result = self.emit(f"and i1 {result}, {condition}")
        return result

    # memory

    def offset(self, pointer: str, count: Value) -> str:
        """``pointer`` moved by ``count`` bytes."""
        return pointer if count == 0 else self.emit(f"getelementptr i8, ptr {pointer}, i64 {count}")

    def load(self, kind: str, pointer: str, align: int, suffix: str = "") -> str:
        return self.emit(f"load {kind}, ptr {pointer}, align {align}{suffix}")

    def store(self, kind: str, value: str, pointer: str, align: int, suffix: str = "") -> None:
        self.line(f"store {kind} {value}, ptr {pointer}, align {align}{suffix}")

    def store_past_caches(self, kind: str, value: str, pointer: str, align: int) -> None:
        """Stores at a multiple of the value's size; the function must end with a fence."""
        self.module.metadata[PAST_CACHES] = "!{i32 1}"
        self.store(kind, value, pointer, align, f", !nontemporal {PAST_CACHES}")

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Calls a declared function; each argument is its type and value, such as ``i64 %n``."""
        return self.emit(f"call {result} @{name}({', '.join(arguments)})")

    def call_void(self, name: str, *arguments: str) -> None:
        self.line(f"call void @{name}({', '.join(arguments)})")

    # structure

    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value,
        body: Callable[[Value, list[str]], Sequence[str]],
        initial: Sequence[tuple[str, str]] = (),
        *,
        runs: bool = False,
        condition: str = "slt",
        flag: int | None = None,
    ) -> list[str]:
        """Writes ``for i in start..stop by step`` and gives the carried values after the last turn.

        ``initial`` lists (type, value) of what is carried; ``body(i, values)`` returns the next values.
        ``runs`` promises at least one turn. With a ``flag`` there is no turn once the carried i64 of this
        number is 0. A single turn of constant bounds is written without a loop.
        """
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and flag is None:
            turns = max(0, -(-(stop - start) // step))
            if turns == 0:
                return [value for _, value in initial]
            if turns == 1:
                return list(body(start, [value for _, value in initial]))
            runs = True
        before, head, after = self.block, self.label(), self.label()
        if runs:
            self.branch(head)
        else:
            first = "" if flag is None else initial[flag][1]
            self.branch_if(self._going(self.compare(condition, start, stop), first), head, after)
        self.start(head)
        index = self.temp()
        values = [self.temp() for _ in initial]
        place = len(self.lines)
        results = list(body(index, values))
        following = self.emit(f"add i64 {index}, {step}")
        flagged = "" if flag is None else results[flag]
        again = self._going(self.compare(condition, following, stop), flagged)
        last = self.block
        self.branch_if(again, head, after)
        phis = [
            f"  {index} = phi i64 [{start}, %{before}], [{following}, %{last}]",
            *(
                f"  {name} = phi {kind} [{value}, %{before}], [{result}, %{last}]"
                for name, (kind, value), result in zip(values, initial, results, strict=True)
            ),
        ]
        self.lines.insert_all(place, phis)
        self.start(after)
        if runs:
            return results
        return [
            self.emit(f"phi {kind} [{value}, %{before}], [{result}, %{last}]")
            for (kind, value), result in zip(initial, results, strict=True)
        ]

    def _going(self, inside: str, flag: str) -> str:
        """Whether a loop has a further turn, with a flag also whether that is not 0."""
        return self.emit(f"and i1 {inside}, {self.compare('ne', flag, 0)}") if flag else inside

    def when(
        self,
        condition: str,
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]] | None = None,
        kinds: Sequence[str] = (),
    ) -> list[str]:
        """Writes ``if``; both arms return values of the types ``kinds``, which are merged."""
        yes, no, end = self.label(), self.label(), self.label()
        self.branch_if(condition, yes, no)
        arms = []
        for label, arm in ((yes, then), (no, otherwise)):
            self.start(label)
            values = list(arm()) if arm else []
            arms.append((self.block, values))
            self.branch(end)
        self.start(end)
        (first, yes_values), (second, no_values) = arms
        return [
            self.emit(f"phi {kind} [{a}, %{first}], [{b}, %{second}]")
            for kind, a, b in zip(kinds, yes_values, no_values, strict=True)
        ]


def vector(kind: str, width: int) -> str:
    """The LLVM type of ``width`` elements; one element is a scalar."""
    return kind if width == 1 else f"<{width} x {kind}>"


def splat(kind: str, text: str, width: int) -> str:
    """A constant in every lane."""
    return text if width == 1 else f"splat ({kind} {text})"


def suffix(kind: str, width: int) -> str:
    """The name that intrinsics give a type: ``v16f32``, ``f32``, ``v8i64``."""
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)
    return short if width == 1 else f"v{width}{short}"


def float_text(value: float, kind: str = "float") -> str:
    """A float constant rounded to F32, or a ``double`` as it is, in the form that LLVM reads exactly."""
    if kind == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    try:
        single = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        single = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"
