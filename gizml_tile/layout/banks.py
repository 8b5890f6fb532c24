"""Banks of workgroup memory: what an access costs, and the swizzle that spares staged operands conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.layout.bits import bit_length, is_power_of_two
from gizml_tile.layout.linear import Linear

WORD_BYTES = 4  # what one bank delivers at a time
CHUNK_BYTES = 16  # the widest access of one lane, and one row of an 8x8 matrix load


def _phases(addresses: Sequence[int | None], width: int, banks: int) -> list[set[int]]:
    """The words that each phase of one access touches; None stands for a lane that takes no part.

    Lanes go together as long as they ask for no more than all banks hold once: of 32 banks 32 lanes up to
    4 bytes each, 16 with 8 bytes, 8 with 16 bytes.
    """
    if width not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes, found {width}")
    together = max(min(len(addresses), banks) // max(width // WORD_BYTES, 1), 1)
    phases = []
    for first in range(0, len(addresses), together):
        words: set[int] = set()
        for address in addresses[first : first + together]:
            if address is not None:
                if address % width:
                    raise ValueError(f"an access of {width} bytes needs such an address, found {address}")
                words.update(range(address // WORD_BYTES, (address + width - 1) // WORD_BYTES + 1))
        phases.append(words)
    return phases


def wavefronts(addresses: Sequence[int | None], width: int, banks: int = 32) -> int:
    """How many turns the banks need for one access of a warp.

    ``addresses`` has each lane's byte address, None where it takes no part; ``width`` is the bytes a
    lane accesses. In each phase the busiest bank decides; lanes that ask for one word share it.
    """
    total = 0
    for words in _phases(addresses, width, banks):
        counts = [0] * banks
        for word in words:
            counts[word % banks] += 1
        total += max(counts)
    return total


def ideal_wavefronts(addresses: Sequence[int | None], width: int, banks: int = 32) -> int:
    """How few turns the same words would need, were they spread evenly over the banks."""
    return sum(-(-len(words) // banks) for words in _phases(addresses, width, banks))


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of an operand in workgroup memory, their 16-byte chunks swizzled: no padding.

    Chunk c of row r stands at ``c ^ ((r >> shift) & mask)``, so that writing whole rows and reading
    one chunk of 8 rows in a row are both without bank conflicts.
    """

    rows: int
    row_bytes: int
    shift: int
    mask: int

    def offset(self, row: int, byte: int) -> int:
        """The byte offset of a byte of a row."""
        if not (0 <= row < self.rows and 0 <= byte < self.row_bytes):
            raise ValueError(
                f"byte {byte} of row {row} is outside of {self.rows} rows of {self.row_bytes} bytes"
            )
        return row * self.row_bytes + (byte ^ ((row >> self.shift & self.mask) * CHUNK_BYTES))

    def linear(self, element_bytes: int) -> Linear:
        """The map from (row, column) to the element's offset, as ``Linear.compose`` takes it."""
        columns = self.row_bytes // element_bytes
        return Linear.of(
            (1, self.rows * columns),
            row=[(0, self.offset(1 << bit, 0) // element_bytes) for bit in range(bit_length(self.rows))],
            column=[(0, 1 << bit) for bit in range(bit_length(columns))],
        )

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        from gizml_tile.layout.pictures import draw  # which builds on this module

        return draw(self, form="svg")

    def __str__(self) -> str:
        if not self.mask:
            return f"{self.rows} rows of {self.row_bytes} bytes, in order"
        row = f"row >> {self.shift}" if self.shift else "row"
        return f"{self.rows} rows of {self.row_bytes} bytes, chunk ^ ({row} & {self.mask})"


def staged(rows: int, row_bytes: int) -> Staged:
    """The swizzle for an operand of ``rows`` rows of ``row_bytes`` bytes each, both powers of two.

    8 chunks fill the banks once: with rows of 128 bytes or more each row starts at the same bank and
    moves by one chunk; with shorter rows, as many as fill the banks move together.
    """
    if not (is_power_of_two(rows) and is_power_of_two(row_bytes)):
        raise ValueError(f"rows and row_bytes are powers of two, found {rows} and {row_bytes}")
    chunks = min(max(row_bytes // CHUNK_BYTES, 1), 8)
    return Staged(rows, row_bytes, bit_length(8 // chunks), chunks - 1)
