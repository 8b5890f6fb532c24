"""Launches on a real GPU: python tests/device/launch.py. Needs PyTorch and cuda-python; prints what it found.

Checks results, streams, graphs, contexts of two GPUs, bulk copies, clusters and errors with kernels written
by hand, and measures a launch's host time beside that of a bare call of the driver.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time

import checkout  # noqa: F401
import cuda.bindings.driver as bindings
import ptx
import torch

from gizml_tile.errors import TileError
from gizml_tile.runtime.cuda import assembler, devices
from gizml_tile.runtime.cuda.artifact import Artifact, LaunchShape, MapDimension, MapSpec
from gizml_tile.runtime.cuda.fast_call import fast_call
from gizml_tile.runtime.cuda.kernel import CudaKernel, assembled, restored
from gizml_tile.runtime.cuda.modules import launch_config
from gizml_tile.runtime.cuda.parameters import in_memory
from gizml_tile.runtime.fast_call import Call
from gizml_tile.runtime.parameters import Parameter, words
from gizml_tile.runtime.tensors import describe

ADD = Artifact(
    ptx.ADD,
    "add",
    "sm_90a",
    128,
    parameters=(
        *(Parameter("pointer", number) for number in range(3)),
        *(Parameter("scalar", number) for number in range(3)),
    ),
)
BULK = Artifact(
    ptx.BULK,
    "bulk",
    "sm_90a",
    128,
    64 * 32 * 4 + 8,
    parameters=(Parameter("tensor_map", 0), Parameter("tensor_map", 1)),
    maps=tuple(MapSpec(number, (MapDimension(1, 32), MapDimension(0, 64)), 0) for number in range(2)),
)
CLUSTER = Artifact(ptx.CLUSTER, "cluster", "sm_90a", 32, cluster=4, parameters=(Parameter("pointer", 0),))
failures = 0


def check(name, good, more=""):
    global failures
    failures += not good
    print(f"{'ok    ' if good else 'FAILED'} {name} {more}", flush=True)


def integers(device="cuda:0", size=1000):
    return torch.randint(-1000, 1000, (size,), dtype=torch.int32, device=device)


def grid_of(tensor):
    return (-(-tensor.numel() // 128),)


def repeated(kernel, tensors, numbers):
    """A native repeat of a launch."""
    return fast_call(
        Call(
            kernel=kernel,
            arguments=(*tensors, *numbers),
            tensors=list(range(len(tensors))),
            infos=[describe(each) for each in tensors],
            scalars=list(range(len(tensors), len(tensors) + len(numbers))),
            values=list(numbers),
            grid=grid_of(tensors[0]),
            written=(len(tensors) - 1,),
            may_alias=False,
            free_scalars=True,
        )
    )


def slow(kernel, tensors, numbers, stream=None):
    kernel([describe(each) for each in tensors], numbers, grid_of(tensors[0]), stream)


def added(a, b, factor, shift):
    return a + b * factor + shift


def results(device="cuda:0"):
    kernel = CudaKernel(ADD)
    first = [integers(device) for _ in range(3)]
    slow(kernel, first, (1000, 3, 7))
    check(f"a launch on {device}", torch.equal(first[2], added(first[0], first[1], 3, 7)))
    repeat = repeated(kernel, first, (1000, 3, 7))
    check(f"a native repeat on {device} exists", repeat is not None)
    for turn in range(3):
        a, b, c = (integers(device) for _ in range(3))
        given = repeat(a, b, c, 1000, turn, -turn)
        good = given is not None and given[0] is c and torch.equal(c, added(a, b, turn, -turn))
        check(f"native repeat {turn} on {device}", good)
    print("      ", kernel.loaded(first[0].device.index).report)


def loading():
    for label, setting in (("ptxas", ""), ("driver", "off")):
        os.environ[assembler.PTXAS_VARIABLE] = setting
        start = time.perf_counter()
        entry = assembled(ADD)
        made = time.perf_counter()
        restored(entry).loaded(0)
        done = time.perf_counter()
        print(
            f"       {label} ({assembler.path()}): assembled {1e3 * (made - start):.1f} ms, "
            f"loaded {1e3 * (done - made):.2f} ms, {len(entry.data)} bytes"
        )
    os.environ[assembler.PTXAS_VARIABLE] = ""


def delayed(stream, launch, label):
    """Whether a launch waits for what its stream does before."""
    a, b, c = (integers() for _ in range(3))
    other = integers()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        a.copy_(other)
    launch(a, b, c)
    stream.synchronize()
    check(f"order on a stream: {label}", torch.equal(c, added(other, b, 2, 1)))


def streams():
    kernel = CudaKernel(ADD)
    numbers = 1000, 2, 1
    repeat = repeated(kernel, [integers() for _ in range(3)], numbers)
    side = torch.cuda.Stream()

    def on_current(function):
        def launch(*tensors):
            with torch.cuda.stream(side):
                function(*tensors)

        return launch

    delayed(side, on_current(lambda *given: slow(kernel, given, numbers)), "current, slow")
    delayed(side, on_current(lambda *given: repeat(*given, *numbers)), "current, native")
    delayed(side, lambda *given: slow(kernel, given, numbers, stream=side), "given, slow")
    delayed(side, lambda *given: repeat(*given, *numbers, stream=side.cuda_stream), "given, native")


def graphs():
    kernel = CudaKernel(ADD)
    a, b, c = (integers() for _ in range(3))
    numbers = 1000, 2, 1
    repeat = repeated(kernel, (a, b, c), numbers)
    late = CudaKernel(dataclasses.replace(ADD, text=ADD.text + "// another\n"))
    d, e = integers(), integers()
    captures = {
        "native": lambda: repeat(a, b, c, *numbers),
        "slow": lambda: slow(kernel, (a, b, d), numbers),
        "loaded in the capture": lambda: slow(late, (a, b, e), numbers),
    }
    for (label, launch), target in zip(captures.items(), (c, d, e), strict=True):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                launch()
            for _ in range(2):
                a.copy_(integers())
                target.zero_()
                graph.replay()
                torch.cuda.synchronize()
                check(f"a graph: {label}", torch.equal(target, added(a, b, 2, 1)))
        except Exception as error:
            check(f"a graph: {label}", False, repr(error))


def two_devices():
    if torch.cuda.device_count() < 2:
        print("       one GPU: no test of two")
        return
    results("cuda:1")
    current = int(bindings.cuCtxGetCurrent()[1])
    check("the context before is current again", current == int(devices.device(0).context))
    a = integers("cuda:0")
    check("work on cuda:0 goes on", torch.equal(a + 1, a - -1))


def bulk():
    kernel = CudaKernel(BULK)
    tensors = [torch.randn(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")]
    call = Call(
        kernel, tuple(tensors), [0, 1], [describe(each) for each in tensors], [], [], (8,), (1,), False
    )
    kernel(call.infos, [], (8,))
    check("bulk copies", torch.equal(*tensors))
    repeat = fast_call(call)
    for turn in range(2):
        given = torch.randn(64, 256, device="cuda"), torch.zeros(64, 256, device="cuda")
        good = repeat is not None and repeat(*given) is not None
        check(f"bulk copies of other tensors, native {turn}", good and torch.equal(*given))


def clusters():
    for launch in (LaunchShape(), LaunchShape("persistent", 1)):
        kernel = CudaKernel(dataclasses.replace(CLUSTER, launch=launch))
        found = torch.full((1000, 2), -1, dtype=torch.int32, device="cuda")
        kernel([describe(found)], [], (250,))
        count = kernel.workgroups((250,), 0)
        wanted = torch.tensor([[number % 4, 4] for number in range(count)], dtype=torch.int32)
        check(f"clusters of 4, {launch.kind}: {count} workgroups", torch.equal(found[:count].cpu(), wanted))


def errors():
    cases = {
        "bytes of workgroup memory": dataclasses.replace(ADD, workgroup_memory=300_000),
        "cannot assemble its code": dataclasses.replace(ADD, text=ADD.text.replace("mad.lo.u32", "made.u32")),
        "threads": dataclasses.replace(ADD, threads=2048),
    }
    for part, artifact in cases.items():
        try:
            slow(CudaKernel(artifact), [integers() for _ in range(3)], (1000, 1, 1))
            check(f"an error that says {part}", False)
        except TileError as error:
            check(f"an error that says {part}", part in str(error), str(error).splitlines()[0])


def best(function, turns=400, rounds=60):
    """The least host time of a call in nanoseconds, with the GPU's queue empty before each round."""
    least = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(turns):
            function()
        least = min(least, (time.perf_counter() - start) / turns)
    torch.cuda.synchronize()
    return least * 1e9


def host_time():
    kernel = CudaKernel(ADD)
    a, b, c = (integers(size=256) for _ in range(3))
    numbers = 256, 2, 1
    infos = [describe(each) for each in (a, b, c)]
    repeat = repeated(kernel, (a, b, c), numbers)
    function = kernel.loaded(0).function
    config = launch_config(ADD, 2)
    memory, addresses = in_memory(ADD.parameters, words(ADD.parameters, infos, numbers, (2,)), [])
    launch = bindings.cuLaunchKernelEx
    empty = best(lambda: None)
    figures = {
        "bare cuLaunchKernelEx, nothing checked": lambda: launch(config, function, addresses, 0),
        "native repeat, three tensors and three ints": lambda: repeat(a, b, c, 256, 2, 1),
        "the executable": lambda: kernel(infos, numbers, (2,)),
        "torch.add_": lambda: c.add_(1),
    }
    times = {label: best(function) - empty for label, function in figures.items()}
    bare = next(iter(times.values()))
    for label, nanoseconds in times.items():
        print(f"       {nanoseconds:7.0f} ns  {nanoseconds / bare:5.2f}  {label}")
    del memory


if __name__ == "__main__":
    print(devices.device(0).key, "torch", torch.__version__)
    torch.zeros(1, device="cuda")
    for step in (results, loading, streams, graphs, two_devices, bulk, clusters, errors, host_time):
        step()
    print("all good" if not failures else f"{failures} failed")
    sys.exit(bool(failures))
