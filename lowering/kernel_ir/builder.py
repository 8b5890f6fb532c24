"""A builder whose methods are the kernel IR's operations, with the foldings that keep texts short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gizml_tile.dtypes import I32, I64, MASK, DType, integer_range
from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import (
    APART,
    COMPARISONS,
    WORKGROUP,
    Access,
    Attr,
    Barrier,
    Block,
    Bulk,
    BulkWait,
    Copy,
    GroupMatrix,
    Instruction,
    Matrix,
    MatrixAccess,
    Number,
    Parameter,
    Role,
    Signal,
)

Value = Instruction


@dataclass(frozen=True, slots=True)
class Promise:
    """Where ``mask`` is set, the sizes of a value's registers are from ``low`` to ``high``."""

    mask: Value | None
    low: float
    high: float


class Builder:
    """Appends instructions to the innermost block; ``place`` is the person's line that they get."""

    def __init__(self) -> None:
        self.place: Place | None = None
        # What numbers of threads and warps are counted from, and after how many they begin anew, if at all.
        self.first_thread = self.first_warp = 0
        self.threads_again = self.warps_again = 0
        # Where in a buffer the elements of the program begin that a thread runs, if others have some, too.
        self.shifts: dict[int, Value] = {}
        # What whoever made a value knows of it.
        self.promises: dict[Value, Promise] = {}
        self._blocks: list[list[Instruction]] = [[]]
        # One constant, leaf or parameter is made once and stands at the kernel's beginning.
        self._leaves: dict[tuple[object, ...], Instruction] = {}
        self._head: list[Instruction] = []

    def body(self) -> Block:
        """Everything built so far, as the kernel's block."""
        assert len(self._blocks) == 1
        return Block((), (*self._head, *self._blocks[0]), ())

    def emit(
        self,
        op: str,
        args: Sequence[Value] = (),
        attr: Attr = None,
        dtype: DType | None = None,
        count: int = 0,
        blocks: tuple[Block, ...] = (),
    ) -> Value:
        """Append any instruction."""
        made = Instruction(op, tuple(args), attr, dtype, count, self.place, blocks)
        self._blocks[-1].append(made)
        return made

    def _leaf(self, op: str, attr: Attr, dtype: DType, count: int = 1) -> Value:
        key = (op, dtype, count, _bits(attr))
        if key not in self._leaves:
            made = Instruction(op, (), attr, dtype, count)
            self._leaves[key] = made
            self._head.append(made)
        return self._leaves[key]

    # Leaves

    def constant(self, value: Number | Sequence[Number], dtype: DType) -> Value:
        """One number, or one for each register; equal ones are one register, which stretches."""
        if isinstance(value, Sequence):
            numbers = tuple(value)
            if len({_bits(number) for number in numbers}) > 1:
                return self._leaf("constant", numbers, dtype, len(numbers))
            value = numbers[0]
        return self._leaf("constant", value, dtype)

    def thread(self) -> Value:
        return self._counted("thread", self.first_thread, self.threads_again)

    def lane(self) -> Value:
        return self._leaf("lane", None, I32)

    def warp(self) -> Value:
        return self._counted("warp", self.first_warp, self.warps_again)

    def _counted(self, op: str, first: int, again: int) -> Value:
        number = self._leaf(op, None, I32)
        if first:
            number = self.sub(number, self.constant(first, I32))
        return self.map("and", number, self.constant(again - 1, I32)) if again else number

    def workgroup(self, axis: int = 0) -> Value:
        return self._leaf("workgroup", axis, I32)

    def workgroups(self, axis: int = 0) -> Value:
        return self._leaf("workgroups", axis, I32)

    def rank(self) -> Value:
        return self._leaf("rank", None, I32)

    def parameter(self, parameter: Parameter, dtype: DType = I64) -> Value:
        return self._leaf("parameter", parameter, dtype)

    # Registers

    def pick(self, value: Value, registers: Sequence[int]) -> Value:
        """The registers of a value in another order."""
        chosen = tuple(registers)
        if chosen == tuple(range(value.count)):
            return value
        if value.op == "pick":
            assert isinstance(value.attr, tuple)
            inner = value.attr
            return self.pick(value.args[0], [int(inner[each]) for each in chosen])  # type: ignore[arg-type]
        if value.op == "constant" and isinstance(value.attr, tuple):
            assert value.dtype is not None
            numbers = [value.attr[each] for each in chosen]
            return self.spread(self.constant(numbers, value.dtype), len(chosen))  # type: ignore[arg-type]
        return self.emit("pick", (value,), chosen, value.dtype, len(chosen))

    def spread(self, value: Value, count: int) -> Value:
        """A value of one register as ``count`` equal ones."""
        return value if value.count == count else self.pick(value, (0,) * count)

    def join(self, values: Sequence[Value]) -> Value:
        """The registers of values, one after the other."""
        if len(values) == 1:
            return values[0]
        count = sum(value.count for value in values)
        return self.emit("join", values, None, values[0].dtype, count)

    def bitcast(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        return self.emit("bitcast", (value,), None, dtype, value.count)

    def again(self, value: Value, other: Value) -> Value:
        return self.emit("again", (value, other), None, value.dtype, value.count)

    def convert(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        if value.op == "constant" and dtype.is_integer and value.dtype in (I32, I64):
            numbers = value.attr if isinstance(value.attr, tuple) else (value.attr,)
            return self.constant([_wrapped(int(number), dtype) for number in numbers], dtype)  # type: ignore[arg-type]
        return self.emit("convert", (value,), None, dtype, value.count)

    # Mathematics

    def map(self, op: str, *args: Value) -> Value:
        """An operation register by register; integer identities with constants vanish."""
        simple = _simplified(self, op, args)
        if simple is not None:
            return simple
        count = max(arg.count for arg in args)
        assert all(arg.count in (1, count) for arg in args), (op, args)
        dtype = MASK if op in COMPARISONS else args[-1].dtype
        return self.emit(op, args, None, dtype, count)

    def add(self, a: Value, b: Value) -> Value:
        return self.map("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.map("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.map("mul", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.map("fma", a, b, c)

    def select(self, mask: Value, yes: Value, no: Value) -> Value:
        return self.map("select", mask, yes, no)

    def both(self, *masks: Value | None) -> Value | None:
        """All of some masks; None stands for one that is always set."""
        result: Value | None = None
        for mask in masks:
            if mask is not None:
                result = mask if result is None else self.map("and", result, mask)
        return result

    # Memory

    def load(self, access: Access, offsets: Value, dtype: DType, mask: Value | None = None) -> Value:
        offsets = self._shifted(access, offsets)
        args = (offsets,) if mask is None else (offsets, mask)
        return self.emit("load", args, access, dtype, access.width * len(access.places))

    def store(self, access: Access, value: Value, offsets: Value, mask: Value | None = None) -> None:
        offsets = self._shifted(access, offsets)
        args = (value, offsets) if mask is None else (value, offsets, mask)
        self.emit("store", args, access)

    def _shifted(self, access: Access | MatrixAccess, offsets: Value) -> Value:
        inside = isinstance(access, MatrixAccess) or access.space == WORKGROUP
        shift = self.shifts.get(access.memory) if inside else None
        return offsets if shift is None else self.add(offsets, self.convert(shift, offsets.dtype or I32))

    def atomic(self, access: Access, value: Value, offsets: Value, mask: Value | None = None) -> None:
        offsets = self._shifted(access, offsets)
        args = (value, offsets) if mask is None else (value, offsets, mask)
        self.emit("atomic", args, access)

    def update(
        self,
        access: Access,
        dtype: DType,
        offset: Value,
        new: Callable[[Value], Value],
        mask: Value | None = None,
    ) -> None:
        """An element becomes what ``new`` gives for it, with nothing between."""
        old = Instruction("param", (), 0, dtype, 1)
        with self.block() as inside:
            result = new(old)
        assert (result.dtype, result.count) == (dtype, 1), result
        block = Block((old,), tuple(inside), (result,))
        self.emit("update", (offset,) if mask is None else (offset, mask), access, blocks=(block,))

    def matrix_load(self, access: MatrixAccess, offsets: Value, dtype: DType) -> Value:
        count = 4 // dtype.bytes * access.matrices * len(access.places)
        return self.emit("matrix_load", (self._shifted(access, offsets),), access, dtype, count)

    def matrix_store(self, access: MatrixAccess, value: Value, offsets: Value) -> None:
        self.emit("matrix_store", (value, self._shifted(access, offsets)), access)

    def copy(self, copy: Copy, to: Value, source: Value, mask: Value | None = None) -> None:
        self.emit("copy", (to, source) if mask is None else (to, source, mask), copy)

    def copy_commit(self) -> None:
        self.emit("copy_commit")

    def copy_wait(self, groups: int) -> None:
        self.emit("copy_wait", attr=groups)

    # Between threads

    def barrier(
        self, number: int, threads: int, *, arrive: bool = False, each: bool = False, ring: int = 0
    ) -> None:
        self.emit("barrier", attr=Barrier(number, threads, arrive, each, ring))

    def warp_barrier(self) -> None:
        self.emit("warp_barrier")

    def shuffle_xor(self, value: Value, mask: int) -> Value:
        return self.emit("shuffle", (value,), mask, value.dtype, value.count)

    def shuffle(self, value: Value, lane: Value) -> Value:
        """Each lane reads the register of the lane that it names."""
        return self.emit("shuffle", (value, lane), None, value.dtype, value.count)

    def mma(self, matrix: Matrix, a: Value, b: Value, c: Value) -> Value:
        return self.emit("mma", (a, b, c), matrix, c.dtype, c.count)

    def outer(self, a: Value, b: Value, c: Value) -> Value:
        assert c.count == a.count * b.count
        return self.emit("outer", (a, b, c), None, c.dtype, c.count)

    # In clusters

    def remote_load(
        self, access: Access, offsets: Value, rank: Value, dtype: DType, mask: Value | None = None
    ) -> Value:
        args = (offsets, rank) if mask is None else (offsets, rank, mask)
        return self.emit("remote_load", args, access, dtype, access.width * len(access.places))

    def remote_store(
        self, access: Access, value: Value, offsets: Value, rank: Value, mask: Value | None = None
    ) -> None:
        args = (value, offsets, rank) if mask is None else (value, offsets, rank, mask)
        self.emit("remote_store", args, access)

    def remote_send(self, access: Access, value: Value, offsets: Value, rank: Value, signal: Value) -> None:
        self.emit("remote_send", (value, offsets, rank, signal), access)

    def cluster_barrier(self) -> None:
        self.emit("cluster_barrier")

    # Transactions and asynchronous matrix operations

    def signal_init(self, signal: Value, arrivals: int) -> None:
        self.emit("signal_init", (signal,), Signal(arrivals))

    def signal_expect(self, signal: Value, bytes: int) -> None:
        self.emit("signal_expect", (signal,), bytes)

    def signal_arrive(self, signal: Value) -> None:
        self.emit("signal_arrive", (signal,))

    def signal_wait(self, signal: Value, parity: Value) -> None:
        self.emit("signal_wait", (signal, parity))

    def bulk_load(self, bulk: Bulk, to: Value, coordinates: Sequence[Value], signal: Value) -> None:
        self.emit("bulk_load", (to, *coordinates, signal), bulk)

    def bulk_store(self, bulk: Bulk, source: Value, coordinates: Sequence[Value]) -> None:
        self.emit("bulk_store", (source, *coordinates), bulk)

    def bulk_commit(self) -> None:
        self.emit("bulk_commit")

    def bulk_wait(self, groups: int, *, reading: bool) -> None:
        self.emit("bulk_wait", attr=BulkWait(groups, reading))

    def group_mma(self, matrix: GroupMatrix, a: Value, b: Value, c: Value) -> Value:
        return self.emit("group_mma", (a, b, c), matrix, c.dtype, c.count)

    # Structure

    @contextmanager
    def block(self) -> Iterator[list[Instruction]]:
        """Instructions built inside go to a list of their own."""
        self._blocks.append([])
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()

    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value,
        inits: Sequence[Value],
        body: Callable[[Value, tuple[Value, ...]], Sequence[Value]],
        flag: int | None = None,
    ) -> tuple[Value, ...]:
        """``for counter in range(start, stop, step)`` with carried values; gives their last.

        With a ``flag`` it ends once the carried integer of this number is 0.
        """
        counter = Instruction("param", (), 0, start.dtype, 1)
        params = tuple(
            Instruction("param", (), number + 1, init.dtype, init.count) for number, init in enumerate(inits)
        )
        with self.block() as inside:
            results = tuple(body(counter, params))
        for init, result in zip(inits, results, strict=True):
            assert (init.dtype, init.count) == (result.dtype, result.count), (init, result)
        made = Block((counter, *params), tuple(inside), results)
        whole = self.emit("loop", (start, stop, step, *inits), flag, blocks=(made,))
        return self._results(whole, results)

    def branch(
        self,
        mask: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
        *,
        apart: bool = False,
    ) -> tuple[Value, ...]:
        """A branch that all threads of the workgroup (or role) take the same way, or each its own."""
        blocks = []
        for arm in (then, otherwise):
            with self.block() as inside:
                results = tuple(arm())
            blocks.append(Block((), tuple(inside), results))
        whole = self.emit("branch", (mask,), APART if apart else None, blocks=tuple(blocks))
        return self._results(whole, blocks[0].results)

    def when(self, mask: Value | None, effects: Callable[[], None]) -> None:
        """Run effects in the threads whose mask is set."""
        if mask is None:
            effects()
            return
        with self.block() as inside:
            effects()
        self.emit("when", (mask,), blocks=(Block((), tuple(inside), ()),))

    def roles(self, roles: Sequence[tuple[Role, Callable[[], None]]]) -> None:
        """Warps that run different code from here to the kernel's end."""
        blocks = []
        for _, body in roles:
            with self.block() as inside:
                body()
            blocks.append(Block((), tuple(inside), ()))
        self.emit("roles", (), tuple(role for role, _ in roles), blocks=tuple(blocks))

    def _results(self, whole: Value, results: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(
            self.emit("result", (whole,), number, result.dtype, result.count)
            for number, result in enumerate(results)
        )


def _bits(value: object) -> object:
    """A key that tells 0.0 from -0.0 and 1 from 1.0."""
    return tuple(map(_bits, value)) if isinstance(value, tuple) else (type(value).__name__, repr(value))


def _number(value: Value) -> int | None:
    """A scalar integer constant's number."""
    if value.op == "constant" and value.dtype in (I32, I64) and not isinstance(value.attr, tuple):
        assert isinstance(value.attr, int)
        return int(value.attr)
    return None


def _wrapped(number: int, dtype: DType) -> int:
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def _simplified(build: Builder, op: str, args: Sequence[Value]) -> Value | None:
    if len(args) != 2 or args[0].dtype not in (I32, I64):
        return None
    dtype = args[0].dtype
    assert dtype is not None
    a, b = _number(args[0]), _number(args[1])
    if a is not None and b is not None and op in _FOLD and dtype is args[1].dtype:
        return build.constant(_wrapped(_FOLD[op](a, b), dtype), dtype)
    if op in ("add", "or", "xor") and a == 0:
        return args[1]
    if op in ("add", "sub", "or", "xor", "shl", "shr", "ushr") and b == 0:
        return args[0]
    if op in ("mul", "and") and (a == 0 or b == 0) and args[0].count == args[1].count:
        return args[0] if a == 0 else args[1]
    if op in ("mul", "div") and b == 1:
        return args[0]
    if op == "mul" and a == 1:
        return args[1]
    if op == "mul" and b is not None and b > 0 and b & (b - 1) == 0:
        return build.map("shl", args[0], build.constant(b.bit_length() - 1, dtype))
    return None


_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
