"""What a random program gives: by intervals in NumPy, and on the device; and whether the two agree."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import linecache
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from unittest import mock

import addressing
import along
import approximate
import batches
import nibbles
import numpy as np
import packed
import reference as ref
import sums
import tells
from intervals import Value, floats, integers, same, to
from loops_and_branches import WHILES
from programs import EXITS, LOOPS, TELLS, Block, Literal, Op, Program, TensorSpec, has_doubles
from render import render
from render_kernel import render_kernel
from shapes import MOVES, moved
from tensors import build_all, stored, view_of
from tile_ir_interpreter import interpret

import gizml_tile as tile
from gizml_tile.dtypes import F32, F64, MASK, DType, math_dtype, to_numpy
from gizml_tile.exact import ExactSums
from gizml_tile.lowering.tile_passes.pipeline import simplify
from gizml_tile.nodes import TileProgram, has_exact_sums
from gizml_tile.program import trace
from gizml_tile.target import gpus

Execute = Callable[[Program, dict[str, np.ndarray]], None]
# What a GPU says of a program whose blocks are too large for it, or that asks for what cannot serve.
_NO_ROOM = (
    "has no atomic operations",
    "bytes of workgroup memory and a workgroup has",
    "bytes of workgroup memory and there are",
    "threads and a thread has",
    "variants that can:",
    "no variant can; use smaller blocks",
)
# Room for what the programs of a launch tell, which is not much.
_ROOM = {"GIZML_TILE_DEBUG_SIZE": "1M"}
_TARGETS = {target.arch: target for target in gpus()}
UNARY = frozenset(ref.FUNCTIONS)


@dataclass
class Outcome:
    """What was wrong, if anything, and of how many stored elements something was known."""

    problem: str | None
    kind: str = ""
    stored: int = 0
    exact: int = 0
    unknown: int = 0


class Left(Exception):
    """A turn, a loop or a program that is left, with the values that go on."""

    def __init__(self, name: str, values: list[object]) -> None:
        super().__init__(name)
        self.name, self.values = name, values


class Evaluator:
    """Runs one program of the grid after the other on intervals; ``memory`` holds the tensors.

    A batch is a tuple of the values of its tiles. ``told`` is what the programs print and check. A GPU may
    use its own functions.
    """

    def __init__(self, program: Program, memory: dict[str, Value], *, on_gpu: bool = False):
        self.program, self.memory, self.on_gpu = program, memory, on_gpu
        self.position: tuple[int, ...] = ()
        self.told: list[tells.Told] = []
        # Of tensors that are added to: in any order, and what is added exactly when all is done.
        self.added: dict[str, sums.AnyOrder] = {}
        self.addends: dict[str, list[sums.Addends]] = {}

    def run(self) -> None:
        sizes = (*self.program.grid, 1, 1)[:3]
        if 0 in sizes:
            return
        for point in itertools.product(*(range(size) for size in reversed(sizes))):
            self.position = point[::-1]
            with contextlib.suppress(Left):
                self.block(self.program.body, {})
        for name, parts in self.addends.items():
            sums.add_exactly(self.memory[name], parts)

    def block(self, block: Block, names: dict[str, object]) -> list[object]:
        for op in block.ops:
            results = self.op(op, names)
            names.update(zip(op.results, results, strict=True))
        return [names[name] for name in block.gives]

    def op(self, op: Op, names: dict[str, object]) -> list[object]:
        if op.name in LOOPS:
            return self.loop(op, names)
        if op.name == "cond":
            taken = bool(names[op.args[0]].lo[0, 0])
            return self.block(op.regions[0 if taken else 1], dict(names))
        args = [names[arg] if isinstance(arg, str) else arg for arg in op.args]
        if op.name in EXITS:
            if args[0].lo[0, 0]:
                raise Left(op.name, args[1:])
            return []
        if op.name in TELLS:
            self.told.append(tells.Told(self.position, op, tuple(args)))
            return []
        if op.name == "put":
            self.put(op, args)
            return []
        if op.name == "read":
            read = self.read(op, [_int(arg) for arg in args])
            return [batches.apart(read) if op.types[0].batch else read]
        if op.name in addressing.NAMES:
            return self.by_data(op, args)
        if op.types[0].is_index:
            return [self.index(op, args)]
        if op.types[0].uniform:
            a, b = (integers([[_int(arg)]], DType.I64) for arg in args)
            return [ref.compare(op.name, a, b)]
        if op.name == "tile":
            return [args[0][op.attr]]
        if not op.types[0].batch:
            return [self.tile(op, args)]
        places = range(op.types[0].batch)
        return [tuple(self.tile(op, [_at(arg, place) for arg in args]) for place in places)]

    def loop(self, op: Op, names: dict[str, object]) -> list[object]:
        first, second, *inits = (names[arg] if isinstance(arg, str) else arg.value for arg in op.args)
        carried = [_bare(value) for value in inits]
        (body,) = op.regions
        turns = iter(() if op.name == "while" else range(first, second, op.attr))
        while True:
            if op.name == "while":
                if not WHILES[op.attr].holds(carried[0], first, second):
                    break
                given = carried
            else:
                k = next(turns, None)
                if k is None:
                    break
                given = [k, *carried]
            inside = dict(names) | dict(zip(body.params, given, strict=True))
            try:
                values = self.block(body, inside)
            except Left as left:
                if left.name == "return":
                    raise
                values = left.values
                if left.name == "break":
                    return [_bare(value) for value in values]
            carried = [_bare(value) for value in values]
        return carried

    def index(self, op: Op, args: list[object]) -> int:
        if op.name in ("dim", "blocks"):
            return self.size(*op.attr, blocks=op.name == "blocks")
        grid = (*self.program.grid, 1, 1)[:3]
        if op.name == "id":
            return self.position[op.attr]
        if op.name == "count":
            return grid[op.attr]
        if op.name in ("int", "arg"):
            return op.attr
        a, *rest = (_int(arg) for arg in args)
        b = rest[0] if rest else 0
        match op.name:
            case "neg":
                result = -a
            case "add":
                result = a + b
            case "sub":
                result = a - b
            case "mul":
                result = a * b
            case "minimum":
                result = min(a, b)
            case "maximum":
                result = max(a, b)
            case "floordiv":
                result = a // b if b else 0
            case "floormod":
                result = a % b if b else 0
            case "div" | "rem":
                quotient = (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
                result = quotient if op.name == "div" else (a - quotient * b if b else 0)
            case _:
                raise AssertionError(op.name)
        return _wrapped(result)

    def size(self, view_name: str, axis: int, *, blocks: bool) -> int:
        view = self.program.view(view_name)
        shape = self.program.tensor(view.tensor).shape
        blocked = axis - (len(shape) - len(view.block))
        if blocks and blocked >= 0:
            return -(-shape[axis] // view.block[blocked])
        return shape[axis]

    def places(self, op: Op, coordinates: list[int]) -> tuple[list[np.ndarray], np.ndarray]:
        """For each element of a block its place in the tensor, and whether that is inside."""
        view = self.program.view(op.attr[0])
        shape = self.program.tensor(view.tensor).shape
        leading = len(shape) - len(view.block)
        axes = []
        for axis, coordinate in enumerate(coordinates):
            if axis < leading:
                axes.append(np.array([coordinate]))
            else:
                size = view.block[axis - leading]
                first = coordinate * size if op.attr[1] == "at" else coordinate
                first = min(max(first, -(2**40)), 2**40)  # far outside is outside
                axes.append(np.arange(size) + first)
        inside = np.array(True)
        for axis, positions in enumerate(axes):
            good = (positions >= 0) & (positions < shape[axis])
            inside = inside[..., None] & good
        grids = np.meshgrid(*axes, indexing="ij")
        shape = view.block if view.batch else view.tile
        return [g.reshape(shape) for g in grids], inside.reshape(shape)

    def read(self, op: Op, coordinates: list[int]) -> Value:
        view = self.program.view(op.attr[0])
        memory = self.memory[view.tensor]
        places, inside = self.places(op, coordinates)
        pad = _constant(view.pad or 0, memory.dtype)
        lo = np.where(inside, 0, 0).astype(memory.lo.dtype)
        lo[...] = pad.lo
        hi = lo.copy()
        chosen = tuple(place[inside] for place in places)
        lo[inside], hi[inside] = memory.lo[chosen], memory.hi[chosen]
        return Value(memory.dtype, lo, hi)

    def by_data(self, op: Op, args: list[object]) -> list[object]:
        """Elements that are read or stored where data say."""
        view = self.program.view(op.attr if op.name == "element" else op.attr[0])
        memory = self.memory[view.tensor]
        pad = _constant(view.pad or 0, memory.dtype)
        if op.name == "element":
            found = addressing.gather(memory, pad, args, None, (1, 1))
            return [int(found.lo.astype(np.int64)[0, 0])]
        if op.name == "masked":
            *places, chosen = args
            return [addressing.masked(self.read(op, [_int(each) for each in places]), pad, chosen)]
        stored = args[: op.name in addressing.STORES]
        places = args[len(stored) :]
        chosen = places.pop() if op.attr[1] else None
        tiles = [each.shape for each in places if isinstance(each, Value)]
        shape = np.broadcast_shapes((1, 1), *tiles)
        if not stored:
            return [addressing.gather(memory, pad, places, chosen, shape)]
        if memory.dtype.is_float and op.name in ("scatter_add", "scatter_exactly"):
            found = addressing.addends(stored[0], places, chosen, shape, memory.shape)
            if op.name == "scatter_add":
                adding = self.added.setdefault(view.tensor, sums.AnyOrder(memory.lo.size))
                adding.add(memory, found)
            else:
                self.addends.setdefault(view.tensor, []).append(found)
            return []
        addressing.store(memory, op, stored[0], places, chosen, shape)
        return []

    def put(self, op: Op, args: list[object]) -> None:
        value, *coordinates = args
        view = self.program.view(op.attr[0])
        memory = self.memory[view.tensor]
        mask = coordinates.pop() if op.attr[2] else None
        places, inside = self.places(op, [_int(arg) for arg in coordinates])
        if view.batch:
            value = batches.together(value, view)
        value = to(value, memory.dtype)
        ends = [np.broadcast_to(end, inside.shape) for end in (value.lo, value.hi)]
        if mask is not None:
            inside = inside & mask.hi
        if mask is not None and inside.any():
            # What a mask may leave out stays what it was, or changes.
            there = tuple(np.where(inside, place, 0) for place in places)
            before = Value(memory.dtype, memory.lo[there], memory.hi[there])
            new = addressing.masked(Value(memory.dtype, *ends), before, mask)
            ends = [new.lo, new.hi]
        chosen = tuple(place[inside] for place in places)
        memory.lo[chosen], memory.hi[chosen] = (end[inside] for end in ends)

    def tile(self, op: Op, args: list[object]) -> Value:
        found = self.computed(op, args)
        if self.on_gpu and approximate.is_approximate(op, self.program):
            return approximate.loosened(op.name, self.lifted(args), found)
        return found

    def computed(self, op: Op, args: list[object]) -> Value:
        name, attr = op.name, op.attr
        if name == "arg":
            return _constant(attr, F32)
        if name == "k":
            return _constant(*attr)
        if name in ("full", "zeros"):
            return _stretch(_constant(attr[1] if name == "full" else 0, attr[-1]), op.types[0].shape)
        if name == "iota":
            shape, axis, dtype = attr
            numbers = np.indices(shape)[axis]
            return to(integers(numbers, DType.I64), dtype)
        if name == "value":
            return to(integers([[args[0]]], DType.I64), attr)
        if name in MOVES:
            return moved(name, attr, op.types[0].dtype, *args)
        if name == "random":
            return ref.draw(attr, _int(args[0]))
        a, *rest = self.lifted(args)
        if name in UNARY:
            return ref.function(name, a)
        if name in ("relu", "floor", "ceil", "trunc", "round", "sign", "sqrt", "rsqrt"):
            return ref.monotone(name, a)
        if name in along.NAMES:
            return along.evaluate(name, [a, *rest], attr)
        if name in packed.NAMES:
            return packed.evaluate(a, *rest, attr)
        if name in ("sum", "max", "min"):
            if isinstance(attr, tuple):
                return ref.propagating(name, a, attr[0])
            return ref.reduce(name, a, attr)
        if name in ("maximum", "minimum"):
            return ref.extreme(name, a, *rest)
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            return ref.compare(name, a, *rest)
        if name in ("and_", "or_", "xor"):
            return ref.bitwise(name, a, *rest)
        if name in ("shl", "shr"):
            return ref.shift(name, a, *rest)
        if name == "bitcast":
            return ref.bitcast(a, attr)
        if name in nibbles.NAMES:
            return nibbles.evaluate(name, a, attr)
        if name == "chance":
            return ref.by_chance(a, *rest, attr)
        if name == "mulhi":
            return ref.high(a, *rest, unsigned=attr)
        simple = {
            "add": ref.add,
            "sub": lambda x, y: ref.add(x, y, negate_b=True),
            "mul": ref.multiply,
            "div": ref.divide,
            "neg": ref.negate,
            "abs": ref.absolute,
            "not_": ref.invert,
            "select": ref.select,
            "dot": lambda x, y: ref.dot(x, y, tf32=attr == "tf32"),
            "floordiv": ref.floor_divide,
            "floormod": ref.floor_modulo,
            "rem": ref.remainder,
            "reciprocal": lambda x: ref.divide(floats(np.ones((1, 1))), x),
            "sin": lambda x: ref.wave(np.sin, x),
            "cos": lambda x: ref.wave(np.cos, x),
            "pow": ref.power,
            "fma": ref.fused,
            "clamp": lambda x, low, high: ref.extreme("minimum", ref.extreme("maximum", x, low), high),
            "copysign": ref.copysign,
            "isnan": lambda x: ref.compare("ne", x, x),
            "isinf": lambda x: ref.compare("eq", ref.absolute(x), floats(np.full((1, 1), np.inf))),
            "isfinite": lambda x: ref.compare("lt", ref.absolute(x), floats(np.full((1, 1), np.inf))),
            "popcount": ref.count_bits,
            "clz": ref.leading_zeros,
            "to": lambda x: to(x, attr),
            "transpose": lambda x: Value(x.dtype, x.lo.T.copy(), x.hi.T.copy()),
        }
        return simple[name](a, *rest)

    def lifted(self, args: list[object]) -> list[Value]:
        """Numbers become tiles of the type of the tiles beside them."""
        kinds = [math_dtype(arg.dtype) for arg in args if isinstance(arg, Value) and arg.dtype is not MASK]
        dtype = F64 if F64 in kinds else kinds[0] if kinds else MASK
        return [_constant(arg.value, dtype) if isinstance(arg, Literal) else arg for arg in args]


def _at(arg: object, place: int) -> object:
    """What stands beside a tile of a batch at a place."""
    return arg[place] if isinstance(arg, tuple) else arg


def _bare(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(each.bare() for each in value)
    return value.bare() if isinstance(value, Value) else value


def _wrapped(index: int) -> int:
    return (index + 2**63) % 2**64 - 2**63


def _int(arg: object) -> int:
    return arg.value if isinstance(arg, Literal) else arg


def _constant(value: float | int | bool, dtype: DType) -> Value:
    if dtype is MASK:
        bits = np.full((1, 1), bool(value))
        return Value(MASK, bits, bits)
    if dtype.is_integer:
        return integers([[int(value)]], dtype)
    return to(floats(np.full((1, 1), value), None, F64), dtype)


def _stretch(value: Value, shape: tuple[int, int]) -> Value:
    return Value(
        value.dtype, np.broadcast_to(value.lo, shape).copy(), np.broadcast_to(value.hi, shape).copy()
    )


def on_device(program: Program, tensors: dict[str, np.ndarray]) -> None:
    """Launch the program."""
    tile.run(list(program.grid), compile_body(program, tensors))


def on_device_decorated(program: Program, tensors: dict[str, np.ndarray]) -> None:
    """Launch the program written as a decorated kernel, with operators."""
    text, filename = render_kernel(program), f"<random kernel {program.seed}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, object] = {"tile": tile}
    exec(compile(text, filename, "exec"), scope)
    scope["kernel"][program.grid](*(tensors[spec.name] for spec in program.tensors))


def by_interpreter(program: Program, tensors: dict[str, np.ndarray]) -> None:
    """Trace the program and let NumPy run its tile IR."""
    _interpret(program, tensors, lambda traced: traced)


def _interpret(
    program: Program, tensors: dict[str, np.ndarray], passes: Callable[[TileProgram], TileProgram]
) -> None:
    """Let NumPy run a program's tile IR after some passes, or that of its steps where it has several."""
    traced = trace("body", compile_body(program, tensors), grid_rank=len(program.grid))
    # What programs tell is stored in rows of their own.
    rows = np.zeros((math.prod(program.grid), 1 << 14), np.int64)
    every = [rows if each is None else each for each in traced.tensors]
    if not has_exact_sums(traced.program):
        interpret(passes(traced.program), every, program.grid, traced.scalars)
        return
    parts = ExactSums.of(traced.program)
    for place, tensor in enumerate(parts.more):
        every.append(np.zeros(every[parts.summed[place // 2]].shape, to_numpy(tensor.dtype)))
    for step in parts.steps:
        chosen = [every[number] for number in step.tensors]
        own = step.grid(chosen, program.grid)
        interpret(passes(step.program), chosen, own, () if step.whole else traced.scalars)


@dataclass(frozen=True)
class OnSimulator:
    """A random program on a simulated GPU, which also must not find anything wrong."""

    arch: str

    def refuses(self, error: Exception) -> bool:
        """Whether the GPU is asked for more than it has."""
        without = f"({self.arch}) has no F64, which this" in str(error) and not _TARGETS[self.arch].can("f64")
        return without or is_without_room(error)

    def __call__(self, program: Program, tensors: dict[str, np.ndarray]) -> None:
        if 0 in program.grid:
            return
        body = compile_body(program, tensors)
        ran = tile.simulate(program.grid, body, kind=_TARGETS[self.arch].kind, arch=self.arch)
        wrong = [each for each in ran.findings if not each.is_cost and each.kind != "check"]
        assert not wrong, "; ".join(f"{each.kind}: {each.text}" for each in wrong)
        for finding in ran.findings:
            if finding.kind == "check":
                raise tile.TileError(finding.text)


def arch_in_turn(program: Program, archs: Sequence[str], number: int) -> str:
    """One architecture after the other, but for a program of F64 one that has that."""
    able = [arch for arch in archs if _TARGETS[arch].can("f64")] if has_doubles(program) else archs
    return able[number % len(able)]


def by_simplified_interpreter(program: Program, tensors: dict[str, np.ndarray]) -> None:
    """The same after the passes that all devices share."""
    may_alias = any(spec.alias for spec in program.tensors)
    _interpret(program, tensors, partial(simplify, may_alias=may_alias))


def check(program: Program, execute: Execute = on_device) -> Outcome:
    """Run a program both ways and compare every tensor, and the memory around it."""
    arrays = build_all(program.tensors)
    memory = {spec.name: stored(arrays[spec.name][1], spec) for spec in program.tensors}
    memory |= {spec.name: memory[spec.alias] for spec in program.tensors if spec.alias}
    before = {spec.name: stored(arrays[spec.name][1], spec) for spec in program.tensors}
    untouched = {name: whole.copy() for name, (whole, _) in arrays.items()}
    evaluator = Evaluator(program, memory, on_gpu=isinstance(execute, OnSimulator))
    evaluator.run()
    failure = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed, mock.patch.dict(os.environ, _ROOM):
            execute(program, {name: view for name, (_, view) in arrays.items()})
    except Exception as error:
        if isinstance(execute, OnSimulator) and execute.refuses(error):
            return Outcome(None, "refused")
        # A launch with a check that fails has run to its end.
        if not isinstance(error, tile.TileError) or "check failed: " not in str(error):
            return Outcome(f"{type(error).__name__}: {error}", type(error).__name__)
        failure = str(error)
    outcome = compare(program, arrays, memory, before, untouched)
    on_a_device = execute in (on_device, on_device_decorated) or isinstance(execute, OnSimulator)
    if outcome.problem is None and on_a_device and evaluator.told:
        problem = tells.problem(program, evaluator.told, printed.getvalue(), failure)
        outcome = dataclasses.replace(outcome, problem=problem or None, kind="told" if problem else "")
    if program.ieee and outcome.problem is None and on_a_device:
        compare_bits(program, arrays, outcome)
    return outcome


def is_without_room(error: Exception) -> bool:
    """Whether a GPU is asked for more than it has."""
    return any(text in str(error) for text in _NO_ROOM)


def compare_bits(
    program: Program, arrays: dict[str, tuple[np.ndarray, np.ndarray]], outcome: Outcome
) -> None:
    """Where every operation is rounded exactly, fused products too are settled by the tile IR."""
    again = {name: view for name, (_, view) in build_all(program.tensors).items()}
    by_simplified_interpreter(program, again)
    for spec in program.tensors:
        want, got = (stored(view, spec).lo for view in (again[spec.name], arrays[spec.name][1]))
        wrong = ~same(want, got)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            outcome.kind = "bits"
            outcome.problem = f"{spec.name}{list(place)} is {got[place]!r}, the tile IR says {want[place]!r}"
            return


def compile_body(program: Program, tensors: dict[str, np.ndarray]) -> Callable[[object], None]:
    text, filename = render(program), f"<random program {program.seed}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, object] = {"tile": tile, **tensors}
    exec(compile(text, filename, "exec"), scope)
    return scope["body"]


def compare(
    program: Program,
    arrays: dict[str, tuple[np.ndarray, np.ndarray]],
    memory: dict[str, Value],
    before: dict[str, Value],
    untouched: dict[str, np.ndarray],
) -> Outcome:
    outcome = Outcome(None)
    for spec in program.tensors:
        whole, view = arrays[spec.name]
        want, old = memory[spec.name], before[spec.name]
        got = stored(view, spec).lo
        right = ref.accepts(want, got)
        changed = ~(same(want.lo, old.lo) & same(want.hi, old.hi))
        outcome.stored += int(changed.sum())
        outcome.exact += int((changed & want.exact).sum())
        outcome.unknown += int((changed & nothing_known(want)).sum())
        if not right.all():
            place = tuple(int(i) for i in np.argwhere(~right)[0])
            outcome.kind, outcome.problem = (
                "values",
                (
                    f"{spec.name}{list(place)} is {got[place]!r}, right is {want.lo[place]!r} to "
                    f"{want.hi[place]!r} ({int((~right).sum())} of {right.size} wrong)"
                ),
            )
            return outcome
        if hidden(whole, spec) != hidden(untouched[spec.name], spec):
            outcome.kind, outcome.problem = "memory", f"memory around {spec.name} was written"
            return outcome
    return outcome


def nothing_known(value: Value) -> np.ndarray:
    return value.unknown if value.dtype.is_float else ~value.exact


def hidden(memory: np.ndarray, spec: TensorSpec) -> bytes:
    """The bytes of a memory that are not the tensor's."""
    if any(axis.step == 0 for axis in spec.axes):
        return memory.tobytes()
    rest = memory.copy()
    view_of(rest, spec)[...] = 0
    return rest.tobytes()
