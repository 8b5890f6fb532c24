"""Kernels of one product, built by hand: operands to workgroup memory, the product, the result out."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gizml_tile.dtypes import F32, I32, DType, to_numpy
from gizml_tile.layout import Linear, blocked
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.dot import expand_dot
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import make_index
from gizml_tile.lowering.expand.places import coordinate, holder
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.sources import Registers, Shared, Source
from gizml_tile.lowering.expand.values import make_tile
from gizml_tile.lowering.kernel_ir.check import check
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Kernel, Parameter
from gizml_tile.lowering.planning.dots import plan_dot
from gizml_tile.lowering.planning.plan import Dot, Plan, TileLayout
from gizml_tile.lowering.planning.shared import shared_tile
from gizml_tile.lowering.planning.signature import Signature
from gizml_tile.lowering.simulate.findings import Findings
from gizml_tile.lowering.simulate.simulation import simulate
from gizml_tile.lowering.simulate.tensors import Memory
from gizml_tile.nodes import Region, Tensor, TileProgram, make, param
from gizml_tile.target import Target


@dataclass(frozen=True)
class Case:
    """One product: ``fast`` has the contiguous axis of a and of b in workgroup memory.

    ``registers`` names the operands ("a", "b") that are in registers, ``slot`` is the slot of the
    buffers that operands lie in.
    """

    arch: str
    a_dtype: DType
    b_dtype: DType
    shape: tuple[int, int, int]
    fast: tuple[int, int] = (1, 1)
    warps: int = 4
    precision: str = "f32"
    forced: str | None = None
    registers: str = ""
    accumulates: bool = True
    slot: int = 0
    prefer_rows: bool = False

    @property
    def target(self) -> Target:
        return Target("cuda", self.arch)

    def plan(self) -> Dot:
        return plan_dot(
            self.target,
            self.a_dtype,
            self.b_dtype,
            self.shape,
            self.warps,
            self.precision,
            self.forced,
            prefer_rows=self.prefer_rows,
        )[0]


def product_kernel(case: Case) -> tuple[Kernel, Dot]:
    """A kernel that writes ``c + a @ b`` over c, all tensors in row-major order."""
    m, n, k = case.shape
    dot = case.plan()
    c_dtype = F32 if case.a_dtype.is_float else I32
    tensors = (Tensor("a", case.a_dtype, 2), Tensor("b", case.b_dtype, 2), Tensor("c", c_dtype, 2))
    a, b = param((m, k), case.a_dtype, 0), param((k, n), case.b_dtype, 1)
    node = make("dot", (a, b), case.precision)
    program = TileProgram("product", tensors, (), (2,), Region((a, b), (node,), ()))
    nothing = {each.name: {} for each in fields(Plan)}
    known = {"program": program, "target": case.target, "warps": case.warps, "dots": {node: dot}}
    known["specialised"] = None
    plan = Plan(**nothing | known | {"signature": Signature((), (), (), 1, False, False), "group": 0})
    x = Expansion(plan, make_tile, make_index, convert)
    sources = [_source(x, case, dot, number) for number in (0, 1)]
    x.memory.barrier()
    c = _load(x, 2, c_dtype, dot.c.linear) if case.accumulates else None
    result = expand_dot(x, node, sources[0], sources[1], c)
    x.memory.barrier()  # several threads may have read an element of c that one of them writes
    _store(x, 2, result, dot.c.linear)
    pointers = tuple(Parameter("pointer", number) for number in range(3))
    kernel = Kernel(
        "product", case.target, tensors, pointers, tuple(x.memory.buffers), 32 * case.warps, x.build.body()
    )
    check(kernel)
    return kernel, dot


def _source(x: Expansion, case: Case, dot: Dot, number: int) -> Source:
    """An operand, from its tensor."""
    dtype = (case.a_dtype, case.b_dtype)[number]
    layout = (dot.a, dot.b)[number]
    if "ab"[number] in case.registers:
        from gizml_tile.lowering.expand.storage import convert as converted

        value = _load(x, number, dtype, layout.linear)
        return Registers(converted(x.build, x.target, value, dot.operands[number]), layout)
    shape = layout.linear.shape
    tile = shared_tile(dtype, shape, case.fast[number])
    buffer = x.memory.allocate("ab"[number], dtype, tile.elements * (case.slot + 1))
    base = x.build.constant(case.slot * tile.elements, I32) if case.slot else None
    spread = blocked(shape, order=(case.fast[number], 1 - case.fast[number]), warps=case.warps)
    x.memory.before_write(buffer)
    store_shared(x, buffer, tile, base, _load(x, number, dtype, spread), TileLayout("blocked", spread))
    return Shared(buffer, tile, base)


def _places(x: Expansion, linear: Linear) -> tuple[object, tuple[tuple[int, int], ...]]:
    columns = linear.shape[1]
    row, rows = coordinate(x.build, linear, 0)
    column, across = coordinate(x.build, linear, 1)
    offset = x.build.add(x.build.mul(row, x.build.constant(columns, I32)), column)
    return offset, tuple((0, above * columns + beside) for above, beside in zip(rows, across, strict=True))


def _load(x: Expansion, tensor: int, dtype: DType, linear: Linear):
    offset, places = _places(x, linear)
    return x.build.load(Access(GLOBAL, tensor, 1, places), offset, dtype)


def _store(x: Expansion, tensor: int, value, linear: Linear) -> None:
    offset, places = _places(x, linear)
    free = linear.free_bits("register")
    kept = [register for register in range(linear.size("register")) if not register & free]
    mask = holder(x.build, linear.free_bits("lane"), linear.free_bits("warp"))
    x.build.store(
        Access(GLOBAL, tensor, 1, tuple(places[register] for register in kept)),
        x.build.pick(value, kept),
        offset,
        mask,
    )


def run(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, Findings, Dot]:
    """The result, the exact product in float64, the bound of a summation, and what was found."""
    kernel, dot = product_kernel(case)
    m, n, k = case.shape
    random = np.random.default_rng(seed)
    a, b = _numbers(random, (m, k), case.a_dtype), _numbers(random, (k, n), case.b_dtype)
    c = _numbers(random, (m, n), F32 if case.a_dtype.is_float else I32)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    start = c.astype(np.float64) if case.accumulates else np.zeros((m, n))
    exact = start + wide_a @ wide_b
    bound = (k + 1) * 2.0**-24 * (np.abs(start) + np.abs(wide_a) @ np.abs(wide_b))
    found = simulate(kernel, [Memory.of(each) for each in (a, b, c)])
    return c.astype(np.float64), exact, bound, found, dot


def _numbers(random: np.random.Generator, shape: tuple[int, int], dtype: DType) -> np.ndarray:
    if dtype.is_integer:
        low, high = (0, 256) if dtype is DType.U8 else (-128, 128)
        return random.integers(low, high, shape).astype(to_numpy(dtype))
    return random.standard_normal(shape).astype(np.float32).astype(to_numpy(dtype))
