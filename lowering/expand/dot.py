"""Products: fragments from registers or workgroup memory, step by step, into the accumulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gizml_tile.dtypes import F32, F64, I32, DType, math_dtype
from gizml_tile.layout import Linear, vector_width
from gizml_tile.layout.bits import bit_length, combine
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import Fragments
from gizml_tile.lowering.expand.sources import Registers, Shared, Source
from gizml_tile.lowering.expand.storage import convert
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import Atom, Matrix
from gizml_tile.lowering.planning.plan import Dot, TileLayout
from gizml_tile.nodes import Node

# So many bytes are read at a time of an operand that is contiguous along k.
_WIDE_BYTES = 16
# So many of a thread's multiply-adds are written out; longer products loop over blocks of k.
_MOST_WRITTEN = 4096

Step = Callable[[int], Value]


def expand_dot(x: Expansion, node: Node, a: Source, b: Source, c: Value | None) -> Value:
    """``c + a @ b`` in the registers of the product's layout, F32, F64 or I32; without ``c`` just a product.

    Operands in registers are in the layout and type of the product's fragments, those in workgroup memory
    in whatever type and order of memory they have. Barriers are the caller's.
    """
    dot = x.plan.dots[node]
    dtype = math_dtype(dot.operands[0])
    start = _spread(x.build, x.build.constant(0, dtype) if c is None else c, dot.c.registers)
    if dot.atom is not None:
        return _by_atoms(x, dot, dot.atom, a, b, start)
    return _by_multiply_adds(x, dot, a, b, start)


def _spread(build: Builder, value: Value, count: int) -> Value:
    """A value of one register as ``count``, also where it is a constant."""
    if value.count == count:
        return value
    return build.emit("pick", (value,), (0,) * count, value.dtype, count)


# On matrix units


def _by_atoms(x: Expansion, dot: Dot, atom: Atom, a: Source, b: Source, c: Value) -> Value:
    """``c + a @ b`` step by step, in the registers of the product's layout."""
    depth = dot.a.linear.shape[1]
    steps = depth // atom.k
    read_a = _atom_steps(x, a, dot.a, 1, steps, atom.a)
    read_b = _atom_steps(x, b, dot.b, 0, steps, atom.b)
    m = (dot.a.registers // steps) >> atom.a.bits("register")
    n = (dot.b.registers // steps) >> atom.b.bits("register")
    matrix = Matrix(atom, m, n, 1)
    # The next step's fragments are on their way while the unit works on this one's.
    ahead = read_a(0), read_b(0)
    for step in range(steps):
        left, right = ahead
        if step + 1 < steps:
            ahead = read_a(step + 1), read_b(step + 1)
        left, right = _fragment(x, atom, left, atom.a_dtype), _fragment(x, atom, right, atom.b_dtype)
        c = x.build.mma(matrix, left, right, c)
    return c


def _atom_steps(
    x: Expansion, source: Source, layout: TileLayout, axis: int, steps: int, fragment: Linear
) -> Step:
    """How an atom's fragments are read: those of several steps at once that a lane has side by side."""
    own, together = fragment.bits("register"), 1
    if isinstance(source, Shared):
        widest = _WIDE_BYTES // source.tile.dtype.bytes
        runs = vector_width(fragment, axis)[0], vector_width(layout.linear, axis)[0]
        together = max(min(runs[1], widest) // runs[0], 1)
    read = _steps(x, source, layout, axis, steps // together, own + bit_length(together))
    held: dict[int, Value] = {}

    def step(number: int) -> Value:
        group, inside = divmod(number, together)
        if group not in held:
            held.clear()
            held[group] = read(group)
        return _step_of(x.build, held[group], inside, together, 1 << own)

    return step


def by_halves(x: Expansion, dot: Dot, a: Source, b: Source, c: Value) -> Value:
    """``c + a @ b`` of operands of bytes that lie as an atom of bytes has them, by one of twice their size.

    That takes the first halves of all words, and then the others: the same elements of k of both operands.
    """
    atom = dot.atom
    assert atom is not None
    steps = dot.a.linear.shape[1] // (2 * atom.k)
    bits = atom.a.bits("register") + 1, atom.b.bits("register") + 1
    read_a, read_b = _steps(x, a, dot.a, 1, steps, bits[0]), _steps(x, b, dot.b, 0, steps, bits[1])
    matrix = Matrix(atom, (dot.a.registers // steps) >> bits[0], (dot.b.registers // steps) >> bits[1], 1)
    pair = bit_length(4 // atom.a_dtype.bytes)
    for step in range(steps):
        left, right = read_a(step), read_b(step)
        for half in range(2):
            first, second = (x.build.pick(each, _half(each.count, pair, half)) for each in (left, right))
            first = convert(x.build, x.target, first, atom.a_dtype)
            second = convert(x.build, x.target, second, atom.b_dtype)
            c = x.build.mma(matrix, first, second, c)
    return c


def _half(count: int, bit: int, value: int) -> list[int]:
    """The registers whose number has a bit of that value."""
    return [register for register in range(count) if register >> bit & 1 == value]


def _fragment(x: Expansion, atom: Atom, value: Value, dtype: DType) -> Value:
    """What was read, in the type that the unit takes, and rounded to the bits that it looks at."""
    if atom.ignored_bits and value.dtype is F32:
        return _rounded(x.build, value, atom.ignored_bits)
    return convert(x.build, x.target, value, dtype)


def _rounded(build: Builder, value: Value, ignored_bits: int) -> Value:
    """To nearest, ties away from zero: the unit cuts off the last bits. A NaN stays as it is."""
    half = build.add(build.bitcast(value, I32), build.constant(1 << ignored_bits - 1, I32))
    return build.select(build.map("eq", value, value), build.bitcast(half, F32), value)


# By multiply-adds


def _by_multiply_adds(x: Expansion, dot: Dot, a: Source, b: Source, c: Value) -> Value:
    depth = dot.a.linear.shape[1]
    block = max(_MOST_WRITTEN // c.count, 1)
    while isinstance(a, Shared) and isinstance(b, Shared) and block < depth:
        pieces = _piece(a, 1, block), _piece(b, 0, block)
        if pieces[0] is not None and pieces[1] is not None:
            return _block_by_block(x, dot, pieces[0], pieces[1], depth // block, block, c)
        block *= 2
    return _written_out(x, dot, a, b, depth, c)


def _block_by_block(x: Expansion, dot: Dot, a: _Piece, b: _Piece, blocks: int, block: int, c: Value) -> Value:
    """A loop over blocks of k, in their order."""
    build = x.build

    def body(counter: Value, carried: tuple[Value, ...]) -> list[Value]:
        left, right = a.at(build, counter), b.at(build, counter)
        return [_written_out(x, dot, left, right, block, carried[0])]

    first, last, step = (build.constant(number, I32) for number in (0, blocks, 1))
    return build.loop(first, last, step, [c], body)[0]


def _written_out(x: Expansion, dot: Dot, a: Source, b: Source, depth: int, c: Value) -> Value:
    left = _column_reader(x, a, _first(dot.a, 1, depth), 1, depth, dot.operands[0])
    right = _column_reader(x, b, _first(dot.b, 0, depth), 0, depth, dot.operands[1])
    for k in range(depth):
        c = _rank_one(x.build, left(k), right(k), c)
    return c


@dataclass(frozen=True, slots=True)
class _Piece:
    """The first of a tile's equal pieces along k, and how many elements further on the next one is."""

    first: Shared
    stride: int

    def at(self, build: Builder, number: Value) -> Shared:
        """A piece by its number."""
        start = build.mul(number, build.constant(self.stride, I32))
        base = start if self.first.base is None else build.add(self.first.base, start)
        return replace(self.first, base=base)


def _piece(source: Shared, axis: int, size: int) -> _Piece | None:
    """The pieces of ``size`` along an axis; None where a piece is not simply moved against the others."""
    tile = source.tile
    bases = (tile.rows, tile.columns)
    inside, beyond = bases[axis][: bit_length(size)], bases[axis][bit_length(size) :]
    within = 0
    for basis in (*inside, *bases[1 - axis]):
        within |= basis
    if any(basis != beyond[0] << bit or basis & within for bit, basis in enumerate(beyond)):
        return None
    if axis == 0:
        part = replace(tile, shape=(size, tile.shape[1]), rows=inside)
    else:
        part = replace(tile, shape=(tile.shape[0], size), columns=inside)
    return _Piece(replace(source, tile=part), beyond[0])


def _first(layout: TileLayout, axis: int, size: int) -> TileLayout:
    """An operand's layout for its first ``size`` steps of k."""
    linear = layout.linear
    shape = (size, linear.shape[1]) if axis == 0 else (linear.shape[0], size)
    kept = [basis for basis in linear.bases("register") if basis[axis] < size]
    return TileLayout(layout.name, linear.with_bases("register", kept).with_shape(shape))


def _rank_one(build: Builder, a: Value, b: Value, c: Value) -> Value:
    """``c[i, j] + a[i] * b[j]``, i slowest."""
    if c.dtype in (F32, F64):
        return build.outer(a, b, c)
    rows = build.pick(a, [row for row in range(a.count) for _ in range(b.count)])
    columns = build.pick(b, [*range(b.count)] * a.count)
    return build.add(c, build.mul(rows, columns))


def _column_reader(
    x: Expansion, source: Source, layout: TileLayout, axis: int, depth: int, dtype: DType
) -> Step:
    """Reads a thread's elements at one k after the other, several at once where they are neighbours."""
    together = 1
    # Along k the lanes' rows are up to four apart. Banks are free of conflicts while at most four of any
    # eight lanes have rows of their own; a result with few rows or few columns can have eight.
    if isinstance(source, Shared) and _is_fast(source, axis):
        together = min(_WIDE_BYTES // source.tile.dtype.bytes, depth)
    read = _steps(x, source, layout, axis, depth // together, bit_length(together))
    held: list[Value] = []

    def column(k: int) -> Value:
        if k % together == 0:
            held[:] = [read(k // together)]
        one = x.build.pick(held[0], range(k % together, held[0].count, together))
        return convert(x.build, x.target, one, dtype)

    return column


def _is_fast(source: Shared, axis: int) -> bool:
    """Whether neighbours along an axis are neighbours in workgroup memory."""
    bases = (source.tile.rows, source.tile.columns)[axis]
    return bool(bases) and bases[0] == 1


# Steps of k


def _steps(x: Expansion, source: Source, layout: TileLayout, axis: int, steps: int, own: int) -> Step:
    """How one step of k is read, in a layout with ``own`` register bits below those of the steps.

    ``axis`` is k's in the operand.
    """
    register = layout.linear.bases("register")
    bits = bit_length(steps)
    if isinstance(source, Registers):
        return lambda step: _step_of(x.build, source.value, step, steps, 1 << own)
    linear = layout.linear.with_bases("register", (*register[:own], *register[own + bits :]))
    bases = [source.tile.offset(*basis) for basis in register[own : own + bits]]
    return Fragments(x, source, linear, [combine(bases, step) for step in range(steps)]).read


def _step_of(build: Builder, value: Value, step: int, steps: int, own: int) -> Value:
    """The registers of one step among those of a whole operand."""
    return build.pick(
        value,
        [
            first + register
            for first in range(step * own, value.count, steps * own)
            for register in range(own)
        ],
    )
