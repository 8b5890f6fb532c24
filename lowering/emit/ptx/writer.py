"""The text that grows: lines, registers by class, values' registers, and what is computed only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from gizml_tile.dtypes import F32, MASK, DType
from gizml_tile.errors import Place
from gizml_tile.lowering.emit.lines import Lines
from gizml_tile.lowering.emit.ptx.artifact import TensorMap
from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel, Parameter

Words = tuple[str, ...]
Rule = Callable[["Writer", Instruction], Words]

# Every value of 32 bits is in untyped registers, so that a bitcast is no instruction.
CLASSES = {"r": ".b32", "d": ".b64", "p": ".pred", "h": ".b16"}


def register_class(dtype: DType) -> str:
    """The class of hardware registers that hold a type: packed words are 32 bits wide."""
    return "p" if dtype is MASK else "d" if dtype.bits == 64 else "r"


def elements_of_word(dtype: DType) -> int:
    """How many elements lie in one hardware register."""
    return 1 if dtype is MASK else max(32 // dtype.bits, 1)


class Writer:
    """Writes one kernel; rules append lines and give the hardware registers of their value.

    ``values`` has each instruction's words (hardware registers or immediates), ``results`` those of each
    value that a loop or a branch gives. Lines of ``head`` stand before all others.
    """

    def __init__(self, kernel: Kernel, entry: str, rules: dict[str, Rule]) -> None:
        self.kernel = kernel
        self.entry = entry
        self.memory = f"{entry}_memory"
        self.lines = Lines()
        self.head = Lines()
        self.values: dict[Instruction, Words] = {}
        self.results: dict[Instruction, tuple[Words, ...]] = {}
        self.maps: dict[TensorMap, str] = {}
        self.files: dict[str, int] = {}
        # The loops around, by number, and in which one each value was made.
        self.loops = [0]
        self.made_in: dict[Instruction, int] = {}
        self._loop_count = 0
        self._rules = rules
        self._counts = dict.fromkeys(CLASSES, 0)
        self._labels = 0
        self._once: dict[tuple[object, ...], str] = {}
        self._scopes: list[dict[tuple[object, ...], str]] = [{}]
        self._place: tuple[int, int, int] | None = None
        self._uses: dict[Instruction, int] = {}

    # Registers

    def register(self, kind: str) -> str:
        """A new hardware register of a class."""
        number = self._counts[kind]
        self._counts[kind] = number + 1
        return f"%{kind}{number}"

    def registers(self, kind: str, count: int) -> Words:
        """New hardware registers of a class."""
        first = self._counts[kind]
        self._counts[kind] = first + count
        return tuple([f"%{kind}{number}" for number in range(first, first + count)])

    def fresh(self, dtype: DType, count: int) -> Words:
        """New hardware registers for ``count`` elements of a type."""
        return self.registers(register_class(dtype), -(-count // elements_of_word(dtype)))

    def declarations(self) -> list[str]:
        """The declarations of all registers so far."""
        return [f".reg {CLASSES[kind]} %{kind}<{count}>;" for kind, count in self._counts.items() if count]

    def label(self) -> str:
        """A new label."""
        self._labels += 1
        return f"$L{self._labels}"

    # What stands at the kernel's beginning

    def once(self, key: tuple[object, ...], kind: str, *templates: str) -> str:
        """A register that the head computes, with ``{}`` for it in each line."""
        if key not in self._once:
            name = self._once[key] = self.register(kind)
            self.head.come_from(self.lines.place)
            self.head.extend(template.format(name) for template in templates)
        return self._once[key]

    def named(self, word: str, kind: str = "r") -> str:
        """The word, or a register with it where it is an immediate."""
        if word[0] == "%":
            return word
        return self.once(("immediate", kind, word), kind, f"mov.{CLASSES[kind][1:]} {{}}, {word};")

    def all_named(self, words: Sequence[str], kind: str = "r") -> Words:
        """Words with registers in place of immediates."""
        return tuple([self.named(word, kind) for word in words])

    def parameter(self, parameter: Parameter, dtype: DType) -> str:
        """The register with what the launch passed."""
        kind = "r" if dtype is F32 else "d"
        if parameter not in self.kernel.parameters:
            raise LookupError(f"kernel {self.kernel.name} has no parameter {parameter}")
        name = f"{self.entry}_{self.kernel.parameters.index(parameter)}"
        load = f"ld.param{CLASSES[kind]} {{}}, [{name}];"
        if parameter.kind != "pointer":
            return self.once((parameter,), kind, load)
        return self.once((parameter,), kind, load, "cvta.to.global.u64 {0}, {0};")

    def workgroup_base(self) -> str:
        """The register with the address of workgroup memory, in its own 32-bit space."""
        return self.once(("memory",), "r", f"mov.b32 {{}}, {self.memory};")

    def tensor_map(self, wanted: TensorMap) -> str:
        """The register with the address of a tensor map among the parameters."""
        if wanted not in self.maps:
            name = f"{self.entry}_map{len(self.maps)}"
            self.maps[wanted] = name
        name = self.maps[wanted]
        return self.once((wanted,), "d", f"mov.b64 {{}}, {name};", "cvta.param.u64 {0}, {0};")

    # Values

    def words(self, value: Instruction) -> Words:
        """The hardware registers or immediates of a value."""
        return self.values[value]

    def may_overwrite(self, value: Instruction) -> bool:
        """Whether the one instruction that reads a value may write its own there.

        It may where the value was made in the same turn of the same loop, so that no later turn reads it.
        """
        if self.made_in.get(value) != self.loops[-1]:
            return False
        if not self._uses:
            self._count_uses(self.kernel.body)
        return self._uses[value] == 1

    def target(self, instruction: Instruction, operands: Iterable[Instruction]) -> Words:
        """Registers for a value: those of a carried operand that nobody else reads, else new ones.

        So what a loop adds to stays where it is from turn to turn.
        """
        dtype, count = instruction.dtype, instruction.count
        assert dtype is not None
        for operand in operands:
            alike = (operand.dtype, operand.count) == (dtype, count)
            if alike and operand.op == "param" and self.may_overwrite(operand):
                return self.values[operand]
        return self.fresh(dtype, count)

    def _count_uses(self, block: Block) -> None:
        for each in block.results:
            self._uses[each] = self._uses.get(each, 0) + 1
        for instruction in block.instructions:
            for each in instruction.args:
                self._uses[each] = self._uses.get(each, 0) + 1
            for inside in instruction.blocks:
                self._count_uses(inside)

    # Computed once in a block and the blocks inside

    def cached(self, key: tuple[object, ...]) -> str | None:
        """What `keep` kept under a key, here or in a block around."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def keep(self, key: tuple[object, ...], name: str) -> str:
        """Remember a register until the current block ends."""
        self._scopes[-1][key] = name
        return name

    # Blocks

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Lines written inside run again and again."""
        self._loop_count += 1
        self.loops.append(self._loop_count)
        yield
        self.loops.pop()

    def block(self, block: Block) -> None:
        """Write a block's instructions in order."""
        self._scopes.append({})
        rules, values, made_in, loop = self._rules, self.values, self.made_in, self.loops[-1]
        around = self.lines.place
        for instruction in block.instructions:
            rule = rules.get(instruction.op)
            if rule is None:
                raise LookupError(f"PTX has no entry for the instruction {instruction.op!r}")
            if instruction.place is not None:
                self.lines.come_from(instruction.place)
                self._locate(instruction.place)
            values[instruction] = rule(self, instruction)
            made_in[instruction] = loop
        self.lines.come_from(around)
        self._scopes.pop()

    def _locate(self, place: Place) -> None:
        number = self.files.setdefault(place.filename, len(self.files) + 1)
        here = (number, place.line, place.column)
        if here != self._place:
            self._place = here
            self.lines.append(f".loc {number} {place.line} {place.column}")
