"""Names that are not there, and functions of other libraries: errors for people, attributes for Python."""

import copy
import inspect
import math
import pickle
import re
from functools import partial

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import habits
from gizml_tile.errors import TileAttributeError, TileError
from gizml_tile.program import trace

x = np.zeros((8, 8), np.float32)


def wrong(use):
    """The error that a use of a tile raises in a program, which points into this file."""
    with pytest.raises(TileError) as caught:
        trace("wrong", lambda p: use(p.read(x, [8, 8]).at([0, 0])))
    assert caught.value.filename == __file__
    return caught.value


def kept(make):
    """What a program makes, after it."""
    found = []
    trace("kept", lambda p: found.append(make(p)))
    return found[0]


def test_missing_names_are_missing_attributes():
    def body(p):
        for value in (p, p.id(0), p.zeros([8, 8]), p.zeros([2, 8, 8]), p.read(x, [8, 8]), p.write(x, [8, 8])):
            assert not hasattr(value, "shpe")
            assert getattr(value, "astype", 3) == 3
            assert not hasattr(value, "_repr_nothing_") and not hasattr(value, "__nothing__")
        assert copy.copy(p.zeros([8])).shape == copy.deepcopy(p.zeros([8])).shape == (1, 8)

    trace("names", body)
    assert not hasattr(tile, "arange") and getattr(tile, "float32", None) is None
    error = wrong(lambda t: t.shpe)
    assert isinstance(error, AttributeError) and isinstance(error, TileAttributeError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)


def test_a_kernel_is_an_ordinary_object():
    @tile.kernel(grid=1)
    def nothing(p):
        pass

    assert not hasattr(nothing, "fileno") and not hasattr(nothing[1], "fileno")
    assert inspect.unwrap(nothing) is nothing.__wrapped__
    with pytest.raises(AttributeError, match=r"the kernel nothing has no 'run'; .* nothing\(\.\.\.\)"):
        nothing.run()


def test_signatures_and_texts_of_methods_stay():
    assert list(inspect.signature(tile.Tile.max).parameters) == ["self", "axis", "nan"]
    assert "largest value" in (tile.Tile.max.__doc__ or "")
    assert list(inspect.signature(tile.run).parameters) == ["grid", "body", "stream", "debug"]


def test_errors_inside_of_what_is_called_pass():
    def body(p):
        p.fold(0, 4, p.zeros([8]), lambda k, t: t + len(3))

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        trace("passes", body)
    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        trace("passes", lambda p: len(3))


def test_advice_is_of_names_that_are_there():
    """What the tables name as methods of tiles, programs, inputs and outputs exists."""
    known = set(dir(tile.Tile)) | set(dir(tile.Index)) | set(dir(tile.Program)) | set(dir(tile.In))
    known |= set(dir(tile.Out)) | set(tile.__all__) | {"ndim", "findings", "shape"}
    known |= {"source", "explain", "simulate", "ir", "preview", "pi", "log"}
    tables = [
        habits.TILE,
        habits.INDEX,
        habits.PROGRAM,
        habits.INPUT,
        habits.OUTPUT,
        habits.TENSOR,
        habits.KERNEL,
        habits.MODULE,
    ]
    for table in tables:
        for word, advice in table.items():
            text = advice.format(it="it")
            for name in re.findall(r"\b(?:it|x|p|C|A|tile|mask)\.([A-Za-z_]\w*)", text):
                assert name in known, f"{word}: {advice}"
    for word in habits.TILE:
        assert not hasattr(tile.Tile, word), word
    for word in habits.PROGRAM:
        assert not hasattr(tile.Program, word), word
    for word in habits.FUNCTIONS.values():
        assert hasattr(tile.Tile, word), word


MADE = {
    "log10": np.log10,
    "exp10": lambda x: 10.0**x,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "arctan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan2": lambda x: np.arctan2(x, 0.75),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "hypot": lambda x: np.hypot(x, 0.75),
    "erfc": lambda x: 1 - np.vectorize(math.erf)(x),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "logaddexp": lambda x: np.logaddexp(x, 0.75),
    "log_softmax": lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "ldexp": lambda x: x * 2**0.75,
    "frac": lambda x: np.modf(x)[0],
    "nan_to_num": lambda x: x,
    "fmod": lambda x: np.fmod(x, 0.75),
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": np.reciprocal,
}


@pytest.mark.parametrize("name", MADE)
def test_functions_that_are_made_of_others_are_what_is_said(name):
    """What stands after "write" is computed, in F32 and in F64."""
    text, near, _ = habits.TILE[name].format(it="x").removeprefix("write ").partition(" (within 2^-20")
    *steps, result = text.split(", then ")
    low, high = {"acosh": (1.01, 30), "log10": (0.1, 30), "lg2": (0.1, 30)}.get(name, (-3, 3))
    low, high = (-0.97, 0.97) if name in ("asin", "acos", "atanh") else (low, high)

    def body(p, given, found):
        names = {"x": p.read(given, [4, 16])[0, 0], "y": 0.75, "math": math}
        for step in steps:
            exec(step, names)
        p.write(found, [4, 16])[0, 0] = eval(result, names)

    for kind in (np.float32, np.float64):
        given, found = np.linspace(low, high, 64, dtype=kind).reshape(4, 16), np.zeros((4, 16), kind)
        tile.run(1, partial(body, given=given, found=found))
        bound = 2.0**-20 if near or kind is np.float32 else 2.0**-48
        assert np.allclose(found, MADE[name](given.astype(float)), rtol=bound, atol=bound)


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda t: np.exp(t), r"np\.exp takes arrays, found an F32 tile \[8, 8\]; write t\.exp\(\)"),
        (lambda t: np.maximum(t, 0), r"np\.maximum takes arrays, .*; write t\.maximum\(other\)"),
        (lambda t: np.absolute(t), r"np\.absolute takes arrays, .*; write t\.abs\(\)"),
        (lambda t: np.mean(t), r"np\.mean takes arrays, .* t\.sum\(axis\) and the size of the tensor"),
        (lambda t: np.linalg.norm(t), r"np\.norm takes arrays, found"),
        (lambda t: np.add(x, t, out=x), "an array of the host is not changed by an F32 tile"),
        (lambda t: np.asarray(t), "is no array of the host"),
        (lambda t: np.array([t, t]), "is no array of the host"),
        (lambda t: np.float32(t), "an F32 tile .* is no (Python number|array of the host)"),
    ],
)
def test_functions_of_numpy(use, message):
    assert re.match(message, wrong(use).message) or re.search(message, wrong(use).message)


def test_numpy_values_at_the_left_of_operators():
    def body(p):
        t, n = p.zeros([8, 8]), p.zeros([8, 8], tile.I32)
        for value in (np.float32(2), np.float64(0.5), np.array(3.0, np.float32)):
            for result in (value + t, value * t, value / t, value - t):
                assert result.shape == (8, 8)
        assert (np.int32(3) % n).dtype is tile.I32 and (np.int64(1) << n).dtype is tile.I32
        assert (np.float32(2) < t).dtype is tile.MASK and (np.int32(2) == n).dtype is tile.MASK

    trace("left", body)


def test_a_value_has_no_digits():
    value = kept(lambda p: p.zeros([8, 8]))
    assert f"{value}" == str(value) == "<Tile [8, 8] F32>"
    assert wrong(lambda t: f"{t:.3f}").message.startswith("an F32 tile [8, 8] has no digits to format")
