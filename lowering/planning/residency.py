"""How many workgroups share a multiprocessor: what one waits for, others can hide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gizml_tile.dtypes import F32
from gizml_tile.lowering.planning.again import made_again
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.lowering.planning.registers import tile_registers
from gizml_tile.nodes import ALONG, REDUCTIONS, UNARY_FLOAT, Node, Region, TileProgram
from gizml_tile.target import Target

# Registers for addresses and temporaries beside a thread's elements. Measured on an H200 with rows of 1024
# to 16384 elements: fewer spill, more leave too few workgroups to hide the barriers.
BESIDE = 32
# An exact function beside tiles that wait in workgroup memory takes some more, where that leaves as many.
_BESIDE_PARKED = 40
# Threads with fewer elements take few registers of their own accord: what they hold beside them depends on
# the operations more than on the elements.
_MANY = 32
# So few workgroups leave memory idle while they compute. Measured on an H200 with rows of 16384: four that
# make or fetch elements again reach 0.97 and 0.92 of a copy in approximate and exact softmax, two 0.94 and
# 0.88, and in layernorm both the same.
_FEW = 2
# Workgroup memory that reductions and the hardware take for each workgroup beside what waits there.
_BESIDE_BYTES = 4096


def residents(
    program: TileProgram, target: Target, warps: int, homes: Mapping[Node, TileLayout]
) -> tuple[int, frozenset[Node], Mapping[Node, int]]:
    """The workgroups that a multiprocessor should hold; for that, the tiles that are made again, and those
    of which only so many registers stay while the others wait in workgroup memory.

    1 leaves the registers to the assembler. Without products a kernel waits for memory: as many as the
    registers allow. Products want registers, and what meets by a function or in order has temporaries that
    only the assembler counts.
    """
    nothing: tuple[frozenset[Node], dict[Node, int]] = frozenset(), {}
    if any(node.op == "dot" or node.op in ALONG - REDUCTIONS for node in program.body.walk()):
        return 1, *nothing
    held = _Held(homes).most(program.body, frozenset())[0]
    if held < _MANY:
        return 1, *nothing
    facts, threads = target.facts, warps * target.facts.lanes

    def fitting(registers: int, beside: int = BESIDE) -> int:
        most = min(facts.unit_threads // threads, facts.unit_workgroups)
        return min(facts.unit_registers // (threads * (registers + beside)), most)

    plain = fitting(held)
    if plain > _FEW:
        return plain, *nothing
    again = made_again(program, homes)
    kept = fitting(_Held(homes, again).most(program.body, frozenset())[0])
    if kept > max(plain, 1):
        return kept, again, {}
    parked = _parked(program, homes, again)
    held = _Held(homes, again, parked).most(program.body, frozenset())[0]
    roomy = fitting(held, _BESIDE_PARKED)
    kept = roomy if roomy > max(plain, 1) else fitting(held)
    bytes = sum(homes[node].registers - stay for node, stay in parked.items()) * threads * F32.bytes
    kept = min(kept, facts.unit_memory // (bytes + _BESIDE_BYTES)) if bytes else 1
    return (kept, again, parked) if kept > max(plain, 1) else (max(plain, 1), *nothing)


def most_held(
    program: TileProgram,
    homes: Mapping[Node, TileLayout],
    again: frozenset[Node],
    parked: Mapping[Node, int],
) -> tuple[int, Node | None]:
    """The most registers of tiles that a thread holds at once, and the operation around which it does."""
    most, _, where = _Held(homes, again, parked).most(program.body, frozenset())
    return most, where


def _parked(
    program: TileProgram, homes: Mapping[Node, TileLayout], again: frozenset[Node]
) -> dict[Node, int]:
    """Half of the registers of each large tile that is computed once and used after a reduction."""
    nodes = program.body.nodes
    if any(node.regions for node in nodes):
        return {}
    reductions = [number for number, node in enumerate(nodes) if node.op in ALONG]
    found = {}
    for number, node in enumerate(nodes):
        last = max((place for place, user in enumerate(nodes) if node in user.args), default=number)
        waits = any(number < place < last for place in reductions)
        computed = node.op in UNARY_FLOAT and node.dtype is F32 and node in homes and node not in again
        if waits and computed and homes[node].registers >= 2 * _MANY:
            found[node] = homes[node].registers // 2
    return found


@dataclass(frozen=True, slots=True)
class _Held:
    """What a thread holds of tiles where others are reduced, or a loop or branch begins or ends.

    Between such places elements come and go one after the other.
    """

    homes: Mapping[Node, TileLayout]
    again: frozenset[Node] = frozenset()
    parked: Mapping[Node, int] = field(default_factory=dict)

    def most(self, region: Region, after: frozenset[Node]) -> tuple[int, frozenset[Node], Node | None]:
        """The most registers in a region after which some nodes are used, what is used of before it, and the
        operation around which there are so many."""
        live = {*after, *region.results}
        most: int = 0
        where: Node | None = None
        for node in reversed(region.nodes):
            if node.op in ALONG or node.regions:
                most, where = max((most, where), (self.registers(live), node), key=_count)
            live.discard(node)
            inside: set[Node] = set()
            for inner in node.regions:
                # What one turn uses of before the loop, the next uses too.
                again = _used(inner) if node.op == "loop" else set()
                held, before, inside_at = self.most(inner, frozenset(live | again))
                most, where = max((most, where), (held, inside_at), key=_count)
                inside |= before.difference(inner.params)
            live |= inside
            live.update(node.args)
        return most, frozenset(live), where

    def registers(self, nodes: Iterable[Node]) -> int:
        return sum(self._registers(node) for node in self._kept(nodes) if node in self.homes)

    def _kept(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes, with what is kept to make some of them again in their place."""
        kept: set[Node] = set()
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node in self.again and node.op != "read":
                pending += node.args
            else:
                kept.add(node)
        return kept

    def _registers(self, node: Node) -> int:
        if node in self.parked:
            return self.parked[node]
        registers = tile_registers(node, self.homes[node])
        if node not in self.again:
            return registers
        assert node.dtype is not None
        return -(-registers * node.dtype.bytes // 4)  # it stays packed


def _count(found: tuple[int, Node | None]) -> int:
    return found[0]


def _used(region: Region) -> set[Node]:
    """The nodes that a region uses and does not make."""
    used, made = set(region.results), set(region.params)
    for node in region.walk():
        used.update(node.args)
        made.add(node)
        for inner in node.regions:
            used.update(inner.results)
            made.update(inner.params)
    return used - made


def workgroup_share(target: Target, warps: int) -> int:
    """The workgroup memory in bytes that a program should take.

    Where the registers of two workgroups surely fit, half of a multiprocessor's, so that one multiplies
    while the other waits at its barrier; else all that one workgroup may have.
    """
    facts = target.facts
    if 2 * warps * facts.lanes * (facts.registers + 1) <= facts.unit_registers:
        return half_memory(target)
    return facts.workgroup_memory


def half_memory(target: Target) -> int:
    """The workgroup memory in bytes of each of two workgroups that share a multiprocessor."""
    facts = target.facts
    return min(facts.unit_memory // 2 - facts.reserved_memory, facts.workgroup_memory)
