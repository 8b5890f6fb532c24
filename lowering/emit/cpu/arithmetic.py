"""The mathematics of a CPU kernel: one entry for each operation of the tile IR.

The type given to an operation is the one that mathematics is done in, or MASK. Values
are in registers as :mod:`storage <gizml_tile.lowering.emit.cpu.storage>` says.
"""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import F32, F64, MASK, U32, U64, DType, integer_range
from gizml_tile.lowering import math
from gizml_tile.lowering.emit.cpu import integers, storage
from gizml_tile.lowering.emit.cpu.builder import Function
from gizml_tile.lowering.emit.cpu.vectors import Vectors
from gizml_tile.lowering.emit.literals import signed
from gizml_tile.nodes import COUNTS

_SHARED: dict[str, Callable[[Vectors, str], str]] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": math.sigmoid,
    "gelu": math.gelu,
    "gelu_erf": math.gelu_erf,
    "log2": math.log2,
    "log1p": math.log1p,
    "expm1": math.expm1,
    "silu": math.silu,
    "softplus": math.softplus,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
}
_SHARED_DOUBLE: dict[str, Callable[[Vectors, str], str]] = {op: getattr(math.doubles, op) for op in _SHARED}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}
_SHARED_BINARY: dict[tuple[str, DType], Callable[[Vectors, str, str], str]] = {
    ("pow", F32): math.pow,
    ("rem", F32): math.remainder,
    ("floormod", F32): math.floor_modulo,
    ("pow", F64): math.doubles.pow,
    ("rem", F64): math.doubles.remainder,
    ("floormod", F64): math.doubles.floor_modulo,
}
_DIVISIONS: dict[str, Callable[[Vectors, str, str, str], str]] = {
    "div": integers.divide,
    "rem": integers.remainder,
    "floordiv": integers.floor_divide,
    "floormod": integers.floor_modulo,
    "shl": integers.shift_left,
    "shr": integers.shift_right,
}
_UNSIGNED_DIVISIONS: dict[str, Callable[[Vectors, str, str, str], str]] = {
    "div": integers.divide_unsigned,
    "rem": integers.remainder_unsigned,
    "floordiv": integers.divide_unsigned,
    "floormod": integers.remainder_unsigned,
    "shl": integers.shift_left,
    "shr": integers.shift_right_zeros,
}
_INTEGER_OPERATIONS = {"add": "add", "sub": "sub", "mul": "mul", "and_": "and", "or_": "or", "xor": "xor"}
_EXTREMES = {"maximum": "max", "minimum": "min"}
_FLOAT_PREDICATES = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTEGER_PREDICATES = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED_PREDICATES = {op: text.replace("s", "u") for op, text in _INTEGER_PREDICATES.items()}
_REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum"}


class Arithmetic:
    """Writes the operations of tiles on ``width`` lanes into a function; one lane is a scalar.

    ``avx512`` promises AVX-512 F, DQ and VL, ``half`` instructions that convert F16. Neither changes a bit
    of any result.
    """

    def __init__(self, function: Function, width: int, *, avx512: bool = False, half: bool = False) -> None:
        self.vectors = Vectors(function, width, avx512=avx512, half=half)

    @property
    def width(self) -> int:
        return self.vectors.width

    def with_width(self, width: int) -> Arithmetic:
        """The same on another number of lanes."""
        old = self.vectors
        return Arithmetic(old.function, width, avx512=old.avx512, half=old.half)

    def type(self, dtype: DType) -> str:
        """The LLVM type of a value of ``dtype`` in registers, such as ``<16 x float>``."""
        return self.vectors.type(storage.register_kind(dtype))

    def storage_type(self, dtype: DType) -> str:
        """The LLVM type that ``width`` elements are loaded and stored as."""
        return self.vectors.type(storage.storage_kind(dtype))

    def _floats(self, dtype: DType) -> Vectors:
        """Vectors whose floats are those that mathematics on a type takes."""
        return self.vectors.of(storage.register_kind(dtype))

    def constant(self, dtype: DType, value: float | int | bool) -> str:
        """A number in every lane."""
        if dtype.is_float:
            return self._floats(dtype).constant(float(value))
        kind = storage.register_kind(dtype)
        if dtype is MASK:
            return self.vectors.integer(kind, int(value) & 1)
        return self.vectors.integer(kind, signed(value, dtype) if dtype in (U32, U64) else int(value))

    def unary(self, op: str, dtype: DType, value: str) -> str:
        """neg abs not_ of any type, popcount and clz of integers, the functions of floats."""
        vectors = self.vectors
        kind = storage.register_kind(dtype)
        if op == "not_":
            return vectors.operation("xor", kind, value, vectors.integer(kind, -1))
        if dtype.is_integer and op in ("neg", "abs"):
            assert op == "neg" or not dtype.is_unsigned, f"no {op} of {dtype}"
            zero = vectors.integer(kind, 0)
            negated = vectors.operation("sub", kind, zero, value)
            return negated if op == "neg" else vectors.intrinsic("smax", kind, value, negated)
        if op in COUNTS:
            return integers.count(vectors, kind, op, value)
        assert dtype.is_float, f"no {op} of {dtype}"
        vectors, shared = self._floats(dtype), _SHARED_DOUBLE if dtype is F64 else _SHARED
        if op in shared:
            return shared[op](vectors, value)
        if op in _ROUNDINGS:
            return vectors.intrinsic(_ROUNDINGS[op], kind, value)
        match op:
            case "neg":
                return vectors.negate(value)
            case "abs":
                return vectors.absolute(value)
            case "sqrt":
                return vectors.sqrt(value)
            case "rsqrt":
                return vectors.div(vectors.constant(1.0), vectors.sqrt(value))
            case "relu":
                zero = vectors.constant(0.0)
                return vectors.select(vectors.greater(value, zero), value, zero)
            case "reciprocal":
                return vectors.reciprocal(value)
        raise AssertionError(f"no operation {op}")

    def binary(self, op: str, dtype: DType, a: str, b: str) -> str:
        """add sub mul div rem floormod maximum minimum; of floats pow; of integers floordiv and bits."""
        vectors = self.vectors
        if dtype.is_float:
            vectors = self._floats(dtype)
            if (op, dtype) in _SHARED_BINARY:
                return _SHARED_BINARY[op, dtype](vectors, a, b)
            operations: dict[str, Callable[[str, str], str]] = {
                "add": vectors.add,
                "sub": vectors.sub,
                "mul": vectors.mul,
                "div": vectors.div,
                "maximum": vectors.maximum,
                "minimum": vectors.minimum,
            }
            return operations[op](a, b)
        kind = storage.register_kind(dtype)
        assert dtype is not MASK or op in ("and_", "or_", "xor"), f"no {op} of masks"
        if op in _DIVISIONS:
            return (_UNSIGNED_DIVISIONS if dtype.is_unsigned else _DIVISIONS)[op](vectors, kind, a, b)
        if op in _EXTREMES:
            return vectors.intrinsic(("u" if dtype.is_unsigned else "s") + _EXTREMES[op], kind, a, b)
        return vectors.operation(_INTEGER_OPERATIONS[op], kind, a, b)

    def high(self, a: str, b: str, *, unsigned: bool) -> str:
        """The upper half of the product of I32 or U32."""
        return integers.upper_product(self.vectors, a, b, unsigned=unsigned)

    def fma(
        self,
        dtype: DType,
        a: str,
        b: str,
        c: str,
        *,
        negate_product: bool = False,
        negate_c: bool = False,
    ) -> str:
        """``a * b + c`` of floats with one rounding, the product or c negated."""
        vectors = self._floats(dtype)
        left = vectors.negate(a) if negate_product else a
        return vectors.fma(left, b, vectors.negate(c) if negate_c else c)

    def compare(self, op: str, dtype: DType, a: str, b: str) -> str:
        """A mask of lt le gt ge eq ne; of floats NaN is ordered with nothing, so that ``ne`` is true."""
        if dtype.is_float:
            kind = storage.register_kind(dtype)
            return self.vectors.operation(f"fcmp {_FLOAT_PREDICATES[op]}", kind, a, b)
        assert dtype is not MASK or op in ("eq", "ne"), f"no {op} of masks"
        predicates = _UNSIGNED_PREDICATES if dtype.is_unsigned else _INTEGER_PREDICATES
        return self.vectors.operation(f"icmp {predicates[op]}", storage.register_kind(dtype), a, b)

    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        """``yes`` where the mask is set, else ``no``."""
        return self.vectors.choose(storage.register_kind(dtype), mask, yes, no)

    def convert(self, source: DType, target: DType, value: str) -> str:
        """The values that storing as ``target`` and loading again would give; any two types."""
        return storage.convert(self.vectors, source, target, value)

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        """The same bits in memory as another type of the same width."""
        return storage.bitcast(self.vectors, source, target, value)

    def decode(self, dtype: DType, raw: str) -> str:
        """What stands in registers for loaded elements of ``storage_type(dtype)``."""
        return storage.decode(self.vectors, dtype, raw)

    def encode(self, dtype: DType, value: str) -> str:
        """What is stored, of ``storage_type(dtype)``, for elements in registers."""
        return storage.encode(self.vectors, dtype, value)

    def identity(self, op: str, dtype: DType) -> str:
        """What changes no sum, max or min: for a float's max and min a NaN, which loses."""
        if op == "sum":
            return self.constant(dtype, 0)
        if dtype is MASK:
            return self.constant(MASK, op == "min")
        if dtype.is_float:
            return self.constant(dtype, float("nan"))
        return self.constant(dtype, integer_range(dtype)[0 if op == "max" else 1])

    def accumulate(self, op: str, dtype: DType, total: str, value: str, *, quiet: bool = False) -> str:
        """One step of a sum, max or min; ``total`` is the identity or comes from here.

        ``quiet`` says that ``value`` comes out of arithmetic, which leaves no signaling NaN. The max of
        masks is any, the min is all; a sum of masks has to count in I32.
        """
        if dtype is MASK:
            return self.binary("or_" if op == "max" else "and_", MASK, total, value)
        if dtype.is_float and op != "sum":
            vectors = self._floats(dtype)
            step = vectors.maximum if op == "max" else vectors.minimum
            return step(total, value, quiet=(True, quiet))
        return self.binary(_REDUCTIONS[op], dtype, total, value)

    def reduce(self, op: str, dtype: DType, value: str) -> str:
        """The sum, max or min of all lanes as a scalar, halves meeting halves in a fixed order."""
        if self.width == 1:
            return value
        half = self.width // 2
        narrow = self.with_width(half)
        low = self._lanes(dtype, value, 0, half)
        high = self._lanes(dtype, value, half, half)
        return narrow.reduce(op, dtype, narrow.accumulate(op, dtype, low, high, quiet=True))

    def _lanes(self, dtype: DType, value: str, first: int, count: int) -> str:
        of, function = self.type(dtype), self.vectors.function
        if count == 1:
            return function.emit(f"extractelement {of} {value}, i64 {first}")
        lanes = ", ".join(f"i32 {first + lane}" for lane in range(count))
        return function.emit(f"shufflevector {of} {value}, {of} poison, <{count} x i32> <{lanes}>")
