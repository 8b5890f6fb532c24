"""How often operations of the tile IR, and their options, occur in random programs.

``python tests/random_programs/occurrences.py [--count 300]`` lists them, the rarest first.

Not drawn is what the trace makes of operations that are: ``any``, ``all``, ``mod``, ``pow`` of indices and of
integers, ``each`` and ``map`` of batches, ``tile.unroll`` and helpers; what is tested by itself: steps of
loops that are known when they run, constants of integer and narrow types, seeds of ``random`` out of data.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from execute import compile_body
from generate import generate
from programs import Program
from tensors import build_all

from gizml_tile.check import RULES
from gizml_tile.dtypes import MASK, MATHEMATICAL, DType
from gizml_tile.nodes import (
    APPROXIMABLE,
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    EARLY,
    RANDOM,
    REDUCTIONS,
    UNARY_FLOAT,
    Combining,
    Const,
    Elements,
    Node,
    Random,
    Slice,
    Sorting,
    View,
)
from gizml_tile.program import trace

_TYPES = [dtype.text for dtype in DType]
_INTEGERS = [dtype.text for dtype in DType if dtype.is_integer]
_WHOLE = sorted(dtype.text for dtype in MATHEMATICAL if dtype.is_integer)
_MATHEMATICAL = sorted(dtype.text for dtype in MATHEMATICAL)
_FLOATS = ["f32", "f64"]
_AXES = ["axis 0", "axis 1"]
_SUMS = [f"{how} {dtype}" for how in ("add", "exact") for dtype in ("f32", "f16", "bf16")] + ["add f64"]
# Operations that are alike share their options.
_GROUPS = {
    **dict.fromkeys(ARITHMETIC - {"div"}, "arithmetic"),
    **dict.fromkeys(BITWISE | {"not_"}, "bitwise"),
    **dict.fromkeys(COMPARISONS, "comparison"),
    **dict.fromkeys(REDUCTIONS, "reduction"),
}
# For each operation the options that programs must have, each by itself.
OPTIONS: dict[str, list[str]] = {
    "read": [*_TYPES, "at", "window", "pad", "row", "block"],
    "put": [*_TYPES, "at", "window", "row", "block"],
    "gather": [*_FLOATS, "mask", "pad", "axes 1", "axes 2"],
    "scatter": [*_FLOATS, "mask", "add", "exact", "max", "min", "axes 1", "axes 2", *_SUMS],
    "element": _INTEGERS,
    "value": [*_FLOATS, "i32", "i64"],
    "to": [each for each in _TYPES if each != MASK.text],
    "bitcast": [*_FLOATS, "i32", "u32", "i64", "u64"],
    "random": list(RANDOM),
    "iota": [*_FLOATS, "i32", "i64", *_AXES],
    "arithmetic": ["index", *_MATHEMATICAL],
    "bitwise": ["mask", *_WHOLE],
    "comparison": ["index", *_MATHEMATICAL],
    "reduction": ["mask", *_FLOATS, "i32", *_AXES],
    "reduce": [*_FLOATS, *_AXES, "values 1", "values 2"],
    "scan": [*_FLOATS, "i32", *_AXES, "values 1", "values 2", "reverse"],
    # F64 is sorted as I64.
    "sort": ["f32", "i32", "i64", *_AXES, "descending", "ascending", "some"],
    "part": ["sort", "reduce", "scan"],
    "slice": ["backward", "steps"],
    "concat": _AXES,
    "interleave": _AXES,
    "dot": [*_FLOATS, "i32"],
    "select": ["index", *_FLOATS, "i32"],
    **dict.fromkeys(UNARY_FLOAT | {"neg", "abs", "fma", "pow"}, _FLOATS),
    **{name: [*_FLOATS, "approx"] for name in APPROXIMABLE | {"pow"}},
    "mulhi": ["i32", "unsigned"],
    "loop": ["range", EARLY],
    "check": ["value"],
}
EVERYTHING = frozenset({*RULES, *(f"{op} {option}" for op, options in OPTIONS.items() for option in options)})


def occurrences(programs: Iterable[Program]) -> Counter[str]:
    """How often operations, and operations with an option, occur."""
    found: Counter[str] = Counter()
    for program in programs:
        arrays = {name: view for name, (_, view) in build_all(program.tensors).items()}
        traced = trace("body", compile_body(program, arrays), grid_rank=len(program.grid)).program
        for node in traced.body.walk():
            dtypes = {number: tensor.dtype for number, tensor in enumerate(traced.tensors)}
            name = _GROUPS.get(node.op, node.op)
            found.update([node.op, *(f"{name} {each}" for each in set(_options(node, dtypes)))])
    return found


def _options(node: Node, tensors: dict[int, DType]) -> Iterator[str]:
    """The options of one operation."""
    first = node.args[0] if node.args else node
    match node.attr:
        case View() as view:
            yield from (view.mode, "row" if len(view.block) == 1 else "block", tensors[view.tensor].text)
            if not view.pads_with_zeros:
                yield "pad"
        case Elements() as elements:
            dtype = tensors[elements.tensor].text
            yield from (dtype, f"axes {len(elements.tiled)}")
            tiles = len(node.args) - (node.op == "scatter") - elements.rank
            if tiles > len(elements.tiled):
                yield "mask"
            if elements.combine:
                yield from (elements.combine, f"{elements.combine} {dtype}")
            if elements.pad:
                yield "pad"
        case Combining() as how:
            yield from (f"axis {how.axis}", f"values {len(node.args)}", node.dtype.text)
            if how.reverse:
                yield "reverse"
        case Sorting() as how:
            yield from (f"axis {how.axis}", "descending" if how.descending else "ascending", node.dtype.text)
            if how.keep < first.shape[how.axis]:
                yield "some"
        case Slice() as taken:
            steps = (taken.rows.step, taken.columns.step)
            yield "backward" if min(steps) < 0 else "forward"
            if max(map(abs, steps)) > 1:
                yield "steps"
        case Random() as drawn:
            yield drawn.kind
        case Const() as const:
            yield from (f"axis {const.value}" if node.op == "iota" else "value", const.dtype.text)
        case _:
            yield from _others(node, first)


def _others(node: Node, first: Node) -> Iterator[str]:
    if node.op == "loop":
        yield node.attr or "range"
    elif node.op == "part":
        yield first.op
    elif node.op == "check" and len(node.args) > 1:
        yield "value"
    elif node.op == "dot":
        yield node.attr if node.dtype.is_float else node.dtype.text
    elif node.op == "mulhi" and node.attr:
        yield "unsigned"
    elif node.op in APPROXIMABLE | {"pow"} and node.attr:
        yield "approx"
    elif node.op in REDUCTIONS | {"concat", "interleave"}:
        yield f"axis {node.attr}"
    # Of a comparison and a reduction the operand's type matters.
    kind = first if node.op in COMPARISONS | REDUCTIONS else node
    if kind.dtype is not None:
        yield "index" if kind.is_index else kind.dtype.text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    count = parser.parse_args().count
    found = occurrences(generate(seed) for seed in range(count))
    for name in sorted(EVERYTHING | found.keys(), key=lambda name: found[name]):
        print(f"{found[name]:8} {name}{'' if name in EVERYTHING else ' (not asked for)'}")


if __name__ == "__main__":
    main()
