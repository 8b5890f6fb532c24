"""Conversions inside of a warp: registers trade places, lanes read each other's registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gizml_tile.layout.bits import Span, combine, independent
from gizml_tile.layout.linear import Linear

Masks = tuple[int, ...]  # per bit of a number, the bits that it flips


@dataclass(frozen=True, slots=True)
class Round:
    """One exchange: each lane gives ``give``, reads a lane that differs by ``lane``, and gets ``take``."""

    take: int
    give: int
    lane: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A conversion in three steps, each for all threads alike:

    1. ``arranged[r] = source[r ^ before(thread)]``, the exclusive or of the ``before_lane`` and
       ``before_warp`` masks of the bits set in the thread's lane and warp: selects on those bits.
    2. For each round, ``taken[take] = arranged[give]`` of the lane ``lane ^ from_lane(thread)``, from
       the masks ``lane_lane`` and ``lane_warp`` of the bits set. ``is_butterfly`` tells that this is
       the own lane number with the bits of ``lane`` flipped, so a round with lane 0 moves nothing.
    3. ``target[r] = taken[kept ^ after(thread)]`` with ``kept = copies[r]`` and the ``after_lane`` masks.
    """

    source: Linear
    target: Linear
    before_lane: Masks
    before_warp: Masks
    rounds: tuple[Round, ...]
    lane_lane: Masks
    lane_warp: Masks
    after_lane: Masks
    copies: tuple[int, ...]
    together: int  # registers that go side by side through every step, so they may share a word

    kind = "shuffle"

    @property
    def is_butterfly(self) -> bool:
        identity = tuple(1 << bit for bit in range(len(self.lane_lane)))
        return self.lane_lane == identity and not any(self.lane_warp)

    @property
    def shuffles(self) -> int:
        """The rounds in which something moves between lanes."""
        return sum(bool(each.lane) or not self.is_butterfly for each in self.rounds)

    @property
    def selects(self) -> int:
        """The selects of steps 1 and 3, one per register and mask."""
        before = sum(map(bool, (*self.before_lane, *self.before_warp))) * self.source.size("register")
        return before + sum(map(bool, self.after_lane)) * len(self.rounds)

    def __str__(self) -> str:
        words = f" of {self.together} registers together" if self.together > 1 else ""
        return f"shuffle: {self.shuffles} lane exchanges and {self.selects} selects{words}"


def shuffle(source: Linear, target: Linear) -> Shuffle | None:
    """The exchange inside of each warp, or None where an element must cross warps.

    The wanted map from (register, lane) of the target to that of the source is linear. In a round, all
    lanes must read different lanes or agree about the register; so the round of register r fills, in
    lane l, register ``r ^ after(l)``, with ``after`` chosen so that reading becomes one to one.
    """
    wanted = _wanted(source, target.without_replicas())
    if wanted is None:
        return None
    of_register, of_lane, of_warp = wanted
    bits = source.bits("register")
    after, helpers = _after(of_register, of_lane, bits)
    of_register += helpers
    reads = [holder ^ combine(of_register, mask) for holder, mask in zip(of_lane, after, strict=True)]
    before = _before(reads, bits)

    def given(holder: int) -> int:
        """The register that its owner gives, once step 1 has shifted the owner's registers."""
        return _register(holder, bits) ^ combine(before, holder >> bits)

    before_warp = [given(holder) for holder in of_warp]
    holders = [combine(of_register, take) for take in range(1 << len(of_register))]
    return Shuffle(
        source,
        target,
        tuple(before),
        tuple(before_warp),
        tuple(Round(take, given(holder), holder >> bits) for take, holder in enumerate(holders)),
        tuple(holder >> bits for holder in reads),
        tuple(holder >> bits for holder in of_warp),
        tuple(after),
        copies(target),
        1 << _untouched(of_register, [*before, *before_warp, *after], given),
    )


def copies(layout: Linear) -> tuple[int, ...]:
    """For each register, the one of ``layout.without_replicas()`` that holds the same element."""
    kept = Span(layout.without_replicas().packed("register"))
    solved = [kept.solve(basis) for basis in layout.packed("register")]
    masks = [each for each in solved if each is not None]
    return tuple(combine(masks, register) for register in range(layout.size("register")))


def _register(holder: int, bits: int) -> int:
    return holder & (1 << bits) - 1


def _wanted(source: Linear, target: Linear) -> tuple[list[int], list[int], list[int]] | None:
    """Which holder of the source each bit of the target's register, lane and warp moves to.

    A holder is one number: the source's register below, its lane above.
    """
    registers, lanes = source.packed("register"), source.packed("lane")
    own, warp = Span(registers), Span((*registers, *lanes))

    def near(vector: int, bit: int) -> int | None:
        """The holder with the same lane bit, which needs no exchange, where there is one."""
        register = own.solve(vector ^ lanes[bit])
        return warp.solve(vector) if register is None else register | 1 << len(registers) + bit

    crossed = zip(source.packed("warp"), target.packed("warp"), strict=True)
    of_register = [warp.solve(vector) for vector in target.packed("register")]
    of_lane = [near(vector, bit) for bit, vector in enumerate(target.packed("lane"))]
    of_warp = [warp.solve(before ^ after) for before, after in crossed]
    if None in (*of_register, *of_lane, *of_warp):
        return None
    return (
        [each or 0 for each in of_register],
        [each or 0 for each in of_lane],
        [each or 0 for each in of_warp],
    )


def _after(of_register: list[int], of_lane: list[int], bits: int) -> tuple[list[int], list[int]]:
    """Per lane bit the register bits to shift by, and holders of helper registers where there are too few.

    Lanes that differ by a set in ``clash`` read one lane but want different registers of it. Such a set
    takes turns with a register bit that moves the lane; a helper register stands in where none does.
    """
    lanes = len(of_lane)
    reading = Span(holder >> bits for holder in of_lane)
    clash, agree, registers = [], [], Span()
    for same_lane in reading.kernel:
        if registers.add(_register(combine(of_lane, same_lane), bits)):
            clash.append(same_lane)
    for cancelling in registers.kernel:
        agree.append(combine(reading.kernel, cancelling))
    movers = [bit for bit, holder in enumerate(of_register) if reading.add(holder >> bits)]
    helpers = [_register(combine(of_lane, lane), bits) for lane in clash[len(movers) :]]
    turns = [1 << bit for bit in (*movers, *range(len(of_register), len(of_register) + len(helpers)))]
    units = independent((*clash, *agree), [1 << bit for bit in range(lanes)])
    basis = Span((*clash, *agree, *units))
    masks = []
    for bit in range(lanes):
        chosen = basis.solve(1 << bit)
        assert chosen is not None, "clash, agree and units span all lanes"
        masks.append(combine(turns, chosen & (1 << len(clash)) - 1))
    return masks, helpers


def _before(reads: list[int], bits: int) -> list[int]:
    """Per bit of the giving lane, the register bits that its reader wants shifted."""
    lanes = len(reads)
    readers = Span()
    kept = [bit for bit, holder in enumerate(reads) if readers.add(holder >> bits)]
    units = independent([reads[bit] >> bits for bit in kept], [1 << bit for bit in range(lanes)])
    basis = Span((*(reads[bit] >> bits for bit in kept), *units))
    wants = [_register(reads[bit], bits) for bit in kept] + [0] * len(units)
    masks = []
    for bit in range(lanes):
        chosen = basis.solve(1 << bit)
        assert chosen is not None, "readers and units span all lanes"
        masks.append(combine(wants, chosen))
    return masks


def _untouched(of_register: list[int], masks: list[int], given: Callable[[int], int]) -> int:
    """How many low register bits pass through all steps as they are."""
    for bit, holder in enumerate(of_register):
        others = [given(other) for place, other in enumerate(of_register) if place != bit]
        if holder != 1 << bit or any(mask >> bit & 1 for mask in (*masks, *others)):
            return bit
    return len(of_register)
