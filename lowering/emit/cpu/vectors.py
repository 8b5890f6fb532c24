"""The operations of the shared mathematics as LLVM instructions on vectors of any width."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.lowering.emit.cpu.builder import Function, float_text, splat, suffix, vector
from gizml_tile.lowering.math import clamp_by_select, scale_in_two_steps

# The bits of x86's vector registers.
_X86_REGISTERS = (128, 256, 512)

# ``scale`` is given numbers up to 2^40: with smaller exponents they are 0.
VANISHING = -192.0


class Vectors:
    """Writes operations on ``width`` lanes into a function; one lane is a scalar.

    ``avx512`` promises AVX-512 F, DQ and VL, ``half`` instructions that convert F16. Floats are F32 and their
    bits integers of 32 bits; those of kind ``double`` are F64 and of 64 bits.
    """

    def __init__(
        self,
        function: Function,
        width: int,
        *,
        avx512: bool = False,
        half: bool = False,
        kind: str = "float",
    ) -> None:
        self.function = function
        self.width = width
        self.avx512 = avx512
        self.half = half
        self.kind = kind
        self.bits_kind = "i64" if kind == "double" else "i32"

    def of(self, kind: str) -> Vectors:
        """Vectors of so many floats of another kind, or of this one."""
        if kind == self.kind:
            return self
        return Vectors(self.function, self.width, avx512=self.avx512, half=self.half, kind=kind)

    def type(self, kind: str) -> str:
        """The LLVM type of ``width`` elements, such as ``<16 x float>``."""
        return vector(kind, self.width)

    def integer(self, kind: str, value: int) -> str:
        """An integer constant in every lane."""
        return splat(kind, str(value), self.width)

    def operation(self, name: str, kind: str, *operands: str) -> str:
        """An instruction whose operands have one type, such as ``add`` on ``i32``."""
        return self.function.emit(f"{name} {self.type(kind)} {', '.join(operands)}")

    def cast(self, name: str, source: str, target: str, value: str) -> str:
        """A conversion instruction, such as ``sext`` from ``i8`` to ``i32``."""
        return self.function.emit(f"{name} {self.type(source)} {value} to {self.type(target)}")

    def choose(self, kind: str, mask: str, yes: str, no: str) -> str:
        of = self.type(kind)
        return self.function.emit(f"select {self.type('i1')} {mask}, {of} {yes}, {of} {no}")

    def intrinsic(self, name: str, kind: str, *operands: str) -> str:
        """A call of an LLVM function that takes and gives one type."""
        of, full = self.type(kind), f"llvm.{name}.{suffix(kind, self.width)}"
        module = self.function.module
        module.declare(full, f"{of} @{full}({', '.join(of for _ in operands)})")
        return self.function.call(of, full, *(f"{of} {operand}" for operand in operands))

    # floats

    def constant(self, value: float) -> str:
        return splat(self.kind, float_text(value, self.kind), self.width)

    def add(self, a: str, b: str) -> str:
        return self.operation("fadd", self.kind, a, b)

    def sub(self, a: str, b: str) -> str:
        return self.operation("fsub", self.kind, a, b)

    def mul(self, a: str, b: str) -> str:
        return self.operation("fmul", self.kind, a, b)

    def div(self, a: str, b: str) -> str:
        return self.operation("fdiv", self.kind, a, b)

    def reciprocal(self, a: str) -> str:
        return self.div(self.constant(1.0), a)

    def sqrt(self, a: str) -> str:
        return self.intrinsic("sqrt", self.kind, a)

    def negate(self, a: str) -> str:
        return self.operation("fneg", self.kind, a)

    def absolute(self, a: str) -> str:
        return self.intrinsic("fabs", self.kind, a)

    def fma(self, a: str, b: str, c: str) -> str:
        return self.intrinsic("fma", self.kind, a, b, c)

    def less(self, a: str, b: str) -> str:
        return self.operation("fcmp olt", self.kind, a, b)

    def greater(self, a: str, b: str) -> str:
        return self.operation("fcmp ogt", self.kind, a, b)

    def equal(self, a: str, b: str) -> str:
        return self.operation("fcmp oeq", self.kind, a, b)

    def select(self, mask: str, yes: str, no: str) -> str:
        return self.choose(self.kind, mask, yes, no)

    def at_most(self, a: str, high: float) -> str:
        return self.select(self.less(a, self.constant(high)), a, self.constant(high))

    def clamp(self, a: str, low: float, high: float) -> str:
        return clamp_by_select(self, a, low, high)

    def scale(self, a: str, exponent: str, exponent_bits: str) -> str:
        if not self._is_register():
            return scale_in_two_steps(self, a, exponent_bits)
        # A result that underflows costs as much as a hundred others, so what vanishes is left out.
        kept = self.operation("fcmp uge", self.kind, exponent, self.constant(VANISHING))
        return self._x86("scalef", a, exponent, mask=kept)

    def seldom(self, mask: str, usual: str, rare: Callable[[], str]) -> str:
        """``rare()`` where the mask is set, else ``usual``; jumped over where no lane's is."""
        function, width = self.function, self.width
        some = mask
        if width > 1:
            some = function.emit(f"bitcast {self.type('i1')} {mask} to i{width}")
            some = function.emit(f"icmp ne i{width} {some}, 0")

        def chosen() -> list[str]:
            return [self.select(mask, rare(), usual)]

        return function.when(some, chosen, lambda: [usual], [self.type(self.kind)])[0]

    def maximum(self, a: str, b: str, *, quiet: tuple[bool, bool] = (False, False)) -> str:
        """The larger one; a NaN loses, -0 is smaller than +0. ``quiet``: no signaling NaN in a, in b."""
        return self._extreme("ogt", "and", 5, a, b, quiet)

    def minimum(self, a: str, b: str, *, quiet: tuple[bool, bool] = (False, False)) -> str:
        """The smaller one, likewise."""
        return self._extreme("olt", "or", 4, a, b, quiet)

    def _extreme(self, order: str, zeros: str, control: int, a: str, b: str, quiet: tuple[bool, bool]) -> str:
        if self.avx512 and self._bits < _X86_REGISTERS[0]:
            least = self._with_width(_X86_REGISTERS[0] * self.width // self._bits)
            left, right = (self._lanes(each, 0, least.width) for each in (a, b))
            return least._lanes(least._extreme(order, zeros, control, left, right, quiet), 0, self.width)
        if self.avx512 and self._bits > _X86_REGISTERS[-1]:
            half = self._with_width(self.width // 2)
            parts = []
            for first in (0, half.width):
                left, right = (self._lanes(each, first, half.width) for each in (a, b))
                parts.append(half._extreme(order, zeros, control, left, right, quiet))
            return half._joined(*parts)
        if self._is_register():
            # The instruction has these rules but for signaling NaNs, which it lets win.
            left = a if quiet[0] else self.intrinsic("canonicalize", self.kind, a)
            right = b if quiet[1] else self.intrinsic("canonicalize", self.kind, b)
            return self._x86("range", left, right, f"i32 {control}")
        chosen = self.choose(self.kind, self.operation(f"fcmp {order}", self.kind, a, b), a, b)
        chosen = self.choose(self.kind, self.operation("fcmp uno", self.kind, b, b), a, chosen)
        # Equal numbers have equal bits but for zeros, whose signs meet in the bits' and (or).
        both = self.from_bits(self.operation(zeros, self.bits_kind, self.as_bits(a), self.as_bits(b)))
        return self.choose(self.kind, self.equal(a, b), both, chosen)

    @property
    def _bits(self) -> int:
        """The bits of so many floats."""
        return self.width * (64 if self.kind == "double" else 32)

    def _is_register(self) -> bool:
        """Whether AVX-512's instructions take vectors of this size."""
        return self.avx512 and self._bits in _X86_REGISTERS

    def _with_width(self, width: int) -> Vectors:
        return Vectors(self.function, width, avx512=self.avx512, half=self.half, kind=self.kind)

    def _lanes(self, a: str, first: int, count: int) -> str:
        """So many lanes from one on; those beyond the last are undefined."""
        of, function = self.type(self.kind), self.function
        if self.width == 1:
            return function.emit(f"insertelement <{count} x {self.kind}> poison, {self.kind} {a}, i64 0")
        if count == 1:
            return function.emit(f"extractelement {of} {a}, i64 {first}")
        numbers = range(first, first + count)
        lanes = ", ".join(f"i32 {lane if lane < self.width else 'poison'}" for lane in numbers)
        return function.emit(f"shufflevector {of} {a}, {of} poison, <{count} x i32> <{lanes}>")

    def _joined(self, low: str, high: str) -> str:
        """Two vectors as one."""
        of, count = self.type(self.kind), 2 * self.width
        lanes = ", ".join(f"i32 {lane}" for lane in range(count))
        return self.function.emit(f"shufflevector {of} {low}, {of} {high}, <{count} x i32> <{lanes}>")

    def _x86(self, name: str, a: str, b: str, *controls: str, mask: str = "") -> str:
        """An AVX-512 instruction of two operands, in the current rounding mode; zeros outside the mask."""
        of = self.type(self.kind)
        bits, lanes = self._bits, f"i{max(self.width, 8)}"
        chosen = "-1"
        if mask:
            chosen = self._lanes_of(mask, lanes)
        arguments = [f"{of} {a}", f"{of} {b}", *controls, f"{of} zeroinitializer", f"{lanes} {chosen}"]
        if bits == 512:
            arguments.append("i32 4")
        full = f"llvm.x86.avx512.mask.{name}.{'pd' if self.kind == 'double' else 'ps'}.{bits}"
        kinds = ", ".join(of if argument.startswith(of) else argument.split()[0] for argument in arguments)
        self.function.module.declare(full, f"{of} @{full}({kinds})")
        return self.function.call(of, full, *arguments)

    def _lanes_of(self, mask: str, lanes: str) -> str:
        """A mask as the bits of an integer that has at least one for each lane."""
        bits = self.function.emit(f"bitcast {self.type('i1')} {mask} to i{self.width}")
        return (
            bits if lanes == f"i{self.width}" else self.function.emit(f"zext i{self.width} {bits} to {lanes}")
        )

    # their bits

    def bits_constant(self, value: int) -> str:
        return self.integer(self.bits_kind, value)

    def as_bits(self, a: str) -> str:
        return self.cast("bitcast", self.kind, self.bits_kind, a)

    def from_bits(self, bits: str) -> str:
        return self.cast("bitcast", self.bits_kind, self.kind, bits)

    def bits_add(self, a: str, b: str) -> str:
        return self.operation("add", self.bits_kind, a, b)

    def bits_sub(self, a: str, b: str) -> str:
        return self.operation("sub", self.bits_kind, a, b)

    def bits_and(self, a: str, b: str) -> str:
        return self.operation("and", self.bits_kind, a, b)

    def bits_or(self, a: str, b: str) -> str:
        return self.operation("or", self.bits_kind, a, b)

    def bits_xor(self, a: str, b: str) -> str:
        return self.operation("xor", self.bits_kind, a, b)

    def bits_mul(self, a: str, b: str) -> str:
        return self.operation("mul", self.bits_kind, a, b)

    def bits_product(self, a: str, b: str) -> tuple[str, str]:
        wide = [self.cast("zext", "i32", "i64", each) for each in (a, b)]
        product = self.operation("mul", "i64", *wide)
        upper = self.operation("lshr", "i64", product, self.integer("i64", 32))
        return self.cast("trunc", "i64", "i32", upper), self.cast("trunc", "i64", "i32", product)

    def shift_left(self, a: str, count: int) -> str:
        return self.operation("shl", self.bits_kind, a, self.bits_constant(count))

    def shift_left_by(self, a: str, count: str) -> str:
        return self.operation("shl", self.bits_kind, a, count)

    def shift_right(self, a: str, count: int) -> str:
        return self.operation("ashr", self.bits_kind, a, self.bits_constant(count))

    def shift_right_logical(self, a: str, count: int) -> str:
        return self.operation("lshr", self.bits_kind, a, self.bits_constant(count))

    def shift_right_logical_by(self, a: str, count: str) -> str:
        return self.operation("lshr", self.bits_kind, a, count)

    def bits_less(self, a: str, b: str) -> str:
        return self.operation("icmp slt", self.bits_kind, a, b)

    def bits_select(self, mask: str, yes: str, no: str) -> str:
        return self.choose(self.bits_kind, mask, yes, no)

    def bits_to_float(self, bits: str) -> str:
        return self.cast("sitofp", self.bits_kind, self.kind, bits)

    def float_to_bits(self, a: str) -> str:
        return self.cast("fptosi", self.kind, self.bits_kind, a)
