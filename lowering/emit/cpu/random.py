"""Random numbers in vectors: the four numbers of each counter become four neighbouring lanes."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I32, I64, U32, U64, DType, math_dtype
from gizml_tile.lowering import math
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Value, vector
from gizml_tile.nodes import Node, Random


def draw(arithmetic: Arithmetic, node: Node, seed: str, counters: str) -> list[str]:
    """Four vectors: the numbers of each lane's counter. ``seed`` has as many lanes."""
    assert isinstance(node.attr, Random)
    first, second = (arg.dtype for arg in node.args)
    assert first is not None and second is not None
    counter = _words(arithmetic, math_dtype(second), counters)
    return math.random_numbers(
        arithmetic.vectors, node.attr.kind, counter, _words(arithmetic, math_dtype(first), seed)
    )


def neighbours(arithmetic: Arithmetic, node: Node, numbers: list[str], column: Value, width: int) -> str:
    """``width`` neighbours of a row from a column on, of which ``numbers`` are those of their counters."""
    function = arithmetic.vectors.function
    kind = "float" if node.dtype is F32 else "i32"
    if width >= 4:
        return _woven(arithmetic, numbers, kind)
    words = []
    for lane in range(width):
        place = function.remainder(function.add(column, lane), 4)
        if isinstance(place, int):
            words.append(numbers[place])
            continue
        word = numbers[3]
        for number in (2, 1, 0):
            here = function.compare("eq", place, number)
            word = function.emit(f"select i1 {here}, {kind} {numbers[number]}, {kind} {word}")
        words.append(word)
    result = "poison" if width > 1 else words[0]
    for lane in range(width if width > 1 else 0):
        of = vector(kind, width)
        result = function.emit(f"insertelement {of} {result}, {kind} {words[lane]}, i64 {lane}")
    return result


def _woven(arithmetic: Arithmetic, numbers: list[str], kind: str) -> str:
    """The lanes of four vectors in turn."""
    function, lanes = arithmetic.vectors.function, arithmetic.width
    if lanes == 1:
        result = "poison"
        for lane, number in enumerate(numbers):
            result = function.emit(f"insertelement <4 x {kind}> {result}, {kind} {number}, i64 {lane}")
        return result
    pairs = []
    for left, right in ((numbers[0], numbers[1]), (numbers[2], numbers[3])):
        order = ", ".join(f"i32 {lane + side * lanes}" for lane in range(lanes) for side in (0, 1))
        of = vector(kind, lanes)
        pairs.append(
            function.emit(f"shufflevector {of} {left}, {of} {right}, <{2 * lanes} x i32> <{order}>")
        )
    order = ", ".join(
        f"i32 {2 * lane + place + side * 2 * lanes}"
        for lane in range(lanes)
        for side in (0, 1)
        for place in (0, 1)
    )
    of = vector(kind, 2 * lanes)
    return function.emit(f"shufflevector {of} {pairs[0]}, {of} {pairs[1]}, <{4 * lanes} x i32> <{order}>")


def _words(arithmetic: Arithmetic, dtype: DType, value: str) -> tuple[str, str]:
    """The lower and the upper 32 bits of integers, which have their signs in 64."""
    vectors = arithmetic.vectors
    if dtype is U32:
        return value, vectors.bits_constant(0)
    if dtype is I32:
        return value, vectors.shift_right(value, 31)
    assert dtype in (I64, U64), dtype
    upper = vectors.operation("lshr", "i64", value, vectors.integer("i64", 32))
    return vectors.cast("trunc", "i64", "i32", value), vectors.cast("trunc", "i64", "i32", upper)
