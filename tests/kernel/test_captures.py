"""What counts as captured, and that every change of it is seen."""

import dataclasses
import enum
import functools
import math
import types

import ml_dtypes
import numpy as np
import pytest

from gizml_tile.captures import freeze, read
from gizml_tile.portable import portable

LIMIT = 64
TABLE = {"block": 8, "names": ["a", "b"]}
NESTED = types.SimpleNamespace(inner=types.SimpleNamespace(width=4, other=1))


class Settings:
    width = 16

    def __init__(self, depth):
        self.depth = depth

    def total(self):
        return self.width * self.depth


SETTINGS = Settings(2)


class Mode(enum.Enum):
    CAUSAL = 1
    FULL = 2


MODE = Mode.CAUSAL


def scaled(value):
    return value * LIMIT


def twice(value):
    return scaled(value) + scaled(value)


@pytest.fixture
def changed(monkeypatch):
    """Whether a function's key, its watch or both tell that ``change`` happened."""

    def check(function, change):
        before = read(function)
        change(monkeypatch)
        watch_saw = before.watch is None or not before.watch.unchanged()
        return before.key != read(function).key, watch_saw

    return check


CHANGES = {
    "global": (lambda p: LIMIT, lambda m: m.setitem(globals(), "LIMIT", 65)),
    "global of another type": (lambda p: LIMIT, lambda m: m.setitem(globals(), "LIMIT", 64.0)),
    "global of a helper": (lambda p: twice(p), lambda m: m.setitem(globals(), "LIMIT", 65)),
    "helper": (lambda p: scaled(p), lambda m: m.setitem(globals(), "scaled", lambda value: value)),
    "code of a helper": (
        lambda p: scaled(p),
        lambda m: m.setattr(scaled, "__code__", (lambda value: value).__code__),
    ),
    "constant item": (lambda p: TABLE["block"], lambda m: m.setitem(TABLE, "block", 9)),
    "computed item": (lambda p: TABLE[p], lambda m: m.setitem(TABLE, "block", 9)),
    "item in an item": (lambda p: TABLE["names"][0], lambda m: m.setitem(TABLE, "names", ["c"])),
    "attribute chain": (lambda p: NESTED.inner.width, lambda m: m.setattr(NESTED.inner, "width", 5)),
    "whole object": (lambda p: scaled(NESTED), lambda m: m.setattr(NESTED.inner, "other", 5)),
    "class attribute": (lambda p: Settings.width, lambda m: m.setattr(Settings, "width", 5)),
    "class attribute of an object": (
        lambda p: SETTINGS.width,
        lambda m: m.setattr(Settings, "width", 5),
    ),
    "object behind a method": (lambda p: SETTINGS.total(), lambda m: m.setattr(SETTINGS, "depth", 5)),
    "class behind a method": (lambda p: SETTINGS.total(), lambda m: m.setattr(Settings, "width", 5)),
    "class passed on": (lambda p: scaled(Settings), lambda m: m.setattr(Settings, "width", 5)),
    "module attribute": (lambda p: math.pi, lambda m: m.setattr(math, "pi", 3.0)),
    "enumeration": (lambda p: MODE, lambda m: m.setitem(globals(), "MODE", Mode.FULL)),
    "builtin shadowed": (
        lambda p: len(p),
        lambda m: m.setitem(globals(), "len", lambda value: 1),
    ),
    "comprehension": (lambda p: [LIMIT for _ in p], lambda m: m.setitem(globals(), "LIMIT", 65)),
    "function inside": (
        lambda p: (lambda: LIMIT)(),
        lambda m: m.setitem(globals(), "LIMIT", 65),
    ),
    "name that did not exist": (
        lambda p: UNKNOWN,  # noqa: F821
        lambda m: m.setitem(globals(), "UNKNOWN", 1),
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_change_is_seen(case, changed):
    function, change = CHANGES[case]
    assert changed(function, change) == (True, True)


UNRELATED = {
    "other global": (lambda p: LIMIT, lambda m: m.setitem(globals(), "MODE", Mode.FULL)),
    "other attribute": (lambda p: NESTED.inner.width, lambda m: m.setattr(NESTED.inner, "other", 5)),
    "other item": (lambda p: TABLE["block"], lambda m: m.setitem(TABLE, "names", [])),
    "attribute of a parameter": (lambda p: p.LIMIT, lambda m: m.setitem(globals(), "LIMIT", 5)),
}


@pytest.mark.parametrize("case", UNRELATED)
def test_what_is_not_read_does_not_count(case, changed):
    function, change = UNRELATED[case]
    assert changed(function, change) == (False, False)


def test_cells_count_by_value_and_new_closures_of_one_code_are_equal():
    def make(scale, offset=0):
        def helper(value):
            return value * scale

        def body(p):
            return helper(p) + offset

        return body

    assert read(make(2)).key == read(make(2)).key
    assert read(make(2)).key != read(make(3)).key
    assert read(make(2)).key != read(make(2.0)).key
    assert read(make(2, 1)).key != read(make(2)).key


def test_cell_that_is_rebound():
    scale = 2

    def body(p):
        return scale

    before = read(body)
    assert before.watch.unchanged()
    scale = 3
    assert not before.watch.unchanged()
    assert read(body).key != before.key


def test_cell_that_is_still_empty():
    def body(p):
        return later

    before = read(body)
    later = 1
    assert not before.watch.unchanged()
    assert read(body).key != before.key


def test_defaults_of_a_body():
    def make(value):
        def body(p, value=value, *, other=value):
            return value, other

        return body

    assert read(make(1)).key == read(make(1)).key
    assert read(make(1)).key != read(make(True)).key


def test_methods_partials_and_callable_objects():
    class Layer:
        def __init__(self, width):
            self.width = width

        def forward(self, p):
            return self.width

        def __call__(self, p):
            return self.width

    assert read(Layer(1).forward).key == read(Layer(1).forward).key
    assert read(Layer(1).forward).key != read(Layer(2).forward).key
    assert read(Layer(1)).key != read(Layer(2)).key
    assert read(functools.partial(scaled, 1)).key == read(functools.partial(scaled, 1)).key
    assert read(functools.partial(scaled, 1)).key != read(functools.partial(scaled, 2)).key


def test_properties_are_not_run():
    class Lazy:
        ran = 0

        @property
        def value(self):
            Lazy.ran += 1
            return 1

    lazy = Lazy()

    def body(p):
        return lazy.value

    read(body)
    assert Lazy.ran == 0


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: object = 0


DIFFERENT = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (1, "1"),
    ("1", b"1"),
    ((1,), [1]),
    ((1,), (True,)),
    ([1, 2], [2, 1]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1}, {True}),
    (Point(1), Point(True)),
    (Point(1, 2), Point(1, 3)),
    (Mode.CAUSAL, Mode.FULL),
    (np.float32(1), np.float64(1)),
    (np.float32(1), 1.0),
    (np.float32(0), np.float32(-0.0)),
    (np.int32, np.int64),
    (np.dtype("f4"), np.dtype("f8")),
    (range(3), range(4)),
    (slice(1), slice(2)),
    (1j, 1),
    (complex(0.0, -0.0), complex(0.0, 0.0)),
    (None, False),
    (object(), object()),
    (math.sin, math.cos),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
]


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_types_and_bits_differ(one, other):
    assert freeze(one) != freeze(other)
    assert freeze(one) == freeze(one)


EQUAL = [
    (float("nan"), -float("nan")),
    (np.float32("nan"), np.float32("nan")),
    ([1, [2, {"a": {3}}]], [1, [2, {"a": {3}}]]),
    (Point(1, [2]), Point(1, [2])),
    (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1)),
    (types.SimpleNamespace(a=[1]), types.SimpleNamespace(a=[1])),
]


@pytest.mark.parametrize("one, other", EQUAL)
def test_equal_values_are_equal(one, other):
    assert freeze(one) == freeze(other)
    assert hash(freeze(one)) == hash(freeze(other))


def test_cycles_and_sharing_end():
    one: list = [1]
    one.append(one)
    other: list = [1]
    other.append(other)
    assert freeze(one) == freeze(other)
    shared = [1]
    assert freeze([shared, shared]) != freeze([[1], [1]])


def test_tensors_are_left_out_but_which_are_the_same_counts():
    x, y = np.zeros((4, 8), np.float32), np.ones((4, 8), np.float32)

    def make(a, b):
        def body(p):
            p.read(a, [4, 8])
            p.write(b, [4, 8])

        return body

    reading = read(make(x, y))
    assert [id(tensor) for tensor in reading.tensors] == [id(x), id(y)]
    assert reading.whole == frozenset()
    assert read(make(y, x)).key == reading.key
    assert read(make(x[:2], y[:1])).key == reading.key
    assert read(make(x, x)).key != reading.key
    assert read(make(x, y.astype(np.float16))).key != reading.key
    assert read(make(x, y[0])).key != reading.key


def test_sizes_and_views_of_a_tensor():
    x = np.zeros((4, 8), np.float32)

    def make(a):
        def body(p):
            p.read(a.T, [8, 4])
            return a.shape[0]

        return body

    reading = read(make(x))
    assert reading.infos[0].shape == (8, 4)
    assert read(make(x + 1)).key == reading.key
    assert read(make(np.zeros((5, 8), np.float32))).key != reading.key


def test_a_tensor_that_is_passed_on_counts_with_its_sizes():
    x = np.zeros((4, 8), np.float32)

    def make(a):
        return lambda p: scaled(a)

    assert read(make(x)).whole == {0}
    assert read(make(x[:2])).key != read(make(x)).key


def test_tables_and_numbers_on_the_host_count_by_content():
    table = np.array([1.0, 2.0])
    number = np.float32(3)[()] * np.ones(())

    def make(values):
        return lambda p: values[0] if p else values

    assert read(make(table)).key == read(make(table.copy())).key
    assert read(make(table)).key != read(make(table + 1)).key
    assert read(make(number)).key != read(make(number + 1)).key


def test_portable_keys_name_everything_and_are_none_where_that_is_impossible():
    def body(p):
        return scaled(p) + math.pi + TABLE["block"] + np.float32(1)

    assert portable(read(body).key) == portable(read(body).key)
    marker = object()

    def unnamed(p):
        return marker

    assert portable(read(unnamed).key) is None


def test_watch_of_values_that_may_change_in_place_is_none():
    assert read(lambda p: LIMIT).watch is not None
    assert read(lambda p: twice(p)).watch is not None
    assert read(lambda p: TABLE[p]).watch is None
