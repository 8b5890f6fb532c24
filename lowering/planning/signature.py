"""What a launch knows of its tensors that its code rests on; known before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """What a launch knows about one ``read`` or ``put``.

    For each blocked axis of the view: ``inside`` tells that no block reaches past the tensor's end, and
    ``grain`` is the largest power of two (at most 16) that divides every offset of a block and, where some
    block is not inside, the tensor's size, in elements: so many neighbours are all inside or all outside.
    ``leading`` tells that the coordinates of the axes before are inside.

    Of a gather or scatter ``inside`` has each axis of the tensor, and ``grain`` those of the tile, along
    which its elements may be neighbours.
    """

    inside: tuple[bool, ...]
    grain: tuple[int, ...]
    leading: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """What a GPU's code is compiled for beside the program.

    ``strides`` has each tensor's kind of stride along each axis (``"unit"``, ``"zero"`` or ``"any"``),
    ``alignments`` the bytes (1 to 16) that divide each tensor's address and all its strides but the unit
    one. ``facts`` has the `AccessFacts` of each read and put of the traced program, in program order.
    ``wide`` tells that offsets of elements need 64 bits. ``boxes`` tells of each tensor that the copy engine
    can move boxes of it: nothing is empty, and steps are multiples of 16 bytes forwards. ``room`` is how many
    workgroups each program could have (see `room.room`). Tensors that are ``copied`` are known by their
    copies. ``crowded`` tells that there are so many programs that neighbours may share workgroups (see
    `crowded.is_crowded`).
    """

    strides: tuple[tuple[str, ...], ...]
    alignments: tuple[int, ...]
    facts: tuple[AccessFacts, ...]
    grid_rank: int
    wide: bool
    may_alias: bool
    boxes: tuple[bool, ...] = ()
    room: int = 1
    copied: tuple[int, ...] = ()
    crowded: bool = False
