"""Writes random operations into a region of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import addressing
import along
import batches
import loops_and_branches as loops
import nibbles
import numpy as np
import packed
import shapes
import tells
from programs import INDEX, Arg, Literal, Op, Type, ViewSpec

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
    math_dtype,
)
from gizml_tile.nodes import APPROXIMABLE, broadcast, promote

CAST = [F32, I32, U32, F16, BF16, I16, U16, FP8, E5M2, I8, U8, I64, U64]
FLOATS = [F32, F32, F32, F16, BF16, FP8, E5M2]
INTEGERS = [I32, I32, I8, U8, I16, I64, U32, U16, U64]
IEEE_UNARY = "neg abs sqrt rsqrt reciprocal relu floor ceil trunc round sign".split()
FUNCTIONS = """exp exp2 expm1 log log2 log1p sigmoid tanh silu softplus erf gelu gelu_erf sin cos""".split()
UNARY = IEEE_UNARY + FUNCTIONS
BINARY = "add add sub mul mul div maximum minimum".split()

if TYPE_CHECKING:
    from generate import Generator


class Writer:
    """Grows the operations of one region; regions inside see the names of those around them."""

    def __init__(self, owner: Generator, names: dict[str, Type]):
        self.owner, self.random, self.names = owner, owner.random, names
        self.ops: list[Op] = []
        # Whether batches may be picked, and whether the program may end here.
        self.many = self.may_return = False
        # Draws a way out of the loop around it, if there is one that may be left.
        self.leave: Callable[[Writer], None] | None = None

    def emit(self, name: str, type_: Type, *args: Arg, attr: object = None) -> str:
        """An operation, which of a batch makes a batch."""
        if name != "tile":
            counts = [self.names[arg].batch for arg in args if isinstance(arg, str)]
            type_ = replace(type_, batch=max([type_.batch, *counts]))
        self.owner.used.update(arg for arg in args if isinstance(arg, str))
        result = self.owner.fresh("i" if type_.is_index else "m" if type_.dtype is MASK else "t")
        self.ops.append(Op(name, (result,), (type_,), args, attr))
        self.names[result] = type_
        return result

    def pick(self, wanted: Callable[[Type], bool], *, many: bool = False) -> str | None:
        """A name that fits, later ones rather than earlier ones; with ``many`` it may be a batch.

        Most often it is one that nothing has used yet, so that little is made for nothing.
        """
        many = many or self.many
        found = [name for name, type_ in self.names.items() if (many or not type_.batch) and wanted(type_)]
        unused = [name for name in found if name not in self.owner.used]
        if unused and self.random.random() < 0.6:
            found = unused
        if self.many and self.random.random() < 0.5:
            found = [name for name in found if self.names[name].batch] or found
        if self.owner.doubles and self.random.random() < 0.5:
            found = [name for name in found if self.names[name].dtype is F64] or found
        if not found:
            return None
        return found[max(self.random.randrange(len(found)) for _ in range(2))]

    def floats(self) -> str:
        return self.pick(lambda t: t.dtype is not None and t.dtype.is_float) or self.read(
            self.owner.float_dtype()
        )

    def integer_tile(self) -> str:
        found = self.pick(lambda t: t.dtype is not None and t.dtype.is_integer)
        if found is None or self.random.random() < 0.15:
            return self.read(self.random.choice(self.owner.integer_types))
        return found

    def masks(self) -> str:
        return self.pick(lambda t: t.dtype is MASK) or self.compare()

    def fitting(self, name: str, wanted) -> Arg | None:
        """A name of the wanted kind that broadcasts with another."""
        shape = self.names[name].shape
        limit = self.owner.limit
        return self.pick(
            lambda t: (
                wanted(t) and (both := broadcast(shape, t.shape)) is not None and both[0] * both[1] <= limit
            )
        )

    def index(self) -> Arg:
        roll = self.random.random()
        if roll < 0.3:
            return Literal(self.random.choice([0, 0, 0, 1, 1, 2, 3, -1]))
        if roll < 0.8:
            return self.pick(lambda t: t.is_index) or self.emit("id", INDEX, attr=0)
        return self.index_math()

    def index_math(self) -> str:
        roll = self.random.random()
        if roll < 0.2:
            return self.emit("id", INDEX, attr=self.random.randrange(3))
        if roll < 0.3:
            return self.emit("count", INDEX, attr=self.random.randrange(3))
        if roll < 0.35:
            return self.emit("arg", INDEX, attr=self.random.randrange(-2, 5))
        if roll < 0.5 and self.owner.views:
            view = self.random.choice(self.owner.views)
            rank = len(self.owner.tensor(view.tensor).axes)
            return self.emit(
                self.random.choice(["dim", "blocks"]), INDEX, attr=(view.name, self.random.randrange(rank))
            )
        left = self.pick(lambda t: t.is_index) or self.emit("int", INDEX, attr=self.random.randrange(-3, 9))
        operation = self.random.choice("add sub mul minimum maximum div rem floordiv floormod neg".split())
        if operation == "neg":
            return self.emit("neg", INDEX, left)
        if operation in ("div", "rem", "floordiv", "floormod") and self.random.random() < 0.7:
            return self.emit(operation, INDEX, left, Literal(self.random.choice([1, 2, 3, 4, 8, -2, -3])))
        right: Arg = self.index() if self.random.random() < 0.5 else Literal(self.random.randrange(-4, 9))
        if operation in ("div", "rem", "floordiv", "floormod") and right == Literal(0):
            right = Literal(5)
        return self.emit(operation, INDEX, left, right)

    def read(self, dtype: DType | None = None, shape: tuple[int, int] | None = None) -> str:
        return self.read_from(self.owner.input(dtype, shape))

    def element(self) -> str:
        """A number out of a tensor as an index."""
        return addressing.element(self)

    def read_from(self, view: ViewSpec) -> str:
        """A block of a view somewhere, often at the start."""
        tensor = self.owner.tensor(view.tensor)
        window = self.random.random() < 0.35
        coordinates: list[Arg] = []
        for axis in range(len(tensor.axes)):
            blocked = axis >= len(tensor.axes) - len(view.block)
            if window and blocked and self.random.random() < 0.6:
                coordinates.append(Literal(self.random.randrange(-5, 9)))
            else:
                coordinates.append(self.index())
        kind = Type(tensor.dtype, view.tile, batch=view.batch)
        return self.emit("read", kind, *coordinates, attr=(view.name, "window" if window else "at"))

    def compare(self) -> str:
        left = self.floats() if self.random.random() < 0.7 else self.integer_tile()
        name = self.random.choice(loops.COMPARISONS)
        right = self.fitting(left, self.mixing(left))
        if right is None or right == left or self.random.random() < 0.3:
            right = self.number_beside(left, [0, 1, -1, 3])
        return self.emit(name, Type(MASK, self.joint(left, right)), left, right)

    def mixing(self, name: str):
        """Whether a type mixes with that of a tile without ``to``."""
        dtype = self.names[name].dtype
        return lambda t: t.dtype not in (None, MASK) and promote(dtype, t.dtype) is not None

    def number_beside(self, name: str, numbers) -> Literal:
        """One of some numbers, which the type of a tile holds."""
        number = self.random.choice(numbers)
        return Literal(abs(number) if math_dtype(self.names[name].dtype).is_unsigned else number)

    def real(self, *args: Arg) -> DType:
        """What floats are computed with in: F64 where one of them is that."""
        return F64 if any(isinstance(arg, str) and self.names[arg].dtype is F64 for arg in args) else F32

    def joint(self, *args: Arg) -> tuple[int, int]:
        shape = broadcast(*(self.names[arg].shape if isinstance(arg, str) else (1, 1) for arg in args))
        assert shape is not None
        return shape

    def constant(self) -> str:
        rows, columns = self.owner.size(), self.owner.size()
        roll, real = self.random.random(), self.owner.real_dtype()
        if roll < 0.2:
            return self.emit("k", Type(real), attr=(self.number(), real))
        if roll < 0.25:
            return self.emit("arg", Type(F32), attr=self.number())
        if roll < 0.45:
            return self.emit("full", Type(real, (rows, columns)), attr=((rows, columns), self.number(), real))
        if roll < 0.55:
            return self.emit("zeros", Type(real, (rows, columns)), attr=((rows, columns), real))
        dtype = self.random.choice([real, I32, I64, U32, U64, *[F64] * 3 * self.owner.doubles])
        if roll < 0.8:
            axis = self.random.randrange(2)
            return self.emit("iota", Type(dtype, (rows, columns)), attr=((rows, columns), axis, dtype))
        index = self.pick(lambda t: t.is_index) or self.index_math()
        return self.emit("value", Type(dtype), index, attr=dtype)

    def draw(self) -> str:
        """Random numbers of counters from an index on."""
        shape = (self.owner.size(), self.owner.size())
        kind = self.random.choice(["bits", "uniform"] if self.owner.ieee else ["bits", "uniform", "normal"])
        seed = self.random.choice([0, 7, -1, 2**40 + 3])
        type_ = Type(U32 if kind == "bits" else F32, shape)
        return self.emit("random", type_, self.index(), attr=(seed, shape, kind))

    def chance(self) -> str:
        """A number rounded by random bits."""
        a = self.floats()
        is_bits = lambda t: t.dtype in (I32, U32) and t.shape in ((1, 1), self.names[a].shape)
        bits = self.pick(is_bits)
        if bits is None:
            shape = self.names[a].shape
            bits = self.emit("random", Type(U32, shape), self.index(), attr=(7, shape, "bits"))
        dtype = self.random.choice([BF16, F16, FP8, E5M2, *[F32] * (self.real(a) is F64)])
        return self.emit("chance", Type(dtype, self.names[a].shape), a, bits, attr=dtype)

    def number(self) -> float:
        return self.random.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 3.25, 1e-3, 0.1, -7.7])

    def unary(self) -> str:
        a = self.floats()
        names, real = IEEE_UNARY if self.owner.ieee else UNARY, self.real(a)
        name = self.random.choice(names)
        if real is F64:
            # One after the other, so that few programs have them all.
            self.owner.turn += 1
            name = names[self.owner.turn % len(names)]
        approx = name in APPROXIMABLE and not self.owner.ieee and self.random.random() < 0.2
        return self.emit(name, Type(real, self.names[a].shape), a, attr=approx or None)

    def binary(self) -> str:
        a = self.floats()
        b = self.fitting(a, lambda t: t.dtype is not None and t.dtype.is_float)
        if b is None or self.random.random() < 0.15:
            b = Literal(self.number())
        args = (a, b) if isinstance(b, Literal) or self.random.random() < 0.5 else (b, a)
        return self.emit(self.random.choice(BINARY), Type(self.real(a, b), self.joint(a, b)), *args)

    def function(self) -> str:
        """What is made of two or three floats, or asks something of one."""
        a = self.floats()
        is_float = lambda t: t.dtype is not None and t.dtype.is_float
        names = "clamp fma copysign floormod rem isnan isinf isfinite".split()
        names = names if self.owner.ieee else [*names, *["pow"] * (1 + 2 * (self.real(a) is F64))]
        name = self.random.choice(names)
        if name.startswith("is"):
            return self.emit(name, Type(MASK, self.names[a].shape), a)
        if name == "clamp":
            ends = self.random.choice([(-1.0, 2.5), (0.0, 1e-3), (-7.7, -0.0)])
            return self.emit(name, Type(self.real(a), self.names[a].shape), a, *map(Literal, ends))
        args = [a]
        for _ in range(1 + (name == "fma")):
            other = self.pick(lambda t: is_float(t) and broadcast(self.joint(*args), t.shape) is not None)
            args.append(Literal(self.number()) if other is None or self.random.random() < 0.3 else other)
        if np.prod(self.joint(*args)) > self.owner.limit:
            args[1:] = [Literal(self.number()) for _ in args[1:]]
        # It is a batch that takes tiles beside itself.
        args.sort(key=lambda arg: not (isinstance(arg, str) and self.names[arg].batch))
        return self.emit(name, Type(self.real(*args), self.joint(*args)), *args)

    def bits(self) -> str:
        """The bits of a number, counted or as another type, or the upper half of a product."""
        # The bits of a NaN are left open, so that programs of which all bits are known have none.
        a = self.random.choice([self.floats] * (not self.owner.ieee) + [self.integer_tile] * 2)()
        dtype, shape = self.names[a].dtype, self.names[a].shape
        roll = self.random.random()
        if dtype.is_float or roll < 0.4:
            cast = [*CAST, *[F64] * self.owner.doubles]
            same = [each for each in cast if each.bits == dtype.bits]
            kind = self.random.choice(same)
            return self.emit("bitcast", Type(kind, shape), a, attr=kind)
        if roll < 0.8 or dtype.bits == 64:
            return self.emit(self.random.choice(["popcount", "clz"]), Type(math_dtype(dtype), shape), a)
        kind = math_dtype(dtype)
        alike = lambda t: t.dtype is not None and math_dtype(t.dtype) is kind
        b = self.fitting(a, alike) or self.number_beside(a, [-1640531527])
        unsigned = kind is U32 or self.random.random() < 0.5
        return self.emit("mulhi", Type(kind, self.joint(a, b)), a, b, attr=unsigned)

    def multiply_add(self) -> str:
        """a * b + c in one of its forms, which fuse."""
        a = self.floats()
        is_float = lambda t: t.dtype is not None and t.dtype.is_float
        b = self.fitting(a, is_float) or Literal(self.number())
        product = self.emit("mul", Type(self.real(a, b), self.joint(a, b)), a, b)
        c = self.fitting(product, is_float) or Literal(self.number())
        name, swap = self.random.choice(["add", "sub"]), self.random.random() < 0.5 and isinstance(c, str)
        args = (c, product) if swap else (product, c)
        return self.emit(name, Type(self.real(*args), self.joint(*args)), *args)

    def integer(self) -> str:
        a = self.integer_tile()
        kind = math_dtype(self.names[a].dtype)
        shape = self.names[a].shape
        roll = self.random.random()
        if roll < 0.15:
            return self.emit(self.random.choice(["neg", "abs", "not_"]), Type(kind, shape), a)
        b = self.fitting(a, self.mixing(a))
        wide = promote(kind, self.names[b].dtype) if isinstance(b, str) else kind
        if roll < 0.3:
            name = self.random.choice(["shl", "shr"])
            if b is None or self.random.random() < 0.7:
                b, wide = Literal(self.random.choice([*range(8), kind.bits - 1])), kind
            return self.emit(name, Type(wide, self.joint(a, b)), a, b)
        if roll < 0.45:
            name = self.random.choice(["floordiv", "floormod", "rem"])
            if b is None or self.random.random() < 0.7:
                b, wide = self.number_beside(a, [1, 2, 3, 7, -1, -2, -5, 16]), kind
            return self.emit(name, Type(wide, self.joint(a, b)), a, b)
        if b is None or self.random.random() < 0.2:
            b, wide = self.number_beside(a, range(-100, 101)), kind
        name = self.random.choice("add sub mul maximum minimum and_ or_ xor".split())
        return self.emit(name, Type(wide, self.joint(a, b)), a, b)

    def logic(self) -> str:
        a = self.masks()
        if self.random.random() < 0.3:
            return self.emit("not_", Type(MASK, self.names[a].shape), a)
        b = self.fitting(a, lambda t: t.dtype is MASK) or a
        return self.emit(self.random.choice(["and_", "or_", "xor"]), Type(MASK, self.joint(a, b)), a, b)

    def select(self) -> str:
        condition = self.masks()
        is_float = self.random.random() < 0.75
        wanted = lambda t: t.dtype not in (None, MASK) and t.dtype.is_float == is_float
        yes = self.fitting(condition, wanted)
        if yes is None:
            return condition
        both = self.joint(condition, yes)
        mixes = self.mixing(yes)
        no = self.pick(lambda t: mixes(t) and broadcast(both, t.shape) == both)
        if no is None or self.random.random() < 0.2:
            no = self.number_beside(yes, [0, 1, -3])
        first = self.names[yes].dtype
        second = self.names[no].dtype if isinstance(no, str) else math_dtype(first)
        dtype = first if first is second else promote(first, second)
        return self.emit("select", Type(dtype, self.joint(condition, yes, no)), condition, yes, no)

    def convert(self) -> str:
        a = self.pick(lambda t: t.dtype is not None) or self.floats()
        kinds = [F32, F16, BF16, FP8, E5M2, F32, I32, I64, I16, I8, U8, U16, U32, U64]
        dtype = self.random.choice([*kinds, *[F64] * 6 * self.owner.doubles])
        return self.emit("to", Type(dtype, self.names[a].shape), a, attr=dtype)

    def reduction(self) -> str:
        a = self.pick(lambda t: t.dtype is not None and t.shape != (1, 1)) or self.floats()
        name, axis = self.random.choice(["sum", "max", "min"]), self.random.choice([0, 1, -1, -2])
        kind = self.names[a]
        if self.owner.ieee and name == "sum" and kind.dtype.is_float:
            name = "max"
        dtype = math_dtype(kind.dtype)
        if kind.dtype is MASK and name == "sum":
            dtype = I32
        shape = (1, kind.shape[1]) if axis in (0, -2) else (kind.shape[0], 1)
        if name != "sum" and self.random.random() < 0.3:
            return self.emit(name, Type(dtype, shape), a, attr=(axis, "propagate"))
        return self.emit(name, Type(dtype, shape), a, attr=axis)

    def transpose(self) -> str:
        a = self.pick(lambda t: t.dtype is not None) or self.floats()
        kind = self.names[a]
        return self.emit("transpose", Type(kind.dtype, kind.shape[::-1]), a)

    def dot(self) -> str:
        bytes_ = self.random.random() < 0.12 or self.owner.ieee
        dtypes = [I8, U8] if bytes_ else self.owner.floats
        left = self.operand(dtypes, None)
        right = self.operand(dtypes, self.names[left].shape[1])
        result = I32 if bytes_ else self.real(left, right)
        shape = (self.names[left].shape[0], self.names[right].shape[1])
        product = self.emit("dot", Type(result, shape), left, right)
        if result is not I32 and self.random.random() < 0.5:
            c = self.fitting(product, lambda t: t.dtype is not None and t.dtype.is_float)
            if c is not None:
                return self.emit("add", Type(self.real(c, product), self.joint(c, product)), c, product)
        return product

    def operand(self, dtypes: list[DType], rows: int | None) -> str:
        """A matrix for a product, its height given for the right one."""
        found = self.pick(
            lambda t: t.dtype in dtypes and (rows is None or t.shape[0] == rows) and t.shape[1] <= 32
        )
        if found and (self.names[found].batch or self.random.random() < 0.6):
            return found
        shape = (rows or self.owner.size(), self.owner.size())
        return self.read(self.random.choice(dtypes), shape)

    def grow(self, steps: int, depth: int = 0) -> None:
        many = self.many
        # What is drawn how often, of which the second part may take batches.
        alone = {
            self.read: 2,
            partial(addressing.read, self): 1.8,
            partial(packed.draw, self): 0.5,
            self.constant: 1.2 + self.owner.doubles,
            self.draw: 0.5,
            self.chance: 0.5,
            self.index_math: 1,
            partial(tells.draw, self): 2 * self.owner.tells,
            partial(batches.draw, self): 6 * (self.owner.batch > 0),
        }
        each = {
            self.binary: 4,
            self.multiply_add: 2,
            self.unary: 5 + 7 * self.owner.doubles,
            self.compare: 1,
            self.select: 2,
            self.convert: 2,
            self.integer: 3,
            self.function: 2,
            self.bits: 2,
            partial(nibbles.choose, self): 0.7,
            self.logic: 1,
            self.reduction: 2,
            partial(along.draw, self): 3.5,
            self.dot: 1.5,
            self.transpose: 1,
            partial(shapes.move, self): 2,
        }
        choices = [*alone, *each]
        weights = [*alone.values(), *each.values()]
        for _ in range(steps):
            if depth < 2 and self.random.random() < 0.09:
                roll = self.random.random()
                if roll < 0.25 and not self.owner.ieee:
                    loops.product_loop(self)
                else:
                    loops.loop(self, depth) if roll < 0.8 else loops.cond(self, depth)
                continue
            (chosen,) = self.random.choices(range(len(choices)), weights)
            self.many = chosen >= len(alone) and self.owner.batch > 0
            choices[chosen]()
            self.many = many
