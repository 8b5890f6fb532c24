"""Kernels built by hand around parts of the expansion, and run in the simulator."""

from __future__ import annotations

import math

import numpy as np

from gizml_tile.dtypes import I32, MASK, to_numpy
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand.control import expand_region, make_tile
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import define_ids, make_index
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Kernel, Parameter
from gizml_tile.lowering.planning.accesses import plan_access
from gizml_tile.lowering.planning.bounds import facts
from gizml_tile.lowering.planning.plan import Plan, TileLayout
from gizml_tile.lowering.planning.signature import Signature
from gizml_tile.lowering.simulate import Memory, simulate
from gizml_tile.nodes import Region, Tensor, TileProgram
from gizml_tile.target import Target

LANES = 32


def empty_program(*dtypes):
    """A program of flat tensors and no nodes."""
    tensors = tuple(Tensor(f"t{number}", dtype, 1) for number, dtype in enumerate(dtypes))
    return TileProgram("test", tensors, (), (), Region((), (), ()))


def expansion(program, warps=1, arch="sm_90a", signature=None, layouts=(), accesses=()):
    """An expansion of a program with some of its plan given."""
    signature = signature or Signature(
        tuple(("unit",) for _ in program.tensors), (16,) * len(program.tensors), (), 1, False, False
    )
    plan = Plan(
        program,
        Target("cuda", arch),
        signature,
        warps,
        1,
        0,
        dict(layouts),
        dict(accesses),
        {},
        {},
        frozenset(),
        {},
        {},
    )
    return Expansion(plan, make_tile, make_index, convert)


def kernel_of(x):
    """The kernel that was built in an expansion."""
    body = x.build.body()
    used = {each.attr for each in body.walk() if each.op == "parameter"}
    pointers = tuple(Parameter("pointer", number) for number in range(len(x.program.tensors)))
    others = sorted(used, key=lambda each: (each.kind, each.number, each.axis))
    return Kernel(
        "test",
        x.target,
        x.program.tensors,
        (*pointers, *others),
        tuple(x.memory.buffers),
        x.plan.threads,
        body,
    )


def take(x, tensor, count, dtype):
    """``count`` registers of each thread from a flat tensor, thread after thread."""
    return x.build.load(_flat(tensor, count), _first(x, count), dtype)


def give(x, tensor, value):
    """Store each thread's registers to a flat tensor, thread after thread."""
    x.build.store(_flat(tensor, value.count), value, _first(x, value.count))


def _first(x, count):
    return x.build.mul(x.build.thread(), x.build.constant(count, I32))


def _flat(tensor, count):
    return Access(GLOBAL, tensor, 1, tuple((0, number) for number in range(count)))


def holders(layout: Linear):
    """The element number of every holder: an array of [threads, registers]."""
    columns = layout.shape[1]
    rows = []
    for warp in range(layout.size("warp")):
        for lane in range(layout.size("lane")):
            table = layout.table("register", warp=warp, lane=lane)
            rows.append([row * columns + column for row, column in table])
    return np.array(rows)


def distinct(elements, dtype):
    """So many values of a type, as different as it lets them be."""
    kind = to_numpy(dtype)
    if dtype is MASK:
        return np.random.default_rng(elements).integers(0, 2, elements).astype(bool)
    if kind.itemsize == 1:
        return (np.arange(elements) * 37 % 251).astype(np.uint8).view(kind)
    if kind.itemsize == 2:
        return (np.arange(elements) % 60000).astype(np.uint16).view(kind)
    return np.arange(elements).astype(kind)


def run(x, *arrays, grid=(1,), scalars=()):
    """Simulate what was built on arrays; they are written in place. Gives the findings."""
    kernel = kernel_of(x)
    memories = [each if isinstance(each, Memory) else Memory.of(each) for each in arrays]
    return simulate(kernel, memories, scalars, grid)


def named(linear):
    """A layout for tests."""
    return TileLayout("test", linear)


def strided(rng, shape, dtype, steps=None, gap=None):
    """A tensor of random values in memory of its own, with guards around: a `Memory` and its view.

    ``steps`` are the strides' kinds along the axes: 1 in order, -1 reversed, 2 with gaps, 0 repeated;
    ``gap`` is how many elements lie between rows.
    """
    steps = steps or [1] * len(shape)
    kind = to_numpy(dtype)
    strides, extent = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = extent * steps[axis]
        if steps[axis]:
            extent *= max(shape[axis], 1) * abs(steps[axis])
            extent += gap or 0
    before = 64 - sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if stride < 0)
    data = random_values(rng, before + extent + 64, dtype)
    byte_strides = [stride * kind.itemsize for stride in strides]
    view = np.ndarray(tuple(shape), kind, data.view(np.uint8).data, before * kind.itemsize, byte_strides)
    return Memory(data, before, tuple(shape), tuple(strides)), view


def random_values(rng, count, dtype):
    """Values of a type that conversions to narrower types do not make equal."""
    kind = to_numpy(dtype)
    if dtype is MASK:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_float:
        return (rng.standard_normal(count) * 40).astype(np.float32).astype(kind)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return rng.integers(low, high, count, dtype=kind, endpoint=True)


def signature_of(program, memories, shapes, grid, scalars=(), wide=False, may_alias=False):
    """What a launch on these tensors tells a plan."""
    strides, alignments = [], []
    for tensor, memory in zip(program.tensors, memories, strict=True):
        kinds = ["unit" if s == 1 else "zero" if s == 0 else "any" for s in memory.strides]
        numbers = [memory.offset, 16, *(s for s in memory.strides if s not in (0, 1))]
        size = tensor.dtype.bytes
        strides.append(tuple(kinds))
        alignments.append(math.gcd(*(number * size for number in numbers), 16))
    known = facts(program, shapes, grid, scalars)
    return Signature(tuple(strides), tuple(alignments), known, len(grid), wide, may_alias)


def run_program(program, memories, grid, layouts, warps=1, scalars=(), wide=False, may_alias=False):
    """Expand a program with given layouts of its reads and puts, and simulate it; the findings."""
    shapes = [memory.shape for memory in memories]
    signature = signature_of(program, memories, shapes, grid, scalars, wide, may_alias)
    nodes = [node for node in program.body.walk() if node.op in ("read", "put")]
    homes, accesses = {}, {}
    for node, known in zip(nodes, signature.facts, strict=True):
        accesses[node], _ = plan_access(program, node, layouts[node], signature, known)
        if node.op == "read":
            homes[node] = layouts[node]
    x = expansion(program, warps, signature=signature, layouts=homes, accesses=accesses)
    define_ids(x, 0, x.build.workgroup(0))
    expand_region(x, program.body)
    return x, run(x, *memories, grid=grid, scalars=scalars)
