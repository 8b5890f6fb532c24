"""The rules of the tile IR, one for each operation; a broken one is a mistake of ours, not the person's."""

from __future__ import annotations

import math
from collections.abc import Callable

from gizml_tile.dtypes import ACCUMULATED, F32, F64, I32, I64, MASK, MATHEMATICAL, U32, DType, math_dtype
from gizml_tile.nodes import (
    APPROXIMABLE,
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    COUNTS,
    EARLY,
    EFFECTS,
    ELEMENTWISE,
    EXACT,
    RANDOM,
    UNARY_DOUBLE,
    UNARY_FLOAT,
    Combining,
    Const,
    Elements,
    Message,
    Node,
    Random,
    Region,
    Scalar,
    Shape,
    Sorting,
    TileProgram,
    View,
    broadcast,
    part_dtype,
    parts,
    places,
    promote,
    slices,
)

Rule = Callable[[Node, TileProgram], None]
_INDEX_OPS = frozenset("neg abs add sub mul div rem floordiv floormod maximum minimum select".split())
_LOGICAL = frozenset({"and_", "or_", "xor", "eq", "ne"})


def check(program: TileProgram) -> None:
    """Assert every rule of the tile IR for a program; the message names the node that breaks one."""
    for number in program.writes:
        assert 0 <= number < len(program.tensors), f"write {number} names no tensor"
    names = [tensor.name for tensor in program.tensors] + [each.name for each in program.scalars]
    assert len({*names[: len(program.tensors)]}) == len(program.tensors), f"names repeat: {names}"
    assert not program.body.params and not program.body.results, "the body takes and gives nothing"
    _check_region(program.body, program, set())


def _check_region(region: Region, program: TileProgram, seen: set[Node]) -> None:
    """Check the nodes of a region, whose operands must come from before or from regions around it."""
    added: list[Node] = []
    for param in region.params:
        assert param.op == "param" and not param.args, f"{param} is no parameter"
        assert param not in seen, f"{param} belongs to two regions"
        seen.add(param)
        added.append(param)
    for node in region.nodes:
        assert node not in seen, f"{node} stands twice in the program"
        for arg in node.args:
            assert arg in seen, f"{node}: operand {arg} is not defined before it in a region around it"
        rule = RULES.get(node.op)
        assert rule is not None, f"unknown operation {node.op}"
        rule(node, program)
        for inner in node.regions:
            _check_region(inner, program, seen)
        seen.add(node)
        added.append(node)
    for result in region.results:
        assert result in seen, f"result {result} is not defined in its region"
    seen.difference_update(added)


def _expect(node: Node, shape: Shape, dtype: DType | None) -> None:
    assert node.shape == shape and node.dtype is dtype, (
        f"{node} is {list(node.shape)} {node.dtype}, its operands give {list(shape)} {dtype}"
    )


def _operands(node: Node, *counts: int) -> None:
    assert len(node.args) in counts, f"{node} has {len(node.args)} operands"
    assert bool(node.regions) == (node.op in ("loop", "cond")), f"{node}: regions"
    for arg in node.args:
        assert arg.is_index or arg.is_tile or node.op == "result", f"{node}: {arg} is no value"


def _no_attribute(node: Node) -> None:
    assert node.attr is None, f"{node} has the attribute {node.attr!r}"


def _dtype(node: Node) -> DType:
    assert node.dtype is not None, f"{node} has no type"
    return node.dtype


def _pad_or_value(value: object, dtype: DType, node: Node) -> None:
    kind = float if dtype.is_float else bool if dtype is MASK else int
    assert type(value) is kind, f"{node}: {value!r} is no element of {dtype}"


def _shape(node: Node, shape: Shape) -> None:
    assert len(shape) == 2 and min(shape) > 0, f"{node}: {list(shape)}"
    elements = math.prod(1 << (size - 1).bit_length() for size in shape)
    assert elements <= 1 << 20, f"{node}: {list(shape)}"


def _axis_leaf(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert type(node.attr) is int and 0 <= node.attr <= 2, f"{node}: axis {node.attr!r}"
    _expect(node, (), I64)


def _index(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert type(node.attr) is int and -(2**63) <= node.attr < 2**63, f"{node}: {node.attr!r}"
    _expect(node, (), I64)


def _size(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert isinstance(node.attr, tuple)
    tensor, axis = node.attr
    assert 0 <= axis < program.tensors[tensor].rank, f"{node}: axis {axis}"
    _expect(node, (), I64)


def _scalar(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert isinstance(node.attr, Scalar) and node.attr in program.scalars, f"{node}: {node.attr!r}"
    assert node.attr.dtype in (I64, F32), f"{node}: {node.attr.dtype}"
    _expect(node, node.attr.shape, node.attr.dtype)


def _const(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert isinstance(node.attr, Const)
    _shape(node, node.attr.shape)
    _pad_or_value(node.attr.value, node.attr.dtype, node)
    _expect(node, node.attr.shape, node.attr.dtype)


def _iota(node: Node, program: TileProgram) -> None:
    _operands(node, 0)
    assert isinstance(node.attr, Const) and node.attr.value in (0, 1), f"{node}: {node.attr!r}"
    assert node.attr.dtype is not MASK, f"{node} counts in masks"
    _shape(node, node.attr.shape)
    _expect(node, node.attr.shape, node.attr.dtype)


def _value(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    assert node.args[0].is_index and node.attr in MATHEMATICAL, f"{node}: {node.attr!r}"
    assert isinstance(node.attr, DType)
    _expect(node, (1, 1), node.attr)


def _view(node: Node, coordinates: tuple[Node, ...], program: TileProgram) -> View:
    view = node.attr
    assert isinstance(view, View), f"{node} has no view"
    rank = program.tensors[view.tensor].rank
    assert len(view.block) in (1, 2) and len(view.block) <= rank, f"{node}: block {view.block}"
    assert view.mode in ("at", "window"), f"{node}: mode {view.mode}"
    _shape(node, view.shape)
    assert len(view.own) == len(view.block), f"{node}: of {view.block} {view.visible} are visible"
    for size, whole in zip(view.own, view.block, strict=True):
        assert 0 < size <= whole, f"{node}: of {view.block} {view.visible} are visible"
    assert len(coordinates) == rank, f"{node}: {len(coordinates)} coordinates for rank {rank}"
    for each in coordinates:
        assert each.is_index, f"{node}: coordinate {each}"
    return view


def _read(node: Node, program: TileProgram) -> None:
    _operands(node, len(node.args))
    view = _view(node, node.args, program)
    dtype = program.tensors[view.tensor].dtype
    _pad_or_value(view.pad, dtype, node)
    _expect(node, view.shape, dtype)


def _put(node: Node, program: TileProgram) -> None:
    _operands(node, len(node.args))
    view = _view(node, node.args[1:], program)
    _stores(node, view.tensor, view.shape, program)


def _elements(node: Node, program: TileProgram) -> Elements:
    """The rules for where the elements of a gather or scatter are."""
    elements = node.attr
    assert isinstance(elements, Elements), f"{node} does not say where its elements are"
    rank, tiled = elements.rank, elements.tiled
    assert rank == program.tensors[elements.tensor].rank, f"{node}: rank {rank}"
    assert list(tiled) == sorted(set(tiled)) and set(tiled) <= set(range(rank)), f"{node}: axes {tiled}"
    _shape(node, elements.shape)
    least = (node.op in EFFECTS) + rank + len(tiled)
    _operands(node, least, least + 1)
    found = places(node)
    for index in found.indices:
        assert index.is_index, f"{node}: coordinate {index}"
    tiles = [tile for tile in found.tiles if tile is not None]
    for tile in tiles:
        assert tile.is_tile and math_dtype(_dtype(tile)) in (I32, I64), f"{node}: coordinate {tile}"
    mask = found.mask
    assert mask is None or mask.dtype is MASK, f"{node}: {mask} is no mask"
    for each in tiles if mask is None else [*tiles, mask]:
        assert broadcast(each.shape, elements.shape) == elements.shape, f"{node}: {each}"
    return elements


def _gather(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    dtype = program.tensors[elements.tensor].dtype
    _pad_or_value(elements.pad, dtype, node)
    _expect(node, elements.shape, dtype)


def _element(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    dtype = program.tensors[elements.tensor].dtype
    assert dtype.is_integer and not elements.tiled and places(node).mask is None, f"{node} of {dtype}"
    _pad_or_value(elements.pad, dtype, node)
    _expect(node, (), I64)


def _scatter(node: Node, program: TileProgram) -> None:
    elements = _elements(node, program)
    assert elements.combine in ("", "add", EXACT, "max", "min"), f"{node}: combine {elements.combine!r}"
    dtype = program.tensors[elements.tensor].dtype
    assert not elements.combine or dtype in ACCUMULATED, f"{node}: {elements.combine} of {dtype}"
    assert elements.combine != EXACT or dtype.is_float, f"{node}: {elements.combine} of {dtype}"
    _stores(node, elements.tensor, elements.shape, program)


def _stores(node: Node, tensor: int, shape: tuple[int, int], program: TileProgram) -> None:
    """The rules for the tile that a node stores in a place of a shape."""
    tile = node.args[0]
    assert tensor in program.writes, f"{node} stores in a tensor that is not written"
    assert broadcast(tile.shape, shape) == shape, f"{node}: {tile} for {shape}"
    kind, found = program.tensors[tensor].dtype, _dtype(tile)
    fits = (
        found is kind
        or (found.is_float and kind.is_float)
        or (found.is_integer and kind.is_integer and kind.bits >= found.bits)
    )
    assert fits, f"{node}: {found} into {kind}"
    _expect(node, (), None)


def _negation(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    _no_attribute(node)
    dtype = _dtype(node.args[0])
    assert dtype is not MASK, f"{node} of a mask"
    assert node.op == "neg" or not dtype.is_unsigned, f"{node} of {dtype}, which is its own size"
    _expect(node, node.args[0].shape, math_dtype(dtype))


def _float_function(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and _dtype(a).is_float, f"{node} of {a}"
    if node.op in APPROXIMABLE:
        assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    else:
        _no_attribute(node)
    assert a.dtype is not F64 or node.op in UNARY_DOUBLE, f"{node} of {a}"
    _expect(node, a.shape, math_dtype(_dtype(a)))


def _to(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and isinstance(node.attr, DType), f"{node} of {a}"
    assert node.attr is not MASK or a.dtype is MASK, f"{node} makes a mask of {a}"
    _expect(node, a.shape, node.attr)


def _transpose(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    _no_attribute(node)
    assert node.args[0].is_tile, f"{node} of {node.args[0]}"
    _expect(node, node.args[0].shape[::-1], node.args[0].dtype)


def _reshape(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and isinstance(node.attr, tuple), f"{node} of {a}: {node.attr!r}"
    _shape(node, node.shape)
    assert node.shape[0] * node.shape[1] == a.shape[0] * a.shape[1], f"{node} of {a}"
    assert node.shape == node.attr and node.dtype is a.dtype, f"{node} of {a}: {node.attr!r}"


def _slice(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile, f"{node} of {a}"
    for steps, size in zip(slices(node.attr), a.shape, strict=True):
        last = steps.start + steps.step * (steps.size - 1)
        assert 0 <= steps.start < size and 0 <= last < size, f"{node}: {steps} of {size}"
    _shape(node, node.shape)
    _expect(node, tuple(steps.size for steps in slices(node.attr)), a.dtype)


def _joined(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    a, b = node.args
    axis = node.attr
    assert a.is_tile and b.is_tile and a.dtype is b.dtype, f"{node} of {a} and {b}"
    assert type(axis) is int and axis in (0, 1), f"{node}: axis {axis!r}"
    whole = node.op == "interleave"
    assert a.shape == b.shape if whole else a.shape[1 - axis] == b.shape[1 - axis], f"{node} of {a} and {b}"
    (rows, columns), (below, beside) = a.shape, b.shape
    shape = (rows + below, columns) if axis == 0 else (rows, columns + beside)
    _shape(node, shape)
    _expect(node, shape, a.dtype)


def _reduction(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and type(node.attr) is int and node.attr in (0, 1), f"{node}: {node.attr!r}"
    dtype = I32 if a.dtype is MASK and node.op == "sum" else math_dtype(_dtype(a))
    _expect(node, (1, a.shape[1]) if node.attr == 0 else (a.shape[0], 1), dtype)


def _combining(node: Node, program: TileProgram) -> None:
    _operands(node, len(node.args))
    how, first = node.attr, node.args[0]
    assert isinstance(how, Combining) and how.axis in (0, 1), f"{node}: {how!r}"
    dtypes = [_dtype(arg) for arg in node.args]
    for arg in node.args:
        assert arg.shape == first.shape, f"{node}: {[list(arg.shape) for arg in node.args]}"
        assert arg.dtype in MATHEMATICAL, f"{node} of {arg.dtype}"
    params, results = how.function.params, how.function.results
    assert [param.dtype for param in params] == 2 * dtypes, f"{node}: function of {params}"
    assert [result.dtype for result in results] == dtypes, f"{node}: function gives {results}"
    assert all(each.shape == (1, 1) for each in (*params, *results)), f"{node}: function of tiles"
    for inner in how.function.nodes:
        assert inner.op == "const" or inner.op in ELEMENTWISE, f"{node}: function has {inner}"
    _check_region(how.function, program, set())
    shape = first.shape
    if node.op == "reduce":
        shape = (1, shape[1]) if how.axis == 0 else (shape[0], 1)
    _expect(node, shape, dtypes[0])


def _part(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (whole,) = node.args
    assert type(node.attr) is int and 0 < node.attr < parts(whole), f"{node} of {whole}: {node.attr!r}"
    _expect(node, whole.shape, part_dtype(whole, node.attr))


def _sort(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,), how = node.args, node.attr
    assert isinstance(how, Sorting) and how.axis in (0, 1), f"{node}: {how!r}"
    assert a.dtype in (F32, I32, I64), f"{node} of {a.dtype}"
    assert 1 <= how.keep <= a.shape[how.axis], f"{node}: {how!r}"
    _expect(node, (how.keep, a.shape[1]) if how.axis == 0 else (a.shape[0], how.keep), a.dtype)


def _histogram(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and _dtype(a).is_integer, f"{node} of {a}"
    assert type(node.attr) is int, f"{node}: {node.attr!r}"
    _shape(node, (1, node.attr))
    _expect(node, (1, node.attr), I32)


def _same_kind(node: Node) -> tuple[Shape, DType]:
    """The common shape and type of operands that are all indices or all tiles."""
    indices = [arg.is_index for arg in node.args]
    assert all(indices) or not any(indices), f"{node} mixes indices and tiles"
    shape = broadcast(*(arg.shape for arg in node.args))
    assert shape is not None, f"{node}: {[list(arg.shape) for arg in node.args]}"
    dtype = math_dtype(_dtype(node.args[0]))
    for arg in node.args[1:]:
        common = promote(dtype, _dtype(arg))
        assert common is not None, f"{node}: {[str(arg.dtype) for arg in node.args]}"
        dtype = common
    return shape, dtype


def _arithmetic(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    _no_attribute(node)
    shape, dtype = _same_kind(node)
    assert dtype is not MASK, f"{node} of masks"
    assert node.op in _INDEX_OPS or shape, f"{node} of indices"
    if shape and node.op == "div":
        assert dtype.is_float, f"{node} of integers"
    if shape and node.op == "floordiv":
        assert dtype.is_integer, f"{node} of floats"
    _expect(node, shape, dtype)


def _power(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    shape, dtype = _same_kind(node)
    assert shape and dtype is F32, f"{node} of {dtype}"
    _expect(node, shape, F32)


def _high(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    shape, dtype = _same_kind(node)
    assert shape and dtype in (I32, U32), f"{node} of {dtype}"
    _expect(node, shape, dtype)


def _random(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    assert isinstance(node.attr, Random) and node.attr.kind in RANDOM, f"{node}: {node.attr!r}"
    seed, counters = node.args
    assert seed.shape == (1, 1) and seed.dtype is I64, f"{node}: seed {seed}"
    assert counters.is_tile and _dtype(counters).is_integer, f"{node}: counters {counters}"
    rows, columns = node.attr.shape
    groups = (rows, -(-columns // 4))
    assert broadcast(counters.shape, groups) == groups, f"{node}: counters {counters}"
    _shape(node, node.attr.shape)
    _expect(node, node.attr.shape, U32 if node.attr.kind == "bits" else F32)


def _count(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    _no_attribute(node)
    (a,) = node.args
    assert a.is_tile and _dtype(a).is_integer, f"{node} of {a}"
    _expect(node, a.shape, math_dtype(_dtype(a)))


def _bitcast(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (a,) = node.args
    assert a.is_tile and isinstance(node.attr, DType), f"{node} of {a}"
    assert MASK not in (a.dtype, node.attr) and _dtype(a).bits == node.attr.bits, f"{node} of {a}"
    _expect(node, a.shape, node.attr)


def _bits(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    _no_attribute(node)
    shape, dtype = _same_kind(node)
    assert shape, f"{node} of indices"
    assert dtype.is_integer or (dtype is MASK and node.op in _LOGICAL), f"{node} of {dtype}"
    _expect(node, shape, dtype)


def _inversion(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    _no_attribute(node)
    (a,) = node.args
    assert a.is_tile and not _dtype(a).is_float, f"{node} of {a}"
    _expect(node, a.shape, math_dtype(_dtype(a)))


def _comparison(node: Node, program: TileProgram) -> None:
    _operands(node, 2)
    _no_attribute(node)
    shape, dtype = _same_kind(node)
    assert dtype is not MASK or node.op in _LOGICAL, f"{node} of masks"
    _expect(node, shape or (1, 1), MASK)


def _select(node: Node, program: TileProgram) -> None:
    _operands(node, 3)
    _no_attribute(node)
    mask, yes, no = node.args
    assert mask.dtype is MASK, f"{node}: {mask} is no mask"
    if yes.is_index or no.is_index:
        assert yes.is_index and no.is_index and mask.shape == (1, 1), f"{node}: {node.args}"
        _expect(node, (), I64)
        return
    shape = broadcast(mask.shape, yes.shape, no.shape)
    assert shape is not None, f"{node}: {[list(arg.shape) for arg in node.args]}"
    dtype = yes.dtype if yes.dtype is no.dtype else promote(_dtype(yes), _dtype(no))
    assert dtype is not None, f"{node}: {yes.dtype} and {no.dtype}"
    _expect(node, shape, dtype)


def _fma(node: Node, program: TileProgram) -> None:
    _operands(node, 3)
    shape, dtype = _same_kind(node)
    assert shape and dtype in (F32, F64), f"{node} of {dtype}"
    assert isinstance(node.attr, tuple) and [type(each) for each in node.attr] == [bool, bool], (
        f"{node}: {node.attr!r}"
    )
    _expect(node, shape, dtype)


def _print(node: Node, program: TileProgram) -> None:
    _operands(node, len(node.args))
    assert isinstance(node.attr, Message), f"{node} has no message"
    assert node.attr.words.count(None) == len(node.args), f"{node}: {node.attr}"
    _expect(node, (), None)


def _assertion(node: Node, program: TileProgram) -> None:
    _operands(node, 1, 2)
    assert isinstance(node.attr, Message), f"{node} has no message"
    mask, *value = node.args
    assert mask.dtype is MASK, f"{node}: {mask} is no mask"
    for each in value:
        assert each.is_tile and broadcast(each.shape, mask.shape) == mask.shape, f"{node}: {each}"
    _expect(node, (), None)


def _dot(node: Node, program: TileProgram) -> None:
    _operands(node, 2, 3)
    assert node.attr in ("f32", "tf32"), f"{node}: precision {node.attr!r}"
    a, b, *c = node.args
    assert a.is_tile and b.is_tile and a.shape[1] == b.shape[0], f"{node}: {a} {b}"
    floats = _dtype(a).is_float and _dtype(b).is_float
    assert floats or all(_dtype(each).is_integer and _dtype(each).bits == 8 for each in (a, b)), (
        f"{node}: {a.dtype} {b.dtype}"
    )
    assert (a.dtype is F64) == (b.dtype is F64), f"{node}: {a.dtype} {b.dtype}"
    shape, dtype = (a.shape[0], b.shape[1]), promote(_dtype(a), _dtype(b))
    _shape(node, shape)
    for each in c:
        assert each.shape == shape and each.dtype is dtype, f"{node}: accumulates into {each}"
    _expect(node, shape, dtype)


def _loop(node: Node, program: TileProgram) -> None:
    _operands(node, len(node.args))
    assert node.attr in (None, EARLY), f"{node}: {node.attr!r}"
    assert node.attr is None or (len(node.args) > 3 and node.args[-1].is_index), f"{node} carries no flag"
    assert len(node.args) >= 3 and len(node.regions) == 1, f"{node}: operands, regions"
    assert all(arg.is_index for arg in node.args[:3]), f"{node}: bounds are no indices"
    (region,) = node.regions
    inits = node.args[3:]
    assert len(region.params) == len(inits) + 1 and len(region.results) == len(inits), (
        f"{node} carries {len(inits)}, {len(region.params) - 1}, {len(region.results)} values"
    )
    assert region.params[0].is_index, f"{node}: loop variable {region.params[0]}"
    for init, param, result in zip(inits, region.params[1:], region.results, strict=True):
        for each in (param, result):
            assert each.shape == init.shape and each.dtype is init.dtype, f"{node}: carries {init}, {each}"
    _expect(node, (), None)


def _cond(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    _no_attribute(node)
    assert node.args[0].dtype is MASK and node.args[0].shape == (1, 1), f"{node}: {node.args[0]}"
    assert len(node.regions) == 2, f"{node} has {len(node.regions)} regions"
    yes, no = node.regions
    assert not yes.params and not no.params, f"{node}: branches take nothing"
    assert len(yes.results) == len(no.results), f"{node}: branches give different counts"
    for a, b in zip(yes.results, no.results, strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype, f"{node}: gives {a} and {b}"
    _expect(node, (), None)


def _result(node: Node, program: TileProgram) -> None:
    _operands(node, 1)
    (source,) = node.args
    assert source.op in ("loop", "cond") and type(node.attr) is int, f"{node} of {source}"
    value = source.regions[0].results[node.attr]
    _expect(node, value.shape, value.dtype)


RULES: dict[str, Rule] = {
    "index": _index,
    "id": _axis_leaf,
    "count": _axis_leaf,
    "size": _size,
    "scalar": _scalar,
    "const": _const,
    "iota": _iota,
    "value": _value,
    "read": _read,
    "put": _put,
    "gather": _gather,
    "scatter": _scatter,
    "element": _element,
    "neg": _negation,
    "abs": _negation,
    "to": _to,
    "bitcast": _bitcast,
    "random": _random,
    "pow": _power,
    "mulhi": _high,
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "concat": _joined,
    "interleave": _joined,
    "not_": _inversion,
    "select": _select,
    "fma": _fma,
    "reduce": _combining,
    "scan": _combining,
    "part": _part,
    "sort": _sort,
    "histogram": _histogram,
    "print": _print,
    "check": _assertion,
    "dot": _dot,
    "loop": _loop,
    "cond": _cond,
    "result": _result,
    **dict.fromkeys(UNARY_FLOAT, _float_function),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(("sum", "max", "min"), _reduction),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys(BITWISE, _bits),
    **dict.fromkeys(COMPARISONS, _comparison),
}
