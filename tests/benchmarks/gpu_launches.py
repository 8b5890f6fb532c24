"""The host's time of a launch of three tensors and three ints, with nothing for the GPU to do before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import gpu_kernels
import torch
from gpu_timing import Line

SIZE, TURNS = 256, 400


def best(function: Callable[[], object], rounds: int) -> float:
    """The least seconds of a call in many rounds, each begun with an empty queue."""
    least = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(TURNS):
            function()
        least = min(least, (time.perf_counter() - start) / TURNS)
    torch.cuda.synchronize()
    return least


def bare(tensors: list[torch.Tensor]) -> Callable[[], object]:
    """The driver's call alone for a kernel of as many parameters: everything prepared, nothing checked."""
    import cuda.bindings.driver as driver
    import ptx

    from gizml_tile.runtime.cuda.artifact import Artifact
    from gizml_tile.runtime.cuda.kernel import CudaKernel
    from gizml_tile.runtime.cuda.modules import launch_config
    from gizml_tile.runtime.cuda.parameters import in_memory
    from gizml_tile.runtime.parameters import Parameter, words
    from gizml_tile.runtime.tensors import describe

    parameters = [Parameter(kind, number) for kind in ("pointer", "scalar") for number in range(3)]
    artifact = Artifact(ptx.ADD, "add", "sm_90a", 128, parameters=tuple(parameters))
    packed = words(parameters, [describe(each) for each in tensors], (SIZE, 2, 1), (2,))
    memory, addresses = in_memory(parameters, packed, [])
    function, config = CudaKernel(artifact).loaded(0).function, launch_config(artifact, 2)
    launch = driver.cuLaunchKernelEx
    return lambda memory=memory: launch(config, function, addresses, 0)


def lines(quick: bool) -> Iterator[Line]:
    rounds = 10 if quick else 60
    x, y, z = (torch.randn(SIZE, device="cuda") for _ in range(3))
    integers = [torch.zeros(SIZE, dtype=torch.int32, device="cuda") for _ in range(3)]

    def repeat() -> object:
        return gpu_kernels.scaled(x, y, z, SIZE, 2, 1)

    def by_name() -> object:
        return gpu_kernels.scaled(x, y, z, SIZE, 2, 1, BLOCK=SIZE)

    def added() -> object:
        return z.add_(1)

    for _ in range(3):
        repeat()
        by_name()
    off = float((z.double() - (x.double() + y.double() * 2 + 1)).abs().max())
    if not off < 1e-5:
        raise RuntimeError(f"launch: off by {off}")
    empty = best(lambda: None, rounds)
    peers = {"bare cuLaunchKernelEx": bare(integers), "torch add_": added}
    try:
        import gpu_peers
    except ImportError:
        print("(no Triton)")
    else:
        grid, kernel = (1,), gpu_peers.scaled_kernel
        peers["Triton"] = lambda: kernel[grid](x, y, z, SIZE, 2, 1, BLOCK=SIZE)
        peers["Triton"]()
    times = {name: best(call, rounds) - empty for name, call in peers.items()}
    for name, call in (("a launch", repeat), ("a launch with constants", by_name)):
        yield Line(f"{name}, host time", 0, "us", seconds={"ours": best(call, rounds) - empty, **times})
    count = iter(range(1 << 30))
    other = best(lambda: gpu_kernels.scaled(x, y, z, SIZE, next(count) & 7, 1), max(2, rounds // 10)) - empty
    yield Line("a launch with another int each time, host time", 0, "us", seconds={"ours": other, **times})
