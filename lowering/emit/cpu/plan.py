"""Plans a region: which tasks compute it, and in which groups and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gizml_tile.lowering.emit.cpu.blocks import are_apart
from gizml_tile.lowering.emit.cpu.cost import is_heavy, only_stores
from gizml_tile.lowering.emit.cpu.deep import DeepProduct, deep_product
from gizml_tile.lowering.emit.cpu.homes import captured, choose_homes
from gizml_tile.lowering.emit.cpu.packing import (
    CHUNK_DEPTH,
    TOTAL_PADDING,
    Leaf,
    Machine,
    Pack,
    Packing,
    chunk_depth,
    dot_mode,
    dot_shape,
    leaves_of,
    split_transpose,
)
from gizml_tile.lowering.emit.cpu.placement import Placement
from gizml_tile.lowering.emit.cpu.schedule import (
    MATRIX_BLOCK_ROWS,
    AlongItem,
    Buffer,
    Carried,
    CondItem,
    DeepItem,
    DeepTerm,
    Group,
    Item,
    LoopItem,
    RegionPlan,
    Task,
    is_scalar,
)
from gizml_tile.lowering.emit.cpu.shapes import STEPS_TOGETHER, DotShape, depth_step
from gizml_tile.nodes import (
    ACCESSES,
    EFFECTS,
    MOVES,
    READS,
    Combining,
    Const,
    Elements,
    Node,
    Region,
    TileProgram,
    View,
    part_dtype,
    parts,
    tensor_of,
)


@dataclass
class Context:
    """What the plans of all regions of a program share."""

    machine: Machine
    # reads and stores of different tensors may touch the same memory: keep them in program order
    ordered: bool
    # of the tensors: one that is also seen with its axes swapped has one name
    names: tuple[str, ...]
    # bytes of an element, by tensors that the program only stores into
    stored: Mapping[int, int]
    packs: list[Pack] = field(default_factory=list)
    # left operands in pairs or padded to the micro-kernel's step, by node, width and whether in pairs
    lefts: dict[tuple[Node, int, int], Task] = field(default_factory=dict)


def plan(program: TileProgram, machine: Machine, *, may_alias: bool) -> tuple[RegionPlan, list[Pack]]:
    """The plan of a normalised program's body and the operands that functions of their own pack."""
    read: set[str] = set()
    written: set[str] = set()
    combined: set[str] = set()
    for node in program.body.walk():
        if node.op in ACCESSES:
            name = program.tensors[tensor_of(node)].name
            (read if node.op in READS else written).add(name)
            if isinstance(node.attr, Elements) and node.attr.combine:
                combined.add(name)
    names = tuple(tensor.name for tensor in program.tensors)
    ordered = bool(written) and (may_alias or bool(read & written))
    stored = (
        {}
        if may_alias or not machine.stream_bytes
        else {
            number: tensor.dtype.bytes
            for number, tensor in enumerate(program.tensors)
            if tensor.name not in read | combined
        }
    )
    context = Context(machine, ordered, names, stored)
    region, _ = plan_region(program.body, {}, (), context, outermost=True)
    return region, context.packs


def plan_region(
    region: Region,
    outer: dict[Node, Buffer],
    destinations: tuple[Buffer | None, ...],
    context: Context,
    *,
    outermost: bool = False,
) -> tuple[RegionPlan, list[Pack]]:
    """A region's plan and the packs that depend on nothing in it, to be made outside.

    ``outer`` are the homes of tiles made outside, ``destinations`` where the results must be put.
    """
    planner = _Planner(region, dict(outer), context=context, is_outermost=outermost)
    for node in region.nodes:
        if node in planner.homes.needed:
            planner.visit(node)
    planner.results(destinations)
    planner.mark_full_homes()
    for item in planner.items:
        if isinstance(item, Group):
            item.heavy = is_heavy(item)
            for step in item.steps:
                step.streams = only_stores(item, step, context.stored, context.machine.vector)
    ready: list[list[Node | Pack]] = [[] for _ in range(len(planner.items) + 1)]
    for after, entry in planner.ready:
        ready[after + 1].append(entry)
    return RegionPlan(planner.items, ready, planner.buffers, region.results), planner.outside


@dataclass
class _Planner(Placement):
    """Plans one region, node after node in program order."""

    context: Context = field(kw_only=True)
    is_outermost: bool = field(kw_only=True)
    ready: list[tuple[int, Node | Pack]] = field(default_factory=list)
    outside: list[Pack] = field(default_factory=list)
    # for the order of reads and stores
    last_put: dict[str, list[tuple[Node, int]]] = field(default_factory=dict)
    last_effect: int = -1
    last_read: int = -1
    made_here: set[Task] = field(default_factory=set)
    # products of inner regions, whose left operands must be ready, by that operand
    inner_products: dict[Node, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.homes = choose_homes(self.region, self.context.machine, self.context.ordered)
        for node in self.region.nodes:
            for inner in (inner for region in node.regions for inner in region.walk()):
                if inner.op == "dot" and inner.args[0] in self.inside:
                    self.inner_products.setdefault(inner.args[0], []).append(inner)

    # Nodes in program order.

    def visit(self, node: Node) -> None:
        match node.op:
            case "loop":
                self.loop(node)
            case "cond":
                self.cond(node)
            case "result":
                pass
            case "put" | "scatter":
                self.put(node)
            case "dot":
                self.dot(node)
            case "sum" | "max" | "min":
                self.reduction(node)
            case "reduce" | "scan" | "sort" | "histogram":
                self.along(node)
            case "part":
                pass  # made with what it is a part of
            case _ if is_scalar(node) and node.op in MOVES:
                self.store(node)
                self.read_back(node)
            case _ if is_scalar(node):
                self.scalar(node)
            case _ if node in self.homes.turned:
                rows, columns = node.shape
                self.add(Task("turn", node, rows, columns, node.args, self.home_of(node), makes=True))
            case _ if node in self.homes.stored:
                self.store(node)
        for product in self.inner_products.get(node, ()):
            buffer, _ = self.left_operand(node, self.shape_of(product))
            buffer.full = True

    def scalar(self, node: Node) -> None:
        after = self.whole(node.args) - 1
        if node.op in READS and self.context.ordered:
            after = max(after, self.last_effect)
            self.last_read = max(self.last_read, after + 1)
        self.done[node] = after
        self.ready.append((after, node))

    def home_of(self, node: Node) -> Buffer:
        assert node.dtype is not None
        self.buffers[node] = Buffer(node.shape[0], node.shape[1], node.dtype)
        return self.buffers[node]

    def store(self, node: Node) -> None:
        earliest = self.last_effect + 1 if node.op in READS and self.context.ordered else 0
        rows, columns = node.shape
        task = Task("store", node, rows, columns, node.args, self.home_of(node), makes=True)
        self.add(task, earliest)
        if node.op in READS:
            self.last_read = max(self.last_read, task.group)

    def put(self, node: Node) -> None:
        assert isinstance(node.attr, View | Elements)
        before = self.last_put.setdefault(self.context.names[tensor_of(node)], [])
        earliest = max((number + (not are_apart(other, node)) for other, number in before), default=0)
        if self.context.ordered:
            earliest = max(earliest, self.last_read + 1, self.last_effect + 1)
        rows, columns = node.attr.shape
        task = self.add(Task(node.op, node, rows, columns, node.args), earliest)
        before.append((node, task.group))
        self.last_effect = max(self.last_effect, task.group)

    def reduction(self, node: Node) -> None:
        rows, columns = node.args[0].shape
        kind = "reduce" if node.attr == 1 else "column_reduce"
        task = Task(kind, node, rows, columns, node.args, self.home_of(node), makes=True)
        if kind == "column_reduce":
            assert node.dtype is not None
            task.partial = Buffer(1, columns, node.dtype, full=True)
        self.add(task)
        self.read_back(node)

    def along(self, node: Node) -> None:
        found = {part.attr: part for part in self.region.nodes if part.op == "part" and part.args[0] is node}
        values = [node, *(found.get(number) for number in range(1, parts(node)))]
        # What comes before in a column is found in the homes.
        all_kept = isinstance(node.attr, Combining) and node.attr.axis == 0
        buffers: list[Buffer | None] = []
        for place, value in enumerate(values):
            used = value is not None and (value is not node or self._is_used(node))
            if not used and not all_kept:
                buffers.append(None)
                continue
            home = Buffer(node.shape[0], node.shape[1], part_dtype(node, place), full=True)
            buffers.append(home)
            if value is not None:
                self.buffers[value] = home
        number = len(self.items)
        self.items.append(AlongItem(node, tuple(buffers)))
        for value in filter(None, values):
            self.done[value] = number
            if is_scalar(value) and value in self.buffers:
                self.ready.append((number, value))

    def _is_used(self, node: Node) -> bool:
        """Whether something uses a node's own value, beside those that are further values of it."""
        users = (user for user in self.region.nodes if user.op != "part")
        return node in self.region.results or any(
            node in (*user.args, *(value for inner in user.regions for value in captured(inner)))
            for user in users
        )

    def read_back(self, node: Node) -> None:
        """A [1, 1] tile that a group makes is read once as a scalar."""
        if node.shape == (1, 1):
            self.buffers[node].full = True
            group = self.tasks[node].group
            self.done[node] = group
            self.ready.append((group, node))

    # Products.

    def shape_of(self, product: Node) -> DotShape:
        """The micro-kernel's form of a product whose left operand is one tile."""
        rows, depth = product.args[0].shape
        # A group multiplies a block of its rows at a time.
        rows = min(rows, MATRIX_BLOCK_ROWS)
        columns = product.args[1].shape[1]
        mode = dot_mode(product.args[0].dtype, product.args[1].dtype, self.context.machine)
        chunk = min(depth, CHUNK_DEPTH[mode])
        shape = dot_shape(rows, columns, chunk, mode, self.context.machine, depth)
        step = depth_step(shape)
        return dot_shape(rows, columns, max(chunk, step), mode, self.context.machine, max(depth, step))

    def dot(self, node: Node) -> None:
        left, right = node.args[:2]
        rows, columns = node.shape
        shape = self.shape_of(node)
        packed, earliest = self.pack_right(right, shape)
        buffer = self.home_of(node)
        buffer.stride = shape.c_row_stride
        left_buffer, after = self.left_operand(left, shape)
        for start in node.args[2:]:
            after = (*after, self.add(Task("store", start, rows, columns, (start,), buffer)))
        task = Task("dot", node, rows, columns, (left,), buffer, packed, left_buffer, makes=True)
        task.after = after
        self.add(task, earliest)
        self.read_back(node)

    def left_operand(self, left: Node, shape: DotShape) -> tuple[Buffer, tuple[Task, ...]]:
        """The left operand row by row as the micro-kernel reads it, and the task to wait for."""
        together = STEPS_TOGETHER[shape.element]
        packed = 4 // together if together > 1 else 0
        rows, depth = left.shape
        stride = max(depth, depth_step(shape))
        known = self.buffers.get(left)
        if not packed and known is not None and known.row_stride == stride:
            return known, ()
        key = (left, stride, packed)
        task = self.context.lefts.get(key)
        if task is None:
            assert left.dtype is not None
            buffer = Buffer(rows, depth, left.dtype, stride, packed=packed)
            task = self.add(Task("store", left, rows, depth, (left,), buffer))
            self.context.lefts[key] = task
            self.made_here.add(task)
        assert task.buffer is not None
        return task.buffer, (task,) if task in self.made_here else ()

    def pack_right(self, right: Node, shape: DotShape) -> tuple[Pack | Packing, int]:
        """Has the right operand packed; tells the first item that finds it so."""
        leaves = None if self.context.ordered else leaves_of(right)
        if leaves is None:
            packing = Packing("right", shape, right, False)
            rows, columns = right.shape
            task = self.add(Task("pack", right, rows, columns, (right,), right=packing))
            return packing, task.group + 1
        pack = self.pack("right", right, shape, leaves)
        self.hoist([pack])
        return pack, self.whole(tuple(leaf.index for leaf in pack.leaves))

    def pack(
        self,
        side: str,
        operand: Node,
        shape: DotShape,
        leaves: tuple[tuple[Leaf, ...], bool],
        product: DeepProduct | None = None,
    ) -> Pack:
        packing = Packing(side, shape, *split_transpose(operand))
        number = len(self.context.packs)
        if product is None:
            pack = Pack(number, packing, *leaves, depth=operand.shape[0])
        else:
            pack = Pack(number, packing, *leaves, product.turn, product.start, product.stop, product.depth)
        self.context.packs.append(pack)
        return pack

    def hoist(self, packs: list[Pack]) -> None:
        """Packs in this region what depends on something made in it, and leaves the rest to the outside."""
        for pack in packs:
            coordinates = tuple(leaf.index for leaf in pack.leaves)
            local = any(index in self.inside or index in self.region.params for index in coordinates)
            if local or self.is_outermost:
                self.ready.append((self.whole(coordinates) - 1, pack))
            else:
                self.outside.append(pack)

    # Structure.

    def loop(self, node: Node) -> None:
        if not self.context.ordered and self.deep(node):
            return
        region = node.regions[0]
        carried: list[Carried | None] = []
        inner = dict(self.buffers)
        for param, initial in zip(region.params[1:], node.args[3:], strict=True):
            if is_scalar(param):
                carried.append(None)
                continue
            assert param.dtype is not None
            rows, columns = param.shape
            places = [Buffer(rows, columns, param.dtype, full=True) for _ in range(2)]
            moving = [Buffer(rows, columns, param.dtype, full=True, moving=True) for _ in range(3)]
            home = Carried(*places, *moving)
            carried.append(home)
            inner[param] = home.current
            self.add(Task("store", initial, rows, columns, (initial,), home.start))
        destinations = tuple(home.following if home else None for home in carried)
        body, outside = plan_region(region, inner, destinations, self.context)
        self.hoist(outside)
        self.structured(node, LoopItem(node, body, tuple(carried), self.results_of(node)))
        for result in self.results_of(node):
            assert isinstance(result.attr, int)
            kept = carried[result.attr]
            if kept is not None:
                self.buffers[result] = kept.final

    def cond(self, node: Node) -> None:
        homes = tuple(self.common_home(value) for value in node.regions[0].results)
        arms = []
        for region in node.regions:
            arm, outside = plan_region(region, self.buffers, homes, self.context)
            self.hoist(outside)
            arms.append(arm)
        self.structured(node, CondItem(node, (arms[0], arms[1]), homes, self.results_of(node)))
        for result in self.results_of(node):
            assert isinstance(result.attr, int)
            home = homes[result.attr]
            if home is not None:
                self.buffers[result] = home

    def common_home(self, value: Node) -> Buffer | None:
        """Where both arms of a branch put a tile that they give."""
        if is_scalar(value):
            return None
        assert value.dtype is not None
        rows, columns = value.shape
        return Buffer(rows, columns, value.dtype, full=True)

    def results_of(self, node: Node) -> tuple[Node, ...]:
        return tuple(
            result for result in self.region.nodes if result.op == "result" and result.args[0] is node
        )

    def structured(self, node: Node, item: Item) -> None:
        number = len(self.items)
        self.items.append(item)
        for result in self.results_of(node):
            self.done[result] = number
        inner = [found for region in node.regions for found in region.walk()]
        for found in inner:
            if found.op in EFFECTS:
                name = self.context.names[tensor_of(found)]
                self.last_put.setdefault(name, []).append((found, number))
        if any(found.op in ACCESSES for found in inner):
            self.last_effect = max(self.last_effect, number)
            self.last_read = max(self.last_read, number)

    def deep(self, node: Node) -> bool:
        products = deep_product(node)
        if products is None:
            return False
        found = [
            (leaves_of(product.left, product.turn), leaves_of(product.right, product.turn))
            for product in products
        ]
        if any(left is None or right is None for left, right in found):
            return False
        terms = []
        for product, (left, right) in zip(products, found, strict=True):
            rows, columns = product.left.shape[0], product.right.shape[1]
            mode = dot_mode(product.left.dtype, product.right.dtype, self.context.machine)
            chunk = chunk_depth(mode, columns)
            shape = dot_shape(rows, columns, chunk, mode, self.context.machine, chunk)
            shape = replace(shape, c_row_stride=shape.c_row_stride + TOTAL_PADDING)
            assert product.initial.dtype is not None and left is not None and right is not None
            buffer = Buffer(rows, columns, product.initial.dtype, shape.c_row_stride, full=True)
            initial = product.initial
            from_zero = initial.op == "const" and isinstance(initial.attr, Const) and initial.attr.value == 0
            if not from_zero:
                self.add(Task("store", initial, rows, columns, (initial,), buffer))
            terms.append(
                DeepTerm(
                    self.pack("left", product.left, shape, left, product),
                    self.pack("right", product.right, shape, right, product),
                    buffer,
                    from_zero,
                    product.place,
                )
            )
        self.structured(node, DeepItem(node, tuple(terms)))
        for result in self.results_of(node):
            assert isinstance(result.attr, int)
            self.buffers[result] = terms[result.attr].buffer
            if is_scalar(result):
                self.ready.append((self.done[result], result))
        return True

    # The end of a region.

    def results(self, destinations: tuple[Buffer | None, ...]) -> None:
        for value, destination in zip(self.region.results, destinations, strict=False):
            if destination is None:
                continue
            task = self.tasks.get(value)
            if task is not None and task.buffer is not None:
                buffer = task.buffer
                plain = buffer.merged is None and not buffer.full and buffer.row_stride == buffer.columns
                if plain and buffer is not destination:
                    buffer.merged = destination
                    continue
            rows, columns = value.shape
            self.add(Task("store", value, rows, columns, (value,), destination))
