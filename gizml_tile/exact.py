"""Launches with sums whose order of additions leaves no trace: several programs, one after the other.

What each of them does is told in lowering/tile_passes/exact_sums.py. The tensors that they have beside the
launch's own live for as long as it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from gizml_tile import build, gpu
from gizml_tile.arguments import TensorArgument
from gizml_tile.dtypes import F32, I32, I64
from gizml_tile.errors import TileError
from gizml_tile.grids import Grid
from gizml_tile.launch import layout, lock, tracing
from gizml_tile.lowering.tile_passes import exact_sums
from gizml_tile.lowering.tile_passes.exact_sums import BIAS, COUNT_BITS, FRACTION_BITS, NOT_FINITE, UNIT
from gizml_tile.lowering.tile_passes.pipeline import settle
from gizml_tile.nodes import ACCESSES, EFFECTS, READS, Node, Tensor, TileProgram, tensor_of
from gizml_tile.program import Program, trace
from gizml_tile.runtime.tensors import TensorInfo, may_overlap
from gizml_tile.target import Target
from gizml_tile.text import text

_BLOCK, _LINE = (8, 128), (1024,)


@dataclass(frozen=True, slots=True)
class Step:
    """One of a launch's programs, and the numbers of its tensors: the launch's, and the further ones after.

    Its grid is the launch's, or all blocks of its first tensor if it is ``whole``.
    """

    program: TileProgram
    tensors: tuple[int, ...]
    whole: bool

    def grid(self, infos: Sequence[TensorInfo], grid: Grid) -> Grid:
        """The grid for the step's own tensors in a launch on a grid."""
        if not self.whole:
            return grid
        shape = infos[0].shape
        if len(shape) == 1:
            return (-(-shape[0] // _LINE[0]),)
        across, down = -(-shape[-1] // _BLOCK[1]), -(-shape[-2] // _BLOCK[0])
        return (across, down, math.prod(shape[:-2]))


def _whole(
    name: str, body: Callable[..., None], tensors: Sequence[Tensor], numbers: Sequence[int]
) -> Step:
    """A step over all blocks of tensors with these numbers in the launch."""
    given = [TensorArgument(each.name, each.dtype, each.rank, number) for number, each in enumerate(tensors)]
    with tracing():
        traced = trace(name, lambda p: body(p, *given), grid_rank=min(tensors[0].rank, 3))
    order = [each.number for each in traced.tensors if isinstance(each, TensorArgument)]
    return Step(traced.program, tuple(numbers[number] for number in order), True)


def _clear(p: Program, sizes: TensorArgument, sums: TensorArgument) -> None:
    block, at = _place(p, sizes)
    p.write(sizes, block).put(p.zeros(block, I32), at)
    p.write(sums, block).put(p.zeros(block, I64), at)


def _finish(p: Program, sizes: TensorArgument, sums: TensorArgument, out: TensorArgument) -> None:
    """Add each sum once, as the F32 nearest to it; what nothing was added to keeps its bits."""
    block, at = _place(p, sizes)
    size, total = p.read(sizes, block).at(at), p.read(sums, block).at(at)
    before = p.read(out, block).at(at)
    shift = size.sub(UNIT)
    half = shift.shr(1)
    finite = total.to(F32).mul(_power(half)).mul(_power(shift.sub(half)))
    up = total.and_((1 << COUNT_BITS) - 1).ne(0).select(math.inf, 0.0)
    down = total.shr(COUNT_BITS).ne(0).select(-math.inf, 0.0)
    added = size.eq(NOT_FINITE).select(up.add(down), finite)
    after = before.to(F32).add(added).to(out.dtype)
    p.write(out, block).put(size.eq(0).select(before, after), at)


def _power(exponent: Any) -> Any:
    return exponent.add(BIAS).shl(FRACTION_BITS).bitcast(F32)


def _place(p: Program, tensor: TensorArgument) -> tuple[tuple[int, ...], list[Any]]:
    """The block of a tensor that a program has, and where."""
    if tensor.ndim == 1:
        return _LINE, [p.id(0)]
    before: list[Any] = []
    number = p.id(2) if tensor.ndim > 2 else None
    for size in reversed(tensor.shape[:-2]):
        assert number is not None
        before.insert(0, number.rem(size))
        number = number.div(size)
    return _BLOCK, [*before, p.id(1), p.id(0)]


@dataclass(frozen=True, slots=True)
class ExactSums:
    """How a program with exact sums is launched: ``steps`` in order, with ``more`` tensors after its own.

    Those are sizes and sums for each tensor that is ``summed``.
    """

    program: TileProgram
    summed: tuple[int, ...]
    more: tuple[Tensor, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, program: TileProgram) -> ExactSums:
        """The launches of a program as it was traced."""
        # Both runs compute what is added with the same bits, whatever else they do or leave out; and what
        # turns out to add nothing, in a loop without turns, has no sums.
        settled = settle(program)
        summed, more = exact_sums.summed(settled), exact_sums.more_tensors(settled)
        own, name = len(program.tensors), program.name
        every = tuple(range(own + len(more)))
        before, after = [], []
        for place, number in enumerate(summed):
            sizes, sums = more[2 * place : 2 * place + 2]
            numbers = own + 2 * place, own + 2 * place + 1
            before.append(_whole(f"{name}_clear", _clear, (sizes, sums), numbers))
            into = program.tensors[number]
            after.append(_whole(f"{name}_finish", _finish, (sizes, sums, into), (*numbers, number)))
        twice = [Step(make(settled), every, False) for make in (exact_sums.sizing, exact_sums.summing)]
        return cls(program, summed, more, (*before, *twice, *after))

    def check(self, infos: Sequence[TensorInfo]) -> None:
        """Raise TileError where a second run of a program would see what the first did, or sums an order."""
        program = self.program
        summed = exact_sums.summed(program)
        accesses = [node for node in program.body.walk() if node.op in ACCESSES]
        stores = [node for node in accesses if node.op in EFFECTS]
        for node in stores:
            if tensor_of(node) in summed and not exact_sums.is_exact(node):
                raise TileError(
                    f"{_name(program, node)} is written and, with deterministic=True, added to: such "
                    "additions have no place in a program's order; write to another tensor",
                    node.place,
                )
            for number in summed:
                if number != tensor_of(node) and may_overlap(infos[number], infos[tensor_of(node)]):
                    raise TileError(
                        f"{_name(program, node)} is written, and shares memory with "
                        f"{program.tensors[number].name}, which is added to with deterministic=True: such "
                        "additions have no place in a program's order; write to memory of its own",
                        node.place,
                    )
        for node in (each for each in accesses if each.op in READS):
            for store in stores:
                read, written = tensor_of(node), tensor_of(store)
                if read == written or may_overlap(infos[read], infos[written]):
                    raise TileError(
                        f"{program.name} adds with deterministic=True, for which programs run twice, and "
                        f"reads {_name(program, node)} where it writes {_name(program, store)}; write to "
                        "another tensor",
                        node.place,
                    )

    def sizes(self, infos: Sequence[TensorInfo]) -> list[int]:
        """The bytes that each of the further tensors takes in a launch."""
        return [max(1, math.prod(shape)) * tensor.dtype.bytes for shape, tensor in self._shapes(infos)]

    def further(self, infos: Sequence[TensorInfo], places: Sequence[tuple[int, Any]]) -> list[TensorInfo]:
        """Those tensors, each in memory at an address, which its owner keeps."""
        made = []
        for (shape, tensor), (pointer, owner) in zip(self._shapes(infos), places, strict=True):
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            made.append(TensorInfo(tensor.dtype, shape, strides, pointer, infos[0].device, "", owner))
        return made

    def _shapes(self, infos: Sequence[TensorInfo]) -> list[tuple[tuple[int, ...], Tensor]]:
        return [(infos[self.summed[place // 2]].shape, tensor) for place, tensor in enumerate(self.more)]


def _name(program: TileProgram, node: Node) -> str:
    return program.tensors[tensor_of(node)].name


@dataclass(frozen=True, slots=True)
class _Known:
    """What launches of one kind have in common: how large the further tensors are, where they began in
    ``units`` of alignment, and of each step the code, the numbers of its tensors, its grid, whether whole."""

    sizes: list[int]
    units: list[int]
    launches: list[tuple[Any, tuple[int, ...], Grid, bool]]


# What an address leaves over after this says all that code may rest on.
_UNIT_BYTES = 16
# More kinds of launches than this of one kernel take turns, and the oldest is forgotten.
_KINDS = 64


def _kind(tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Grid) -> Hashable:
    """What code and checks of a launch rest on: not where its tensors are, but which of them meet."""
    stretches = [each.extent for each in tensors]
    meeting = [
        (one, other)
        for one, (low, high) in enumerate(stretches)
        for other, (start, end) in enumerate(stretches[:one])
        if max(low, start) < min(high, end)
    ]
    described = [(each.dtype, each.shape, each.strides, each.pointer % _UNIT_BYTES) for each in tensors]
    return tensors[0].device, grid, tuple(scalars), tuple(described), tuple(meeting)


class ExactKernel:
    """The code of a launch with exact sums, for the CPU or a GPU."""

    def __init__(self, program: TileProgram, target: Target) -> None:
        self._sums = ExactSums.of(program)
        self._target = None if target.kind == "cpu" else target
        self._simplified: dict[tuple[int, bool], TileProgram] = {}
        self._built: dict[Any, Any] = {}
        self._known: dict[Hashable, _Known] = {}

    def loaded(self, ordinal: int) -> None:
        """What a device needs of it is loaded when it is launched."""

    def workgroups(self, grid: Sequence[int], ordinal: int) -> None:
        """Each step has its own."""

    def __call__(
        self,
        tensors: Sequence[TensorInfo],
        scalars: Sequence[int | float],
        grid: Grid,
        stream: object = None,
    ) -> None:
        """Launch step after step; on a GPU in the order of a stream."""
        kind = _kind(tensors, scalars, grid)
        known = self._known.get(kind)
        if known is None:
            self._sums.check(tensors)
        sizes = self._sums.sizes(tensors) if known is None else known.sizes
        if self._target is None:
            rooms = [np.empty(size, np.uint8) for size in sizes]
            places = [(room.ctypes.data, room) for room in rooms]
            self._run(kind, tensors, places, scalars, grid)
            return
        memory = import_module(f"gizml_tile.runtime.{self._target.kind}.memory")
        with memory.lent(tensors, sizes, stream) as (places, on_stream):
            self._run(kind, tensors, places, scalars, grid, *on_stream)

    def _run(
        self,
        kind: Hashable,
        tensors: Sequence[TensorInfo],
        places: Sequence[tuple[int, Any]],
        scalars: Sequence[int | float],
        grid: Grid,
        *stream: object,
    ) -> None:
        every = [*tensors, *self._sums.further(tensors, places)]
        units = [place % _UNIT_BYTES for place, _ in places]
        known = self._known.get(kind)
        if known is None or known.units != units:
            # All steps can be made, or nothing is launched.
            known = _Known(self._sums.sizes(tensors), units, self._launches(every, scalars, grid))
            with lock():
                while len(self._known) >= _KINDS:
                    self._known.pop(next(iter(self._known)))
                self._known[kind] = known
        for code, numbers, own, whole in known.launches:
            code([every[number] for number in numbers], () if whole else scalars, own, *stream)

    def _launches(
        self, tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Grid
    ) -> list[tuple[Any, tuple[int, ...], Grid, bool]]:
        launches = []
        for number, step in enumerate(self._sums.steps):
            infos = [tensors[each] for each in step.tensors]
            own, numbers = step.grid(infos, grid), () if step.whole else scalars
            if 0 not in own:
                code = self._code(number, infos, numbers, own)
                launches.append((code, step.tensors, own, step.whole))
        return launches

    def _code(
        self, number: int, infos: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Grid
    ) -> Any:
        traced = program = self._sums.steps[number].program
        wanted: Any = layout(infos, frozenset(program.writes), grid)
        if self._target is not None:
            alias = wanted.may_alias
            if (number, alias) not in self._simplified:
                self._simplified[number, alias] = build.simplified(program, wanted)
            program = self._simplified[number, alias]
            wanted = gpu.gpu_layout(program, self._target, infos, grid, scalars, may_alias=alias)
        found = self._built.get((number, wanted))
        if found is None:
            with lock():
                digest = build.digest_of(text(traced))
                if self._target is None:
                    found = build.executable(lambda: program, wanted, digest)
                else:
                    found = gpu.executable(lambda: program, wanted, digest, lambda: None)
                self._built[number, wanted] = found
        return found
