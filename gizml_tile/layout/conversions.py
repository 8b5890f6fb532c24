"""The cheapest way from one layout of a tile to another."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.layout.bits import Span, combine
from gizml_tile.layout.exchange import Exchange, exchange
from gizml_tile.layout.linear import NAMES, Linear
from gizml_tile.layout.shuffle import Shuffle, shuffle

KINDS = ("none", "registers", "shuffle", "workgroup")
# What waiting for the other threads is about worth, in turns of the banks.
_WARP_WAIT, _WORKGROUP_WAIT = 10, 40


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Both layouts are the same: nothing moves."""

    source: Linear
    target: Linear

    kind = "none"

    def __str__(self) -> str:
        return "none: the layouts are equal"


@dataclass(frozen=True, slots=True)
class Renaming:
    """Each thread keeps its elements under other register numbers: ``target[r] = source[registers[r]]``."""

    source: Linear
    target: Linear
    registers: tuple[int, ...]

    kind = "registers"

    def __str__(self) -> str:
        return f"registers: {' '.join(map(str, self.registers))}"


Conversion = Unchanged | Renaming | Shuffle | Exchange


def conversion(
    source: Linear, target: Linear, element_bytes: int = 4, kind: str | None = None, banks: int = 32
) -> Conversion:
    """The cheapest conversion between two layouts of one tile, or the cheapest of a given ``kind``.

    Kinds, cheapest first: "none", "registers" (other register numbers in each thread), "shuffle"
    (exchanges inside of each warp), "workgroup" (through workgroup memory). A shuffle gives way to
    workgroup memory where that needs fewer turns, waiting included. ValueError where the tiles or the
    threads differ, the source does not hold all of the tile, or the kind does not serve.
    """
    _check(source, target)
    if kind not in (None, *KINDS):
        raise ValueError(f"a conversion is one of {', '.join(KINDS)}, found {kind}")
    if kind in (None, "none") and source == target:
        return Unchanged(source, target)
    if kind in (None, "registers") and (renamed := _renaming(source, target)):
        return renamed
    shuffled = shuffle(source, target) if kind in (None, "shuffle") else None
    if kind == "shuffle" and shuffled:
        return shuffled
    if kind not in (None, "workgroup"):
        raise ValueError(f"no conversion of kind {kind} leads from {source} to {target}")
    through = exchange(source, target, element_bytes, banks)
    return shuffled if shuffled and _is_cheaper(shuffled, through, element_bytes) else through


def _check(source: Linear, target: Linear) -> None:
    if source.shape != target.shape:
        raise ValueError(f"a conversion keeps the shape, found {list(source.shape)} and {list(target.shape)}")
    for layout in (source, target):
        if layout.names != tuple(name for name in NAMES if name in layout.names):
            raise ValueError(f"a layout of a tile has {', '.join(NAMES)} in this order, found {layout}")
    for name in ("lane", "warp"):
        if source.size(name) != target.size(name):
            raise ValueError(
                f"a conversion keeps the threads, found {source.size(name)} and {target.size(name)} {name}s"
            )
    if not source.is_surjective:
        raise ValueError(f"the source does not hold every element of {list(source.shape)}: {source}")


def _renaming(source: Linear, target: Linear) -> Renaming | None:
    if any(source.bases(name) != target.bases(name) for name in ("lane", "warp")):
        return None
    own = Span(source.packed("register"))
    found = [own.solve(basis) for basis in target.packed("register")]
    masks = [each for each in found if each is not None]
    if len(masks) < len(found):
        return None
    registers = tuple(combine(masks, register) for register in range(target.size("register")))
    return Renaming(source, target, registers)


def _is_cheaper(shuffled: Shuffle, through: Exchange, element_bytes: int) -> bool:
    """Whether the shuffle takes fewer turns: an exchange of lanes is one, and a select half of one."""
    words = element_bytes / 4 if element_bytes > 4 else 1 / min(shuffled.together, 4 // element_bytes)
    turns = (shuffled.shuffles + shuffled.selects / 2) * words
    wait = _WARP_WAIT if through.within_warp else _WORKGROUP_WAIT
    return turns <= through.wavefronts + wait
