"""What a kernel's body and grid see of a call's arguments, and what a launch returns."""

import collections
import enum

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile

Pair = collections.namedtuple("Pair", "left right")


class Mode(enum.Enum):
    FAST = 1


def kinds(value):
    """A value's kind, looked into where it is a tuple or list."""
    if isinstance(value, tuple | list):
        return type(value).__name__, [kinds(item) for item in value]
    if type(value).__name__ in ("Index", "Tile", "TensorArgument"):
        return type(value).__name__.removesuffix("Argument")
    return value


def vector(size=8, dtype=np.float32):
    return np.zeros(size, dtype)


def make(calls):
    """A new kernel that keeps what its body saw."""

    @tile.kernel(grid=1)
    def probe(p, first, second=2, *rest, constant="c", **more):
        calls.append([kinds(each) for each in (first, second, *rest)] + [constant, more])

    return probe


def seen(*args, **named):
    calls = []
    assert make(calls)(*args, **named) == ()
    return calls[-1]


@pytest.mark.parametrize(
    "value, kind",
    [
        (3, "Index"),
        (np.int8(3), "Index"),
        (np.uint64(3), "Index"),
        (np.array(3), "Index"),
        (3.0, "Tile"),
        (np.float16(3), "Tile"),
        (np.float64(3), "Tile"),
        (ml_dtypes.bfloat16(3), "Tile"),
        (np.array(3.0, np.float32), "Tile"),
        (vector(), "Tensor"),
        (vector(0), "Tensor"),
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (np.array(True), True),
        ("text", "text"),
        (Mode.FAST, Mode.FAST),
        (tile.F16, tile.F16),
        (np.float32, np.float32),
        (np.dtype("f4"), np.dtype("f4")),
        ((vector(), 1, None), ("tuple", ["Tensor", "Index", None])),
        ([vector(), [2.0]], ("list", ["Tensor", ("list", ["Tile"])])),
        (Pair(vector(), "x"), ("Pair", ["Tensor", "x"])),
        ((), ("tuple", [])),
    ],
)
def test_positional_values(value, kind):
    assert seen(value)[0] == kind


def test_defaults_keywords_rest_and_constants():
    assert seen(1) == ["Index", "Index", "c", {}]
    assert seen(1, 2.0, vector(), 4) == ["Index", "Tile", "Tensor", "Index", "c", {}]
    assert seen(second=1.0, first=vector()) == ["Tensor", "Tile", "c", {}]
    assert seen(1, constant=(1, 2), extra=5) == ["Index", "Index", (1, 2), {"extra": 5}]


def test_named_tuples_keep_their_names():
    @tile.kernel(grid=1)
    def body(p, pair):
        p.write(pair.left, [8]).put(p.read(pair.right, [8]).at([0]), [0])

    left, right = vector(), vector() + 3
    assert body(Pair(left, right))[0] is left
    assert np.array_equal(left, right)


def test_a_tensor_argument_knows_rank_and_type_and_its_sizes_are_indices():
    found = []

    def keep(*values):
        found.append(values)

    @tile.kernel(grid=1)
    def body(p, x):
        keep(x.ndim, x.dtype, kinds(x.shape))

    body(np.zeros((2, 3), np.float16))
    assert found[0] == (2, tile.F16, ("Sizes", ["Index", "Index"]))


def test_run_time_numbers_do_not_compile_again():
    @tile.kernel(grid=1)
    def body(p, out, n, s):
        p.write(out, [8]).put(p.iota([1, 8], 1).mul(s).add(n.value()), [0])

    for n, s in [(1, 2.0), (3, 0.5), (np.int64(-4), np.float32(1.5))]:
        out = vector()
        body(out, n, s)
        assert np.array_equal(out, np.arange(8, dtype=np.float32) * np.float32(s) + np.float32(n))
    assert body.cache_info() == (2, 1, 1)


def test_grid_functions_get_the_arguments_by_name():
    got = {}

    def all_of_them(**arguments):
        got.update(arguments)
        return 1

    probe = make([])
    x = vector()
    probe[all_of_them](x, 5, 6, other=7)
    assert got == {"first": x, "second": 5, "rest": (6,), "constant": "c", "other": 7}

    def two_of_them(second, constant):
        got.clear()
        got.update(second=second, constant=constant)
        return (1, 1)

    probe[two_of_them](x, constant=9)
    assert got == {"second": 2, "constant": 9}


def test_the_grid_is_what_the_program_counts():
    @tile.kernel(grid=lambda out: out.shape[0])
    def body(p, out):
        count = p.count(0).mul(100).add(p.count(1).mul(10)).add(p.count(2))
        p.write(out, [1]).put(count.value(), [p.id(0)])

    out = vector(4)
    body(out)
    assert list(out) == [411] * 4
    body[4, 2, 3](out)
    assert list(out) == [423] * 4
    body[[2]](out)
    assert list(out) == [211] * 2 + [423] * 2


def test_results_are_the_tensors_of_the_writes_in_order():
    @tile.kernel(grid=1)
    def body(p, x, y, z):
        p.write(z, [8]).put(p.zeros([8]), [0])
        p.write(x, [8]).put(p.zeros([8]), [0])
        p.write(z, [4])

    x, y, z = vector(), vector(), vector()
    results = body(x, y, z)
    assert isinstance(results, tuple)
    assert [id(each) for each in results] == [id(z), id(x), id(z)]


def test_run_returns_the_tensors_of_its_writes():
    x, y = vector() + 1, vector()

    def body(p):
        p.write(y, [8]).put(p.read(x, [8]).at([0]).mul(2), [0])

    (result,) = tile.run(1, body)
    assert result is y
    assert list(y) == [2] * 8


def test_empty_launches_are_traced_and_checked_but_not_run():
    @tile.kernel(grid=lambda out: out.shape[0])
    def body(p, out, block=None):
        p.write(out, [8 if block is None else 0]).put(p.zeros([8]), [0])

    empty = vector(0)
    assert body(empty)[0] is empty
    out = vector() + 1
    assert body[0](out)[0] is out
    assert list(out) == [1] * 8
    with pytest.raises(tile.TileError, match="are at least 1, found 0"):
        body(empty, block="wrong")


def test_an_empty_input_reads_as_pad():
    @tile.kernel(grid=1)
    def body(p, x, out):
        p.write(out, [8]).put(p.read(x, [8], pad=5).at([0]), [0])

    out = vector()
    body(vector(0), out)
    assert list(out) == [5] * 8


def test_strides_and_offsets():
    @tile.kernel(grid=lambda out, **_: (tile.cdiv(out.shape[1], 4), tile.cdiv(out.shape[0], 2)))
    def double(p, x, out):
        place = [p.id(1), p.id(0)]
        p.write(out, [2, 4]).put(p.read(x, [2, 4]).at(place).mul(2), place)

    base = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    views = {
        "plain": base[:5, :7],
        "transposed": base[:7, :5].T,
        "stepped": base[1:11:2, ::9][:, :7],
        "reversed": base[4::-1, 6::-1],
        "rows of stride 0": np.broadcast_to(base[:1, :7], (5, 7)),
        "columns of stride 0": np.broadcast_to(base[:5, :1], (5, 7)),
    }
    for name, x in views.items():
        for out in (
            np.zeros((5, 7), np.float32),
            np.zeros((7, 5), np.float32).T,
            np.zeros((9, 9), np.float32)[8:3:-1, 1:8],
        ):
            double(x, out)
            assert np.array_equal(out, x * 2), name


def test_a_kernel_in_a_class_is_a_static_method():
    class Layer:
        @tile.kernel(grid=1)
        def fill(p, out, *, VALUE=1.0):
            p.write(out, [8]).put(p.full([8], VALUE), [0])

        @staticmethod
        @tile.kernel(grid=1)
        def outside(p, out):
            p.write(out, [8]).put(p.full([8], 2.0), [0])

        @tile.kernel(grid=1)
        @staticmethod
        def inside(p, out):
            p.write(out, [8]).put(p.full([8], 3.0), [0])

    out = vector()
    for kernel, value in [(Layer.fill, 1), (Layer().fill, 1), (Layer().outside, 2), (Layer.inside, 3)]:
        kernel(out)
        assert list(out) == [value] * 8


def test_a_kernel_looks_like_its_function():
    def plain(p, x):
        """What it does."""

    decorated = tile.kernel(grid=1)(plain)
    assert decorated.__wrapped__ is plain
    assert (decorated.__name__, decorated.__doc__, decorated.__module__) == (
        "plain",
        "What it does.",
        __name__,
    )
    assert repr(decorated) == "<kernel plain>"
    assert repr(decorated[2, 3]) == "<<kernel plain> on (2, 3)>"


DECORATIONS = [
    (
        lambda: tile.kernel(lambda: None),
        "kernel <lambda> has no parameter for the program; write it first: def <lambda>(p, ...)",
    ),
    (
        lambda: tile.kernel(lambda *p: None),
        "kernel <lambda> has no parameter for the program; write it first: def <lambda>(p, ...)",
    ),
    (
        lambda: tile.kernel(lambda self, p: None),
        "kernel <lambda> has self as its first parameter; a kernel in a class is a static method, so its "
        "first parameter is the program: def <lambda>(p, ...)",
    ),
    *(
        (
            lambda name=name: tile.kernel(eval(f"lambda p, {name}: None")),
            f"kernel <lambda> has a parameter named {name!r}, which means something else in a launch; choose "
            "another name",
        )
        for name in ("kind", "arch", "storage", "stream", "warps", "stages")
    ),
    (
        lambda: tile.kernel(max),
        "@tile.kernel takes a function written with def or lambda, found the built-in function max",
    ),
    (lambda: tile.function(3), "@tile.function takes a function written with def or lambda, found int"),
    (
        lambda: tile.kernel(configs=[])(lambda p, x: None),
        "kernel <lambda> has an empty list of configurations; give at least one",
    ),
    (
        lambda: tile.kernel(configs=[{"BM": 1}])(lambda p, x, *, BN: None),
        "a configuration of kernel <lambda> has 'BM', which is not one of its constants: BN, warps, stages",
    ),
    (
        lambda: tile.kernel(configs=[5])(lambda p, x, *, BN: None),
        "a configuration of kernel <lambda> is a mapping or a record of constants, found 5",
    ),
]


@pytest.mark.parametrize("decorate, message", DECORATIONS)
def test_wrong_decorations(decorate, message, monkeypatch):
    with pytest.raises(tile.TileError) as caught:
        decorate()
    assert caught.value.message == message
    assert caught.value.filename == __file__


def test_launches_inside_programs_are_errors():
    x, out = vector(), vector()

    @tile.kernel(grid=1)
    def inner(p, out):
        p.write(out, [8]).put(p.zeros([8]), [0])

    @tile.kernel(grid=1)
    def outer(p, out):
        inner(out)

    with pytest.raises(tile.TileError) as caught:
        outer(out)
    assert caught.value.message == (
        "kernel inner is called inside of outer; a kernel is launched from outside: write what kernels "
        "share as a @tile.function"
    )

    def body(p):
        tile.run(1, lambda q: None)

    with pytest.raises(tile.TileError) as caught:
        tile.run(1, body)
    assert caught.value.message == "a launch inside of body, which is a program itself; launch after it"

    def tuning(p):
        tile.tune([1], 1, lambda q, c: None)

    with pytest.raises(tile.TileError) as caught:
        tile.run(1, tuning)
    assert caught.value.message == "tune inside of tuning, which is a program itself; tune after it"
    # A failed trace leaves nothing behind.
    inner(out)
    assert list(x) == list(out)


def test_exceptions_of_the_person_pass_through():
    @tile.kernel(grid=1)
    def body(p, out):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        body(vector())
