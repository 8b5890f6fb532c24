"""Random programs agree with NumPy: to the bit where the language says so, else within derived bounds."""

from fractions import Fraction

import addressing
import along
import approximate
import nibbles
import numpy as np
import pytest
import reference as ref
import shapes
import sums
from execute import by_interpreter, by_simplified_interpreter, check, on_device_decorated
from generate import generate
from generate_products import generate_products
from intervals import Value, floats, fma, integers, mask, round_integers, to
from loops_and_branches import WHILES
from ml_dtypes import bfloat16
from occurrences import EVERYTHING, occurrences
from programs import EXITS, STORES, TELLS, Block, Program, count_ops, names
from render import reproduction
from render_kernel import render_kernel
from shrink import shrink

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, I32, I64, U8

# The programs count what lies past ragged ends on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
COUNT = 300
MORE = 100
PRODUCTS = 24
STEP = 20


@pytest.mark.parametrize("start", range(0, COUNT, STEP))
def test_programs_agree(start):
    unknown = []
    for seed in range(start, start + STEP):
        program = generate(seed)
        outcome = check(program)
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"
        unknown.append(outcome.unknown / max(outcome.stored, 1))
    # Of each program, so that one which stores much does not stand for all.
    assert np.mean(unknown) < 0.2


def test_programs_of_products_agree():
    for seed in range(PRODUCTS):
        program = generate_products(seed)
        outcome = check(program)
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"


def test_products_are_of_every_kind():
    programs = [generate_products(seed) for seed in range(COUNT)]
    assert {program.warps for program in programs} == {0, 1, 2, 4, 8, 16}
    assert {program.stages for program in programs} == {0, 1, 2, 3}
    seen = set()
    for program in programs:
        loops = [op.regions[0] for op in program.body.ops if op.name in ("loop", "fold")]
        for loop in loops:
            made = {name: op for op in loop.ops for name in op.results}
            for op in (op for op in loop.ops if op.name == "dot"):
                sources = [made[arg] for arg in op.args if arg in made]
                seen |= {op.attr, *(source.name for source in sources)}
                seen |= {source.types[0].dtype for source in sources}
    assert seen >= {
        "tf32",
        F32,
        F16,
        BF16,
        FP8,
        I8,
        U8,
        "read",
        "transpose",
        "to",
        "mul",
        "add",
        "select",
        "exp",
        F64,
    }


def test_decorated_kernels_agree():
    """The same with operators, subscripts, ``for`` and ``if`` in a decorated kernel."""
    for seed in range(COUNT, COUNT + 30):
        program = generate(seed)
        outcome = check(program, on_device_decorated)
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{render_kernel(program)}"


def test_every_operation_occurs():
    """Each operation of the tile IR, and each of its options, is in the programs that are run here."""
    made = (*map(generate, range(COUNT + MORE)), *map(generate_products, range(PRODUCTS)))
    missing = EVERYTHING - occurrences(made).keys()
    assert not missing, f"random programs have none of {sorted(missing)}: draw them (see writer.py)"


def test_every_method_occurs():
    """Methods that are made of several operations, and what loops and programs are left by."""
    seen: set[str] = set()
    batched: set[str] = set()

    def walk(block: Block, arms: int = 0) -> None:
        for op in block.ops:
            if op.name in EXITS and arms:
                seen.add(f"{op.name} in {'an arm' if arms == 1 else 'arms in arms'}")
            seen.update([op.name, f"{op.name} {op.attr}" if op.name == "while" else op.name])
            batched.update([op.name] * any(each.batch for each in op.types))
            for region in op.regions:
                walk(region, arms + 1 if op.name == "cond" else 0)

    programs = [generate(seed) for seed in range(COUNT + MORE)]
    for program in programs:
        walk(program.body)
    assert {program.approx for program in programs} == {False, True}
    named = """arg id count int dim blocks k full zeros sign clamp copysign isnan isinf isfinite chance loop
    fold cond scale_blocks tile"""
    wanted = {*named.split(), *(f"while {form}" for form in WHILES), *STORES, *TELLS, *EXITS}
    wanted |= {f"{exit_} in an arm" for exit_ in EXITS} | {"break in arms in arms"}
    wanted |= along.NAMES | shapes.MOVES | addressing.NAMES | nibbles.NAMES
    assert wanted <= seen, wanted - seen
    assert {"read", "dot", "add", "sum", "transpose", "select", "loop", "to"} <= batched


def test_a_wrong_result_is_found_and_shrunk():
    """The check is able to fail: a program whose stores are taken away gives what was there before."""
    program = next(p for p in map(generate, range(50)) if count_ops(p.body) > 20 and min(p.grid) > 0)

    def fails(candidate: Program) -> bool:
        return any(op.name == "mul" for op in candidate.body.ops)

    if not fails(program):
        program = next(p for p in map(generate, range(50)) if fails(p))
    smaller = shrink(program, fails)
    assert fails(smaller)
    assert count_ops(smaller.body) < count_ops(program.body)
    assert check(smaller).problem is None


def test_results_outside_the_interval_are_refused():
    value = floats([[1.0, 2.0, np.nan, -np.inf]], [[1.0, 2.5, np.nan, np.inf]])
    assert ref.accepts(value, np.array([[1.0, 2.25, np.nan, 7.0]], np.float32)).all()
    wrong = ref.accepts(value, np.array([[1.0000001, 2.75, 0.0, np.nan]], np.float32))
    assert wrong.tolist() == [[False, False, False, True]]
    assert not ref.accepts(floats([[0.0]]), np.array([[-0.0]], np.float32)).all()


@pytest.mark.parametrize("held", [np.float32, np.float64])
def test_the_fused_multiply_add_rounds_once(held):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(500).astype(held) for _ in range(3))
    c *= held(2.0) ** rng.integers(-60, 20, c.shape).astype(held)
    for x, y, z, got in zip(a, b, c, fma(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        low, high = sorted((np.nextafter(got, held(-9e9)), np.nextafter(got, held(9e9))))
        assert abs(exact - Fraction(float(got))) <= min(
            abs(exact - Fraction(float(low))), abs(exact - Fraction(float(high)))
        )


def test_f64_is_held_in_its_own_width():
    third = floats([[1 / 3]], None, F64)
    assert ref.accepts(third, np.array([[1 / 3]])).all()
    assert not ref.accepts(third, np.array([[np.float32(1 / 3)]], np.float64)).any()
    assert to(third, F32).lo == np.float32(1 / 3)
    single = floats([[0.1]])
    assert ref.compare("lt", third, single).hi == ref.compare("lt", third, to(single, F64)).hi
    # Sums and functions leave room for so many ulp of the type.
    for dtype, unit in ((F32, 2.0**-24), (F64, 2.0**-53)):
        ones = floats(np.ones((1, 64)), None, dtype)
        for value, room in ((ref.reduce("sum", ones, 1), 9 * 64), (ref.function("exp", ones), 3 * 4)):
            assert 0.9 * room * unit < value.hi[0, 0] - value.lo[0, 0] < 2.1 * room * unit
        product = ref.dot(ones, floats(np.ones((64, 1)), None, dtype))
        assert 0.9 * 64 * 64 * unit < product.hi - 64 < 1.1 * 64 * 64 * unit


def test_what_was_f32_before_is_that_again():
    """An addition may take its product, which in F64 it may not."""
    a, b = floats([[1 + 2**-12]]), floats([[-1.0]])
    product = ref.multiply(a, a)
    assert not ref.add(product, b).exact.any()
    wide = to(product, F64)
    assert ref.add(wide, b).exact.all()
    assert not ref.add(to(wide, F32), b).exact.any()
    third = floats([[1 / 3]], None, F64)
    assert not ref.add(ref.multiply(third, third), floats([[-((1 / 3) ** 2)]], None, F64)).exact.any()


@pytest.mark.parametrize(
    "dtype, x, right",
    [
        (F32, 1 + 2**-24 + 2**-52, 1 + 2**-23),
        (F16, 65520 - 2**-37, 65504.0),
        (F16, 2**-25 + 2**-60, 2**-24),
        (BF16, 1 + 2**-8 + 2**-40, 1 + 2**-7),
        (BF16, -(2**-134 + 2**-170), -(2**-133)),
        (FP8, 1 + 2**-4 + 2**-50, 1 + 2**-3),
        (FP8, 1e300, 448.0),
        (E5M2, 1 + 2**-3 + 2**-50, 1 + 2**-2),
        (E5M2, -1e300, -np.inf),
    ],
)
def test_doubles_round_once(dtype, x, right):
    assert to(floats([[x]], None, F64), dtype).lo == right


def test_integers_round_once():
    values = np.array(
        [2**24 + 1, 2**40 + 2**16 + 1, -(2**62) - 2**38 - 1, 2**63 - 1, 257, 65519, 65520], np.int64
    )
    assert round_integers(values, F32)[0] == 2**24
    assert round_integers(values, F32)[1] == 2.0**40 + 2.0**17
    assert round_integers(values, F16)[5] == 65504 and round_integers(values, F16)[6] == np.inf
    assert round_integers(np.array([2**15 + 2**7 + 1]), BF16)[0] == float(bfloat16(2.0**15 + 2.0**8))


def test_what_is_not_known_stays_unknown():
    either = mask([[False]], [[True]])
    picked = ref.select(either, floats([[1.0]]), floats([[3.0]]))
    assert (picked.lo, picked.hi) == (1.0, 3.0)
    assert not to(picked, I32).exact.all()
    assert ref.add(integers([[2**31 - 1]], I32), integers([[1]], I32)).lo == -(2**31)
    assert ref.add(integers([[2**31 - 1]], I32), integers([[1]], I64)).lo == 2**31
    assert ref.divide(floats([[1.0]]), floats([[-1.0]], [[1.0]])).unknown.all()
    assert isinstance(ref.dot(floats([[1.0, 2.0]]), floats([[3.0], [4.0]])), Value)


def test_approximate_functions():
    """More is accepted of them, and not all."""
    a = floats([[0.25, 1.5, 3.0]])
    for name, off in (("exp", 3e-7), ("tanh", 2e-4), ("log2", 2e-7), ("sin", 1e-6), ("pow", 5e-7)):
        args = [a] if name != "pow" else [a, floats([[1.7]])]
        sharp = ref.wave(np.sin, a) if name == "sin" else ref.power(*args) if name == "pow" else None
        sharp = sharp or ref.function(name, a)
        loose = approximate.loosened(name, args, sharp)
        wide, close = loose.hi.astype(float) - loose.lo, sharp.hi.astype(float) - sharp.lo
        assert (wide >= close).all() and (wide > close).any(), name
        assert (wide < 20 * off * np.maximum(1, abs(sharp.hi))).all(), name


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_sums_in_any_order(dtype):
    """Every order is accepted and a number left out is not; of exact sums all bits are known."""
    rng = np.random.default_rng(3)
    numbers, places = ref.FUNCTIONS["exp"][0](rng.standard_normal(40)), np.repeat([0, 2, 3], [1, 9, 30])
    value = to(floats(numbers), dtype)
    added = sums.Addends(places, value, np.ones(40, bool))
    memory = to(floats([1.0, 2.0, 3.0, 4.0]), dtype)
    exactly = Value(dtype, memory.lo.copy(), memory.hi.copy())
    sums.AnyOrder(4).add(memory, added)
    sums.add_exactly(exactly, [added])
    assert memory.exact.tolist() == [True, True, False, False] and exactly.exact.all()
    for _ in range(20):
        found = np.array([1, 2, 3, 4], np.float32)
        for number in rng.permutation(40):
            at = places[number]
            found[at] = to(floats(found[at] + value.lo[number]), dtype).lo
        assert ref.accepts(memory, found).all()
        assert ref.accepts(memory, exactly.lo).all()
        less = found - np.bincount(places, np.where(np.arange(40) % 3 == 2, value.lo, 0))
        assert not ref.accepts(memory, less.astype(np.float32))[2:].any()


def test_operations_that_no_store_needs_are_left_out():
    body = generate(3).body
    used = names(body)
    assert all(op.name in STORES or used.intersection(op.results) for op in body.ops)


@pytest.mark.parametrize("execute, step", [(by_interpreter, 2), (by_simplified_interpreter, 1)])
def test_the_tile_ir_means_the_same(execute, step):
    """What the reference says, the recorded tile IR says too, before and after the shared passes."""
    for seed in range(COUNT, COUNT + MORE, step):
        program = generate(seed)
        outcome = check(program, execute)
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"
