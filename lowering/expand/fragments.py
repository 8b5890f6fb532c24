"""Operands of products on their way from workgroup memory to the registers of a warp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gizml_tile.dtypes import DType
from gizml_tile.layout import Linear
from gizml_tile.layout.bits import combine
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import crossed, with_bits
from gizml_tile.lowering.expand.shared import shared_side
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.expand.storage import convert
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access, MatrixAccess
from gizml_tile.lowering.planning.plan import SharedTile, TileLayout

_WORD_BYTES = 4
_ROW_BYTES = 16  # one row of an 8x8 matrix


@dataclass(frozen=True, slots=True)
class Reads:
    """The accesses that fill a layout's registers from a tile in workgroup memory.

    Each group is one access: the offset that it begins at, to which a thread adds (by exclusive or) its
    ``lane`` and ``warp`` entries, and the registers that it fills. ``matrices`` is 0 for vector loads.
    """

    matrices: int
    transposed: bool
    groups: tuple[tuple[int, tuple[int, ...]], ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The registers in the order in which the accesses fill them."""
        return tuple(register for _, group in self.groups for register in group)


@lru_cache(maxsize=1024)
def fragment_reads(layout: Linear, tile: SharedTile, matrix_load: bool) -> Reads:
    """The widest accesses: 8x8 matrices where the target loads them and the layout has their form."""
    if matrix_load:
        for transposed in (False, True):
            found = _matrix_reads(layout, tile, transposed)
            if found is not None:
                return found
    side = shared_side(layout, tile)
    return Reads(0, False, side.groups, side.lane, side.warp)


def _matrix_reads(layout: Linear, tile: SharedTile, transposed: bool) -> Reads | None:
    """Loads of 8x8 matrices; None where a layout's lanes and registers are not those of such a matrix.

    Without ``transposed`` four lanes hold the 16 bytes of a row, a 32-bit word each, and the other lanes
    further rows. With it a word has two rows' elements (of bytes, pairs of neighbours), and the 8 lanes
    across have a row's neighbours.
    """
    register = [tile.offset(*place) for place in layout.bases("register")]
    lane = [tile.offset(*place) for place in layout.bases("lane")]
    warp = [tile.offset(*place) for place in layout.bases("warp")]
    word = (_WORD_BYTES // tile.dtype.bytes).bit_length() - 1
    bits = list(range(len(register)))
    if transposed and word == 2 and 1 in register[:word]:
        # The neighbours of a pair come first in a word, whichever register's bit tells them apart.
        bits[0] = register.index(1)
        bits[bits[0]] = 0
    inside, rest = [register[bit] for bit in bits[:word]], [register[bit] for bit in bits[word:]]
    if transposed:
        rows, along = [*inside[word - 1 :], *lane[:2]], [*inside[: word - 1], *lane[2:]]
    else:
        rows, along = lane[2:], [*inside, *lane[:2]]
    row = _ROW_BYTES // tile.dtype.bytes
    contiguous = along == [1 << bit for bit in range(row.bit_length() - 1)]
    aligned = not any(offset % row for offset in (*rows, *rest, *warp))
    if len(lane) != 5 or len(rows) != 3 or not contiguous or not aligned or (transposed and not word):
        return None
    matrices = min(len(rest), 2)
    groups = []
    for chosen in range(1 << len(rest) - matrices):
        first = chosen << word + matrices
        filled = [with_bits(first + each, bits) for each in range(1 << word + matrices)]
        groups.append((combine(register, filled[0]), tuple(filled)))
    # Lanes past the last matrix give the address of one of the others.
    addresses = [*rows, *rest[:matrices], *[0] * (2 - matrices)]
    return Reads(1 << matrices, transposed, tuple(groups), tuple(addresses), tuple(warp))


class Fragments:
    """Reads of one operand, step by step; addresses are computed once for all steps.

    ``layout`` is one step's, ``steps`` the offset in the tile of each step's beginning.
    """

    def __init__(self, x: Expansion, shared: Shared, layout: Linear, steps: Sequence[int]) -> None:
        self._x = x
        self._shared = shared
        self._layout = layout
        self._reads = reads = fragment_reads(
            layout.without_replicas(), shared.tile, x.target.can("matrix_load")
        )
        starts = [start ^ step for step in steps for start, _ in reads.groups]
        self._offsets, self._places = crossed(x.build, reads.lane, reads.warp, starts, shared.base)

    def read(self, step: int) -> Value:
        """One step's registers, in the order of the layout and in the type that memory has."""
        build, reads, tile = self._x.build, self._reads, self._shared.tile
        count = len(reads.groups)
        places = self._places[step * count : (step + 1) * count]
        if reads.matrices:
            access = MatrixAccess(self._shared.buffer, reads.matrices, reads.transposed, places)
            loaded = build.matrix_load(access, self._offsets, tile.dtype)
        else:
            width = len(reads.groups[0][1])
            loaded = build.load(
                Access(WORKGROUP, self._shared.buffer, width, places), self._offsets, tile.dtype
            )
        return build.pick(loaded, [reads.order.index(register) for register in copies(self._layout)])


def fragment_from_shared(
    x: Expansion, shared: Shared, layout: TileLayout, dtype: DType | None = None
) -> Value:
    """A whole tile's registers in a layout, as ``dtype`` or in the type that memory has."""
    value = Fragments(x, shared, layout.linear, (0,)).read(0)
    return value if dtype is None else convert(x.build, x.target, value, dtype)
