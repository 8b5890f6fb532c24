"""Write a random program of matrix products, as a GPU's plans have the most choices for."""

from __future__ import annotations

import dataclasses
import random

import loops_and_branches as loops
import packed
from generate import Generator
from programs import INDEX, Arg, Axis, Block, Literal, Op, Program, TensorSpec, Type, ViewSpec
from writer import Writer

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, I32, MASK, U8, DType

FLOATS = [F32, F32, F16, F16, BF16, BF16, BF16, FP8, E5M2]
ROWS = [1, 8, 16, 16, 32, 64, 64, 128]
DEPTHS = [4, 8, 16, 16, 32, 32, 64]
TURNS = [(0, 1)] * 6 + [(0, 2), (1, 1), (3, -1)]


class ProductGenerator(Generator):
    """Programs of one or two loops of products, with what comes before, after and beside the operands."""

    period, with_doubles = 20, (2, 9, 11)

    def __init__(self, seed: int, doubles: bool | None = None):
        super().__init__(seed, doubles)
        self.random = random.Random(seed ^ 1 << 40)
        self.ieee, self.batch, self.tells, self.exact = False, 0, False, False
        self.approx = False
        self.wild = self.random.random() < 0.1
        self.sizes = [1, 16, 32, 64]
        self.limit = 8192
        self.grid = self.random.choice([(1,), (2,), (2, 1), (1, 2), (2, 2), (1, 1, 2)])
        self.warps = self.random.choice([0, 0, 0, 1, 2, 4, 4, 8, 16])
        self.stages = self.random.choice([0, 0, 0, 1, 2, 3])
        # Large blocks of whole rows of 16-bit floats, as the copy engine of a GPU moves them.
        self.plain = self.random.random() < 0.3 and not self.doubles
        self.rows, self.columns, self.depths, self.dtypes = ROWS, ROWS, DEPTHS, FLOATS
        if self.doubles:
            self.rows, self.columns, self.depths = ROWS[:-1], ROWS[:-1], DEPTHS[:-1]
            self.dtypes = [F64, F64, F64, F32, BF16]
        if self.plain:
            self.rows, self.columns = [self.random.choice([64, 128])], [16, 32, 64, 128]
            self.depths, self.dtypes = [32, 64, 64, 128], [self.random.choice([F16, BF16])]
            self.warps = self.random.choice([0, 0, 0, self.rows[0] // 16])

    def program(self) -> Program:
        writer = Writer(self, {})
        for _ in range(self.random.choice([1, 1, 1, 2])):
            others = [] if self.plain else [self.attention, self.integers]
            results = self.random.choice([self.chain] * 3 + others)(writer)
            writer.grow(self.random.choice([0, 0, 1, 3]))
            for name in results:
                self.put(writer, name)
        name = writer.pick(lambda t: t.dtype is not None)
        assert name is not None
        self.put(writer, name)
        return self.finished(Block((), tuple(writer.ops), ()))

    def pad(self, dtype: DType) -> float | int | bool:
        """Seldom an infinity, of which products make values that nothing is known about."""
        if self.plain:
            return 0
        pad = super().pad(dtype)
        return pad if self.random.random() < 0.1 or abs(pad) < 256 else 2

    def new_tensor(self, name: str, dtype: DType, block: tuple[int, ...], output: bool) -> TensorSpec:
        made = super().new_tensor(name, dtype, block, output)
        if not self.plain:
            return made
        sizes = [axis.size for axis in made.axes]
        if self.random.random() < 0.95:
            sizes[-1] = max(8, (sizes[-1] + 7) // 8 * 8)
        axes = tuple(Axis(size) for size in sizes)
        return dataclasses.replace(made, axes=axes, order=tuple(range(len(axes))))

    # Loops of products

    def chain(self, writer: Writer) -> list[str]:
        """Up to three products a turn, which may share an operand, and sums and maxima of the operands."""
        rows, depth = self.random.choice(self.rows), self.random.choice(self.depths)
        loop = Turn(self, writer)
        count = self.random.choice([1, 1, 1, 2, 3])
        left = None
        for _ in range(count):
            columns = self.random.choice([each for each in self.columns if count == 1 or each < 128])
            if left is None or self.random.random() < 0.5:
                left = loop.operand((rows, depth), 1)
            if self.random.random() < (0.05 if self.plain else 0.3):
                loop.carry_reduction(left)
            right = loop.operand((depth, columns), 0)
            if self.random.random() < (0.05 if self.plain else 0.2):
                loop.carry_reduction(right)
            loop.accumulate(loop.dot(left, right))
            if self.random.random() < 0.15:
                loop.inside.grow(self.random.randrange(1, 4), depth=1)
        return loop.close()

    def integers(self, writer: Writer) -> list[str]:
        """Products of bytes."""
        loop = Turn(self, writer)
        rows, depth, columns = (self.random.choice(sizes) for sizes in (ROWS, DEPTHS, ROWS))
        left = loop.block(self.random.choice([I8, U8]), (rows, depth), 1)
        right = loop.block(self.random.choice([I8, U8]), (depth, columns), 0)
        loop.accumulate(loop.dot(left, right, I32))
        return loop.close()

    def attention(self, writer: Writer) -> list[str]:
        """Softmax of products times blocks, online: two products a turn with reductions between."""
        rows, width, depth = (self.random.choice([16, 32, 64]) for _ in range(3))
        dtype = self.random.choice(self.dtypes)
        queries = writer.read(dtype, (rows, depth))
        if self.random.random() < 0.7:
            queries = writer.emit("mul", Type(writer.real(queries), (rows, depth)), queries, Literal(0.25))
            if self.random.random() < 0.5:
                queries = writer.emit("to", Type(BF16, (rows, depth)), queries, attr=BF16)
        loop = Turn(self, writer)
        inside = loop.inside
        keys = loop.block(dtype, (width, depth), 0)
        keys = inside.emit("transpose", Type(dtype, (depth, width)), keys)
        scores = loop.dot(queries, keys)
        if self.random.random() < 0.5:
            column = inside.emit("iota", Type(I32, (1, width)), attr=((1, width), 1, I32))
            seen = inside.emit(
                "lt", Type(MASK, (1, width)), column, Literal(self.random.choice([3, 11, width]))
            )
            scores = inside.emit("select", inside.names[scores], seen, scores, Literal(-30.0))
        # Of scores in F32 too F64 is carried where the program has it.
        real = F64 if self.doubles else F32
        top = loop.carried("full", ((rows, 1), -30.0, real), (rows, 1), real)
        total = loop.carried("zeros", ((rows, 1), real), (rows, 1), real)
        acc = loop.carried("zeros", ((rows, depth), real), (rows, depth), real)
        column_kind, score_kind, kind = (
            Type(real, shape) for shape in ((rows, 1), (rows, width), (rows, depth))
        )
        highest = inside.emit("max", Type(inside.real(scores), (rows, 1)), scores, attr=1)
        higher = inside.emit("maximum", column_kind, top, highest)
        weights = inside.emit("sub", score_kind, scores, higher)
        weights = inside.emit("exp", score_kind, weights)
        shrink = inside.emit("exp", column_kind, inside.emit("sub", column_kind, top, higher))
        scaled = inside.emit("mul", column_kind, total, shrink)
        sums = inside.emit("sum", column_kind, weights, attr=1)
        loop.give(top, higher)
        loop.give(total, inside.emit("add", column_kind, scaled, sums))
        if self.random.random() < 0.6:
            narrow = self.random.choice([BF16, F16])
            weights = inside.emit("to", Type(narrow, (rows, width)), weights, attr=narrow)
        values = loop.block(dtype, (width, depth), 0)
        product = loop.dot(weights, values)
        scaled = inside.emit("mul", kind, acc, shrink)
        loop.give(acc, inside.emit("add", kind, scaled, product))
        _, total, acc = loop.close()
        return [writer.emit("div", kind, acc, total)]


class Turn:
    """The body of a loop while it is written: operands by the turn, and what is carried."""

    def __init__(self, owner: ProductGenerator, outside: Writer) -> None:
        self.owner, self.random, self.outside = owner, owner.random, outside
        self.k = owner.fresh("k")
        self.before: list[
            str
        ] = []  # names of the carried values before the loop, in it, and for the next turn
        self.params: list[str] = []
        self.gives: dict[str, str] = {}
        self.inside = Writer(owner, dict(outside.names) | {self.k: INDEX})
        self.blocks: list[tuple[ViewSpec, int]] = []

    def carried(self, op: str, attr: object, shape: tuple[int, int], dtype: DType = F32) -> str:
        """A value that goes from turn to turn, with how it begins."""
        self.before.append(self.outside.emit(op, Type(dtype, shape), attr=attr))
        self.params.append(self.owner.fresh("c"))
        self.inside.names[self.params[-1]] = Type(dtype, shape)
        return self.params[-1]

    def give(self, param: str, value: str) -> None:
        """What a carried value is in the next turn."""
        self.gives[param] = value

    def block(self, dtype: DType, shape: tuple[int, int], along: int) -> str:
        """A block that goes on along an axis turn by turn, the tensor's own or another's transposed."""
        turned = self.random.random() < 0.3
        stored = shape[::-1] if turned else shape
        view = self.owner.input(dtype, stored, fresh=True)
        axes = self.owner.tensor(view.tensor).axes
        coordinates: list[Arg] = [Literal(self.random.choice([0, 0, 0, 1])) for _ in axes]
        if self.random.random() < 0.5:
            program = self.outside.emit("id", INDEX, attr=0)
            self.inside.names[program] = INDEX
            coordinates[-1 if along == 0 else -len(view.block)] = program
        axis = 1 - along if turned else along
        place = len(axes) - 2 + axis if len(view.block) == 2 else len(axes) - 1
        coordinates[place] = self.k
        self.blocks.append((view, place))
        found = self.inside.emit("read", Type(dtype, view.tile), *coordinates, attr=(view.name, "at"))
        if turned:
            found = self.inside.emit("transpose", Type(dtype, shape), found)
        return found

    def operand(self, shape: tuple[int, int], along: int) -> str:
        """A block for a product, often as it is, sometimes computed with."""
        roll = self.random.random()
        if roll < (0.02 if self.owner.plain else 0.1):
            return self.outside_operand(shape)
        found = self.block(self.random.choice(self.owner.dtypes), shape, along)
        if roll < (0.9 if self.owner.plain else 0.6):
            return found
        inside = self.inside
        for _ in range(self.random.choice([1, 1, 2])):
            choice = self.random.choice("scale row column blocks unary to select turn".split())
            found = self.computed(choice, found, shape, along)
        return inside.emit("to", Type(BF16, shape), found, attr=BF16) if roll < 0.75 else found

    def computed(self, choice: str, found: str, shape: tuple[int, int], along: int) -> str:
        inside, kind = self.inside, Type(self.inside.real(found), shape)
        match choice:
            case "scale":
                return inside.emit("mul", kind, found, Literal(self.owner.random.choice([0.5, 0.1, -3.0])))
            case "row" | "column":
                beside = (1, shape[1]) if choice == "row" else (shape[0], 1)
                other = self.outside.read(self.random.choice(self.owner.dtypes), beside)
                inside.names[other] = self.outside.names[other]
                kind = Type(inside.real(found, other), shape)
                return inside.emit(self.random.choice(["mul", "add"]), kind, found, other)
            case "blocks":
                return packed.scaled(inside, found, along)
            case "unary":
                return inside.emit(self.random.choice(["neg", "relu", "abs", "tanh"]), kind, found)
            case "to":
                narrow = self.random.choice([F16, BF16, FP8, E5M2, F32])
                return inside.emit("to", Type(narrow, shape), found, attr=narrow)
            case "select":
                mask = inside.emit("lt", Type(MASK, shape), found, Literal(0.5))
                return inside.emit("select", kind, mask, found, Literal(0.0))
            case _:
                there = Type(inside.names[found].dtype, shape[::-1])
                found = inside.emit("transpose", there, found)
                found = inside.emit("abs", Type(kind.dtype, shape[::-1]), found)
                return inside.emit("transpose", kind, found)

    def outside_operand(self, shape: tuple[int, int]) -> str:
        """An operand that is the same in every turn."""
        found = self.outside.read(self.random.choice(self.owner.dtypes), shape)
        self.inside.names[found] = self.outside.names[found]
        return found

    def dot(self, left: str, right: str, dtype: DType | None = None) -> str:
        shape = (self.inside.names[left].shape[0], self.inside.names[right].shape[1])
        dtype = dtype or self.inside.real(left, right)
        loose = dtype is F32 and self.random.random() < 0.2
        return self.inside.emit("dot", Type(dtype, shape), left, right, attr="tf32" if loose else None)

    def accumulate(self, product: str) -> None:
        """Carry a sum of products, or sometimes something else of them."""
        kind = self.inside.names[product]
        assert kind.dtype is not None
        acc = self.carried("zeros", (kind.shape, kind.dtype), kind.shape, kind.dtype)
        if self.random.random() < 0.1:
            product = self.inside.emit("neg", kind, product)
        args = (acc, product) if self.random.random() < 0.8 else (product, acc)
        operation = "add" if self.random.random() < 0.9 else "maximum"
        self.give(acc, self.inside.emit(operation, kind, *args))
        if self.random.random() < 0.1:
            self.carry_reduction(product)

    def carry_reduction(self, name: str) -> None:
        """Carry the sum or the largest of a tile's rows or columns."""
        kind = self.inside.names[name]
        if kind.dtype is None or not kind.dtype.is_float:
            return
        axis = self.random.randrange(2)
        shape = (1, kind.shape[1]) if axis == 0 else (kind.shape[0], 1)
        op, join = self.random.choice([("sum", "add"), ("max", "maximum")])
        real = self.inside.real(name)
        carried = self.carried("zeros", (shape, real), shape, real)
        found = self.inside.emit(op, Type(real, shape), name, attr=axis)
        self.give(carried, self.inside.emit(join, Type(real, shape), carried, found))

    def close(self) -> list[str]:
        """End the loop; the names of what was carried, after it."""
        if self.random.random() < 0.15:
            loops.cond(self.inside, 1)
        kinds = tuple(self.inside.names[name] for name in self.params)
        start, step = self.random.choice(TURNS)
        stop: Arg = Literal(-1 if step < 0 else self.random.choice([1, 2, 3, 5]))
        if step > 0 and self.blocks and self.random.random() < 0.7:
            view, axis = self.random.choice(self.blocks)
            stop = self.outside.emit("blocks", INDEX, attr=(view.name, axis))
        body = Block(
            (self.k, *self.params), tuple(self.inside.ops), tuple(self.gives[name] for name in self.params)
        )
        results = tuple(self.owner.fresh("r") for _ in self.params)
        args = (Literal(start), stop, *self.before)
        self.outside.ops.append(Op("loop", results, kinds, args, step, (body,)))
        self.outside.names.update(zip(results, kinds, strict=True))
        return list(results)


def generate_products(seed: int, *, doubles: bool | None = None) -> Program:
    """The random program of products of a seed, which says too whether it has F64 unless ``doubles`` does."""
    return ProductGenerator(seed, doubles).program()
