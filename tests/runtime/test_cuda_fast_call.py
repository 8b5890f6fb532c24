"""Repeated launches on a GPU, made natively: here on PyTorch's CPU tensors, with a driver that only notes."""

from __future__ import annotations

import dataclasses
import gc
import os
import struct
import sys
import threading
import weakref

import pytest
import torch

from gizml_tile.runtime.cuda import fast_call as module
from gizml_tile.runtime.cuda.artifact import Artifact, LaunchShape, MapDimension, MapSpec
from gizml_tile.runtime.cuda.fast_call import fast_call
from gizml_tile.runtime.cuda.kernel import CudaKernel
from gizml_tile.runtime.fast_call import Call
from gizml_tile.runtime.objects import ABSENT
from gizml_tile.runtime.parameters import Parameter
from gizml_tile.runtime.tensors import describe

PARAMETERS = (
    Parameter("pointer", 2),
    Parameter("pointer", 0),
    Parameter("size", 0, 1),
    Parameter("scalar", 0),
    Parameter("scalar", 1, 0, "f32"),
    Parameter("tensor_map", 0),
    Parameter("grid", 0, 1),
    Parameter("pointer", 2),
)
MAPS = (MapSpec(1, (MapDimension(1, 32), MapDimension(0, 16))),)
SIZES = [8, 8, 8, 8, 4, 128, 8, 8]
ARTIFACT = Artifact("", "k", "sm_90a", 128, 1000, 2, PARAMETERS, MAPS)


def tensors(count=3):
    return [torch.zeros(64, 32) for _ in range(count)]


def call_of(cuda, artifact=ARTIFACT, given=None, rest=(5, 1.5), **changes):
    given = given or tensors()
    cuda.sizes = SIZES if artifact is ARTIFACT else [8] * len(artifact.parameters)
    plain = Call(
        kernel=CudaKernel(artifact),
        arguments=(*given, *rest),
        tensors=list(range(len(given))),
        infos=[describe(each) for each in given],
        scalars=list(range(len(given), len(given) + len(rest))),
        values=list(rest),
        grid=(3, 5),
        written=(2,),
        may_alias=False,
        free_scalars=True,
    )
    return dataclasses.replace(plain, **changes)


def words(launch):
    return tuple(int.from_bytes(each[:8], "little") for each in launch.parameters)


def test_parameters_byte_by_byte(cuda):
    repeat = fast_call(call_of(cuda))
    a, b, c = tensors()
    assert repeat(a, b, c, -7, 0.1) == (c,)
    (launch,) = cuda.launches
    tensor_map = struct.pack("<Q", b.data_ptr()) + bytes(range(120))
    assert launch.parameters == (
        struct.pack("<Q", c.data_ptr()),
        struct.pack("<Q", a.data_ptr()),
        struct.pack("<q", 32),
        struct.pack("<q", -7),
        struct.pack("<f", 0.1),
        tensor_map,
        struct.pack("<q", 5),
        struct.pack("<Q", c.data_ptr()),
    )
    assert launch.addresses[5] % 64 == 0
    assert (launch.grid, launch.block, launch.memory) == ((30, 1, 1), (128, 1, 1), 1000)
    assert (launch.cluster, launch.stream, launch.context) == (2, 0, 0x1000)
    assert launch.function == 0x30100


def test_a_launch_is_the_same_as_the_slow_one(cuda):
    call = call_of(cuda)
    fast_call(call)(*call.arguments)
    call.kernel(call.infos, call.values, call.grid, stream=0)
    fast, slow = cuda.launches
    assert (fast.parameters, fast.grid, fast.block) == (slow.parameters, slow.grid, slow.block)
    assert (fast.memory, fast.cluster, fast.function) == (slow.memory, slow.cluster, slow.function)


@pytest.mark.parametrize("cluster", [1, 2])
def test_attributes_of_a_launch(cuda, cluster):
    artifact = dataclasses.replace(ARTIFACT, cluster=cluster)
    call = call_of(cuda, artifact)
    cuda.sizes = SIZES
    fast_call(call)(*call.arguments)
    call.kernel(call.infos, call.values, call.grid, stream=0)
    assert [each.cluster for each in cuda.launches] == [cluster] * 2


def test_a_stream_that_is_given(cuda):
    call = call_of(cuda)
    repeat = fast_call(call)
    assert repeat(*call.arguments, stream=1 << 40) == (call.arguments[2],)
    assert cuda.launches[0].stream == 1 << 40
    for wrong in (True, "s", 1.5, 1 << 70):
        assert repeat(*call.arguments, stream=wrong) is None
    assert len(cuda.launches) == 1


def test_persistent_launches(cuda):
    artifact = dataclasses.replace(ARTIFACT, launch=LaunchShape("persistent", 1), maps=(), parameters=())
    call = call_of(cuda, artifact, grid=(5000,))
    fast_call(call)(*call.arguments)
    assert cuda.launches[0].grid == (120, 1, 1)


def different():
    plain = tensors()
    a, b, c = plain
    return {
        "count": (a, b, c, 5),
        "another type of number": (a, b, c, True, 1.5),
        "a float for an integer": (a, b, c, 5.0, 1.5),
        "a number too large": (a, b, c, 1 << 70, 1.5),
        "a list": (a, b, [1], 5, 1.5),
        "None": (a, None, c, 5, 1.5),
        "a NumPy array": (a.numpy(), b, c, 5, 1.5),
        "a parameter": (torch.nn.Parameter(a), b, c, 5, 1.5),
        "dtype": (a.double(), b, c, 5, 1.5),
        "dtype of the same size": (a.int(), b, c, 5, 1.5),
        "rank": (a.reshape(2, 32, 32), b, c, 5, 1.5),
        "size": (a[:32], b, c, 5, 1.5),
        "strides": (torch.zeros(32, 64).t(), b, c, 5, 1.5),
        "alignment": (torch.zeros(64 * 32 + 1)[1:].view(64, 32), b, c, 5, 1.5),
        "device": (a.to("meta"), b, c, 5, 1.5),
        "requires grad": (a, b, c.clone().requires_grad_(), 5, 1.5),
        "sparse": (a.to_sparse(), b, c, 5, 1.5),
        "memory that meets": (a, c, c, 5, 1.5),
    }


@pytest.mark.parametrize("name", list(different()))
def test_calls_that_are_different(cuda, name):
    repeat = fast_call(call_of(cuda))
    assert repeat(*different()[name]) is None
    assert not cuda.launches
    a, b, c = tensors()
    assert repeat(a, b, c, 5, 1.5) == (c,)


def test_parameters_of_a_module_are_tensors(cuda):
    given = [torch.nn.Parameter(torch.zeros(64, 32)), *tensors(2)]
    repeat = fast_call(call_of(cuda, given=given))
    assert repeat(*given, 5, 1.5) == (given[2],)
    assert repeat(given[0].data, *given[1:], 5, 1.5) is None


@pytest.fixture(params=[0, 1, 3], ids=["first", "middle", "last"])
def with_unused(cuda, request):
    """Makes the repeat with a tensor that the program has no use for, and puts another there."""
    at = request.param

    def put(given, unused, rest=(5, 1.5)):
        return (*given[:at], unused, *given[at:], *rest)

    def repeat_with(unused):
        given = tensors()
        call = call_of(
            cuda,
            given=given,
            arguments=put(given, unused),
            tensors=[*(number + (number >= at) for number in range(3)), at],
            infos=[describe(each) for each in (*given, unused)],
            scalars=[4, 5],
            unused=1,
        )
        return fast_call(call)

    return repeat_with, put


def test_a_tensor_without_use_is_placed_nowhere(cuda, with_unused):
    repeat_with, put = with_unused
    unused = torch.zeros(3, 4, dtype=torch.int16)
    gone = weakref.ref(unused)
    repeat = repeat_with(unused)
    del unused
    gc.collect()
    assert gone() is None
    a, b, c = tensors()
    assert repeat(*put((a, b, c), torch.ones(3, 4, dtype=torch.int16), (9, 1.5))) == (c,)
    (launch,) = cuda.launches
    expected = c.data_ptr(), a.data_ptr(), 32, 9, b.data_ptr(), 5, c.data_ptr()
    assert (*words(launch)[:4], *words(launch)[5:]) == expected


def test_a_tensor_without_use_may_lie_anywhere(cuda, with_unused):
    repeat_with, put = with_unused
    repeat = repeat_with(torch.zeros(3, 4))
    a, b, c = tensors()
    for unused in (c.view(-1)[:12].view(3, 4), torch.zeros(13)[1:].view(3, 4)):
        assert repeat(*put((a, b, c), unused)) == (c,)
    assert len(cuda.launches) == 2


def other_tensors():
    return {
        "shape": torch.zeros(4, 3),
        "rank": torch.zeros(12),
        "strides": torch.zeros(4, 3).t(),
        "dtype": torch.zeros(3, 4, dtype=torch.int32),
        "type that no launch takes": torch.zeros(3, 4, dtype=torch.complex64),
        "type of other kernels": torch.zeros(3, 4, dtype=torch.float64),
        "parameter": torch.nn.Parameter(torch.zeros(3, 4)),
        "device": torch.zeros(3, 4, device="meta"),
        "sparse": torch.zeros(3, 4).to_sparse(),
        "NumPy array": torch.zeros(3, 4).numpy(),
        "unaligned": torch.frombuffer(bytearray(64), dtype=torch.float32, count=12, offset=1).view(3, 4),
        "None": None,
    }


@pytest.mark.parametrize("name", list(other_tensors()))
def test_another_tensor_without_use_launches_nothing(cuda, with_unused, name):
    repeat_with, put = with_unused
    repeat = repeat_with(torch.zeros(3, 4))
    assert repeat(*put(tensors(), other_tensors()[name])) is None
    assert not cuda.launches


def test_a_lazily_negated_tensor_without_use(cuda, with_unused):
    repeat_with, put = with_unused
    whole = torch.zeros(3, 4, dtype=torch.complex64)
    repeat = repeat_with(whole.imag)
    assert repeat(*put(tensors(), whole.conj().imag)) is None
    assert repeat(*put(tensors(), whole.imag)) is not None


def test_a_tensor_without_use_on_another_device(with_unused, monkeypatch):
    repeat_with, _ = with_unused
    devices = iter(range(10))
    monkeypatch.setattr(module, "_device", lambda seen: next(devices))
    assert repeat_with(torch.zeros(3, 4)) is None


def test_lazily_negated_views(cuda):
    whole = torch.zeros(64, 32, dtype=torch.complex64)
    given = [whole.imag, *tensors(2)]
    repeat = fast_call(call_of(cuda, given=given))
    negated = whole.conj().imag
    assert negated.is_neg() and negated.stride() == given[0].stride()
    assert repeat(negated, *given[1:], 5, 1.5) is None
    assert repeat(whole.imag, *given[1:], 5, 1.5) == (given[2],)


@pytest.mark.parametrize("shift", [1, 2, 4])
def test_alignment_must_be_the_same(cuda, shift):
    def shifted(by):
        return torch.zeros(64 * 32 + 8)[by : by + 64 * 32].view(64, 32)

    artifact = dataclasses.replace(ARTIFACT, maps=(), parameters=(Parameter("pointer", 0),))
    repeat = fast_call(call_of(cuda, artifact, [shifted(shift), *tensors(2)]))
    a, b, c = tensors()
    for other in (1, 2, 3, 4, 5, 8):
        # In steps of 4 bytes: 1, 3 and 5 fit 4-byte accesses alone, 2 fits 8, 4 and 8 fit 16.
        same = min(other & -other, 4) == shift
        assert (repeat(shifted(other), b, c, 5, 1.5) is not None) == same
    assert (repeat(a, b, c, 5, 1.5) is not None) == (shift == 4)


def test_minus_one_is_a_number(cuda):
    repeat = fast_call(call_of(cuda))
    a, b, c = tensors()
    assert repeat(a, b, c, -1, -1.0) == (c,)
    (launch,) = cuda.launches
    assert launch.parameters[3] == struct.pack("<q", -1)
    assert launch.parameters[4] == struct.pack("<f", -1.0)


def test_numbers_that_must_be_the_same(cuda):
    call = call_of(cuda, free_scalars=False)
    repeat = fast_call(call)
    *given, _, _ = call.arguments
    assert repeat(*given, 6, 1.5) is None and repeat(*given, 5, 2.5) is None
    assert repeat(*given, 5, 1.5) is not None


def test_what_a_launch_rests_on(cuda):
    names = {"one": 1}
    entries = [(names, "one", names["one"]), (names, "two", ABSENT)]
    call = call_of(cuda, entries=entries)
    repeat = fast_call(call)
    assert repeat(*call.arguments)
    names["two"] = 2
    assert repeat(*call.arguments) is None
    del names["two"]
    names["one"] = 3
    assert repeat(*call.arguments) is None


def test_a_failed_launch_is_left_to_the_slow_way(cuda):
    call = call_of(cuda)
    repeat = fast_call(call)
    cuda.launch_status = 700
    assert repeat(*call.arguments) is None
    assert cuda.stack == []


def test_the_context_before_is_put_back(cuda):
    call = call_of(cuda)
    repeat = fast_call(call)
    cuda.stack.append(0x1001)
    cuda.calls.clear()
    repeat(*call.arguments)
    assert cuda.launches[0].context == 0x1000 and cuda.stack == [0x1001]
    cuda.stack[:] = [0x1000]
    repeat(*call.arguments)
    assert len(cuda.called("cuCtxPushCurrent")) == 1


def test_tensors_are_not_kept(cuda):
    call = call_of(cuda)
    kept = [weakref.ref(each) for each in call.arguments[:3]]
    repeat = fast_call(call)
    del call
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    a, b, c = tensors()
    assert repeat(a, b, c, 5, 1.5) == (c,)
    before = sys.getrefcount(a), sys.getrefcount(c), sys.getrefcount(False), sys.getrefcount("is_neg")
    for _ in range(1000):
        repeat(a, b, c, 5, 1.5)
    after = sys.getrefcount(a), sys.getrefcount(c), sys.getrefcount(False), sys.getrefcount("is_neg")
    assert all(abs(new - old) < 20 for new, old in zip(after, before, strict=True))


@pytest.mark.parametrize("rest", [(5, [1]), (1.5, 1.5), (5, 5)])
def test_calls_that_cannot_be_repeated(cuda, rest):
    assert fast_call(call_of(cuda, rest=rest)) is None


def test_a_pytorch_without_the_functions(cuda, monkeypatch):
    monkeypatch.setattr(module, "_exchange", lambda: None)
    assert fast_call(call_of(cuda)) is None


def test_eight_threads(cuda):
    call = call_of(cuda)
    repeat = fast_call(call)
    start = threading.Barrier(8)
    failures = []

    def launch(thread):
        a, b, c = tensors()
        start.wait()
        for turn in range(200):
            if repeat(a, b, c, thread * 1000 + turn, float(thread), stream=thread) != (c,):
                failures.append((thread, turn))

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    found = sorted((words(each)[3], struct.unpack("<f", each.parameters[4])[0]) for each in cuda.launches)
    assert found == [(thread * 1000 + turn, float(thread)) for thread in range(8) for turn in range(200)]
    assert all(words(each)[3] // 1000 == each.stream for each in cuda.launches)
    # What was read together belongs together.
    assert len({(words(each)[0], words(each)[1], each.stream) for each in cuda.launches}) == 8


def test_a_fork(cuda):
    call = call_of(cuda)
    repeat = fast_call(call)
    child = os.fork()
    if not child:
        os._exit(0 if repeat(*call.arguments) is None and not cuda.launches else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert repeat(*call.arguments) is not None
