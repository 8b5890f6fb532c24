"""What a pure instruction is, where that is known or simpler."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import I32, I64, MASK, DType
from gizml_tile.lowering.kernel_ir.instructions import COMPARISONS, Instruction, Kernel
from gizml_tile.lowering.passes.numbers import Number, evaluate, keeps, wrap
from gizml_tile.lowering.passes.registers import simplify_join, simplify_pick
from gizml_tile.lowering.passes.rewriting import with_operands

Known = tuple[Number, ...]

_ZERO_OF_EQUALS = frozenset("sub xor ne lt gt".split())
_TRUE_OF_EQUALS = frozenset("eq le ge".split())
_ONE_OF_EQUALS = frozenset("and or min max".split())


class Identities:
    """Simplifies instructions; what a simpler one needs as an operand is emitted before it."""

    def __init__(self, kernel: Kernel, emit: Callable[[Instruction], None]) -> None:
        self._emit = emit
        self._known: dict[Instruction, Known | None] = {}
        lanes = kernel.target.facts.lanes
        # Leaves whose numbers go from 0 to below these.
        self._below = {"thread": kernel.threads, "lane": lanes, "warp": kernel.threads // lanes}

    def number(self, value: Instruction) -> Number | None:
        """What all registers of an integer or a mask hold, if it is known."""
        known = self._numbers(value)
        return known[0] if known is not None and len(known) == 1 else None

    def simplified(self, made: Instruction) -> Instruction:
        """The instruction itself, a value that stands before it, or a new one in its place."""
        match made.op:
            case "pick":
                return simplify_pick(made)
            case "join":
                return simplify_join(made)
            case "select":
                return self._select(made)
            case "convert" | "bitcast":
                return self._converted(made)
        if not made.args or made.args[0].dtype not in (I32, I64, MASK):
            return made
        return self._integers(made)

    def _numbers(self, value: Instruction) -> Known | None:
        """The numbers of the registers, one for all that are equal; None where they are not known."""
        if value.op not in ("constant", "pick") or value.dtype is None or value.dtype.is_float:
            return None
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Instruction) -> Known | None:
        if value.op == "constant":
            attr = value.attr
            return attr if isinstance(attr, tuple) else (attr,)  # type: ignore[return-value]
        inner = self._numbers(value.args[0])
        if inner is None or len(inner) == 1:
            return inner
        assert isinstance(value.attr, tuple)
        return tuple([inner[int(each)] for each in value.attr])  # type: ignore[arg-type]

    def _constant(self, numbers: Known, made: Instruction) -> Instruction:
        """The numbers as a value like ``made``."""
        if len(numbers) > 1 and len(set(numbers)) > 1:
            return Instruction("constant", (), numbers, made.dtype, made.count, made.place)
        scalar = Instruction("constant", (), numbers[0], made.dtype, 1, made.place)
        if made.count > 1:
            self._emit(scalar)
        return self._like(scalar, made)

    def _like(self, value: Instruction, made: Instruction) -> Instruction:
        """A value with the registers of ``made``: one register is repeated."""
        if value.count == made.count:
            return value
        return Instruction("pick", (value,), (0,) * made.count, made.dtype, made.count, made.place)

    def _integers(self, made: Instruction) -> Instruction:
        numbers = tuple([self._numbers(arg) for arg in made.args])
        dtype = made.args[0].dtype
        assert dtype is not None
        if None not in numbers:
            found = _each(made.op, tuple([each for each in numbers if each is not None]), dtype)
            if found is not None:
                return self._constant(found, made)
        known = tuple([each[0] if each is not None and len(each) == 1 else None for each in numbers])
        kept = keeps(made.op, known, dtype)
        if kept is not None:
            return self._like(made.args[kept], made)
        if len(made.args) == 2 and made.args[0] is made.args[1]:
            return self._of_equals(made)
        if made.op == "not" and made.args[0].op == "not":
            return made.args[0].args[0]
        if len(known) == 2 and known[1] is not None:
            return self._of_leaf(made, int(known[1])) or self._sum(made, int(known[1]), dtype) or made
        return made

    def _of_equals(self, made: Instruction) -> Instruction:
        if made.op in _ONE_OF_EQUALS:
            return made.args[0]
        if made.op in _TRUE_OF_EQUALS:
            return self._constant((True,), made)
        if made.op in _ZERO_OF_EQUALS:
            return self._constant((wrap(0, made.dtype),), made)  # type: ignore[arg-type]
        return made

    def _of_leaf(self, made: Instruction, number: int) -> Instruction | None:
        """What the range of a leaf tells."""
        below = self._below.get(made.args[0].op)
        if below is None:
            return None
        last = below - 1
        if made.op in COMPARISONS:
            first, end = (evaluate(made.op, (each, number), I32) for each in (0, last))
            ordered = made.op not in ("eq", "ne") or not 0 <= number <= last
            return self._constant((bool(first),), made) if first == end and ordered else None
        if made.op in ("div", "shr", "ushr", "rem", "and") and number > 0:
            whole = (1 << last.bit_length()) - 1
            if (made.op == "rem" and last < number) or (made.op == "and" and number & whole == whole):
                return made.args[0]
            if made.op in ("div", "shr", "ushr") and evaluate(made.op, (last, number), I32) == 0:
                return self._constant((0,), made)
        return None

    def _sum(self, made: Instruction, number: int, dtype: DType) -> Instruction | None:
        """(x + a) + b as x + (a + b)."""
        inner = made.args[0]
        if made.op not in ("add", "sub") or inner.op not in ("add", "sub") or dtype is MASK:
            return None
        first = self.number(inner.args[1])
        if first is None or inner.args[0].count != made.count:
            return None
        total = (first if inner.op == "add" else -first) + (number if made.op == "add" else -number)
        constant = Instruction("constant", (), wrap(total, dtype), dtype, 1, made.place)
        self._emit(constant)
        return Instruction("add", (inner.args[0], constant), None, dtype, made.count, made.place)

    def _select(self, made: Instruction) -> Instruction:
        mask, yes, no = made.args
        known = self.number(mask)
        if yes is no or known is not None:
            return self._like(yes if known or yes is no else no, made)
        if mask.op == "not":
            return self.simplified(with_operands(made, (mask.args[0], no, yes)))
        return made

    def _converted(self, made: Instruction) -> Instruction:
        (source,) = made.args
        dtype = made.dtype
        assert dtype is not None and source.dtype is not None
        if source.dtype is dtype:
            return source
        if made.op == "bitcast":
            return self.simplified(with_operands(made, source.args)) if source.op == "bitcast" else made
        numbers = self._numbers(source)
        if numbers is not None and dtype.is_integer:
            return self._constant(tuple([wrap(int(each), dtype) for each in numbers]), made)
        # What was extended is cut again.
        extended = source.op == "convert" and source.args[0].dtype is dtype
        integers = dtype.is_integer and source.dtype.is_integer
        return source.args[0] if extended and integers and dtype.bits <= source.dtype.bits else made


def _each(op: str, numbers: tuple[Known, ...], dtype: DType) -> Known | None:
    """An operation on known registers; None where it is not known for all."""
    count = max([len(each) for each in numbers])
    found = []
    for register in range(count):
        values = tuple([each[register if len(each) > 1 else 0] for each in numbers])
        number = evaluate(op, values, dtype)
        if number is None:
            return None
        found.append(number)
    return tuple(found)
