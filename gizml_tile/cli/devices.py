"""``gizml-tile devices``: the CPU and the GPUs that are here, and what is missing to use others."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial

from gizml_tile.cli import output
from gizml_tile.cli.reports import Cpu, Devices, Gpu, Missing
from gizml_tile.errors import TileError
from gizml_tile.runtime.cuda import assembler
from gizml_tile.runtime.host import host

_HEADS = ("device", "name", "arch", "units", "memory", "driver")
_RIGHT = (3, 4)
# A GPU's name, architecture, multiprocessors and bytes of memory.
_Facts = tuple[str, str, int, int | None]


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    output.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command."""
    report = inventory()
    if options.json:
        output.put_json(report)
        return 0
    rows = [] if report.cpu is None else [_cpu_row(report.cpu)]
    rows += [_gpu_row(gpu) for gpu in report.gpus]
    output.table(_HEADS, rows, _RIGHT)
    output.gap()
    if report.cpu is not None:
        threads = "1 thread" if report.cpu.threads == 1 else f"{report.cpu.threads} threads"
        used = f"{threads} of {report.cpu.vector_bits}-bit vectors"
        output.lines([(f"cpu: {used}, with {' '.join(report.cpu.features)}", "")])
    if any(gpu.device.startswith("cuda") for gpu in report.gpus):
        assembles = (
            report.assembler or "the driver (pip install nvidia-cuda-nvcc for ptxas, whose code is kept)"
        )
        output.lines([(f"cuda: GPU code is assembled by {assembles}", "")])
    output.lines([(f"{gpu.device}: {gpu.problem}", "yellow") for gpu in report.gpus if gpu.problem])
    output.lines([(f"{each.kind}: {each.problem}", "dim") for each in report.missing])
    return 0


def name_of(device: str) -> str:
    """What a device calls itself. Raises TileError where there is none."""
    kind, _, number = device.partition(":")
    return _cpu_name() if kind == "cpu" else _FACTS[kind](int(number))[0]


def inventory() -> Devices:
    """What is here; what fails is told and raised nowhere."""
    missing: list[Missing] = []
    cpus, gpus = [], []
    for kind, find in _KINDS.items():
        try:
            found = list(find())
        except TileError as error:
            missing.append(Missing(kind, error.message))
            continue
        except Exception as error:  # bindings and drivers raise many kinds
            missing.append(Missing(kind, f"{type(error).__name__}: {error}"))
            continue
        cpus += [each for each in found if isinstance(each, Cpu)]
        gpus += [each for each in found if isinstance(each, Gpu)]
    path = assembler.path()
    return Devices(next(iter(cpus), None), tuple(gpus), tuple(missing), None if path is None else str(path))


def _cpu() -> Iterator[Cpu]:
    found = host()
    features = [*found.features, *["avx512bf16"] * found.bf16_dot, *["amx"] * found.amx]
    caches = found.l1_bytes, found.l2_bytes, found.l3_bytes
    memory = _memory()
    yield Cpu(_cpu_name(), found.cpu_base, tuple(features), found.vector_bits, found.threads, caches, memory)


def _cuda() -> Iterator[Gpu]:
    from gizml_tile.runtime.cuda import driver

    for number in range(int(driver.call("cuDeviceGetCount", doing="cuda"))):
        version = _version(partial(driver.call, "cuDriverGetVersion", doing="cuda"))
        told = f"CUDA {version // 1000}.{version % 1000 // 10}" if version else ""
        yield _usable(f"cuda:{number}", told, partial(_cuda_facts, number))


def _cuda_facts(number: int) -> _Facts:
    from gizml_tile.runtime.cuda.devices import device

    found = device(number)
    return found.name, found.arch, found.processors, found.memory_bytes


def _hip() -> Iterator[Gpu]:
    from gizml_tile.runtime.hip import driver

    for number in range(int(driver.call("hipGetDeviceCount", doing="hip"))):
        # HIP_VERSION is major * 10^7 + minor * 10^5 + patch.
        version = _version(partial(driver.call, "hipRuntimeGetVersion", doing="hip"))
        told = f"HIP {version // 10**7}.{version // 10**5 % 100}" if version else ""
        yield _usable(f"hip:{number}", told, partial(_hip_facts, number))


def _hip_facts(number: int) -> _Facts:
    from gizml_tile.runtime.hip.devices import device, properties

    found = device(number)
    return found.name, found.arch, found.units, int(properties(number).totalGlobalMem)


def _metal() -> Iterator[Gpu]:
    if sys.platform != "darwin":
        raise TileError("Apple's GPUs need macOS on an Apple M1 or later")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise TileError(
            "launches on Apple's GPUs go through PyTorch 2.7 or later: pip install torch"
        ) from None
    from gizml_tile.runtime.metal.shaders import compiler

    compiler()
    yield _usable("metal:0", f"PyTorch {torch.__version__}", partial(_metal_facts, 0))


def _metal_facts(number: int) -> _Facts:
    from gizml_tile.runtime.metal.devices import device

    found = device(number)
    return found.name, found.arch, 0, _memory()


_KINDS: dict[str, Callable[[], Iterator[Cpu | Gpu]]] = {
    "cpu": _cpu,
    "cuda": _cuda,
    "hip": _hip,
    "metal": _metal,
}


_FACTS: dict[str, Callable[[int], _Facts]] = {"cuda": _cuda_facts, "hip": _hip_facts, "metal": _metal_facts}


def _version(ask: Callable[[], int]) -> int:
    """A driver's version; 0 where it does not say."""
    try:
        return int(ask())
    except Exception:  # bindings raise many kinds for functions that a driver lacks
        return 0


def _usable(name: str, driver: str, facts: Callable[[], _Facts]) -> Gpu:
    """A GPU that the driver tells of, with the reason where launches cannot use it."""
    try:
        return Gpu(name, *facts(), driver, "")
    except TileError as error:
        return Gpu(name, "", "", 0, None, driver, error.message)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _cpu_row(cpu: Cpu) -> tuple[str, ...]:
    return "cpu", cpu.name, cpu.arch, str(cpu.threads), size(cpu.memory_bytes), ""


def _gpu_row(gpu: Gpu) -> tuple[str, ...]:
    units = str(gpu.units) if gpu.units else ""
    return gpu.device, gpu.name, gpu.arch, units, size(gpu.memory_bytes), gpu.driver


def size(count: int | None) -> str:
    """Bytes in the unit that suits them, such as ``1.5 GiB``; nothing where they are not known."""
    if count is None:
        return ""
    unit = next((each for each in _UNITS if count >= each[1]), _UNITS[-1])
    return f"{count} {unit[0]}" if unit[1] == 1 else f"{count / unit[1]:.1f} {unit[0]}"


_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
