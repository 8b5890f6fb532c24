"""What programs print and check, as stores into the records that a launch brings (gizml_tile/recording.py).

So every device needs nothing but stores: records of one program have its order, programs do not wait for
each other, and what a row has no room for is dropped by the rule for stores outside of a tensor. How much of
its row a program has used so far is carried by every loop and branch that has a record in it.
"""

from __future__ import annotations

from dataclasses import replace

from gizml_tile.dtypes import F32, F64, I32, I64, MASK, DType
from gizml_tile.errors import Place
from gizml_tile.lowering.tile_passes.rewriting import Emit, Rewriting
from gizml_tile.nodes import (
    EARLY,
    RECORDS,
    Attr,
    Const,
    Elements,
    Node,
    Region,
    TileProgram,
    View,
    make,
    param,
    rebuild,
)
from gizml_tile.recording import HEADER, kept, words

_NOWHERE = (1 << 31) - 1


def store_records(program: TileProgram) -> TileProgram:
    """The program with stores in place of ``print`` and ``check``."""
    if program.records is None:
        return program
    return _Storing(program, program.records).stored()


class _Storing:
    """The rewriting of a program; ``used`` has how many words and records were made before a node."""

    def __init__(self, program: TileProgram, tensor: int) -> None:
        self._program = program
        self._tensor = tensor
        self._recording = _recording(program.body)
        self._rewriting = Rewriting(self._rule, self._structured)
        self._emit: Emit = self._rewriting.emit
        self._place: Place | None = None
        self._sites = 0
        self._row: Node
        self._used: tuple[Node, Node]

    def stored(self) -> TileProgram:
        """The program with its stores; the last ones tell how much it used."""
        first = self._begin()
        region = self._rewriting.region(self._program.body)
        nodes = (*first, *region.nodes, *self._end())
        return replace(self._program, body=Region((), nodes, ()), records=None)

    def _begin(self) -> list[Node]:
        nodes: list[Node] = []
        self._emit = _appending(nodes)
        self._row = self._make("id", (), 2)
        for axis in (1, 0):
            before = self._make("mul", (self._row, self._make("count", (), axis)))
            self._row = self._make("add", (before, self._make("id", (), axis)))
        self._zero = self._make("index", (), 0)
        self._used = self._number(HEADER), self._number(0)
        self._emit = self._rewriting.emit
        return nodes

    def _end(self) -> list[Node]:
        nodes: list[Node] = []
        self._emit, self._place = _appending(nodes), None
        for column, value in enumerate(self._used):
            block = View(self._tensor, (1,), "window")
            self._make("put", (value, self._row, self._make("index", (), column)), block)
        return nodes

    def _rule(self, node: Node, emit: Emit) -> Node:
        if node.op not in RECORDS:
            return node
        self._place = node.place
        self._sites += 1
        return self._print(node) if node.op == "print" else self._check(node)

    def _structured(
        self, rewriting: Rewriting, node: Node, args: tuple[Node, ...]
    ) -> tuple[Node, ...] | None:
        """A loop or branch with records in it, which gives what it used as two more values."""
        if node not in self._recording:
            return None
        before = self._used
        regions = []
        # The flag of a loop that may end early stays its last carried value.
        last = int(node.attr == EARLY)
        given = len(node.regions[0].results) - last
        for region in node.regions:
            params = region.params
            if params:
                more = [param((1, 1), I32, 1 + given + number) for number in range(2)]
                flags = [param((), I64, 3 + given)] * last
                for old, new in zip(params[1 + given :], flags, strict=True):
                    rewriting.rename(old, new)
                params, self._used = (*params[: 1 + given], *more, *flags), (more[0], more[1])
            else:
                self._used = before
            made = rewriting.region(region)
            results = (*made.results[:given], *self._used, *made.results[given:])
            regions.append(Region(params, made.nodes, results))
        operands = args
        if node.regions[0].params:
            operands = (*args[: 3 + given], *before, *args[3 + given :])
        copy = self._emit(rebuild(node, operands, tuple(regions)))
        values = [self._emit(make("result", (copy,), n, node.place)) for n in range(given + 2 + last)]
        self._used = values[given], values[given + 1]
        return (*values[:given], *values[given + 2 :])

    def _print(self, node: Node) -> Node:
        last = self._word(0, self._number(self._sites))
        offset = 1
        for value in node.args:
            tile = self._bits(value)
            rows, columns = (kept(size, tile.shape[0] * tile.shape[1]) for size in tile.shape)
            last = self._elements(offset, tile, rows, columns)
            offset += len(rows) * len(columns)
        self._advance(self._number(words(node)), self._number(1))
        return last

    def _check(self, node: Node) -> Node:
        mask, *values = node.args
        rows, columns = mask.shape
        wrong = self._make("not_", (mask,))
        count = self._total("sum", wrong)
        starts = self._make("mul", (self._iota(rows, 0), self._number(columns)))
        places = self._make("add", (starts, self._iota(columns, 1)))
        first = self._total("min", self._make("select", (wrong, places, self._number(_NOWHERE))))
        failed = self._make("gt", (count, self._number(0)))
        found = [self._number(self._sites), count, first]
        for value in values:
            here = self._make("eq", (places, first))
            bits = self._bits(value)
            assert bits.dtype is not None
            chosen = self._make("select", (here, bits, self._number(0, bits.dtype)))
            found.append(self._total("sum", chosen))
        stores = [self._word(offset, word, failed) for offset, word in enumerate(found)]
        one, size = (self._number(number) for number in (1, words(node)))
        zero = self._number(0)
        self._advance(self._make("select", (failed, size, zero)), self._make("select", (failed, one, zero)))
        return stores[-1]

    def _advance(self, size: Node, records: Node) -> None:
        before = self._used
        self._used = self._make("add", (before[0], size)), self._make("add", (before[1], records))

    def _word(self, offset: int, word: Node, mask: Node | None = None) -> Node:
        """One word of a record stored, where the mask is not false."""
        place = self._make("add", (self._used[0], self._number(offset)))
        masks = () if mask is None else (mask,)
        attr = Elements(self._tensor, (1, 1), 2, (1,))
        return self._make("scatter", (word, self._row, self._zero, place, *masks), attr)

    def _elements(self, offset: int, tile: Node, rows: tuple[int, ...], columns: tuple[int, ...]) -> Node:
        """A tile's elements in these rows and columns stored, row by row."""
        row, row_mask = self._ranks(tile.shape[0], 0, rows)
        column, column_mask = self._ranks(tile.shape[1], 1, columns)
        starts = self._make("mul", (row, self._number(len(columns))))
        first = self._make("add", (self._used[0], self._number(offset)))
        place = self._make("add", (self._make("add", (starts, column)), first))
        masks = tuple(each for each in (row_mask, column_mask) if each is not None)
        mask = (self._make("and_", masks),) if len(masks) == 2 else masks
        attr = Elements(self._tensor, (tile.shape[0], tile.shape[1]), 2, (1,))
        return self._make("scatter", (tile, self._row, self._zero, place, *mask), attr)

    def _ranks(self, size: int, axis: int, places: tuple[int, ...]) -> tuple[Node, Node | None]:
        """The rank of each place along an axis among those that are kept, and which are."""
        along = self._iota(size, axis)
        if len(places) == size:
            return along, None
        half = len(places) // 2
        below = self._make("lt", (along, self._number(half)))
        above = self._make("ge", (along, self._number(size - half)))
        moved = self._make("sub", (along, self._number(size - 2 * half)))
        return self._make("select", (below, along, moved)), self._make("or_", (below, above))

    def _bits(self, value: Node) -> Node:
        """A value as integers, which a store widens: a float's bits in F32 or F64, 0 and 1 for masks."""
        if value.is_index:
            return self._make("value", (value,), I64)
        assert value.dtype is not None
        if value.dtype is F64:
            return self._make("bitcast", (value,), I64)
        if value.dtype.is_float:
            return self._make("bitcast", (self._to(value, F32),), I32)
        return self._to(value, I32) if value.dtype is MASK else value

    def _total(self, op: str, tile: Node) -> Node:
        return self._make(op, (self._make(op, (tile,), 1),), 0)

    def _to(self, tile: Node, dtype: DType) -> Node:
        return tile if tile.dtype is dtype else self._make("to", (tile,), dtype)

    def _iota(self, size: int, axis: int) -> Node:
        return self._make("iota", (), Const((size, 1) if axis == 0 else (1, size), I32, axis))

    def _number(self, value: int, dtype: DType = I32) -> Node:
        return self._make("const", (), Const((1, 1), dtype, value))

    def _make(self, op: str, args: tuple[Node, ...], attr: Attr = None) -> Node:
        return self._emit(make(op, args, attr, self._place))


def _appending(nodes: list[Node]) -> Emit:
    def emit(node: Node) -> Node:
        nodes.append(node)
        return node

    return emit


def _recording(region: Region) -> frozenset[Node]:
    """The loops and branches with a record in them."""
    found = set()
    for node in region.nodes:
        if any(each.op in RECORDS for inner in node.regions for each in inner.walk()):
            found.add(node)
            found |= frozenset().union(*(_recording(inner) for inner in node.regions))
    return frozenset(found)
