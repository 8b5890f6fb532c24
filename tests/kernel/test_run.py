"""The explicit API's launches: what is traced again, what is compiled again, and that nothing is stale."""

import functools
import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from dlpack_producer import Produced

import gizml_tile as tile
from gizml_tile import build

running = sys.modules["gizml_tile.running"]


@pytest.fixture
def compiled(monkeypatch):
    """The layouts that are compiled, one for each piece of code."""
    layouts = []
    real = build._emit

    def emit(program, layout, machine):
        layouts.append(layout)
        return real(program, layout, machine)

    monkeypatch.setattr(build, "_emit", emit)
    monkeypatch.setattr(build, "_known", {})
    monkeypatch.setattr(running, "_traces", type(running._traces)())
    return layouts


def vectors(size=16, count=2):
    return [np.arange(size, dtype=np.float32) + number for number in range(count)]


def scale(x, out, factor=2.0, block=8):
    def body(p):
        p.write(out, [block]).put(p.read(x, [block]).at([p.id(0)]).mul(factor), [p.id(0)])

    return tile.run(tile.cdiv(out.shape[0], block), body)


def test_other_arrays_of_the_same_kind_do_not_compile_again(compiled):
    for size in (16, 16, 5, 100):
        x, out = vectors(size)
        assert scale(x, out)[0] is out
        assert np.array_equal(out, x * 2)
    assert len(compiled) == 1


def test_captured_values_types_and_layouts_do(compiled):
    x, out = vectors()
    scale(x, out)
    for arguments in [
        (x, out, 3.0),
        (x, out, 2.0, 4),
        (x.astype(np.float16), out),
        (x[::2], out[:8]),
        (x[:8], x[4:12]),
    ]:
        before, count = arguments[0].astype(np.float32), len(compiled)
        scale(*arguments)
        assert np.array_equal(arguments[1], before * (arguments[2] if len(arguments) > 2 else 2))
        assert len(compiled) == count + 1
    assert compiled[-1].may_alias


def test_sizes_taken_as_host_numbers_are_captured(compiled):
    def fill(out):
        def body(p):
            p.write(out, [8]).put(p.full([8], float(out.shape[0])), [p.id(0)])

        tile.run(1, body)

    for size in (8, 9, 8):
        out = np.zeros(size, np.float32)
        fill(out)
        assert out[0] == size
    assert len(compiled) == 2


def test_elements_read_on_the_host_are_captured():
    def fill(lengths, out):
        def body(p):
            length = int(lengths[0])
            p.write(out, [8]).put(p.full([8], float(length)), [0])

        tile.run(1, body)

    lengths, out = np.array([3, 4]), np.zeros(8, np.float32)
    for length in (3, 5, 3):
        lengths[0] = length
        fill(lengths, out)
        assert out[0] == length


def total_of(values):
    return float(sum(value for value in values))


@pytest.mark.parametrize("size", [4, 1 << 17])
def test_tables_that_a_helper_looks_into(size):
    """Small ones are compared by content; with large ones the body is traced each time."""
    table, out = np.zeros(size, np.int8), np.zeros(8, np.float32)

    def body(p):
        p.write(out, [8]).put(p.full([8], total_of(table[:4])), [0])

    for value in (1, 2, 1):
        table[0] = value
        tile.run(1, body)
        assert out[0] == value


def test_tensors_made_in_the_body_are_traced_each_time_and_compiled_once(compiled):
    x, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(8, np.float32)

    def make(row):
        def body(p):
            p.write(out, [8]).put(p.read(x.reshape(-1)[8 * row :], [8]).at([0]), [0])

        return body

    for row in (0, 3, 3, 7, 0):
        tile.run(1, make(row))
        assert np.array_equal(out, x[row])
    assert len(compiled) == 1


def test_views_and_containers_of_tensors(compiled):
    class Weights:
        def __init__(self, *parts):
            self.parts = list(parts)
            self.named = {"first": parts[0]}

        def body(self, p):
            first, second = self.named["first"], self.parts[1]
            p.write(second, [4, 8]).put(p.read(first.T, [4, 8]).at([0, 0]).add(1), [0, 0])

    for start in range(3):
        first = np.arange(32, dtype=np.float32).reshape(8, 4) + start
        second = np.zeros((4, 8), np.float32)
        tile.run(1, Weights(first, second).body)
        assert np.array_equal(second, first.T + 1)


def test_which_arrays_are_the_same_counts():
    def add(x, y, out):
        def body(p):
            left, right = p.read(x, [8]).at([0]), p.read(y, [8]).at([0])
            p.write(out, [8]).put(left.add(right), [0])

        tile.run(1, body)

    x, y, out = vectors(8, 3)
    add(x, x, out)
    assert np.array_equal(out, x + x)
    add(x, y, out)
    assert np.array_equal(out, x + y)
    add(out, y, out)
    assert np.array_equal(out, x + y + y)


def test_partials_defaults_and_callable_objects():
    def plain(p, x, out, factor=2.0):
        p.write(out, [8]).put(p.read(x, [8]).at([0]).mul(factor), [0])

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, p):
            plain(p, x, out, self.factor)

    x, out = vectors(8)
    for factor in (2.0, 3.0):
        for body in (
            functools.partial(plain, x=x, out=out, factor=factor),
            lambda p, x=x, factor=factor: plain(p, x, out, factor),
            Scale(factor),
        ):
            out[:] = 0
            tile.run(1, body)
            assert np.array_equal(out, x * factor)


def test_an_error_in_a_trace_leaves_everything_as_it_was():
    x, out = vectors(8)
    before = out.copy()
    wrong = True

    def body(p):
        Out = p.write(out, [8])
        Out.put(p.read(x, [8]).at([0]), [0])
        if wrong:
            Out.put(p.zeros([4, 8]), [0])

    with pytest.raises(tile.TileError):
        tile.run(1, body)
    assert np.array_equal(out, before)
    wrong = False
    tile.run(1, body)
    assert np.array_equal(out, x)


def test_a_captured_output_must_be_writable():
    x, out = vectors(8)
    out.flags.writeable = False
    with pytest.raises(
        tile.TileError, match="a captured tensor of body cannot be written: the array is read-only"
    ):
        scale(x, out)


def test_kernels_that_capture_tensors():
    weights = np.arange(8, dtype=np.float32)

    @tile.kernel(grid=1)
    def body(p, x, out):
        p.write(out, [8])[0] = p.read(x, [8])[0] * p.read(weights, [8])[0]

    x, out = vectors(8)
    for weights in [vectors(8)[0] + number for number in range(3)]:
        for _ in range(3):
            body(x, out)
            assert np.array_equal(out, x * weights)
    assert body.cache_info().misses == 1


class Device:
    """A tensor that claims to be on a GPU."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.ctypes.data, False),
            "version": 3,
        }


def test_tensors_on_other_devices(cuda):
    @tile.kernel(grid=1)
    def copy(p, x, out):
        p.write(out, [8])[0] = p.read(x, [8])[0]

    x, out = vectors(8)
    with pytest.raises(tile.TileError) as caught:
        copy(x, Device(out))
    assert caught.value.message == (
        "copy: argument 'x' is on cpu and argument 'out' on cuda:0; all tensors of a launch are on one "
        "device, so move one of them"
    )
    assert caught.value.filename == __file__


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_tensors_of_any_library(dtype):
    @tile.kernel(grid=lambda out: tile.cdiv(out.array.shape[0], 8))
    def copy(p, x, out):
        p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]

    x, out = np.arange(20).astype(dtype), np.zeros(20, dtype)
    for _ in range(3):
        given = Produced(out)
        assert copy(Produced(x), given)[0] is given
        assert np.array_equal(out, x)
        out[:] = 0
    copy(x, Produced(out[::-1]))
    assert np.array_equal(out[::-1], x)


def test_tensors_of_a_launch_are_not_kept(tmp_path, monkeypatch):
    """Neither a trace nor code keeps the arrays of the launch that made it, also not those from the disk."""
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path))

    def make():
        @tile.kernel(grid=1)
        def double(p, x, out):
            p.write(out, [8])[0] = p.read(x, [8])[0] * 2

        return double

    for _ in range(2):
        kernel = make()
        monkeypatch.setattr(running, "_traces", type(running._traces)())
        for launch in (kernel, kernel, kernel, scale, scale):
            x, out = vectors(8)
            launch(x, out)
            gone = weakref.ref(x), weakref.ref(out)
            del x, out
            gc.collect()
            assert [each() for each in gone] == [None, None]
