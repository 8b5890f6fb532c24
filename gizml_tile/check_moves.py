"""The rules of operations in which elements of tiles meet or change their places."""

from __future__ import annotations

from gizml_tile.check_values import Rule, dtype_of, expect, expect_shape, no_attribute, operands
from gizml_tile.dtypes import F32, F64, I32, I64, MASK, MATHEMATICAL, math_dtype
from gizml_tile.nodes import (
    ELEMENTWISE,
    Combining,
    Node,
    Reflow,
    Sorting,
    TileProgram,
    part_dtype,
    parts,
    promote,
    slices,
)


def _transpose(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    no_attribute(node)
    assert node.args[0].is_tile, f"{node} of {node.args[0]}"
    expect(node, node.args[0].shape[::-1], node.args[0].dtype)


def _reshape(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    if isinstance(node.attr, Reflow):
        assert a.is_tile and 0 < node.attr.before <= a.shape[1], f"{node} of {a}: {node.attr}"
        assert 0 < node.attr.after <= node.shape[1], f"{node} of {a}: {node.attr}"
        expect(node, node.attr.shape, a.dtype)
        return
    assert a.is_tile and isinstance(node.attr, tuple), f"{node} of {a}: {node.attr!r}"
    expect_shape(node, node.shape)
    assert node.shape[0] * node.shape[1] == a.shape[0] * a.shape[1], f"{node} of {a}"
    assert node.shape == node.attr and node.dtype is a.dtype, f"{node} of {a}: {node.attr!r}"


def _slice(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile, f"{node} of {a}"
    for steps, size in zip(slices(node.attr), a.shape, strict=True):
        last = steps.start + steps.step * (steps.size - 1)
        assert 0 <= steps.start < size and 0 <= last < size, f"{node}: {steps} of {size}"
    expect_shape(node, node.shape)
    expect(node, tuple(steps.size for steps in slices(node.attr)), a.dtype)


def _joined(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    a, b = node.args
    axis = node.attr
    assert a.is_tile and b.is_tile and a.dtype is b.dtype, f"{node} of {a} and {b}"
    assert type(axis) is int and axis in (0, 1), f"{node}: axis {axis!r}"
    whole = node.op == "interleave"
    assert a.shape == b.shape if whole else a.shape[1 - axis] == b.shape[1 - axis], f"{node} of {a} and {b}"
    (rows, columns), (below, beside) = a.shape, b.shape
    shape = (rows + below, columns) if axis == 0 else (rows, columns + beside)
    expect_shape(node, shape)
    expect(node, shape, a.dtype)


def _reduction(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile and type(node.attr) is int and node.attr in (0, 1), f"{node}: {node.attr!r}"
    dtype = I32 if a.dtype is MASK and node.op == "sum" else math_dtype(dtype_of(a))
    expect(node, (1, a.shape[1]) if node.attr == 0 else (a.shape[0], 1), dtype)


def _combining(node: Node, program: TileProgram) -> None:
    operands(node, len(node.args))
    how, first = node.attr, node.args[0]
    assert isinstance(how, Combining) and how.axis in (0, 1), f"{node}: {how!r}"
    dtypes = [dtype_of(arg) for arg in node.args]
    for arg in node.args:
        assert arg.shape == first.shape, f"{node}: {[list(arg.shape) for arg in node.args]}"
        assert arg.dtype in MATHEMATICAL, f"{node} of {arg.dtype}"
    params, results = how.function.params, how.function.results
    assert [param.dtype for param in params] == 2 * dtypes, f"{node}: function of {params}"
    assert [result.dtype for result in results] == dtypes, f"{node}: function gives {results}"
    assert all(each.shape == (1, 1) for each in (*params, *results)), f"{node}: function of tiles"
    for inner in how.function.nodes:
        assert inner.op == "const" or inner.op in ELEMENTWISE, f"{node}: function has {inner}"
    shape = first.shape
    if node.op == "reduce":
        shape = (1, shape[1]) if how.axis == 0 else (shape[0], 1)
    expect(node, shape, dtypes[0])


def _part(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (whole,) = node.args
    assert type(node.attr) is int and 0 < node.attr < parts(whole), f"{node} of {whole}: {node.attr!r}"
    expect(node, whole.shape, part_dtype(whole, node.attr))


def _sort(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,), how = node.args, node.attr
    assert isinstance(how, Sorting) and how.axis in (0, 1), f"{node}: {how!r}"
    assert a.dtype in (F32, I32, I64), f"{node} of {a.dtype}"
    assert 1 <= how.keep <= a.shape[how.axis], f"{node}: {how!r}"
    expect(node, (how.keep, a.shape[1]) if how.axis == 0 else (a.shape[0], how.keep), a.dtype)


def _histogram(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile and dtype_of(a).is_integer, f"{node} of {a}"
    assert type(node.attr) is int, f"{node}: {node.attr!r}"
    expect_shape(node, (1, node.attr))
    expect(node, (1, node.attr), I32)


def _dot(node: Node, program: TileProgram) -> None:
    operands(node, 2, 3)
    assert node.attr in ("f32", "tf32"), f"{node}: precision {node.attr!r}"
    a, b, *c = node.args
    assert a.is_tile and b.is_tile and a.shape[1] == b.shape[0], f"{node}: {a} {b}"
    floats = dtype_of(a).is_float and dtype_of(b).is_float
    assert floats or all(dtype_of(each).is_integer and dtype_of(each).bits == 8 for each in (a, b)), (
        f"{node}: {a.dtype} {b.dtype}"
    )
    assert (a.dtype is F64) == (b.dtype is F64), f"{node}: {a.dtype} {b.dtype}"
    shape, dtype = (a.shape[0], b.shape[1]), promote(dtype_of(a), dtype_of(b))
    expect_shape(node, shape)
    for each in c:
        assert each.shape == shape and each.dtype is dtype, f"{node}: accumulates into {each}"
    expect(node, shape, dtype)


RULES: dict[str, Rule] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "concat": _joined,
    "interleave": _joined,
    "reduce": _combining,
    "scan": _combining,
    "part": _part,
    "sort": _sort,
    "histogram": _histogram,
    "dot": _dot,
    **dict.fromkeys(("sum", "max", "min"), _reduction),
}
