"""How many workgroups share a multiprocessor: what one waits for, others can hide."""

from __future__ import annotations

from collections.abc import Mapping

from gizml_tile.lowering.planning.plan import Dot, TileLayout
from gizml_tile.nodes import Node
from gizml_tile.target import Target

# Registers for addresses and temporaries beside a thread's elements. Measured on an H200 with rows of 1024
# to 16384 elements: fewer spill, more leave too few workgroups to hide the barriers.
_BESIDE = 32
# Bytes of a multiprocessor's memory that the hardware takes for each workgroup.
_RESERVED_BYTES = 1024


def residents(
    target: Target,
    warps: int,
    homes: Mapping[Node, TileLayout],
    dots: Mapping[Node, Dot],
) -> int:
    """The workgroups that a multiprocessor should hold; 1 leaves the registers to the assembler.

    Without products a kernel waits for memory: as many as the registers allow. Products want registers.
    """
    if dots or not homes:
        return 1
    facts, threads = target.facts, warps * target.facts.lanes
    needed = max(layout.registers for layout in homes.values()) + _BESIDE
    fitting = facts.unit_registers // (threads * needed)
    return max(1, min(fitting, facts.unit_threads // threads, facts.unit_workgroups))


def workgroup_share(target: Target, warps: int) -> int:
    """The workgroup memory in bytes that a program should take.

    Where the registers of two workgroups surely fit, half of a multiprocessor's, so that one multiplies
    while the other waits at its barrier; else all that one workgroup may have.
    """
    facts = target.facts
    if 2 * warps * facts.lanes * (facts.registers + 1) <= facts.unit_registers:
        return min(facts.unit_memory // 2 - _RESERVED_BYTES, facts.workgroup_memory)
    return facts.workgroup_memory
