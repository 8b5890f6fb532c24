"""Each rule of the tile IR: a program that breaks it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gizml_tile.check import RULES, check
from gizml_tile.combining import built_in
from gizml_tile.dtypes import BF16, F32, I8, I32, I64, MASK, U32
from gizml_tile.nodes import (
    APPROXIMABLE,
    EARLY,
    UNARY_FLOAT,
    Combining,
    Const,
    Elements,
    Message,
    Node,
    Random,
    Reflow,
    Region,
    Scalar,
    Slice,
    Sorting,
    Steps,
    Tensor,
    TileProgram,
    View,
    make,
    param,
)

TENSORS = (Tensor("a", F32, 2), Tensor("b", BF16, 2), Tensor("n", I8, 1))
SCALARS = (Scalar("s", F32), Scalar("i", I64))


def program(*nodes, writes=(0,)):
    return TileProgram("test", TENSORS, SCALARS, writes, Region((), nodes, ()))


def const(shape, dtype=F32, value=None):
    value = value if value is not None else False if dtype is MASK else 0.0 if dtype.is_float else 0
    return make("const", (), Const(shape, dtype, value))


INDEX = make("index", (), 3)
TILE, ROW, NARROW = const((8, 4)), const((1, 4)), const((8, 4), BF16)
INTEGER, MASKS, ONE = const((8, 4), I32), const((8, 4), MASK), const((1, 1), MASK)
ONE_LONG = const((1, 1), I64)
GIVEN = (ONE_LONG, INDEX, TILE, ROW, NARROW, INTEGER, MASKS, ONE)


def node(op, args=(), attr=None, shape=(8, 4), dtype=F32, regions=()):
    return Node(op, tuple(args), attr, shape, dtype, None, regions)


def loop(inits=(TILE,), results=None, params=None):
    params = params or (
        param((), I64, 0),
        *(param(each.shape, each.dtype, n + 1) for n, each in enumerate(inits)),
    )
    region = Region(params, (), tuple(inits if results is None else results))
    return node("loop", (INDEX, INDEX, INDEX, *inits), None, (), None, (region,))


def cond(mask=ONE, yes=(TILE,), no=(TILE,)):
    return node("cond", (mask,), None, (), None, (Region((), (), tuple(yes)), Region((), (), tuple(no))))


SUM = built_in("add", F32)


def combining(op="reduce", args=(TILE,), function=SUM, axis=1, shape=(8, 1), dtype=F32):
    return node(op, args, Combining(axis, function), shape, dtype)


# A function of pairs that gives the later one.
PAIR = tuple(param((1, 1), (F32, I32)[n % 2], n) for n in range(4))
LATER = Region(PAIR, (), PAIR[2:])
SCAN = combining("scan", (TILE, INTEGER), LATER, shape=(8, 4))
# A function of one value that uses a tile of the program around it.
A, B = param((1, 1), F32, 0), param((1, 1), F32, 1)
CAPTURING = Region((A, B), (made := make("add", (A, const((1, 1)))),), (made,))

READING = Region((A, B), (made := node("read", (), None, (1, 1)),), (made,))

BROKEN = {
    "reduce axis": combining(axis=2),
    "reduce shape": combining(shape=(8, 4)),
    "reduce of two shapes": combining(args=(TILE, const((8, 1), I32)), function=LATER),
    "reduce of a narrow type": combining(args=(NARROW,), dtype=BF16),
    "reduce by another type": combining(function=built_in("add", I32)),
    "reduce of too many": combining(args=(TILE, TILE)),
    "reduce by a function of more": combining(function=CAPTURING),
    "scan shape": combining("scan"),
    "scan by a read": combining("scan", function=READING, shape=(8, 4)),
    "sort axis": node("sort", (TILE,), Sorting(2, False, 4)),
    "sort keeps": node("sort", (TILE,), Sorting(1, False, 5), (8, 5)),
    "sort shape": node("sort", (TILE,), Sorting(0, False, 4)),
    "sort of a mask": node("sort", (MASKS,), Sorting(0, False, 8), (8, 4), MASK),
    "histogram of floats": node("histogram", (TILE,), 8, (1, 8), I32),
    "histogram bins": node("histogram", (INTEGER,), 0, (1, 0), I32),
    "histogram type": node("histogram", (INTEGER,), 8, (1, 8), I64),
    "part of a tile": node("part", (TILE,), 1),
    "part number": node("part", (SCAN,), 2, (8, 4), I32),
    "unknown operation": node("frobnicate", (TILE,)),
    "twice": TILE,
    "later operand": make("exp", (const((8, 4)),), False),
    "index type": node("index", (), 3.0, (), I64),
    "index size": node("index", (), 2**63, (), I64),
    "id axis": node("id", (), 3, (), I64),
    "size axis": node("size", (), (0, 2), (), I64),
    "scalar unknown": node("scalar", (), Scalar("x", F32), (1, 1), F32),
    "const type": node("const", (), Const((8, 4), F32, 1)),
    "const shape": node("const", (), Const((8, 0), F32, 1.0), (8, 0)),
    "const size": node("const", (), Const((1025, 513), F32, 1.0), (1025, 513)),
    "iota axis": node("iota", (), Const((8, 4), F32, 2)),
    "iota of masks": node("iota", (), Const((8, 4), MASK, 0), (8, 4), MASK),
    "value of a tile": node("value", (TILE,), F32, (1, 1)),
    "value type": node("value", (INDEX,), BF16, (1, 1), BF16),
    "read rank": node("read", (INDEX,), View(0, (8, 4))),
    "read coordinate": node("read", (INDEX, TILE), View(0, (8, 4))),
    "read mode": node("read", (INDEX, INDEX), View(0, (8, 4), "near", 0.0)),
    "read pad": node("read", (INDEX, INDEX), View(0, (8, 4), "at", 0)),
    "read type": node("read", (INDEX, INDEX), View(1, (8, 4), "at", 0.0)),
    "read block": node("read", (INDEX,), View(2, (8, 4), "at", 0), (8, 4), I8),
    "put not written": node("put", (TILE, INDEX, INDEX), View(1, (8, 4)), (), None),
    "put shape": node("put", (TILE, INDEX, INDEX), View(0, (1, 4)), (), None),
    "put type": node("put", (INTEGER, INDEX, INDEX), View(0, (8, 4)), (), None),
    "gather rank": node("gather", (INDEX,), Elements(0, (8, 4), 1, (), 0.0)),
    "gather axes": node("gather", (INDEX, INDEX, INTEGER), Elements(0, (8, 4), 2, (2,), 0.0)),
    "gather operands": node("gather", (INDEX, INDEX), Elements(0, (8, 4), 2, (0,), 0.0)),
    "gather index": node("gather", (INTEGER, INDEX), Elements(0, (8, 4), 2, (), 0.0)),
    "gather tile": node("gather", (INDEX, INDEX, TILE), Elements(0, (8, 4), 2, (0,), 0.0)),
    "gather mask": node("gather", (INDEX, INDEX, INTEGER, TILE), Elements(0, (8, 4), 2, (0,), 0.0)),
    "gather shape": node("gather", (INDEX, INDEX, INTEGER), Elements(0, (1, 4), 2, (0,), 0.0), (1, 4)),
    "gather pad": node("gather", (INDEX, INDEX, INTEGER), Elements(0, (8, 4), 2, (0,), 0)),
    "gather type": node("gather", (INDEX, INDEX, INTEGER), Elements(1, (8, 4), 2, (0,), 0.0)),
    "element tiles": node("element", (INDEX, INTEGER), Elements(2, (1, 1), 1, (0,), 0), (), I64),
    "element of floats": node("element", (INDEX, INDEX), Elements(0, (1, 1), 2, (), 0.0), (), I64),
    "element type": node("element", (INDEX,), Elements(2, (1, 1), 1, (), 0), (), I32),
    "scatter not written": node(
        "scatter", (NARROW, INDEX, INDEX, INTEGER), Elements(1, (8, 4), 2, (0,)), (), None
    ),
    "scatter shape": node("scatter", (TILE, INDEX, INDEX), Elements(0, (1, 4), 2, ()), (), None),
    "scatter type": node("scatter", (INTEGER, INDEX, INDEX), Elements(0, (8, 4), 2, ()), (), None),
    "neg of a mask": node("neg", (MASKS,), None, (8, 4), MASK),
    "neg type": node("neg", (NARROW,), None, (8, 4), BF16),
    "exp attribute": node("exp", (TILE,)),
    "exp of integers": node("exp", (INTEGER,), False),
    "exp of an index": node("exp", (INDEX,), False, (), F32),
    "sqrt attribute": node("sqrt", (TILE,), False),
    "to attribute": node("to", (TILE,), None),
    "to mask": node("to", (TILE,), MASK, (8, 4), MASK),
    "transpose shape": node("transpose", (TILE,)),
    "reshape shape": node("reshape", (TILE,), (4, 4), (4, 4)),
    "reshape without rows": node("reshape", (TILE,), Reflow((8, 4), 0, 4), (8, 4)),
    "reshape of longer rows": node("reshape", (TILE,), Reflow((8, 4), 5, 4), (8, 4)),
    "reshape to longer rows": node("reshape", (TILE,), Reflow((8, 4), 4, 5), (8, 4)),
    "reshape attribute": node("reshape", (TILE,), (4, 8), (8, 4)),
    "slice past the end": node("slice", (TILE,), Slice(Steps(4, 1, 8), Steps.whole(4))),
    "slice before the start": node("slice", (TILE,), Slice(Steps(6, -1, 8), Steps.whole(4))),
    "slice type": node("slice", (NARROW,), Slice(Steps.whole(8), Steps.whole(4))),
    "concat shapes": node("concat", (TILE, ROW), 1, (8, 8)),
    "read visible": node("read", (INDEX, INDEX), View(0, (8, 4), "at", 0.0, (9, 4))),
    "put visible": node("put", (TILE, INDEX, INDEX), View(0, (8, 4), "at", 0.0, (3,)), (), None),
    "concat types": node("concat", (TILE, NARROW), 0, (16, 4)),
    "concat axis": node("concat", (TILE, TILE), -1, (8, 8)),
    "interleave shape": node("interleave", (TILE, TILE), 1),
    "sum axis": node("sum", (TILE,), -1, (8, 1)),
    "sum of a mask": node("sum", (MASKS,), 0, (1, 4), MASK),
    "add of masks": node("add", (MASKS, MASKS), None, (8, 4), MASK),
    "add mixed": node("add", (TILE, INTEGER)),
    "add of an index": node("add", (TILE, INDEX)),
    "add shapes": node("add", (TILE, const((4, 8)))),
    "add type": node("add", (NARROW, NARROW), None, (8, 4), BF16),
    "add operands": node("add", (TILE,)),
    "div of integers": node("div", (INTEGER, INTEGER), None, (8, 4), I32),
    "floordiv of floats": node("floordiv", (TILE, TILE)),
    "pow attribute": node("pow", (TILE, TILE)),
    "pow of integers": node("pow", (INTEGER, INTEGER), False, (8, 4), I32),
    "mulhi attribute": node("mulhi", (INTEGER, INTEGER), None, (8, 4), I32),
    "mulhi of floats": node("mulhi", (TILE, TILE), False),
    "popcount of floats": node("popcount", (TILE,)),
    "bitcast width": node("bitcast", (TILE,), BF16, (8, 4), BF16),
    "random seed": node("random", (INTEGER, ONE_LONG), Random((8, 4), "bits"), (8, 4), U32),
    "random counters": node("random", (ONE_LONG, INTEGER), Random((8, 4), "bits"), (8, 4), U32),
    "random kind": node("random", (ONE_LONG, ONE_LONG), Random((8, 4), "words"), (8, 4), U32),
    "random type": node("random", (ONE_LONG, ONE_LONG), Random((8, 4), "normal"), (8, 4), I32),
    "bitcast of a mask": node("bitcast", (MASKS,), I8, (8, 4), I8),
    "and of floats": node("and_", (TILE, TILE)),
    "and of indices": node("and_", (INDEX, INDEX), None, (), I64),
    "shl of masks": node("shl", (MASKS, MASKS), None, (8, 4), MASK),
    "not of floats": node("not_", (TILE,)),
    "lt of masks": node("lt", (MASKS, MASKS), None, (8, 4), MASK),
    "lt type": node("lt", (TILE, TILE)),
    "lt of indices": node("lt", (INDEX, INDEX), None, (), MASK),
    "select mask": node("select", (TILE, TILE, TILE)),
    "select index": node("select", (ONE, INDEX, TILE), None, (), I64),
    "select wide": node("select", (MASKS, INDEX, INDEX), None, (), I64),
    "select type": node("select", (MASKS, NARROW, NARROW)),
    "fma type": node("fma", (INTEGER, INTEGER, INTEGER), (False, False), (8, 4), I32),
    "fma attribute": node("fma", (TILE, TILE, TILE), None),
    "print with a word missing": node("print", (TILE,), Message(("a",)), (), None),
    "print without a message": node("print", (), None, (), None),
    "check of numbers": node("check", (TILE,), Message(("a",)), (), None),
    "check with another shape": node("check", (ONE, TILE), Message(("a",)), (), None),
    "dot shapes": node("dot", (TILE, TILE), "f32"),
    "dot precision": node("dot", (TILE, const((4, 4))), "f16"),
    "dot types": node("dot", (INTEGER, const((4, 4), I32)), "f32", (8, 4), I32),
    "dot accumulator": node("dot", (TILE, const((4, 4)), ROW), "f32"),
    "dot accumulator type": node("dot", (TILE, const((4, 4)), NARROW), "f32"),
    "loop bounds": node(
        "loop", (INDEX, INDEX, TILE), None, (), None, (Region((param((), I64, 0),), (), ()),)
    ),
    "loop flag": replace(loop(), attr=EARLY),
    "loop attribute": replace(loop(), attr="until"),
    "loop results": loop(results=()),
    "loop result type": loop(results=(NARROW,)),
    "loop params": loop(params=(param((), I64, 0),)),
    "loop counter": loop(params=(param((8, 4), F32, 0), param((8, 4), F32, 1))),
    "loop without region": node("loop", (INDEX, INDEX, INDEX), None, (), None),
    "cond mask": cond(mask=MASKS),
    "cond results": cond(no=()),
    "cond types": cond(no=(NARROW,)),
    "result of a tile": node("result", (TILE,), 0),
    "region on a tile": node("exp", (TILE,), False, regions=(Region((), (), ()),)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules_are_found(name):
    with pytest.raises(AssertionError):
        given = GIVEN if SCAN not in BROKEN[name].args else (*GIVEN, SCAN)
        check(program(*given, BROKEN[name]))


def test_the_operands_themselves_are_right():
    check(program(*GIVEN))
    check(program(*GIVEN, combining(), SCAN, node("part", (SCAN,), 1, (8, 4), I32)))
    check(program(*GIVEN, loop(), cond()))
    check(program(*GIVEN, (made := loop()), node("result", (made,), 0)))


def test_every_rule_is_broken_by_a_case():
    broken = {each.op for each in BROKEN.values()}
    families = {"add": "sub mul maximum minimum rem floormod", "exp": " ".join(APPROXIMABLE)}
    families |= {"sqrt": " ".join(UNARY_FLOAT - APPROXIMABLE), "popcount": "clz"}
    families |= {"sum": "max min", "and_": "or_ xor", "shl": "shr"}
    families |= {"lt": "le gt ge eq ne", "neg": "abs", "id": "count"}
    for op, others in families.items():
        assert op in broken
        broken |= set(others.split())
    assert set(RULES) - broken == set()


def test_values_of_a_region_end_with_it():
    inner = make("exp", (TILE,), False)
    region = Region((param((), I64, 0),), (inner,), ())
    loops = node("loop", (INDEX, INDEX, INDEX), None, (), None, (region,))
    after = make("exp", (inner,), False)
    with pytest.raises(AssertionError, match="not defined before it"):
        check(program(*GIVEN, loops, after))
    check(program(*GIVEN, loops))


def test_a_program_takes_and_gives_nothing():
    good = program(*GIVEN)
    check(good)
    with pytest.raises(AssertionError, match="takes and gives nothing"):
        check(replace(good, body=Region((), GIVEN, (TILE,))))
    with pytest.raises(AssertionError, match="names no tensor"):
        check(replace(good, writes=(3,)))
    with pytest.raises(AssertionError, match="names repeat"):
        check(replace(good, tensors=(TENSORS[0], TENSORS[0])))
