"""Write a random program from a seed."""

from __future__ import annotations

import dataclasses
import random

import addressing
import asked
import loops_and_branches as loops
from programs import (
    INDEX,
    Arg,
    Axis,
    Block,
    Literal,
    Op,
    Program,
    TensorSpec,
    ViewSpec,
    prune,
)
from writer import FLOATS, INTEGERS, Writer

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I64,
    MASK,
    U64,
    DType,
    integer_range,
)


class Generator:
    """What the regions of one program share: tensors, views and fresh names."""

    # Of so many programs one after the other those that have floats of 64 bits.
    period, with_doubles = 10, (3, 6, 9)

    def __init__(self, seed: int, doubles: bool | None = None):
        self.seed, self.random = seed, random.Random(seed)
        self.counter = 0
        self.tensors: list[TensorSpec] = []
        self.views: list[ViewSpec] = []
        # In some programs sizes that are no powers of two.
        drawn = [1, 2, 4, 8, 16, 32] if self.random.random() < 0.7 else [1, 3, 5, 6, 8, 12, 24, 80, 96]
        self.sizes = [1] + [self.random.choice(drawn) for _ in range(3)]
        self.limit = 2048
        # What is read of integers, few types so that they meet, one of them in turn; what something has used.
        self.integer_types = [INTEGERS[seed % len(INTEGERS)], self.random.choice(INTEGERS)]
        self.used: set[str] = set()
        self.wild = self.random.random() < 0.3
        # In a few programs batches of so many tiles, in some what is told where a launch is debugged.
        self.batch = self.random.choice([0] * 7 + [2, 2, 3])
        self.tells = self.random.random() < 0.15
        self.ieee = seed % 4 == 0
        place = seed % self.period
        self.doubles = place in self.with_doubles if doubles is None else doubles
        self.floats = [*FLOATS, *[F64] * len(FLOATS)] if self.doubles else FLOATS
        # The number among programs of its kind, and of what F64 has drawn in turn.
        self.number = seed
        if self.doubles:
            before = sum(each < place for each in self.with_doubles)
            self.number = seed // self.period * len(self.with_doubles) + before
        self.turn = 7 * self.number
        # In some programs sums of floats are exact: they read nothing that they write. Where they are summed.
        self.exact = seed % 9 == 4
        # In some loops are left in the arms of branches.
        self.branches = seed % 8 == 5
        # In some a GPU may use functions of its own.
        self.approx = not self.ieee and seed % 11 == 5
        self.summed: list[ViewSpec] = []
        grid = [self.random.choice([1, 1, 2, 3]) for _ in range(self.random.randrange(1, 4))]
        grid = [1] * len(grid) if self.random.random() < 0.25 else grid
        self.grid = tuple(grid) if self.random.random() > 0.01 else (0, *grid[1:])
        # Drawn apart, so that what runs on the CPU does not depend on it.
        self.warps = random.Random(-1 - seed).choice([0, 0, 0, 1, 2, 4, 8])
        self.stages = 0

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def size(self) -> int:
        return self.random.choice(self.sizes)

    def real_dtype(self) -> DType:
        """What constants are made of."""
        return self.random.choice([F32, F64, F64]) if self.doubles else F32

    def float_dtype(self) -> DType:
        return self.random.choice(self.floats)

    def tensor(self, name: str) -> TensorSpec:
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def input(
        self, dtype: DType | None, shape: tuple[int, int] | None, fresh: bool = False, batch: int = 0
    ) -> ViewSpec:
        """A view that reads; often one that is there already, where it need not be a fresh one."""
        fits = [
            view
            for view in self.views
            if not view.write
            and dtype in (None, self.tensor(view.tensor).dtype)
            and shape in (None, view.tile)
            and view.batch == batch
        ]
        if fits and not fresh and self.random.random() < 0.4:
            return self.random.choice(fits)
        if dtype is None:
            dtype = self.random.choice([*self.floats, *self.floats, *4 * self.integer_types, MASK])
        rows, columns = shape or (self.size(), self.size())
        block = self.block(rows, columns, batch)
        name = self.fresh("a")
        self.tensors.append(self.new_tensor(name, dtype, block, output=False))
        pad: float | int | bool | None = None
        if self.random.random() < 0.3:
            pad = self.pad(dtype)
        view = ViewSpec(self.fresh("A"), name, block, pad)
        self.views.append(view)
        return view

    def block(self, rows: int, columns: int, batch: int) -> tuple[int, ...]:
        """The sizes of a block of a shape."""
        if batch:
            return (batch, rows, columns)
        return (columns,) if rows == 1 and self.random.random() < 0.5 else (rows, columns)

    def pad(self, dtype: DType) -> float | int | bool:
        if dtype is MASK:
            return True
        if dtype.is_integer:
            return self.random.choice([1, 7, integer_range(dtype)[1], integer_range(dtype)[0]])
        values = [1.0, -2.5, 0.1]
        return self.random.choice(values if dtype is FP8 else [*values, float("-inf"), float("inf")])

    def new_tensor(self, name: str, dtype: DType, block: tuple[int, ...], output: bool) -> TensorSpec:
        rank = len(block) + self.random.choice([0, 0, 0, 1, 2])
        rank = min(rank, 4)
        axes = []
        for number in range(rank):
            blocked = number - (rank - len(block))
            if blocked >= 0:
                n = block[blocked] * self.random.choice([1, 1, 2, 3])
                n = max(0, n + self.random.choice([0, 0, 0, -1, 1, 2, -3, 5]))
            else:
                n = self.random.choice([1, 2, 3])
            n = self.random.choice([n] * 30 + [0, 1])
            step = self.random.choice([1] * 6 + [2, -1, -2, 3])
            if not output and self.random.random() < 0.05:
                step = 0
            axes.append(Axis(n, step, self.random.choice([0, 0, 0, 1, 2]), self.random.choice([0, 0, 1])))
        order = list(range(rank))
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        wild = self.wild and not output
        return TensorSpec(name, dtype, tuple(axes), tuple(order), self.random.randrange(2**30), wild)

    def put(self, writer: Writer, name: str) -> None:
        """Store a value so that no two programs store to one element."""
        self.used.add(name)
        kind = writer.names[name]
        if max(self.grid) == 1 and self.random.random() < 0.4 and self.put_again(writer, name):
            return
        if self.summed and addressing.is_single(kind) and self.random.random() < 0.3:
            with addressing.hidden(writer):
                view = self.random.choice(self.summed)
                writer.ops.append(addressing.accumulate(self, writer, name, view))
            return
        rows, columns = kind.shape
        if self.random.random() < 0.15 and rows == 1:
            rows = self.size()
        block = self.block(rows, columns, kind.batch)
        view = self.output(self.output_dtype(kind.dtype), block)
        tensor = self.tensor(view.tensor)
        window = self.random.random() < 0.3
        coordinates = self.distinct(writer, len(tensor.axes))
        for place, size in zip(range(-len(block), 0), block, strict=True):
            if window and isinstance(coordinates[place], str):
                scaled = writer.emit("mul", INDEX, coordinates[place], Literal(size))
                shift = Literal(self.random.choice([0, 1, -1, 3, -2]))
                coordinates[place] = writer.emit("add", INDEX, scaled, shift)
            elif window:
                coordinates[place] = Literal(self.random.randrange(-3, 5))
        mode = "window" if window else "at"
        if self.random.random() < 0.2 and not window and not kind.batch:
            with addressing.hidden(writer):
                writer.ops.append(addressing.scatter(self, writer, name, view, coordinates))
        elif addressing.accumulates(self, tensor.dtype, kind) and not kind.batch:
            with addressing.hidden(writer):
                writer.ops.append(addressing.accumulate(self, writer, name, view))
        else:
            self.store(writer, name, coordinates, view, mode)
        if max(self.grid) == 1 and not self.exact and self.random.random() < 0.6:
            # One program alone may read back what it stored, and go on; also through another array.
            name = tensor.name
            if self.random.random() < 0.4:
                name = self.fresh("a")
                self.tensors.append(dataclasses.replace(tensor, name=name, alias=tensor.name))
            back = ViewSpec(self.fresh("A"), name, block)
            self.views.append(back)
            before = writer.read_from(back)
            if self.random.random() < 0.5 and self.put_again(writer, name=before):
                writer.read_from(back)

    def output(self, dtype: DType, block: tuple[int, ...]) -> ViewSpec:
        """A new tensor that is written in blocks."""
        tensor = self.new_tensor(self.fresh("o"), dtype, block, output=True)
        self.tensors.append(tensor)
        view = ViewSpec(self.fresh("O"), tensor.name, block, write=True)
        self.views.append(view)
        return view

    def put_again(self, writer: Writer, name: str) -> bool:
        """Store to an output that is there already, anywhere: one program alone may."""
        kind = writer.names[name]
        for view in self.views:
            tensor = self.tensor(view.tensor)
            if (
                view.write
                and view not in self.summed
                and (view.tile, view.batch) == (kind.shape, kind.batch)
                and tensor.dtype == self.same_kind(kind.dtype, tensor.dtype)
            ):
                coordinates = [writer.index() for _ in tensor.axes]
                self.store(writer, name, coordinates, view, self.random.choice(["at", "window"]))
                return True
        return False

    def store(self, writer: Writer, name: str, coordinates: list[Arg], view: ViewSpec, mode: str) -> None:
        """A block that is stored, or what a mask chooses of it."""
        masks = [addressing.mask(writer, view.tile)] if self.random.random() < 0.2 else []
        writer.ops.append(Op("put", (), (), (name, *coordinates, *masks), (view.name, mode, bool(masks))))

    def same_kind(self, dtype: DType, stored: DType) -> DType | None:
        """``stored`` where a value of ``dtype`` may be stored to it."""
        if dtype is MASK or stored is MASK:
            return stored if dtype is stored else None
        if dtype.is_float or stored.is_float:
            return stored if dtype.is_float and stored.is_float else None
        wide = U64 if dtype.is_unsigned else I64
        return stored if stored is wide or stored is dtype else None

    def distinct(self, writer: Writer, rank: int) -> list[Arg]:
        """Coordinates that differ between any two programs of the grid."""
        coordinates: list[Arg] = [Literal(self.random.choice([0, 0, 0, 1, -1])) for _ in range(rank)]
        for axis in (axis for axis, size in enumerate(self.grid) if size > 1):
            place = self.random.randrange(rank)
            taken = coordinates[place]
            identity = writer.emit("id", INDEX, attr=axis)
            if isinstance(taken, str):
                scaled = writer.emit("mul", INDEX, taken, writer.emit("count", INDEX, attr=axis))
                coordinates[place] = writer.emit("add", INDEX, scaled, identity)
            else:
                coordinates[place] = identity
        return coordinates

    def output_dtype(self, dtype: DType) -> DType:
        if dtype is MASK:
            return MASK
        if dtype.is_float:
            wide = [F64] * 4 if dtype is F64 else []
            return self.random.choice([F32, F32, F32, F16, BF16, FP8, E5M2, *wide])
        return self.random.choice([dtype, U64 if dtype.is_unsigned else I64])

    def program(self) -> Program:
        writer = Writer(self, {})
        writer.may_return = self.random.random() < 0.3
        for _ in range(self.random.randrange(1, 4)):
            writer.read()
        writer.grow(self.random.randrange(2, 9))
        asked.draw(writer)
        for _ in range(self.random.choice([1, 1, 2])):
            name = writer.pick(lambda t: t.dtype is not None and t.shape != (1, 1)) or writer.floats()
            self.put(writer, name)
            if writer.may_return and self.random.random() < 0.4:
                writer.ops.append(Op("return", (), (), (loops.comparison(writer),)))
            writer.grow(self.random.randrange(0, 3))
        self.put(writer, writer.pick(lambda t: t.dtype is not None) or writer.floats())
        for _ in range(2):
            # What nothing has used would be made for nothing.
            unused = [name for name, t in writer.names.items() if name not in self.used and not t.is_index]
            if unused:
                self.put(writer, self.random.choice(unused))
        body = Block((), tuple(writer.ops), ())
        return self.finished(body)

    def finished(self, body: Block) -> Program:
        """The program of a body, without what no store needs."""
        tensors, views = tuple(self.tensors), tuple(self.views)
        program = Program(self.seed, self.grid, tensors, views, body, self.ieee, self.warps, self.stages)
        program = dataclasses.replace(program, approx=self.approx)
        # Every second one is debugged, which may change nothing.
        return prune(dataclasses.replace(program, debug=self.tells and self.seed % 2 == 1))


def generate(seed: int, *, doubles: bool | None = None) -> Program:
    """The random program of a seed, which says too whether it has F64, unless ``doubles`` does."""
    return Generator(seed, doubles).program()
