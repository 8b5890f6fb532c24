"""The operations of the shared mathematics as LLVM instructions on vectors of any width."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.lowering.emit.cpu.builder import Function, float_text, splat, suffix, vector
from gizml_tile.lowering.math import clamp_by_select, scale_in_two_steps

# What x86 calls the vectors of so many floats, and the type of a mask of that many lanes.
_X86_VECTORS = {16: ("512", "i16"), 8: ("256", "i8"), 4: ("128", "i8")}

# ``scale`` is given numbers up to 2^40: with smaller exponents they are 0.
VANISHING = -192.0


class Vectors:
    """Writes operations on ``width`` lanes into a function; one lane is a scalar.

    ``avx512`` promises AVX-512 F, DQ and VL, ``half`` instructions that convert F16.
    """

    def __init__(self, function: Function, width: int, *, avx512: bool = False, half: bool = False) -> None:
        self.function = function
        self.width = width
        self.avx512 = avx512
        self.half = half

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
        return splat("float", float_text(value), self.width)

    def add(self, a: str, b: str) -> str:
        return self.operation("fadd", "float", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.operation("fsub", "float", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.operation("fmul", "float", a, b)

    def div(self, a: str, b: str) -> str:
        return self.operation("fdiv", "float", a, b)

    def reciprocal(self, a: str) -> str:
        return self.div(self.constant(1.0), a)

    def sqrt(self, a: str) -> str:
        return self.intrinsic("sqrt", "float", a)

    def negate(self, a: str) -> str:
        return self.operation("fneg", "float", a)

    def absolute(self, a: str) -> str:
        return self.intrinsic("fabs", "float", a)

    def fma(self, a: str, b: str, c: str) -> str:
        return self.intrinsic("fma", "float", a, b, c)

    def less(self, a: str, b: str) -> str:
        return self.operation("fcmp olt", "float", a, b)

    def greater(self, a: str, b: str) -> str:
        return self.operation("fcmp ogt", "float", a, b)

    def equal(self, a: str, b: str) -> str:
        return self.operation("fcmp oeq", "float", a, b)

    def select(self, mask: str, yes: str, no: str) -> str:
        return self.choose("float", mask, yes, no)

    def at_most(self, a: str, high: float) -> str:
        return self.select(self.less(a, self.constant(high)), a, self.constant(high))

    def clamp(self, a: str, low: float, high: float) -> str:
        return clamp_by_select(self, a, low, high)

    def scale(self, a: str, exponent: str, exponent_bits: str) -> str:
        if not (self.avx512 and self.width in _X86_VECTORS):
            return scale_in_two_steps(self, a, exponent_bits)
        # A result that underflows costs as much as a hundred others, so what vanishes is left out.
        kept = self.operation("fcmp uge", "float", exponent, self.constant(VANISHING))
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

        return function.when(some, chosen, lambda: [usual], [self.type("float")])[0]

    def maximum(self, a: str, b: str, *, quiet: tuple[bool, bool] = (False, False)) -> str:
        """The larger one; a NaN loses, -0 is smaller than +0. ``quiet``: no signaling NaN in a, in b."""
        return self._extreme("ogt", "and", 5, a, b, quiet)

    def minimum(self, a: str, b: str, *, quiet: tuple[bool, bool] = (False, False)) -> str:
        """The smaller one, likewise."""
        return self._extreme("olt", "or", 4, a, b, quiet)

    def _extreme(self, order: str, zeros: str, control: int, a: str, b: str, quiet: tuple[bool, bool]) -> str:
        if self.avx512 and self.width < 4:
            four = Vectors(self.function, 4, avx512=True)
            wide = four._extreme(order, zeros, control, self._widened(a), self._widened(b), quiet)
            return self._narrowed(wide)
        if self.avx512 and self.width in _X86_VECTORS:
            # The instruction has these rules but for signaling NaNs, which it lets win.
            left = a if quiet[0] else self.intrinsic("canonicalize", "float", a)
            right = b if quiet[1] else self.intrinsic("canonicalize", "float", b)
            return self._x86("range", left, right, f"i32 {control}")
        chosen = self.choose("float", self.operation(f"fcmp {order}", "float", a, b), a, b)
        chosen = self.choose("float", self.operation("fcmp uno", "float", b, b), a, chosen)
        # Equal numbers have equal bits but for zeros, whose signs meet in the bits' and (or).
        both = self.from_bits(self.operation(zeros, "i32", self.as_bits(a), self.as_bits(b)))
        return self.choose("float", self.equal(a, b), both, chosen)

    def _widened(self, a: str) -> str:
        """One or two lanes as the first of four; the others are undefined."""
        of = self.type("float")
        if self.width == 1:
            return self.function.emit(f"insertelement <4 x float> poison, float {a}, i64 0")
        lanes = "<i32 0, i32 1, i32 poison, i32 poison>"
        return self.function.emit(f"shufflevector {of} {a}, {of} poison, <4 x i32> {lanes}")

    def _narrowed(self, a: str) -> str:
        """The first lanes of four."""
        if self.width == 1:
            return self.function.emit(f"extractelement <4 x float> {a}, i64 0")
        lanes = "<i32 0, i32 1>"
        return self.function.emit(f"shufflevector <4 x float> {a}, <4 x float> poison, <2 x i32> {lanes}")

    def _x86(self, name: str, a: str, b: str, *controls: str, mask: str = "") -> str:
        """An AVX-512 instruction of two operands, in the current rounding mode; zeros outside the mask."""
        of = self.type("float")
        bits, lanes = _X86_VECTORS[self.width]
        chosen = "-1"
        if mask:
            chosen = self._lanes_of(mask, lanes)
        arguments = [f"{of} {a}", f"{of} {b}", *controls, f"{of} zeroinitializer", f"{lanes} {chosen}"]
        if bits == "512":
            arguments.append("i32 4")
        full = f"llvm.x86.avx512.mask.{name}.ps.{bits}"
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
        return self.integer("i32", value)

    def as_bits(self, a: str) -> str:
        return self.cast("bitcast", "float", "i32", a)

    def from_bits(self, bits: str) -> str:
        return self.cast("bitcast", "i32", "float", bits)

    def bits_add(self, a: str, b: str) -> str:
        return self.operation("add", "i32", a, b)

    def bits_sub(self, a: str, b: str) -> str:
        return self.operation("sub", "i32", a, b)

    def bits_and(self, a: str, b: str) -> str:
        return self.operation("and", "i32", a, b)

    def bits_or(self, a: str, b: str) -> str:
        return self.operation("or", "i32", a, b)

    def bits_xor(self, a: str, b: str) -> str:
        return self.operation("xor", "i32", a, b)

    def bits_product(self, a: str, b: str) -> tuple[str, str]:
        wide = [self.cast("zext", "i32", "i64", each) for each in (a, b)]
        product = self.operation("mul", "i64", *wide)
        upper = self.operation("lshr", "i64", product, self.integer("i64", 32))
        return self.cast("trunc", "i64", "i32", upper), self.cast("trunc", "i64", "i32", product)

    def shift_left(self, a: str, count: int) -> str:
        return self.operation("shl", "i32", a, self.bits_constant(count))

    def shift_left_by(self, a: str, count: str) -> str:
        return self.operation("shl", "i32", a, count)

    def shift_right(self, a: str, count: int) -> str:
        return self.operation("ashr", "i32", a, self.bits_constant(count))

    def shift_right_logical(self, a: str, count: int) -> str:
        return self.operation("lshr", "i32", a, self.bits_constant(count))

    def shift_right_logical_by(self, a: str, count: str) -> str:
        return self.operation("lshr", "i32", a, count)

    def bits_less(self, a: str, b: str) -> str:
        return self.operation("icmp slt", "i32", a, b)

    def bits_select(self, mask: str, yes: str, no: str) -> str:
        return self.choose("i32", mask, yes, no)

    def bits_to_float(self, bits: str) -> str:
        return self.cast("sitofp", "i32", "float", bits)

    def float_to_bits(self, a: str) -> str:
        return self.cast("fptosi", "float", "i32", a)
