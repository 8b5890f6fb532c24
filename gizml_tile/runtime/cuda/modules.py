"""Loading a kernel onto a device, with what the driver says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import TileError, here
from ..loading import require_room
from . import driver
from .artifact import Artifact
from .assembler import Report, report_of
from .devices import Device, current

_LOG_BYTES = 1 << 14
# What a driver answers to machine code that is newer than itself; it may still take the PTX.
_FOREIGN = (driver.INVALID_IMAGE, driver.NO_BINARY, driver.UNSUPPORTED_PTX)
# More workgroup memory than this must be asked for.
_PLAIN_WORKGROUP_MEMORY = 48 << 10
_PORTABLE_CLUSTER = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel on one device: the driver's function, and the most workgroups of a persistent launch."""

    device: Device
    module: Any
    function: Any
    report: Report
    resident: int


def load(artifact: Artifact, code: bytes, known: Report, device: Device) -> Loaded:
    """A kernel loaded onto a device, from machine code where there is some that the driver takes.

    Raises TileError where the device lacks what the kernel needs, or the driver cannot assemble it.
    """
    what = f"kernel {artifact.entry}"
    require_room(what, artifact, device, device.name)
    with current(device), driver.relaxed(what):
        module, log = _module(artifact, code, what)
        function = driver.call("cuModuleGetFunction", module, artifact.entry.encode(), doing=what)
        report = report_of(log) if log else known
        _require_threads(artifact, function, device, what)
        _reserve(artifact, function, what)
        resident = _resident(artifact, function, device, what)
    return Loaded(device, module, function, report, resident)


def _module(artifact: Artifact, code: bytes, what: str) -> tuple[Any, str]:
    """A module and the assembler's log, which is empty for machine code."""
    if code:
        status, module = driver.attempt("cuModuleLoadDataEx", code, 0, [], [])
        if status == 0:
            return module, ""
        if status not in _FOREIGN:
            raise _unloaded(status, what, "")
    information, errors = bytes(_LOG_BYTES), bytes(_LOG_BYTES)
    options = {
        "CU_JIT_INFO_LOG_BUFFER": information,
        "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES": _LOG_BYTES,
        "CU_JIT_ERROR_LOG_BUFFER": errors,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": _LOG_BYTES,
        "CU_JIT_LOG_VERBOSE": 1,
        "CU_JIT_GENERATE_LINE_INFO": 1,
    }
    names = [driver.constant("CUjit_option", name) for name in options]
    status, module = driver.attempt(
        "cuModuleLoadDataEx",
        artifact.text.encode() + b"\0",
        len(names),
        names,
        list(options.values()),
    )
    if status:
        raise _unloaded(status, what, _text(errors))
    return module, _text(information) or " "


def _text(log: bytes) -> str:
    return log.split(b"\0")[0].decode(errors="replace")


def _unloaded(status: int, what: str, log: str) -> TileError:
    if driver.is_capture(status):
        return TileError(
            f"{what} must be loaded, which this capture of a graph does not allow; launch it once before "
            "the capture",
            here(),
        )
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    if lines and status != driver.UNSUPPORTED_PTX:
        return TileError(f"{what}: the CUDA driver cannot assemble its code: {lines[0]}", here())
    return driver.refused(status, f"{what} cannot be loaded")


def _require_threads(artifact: Artifact, function: Any, device: Device, what: str) -> None:
    """Raise TileError where the kernel's registers leave room for fewer threads than it has."""
    most = _attribute(function, "MAX_THREADS_PER_BLOCK", what)
    if artifact.threads > most:
        registers = _attribute(function, "NUM_REGS", what)
        raise TileError(
            f"{what} has {artifact.threads} threads of {registers} registers, and {device.name} has "
            f"registers for {most}; use smaller blocks or fewer warps",
            here(),
        )


def _attribute(function: Any, name: str, what: str) -> int:
    kind = driver.constant("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{name}")
    return int(driver.call("cuFuncGetAttribute", kind, function, doing=what))


def _reserve(artifact: Artifact, function: Any, what: str) -> None:
    """Ask for more workgroup memory and larger clusters than every device gives unasked."""
    wanted = {}
    if artifact.workgroup_memory > _PLAIN_WORKGROUP_MEMORY:
        wanted["MAX_DYNAMIC_SHARED_SIZE_BYTES"] = artifact.workgroup_memory
    if artifact.cluster > _PORTABLE_CLUSTER:
        wanted["NON_PORTABLE_CLUSTER_SIZE_ALLOWED"] = 1
    for name, value in wanted.items():
        kind = driver.constant("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{name}")
        driver.call("cuFuncSetAttribute", function, kind, value, doing=what)


def _resident(artifact: Artifact, function: Any, device: Device, what: str) -> int:
    """The most workgroups of a persistent launch: whole clusters, of which some fit nowhere."""
    most = device.processors * artifact.launch.per_processor
    if artifact.launch.kind != "persistent" or artifact.cluster == 1:
        return most
    config = launch_config(artifact, most // artifact.cluster * artifact.cluster)
    clusters = int(driver.call("cuOccupancyMaxActiveClusters", function, config, doing=what))
    return min(most // artifact.cluster, max(1, clusters)) * artifact.cluster


def launch_config(artifact: Artifact, workgroups: int, stream: int = 0) -> Any:
    """The driver's description of a launch of so many workgroups."""
    api = driver.bindings()
    config = api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = workgroups, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = artifact.threads, 1, 1
    config.sharedMemBytes = artifact.workgroup_memory
    config.hStream = stream
    attributes = []
    if artifact.cluster > 1:
        attribute = api.CUlaunchAttribute()
        attribute.id = driver.constant("CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION")
        sides = attribute.value.clusterDim
        sides.x, sides.y, sides.z = artifact.cluster, 1, 1
        attributes.append(attribute)
    if artifact.overlapping:
        attribute = api.CUlaunchAttribute()
        attribute.id = driver.constant(
            "CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
        )
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if attributes:
        config.attrs, config.numAttrs = attributes, len(attributes)
    return config
