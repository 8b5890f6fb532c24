"""In and Out: tensors read and written in blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from gizml_tile.dtypes import ACCUMULATED, F64, MASK, DType
from gizml_tile.elements import elements_at, masked_block
from gizml_tile.foreign import Unread
from gizml_tile.helpful import Sizes
from gizml_tile.index import Index
from gizml_tile.lifting import constant, describe, lift, lift_index, number
from gizml_tile.nodes import EXACT, Const, Elements, Node, View, broadcast
from gizml_tile.tile import Tile
from gizml_tile.tracing import Trace, Value, active, article, fail, noun


class _Blocks(Unread):
    """What inputs and outputs share: a tensor seen in blocks."""

    __slots__ = ("_block", "_tensor", "_trace")

    def __init__(self, trace: Trace, tensor: int, block: tuple[int, ...]) -> None:
        self._trace = trace
        self._tensor = tensor
        self._block = block

    @property
    def block(self) -> tuple[int, ...]:
        """The sizes of a block along the last one or two dimensions."""
        return self._block

    @property
    def dtype(self) -> DType:
        """The tensor's storage type."""
        return self._trace.tensors[self._tensor].dtype

    @property
    def ndim(self) -> int:
        """The tensor's number of dimensions."""
        return self._trace.tensors[self._tensor].rank

    def dim(self, axis: object) -> Index:
        """The tensor's size along an axis."""
        return _size(self._trace, self._tensor, self._axis(axis, "dim"))

    def blocks(self, axis: object) -> Index:
        """The number of blocks along an axis; its size for a dimension before the blocked ones."""
        number = self._axis(axis, "blocks")
        size = _size(self._trace, self._tensor, number)
        blocked = number - (self.ndim - len(self._block))
        if blocked < 0 or self._block[blocked] == 1:
            return size
        length = self._block[blocked]
        result = size.add(length - 1).div(length)
        assert isinstance(result, Index)
        return result

    def _axis(self, axis: object, what: str) -> int:
        host = number(axis)
        rank = self.ndim
        if type(host) is not int or not -rank <= host < rank:
            fail(
                f"the axis of {what} is {-rank} to {rank - 1} for a tensor of {dimensions(rank)}, found "
                f"{describe(axis)}"
            )
        return host % rank

    def _coordinates(self, coords: object, what: str) -> tuple[Node, ...]:
        given = self._given(coords, what)
        way = "scatter" if isinstance(self, Out) else "gather"
        for each in given:
            if isinstance(each, Tile):
                fail(
                    f"the coordinates of {what} are indices, found {describe(each)}; {way}(...) takes "
                    "integer tiles, which tell each element's place"
                )
        return tuple([lift_index(self._trace, each, f"a coordinate of {what}") for each in given])

    def _form(self, what: str) -> str:
        """``A.at([i, k])``, ``A[i, k]``: how as many coordinates are written as the tensor has dimensions."""
        last = ["i", "k"][: self.ndim]
        coords = ", ".join([f"n{number}" for number in range(self.ndim - 2)] + last)
        if what.endswith("]"):
            return f"{self._example}[{coords}]"
        if what.endswith("tile"):
            return f"{self._example}[{coords}] = tile"
        first = "tile, " if isinstance(self, Out) else ""
        return f"{self._example}.{what}({first}[{coords}])"

    def _given(self, coords: object, what: str) -> tuple[object, ...]:
        """The coordinates, one for each dimension of the tensor."""
        self._trace.check_open()
        many = isinstance(coords, Iterable) and not isinstance(coords, Value | str)
        given = tuple(coords) if many else (coords,)  # type: ignore[arg-type]
        for each in given:
            if isinstance(each, slice) or each is Ellipsis or each is None:
                found = "a slice" if isinstance(each, slice) else describe(each)
                way = "put_window" if isinstance(self, Out) else "window"
                fail(
                    f"{what} takes one number for each dimension of the tensor, found {found}; the block's "
                    f"shape is given to p.read or p.write, and {way}(offsets) takes a block at any element"
                )
        rank = self.ndim
        if len(given) != rank:
            fail(
                f"{what} takes {rank} coordinate{'s' * (rank != 1)}, one for each dimension of the tensor, "
                f"found {len(given)}; write {self._form(what)}"
            )
        return given

    def __bool__(self) -> bool:
        return True

    def __call__(self, *args: object, **named: object) -> NoReturn:
        fail(f"{self._told()} is not called: blocks are named in brackets, {self._example}[i, k]")

    def __iter__(self) -> NoReturn:
        fail(
            f"blocks are not iterated; loop over their number: `for k in range({self._example}.blocks(1)):` "
            f"in a kernel, or p.loop(0, {self._example}.blocks(1), inits, body)"
        )

    def __len__(self) -> int:
        fail(f"the number of blocks is known only when the kernel runs; it is {self._example}.blocks(axis)")


class In(_Blocks):
    """A tensor read in blocks of its last one or two dimensions."""

    __slots__ = ("_pad",)

    _example = "A"
    _habits = "INPUT"
    _made_by = "p.read(tensor, [rows, columns]) gives an input"

    def __init__(self, trace: Trace, tensor: int, block: tuple[int, ...], pad: float | int | bool) -> None:
        super().__init__(trace, tensor, block)
        self._pad = pad

    def at(self, coords: object, *, mask: object = None) -> Tile:
        """The block at block coordinates (leading unblocked dimensions by element).

        One coordinate for each dimension of the tensor; elements outside the tensor read ``pad``, and so do
        those where ``mask``, which broadcasts to the block, is false: their memory is not touched. Blocks so
        far away that 64 bits do not tell where they begin lie outside, too.
        """
        return self._read("at", coords, mask)

    def window(self, offsets: object, *, mask: object = None) -> Tile:
        """The block whose first element is at these element offsets; outside the tensor and where ``mask`` is
        false reads ``pad``."""
        return self._read("window", offsets, mask)

    def gather(self, coords: object, *, mask: object = None) -> Tile:
        """Elements from anywhere: one coordinate, which counts elements, for each dimension of the tensor.

        Each is an index, an integer or an integer tile; the tiles broadcast together to the result's shape,
        as NumPy's do in ``x[rows, columns]``. The view's block does not matter. What lies outside the tensor,
        before it too, reads ``pad``, and so does what ``mask`` leaves out, whose memory is not touched. Rows
        of a table, in vectors where the last coordinate counts columns::

            E.gather([ids.T, p.iota([1, 128], 1, I32)])    # ids [1, R] -> [R, 128]
        """
        given = self._given(coords, "gather")
        operands, attr = elements_at(self._trace, self._tensor, given, mask, "gather", pad=self._pad)
        op = "read" if isinstance(attr, View) else "gather"
        return Tile(self._trace.blocks[-1], self._trace.record(op, operands, attr))

    def index(self, coords: object) -> Index:
        """One element of an integer tensor as an index: a loop's bound, a block's number, a length.

        One coordinate, which counts elements, for each dimension of the tensor, each an index or an integer;
        outside the tensor it is ``pad``. It is read in program order, as blocks are; other programs of the
        launch may not write it. The view's block does not matter::

            for b in range(LENGTHS.index([i])):
                page = TABLE.index([i, b])
                acc += Q @ K[page, 0, 0].T
        """
        dtype = self.dtype
        if not dtype.is_integer:
            fail(f"index reads integers, found {article(str(dtype))} tensor; gather reads elements as tiles")
        nodes = self._coordinates(coords, "index")
        attr = Elements(self._tensor, (1, 1), len(nodes), (), self._pad)
        return Index(self._trace.blocks[-1], self._trace.record("element", nodes, attr))

    def __getitem__(self, coords: object) -> Tile:
        return self._read("at", coords, None, "A[...]")

    def __setitem__(self, coords: object, tile: object) -> None:
        fail(
            "an input is not written; C = p.write(tensor, block) names the same tensor to store in, C[i, j] "
            "= tile"
        )

    def _told(self) -> str:
        return "an input"

    def _way(self) -> str:
        return "take a block, as in A[i, k]"

    def __repr__(self) -> str:
        return f"<In {self.dtype} in blocks of {list(self._block)}>"

    def _read(self, mode: str, coords: object, mask: object, what: str = "") -> Tile:
        nodes = self._coordinates(coords, what or mode)
        view = View(self._tensor, self._block, mode, self._pad)
        if mask is None:
            node = self._trace.record("read", nodes, view)
        else:
            node = self._trace.record("gather", *masked_block(self._trace, view, nodes, mask, mode))
        return Tile(self._trace.blocks[-1], node)


class Out(_Blocks):
    """A tensor written in blocks of its last one or two dimensions."""

    __slots__ = ()

    _example = "C"
    _habits = "OUTPUT"
    _made_by = "p.write(tensor, [rows, columns]) gives an output"

    def put(self, tile: object, coords: object, *, mask: object = None) -> None:
        """Store a tile as the block at block coordinates; outside the tensor, and where ``mask``, which
        broadcasts to the block, is false, nothing is written."""
        self._put("at", tile, coords, mask)

    def put_window(self, tile: object, offsets: object, *, mask: object = None) -> None:
        """Store a tile with its first element at element offsets, where ``mask`` is not false."""
        self._put("window", tile, offsets, mask)

    def scatter(self, tile: object, coords: object, *, mask: object = None) -> None:
        """Store each element of a tile anywhere: one coordinate for each dimension of the tensor.

        The coordinates are those of ``In.gather`` and broadcast together to the shape that the tile, and
        ``mask``, broadcast to. Nothing is written outside the tensor and where the mask is false. Of several
        elements that go to one place, which one stays is undefined; the simulator reports a race where they
        differ.
        """
        self._scatter("scatter", tile, coords, mask)

    def scatter_add(
        self, tile: object, coords: object, *, mask: object = None, deterministic: bool = False
    ) -> None:
        """Add each element of a tile to what the tensor holds at its coordinates, see ``scatter``.

        Several elements may go to one place, from this program and from others of the launch: each is added
        once. The tensor, of F64, F32, F16, BF16, I32, I64, U32 or U64, starts from what it holds when the
        launch begins. The tile is rounded to the tensor's type, and so is each sum. In which order they are
        added is undefined: of integers it does not matter, float sums may differ in their last bits from
        launch to launch. Atomic units of GPUs may take subnormal F32 for 0. A program may not read in the
        same launch what others add to.

        With ``deterministic=True`` equal elements give equal sums, bit for bit: in every launch and order,
        with whatever blocks and grid, on every device. The sum of a place is that of its elements in F32,
        each cut to multiples of 2^-33 of the power of two in the largest; it is exact, rounded once to F32,
        added to what the tensor held and rounded to its type. Up to 2^29 elements may go to one place. It is
        made of additions of integers: a launch runs its programs twice, and takes 12 bytes of memory for each
        element of the tensor, cleared before and read after it. Programs may not read what they write then,
        and to the tensor they do nothing but add.
        """
        if not isinstance(deterministic, bool):
            fail(f"deterministic is True or False, found {describe(deterministic)}")
        given = tile._node.dtype if isinstance(tile, Value) else None
        added = self.dtype if given is None else given
        if deterministic and F64 in (self.dtype, added):
            fail(
                f"scatter_add adds with deterministic=True in F32, found {article(str(added))} tile for "
                f"{article(str(self.dtype))} tensor; use F32 for both, or leave deterministic out"
            )
        combine = EXACT if deterministic and self.dtype.is_float else "add"
        self._scatter("scatter_add", tile, coords, mask, combine)

    def scatter_max(self, tile: object, coords: object, *, mask: object = None) -> None:
        """Let the tensor keep the larger of what it holds and each element, by the rules of ``maximum``.

        As ``scatter_add``, with the same bits in whatever order.
        """
        self._scatter("scatter_max", tile, coords, mask, "max")

    def scatter_min(self, tile: object, coords: object, *, mask: object = None) -> None:
        """Let the tensor keep the smaller of what it holds and each element, by the rules of ``minimum``.

        As ``scatter_add``, with the same bits in whatever order.
        """
        self._scatter("scatter_min", tile, coords, mask, "min")

    def __setitem__(self, coords: object, tile: object) -> None:
        self._put("at", tile, coords, None, "C[...] = tile")

    def __delitem__(self, coords: object) -> NoReturn:
        fail("blocks of an output are stored, C[i, j] = tile, and not deleted")

    def __getitem__(self, coords: object) -> NoReturn:
        fail(
            "an output is not read, also not by C[i, j] += t; read the tensor with A = p.read(tensor, block) "
            "and write C[i, j] = A[i, j] + t"
        )

    def _told(self) -> str:
        return "an output"

    def _way(self) -> str:
        return "blocks are stored, C[i, j] = tile, and those of A = p.read(tensor, block) are read, A[i, j]"

    def __repr__(self) -> str:
        return f"<Out {self.dtype} in blocks of {list(self._block)}>"

    def _put(self, mode: str, tile: object, coords: object, mask: object, what: str = "") -> None:
        what = what or ("put" if mode == "at" else "put_window")
        trace = self._trace
        trace.check_open()
        view = View(self._tensor, self._block, mode)
        value = self._stored(tile, what)
        if broadcast(value.shape, view.shape) != view.shape:
            fail(
                f"{what} needs a tile of the block's shape {list(view.shape)} (or 1 along an axis), found "
                f"{list(value.shape)}; write the tensor in blocks of {list(value.shape)}"
            )
        nodes = self._coordinates(coords, what)
        if mask is None:
            trace.record("put", (value, *nodes), view)
            return
        operands, attr = masked_block(trace, view, nodes, mask, what)
        trace.record("scatter", (value, *operands), attr)

    def _scatter(self, what: str, tile: object, coords: object, mask: object, combine: str = "") -> None:
        trace = self._trace
        if isinstance(tile, list | tuple):
            self._stored(tile, what)
        given = self._given(coords, what)
        if combine and self.dtype not in ACCUMULATED:
            found = article(str(self.dtype))
            fail(
                f"{what} takes tensors of F64, F32, F16, BF16, I32, I64, U32 and U64, found {found} tensor; "
                "add to a tensor of one of these and convert it afterwards"
            )
        value = self._stored(tile, what)
        operands, attr = elements_at(trace, self._tensor, given, mask, what, combine=combine)
        if broadcast(value.shape, attr.shape) != attr.shape:
            fail(
                f"{what} needs a tile of the coordinates' shape {list(attr.shape)} (or 1 along an axis), "
                f"found {list(value.shape)}; coordinates of its shape give each element a place"
            )
        op = "put" if isinstance(attr, View) else "scatter"
        trace.record(op, (value, *operands), attr)

    def _stored(self, tile: object, what: str) -> Node:
        kind = self.dtype
        if isinstance(tile, tuple) and all(isinstance(each, Tile) for each in tile):
            fail(
                f"{what} takes one tile, found {len(tile)} in a tuple; take one of them, as in "
                "values, places = x.sort(1)"
            )
        if isinstance(tile, list | tuple) and not what.startswith("C"):
            fail(
                f"{what} takes the tile first and the coordinates second, C.{what}(tile, [i, j]), found "
                f"{describe(tile)} first"
            )
        host = number(tile)
        if isinstance(host, bool) and kind is not MASK:
            host = tile = int(host)
        node = lift(self._trace, tile, kind, what)
        assert node.dtype is not None
        fits = (
            (node.dtype.is_float and kind.is_float)
            or (node.dtype.is_integer and kind.is_integer and kind.bits >= node.dtype.bits)
            or node.dtype is kind
        )
        if not fits and host is None:
            way = "compare it, as in x.ne(0)" if kind is MASK else f"convert it with .to({kind})"
            fail(f"{what} to {article(str(kind))} tensor: found {article(noun(node))}; {way}")
        if not fits:
            stored = constant(host, kind, f"the value of {what}")
            return self._trace.record("const", (), Const((1, 1), kind, stored))
        return node


def dimensions(rank: int) -> str:
    """A number of dimensions in words."""
    return f"{rank} dimension{'s' * (rank != 1)}"


def _size(trace: Trace, tensor: int, axis: int) -> Index:
    trace.check_open()
    return Index(trace.blocks[-1], trace.record("size", (), (tensor, axis)))


def sizes(tensor: object) -> tuple[Index, ...]:
    """The sizes of a tensor argument of the kernel that is being traced."""
    trace = active()
    if trace is None:
        fail("a kernel's tensors exist only in its body")
    number = trace.tensor_number(tensor, "shape")
    return Sizes([_size(trace, number, axis) for axis in range(trace.tensors[number].rank)])
