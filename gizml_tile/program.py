"""Program: one grid point's program while it is traced, and the trace that runs a kernel's body."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gizml_tile import debugging
from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.batch import Batch
from gizml_tile.batch_views import BatchIn, BatchOut
from gizml_tile.control import trace_cond, trace_loop, trace_while
from gizml_tile.drawing import draw
from gizml_tile.dtypes import F32, I64, MASK
from gizml_tile.errors import TileError, here
from gizml_tile.helpful import Fixed, called, nearest
from gizml_tile.index import Index
from gizml_tile.lifting import (
    axis_of_tile,
    constant,
    describe,
    integer,
    number,
    sizes,
    storage_type,
)
from gizml_tile.nodes import Const, TileProgram
from gizml_tile.rounding import round_to
from gizml_tile.tile import Tile
from gizml_tile.tracing import Trace, Value, activate, active, fail
from gizml_tile.views import In, Out, dimensions

_WARPS = (1, 2, 4, 8, 16, 32)
_MAX_STAGES = 8
# What `Program.variant` may be asked about; the planner names the variants of each.
_OPERATIONS = (
    "loop",
    "workgroups",
    "programs",
    "turns",
    "order",
    "dot",
    "read",
    "put",
    "copy to workgroup memory",
    "elementwise",
    "tensors",
)


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced body: the tile IR as recorded, and what stands behind its tensors and scalars.

    ``tensors`` are the objects given to ``p.read`` and ``p.write``, in the order of their numbers in
    the program, with None for the records of ``print`` and ``check``; ``writes`` has the number of the
    tensor of each ``p.write`` call; ``scalars`` has the value (or the argument) of each run-time number.
    """

    program: TileProgram
    tensors: tuple[object, ...]
    writes: tuple[int, ...]
    scalars: tuple[int | float | ScalarArgument, ...]


class Program(Fixed):
    """One grid point's program while it is traced."""

    __slots__ = ("_trace",)

    _example = "p"
    _habits = "PROGRAM"
    _made_by = "tile.run(grid, body) and kernels make one for the function that they trace"

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def _told(self) -> str:
        return "the program"

    def id(self, axis: builtins.int) -> Index:
        """This program's position along a grid axis of 0 to 2 (0 is the fastest)."""
        return self._grid("id", axis, 0)

    def count(self, axis: builtins.int) -> Index:
        """The grid's size along an axis of 0 to 2; 1 for an axis the grid does not have."""
        return self._grid("count", axis, 1)

    def int(self, value: object) -> Index:
        """An integer constant as an index; an index stays what it is."""
        if isinstance(value, Index):
            self._trace.use(value)
            return value
        return self._index("index", integer(value, "int"))

    def k(self, value: object, dtype: object = F32) -> Tile:
        """A constant as a [1, 1] tile, which stretches to any shape."""
        kind = storage_type(dtype, "k")
        return self._tile("const", Const((1, 1), kind, constant(value, kind, "the value")))

    def full(self, shape: object, value: object, dtype: object = F32) -> Any:
        """A tile (of three sizes a batch) with every element ``value``, rounded once to ``dtype``."""
        return self._filled(shape, value, dtype, "full")

    def zeros(self, shape: object, dtype: object = F32) -> Any:
        """A tile of a shape with every element 0; of three sizes a batch."""
        return self._filled(shape, 0, dtype, "zeros")

    def iota(self, shape: object, axis: builtins.int, dtype: object = F32) -> Any:
        """Each element's row number (axis 0) or column number (axis 1) within the tile.

        Of three sizes it is a batch: axis 0 is each tile's own number, 1 are rows and 2 columns.
        """
        found = sizes(shape, "iota", 3)
        kind = storage_type(dtype, "iota")
        if kind is MASK:
            fail(
                "iota counts in a float or an integer type, found MASK; compare the numbers for a mask, as "
                "in x < 3"
            )
        if len(found) == 3:
            return self._iotas(found, axis, kind)
        rows, columns = (1, *found)[-2:]
        along = axis_of_tile(axis, "iota")
        constant((rows, columns)[along] - 1, kind, "the last number of iota")
        return self._tile("iota", Const((rows, columns), kind, along))

    def random(self, seed: object, offset: object, shape: object, kind: object = "bits") -> Tile:
        """Random numbers, the same on every device: ``"bits"`` (U32), ``"uniform"`` or ``"normal"`` (F32).

        They are those of Philox 4x32-10. Element (r, c) is number ``c % 4`` of the four numbers of counter
        ``offset[r, c // 4]``, where the offset is an integer tile, [rows, groups] or stretching to that:
        ``groups`` are the columns divided by 4 and rounded up. Of an index it is counter
        ``offset + r * groups + c // 4``. So a tile of [R, C] uses about R * C / 4 counters; elements whose
        counters are made of where they belong, as in ``row * (N // 4) + column // 4``, do not depend on the
        blocks. Counters have 64 bits, an I32 with its sign; the upper 64 bits of Philox's are 0. The seed is
        the key: an integer of 64 bits, an index (which does not compile anew for each value) or a [1, 1]
        integer tile, its lower half first.

        Uniform numbers are the upper 24 bits times 2^-24, from 0 to below 1. Normal ones are of mean 0 and
        variance 1: numbers 2k and 2k + 1 are sqrt(-2 log u) times the cosine and the sine of v turns, where u
        is (n + 1/2) / 2^31 with the upper 31 bits n of word 2k, and v is word 2k + 1 divided by 2^32.
        """
        return draw(self._trace, seed, offset, shape, kind)

    def warps(self, count: builtins.int) -> None:
        """The number of warps of a GPU workgroup: 1, 2, 4, 8, 16 or 32; without it the planner picks.

        Each counts 32 threads on every device. Where the hardware's own are of 64 threads, two are one of
        them, and a single warp gets a whole one.
        """
        self._trace.check_open()
        host = number(count)
        if type(host) is not int or host not in _WARPS:
            fail(f"warps takes 1, 2, 4, 8, 16 or 32, found {describe(count)}")
        self._trace.warps = host

    def stages(self, count: builtins.int) -> None:
        """How many blocks of a loop's matrix operands are in flight: 1 reads each turn's in turn."""
        self._trace.check_open()
        host = number(count)
        if type(host) is not int or not 1 <= host <= _MAX_STAGES:
            fail(f"stages takes 1 to {_MAX_STAGES}, found {describe(count)}")
        self._trace.stages = host

    def variant(self, operation: str, name: str) -> None:
        """The variant that a GPU must use for all of this program's operations of a kind.

        ``operation`` is ``"loop"``, ``"workgroups"``, ``"programs"``, ``"turns"``, ``"order"``, ``"dot"``,
        ``"read"``, ``"put"``, ``"copy to workgroup memory"``, ``"elementwise"`` or ``"tensors"``;
        ``explain`` prints the names of the variants that each has. One that cannot serve is an error that
        names those which can. The CPU has no variants.
        """
        self._trace.check_open()
        if not isinstance(operation, str) or operation not in _OPERATIONS:
            near = nearest(operation, _OPERATIONS) if isinstance(operation, str) else ""
            fail(
                f"variant takes one of the operations {', '.join(_OPERATIONS)}, found "
                f"{describe(operation)}{near}"
            )
        if not isinstance(name, str):
            fail(f"variant takes the name of a variant of {operation}, found {describe(name)}")
        self._trace.variants[operation] = name

    def approx(self) -> None:
        """Let a GPU use its own function wherever one takes ``approx``, in this program; call it first."""
        self._trace.check_open()
        self._trace.approximate()

    def debug(self, on: bool = True) -> None:
        """Let ``print`` and ``check`` speak in this program, or not; call it before the first of them.

        Without it GIZML_TILE_DEBUG=1 says so for all programs of a process, and ``debug=True`` in a call for
        one launch. Such a launch is traced and compiled anew and waits until it is done.
        """
        self._trace.check_open()
        if not isinstance(on, bool):
            fail(f"debug takes True or False, found {describe(on)}")
        self._trace.debugging = on

    def print(self, *values: object) -> None:
        """Print words and values after the launch, where it is debugged (see ``debug``); else do nothing.

        Tiles, masks and indices print what they hold in each program, anything else what ``str`` gives of it
        while the kernel is traced::

            p.print("row", i, "maximum", top)     # softmax.py:12: program 3: row 3 maximum 0.25

        Each line tells the place of the call and the program's ids. Lines of one program are in its order,
        those of several in the order of their ids, axis 0 fastest, on every device. Float values print as
        F32; tiles of more than 1000 elements as NumPy prints large arrays, by their corners. All programs'
        records share 64 MiB (GIZML_TILE_DEBUG_SIZE says otherwise); a warning tells how many had no room.
        """
        self._trace.check_open()
        debugging.trace_print(self._trace, values)

    def check(self, mask: object, text: str, value: object = None) -> None:
        """Check that no element of a mask is false, where the launch is debugged; else do nothing.

        A launch with a check that fails still runs to its end and then raises TileError at the line of the
        check that failed first, programs in the order of their ids: with ``text``, the program's ids, how
        many elements are false, the row and column of the first, and what ``value`` is there, a tile that
        broadcasts to the mask's shape.
        """
        self._trace.check_open()
        debugging.trace_check(self._trace, mask, text, value)

    def arg(self, value: object) -> Any:
        """A run-time number: an integer as an index, a float as a [1, 1] F32 tile, to which it is rounded.

        Beside F64 tiles a keyword-only constant keeps all bits of a float, and so does a float64 tensor.
        """
        trace = self._trace
        trace.check_open()
        if isinstance(value, Index | Tile):
            trace.use(value)
            return value
        host: builtins.int | float | ScalarArgument
        if isinstance(value, ScalarArgument):
            host, name, dtype = value, value.name, value.dtype
        else:
            found = number(value)
            name = f"s{len(trace.scalars)}"
            if isinstance(found, float):
                host, dtype = round_to(found, F32), F32
            elif type(found) is not builtins.int:
                way = "; True and False are constants, not run-time numbers" if found is not None else ""
                fail(f"arg takes an integer or a float, found {describe(value)}{way}")
            else:
                host, dtype = integer(found, "arg"), I64
        node = trace.scalar(host, name, dtype)
        wrap: type[Index] | type[Tile] = Index if dtype is I64 else Tile
        return wrap(trace.blocks[-1], node)

    def read(self, tensor: object, block: object, *, pad: object = 0) -> In:
        """A tensor read in blocks of its last one, two or three dimensions.

        ``block`` has so many sizes; ``pad`` is what elements outside the tensor read as. Blocks of three
        sizes are batches of tiles: `gizml_tile.batch.Batch` says what can be done with them.
        """
        count, found = self._view(tensor, block, "read")
        dtype = self._trace.tensors[count].dtype
        view = BatchIn if len(found) == 3 else In
        return view(self._trace, count, found, constant(pad, dtype, "pad"))

    def write(self, tensor: object, block: object) -> Out:
        """A tensor written in blocks of its last one, two or three dimensions; what is not stored stays."""
        count, found = self._view(tensor, block, "write")
        self._trace.writes.append(count)
        view = BatchOut if len(found) == 3 else Out
        return view(self._trace, count, found)

    def loop(
        self,
        start: object,
        stop: object,
        inits: Sequence[object],
        body: Callable[[Index, list[Any]], Any],
        *,
        step: object = 1,
        condition: Callable[[list[Any]], Any] | None = None,
    ) -> list[Any]:
        """``body(k, carried)`` for k of range(start, stop, step), each turn with what the last gave.

        The result is what the last turn returned, or ``inits`` where there was none. Carried are
        tiles, masks and indices, which keep shape and type. Before each turn ``condition(carried)``, a
        comparison of indices, is asked where it is given, and the loop ends where it does not hold.
        """
        if isinstance(inits, Value) or not isinstance(inits, Sequence):
            fail(
                f"loop takes a list of carried values, found {describe(inits)}; p.fold carries one without a "
                "list"
            )
        self._trace.check_open()
        return trace_loop(
            self._trace, (start, stop, step), list(inits), body, single=False, condition=condition
        )

    def while_(
        self,
        inits: Sequence[object],
        condition: Callable[[list[Any]], Any],
        body: Callable[[list[Any]], Any],
    ) -> list[Any]:
        """``body(carried)`` again and again while ``condition(carried)``, a comparison of indices, holds.

        Carried are tiles, masks and indices, of which the condition compares indices alone; the result is
        what the last turn returned, or ``inits``. Nothing ends a loop whose condition stays true.
        """
        if isinstance(inits, Value) or not isinstance(inits, Sequence):
            fail(f"while_ takes a list of carried values first, found {describe(inits)}")
        self._trace.check_open()
        return trace_while(self._trace, list(inits), condition, body)

    def fold(
        self,
        start: object,
        stop: object,
        init: object,
        body: Callable[[Index, Any], Any],
        *,
        step: object = 1,
    ) -> Any:
        """``loop`` with one carried value: ``body(k, value)`` gives the next value."""
        self._trace.check_open()
        return trace_loop(self._trace, (start, stop, step), [init], body, single=True)[0]

    def cond(
        self, condition: object, then: Callable[[], Any], otherwise: Callable[[], Any] | None = None
    ) -> Any:
        """What ``then()`` gives where a comparison of indices holds, else what ``otherwise()`` gives.

        Both give one value, a tuple of values of the same types, or None.
        """
        self._trace.check_open()
        return trace_cond(self._trace, condition, then, otherwise or _nothing)

    def __bool__(self) -> bool:
        return True

    def __call__(self, *args: object, **named: object) -> NoReturn:
        fail("the program is not called: its methods are, as in p.id(0)")

    def __getitem__(self, key: object) -> NoReturn:
        fail("the program has no items; p.id(axis) is its place in the grid")

    def __len__(self) -> builtins.int:
        fail("the program has no len(); p.count(axis) is the size of the grid")

    def __iter__(self) -> NoReturn:
        fail("the program is not a sequence; p.id(axis) is its place in the grid")

    def __repr__(self) -> str:
        return f"<Program {self._trace.name}>"

    def _filled(self, shape: object, value: object, dtype: object, what: str) -> Any:
        *batch, rows, columns = (1, *sizes(shape, what, 3))
        kind = storage_type(dtype, what)
        tile = self._tile("const", Const((rows, columns), kind, constant(value, kind, "the value")))
        return Batch([tile] * batch[-1]) if len(batch) == 2 else tile

    def _iotas(self, shape: tuple[builtins.int, ...], axis: object, dtype: object) -> Batch:
        """The numbers along an axis of a batch."""
        host = number(axis)
        if type(host) is not int or not -3 <= host < 3:
            fail(f"the axis of iota of three sizes is 0, 1 or 2 (or -1, -2, -3), found {describe(axis)}")
        if host % 3:
            return Batch([self.iota(shape[1:], host % 3 - 1, dtype)] * shape[0])
        return Batch([self.full(shape[1:], place, dtype) for place in range(shape[0])])

    def _grid(self, op: str, axis: object, missing: builtins.int) -> Index:
        host = number(axis)
        if type(host) is not int or not 0 <= host <= 2:
            fail(f"the axis of {op} is an axis of the grid, 0, 1 or 2, found {describe(axis)}")
        if host >= self._trace.grid_rank:
            return self._index("index", missing)
        return self._index(op, host)

    def _index(self, op: str, attr: builtins.int) -> Index:
        trace = self._trace
        trace.check_open()
        return Index(trace.blocks[-1], trace.record(op, (), attr))

    def _tile(self, op: str, attr: Const) -> Tile:
        trace = self._trace
        trace.check_open()
        return Tile(trace.blocks[-1], trace.record(op, (), attr))

    def _view(
        self, tensor: object, block: object, what: str
    ) -> tuple[builtins.int, tuple[builtins.int, ...]]:
        self._trace.check_open()
        found = sizes(block, f"a block of {what}", 3)
        count = self._trace.tensor_number(tensor, what)
        rank = self._trace.tensors[count].rank
        if len(found) > rank:
            name = tensor.name if isinstance(tensor, TensorArgument) else "tensor"
            block = list(found[:rank])
            way = f"write p.{what}({name}, {block})" if rank else f"reshape {name} to one dimension"
            fail(
                f"{what}: a block of {list(found)} needs a tensor of {dimensions(len(found))} or more, found "
                f"{describe(tensor)} with {rank}; {way}"
            )
        return count, found


def trace(name: str, body: Callable[[Program], object], *, grid_rank: int = 3) -> Traced:
    """Run a body once and record the tile IR of its program.

    Positions along axes that a grid of ``grid_rank`` axes does not have are 0. Raises TileError for
    a mistake in the body and where another trace is in progress on this thread.
    """
    outer = active()
    if outer is not None:
        raise TileError(
            f"a launch inside of {outer.name}, which is a program itself; call a helper function there, and "
            "launch after it",
            here(),
        )
    recording = Trace(name, grid_rank)
    recording.debugging = debugging.asked()
    program = recording.program = Program(recording)
    activate(recording)
    try:
        _check_returned(called(body, "the body", "the program", program), name)
    except (TypeError, ValueError) as error:
        from gizml_tile.mistaken import explained

        told = explained(error)
        if told is None:
            raise
        raise told from None
    finally:
        activate(None)
        recording.ended = True
        for block in recording.blocks:
            block.open = False
    tile_program = TileProgram(
        name,
        tuple(recording.tensors),
        tuple(recording.scalars),
        (*recording.writes, *(() if recording.records is None else (recording.records,))),
        recording.blocks[0].region(()),
        recording.warps,
        recording.stages,
        recording.approx,
        tuple(sorted(recording.variants.items())),
        recording.records,
    )
    return Traced(tile_program, tuple(recording.objects), tuple(recording.writes), tuple(recording.values))


def current() -> Program | None:
    """The program that is being traced on this thread."""
    recording = active()
    if recording is None:
        return None
    program: Program = recording.program
    return program


def _nothing() -> None:
    return None


def _check_returned(returned: object, name: str) -> None:
    if inspect.isgenerator(returned) or inspect.iscoroutine(returned) or inspect.isasyncgen(returned):
        fail(f"the body of {name} is a generator or coroutine and would not run; use no yield or async")
    values = returned if isinstance(returned, tuple | list) else (returned,)
    for value in values:
        if isinstance(value, Value):
            fail(
                f"a program returns nothing, found {describe(value)}; store it in an output: "
                "C = p.write(tensor, block), then C[i, j] = tile"
            )
