"""The text that grows: lines in blocks, the names of values, declarations and debug locations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import F32, I64, DType
from gizml_tile.lowering.emit.amdgpu.intrinsics import intrinsic
from gizml_tile.lowering.emit.amdgpu.literals import TYPES, vector_literal, vector_type
from gizml_tile.lowering.emit.amdgpu.locations import Locations
from gizml_tile.lowering.emit.lines import Lines
from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel, Parameter

# A value is one LLVM value for each of its registers: a name, or a literal.
Words = tuple[str, ...]
Rule = Callable[["Writer", Instruction], Words]
Key = tuple[object, ...]

# Zeros of the widest access, which threads read where their own place is not to be touched.
ZEROS, ZERO_BYTES = "@zeros", 16


class Writer:
    """Writes one kernel; rules append lines and give the LLVM values of their instruction.

    ``results`` has the values that each loop or branch gives. Lines of ``head`` stand at the beginning of
    the first block; ``label`` is the block that lines are appended to.
    """

    def __init__(self, kernel: Kernel, entry: str, rules: dict[str, Rule]) -> None:
        self.kernel = kernel
        self.arch = kernel.target.arch
        self.memory = f"@{entry}_memory"
        self.head = Lines()
        self.lines = Lines()
        self.label = "entry"
        self.values: dict[Instruction, Words] = {}
        self.results: dict[Instruction, tuple[Words, ...]] = {}
        self.declarations: dict[str, str] = {}
        self.uses_zeros = False
        self.locations = Locations(entry)
        self._rules = rules
        self._names = 0
        self._once: dict[Key, str] = {}
        self._scopes: list[dict[Key, str]] = [{}]

    # Lines and names

    def line(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {text}{self.locations.suffix}")

    def name(self) -> str:
        """A new name."""
        self._names += 1
        return f"%v{self._names}"

    def value(self, text: str) -> str:
        """Append an instruction, whose value gets a new name."""
        name = self.name()
        self.lines.append(f"  {name} = {text}{self.locations.suffix}")
        return name

    def call(self, name: str, *operands: tuple[str, str]) -> str:
        """Append a call of an intrinsic with operands of (type, word), and give its value.

        Raises LookupError where the architecture has no such intrinsic.
        """
        result = self.declare(name, *[kind for kind, _ in operands])
        text = f"call {result} @{name}({', '.join(f'{kind} {word}' for kind, word in operands)})"
        if result != "void":
            return self.value(text)
        self.line(text)
        return ""

    def declare(self, name: str, *operands: str) -> str:
        """The type of what an intrinsic gives, which is declared. Raises LookupError as `call` does."""
        known = intrinsic(name, self.arch, operands)
        self.declarations[name] = known.declaration(name)
        return known.result

    # Blocks of the text

    def fresh_label(self, kind: str) -> str:
        """A new name for a block."""
        self._names += 1
        return f"{kind}{self._names}"

    def start(self, label: str) -> None:
        """Go on in another block."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str, *, note: str = "") -> None:
        """End a block."""
        self.line(f"br label %{label}{note}")

    def fork(self, condition: str, yes: str, no: str) -> None:
        """End a block by a condition."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def enter(self, condition: str) -> str:
        """Begin what only threads with a predicate do; `leave` takes the label."""
        inside, end = self.fresh_label("when"), self.fresh_label("end")
        self.fork(condition, inside, end)
        self.start(inside)
        self._scopes.append({})
        return end

    def leave(self, end: str) -> None:
        """End what `enter` began."""
        self._scopes.pop()
        self.jump(end)
        self.start(end)

    def phi(self, kind: str, arms: Sequence[tuple[str, str]]) -> str:
        """A value by the block that came before, from (word, label)."""
        return self.value(phi(kind, arms))

    # Computed once

    def once(self, key: Key, *texts: str) -> str:
        """The value of the last of some instructions in the head; ``{}`` is the one before."""
        if key not in self._once:
            name = ""
            self.head.come_from(self.lines.place)
            for text in texts:
                before, name = name, self.name()
                self.head.append(f"  {name} = {text.format(before)}")
            self._once[key] = name
        return self._once[key]

    def leaf(self, name: str) -> str:
        """The value of an intrinsic without operands, called in the head."""
        return self.once((name,), f"call {self.declare(name)} @{name}()")

    def parameter(self, parameter: Parameter, dtype: DType = I64) -> str:
        """What the launch passed: 8 bytes, of which an F32 is the lower half."""
        if parameter not in self.kernel.parameters:
            raise LookupError(f"kernel {self.kernel.name} has no parameter {parameter}")
        name = f"%p{self.kernel.parameters.index(parameter)}"
        if dtype is not F32:
            return name
        return self.once((parameter,), f"trunc i64 {name} to i32", "bitcast i32 {} to float")

    def cached(self, key: Key) -> str | None:
        """What `keep` kept under a key, here or in a block around."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def keep(self, key: Key, name: str) -> str:
        """Remember a value until the current block ends."""
        self._scopes[-1][key] = name
        return name

    # Vectors

    def vector(self, words: Words, element: str) -> str:
        """Words as one vector: the one that they were taken from, or a new one."""
        if len(words) == 1:
            return words[0]
        key = (element, words)
        found = self.cached(key)
        if found is not None:
            return found
        if not any(word[0] == "%" for word in words):
            return vector_literal(element, words)
        kind, name = vector_type(element, len(words)), "poison"
        for place, word in enumerate(words):
            name = self.value(f"insertelement {kind} {name}, {element} {word}, i32 {place}")
        return self.keep(key, name)

    def elements(self, name: str, element: str, count: int) -> Words:
        """The elements of a vector."""
        if count == 1:
            return (name,)
        kind = vector_type(element, count)
        words = tuple([self.value(f"extractelement {kind} {name}, i32 {place}") for place in range(count)])
        self.keep((element, words), name)
        return words

    def bitcast(self, word: str, source: str, to: str) -> str:
        """The same bits as another type."""
        return word if source == to else self.value(f"bitcast {source} {word} to {to}")

    # Values

    def words(self, value: Instruction) -> Words:
        """The LLVM values of a value."""
        return self.values[value]

    def stretched(self, value: Instruction, count: int) -> Words:
        """The LLVM values of a value, repeated where it has one register."""
        words = self.values[value]
        return words if len(words) == count else words * count

    def block(self, block: Block) -> None:
        """Write a block's instructions in order."""
        self._scopes.append({})
        around = self.lines.place
        for instruction in block.instructions:
            rule = self._rules.get(instruction.op)
            if rule is None:
                raise LookupError(f"LLVM IR for AMD GPUs has no entry for the instruction {instruction.op!r}")
            if instruction.place is not None:
                self.lines.come_from(instruction.place)
                self.locations.go_to(instruction.place)
            self.values[instruction] = rule(self, instruction)
        self.lines.come_from(around)
        self._scopes.pop()


def kind_of(value: Instruction) -> str:
    """The LLVM type of a value's registers."""
    assert value.dtype is not None
    return type_of(value.dtype)


def type_of(dtype: DType) -> str:
    """The LLVM type of a register."""
    return TYPES[dtype]


def phi(kind: str, arms: Sequence[tuple[str, str]]) -> str:
    """The text of a value by the block that came before."""
    return f"phi {kind} {', '.join(f'[ {word}, %{label} ]' for word, label in arms)}"
