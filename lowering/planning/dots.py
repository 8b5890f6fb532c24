"""Which unit makes a product, and how its fragments and warps lie over the tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, DType, math_dtype
from gizml_tile.errors import Place
from gizml_tile.layout import Linear, vector_width
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.atoms import ATOMS, family
from gizml_tile.lowering.kernel_ir.instructions import Atom
from gizml_tile.lowering.planning.plan import UNIFORM, Dot, TileLayout
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.target import Target

MULTIPLY_ADD = "multiply-add"
ASK_FOR_TF32 = "ask for it with precision='tf32'"
_MOST_OF_MULTIPLY_ADDS = 64
_F32_BITS = 24
_VECTOR_BYTES = 16
_WIDE = 4  # neighbours that a thread reads of an operand at once for multiply-adds

# What an operand type of an atom holds exactly, if more than itself; of F32 cut to TF32, with 10 bits after
# the point, all but F32 itself.
_EXACT: dict[DType, frozenset[DType]] = {
    F16: frozenset({F16, FP8, E5M2}),
    BF16: frozenset({BF16, FP8, E5M2}),
    F32: frozenset({F32, F16, BF16, FP8, E5M2}),
}

Basis = tuple[int, int]
Shape = tuple[int, int, int]


def plan_dot(
    target: Target,
    a_dtype: DType,
    b_dtype: DType,
    shape: Shape,
    warps: int,
    precision: str = "f32",
    forced: str | None = None,
    a_registers: TileLayout | None = None,
    prefer_rows: bool = False,
    stored_bytes: int = 0,
    place: Place | None = None,
) -> tuple[Dot, Choice]:
    """How a product of ``shape`` (M, N, K) is made, and what else was considered.

    ``a_registers`` is the layout that a already has in registers: a grid of warps in which a can stay
    there is taken before others. ``prefer_rows`` puts the warps along the rows, so that a reduction along
    the columns needs no workgroup memory. ``stored_bytes`` are those of an element of the tensor that the
    result goes to, if it does. Raises TileError where a ``forced`` variant cannot serve.
    """
    choice = choose_unit(target, a_dtype, b_dtype, shape, precision, forced, place)
    atom = next((atom for atom in ATOMS if atom.name == choice.chosen), None)
    grids = sorted(_grids(shape, warps, atom), key=lambda grid: _traffic(shape, grid))
    if prefer_rows:
        grids.sort(key=lambda grid: -grid[0])
    operand = math_dtype(a_dtype)
    runs = [(1, 0)]
    if atom is not None and not target.can("matrix_load"):
        read = _VECTOR_BYTES // min(a_dtype.bytes, b_dtype.bytes)
        written = _VECTOR_BYTES // stored_bytes if stored_bytes else read
        runs = list(dict.fromkeys([(read, written), (read, read), (1, 0)]))
    dots = [
        _multiply_add(target, operand, shape, grid, warps)
        if atom is None
        else _of_atoms(atom, shape, grid, warps, *run)
        for grid in grids
        for run in runs
    ]
    stay = [dot for dot in dots if a_registers is not None and dot.a.linear == a_registers.linear]
    return (stay or dots)[0], choice


def choose_unit(
    target: Target,
    a_dtype: DType,
    b_dtype: DType,
    shape: Shape,
    precision: str = "f32",
    forced: str | None = None,
    place: Place | None = None,
) -> Choice:
    """The unit that makes a product, whatever the warps: the atom's name or ``MULTIPLY_ADD``."""
    candidates = _candidates(target, a_dtype, b_dtype, shape, precision)
    return Choice(candidates, choose("dot", candidates, forced, place))


def plan_by_halves(
    target: Target, dtypes: tuple[DType, DType], shape: Shape, warp_rows: Sequence[int], columns: int
) -> Dot:
    """A product of two blocks of bytes by an atom of twice their size, ``columns`` at a time.

    Operands lie as an atom of bytes has them, two of its steps of k together: whole words in rows along k.
    ``warp_rows`` are the steps of the bits of a warp's number along the rows.
    """
    chosen = choose_unit(target, *dtypes, shape).chosen
    atom = next(atom for atom in ATOMS if atom.name == chosen)
    size = (atom.m, atom.n, 2 * atom.k)
    bytes_ = [each for each in ATOMS if (each.a_dtype, each.b_dtype) == dtypes]
    lying = next(each for each in bytes_ if (each.m, each.n, each.k) == size)
    m, n, k = shape
    depth, across = _steps(lying.k, k), [(0, step) for step in _steps(lying.n, columns)]
    a = _cover(lying.a, (m, k), [(0, step) for step in depth], [(row, 0) for row in warp_rows])
    b = _cover(lying.b, (k, n), [*((step, 0) for step in depth), *across], [(0, 0)] * len(warp_rows))
    c = _cover(lying.c, (m, n), across, [(row, 0) for row in warp_rows])
    where = f"{atom.name} over rows"
    return Dot(
        atom,
        (atom.a_dtype, atom.b_dtype),
        (1 << len(warp_rows), 1),
        TileLayout(f"left operand of {where}", a),
        TileLayout(f"right operand of {where}", b),
        TileLayout(f"result of {where}", c),
    )


def automatic_warps(target: Target, elements: int, *, atoms: bool) -> int:
    """4 warps, or 8 where accumulators of so many elements would be too many for a thread of 4.

    Multiply-adds need registers for operands too, and other warps to hide what they wait for: measured on
    an H200 for F32, 64 accumulators a thread are faster than 128.
    """
    most = target.facts.accumulators
    most = most if atoms else min(most, _MOST_OF_MULTIPLY_ADDS)
    return 4 if elements <= 4 * target.facts.lanes * most else 8


# Variants


def _candidates(
    target: Target, a_dtype: DType, b_dtype: DType, shape: Shape, precision: str
) -> tuple[Candidate, ...]:
    dtypes, sums = (a_dtype, b_dtype), math_dtype(a_dtype)
    # Bytes are all that an atom of bytes takes.
    tried = [
        _candidate(target, atom, dtypes, shape, precision)
        for atom in family(target)
        if atom.c_dtype is sums and (atom.a_dtype.bytes > 1 or (atom.a_dtype, atom.b_dtype) == dtypes)
    ]
    how = f"{sums} fused multiply-adds in the order of k" if sums.is_float else f"{sums} products and sums"
    return (*tried, Candidate(MULTIPLY_ADD, True, how))


def _candidate(
    target: Target, atom: Atom, dtypes: tuple[DType, DType], shape: Shape, precision: str
) -> Candidate:
    for refusal in (
        _missing(target, atom),
        _inexact(atom, dtypes, precision),
        _misfit(atom, shape),
    ):
        if refusal:
            return Candidate(atom.name, False, refusal)
    return Candidate(atom.name, True, _recommendation(atom, dtypes, shape))


def _missing(target: Target, atom: Atom) -> str:
    return "" if target.can(atom.needs) else f"the target has no {atom.name}"


def _inexact(atom: Atom, dtypes: tuple[DType, DType], precision: str) -> str:
    """Why an atom would change the operands' values."""
    lost = [dtype for dtype in dict.fromkeys(dtypes) if dtype not in _EXACT.get(atom.a_dtype, dtypes)]
    if lost:
        return f"{' and '.join(map(str, lost))} would not convert to {atom.a_dtype} exactly"
    if atom.ignored_bits and F32 in dtypes and precision != "tf32":
        return f"operands are F32: TF32 keeps 10 bits of 23; {ASK_FOR_TF32}"
    return ""


def _misfit(atom: Atom, shape: Shape) -> str:
    """Why an atom does not cover a product. Rows and columns that are too few are computed repeatedly."""
    m, n, k = shape
    if k % atom.k:
        return f"K {k} is not a multiple of {atom.k}"
    if (m, n) == (1, 1):
        return "the result is a single element"
    return ""


def _recommendation(atom: Atom, dtypes: tuple[DType, DType], shape: Shape) -> str:
    parts = [f"K {shape[2]} in steps of {atom.k}"]
    converted = [dtype for dtype in dict.fromkeys(dtypes) if dtype not in (atom.a_dtype, atom.b_dtype)]
    if atom.ignored_bits:
        exactly = "" if F32 in dtypes else " exactly"
        parts.insert(0, f"operands become TF32{exactly}")
    elif converted:
        parts.insert(0, f"{' and '.join(map(str, converted))} converts to {atom.a_dtype} exactly")
    if atom.sum_bits < _F32_BITS:
        parts.append(f"sums keep about {atom.sum_bits} bits")
    for axis, size, least in (("rows", shape[0], atom.m), ("columns", shape[1], atom.n)):
        if size < least:
            parts.append(f"uses {size} of {least} {axis}")
    return ", ".join(parts)


# Warps


def _grids(shape: Shape, warps: int, atom: Atom | None) -> Iterator[tuple[int, int]]:
    """The grids of warps that leave each warp at least an atom; all that the tile is large enough for."""
    m, n = _repeats(shape, atom)
    busy = min(warps, m * n)
    for bit in range(bit_length(busy) + 1):
        rows, columns = 1 << bit, busy >> bit
        if rows <= m and columns <= n:
            yield rows, columns


def _repeats(shape: Shape, atom: Atom | None) -> tuple[int, int]:
    m, n, _ = shape
    return (m, n) if atom is None else (max(m // atom.m, 1), max(n // atom.n, 1))


def _traffic(shape: Shape, grid: tuple[int, int]) -> tuple[int, int]:
    """What all warps read of workgroup memory for one step of k; of equal grids the one with more rows."""
    m, n, _ = shape
    return grid[1] * m + grid[0] * n, -grid[0]


def _warp_bases(shape: Shape, grid: tuple[int, int], warps: int) -> list[Basis]:
    """Each warp has a block of its own, along the rows first; warps that are left over repeat others."""
    m, n, _ = shape
    bases = [((m // grid[0]) << bit, 0) for bit in range(bit_length(grid[0]))]
    bases += [(0, (n // grid[1]) << bit) for bit in range(bit_length(grid[1]))]
    return bases + [(0, 0)] * (bit_length(warps) - len(bases))


# Layouts


def _of_atoms(atom: Atom, shape: Shape, grid: tuple[int, int], warps: int, read: int, written: int) -> Dot:
    """Atoms side by side, so that a lane has ``read`` neighbours along k in a, ``written`` in a row of c.

    Where an atom gives it fewer, the next atoms' elements are what comes in between: which element of a tile
    an atom counts as its k or its column is all the same. 0 is for what an atom gives.
    """
    m, n, k = shape
    bases = _warp_bases(shape, grid, warps)
    rows, columns = _steps(atom.m, m // grid[0]), _steps(atom.n, n // grid[1])
    depth = _steps(atom.k, k)
    across, down = [(0, step) for step in columns], [(step, 0) for step in rows]
    a = _cover(atom.a, (m, k), [*((0, step) for step in depth), *down], [(row, 0) for row, _ in bases])
    b = _cover(
        atom.b, (k, n), [*((step, 0) for step in depth), *across], [(0, column) for _, column in bases]
    )
    c = _cover(atom.c, (m, n), [*across, *down], bases)
    own = vector_width(atom.a, 1)[0]
    along_k = _order(atom.k, own, max(read, own), len(depth))
    size = min(atom.n, n)
    own = min(vector_width(atom.c, 1)[0], size)
    along_n = _order(size, own, written or own, len(columns))
    where = f"{atom.name} over {grid[0]} x {grid[1]} warps"
    return Dot(
        atom,
        (atom.a_dtype, atom.b_dtype),
        grid,
        TileLayout(f"left operand of {where}", _reordered(a, 1, along_k)),
        TileLayout(f"right operand of {where}", _reordered(_reordered(b, 0, along_k), 1, along_n)),
        TileLayout(f"result of {where}", _reordered(c, 1, along_n)),
    )


def _order(size: int, own: int, wanted: int, steps: int) -> list[int]:
    """Where the bits of a coordinate go, so that a lane has the ``wanted`` neighbours, if there are so many.

    An atom has ``size`` elements along the axis, of which a lane has ``own`` side by side, and there are
    2 ** ``steps`` atoms: their steps come right after a lane's own elements, or what it has too much of
    after the other lanes'.
    """
    first, last = bit_length(own), bit_length(size)
    moved = min(bit_length(wanted) - first, steps)
    if moved < 0:
        kept, end = first + moved, last + moved
        return [*range(kept), *range(end, last), *range(kept, end), *range(last, last + steps)]
    return [
        *range(first),
        *range(first + moved, last + moved),
        *range(first, first + moved),
        *range(last + moved, last + steps),
    ]


def _reordered(layout: Linear, axis: int, order: list[int]) -> Linear:
    """A layout with the bits of one coordinate exchanged; those beyond the order's stay."""

    def moved(basis: Basis) -> Basis:
        number = basis[axis] >> len(order) << len(order)
        number |= sum((basis[axis] >> bit & 1) << place for bit, place in enumerate(order))
        return (number, basis[1]) if axis == 0 else (basis[0], number)

    return Linear(
        layout.shape, tuple((name, tuple(moved(basis) for basis in bases)) for name, bases in layout.inputs)
    )


def _steps(first: int, end: int) -> list[int]:
    """The powers of two from ``first`` to below ``end``."""
    return [first << bit for bit in range(max(bit_length(end) - bit_length(first), 0))]


def _cover(fragment: Linear, shape: tuple[int, int], repeats: list[Basis], warp: list[Basis]) -> Linear:
    """A fragment's layout repeated over a tile; what lies outside of a small tile repeats what is inside."""

    def inside(basis: Basis) -> Basis:
        return (basis[0] if basis[0] < shape[0] else 0, basis[1] if basis[1] < shape[1] else 0)

    register = [*map(inside, fragment.bases("register")), *repeats]
    return Linear.of(shape, register=register, lane=[*map(inside, fragment.bases("lane"))], warp=warp)


def _multiply_add(target: Target, operand: DType, shape: Shape, grid: tuple[int, int], warps: int) -> Dot:
    """Each thread has a block of c in pieces of up to 4 x 4; the pieces of lanes are neighbours."""
    m, n, k = shape
    warp = _warp_bases(shape, grid, warps)
    rows, columns = m // grid[0], n // grid[1]
    row_lanes, column_lanes = _lanes(target.facts.lanes, rows, columns)
    down, row_bases = _pieces(rows, row_lanes)
    across, column_bases = _pieces(columns, column_lanes)
    lane = _interleaved([(0, step) for step in column_bases], [(step, 0) for step in row_bases])
    lane += [(0, 0)] * (bit_length(target.facts.lanes) - len(lane))
    depth = _steps(1, k)
    c = Linear.of(
        (m, n),
        register=[*((0, step) for step in across), *((step, 0) for step in down)],
        lane=lane,
        warp=warp,
    )
    a = Linear.of(
        (m, k),
        register=[*((0, step) for step in depth), *((step, 0) for step in down)],
        lane=[(row, 0) for row, _ in lane],
        warp=[(row, 0) for row, _ in warp],
    )
    b = Linear.of(
        (k, n),
        register=[*((step, 0) for step in depth), *((0, step) for step in across)],
        lane=[(0, column) for _, column in lane],
        warp=[(0, column) for _, column in warp],
    )
    where = f"multiply-adds over {grid[0]} x {grid[1]} warps"
    result = UNIFORM if (m, n) == (1, 1) else TileLayout(f"result of {where}", c)
    return Dot(
        None,
        (operand, operand),
        grid,
        TileLayout(f"left operand of {where}", a),
        TileLayout(f"right operand of {where}", b),
        result,
    )


def _lanes(lanes: int, rows: int, columns: int) -> tuple[int, int]:
    """How many lanes go along the rows and the columns, so that a thread's block is nearest to square."""
    splits = [(1 << bit, lanes >> bit) for bit in range(bit_length(lanes) + 1)]

    def cost(split: tuple[int, int]) -> tuple[int, int]:
        held = max(rows // split[0], 1), max(columns // split[1], 1)
        return held[0] * held[1] * 2 * lanes + held[0] + held[1], split[0]

    row_lanes, column_lanes = min(splits, key=cost)
    return min(row_lanes, rows), min(column_lanes, columns)


def _pieces(size: int, lanes: int) -> tuple[list[int], list[int]]:
    """The steps along one axis of a thread's registers and of the lanes, which are in between."""
    held = size // lanes
    wide = min(held, _WIDE)
    return [*_steps(1, wide), *_steps(wide * lanes, size)], _steps(wide, wide * lanes)


def _interleaved(first: list[Basis], second: list[Basis]) -> list[Basis]:
    """Bases taken in turn, so that 8 neighbouring lanes share addresses in both operands."""
    longest = max(len(first), len(second))
    return [basis for bit in range(longest) for bases in (first, second) for basis in bases[bit : bit + 1]]
