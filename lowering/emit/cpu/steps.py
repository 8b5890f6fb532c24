"""Writes a group: a loop over blocks of rows, and in it one pass over the columns for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from gizml_tile.dtypes import MASK, math_dtype
from gizml_tile.lowering.emit.cpu.access import Line, block_of
from gizml_tile.lowering.emit.cpu.accumulate import give_lock, locks_rows, row_lock, take_lock, unless_alone
from gizml_tile.lowering.emit.cpu.builder import Value
from gizml_tile.lowering.emit.cpu.cost import UNROLL
from gizml_tile.lowering.emit.cpu.dot import micro_product
from gizml_tile.lowering.emit.cpu.elements import Addresses
from gizml_tile.lowering.emit.cpu.evaluate import (
    ColumnPlace,
    Pass,
    Place,
    RowPlace,
    load_buffer,
    store_buffer,
)
from gizml_tile.lowering.emit.cpu.packing import Pack, Packing
from gizml_tile.lowering.emit.cpu.panels import Packer, transpose_block
from gizml_tile.lowering.emit.cpu.schedule import Buffer, Group, Step, Task
from gizml_tile.lowering.emit.cpu.scope import Scope, register_dtype
from gizml_tile.lowering.emit.cpu.shapes import DotShape
from gizml_tile.lowering.emit.cpu.streams import Streams, copy_row, is_copy
from gizml_tile.lowering.emit.cpu.totals import (
    accumulate,
    combine,
    fold_pairs,
    identity,
    total_type,
    total_value,
)
from gizml_tile.nodes import Node, tensor_of

# Sums have this many running totals, which bounds their error: n/64 additions each, then a tree.
TOTALS = 64


# Tasks that make rows for their own group, unless their home has all rows.
ROW_KINDS = frozenset({"store", "reduce", "dot"})


@dataclass
class GroupWriter:
    """Writes the groups of a region; ``packings`` are the addresses of operands that groups pack."""

    scope: Scope
    buffers: dict[Node, Buffer]
    packings: dict[Packing, str]
    configure: Callable[[DotShape], None]

    def write(self, group: Group) -> None:
        function = self.scope.function
        block_rows = group.block_rows
        for task in group.tasks:
            if task.kind == "column_reduce":
                self._clear_totals(task)

        def block(row: Value, _: list[str]) -> Sequence[str]:
            for number, step in enumerate(group.steps):
                fetches = group.heavy and number == 1
                later = [task for after in group.steps[2:] for task in after.tasks] if fetches else []
                self._step(step, row, block_rows, group.rows, later)
            return ()

        function.loop(0, self._rows(group), block_rows, block)

    def _rows(self, group: Group) -> Value:
        """Rows worth computing: those that are stored, where the group is only there to store."""
        function = self.scope.function
        stops: list[Value] = []
        for task in group.tasks:
            if task.kind == "put":
                rows = block_of(self.scope, task.node).rows
                stops.append(function.maximum(function.sub(rows.size, rows.start), 0))
            elif task.kind not in ROW_KINDS or task.buffer is None or task.buffer.home().full:
                return group.rows
        return function.minimum(group.rows, reduce(function.maximum, stops)) if stops else group.rows

    def _step(self, step: Step, row: Value, block_rows: int, rows: int, later: list[Task]) -> None:
        around = self.scope.function.come_from(step.tasks[0].node.place)
        match step.key[0]:
            case "wide":
                self._wide(step, row, block_rows, later)
            case "tall":
                self._tall(step.tasks, row, block_rows)
            case "columns":
                self._columns(step.tasks, row, block_rows, rows)
            case "dot":
                self._dot(step.tasks[0], row, block_rows)
            case "turn":
                self._turn(step.tasks[0], row, block_rows)
            case "pack":
                self._pack(step.tasks[0], row, block_rows)
        self.scope.function.come_from(around)

    def _pass(self, tasks: list[Task]) -> tuple[Pass, tuple[Node, ...], frozenset[Node]]:
        """A pass for tasks: its values, and which of them are computed although they have a home."""
        made = frozenset(task.node for task in tasks if task.makes and task.kind == "store")
        roots = tuple(root for task in tasks for root in _roots(task))
        shared = Pass(self.scope, self.buffers)
        shared.prepare(roots, made)
        return shared, roots, made

    # One vector of columns after another.

    def _wide(self, step: Step, first_row: Value, block_rows: int, later: list[Task]) -> None:
        """``later`` are tasks of later steps: what they need from memory is brought near meanwhile."""
        scope, function, tasks = self.scope, self.scope.function, step.tasks
        columns = tasks[0].columns
        width = min(scope.unit.lanes, columns)
        shared, roots, made = self._pass(tasks)
        reductions = [task for task in tasks if task.kind == "reduce"]
        unroll = min(columns // width, max(1, TOTALS // width) if reductions else UNROLL)
        puts = {task: block_of(scope, task.node) for task in tasks if task.kind == "put"}
        scatters = _scatters(scope, tasks)
        streams = Streams.of(scope, tasks) if step.streams else None
        later_puts = [
            block_of(scope, task.node)
            for task in later
            if task.kind == "put" and task.rows > 1 and task.columns == columns
        ]

        def in_row(local: Value, _: list[str]) -> Sequence[str]:
            row = function.add(first_row, local)
            place = RowPlace(shared, row, local, width)
            place.prepare(roots, made)
            lines = {task: block.row(row, width) for task, block in puts.items()}
            for task, addresses in scatters.items():
                if width > 1 and addresses.run is not None:
                    lines[task] = place.run(addresses, made)
            combining = [task for task in lines if task in scatters and scatters[task].combine]
            # A row that is locked as a whole; two could be the same row, or meet in one lock.
            locked = combining[0] if len(combining) == 1 and locks_rows(scope.unit.program) else None
            lock = row_lock(scope, lines[locked]) if locked else ""
            if locked:
                unless_alone(scope, take_lock, lock)
            past = streams.begin(lines.values()) if streams else ""
            later_lines = [block.row(row, width) for block in later_puts]
            initial = [
                (scope.arithmetic(width).type(total_type(task)), identity(scope, task, width))
                for task in reductions
                for _ in range(unroll)
            ]

            def in_columns(
                column: Value, totals: list[str], *, vectors: int = unroll, inside: bool = False
            ) -> Sequence[str]:
                totals = list(totals)
                for number in range(vectors):
                    here = place.at(function.add(column, number * width), inside=inside)
                    if later and inside:
                        self._fetch_ahead(here, block_rows, later_lines)
                    for task in tasks:
                        function.come_from(task.node.place)
                        if task.kind == "reduce":
                            total = reductions.index(task) * unroll + number
                            totals[total] = accumulate(scope, task, totals[total], here)
                        elif task.kind == "store":
                            self._store(task, here, made)
                        elif streams and past and inside:
                            streams.take(lines[task], put_value(scope, task, here), here)
                        elif task in lines:
                            value = put_value(scope, task, here)
                            chooses = task in scatters and scatters[task].chooses
                            chosen = here.value(task.node.args[-1]) if chooses else None
                            store: Callable[..., None] = lines[task].store
                            if task in scatters and scatters[task].combine:
                                store = partial(
                                    scatters[task].combine_line, line=lines[task], locked=task is locked
                                )
                            store(scope.arithmetic(width), value, here.column, here.masks, chosen)
                        else:
                            value = put_value(scope, task, here)
                            scatters[task].store(scope.arithmetic(width), value, here.value)
                if streams:
                    streams.store(past)
                return totals

            edge: Value = 0
            if place.lines or lines:
                edge = place.inside(columns, unroll * width, lines.values())
                free = partial(in_columns, inside=True)
                turns = partial(function.loop, 0, edge, unroll * width, free, initial)
                copied = _copied_line(tasks, place) if streams and past else None
                if copied is not None and is_copy(lines[tasks[0]], copied, columns):
                    copy_row(function, past, lines[tasks[0]], copied, edge, turns)
                    totals = []
                else:
                    totals = turns()
                initial = [(kind, total) for (kind, _), total in zip(initial, totals, strict=True)]
            vectors = unroll if reductions or edge == 0 else 1
            rest = partial(in_columns, vectors=vectors)
            end: Value = columns
            if lines and len(lines) == len(tasks):
                # What lies outside of all tensors that are stored to need not even be computed.
                stops = [function.add(line.start, line.length) for line in lines.values()]
                end = function.minimum(columns, reduce(function.maximum, stops))
            totals = function.loop(edge, end, vectors * width, rest, initial)
            if locked:
                unless_alone(scope, give_lock, lock)
            for number, task in enumerate(reductions):
                function.come_from(task.node.place)
                total = combine(scope, task, totals[number * unroll : (number + 1) * unroll], width)
                assert task.buffer is not None
                store_buffer(scope, task.buffer, scope.address(task.buffer, row, local, 0), total, 1)
            return ()

        function.loop(0, block_rows, 1, in_row)

    def _fetch_ahead(self, here: Place, block_rows: int, later: list[Line]) -> None:
        """Brings near what this place reads, a block of rows further on, and what is stored here later.

        The passes of a block compute longer than the processor looks ahead, so without this memory would
        wait for computing and computing for memory.
        """
        function = self.scope.function
        for node, line in here.parent.lines.items():
            if node.op == "read" and node.shape[0] > 1:
                ahead = function.mul(line.block.rows.stride_bytes, block_rows)
                self._fetch(line, here.column, ahead, "0")
        for line in later:
            self._fetch(line, here.column, 0, "1")

    def _fetch(self, line: Line, column: Value, ahead: Value, for_writing: str) -> None:
        function = self.scope.function
        element_bytes = line.block.dtype.bytes
        if line.stride_bytes != element_bytes:
            return
        name = "llvm.prefetch.p0"
        function.module.declare(name, f"void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
        offset = function.add(ahead, function.mul(column, element_bytes))
        address = function.offset(line.pointer, offset)
        function.call_void(name, f"ptr {address}", f"i32 {for_writing}", "i32 2", "i32 1")

    def _store(self, task: Task, here: Place, made: frozenset[Node]) -> None:
        value = here.memo.get(task.node) or (
            here.compute(task.node) if task.node in made else here.value(task.node)
        )
        assert task.buffer is not None
        scope, buffer = self.scope, task.buffer
        address = scope.address(buffer, here.row, here.local, here.column)
        store_buffer(scope, buffer, address, value, here.width)
        self._pad(task, here.row, here.local)

    def _pad(self, task: Task, row: Value, local: Value) -> None:
        """Zeros behind the few columns of a left operand that is narrower than a step of the product."""
        buffer = task.buffer
        assert buffer is not None
        is_left = buffer.home().row_stride > task.columns and task.kind == "store" and not task.makes
        if not is_left or buffer.dtype is MASK:
            return
        for column in range(task.columns, buffer.row_stride):
            address = self.scope.address(buffer, row, local, column)
            kind = f"i{8 * buffer.packed}" if buffer.packed else self.scope.arithmetic(1).type(buffer.dtype)
            self.scope.function.store(kind, "zeroinitializer", address, buffer.element_bytes)

    # Tiles of one column: vectors of rows.

    def _tall(self, tasks: list[Task], first_row: Value, block_rows: int) -> None:
        scope, function = self.scope, self.scope.function
        width = min(scope.unit.lanes, block_rows)
        shared, _, made = self._pass(tasks)
        puts = {task: block_of(scope, task.node) for task in tasks if task.kind == "put"}
        scatters = _scatters(scope, tasks)

        def in_rows(local: Value, _: list[str]) -> Sequence[str]:
            place = ColumnPlace(shared, function.add(first_row, local), local, width)
            for task in tasks:
                function.come_from(task.node.place)
                if task.kind == "put":
                    line = puts[task].column(0, width)
                    value = put_value(scope, task, place)
                    line.store(scope.arithmetic(width), value, place.row, place.masks)
                    continue
                if task in scatters:
                    value = put_value(scope, task, place)
                    scatters[task].store(scope.arithmetic(width), value, place.value)
                    continue
                assert task.buffer is not None
                value = place.memo.get(task.node) or (
                    place.compute(task.node) if task.node in made else place.value(task.node)
                )
                self._store_column(task.buffer, place, value)
                for lane in range(width):
                    self._pad(task, function.add(place.row, lane), function.add(local, lane))
            return ()

        function.loop(0, block_rows, width, in_rows)

    def _store_column(self, buffer: Buffer, place: ColumnPlace, value: str) -> None:
        scope, function = self.scope, self.scope.function
        if buffer.home().row_stride == 1 or place.width == 1:
            address = scope.address(buffer, place.row, place.local, 0)
            store_buffer(scope, buffer, address, value, place.width)
            return
        of = place.arithmetic.type(buffer.dtype)
        for lane in range(place.width):
            element = function.emit(f"extractelement {of} {value}, i64 {lane}")
            row, local = function.add(place.row, lane), function.add(place.local, lane)
            store_buffer(scope, buffer, scope.address(buffer, row, local, 0), element, 1)

    # Reductions over rows.

    def _clear_totals(self, task: Task) -> None:
        scope, buffer = self.scope, task.buffer
        assert buffer is not None
        width = min(scope.unit.lanes, task.columns)

        def clear(column: Value, _: list[str]) -> Sequence[str]:
            for home in (buffer, task.partial):
                assert home is not None
                address = scope.address(home, 0, 0, column)
                store_buffer(scope, home, address, identity(scope, task, width), width)
            return ()

        scope.function.loop(0, task.columns, width, clear)

    def _columns(self, tasks: list[Task], first_row: Value, block_rows: int, rows: int) -> None:
        """Column totals: a tree over the block's rows, then blocks in pairs of levels.

        With blocks of 16 rows a column's sum takes 4 roundings in the block, 4 over as many blocks, and
        one for each 64 rows: within the bound of the sums along rows.
        """
        scope, function = self.scope, self.scope.function
        columns = tasks[0].columns
        width = min(scope.unit.lanes, columns)
        shared, roots, made = self._pass(tasks)
        places = []
        for local in range(block_rows):
            place = RowPlace(shared, function.add(first_row, local), local, width)
            place.prepare(roots, made)
            places.append(place)
        blocks = min(4, rows // block_rows)
        number = function.remainder(function.divide(first_row, block_rows), blocks)
        fresh = function.compare("eq", number, 0)
        flush = function.compare("eq", number, blocks - 1)

        def in_columns(column: Value, _: list[str]) -> Sequence[str]:
            here = [place.at(column) for place in places]
            for task in tasks:
                function.come_from(task.node.place)
                values = [total_value(scope, task, place) for place in here]
                tree = fold_pairs(scope, task, values, width)
                of = scope.arithmetic(width).type(total_type(task))
                partial, total = task.partial, task.buffer
                assert partial is not None and total is not None
                near = scope.address(partial, 0, 0, column)
                far = scope.address(total, 0, 0, column)
                arithmetic = scope.arithmetic(width)
                none = identity(scope, task, width)
                before = load_buffer(scope, partial, near, width)
                before = function.emit(f"select i1 {fresh}, {of} {none}, {of} {before}")
                block = arithmetic.accumulate(task.node.op, total_type(task), before, tree)
                store_buffer(scope, partial, near, block, width)
                added = function.emit(f"select i1 {flush}, {of} {block}, {of} {none}")
                done = arithmetic.accumulate(
                    task.node.op, total_type(task), load_buffer(scope, total, far, width), added
                )
                store_buffer(scope, total, far, done, width)
            return ()

        function.loop(0, columns, width, in_columns)

    # Products.

    def _dot(self, task: Task, first_row: Value, block_rows: int) -> None:
        scope, function = self.scope, self.scope.function
        assert task.left is not None and task.buffer is not None and task.right is not None
        packing = task.right.packing if isinstance(task.right, Pack) else task.right
        panels = scope.packs[task.right] if isinstance(task.right, Pack) else self.packings[task.right]
        shape = packing.shape
        depth = task.node.args[0].shape[1]
        padded = max(depth, task.left.row_stride)
        self.configure(shape)
        starts = len(task.node.args) == 2
        left_bytes = task.left.element_bytes
        left = scope.address(task.left, first_row, 0, 0)
        total = scope.address(task.buffer, first_row, 0, 0)
        block = replace(shape, rows=block_rows)

        def chunk(start: Value, _: list[str]) -> Sequence[str]:
            number = function.divide(start, shape.kc)
            first = function.compare("eq", start, 0) if starts else "false"
            micro_product(
                function,
                block,
                function.offset(left, function.mul(start, left_bytes)),
                function.offset(panels, function.mul(number, packing.chunk_bytes)),
                total,
                min(shape.kc, padded),
                first,
            )
            return ()

        function.loop(0, padded, shape.kc, chunk)

    def _turn(self, task: Task, first_row: Value, block_rows: int) -> None:
        """A transpose: square blocks are loaded along the operand's rows and turned in registers."""
        scope, function = self.scope, self.scope.function
        operand = task.node.args[0]
        side = min(scope.unit.lanes, block_rows, task.columns)
        shared = Pass(scope, self.buffers)
        shared.prepare((operand,))
        assert task.buffer is not None
        buffer = task.buffer

        def in_rows(local: Value, _: list[str]) -> Sequence[str]:
            row = function.add(first_row, local)

            def in_columns(column: Value, _: list[str]) -> Sequence[str]:
                lines = []
                for lane in range(side):
                    operand_row = function.add(column, lane)
                    place = RowPlace(shared, operand_row, operand_row, side)
                    place.prepare((operand,))
                    lines.append(place.at(row).value(operand))
                kind = scope.arithmetic(1).type(register_dtype(operand))
                for lane, turned in enumerate(transpose_block(function, kind, lines)):
                    address = scope.address(
                        buffer, function.add(row, lane), function.add(local, lane), column
                    )
                    store_buffer(scope, buffer, address, turned, side)
                return ()

            function.loop(0, task.columns, side, in_columns)
            return ()

        function.loop(0, block_rows, side, in_rows)

    def _pack(self, task: Task, first_row: Value, block_rows: int) -> None:
        """Rows of a right operand that the group computes go into its panels."""
        function = self.scope.function
        packing = task.right
        assert isinstance(packing, Packing)
        shared = Pass(self.scope, self.buffers)
        shared.prepare((task.node,))
        packer = Packer(self.scope, packing, task.node, shared, task.rows, task.rows)
        chunk, inner = (
            function.divide(first_row, packing.shape.kc),
            function.remainder(first_row, packing.shape.kc),
        )
        target = function.offset(self.packings[packing], function.mul(chunk, packing.chunk_bytes))
        base = function.mul(chunk, packing.shape.kc)
        count = -(-block_rows // packer.step) * packer.step if packer.ragged else block_rows

        def in_rows(local: Value, _: list[str]) -> Sequence[str]:
            return packer.right_rows(target, base, function.add(inner, local), local)

        function.loop(0, count, packing.panels.pair, in_rows)


def _roots(task: Task) -> tuple[Node, ...]:
    match task.kind:
        case "store":
            return (task.node,)
        case "scatter":
            return tuple(arg for arg in task.node.args if arg.is_tile)
    return (task.node.args[0],)


def _copied_line(tasks: Sequence[Task], place: RowPlace) -> Line | None:
    """What a pass of a single store reads, if that is all it does in a row."""
    node = tasks[0].node.args[0]
    chooses = node.op == "gather" and place.shared.addresses[node].chooses
    return place.lines.get(node) if len(tasks) == 1 and not chooses else None


def _scatters(scope: Scope, tasks: Sequence[Task]) -> dict[Task, Addresses]:
    return {task: Addresses.of(scope, task.node) for task in tasks if task.kind == "scatter"}


def put_value(scope: Scope, task: Task, here: Place | ColumnPlace) -> str:
    """What a put stores, of the kind that the tensor's type has in registers."""
    node = task.node.args[0]
    target = scope.unit.program.tensors[tensor_of(task.node)].dtype
    source = register_dtype(node)
    value = here.value(node)
    # What is of another kind is rounded to the type itself, once.
    return value if source is math_dtype(target) else here.arithmetic.convert(source, target, value)
