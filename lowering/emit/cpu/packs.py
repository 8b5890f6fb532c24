"""Packing functions, their launch-wide phases, and how a program finds what it needs packed.

For every packed operand that is a function of tensors alone there are two functions::

    void pack_n(args, target, leaves..., start, depth, first, last)   chunks first..last of one block
    void stage_n(args, arena, low, high)                              (block, chunk) pairs of all blocks

A launch stages an operand when enough programs use each block. Then the operand's slot in the arguments
holds the address of all blocks, in the order of their leaves; else it holds 0 and programs call ``pack_n``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.lowering.emit.cpu.builder import Function, Module, Value
from gizml_tile.lowering.emit.cpu.evaluate import Pass
from gizml_tile.lowering.emit.cpu.packing import Pack, is_invariant, is_thin, lies_ready
from gizml_tile.lowering.emit.cpu.panels import Packer
from gizml_tile.lowering.emit.cpu.scope import Scope, Unit
from gizml_tile.lowering.emit.cpu.shapes import depth_step
from gizml_tile.nodes import Elements, Node, View

# All operands staged for a launch may take this much memory together.
STAGED_BYTES = 1 << 29
# Rows at multiples of this distance are worth bringing together.
SPREAD_BYTES = 16 << 10


def reads_in_place(unit: Unit, pack: Pack) -> bool:
    """Whether an operand of a deep product is a tensor's block that may be used where it lies."""
    packing = pack.packing
    if not lies_ready(packing, unit.program.tensors):
        return False
    if packing.side == "right" and (not is_thin(packing.shape) or pack.depth % depth_step(packing.shape)):
        return False
    view = packing.source.attr
    assert isinstance(view, View)
    storage = unit.storage[view.tensor]
    layout = unit.layouts[storage.argument]
    return layout[-2 if storage.swapped else -1] == "unit"


def can_stage(unit: Unit, pack: Pack) -> bool:
    """Whether all blocks of an operand are known before a launch, and worth packing then."""
    if pack.is_deep:
        assert pack.start is not None and pack.stop is not None
        return pack.ranged and is_invariant(pack.start) and is_invariant(pack.stop)
    return pack.ranged


def chunk_count(function: Function, pack: Pack, depth: Value) -> Value:
    return function.divide(function.add(depth, pack.packing.shape.kc - 1), pack.packing.shape.kc)


def total_depth(scope: Scope, pack: Pack) -> Value:
    """All steps of k of the operand."""
    if not pack.is_deep:
        return pack.depth
    function = scope.function
    assert pack.start is not None and pack.stop is not None
    turns = function.maximum(function.sub(scope.scalar(pack.stop), scope.scalar(pack.start)), 0)
    return function.mul(turns, pack.depth)


def tensors_of(nodes: Sequence[Node]) -> set[int]:
    """The tensors that nodes and what they are made of refer to."""
    found: set[int] = set()
    pending, seen = list(nodes), set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node.attr, View | Elements):
            found.add(node.attr.tensor)
        elif node.op == "size":
            assert isinstance(node.attr, tuple)
            found.add(int(node.attr[0]))
        pending.extend(node.args)
    return found


def write_pack(module: Module, unit: Unit, pack: Pack) -> None:
    """Writes ``pack_n``."""
    leaves = [("i64", f"leaf{number}") for number in range(len(pack.leaves))]
    parameters = [("ptr", "args"), ("ptr", "target"), *leaves]
    parameters += [("i64", "start"), ("i64", "depth"), ("i64", "first"), ("i64", "last")]
    function = Function(module, f"pack_{pack.number}", parameters, linkage="internal")
    function.come_from(pack.packing.source.place)
    scope = Scope(unit, function)
    for number, leaf in enumerate(pack.leaves):
        scope.scalars[leaf.index] = f"%leaf{number}"
    source = pack.packing.source
    scope.load_tensors(tensors_of([source]))
    depth: Value = "%depth" if pack.is_deep else pack.depth

    def chunk(number: Value, _: list[str]) -> Sequence[str]:
        base = function.mul(number, pack.packing.shape.kc)
        before: Value = 0
        if pack.turn is not None:
            # Places in a block count in 32 bits, so they start anew with the chunk's first block.
            turns = function.divide(base, pack.depth)
            before = function.mul(turns, pack.depth)
            scope.scalars[pack.turn] = function.add("%start", turns)
            scope.signs[pack.turn] = pack.start is not None and scope.is_nonnegative(pack.start)
        shared = Pass(scope, {})
        shared.prepare((source,))
        for node in shared.virtual((source,)):
            if node.shape in ((), (1, 1)) and node.op != "read":
                scope.scalar(node)
        rest = function.sub(depth, before)
        packer = Packer(scope, pack.packing, source, shared, pack.depth, rest)
        place = function.mul(function.sub(number, "%first"), pack.packing.chunk_bytes)
        packer.chunk(function.offset("%target", place), function.sub(base, before))
        return ()

    function.loop("%first", "%last", 1, chunk)
    function.ret()


@dataclass(frozen=True, slots=True)
class Stage:
    """A staged operand in the launch's entry: how many (block, chunk) pairs, how many bytes."""

    pack: Pack
    units: Value
    bytes: Value


def ranges(scope: Scope, pack: Pack) -> list[Value]:
    """How many values each leaf takes: the blocks along its tensor's axis."""
    function = scope.function
    return [
        function.divide(function.add(scope.tensors[leaf.tensor].sizes[leaf.axis], leaf.block - 1), leaf.block)
        for leaf in pack.leaves
    ]


def write_stage(module: Module, unit: Unit, pack: Pack) -> None:
    """Writes ``stage_n``."""
    parameters = [("ptr", "args"), ("ptr", "arena"), ("i64", "low"), ("i64", "high")]
    function = Function(module, f"stage_{pack.number}", parameters, linkage="internal")
    function.come_from(pack.packing.source.place)
    scope = Scope(unit, function)
    scope.load_tensors(tensors_of_pack(pack))
    target = scope.slot(unit.arguments.pack(pack.number), "ptr")
    sizes = ranges(scope, pack)
    depth = total_depth(scope, pack)
    chunks = chunk_count(function, pack, depth)
    start = str(scope.scalar(pack.start)) if pack.start is not None else "0"

    def one(number: Value, _: list[str]) -> Sequence[str]:
        block, chunk = _split(function, number, chunks)
        leaves: list[Value] = []
        rest = block
        for size in reversed(sizes):
            rest, leaf = _split(function, rest, size)
            leaves.insert(0, leaf)
        place = function.offset(target, function.mul(number, pack.packing.chunk_bytes))
        arguments = [f"i64 {value}" for value in (*leaves, start, depth, chunk, function.add(chunk, 1))]
        function.call_void(f"pack_{pack.number}", "ptr %args", f"ptr {place}", *arguments)
        return ()

    function.loop("%low", "%high", 1, one)
    function.ret()


def tensors_of_pack(pack: Pack) -> set[int]:
    """The tensors that a pack's blocks are counted along and made from."""
    nodes = [pack.packing.source, *(node for node in (pack.start, pack.stop) if node is not None)]
    return tensors_of(nodes) | {leaf.tensor for leaf in pack.leaves}


def _split(function: Function, number: Value, size: Value) -> tuple[Value, Value]:
    """Quotient and remainder of a non-negative number."""
    if isinstance(size, int):
        return function.divide(number, size), function.remainder(number, size)
    return function.emit(f"udiv i64 {number}, {size}"), function.emit(f"urem i64 {number}, {size}")


def is_spread(scope: Scope, pack: Pack) -> str:
    """Whether a left operand's rows lie so far apart that they meet in few cache sets and many pages."""
    view = pack.packing.source.attr
    assert isinstance(view, View)
    stride = scope.tensors[view.tensor].strides[-2]
    rest = scope.function.remainder(
        scope.function.mul(stride, pack.packing.panels.element_bytes), SPREAD_BYTES
    )
    return scope.function.compare("eq", rest, 0)


def staged_block(scope: Scope, pack: Pack) -> tuple[str, Value, Value]:
    """The address of the current block among staged ones, or null; the depth; the number of chunks."""
    function = scope.function
    depth = total_depth(scope, pack)
    chunks = chunk_count(function, pack, depth)
    if not can_stage(scope.unit, pack):
        return "null", depth, chunks
    base = scope.slot(scope.unit.arguments.pack(pack.number), "ptr")
    checks = [function.emit(f"icmp ne ptr {base}, null")]
    place: Value = 0
    for leaf, size in zip(pack.leaves, ranges(scope, pack), strict=True):
        value = scope.scalar(leaf.index)
        checks.append(function.compare("ult", value, size))
        place = function.add(function.mul(place, size), value)
    block_bytes = function.mul(chunks, pack.packing.chunk_bytes)
    address = function.offset(base, function.mul(place, block_bytes))
    staged = function.all_of(checks)
    return function.emit(f"select i1 {staged}, ptr {address}, ptr null"), depth, chunks


def pack_call(scope: Scope, pack: Pack, target: str, depth: Value, first: Value, last: Value) -> None:
    """Calls ``pack_n`` for the current block."""
    start = scope.scalar(pack.start) if pack.start is not None else 0
    leaves = [scope.scalar(leaf.index) for leaf in pack.leaves]
    arguments = [f"i64 {value}" for value in (*leaves, start, depth, first, last)]
    scope.function.call_void(f"pack_{pack.number}", f"ptr {scope.slots}", f"ptr {target}", *arguments)


def find_block(scope: Scope, pack: Pack, local: str) -> str:
    """The address of a whole packed operand: among the staged ones, or packed here into ``local``."""
    function = scope.function
    address, depth, chunks = staged_block(scope, pack)
    if address == "null":
        pack_call(scope, pack, local, depth, 0, chunks)
        return local

    def here() -> list[str]:
        pack_call(scope, pack, local, depth, 0, chunks)
        return [local]

    missing = function.emit(f"icmp eq ptr {address}, null")
    return function.when(missing, here, lambda: [address], ["ptr"])[0]
