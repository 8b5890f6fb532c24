"""Writes random operations into a region of a program."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import addressing
import nibbles
import numpy as np
from along import choose
from programs import INDEX, Arg, Block, Literal, Op, Type, ViewSpec
from shapes import move

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    DType,
    math_dtype,
)
from gizml_tile.nodes import broadcast, promote

CAST = [F32, I32, U32, F16, BF16, I16, U16, FP8, E5M2, I8, U8, I64]
FLOATS = [F32, F32, F32, F16, BF16, FP8, E5M2]
INTEGERS = [I32, I32, I8, U8, I16, I64, U32, U16]
IEEE_UNARY = "neg abs sqrt rsqrt reciprocal relu floor ceil trunc round sign".split()
FUNCTIONS = """exp exp2 expm1 log log2 log1p sigmoid tanh silu softplus erf gelu gelu_erf sin cos""".split()
UNARY = IEEE_UNARY + FUNCTIONS
BINARY = "add add sub mul mul div maximum minimum".split()
COMPARISONS = "lt le gt ge eq ne".split()


if TYPE_CHECKING:
    from generate import Generator


class Writer:
    """Grows the operations of one region; regions inside see the names of those around them."""

    def __init__(self, owner: Generator, names: dict[str, Type]):
        self.owner, self.random, self.names = owner, owner.random, names
        self.ops: list[Op] = []

    def emit(self, name: str, type_: Type, *args: Arg, attr: object = None) -> str:
        result = self.owner.fresh("i" if type_.is_index else "m" if type_.dtype is MASK else "t")
        self.ops.append(Op(name, (result,), (type_,), args, attr))
        self.names[result] = type_
        return result

    def pick(self, wanted) -> str | None:
        """A name that fits, later ones rather than earlier ones."""
        found = [name for name, type_ in self.names.items() if wanted(type_)]
        if not found:
            return None
        return found[max(self.random.randrange(len(found)) for _ in range(2))]

    def floats(self) -> str:
        return self.pick(lambda t: t.dtype is not None and t.dtype.is_float) or self.read(
            self.owner.float_dtype()
        )

    def integer_tile(self) -> str:
        found = self.pick(lambda t: t.dtype is not None and t.dtype.is_integer)
        return found or self.read(self.random.choice(INTEGERS))

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

    def by_data(self) -> str:
        return addressing.read(self)

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
        return self.emit(
            "read",
            Type(tensor.dtype, view.tile),
            *coordinates,
            attr=(view.name, "window" if window else "at"),
        )

    def compare(self) -> str:
        left = self.floats() if self.random.random() < 0.7 else self.integer_tile()
        name = self.random.choice(COMPARISONS)
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
        return Literal(abs(number) if math_dtype(self.names[name].dtype) is U32 else number)

    def joint(self, *args: Arg) -> tuple[int, int]:
        shape = broadcast(*(self.names[arg].shape if isinstance(arg, str) else (1, 1) for arg in args))
        assert shape is not None
        return shape

    def constant(self) -> str:
        rows, columns = self.owner.size(), self.owner.size()
        roll = self.random.random()
        if roll < 0.2:
            return self.emit("k", Type(F32), attr=self.number())
        if roll < 0.25:
            return self.emit("arg", Type(F32), attr=self.number())
        if roll < 0.45:
            return self.emit("full", Type(F32, (rows, columns)), attr=((rows, columns), self.number(), F32))
        if roll < 0.55:
            return self.emit("zeros", Type(F32, (rows, columns)), attr=((rows, columns), F32))
        if roll < 0.8:
            dtype = self.random.choice([F32, I32, I64, U32])
            axis = self.random.randrange(2)
            return self.emit("iota", Type(dtype, (rows, columns)), attr=((rows, columns), axis, dtype))
        dtype = self.random.choice([F32, I32, I64, U32])
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
        dtype = self.random.choice([BF16, F16, FP8, E5M2])
        return self.emit("chance", Type(dtype, self.names[a].shape), a, bits, attr=dtype)

    def number(self) -> float:
        return self.random.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 3.25, 1e-3, 0.1, -7.7])

    def unary(self) -> str:
        a = self.floats()
        names = IEEE_UNARY if self.owner.ieee else UNARY
        return self.emit(self.random.choice(names), Type(F32, self.names[a].shape), a)

    def binary(self) -> str:
        a = self.floats()
        b = self.fitting(a, lambda t: t.dtype is not None and t.dtype.is_float)
        if b is None or self.random.random() < 0.15:
            b = Literal(self.number())
        args = (a, b) if isinstance(b, Literal) or self.random.random() < 0.5 else (b, a)
        return self.emit(self.random.choice(BINARY), Type(F32, self.joint(a, b)), *args)

    def function(self) -> str:
        """What is made of two or three floats, or asks something of one."""
        a = self.floats()
        is_float = lambda t: t.dtype is not None and t.dtype.is_float
        names = "clamp fma copysign floormod rem isnan isinf isfinite".split()
        name = self.random.choice(names if self.owner.ieee else [*names, "pow"])
        if name.startswith("is"):
            return self.emit(name, Type(MASK, self.names[a].shape), a)
        if name == "clamp":
            ends = self.random.choice([(-1.0, 2.5), (0.0, 1e-3), (-7.7, -0.0)])
            return self.emit(name, Type(F32, self.names[a].shape), a, *map(Literal, ends))
        args = [a]
        for _ in range(1 + (name == "fma")):
            other = self.pick(lambda t: is_float(t) and broadcast(self.joint(*args), t.shape) is not None)
            args.append(Literal(self.number()) if other is None or self.random.random() < 0.3 else other)
        if np.prod(self.joint(*args)) > self.owner.limit:
            args[1:] = [Literal(self.number()) for _ in args[1:]]
        return self.emit(name, Type(F32, self.joint(*args)), *args)

    def bits(self) -> str:
        """The bits of a number, counted or as another type, or the upper half of a product."""
        a = self.pick(lambda t: t.dtype not in (None, MASK)) or self.integer_tile()
        dtype, shape = self.names[a].dtype, self.names[a].shape
        roll = self.random.random()
        if dtype.is_float or roll < 0.4:
            same = [each for each in CAST if each.bits == dtype.bits]
            kind = self.random.choice(same)
            return self.emit("bitcast", Type(kind, shape), a, attr=kind)
        if roll < 0.8 or dtype is I64:
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
        product = self.emit("mul", Type(F32, self.joint(a, b)), a, b)
        c = self.fitting(product, is_float) or Literal(self.number())
        name, swap = self.random.choice(["add", "sub"]), self.random.random() < 0.5 and isinstance(c, str)
        args = (c, product) if swap else (product, c)
        return self.emit(name, Type(F32, self.joint(*args)), *args)

    def integer(self) -> str:
        a = self.integer_tile()
        kind = math_dtype(self.names[a].dtype)
        shape = self.names[a].shape
        roll = self.random.random()
        if roll < 0.15:
            return self.emit(self.random.choice(["neg", "abs", "not_"]), Type(kind, shape), a)
        if roll < 0.3:
            name = self.random.choice(["shl", "shr"])
            return self.emit(name, Type(kind, shape), a, Literal(self.random.randrange(8)))
        if roll < 0.45:
            name = self.random.choice(["floordiv", "floormod"])
            divisor = self.number_beside(a, [1, 2, 3, 7, -1, -2, -5, 16])
            return self.emit(name, Type(kind, shape), a, divisor)
        b = self.fitting(a, self.mixing(a))
        if b is None or self.random.random() < 0.2:
            b = self.number_beside(a, range(-100, 101))
        wide = I64 if isinstance(b, str) and self.names[b].dtype is I64 else kind
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
        dtype = self.random.choice([F32, F16, BF16, FP8, E5M2, F32, I32, I64, I16, I8, U8, U16, U32])
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
        return self.emit(name, Type(dtype, shape), a, attr=axis)

    def along_an_axis(self) -> str:
        a = self.pick(lambda t: t.dtype is not None and t.shape != (1, 1)) or self.floats()
        name, kind, attr = choose(self.random, self.names[a], ieee=self.owner.ieee)
        return self.emit(name, kind, a, attr=attr)

    def transpose(self) -> str:
        a = self.pick(lambda t: t.dtype is not None) or self.floats()
        kind = self.names[a]
        return self.emit("transpose", Type(kind.dtype, kind.shape[::-1]), a)

    def dot(self) -> str:
        if self.random.random() < 0.12 or self.owner.ieee:
            dtypes, result = [I8, U8], I32
        else:
            dtypes, result = FLOATS, F32
        left = self.operand(dtypes, None)
        right = self.operand(dtypes, self.names[left].shape[1])
        shape = (self.names[left].shape[0], self.names[right].shape[1])
        product = self.emit("dot", Type(result, shape), left, right)
        if result is F32 and self.random.random() < 0.5:
            c = self.fitting(product, lambda t: t.dtype is not None and t.dtype.is_float)
            if c is not None:
                return self.emit("add", Type(F32, self.joint(c, product)), c, product)
        return product

    def operand(self, dtypes: list[DType], rows: int | None) -> str:
        """A matrix for a product, its height given for the right one."""
        found = self.pick(
            lambda t: t.dtype in dtypes and (rows is None or t.shape[0] == rows) and t.shape[1] <= 32
        )
        if found and self.random.random() < 0.6:
            return found
        shape = (rows or self.owner.size(), self.owner.size())
        return self.read(self.random.choice(dtypes), shape)

    def loop(self, depth: int) -> None:
        inits = [
            self.pick(lambda t: t.dtype is not None) or self.floats()
            for _ in range(self.random.randrange(1, 4))
        ]
        if self.random.random() < 0.3:
            inits.append(self.pick(lambda t: t.is_index) or self.emit("id", INDEX, attr=0))
        inits = list(dict.fromkeys(inits))
        kinds = tuple(Type(t.dtype, t.shape) for t in (self.names[name] for name in inits))
        start, stop, step = self.random.choice(
            [(0, 3, 1), (0, 1, 1), (2, 2, 1), (0, 4, 2), (3, 0, -1), (5, -1, -2), (-1, 2, 1), (0, 7, 3)]
        )
        bound: Arg = Literal(stop)
        if step == 1 and self.random.random() < 0.4:
            limit = self.index()
            if isinstance(limit, str):
                bound = self.emit("minimum", INDEX, limit, Literal(3))
                start = max(start, 0)
        k = self.owner.fresh("k")
        params = [self.owner.fresh("c") for _ in inits]
        inside = Writer(self.owner, dict(self.names))
        inside.names[k] = INDEX
        inside.names.update(zip(params, kinds, strict=True))
        inside.grow(self.random.randrange(1, 6), depth + 1)
        inside.maybe_put()
        body = inside.close((k, *params), kinds, params)
        results = tuple(self.owner.fresh("r") for _ in inits)
        args: tuple[Arg, ...] = (Literal(start), bound, *inits)
        name = "fold" if len(inits) == 1 and self.random.random() < 0.5 else "loop"
        if self.random.random() < 0.25:
            # It ends before the first turn whose square is above an index.
            name, args = "ending", (Literal(start), bound, self.index(), *inits)
        self.ops.append(Op(name, results, kinds, args, step, (body,)))
        self.names.update(zip(results, kinds, strict=True))

    def maybe_put(self) -> None:
        """A store inside a loop or a branch, and perhaps what comes after it."""
        if self.random.random() < 0.2:
            self.owner.put(self, self.pick(lambda t: t.dtype is not None) or self.floats())
            self.grow(self.random.randrange(0, 3), 2)

    def product_loop(self) -> None:
        """A matrix product block by block, as kernels write it, with operands read or computed."""
        sizes = self.random.choice([[1, 2, 4, 8, 16, 16, 32, 64]] * 4 + [[3, 16, 24, 48, 80], [64, 128]])
        rows, depth, columns = (self.random.choice(sizes) for _ in range(3))
        dtypes = (
            [self.owner.float_dtype()] * 2 if self.random.random() < 0.6 else [F32, self.owner.float_dtype()]
        )
        turned = [self.random.random() < 0.25 for _ in range(2)]
        shapes = [(rows, depth), (depth, columns)]
        views = [
            self.owner.input(dtype, shape[::-1] if turn else shape, fresh=True)
            for dtype, shape, turn in zip(dtypes, shapes, turned, strict=True)
        ]
        init = self.emit("zeros", Type(F32, (rows, columns)), attr=((rows, columns), F32))
        if self.random.random() < 0.3:
            init = self.emit("full", Type(F32, (rows, columns)), attr=((rows, columns), self.number(), F32))
        k, acc, result = self.owner.fresh("k"), self.owner.fresh("c"), self.owner.fresh("r")
        inside = Writer(self.owner, dict(self.names) | {k: INDEX, acc: Type(F32, (rows, columns))})
        operands = []
        for view, turn, along in zip(views, turned, (1, 0), strict=True):
            operands.append(inside.product_operand(view, k, along, turn))
        product = inside.emit("dot", Type(F32, (rows, columns)), *operands)
        if self.random.random() < 0.2:
            product = inside.emit("mul", Type(F32, (rows, columns)), product, Literal(self.number()))
        args = (acc, product) if self.random.random() < 0.8 else (product, acc)
        total = inside.emit("add", Type(F32, (rows, columns)), *args)
        stop: Arg = Literal(self.random.choice([0, 1, 2, 3, 5]))
        tensor = self.owner.tensor(views[0].tensor)
        axis = len(tensor.axes) - (2 if turned[0] else 1)
        if self.random.random() < 0.7 and len(views[0].block) == 2:
            stop = self.emit("blocks", INDEX, attr=(views[0].name, axis))
            stop = self.emit("minimum", INDEX, stop, Literal(6))
        body = Block((k, acc), tuple(inside.ops), (total,))
        kind = Type(F32, (rows, columns))
        self.ops.append(Op("fold", (result,), (kind,), (Literal(0), stop, init), 1, (body,)))
        self.names[result] = kind

    def product_operand(self, view: ViewSpec, k: str, along: int, turned: bool) -> str:
        """One operand of a product's turn: its block at k, perhaps computed with, perhaps turned."""
        rank = len(self.owner.tensor(view.tensor).axes)
        coordinates: list[Arg] = [
            self.index() if self.random.random() < 0.3 else Literal(0) for _ in range(rank)
        ]
        place = rank - 2 + (1 - along if turned else along)
        coordinates[place if len(view.block) == 2 else rank - 1] = k
        dtype = self.owner.tensor(view.tensor).dtype
        found = self.emit("read", Type(dtype, view.tile), *coordinates, attr=(view.name, "at"))
        if self.random.random() < 0.25:
            name = self.random.choice(["neg", "relu", "abs"] + ["exp", "tanh"] * (not self.owner.ieee))
            found = self.emit(name, Type(F32, view.tile), found)
            if self.random.random() < 0.4:
                found = self.emit("to", Type(BF16, view.tile), found, attr=BF16)
        if turned:
            found = self.emit("transpose", Type(self.names[found].dtype, view.tile[::-1]), found)
        return found

    def close(self, params: tuple[str, ...], kinds: tuple[Type, ...], fallback: list[str]) -> Block:
        """The region, giving the latest value of each type that has one."""
        gives = []
        for kind, default in zip(kinds, fallback, strict=True):
            found = self.pick(
                lambda t, kind=kind: (
                    (t.dtype, t.shape) == (kind.dtype, kind.shape) and t.is_index == kind.is_index
                )
            )
            gives.append(found or default)
        return Block(params, tuple(self.ops), tuple(gives))

    def cond(self, depth: int) -> None:
        left = self.pick(lambda t: t.is_index) or self.emit("id", INDEX, attr=0)
        condition = self.emit(self.random.choice(COMPARISONS), Type(MASK, (1, 1), True), left, self.index())
        defaults = [
            self.pick(lambda t: not t.uniform) or self.floats() for _ in range(self.random.randrange(1, 3))
        ]
        kinds = tuple(self.names[name] for name in defaults)
        arms = []
        for _ in range(2):
            inside = Writer(self.owner, dict(self.names))
            inside.grow(self.random.randrange(1, 4), depth + 1)
            inside.maybe_put()
            arms.append(inside.close((), kinds, defaults))
        results = tuple(self.owner.fresh("r") for _ in defaults)
        self.ops.append(Op("cond", results, kinds, (condition,), None, tuple(arms)))
        self.names.update(zip(results, kinds, strict=True))

    def grow(self, steps: int, depth: int = 0) -> None:
        choices = {
            self.read: 2,
            self.by_data: 2.5,
            self.binary: 4,
            self.multiply_add: 2,
            self.unary: 4,
            self.compare: 1,
            self.select: 2,
            self.convert: 2,
            self.integer: 2,
            self.function: 2,
            self.bits: 1.5,
            partial(nibbles.choose, self): 0.7,
            self.logic: 1,
            self.reduction: 2,
            self.along_an_axis: 2,
            self.dot: 1.5,
            self.transpose: 1,
            partial(move, self): 2,
            self.constant: 1.5,
            self.draw: 0.5,
            self.chance: 0.5,
            self.index_math: 1,
        }
        for _ in range(steps):
            if depth < 2 and self.random.random() < 0.1:
                roll = self.random.random()
                if roll < 0.25 and not self.owner.ieee:
                    self.product_loop()
                else:
                    self.loop(depth) if roll < 0.75 else self.cond(depth)
                continue
            self.random.choices(list(choices), list(choices.values()))[0]()
