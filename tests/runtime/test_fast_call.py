"""Fast calls: launched natively where nothing but addresses and free numbers differs, else not at all."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from gizml_tile.runtime import cpu, objects, pool
from gizml_tile.runtime import fast_call as module
from gizml_tile.runtime.fast_call import Call, fast_call
from gizml_tile.runtime.tensors import describe

LAYOUT = {
    "entry": "vector_add",
    "arena_bytes": 0,
    "arguments": [
        ["pointer", 0, 0],
        ["pointer", 1, 0],
        ["pointer", 2, 0],
        ["size", 0, 0],
        ["scalar", 0, "float"],
    ],
}


@pytest.fixture(scope="module")
def kernel(kernels_object):
    return cpu.load(LAYOUT, kernels_object)


def arrays(size=8):
    return np.arange(size, dtype=np.float32), np.ones(size, np.float32), np.zeros(size, np.float32)


def bound(kernel, arguments, **changes):
    infos = [describe(argument) for argument in arguments[:3]]
    facts = {
        "kernel": kernel,
        "arguments": arguments,
        "tensors": (0, 1, 2),
        "infos": infos,
        "scalars": (3,),
        "values": (arguments[3],),
        "grid": (1,),
        "written": (2,),
        "may_alias": False,
    }
    kernel(infos, [arguments[3]], (1,))
    return fast_call(Call(**(facts | changes)))


@pytest.fixture
def call(kernel):
    return bound(kernel, (*arrays(), 0.5))


def test_it_launches_and_returns_what_is_written(call):
    a, b, c = arrays()
    result = call(a, b, c, 0.5)
    assert type(result) is tuple and len(result) == 1 and result[0] is c
    assert (c == a + 0.5).all()


def test_references_are_balanced(call):
    a, b, c = arrays()
    before = [sys.getrefcount(value) for value in (a, b, c)]
    for _ in range(1000):
        call(a, b, c, 0.5)
        call(a, b, c)
        call(a, b, None, 0.5)
    assert [sys.getrefcount(value) for value in (a, b, c)] == before


def test_the_first_calls_arrays_are_not_kept(kernel):
    a, b, c = arrays()
    call = bound(kernel, (a, b, c, 0.5))
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    a = np.full(8, 4, np.float32)
    call(a, b, c, 0.5)
    assert (c == 4.5).all()


class Subclass(np.ndarray):
    pass


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b, c: (),
        lambda a, b, c: (a, b, c),
        lambda a, b, c: (a, b, c, 0.5, 1),
        lambda a, b, c: (a, b, c, 0.25),
        lambda a, b, c: (a, b, c, -0.5),
        lambda a, b, c: (a, b, c, math.nan),
        lambda a, b, c: (a, b, c, 1),
        lambda a, b, c: (a, b, c, True),
        lambda a, b, c: (a, b, c, np.float64(0.5)),
        lambda a, b, c: (a, b, c, a),
        lambda a, b, c: (a, b, c.view(Subclass), 0.5),
        lambda a, b, c: (a, b, None, 0.5),
        lambda a, b, c: (a, b, 3.5, 0.5),
        lambda a, b, c: (a, b, [0.0] * 8, 0.5),
        lambda a, b, c: (a[:7], b, c, 0.5),
        lambda a, b, c: (a[::-1], b, c, 0.5),
        lambda a, b, c: (a.reshape(1, 8), b, c, 0.5),
        lambda a, b, c: (a.astype(np.float64), b, c, 0.5),
        lambda a, b, c: (a.view(np.int32), b, c, 0.5),
        lambda a, b, c: (a.astype(">f4"), b, c, 0.5),
        lambda a, b, c: (a, b, read_only(c), 0.5),
        lambda a, b, c: (np.zeros(33, np.uint8)[1:].view(np.float32), b, c, 0.5),
        lambda a, b, c: (c, b, c, 0.5),
        lambda a, b, c: (a, c, c, 0.5),
        lambda a, b, c: ((big := np.zeros(12, np.float32))[:8], b, big[4:], 0.5),
        lambda a, b, c: ((big := np.zeros(12, np.float32))[4:], b, big[:8], 0.5),
    ],
)
def test_anything_different_launches_nothing(call, change):
    a, b, c = arrays()
    c[:] = 77
    arguments = change(a, b, c)
    before = [np.copy(value) for value in arguments if isinstance(value, np.ndarray)]
    assert call(*arguments) is None
    after = [value for value in arguments if isinstance(value, np.ndarray)]
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_inputs_may_be_read_only_and_neighbours(call):
    big = np.zeros(24, np.float32)
    big[:8] = 3
    a, c, b = big[:8], big[8:16], read_only(big[16:].copy())
    assert call(a, b, c, 0.5)[0] is c and (c == 3).all()
    assert call(big[16:], b, c, 0.5) is not None


def test_aliases_are_launched_where_the_code_allows_them(kernel):
    call = bound(kernel, (*arrays(), 0.5), may_alias=True)
    a, b, _ = arrays()
    assert call(a, b, a, 0.5)[0] is a
    assert (a == np.arange(8) + 0.5).all()


@pytest.mark.parametrize("value", [0.1, -3.5, 1e300, -math.inf, math.nan, 1e-45, 1e-320])
def test_free_floats(kernel, value):
    call = bound(kernel, (*arrays(), 0.5), free_scalars=True)
    a, b, c = arrays()
    assert call(a, b, c, value) is not None
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.array_equal(c, a + b * np.float32(value), equal_nan=True)
    assert call(a, b, c, 1) is None


@pytest.fixture(params=[0, 1, 4], ids=["first", "middle", "last"])
def with_unused(kernel, request):
    """A call with an int16 array of 3 x 4 that the program has no use for, and what puts another there."""
    at = request.param

    def put(arguments, unused):
        return (*arguments[:at], unused, *arguments[at:])

    unused = np.zeros((3, 4), np.int16)
    given = (*arrays(), 0.5)
    places = [number + (number >= at) for number in range(4)]
    infos = [describe(array) for array in (*given[:3], unused)]
    call = fast_call(
        Call(
            kernel=kernel,
            arguments=put(given, unused),
            tensors=(*places[:3], at),
            infos=infos,
            scalars=places[3:],
            values=(0.5,),
            grid=(1,),
            written=(2,),
            may_alias=False,
            unused=1,
        )
    )
    return call, put


def test_an_array_without_use_is_placed_nowhere(with_unused):
    call, put = with_unused
    a, b, c = arrays()
    unused = np.full((3, 4), 7, np.int16)
    before = sys.getrefcount(unused)
    assert call(*put((a, b, c, 0.5), unused)) == (c,)
    assert (c == a + 0.5).all() and (unused == 7).all()
    assert sys.getrefcount(unused) == before


def test_an_array_without_use_may_be_read_only_and_meet_a_written_one(with_unused):
    call, put = with_unused
    a, b, c = arrays()
    assert call(*put((a, b, c, 0.5), read_only(np.zeros((3, 4), np.int16)))) == (c,)
    big = np.zeros(16, np.float32)
    assert call(*put((a, b, big[:8], 0.5), big.view(np.int16)[4:16].reshape(3, 4))) is not None
    assert (big[:8] == a + 0.5).all()


OTHERS = {
    "shape": np.zeros((4, 3), np.int16),
    "rank": np.zeros(12, np.int16),
    "strides": np.zeros((3, 8), np.int16)[:, ::2],
    "dtype": np.zeros((3, 4), np.int32),
    "byte order": np.zeros((3, 4), ">i2"),
    "type that no launch takes": np.zeros((3, 4), np.complex64),
    "unaligned": np.zeros(25, np.uint8)[1:].view(np.int16).reshape(3, 4),
    "subclass": np.zeros((3, 4), np.int16).view(Subclass),
    "number": 0.5,
    "None": None,
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_another_array_without_use_launches_nothing(with_unused, name):
    call, put = with_unused
    a, b, c = arrays()
    assert call(*put((a, b, c, 0.5), OTHERS[name])) is None
    assert not c.any()


WORDS = {
    "entry": "copy_arguments",
    "arena_bytes": 0,
    "arguments": [
        ["pointer", 0, 0],
        ["scalar", 0, "index"],
        ["grid", 0],
        ["size", 1, 0],
        ["stride", 1, 1],
        ["scalar", 2, "index"],
        *[["grid", 1]] * 10,
    ],
}


def words_call(kernels_object, out, view, *rest, **changes):
    kernel = cpu.load(WORDS, kernels_object)
    facts = {
        "kernel": kernel,
        "arguments": (out, view, *rest),
        "tensors": (0, 1),
        "infos": [describe(out), describe(view)],
        "scalars": (2, None, 2),
        "values": (rest[0], 8, rest[0]),
        "grid": (3, 4),
        "written": (0, 0),
        "may_alias": False,
        "free_scalars": True,
    }
    return fast_call(Call(**(facts | changes)))


@pytest.mark.parametrize("value", [0, 7, -1, -2, 1 << 40, -(2**63), 2**63 - 1])
def test_free_integers(kernels_object, value):
    out, view = np.zeros(16, np.int64), np.zeros((5, 6), np.int8)[:, ::2]
    call = words_call(kernels_object, out, view, 3)
    assert call(out, view, value) == (out, out)
    assert list(out) == [out.ctypes.data, value, 3, 5, 2, value, *[4] * 10]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.0, True, None])
def test_integers_that_need_the_slow_way(kernels_object, value):
    out, view = np.zeros(16, np.int64), np.zeros((5, 6), np.int8)
    call = words_call(kernels_object, out, view, 3)
    assert call(out, view, value) is None
    assert not out.any()
    assert call(out, view, 4) is not None


def test_constants_are_compared_by_identity(kernels_object):
    out, view = np.zeros(16, np.int64), np.zeros((5, 6), np.int8)
    call = words_call(kernels_object, out, view, 3, None, True, "relu")
    assert call(out, view, 3, None, True, "relu") is not None
    for changed in (
        (None, False, "relu"),
        (None, True, "gelu"),
        (0, True, "relu"),
        (None, 1, "relu"),
    ):
        assert call(out, view, 3, *changed) is None


def test_captured_values_are_compared(kernel):
    names = {"scale": (scale := object()), "other": 1}
    held = object()

    def function():
        return held

    cell = function.__closure__[0]
    call = bound(
        kernel,
        (*arrays(), 0.5),
        entries=[(names, "scale", scale), (names, "other", 1)],
        cells=[(cell, held)],
    )
    a, b, c = arrays()
    assert call(a, b, c, 0.5) is not None
    names["scale"] = object()
    assert call(a, b, c, 0.5) is None
    del names["scale"]
    assert call(a, b, c, 0.5) is None
    names["scale"] = scale
    assert call(a, b, c, 0.5) is not None
    cell.cell_contents = object()
    assert call(a, b, c, 0.5) is None
    del cell.cell_contents
    assert call(a, b, c, 0.5) is None


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros(8, np.float32).view(Subclass), *arrays()[1:], 0.5),
        (*arrays(), 0.5, [1]),
        (*arrays(), 0.5, (1, 2)),
        (*arrays(), 0.5, np.zeros(3)),
        (*arrays(), 0.5, np.float32(1)),
        (*arrays(), 1),
    ],
    ids=[
        "subclass",
        "list",
        "tuple",
        "array that is not read",
        "numpy number",
        "wrong kind of number",
    ],
)
def test_what_is_left_to_the_slow_way(kernel, arguments):
    assert bound(kernel, arguments) is None


def test_no_fast_call_where_objects_lie_otherwise(kernel, monkeypatch):
    monkeypatch.setattr(module, "layout_holds", lambda: False)
    assert bound(kernel, (*arrays(), 0.5)) is None


@pytest.mark.parametrize(
    "name",
    [name for name in vars(objects) if name.endswith("_AT")] + ["ALIGNED", "WRITEABLE"],
)
def test_every_place_is_checked(monkeypatch, name):
    check = objects.layout_holds.__wrapped__
    assert check() is True
    # The next place holds something else of the same object, or the next object.
    monkeypatch.setattr(objects, name, getattr(objects, name) + 8)
    assert check() is False


def test_a_busy_pool_is_left_alone(call):
    a, b, c = arrays()
    shared = pool.shared_pool()
    shared.native.lock(shared.address)
    assert call(a, b, c, 0.5) is None and not c.any()
    shared.native.unlock(shared.address)
    assert call(a, b, c, 0.5) is not None


def test_the_pool_may_stop_and_start(call):
    a, b, c = arrays()
    pool._before_fork()
    assert call(a, b, c, 0.5) is None
    pool.shared_pool()
    assert call(a, b, c, 0.5) is not None


def test_a_forked_child_takes_the_slow_way_first(call):
    if not hasattr(os, "fork"):
        return
    a, b, c = arrays()
    child = os.fork()
    if child == 0:
        first = call(a, b, c, 0.5)
        pool.shared_pool()
        os._exit(0 if first is None and call(a, b, c, 0.5) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_threads(call):
    wrong = []

    def work(seed):
        a, b, c = arrays()
        a += seed
        for _ in range(3000):
            c[:] = 0
            if call(a, b, c, 0.5) is None:
                continue
            if not (c == a + 0.5).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_needs_no_llvmlite_once_on_disk(kernels_object, tmp_path):
    (tmp_path / "object").write_bytes(kernels_object)
    code = f"""
import pathlib, sys
import numpy as np
from gizml_tile.runtime import cpu
from gizml_tile.runtime.fast_call import Call, fast_call
from gizml_tile.runtime.tensors import describe
kernel = cpu.load({LAYOUT!r}, pathlib.Path({str(tmp_path / "object")!r}).read_bytes())
a, b, c = np.ones(3, np.float32), np.ones(3, np.float32), np.zeros(3, np.float32)
infos = [describe(x) for x in (a, b, c)]
kernel(infos, [2.0], (1,))
call = fast_call(Call(kernel, (a, b, c, 2.0), (0, 1, 2), infos, (3,), (2.0,), (1,), (2,), False))
assert call(a, b, c, 2.0)[0] is c and (c == 3).all()
print("llvmlite" in sys.modules)
"""
    environment = os.environ | {"GIZML_TILE_CACHE": str(tmp_path / "cache")}
    runs = [
        subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
        for _ in range(2)
    ]
    assert runs[1] == ("False\n" if sys.platform.startswith("linux") else runs[0])
