"""A stand-in for ``cuda.bindings.driver`` that notes every call and runs nothing."""

from __future__ import annotations

import ctypes
import threading
from itertools import pairwise
from types import SimpleNamespace

SUCCESS, OUT_OF_MEMORY, INVALID_IMAGE, INVALID_PTX, CAPTURE_UNSUPPORTED = 0, 2, 200, 218, 900
TEXTS = {
    OUT_OF_MEMORY: ("out of memory", "CUDA_ERROR_OUT_OF_MEMORY"),
    3: ("initialization error", "CUDA_ERROR_NOT_INITIALIZED"),
    INVALID_IMAGE: ("device kernel image is invalid", "CUDA_ERROR_INVALID_IMAGE"),
    INVALID_PTX: ("a PTX JIT compilation failed", "CUDA_ERROR_INVALID_PTX"),
    222: (
        "the PTX was compiled with an unsupported toolchain",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    ),
    700: ("an illegal memory access was encountered", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    CAPTURE_UNSUPPORTED: ("operation not permitted", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
}
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_THREADS_PER_BLOCK": 1024,
    "L2_CACHE_SIZE": 50 << 20,
}


class Names:
    """An enumeration: a constant is its own name."""

    def __getattr__(self, name):
        return name


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("memory", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.POINTER(ctypes.c_uint32)),
        ("count", ctypes.c_uint32),
    ]


class FakeCuda:
    """The driver. ``sizes`` are the bytes of a launch's parameters, which it cannot know by itself.

    Memory that it gives out is the host's. ``effect`` is called with each launch, and ``milliseconds`` with
    the last one tells how long it took.
    """

    cuuint64_t = cuuint32_t = int
    CUlaunchConfig = SimpleNamespace

    def __init__(self):
        self.devices = [dict(ATTRIBUTES), dict(ATTRIBUTES)]
        self.start = SUCCESS
        self.calls = []
        self.launches = []
        self.sizes = []
        self.launch_status = SUCCESS
        self.encoded = []
        self.images = []
        self.refuse = {}
        self.information = b""
        self.errors = b""
        self.most_threads, self.registers, self.clusters = 1024, 40, 60
        self.capturing = None
        self.broken_capture = False
        self.unfinished = set()
        self.owner_of_pointer = 0
        self.memory = {}
        self.pool_status = SUCCESS
        self.effect = lambda launch: None
        self.milliseconds = lambda launch: 1.0
        self._events = 0
        self._thread = threading.local()
        self._native = {}
        for name in (
            "CUdevice_attribute CUjit_option CUfunction_attribute CUpointer_attribute CUstreamCaptureMode "
            "CUlaunchAttributeID CUtensorMapDataType CUtensorMapInterleave CUtensorMapSwizzle "
            "CUtensorMapL2promotion CUtensorMapFloatOOBfill CUmemAllocationType CUmemAllocationHandleType "
            "CUmemLocationType CUmemPool_attribute"
        ).split():
            setattr(self, name, Names())
        self.CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)

    def called(self, name):
        """The arguments of every call of a function."""
        return [call[1:] for call in self.calls if call[0] == name]

    @property
    def stack(self):
        """This thread's contexts, the current one last."""
        if not hasattr(self._thread, "stack"):
            self._thread.stack, self._thread.mode = [], "CU_STREAM_CAPTURE_MODE_GLOBAL"
        return self._thread.stack

    def CUresult(self, status):
        return status

    def CUlaunchAttribute(self):
        return SimpleNamespace(id=None, value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuInit(self, flags):
        return (self.start,)

    def cuGetErrorString(self, status):
        return SUCCESS, TEXTS[status][0].encode()

    def cuGetErrorName(self, status):
        return SUCCESS, TEXTS[status][1].encode()

    def cuDriverGetVersion(self):
        return SUCCESS, 13010

    def cuDeviceGetCount(self):
        return SUCCESS, len(self.devices)

    def cuDeviceGet(self, ordinal):
        return SUCCESS, ordinal

    def cuDeviceGetName(self, length, device):
        return SUCCESS, b"Fake GPU" + bytes(length - 8)

    def cuDeviceGetAttribute(self, attribute, device):
        return SUCCESS, self.devices[device][attribute.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDeviceTotalMem(self, device):
        return SUCCESS, 1 << 37

    def cuDevicePrimaryCtxRetain(self, device):
        return SUCCESS, 0x1000 + device

    def cuCtxGetCurrent(self):
        return SUCCESS, self.stack[-1] if self.stack else 0

    def cuCtxPushCurrent(self, context):
        self.calls.append(("cuCtxPushCurrent", context))
        self.stack.append(context)
        return (SUCCESS,)

    def cuCtxPopCurrent(self):
        return SUCCESS, self.stack.pop()

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.stack
        before, self._thread.mode = self._thread.mode, mode
        return SUCCESS, before

    def _breaks_capture(self):
        """Whether a thread does what it may not, unless relaxed, while a stream is captured."""
        broken = self.capturing is not None and self._thread.mode != "CU_STREAM_CAPTURE_MODE_RELAXED"
        self.broken_capture = self.broken_capture or broken
        return broken

    def cuModuleLoadDataEx(self, image, count, options, values):
        self.calls.append(("cuModuleLoadDataEx", image, tuple(options)))
        assert len(options) == len(values) == count
        given = dict(zip(options, values, strict=True))
        for kind, content in (("INFO", self.information), ("ERROR", self.errors)):
            log = given.get(f"CU_JIT_{kind}_LOG_BUFFER")
            if log is not None and content:
                assert len(content) < given[f"CU_JIT_{kind}_LOG_BUFFER_SIZE_BYTES"] == len(log)
                ctypes.memmove(log, content, len(content))
        if self._breaks_capture():
            return CAPTURE_UNSUPPORTED, None
        for part, status in self.refuse.items():
            if part in image:
                return status, None
        self.images.append((self.stack[-1], image))
        return SUCCESS, 0x2000 + len(self.images)

    def cuModuleGetFunction(self, module, name):
        return SUCCESS, (module - 0x2000) * 0x100 + 0x30000

    def cuFuncGetAttribute(self, attribute, function):
        known = {"MAX_THREADS_PER_BLOCK": self.most_threads, "NUM_REGS": self.registers}
        return SUCCESS, known[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def cuFuncSetAttribute(self, function, attribute, value):
        self.calls.append(("cuFuncSetAttribute", attribute, value))
        return (SUCCESS,)

    def cuOccupancyMaxActiveClusters(self, function, config):
        return SUCCESS, self.clusters

    def cuPointerGetAttribute(self, attribute, pointer):
        self.calls.append(("cuPointerGetAttribute", attribute, pointer))
        return SUCCESS, self.owner_of_pointer

    def cuStreamIsCapturing(self, stream):
        return SUCCESS, int(stream == self.capturing)

    def cuEventCreate(self, flags):
        self._events += 1
        self.calls.append(("cuEventCreate", flags))
        return SUCCESS, self._events

    def cuEventRecord(self, event, stream):
        self.calls.append(("cuEventRecord", event, stream))
        return (SUCCESS,)

    def cuStreamWaitEvent(self, stream, event, flags):
        self.calls.append(("cuStreamWaitEvent", stream, event))
        return (SUCCESS,)

    def cuEventQuery(self, event):
        return (600 if event in self.unfinished else SUCCESS,)

    def cuEventDestroy(self, event):
        self.calls.append(("cuEventDestroy", event))
        return (SUCCESS,)

    def cuEventSynchronize(self, event):
        return (SUCCESS,)

    def cuEventElapsedTime(self, start, end):
        return SUCCESS, self.milliseconds(self.launches[-1])

    def cuStreamSynchronize(self, stream):
        return (SUCCESS,)

    def cuMemAlloc(self, size):
        room = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(room)] = room
        return SUCCESS, ctypes.addressof(room)

    def cuMemFree(self, address):
        del self.memory[address]
        return (SUCCESS,)

    def cuMemHostAlloc(self, size, flags):
        self.calls.append(("cuMemHostAlloc", size, flags))
        return self.cuMemAlloc(size)

    def cuMemFreeHost(self, address):
        self.calls.append(("cuMemFreeHost", address))
        return self.cuMemFree(address)

    def cuCtxSynchronize(self):
        self.calls.append(("cuCtxSynchronize", len(self.launches)))
        return (CAPTURE_UNSUPPORTED if self.capturing is not None else SUCCESS,)

    def CUmemPoolProps(self):
        return SimpleNamespace(location=SimpleNamespace())

    def cuMemPoolCreate(self, wanted):
        if self._breaks_capture():
            return CAPTURE_UNSUPPORTED, None
        self.calls.append(("cuMemPoolCreate", wanted.location.id))
        return SUCCESS, f"pool of {wanted.location.id}"

    def cuMemPoolSetAttribute(self, pool, attribute, value):
        self.calls.append(("cuMemPoolSetAttribute", pool, attribute, value))
        return (SUCCESS,)

    def cuMemAllocFromPoolAsync(self, size, pool, stream):
        if self.pool_status:
            return self.pool_status, None
        _, address = self.cuMemAlloc(size)
        self.calls.append(("cuMemAllocFromPoolAsync", size, pool, stream, address))
        return SUCCESS, address

    def cuMemFreeAsync(self, address, stream):
        self.calls.append(("cuMemFreeAsync", address, stream, len(self.launches)))
        return self.cuMemFree(address)

    def cuMemsetD8Async(self, address, value, size, stream):
        self.calls.append(("cuMemsetD8Async", address, value, size, stream))
        ctypes.memset(address, value, size)
        return (SUCCESS,)

    def cuMemcpyDtoDAsync(self, to, source, size, stream):
        self.calls.append(("cuMemcpyDtoDAsync", to, source, size, stream))
        ctypes.memmove(to, source, size)
        return (SUCCESS,)

    def cuMemcpyHtoD(self, to, source, size):
        ctypes.memmove(to, source, size)
        return (SUCCESS,)

    def cuMemcpyDtoH(self, to, source, size):
        ctypes.memmove(to, source, size)
        return (SUCCESS,)

    def cuTensorMapEncodeTiled(self, kind, rank, address, *rest):
        self.encoded.append((kind, rank, address, *rest))
        content = ctypes.create_string_buffer(address.to_bytes(8, "little") + bytes(range(120)), 128)
        return SUCCESS, SimpleNamespace(getPtr=lambda: ctypes.addressof(content), content=content)

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        attributes = [each.value for each in getattr(config, "attrs", [])]
        cluster = [each.clusterDim.x for each in attributes if hasattr(each.clusterDim, "x")]
        return (
            self._launch(
                function,
                (config.gridDimX, config.gridDimY, config.gridDimZ),
                (config.blockDimX, config.blockDimY, config.blockDimZ),
                config.sharedMemBytes,
                config.hStream,
                cluster[0] if cluster else 1,
                parameters,
            ),
        )

    def _launch(self, function, grid, block, memory, stream, cluster, parameters):
        if self.launch_status:
            return self.launch_status
        addresses = (ctypes.c_uint64 * len(self.sizes)).from_address(parameters) if self.sizes else ()
        launch = SimpleNamespace(
            function=function,
            grid=tuple(grid),
            block=tuple(block),
            memory=memory,
            stream=stream,
            cluster=cluster,
            context=self.stack[-1],
            addresses=tuple(addresses),
            parameters=tuple(
                ctypes.string_at(address, size) for address, size in zip(addresses, self.sizes, strict=True)
            ),
        )
        self.launches.append(launch)
        self.effect(launch)
        return SUCCESS

    def cuGetProcAddress(self, name, version, flags):
        """A native function that does what the one of the same name here does."""
        text = name.decode()
        if text not in self._native:
            pointer, integer = ctypes.c_void_p, ctypes.c_int
            makers = {
                "cuCtxGetCurrent": (self._native_get, (pointer,)),
                "cuCtxPushCurrent": (lambda context: self.cuCtxPushCurrent(context)[0], (pointer,)),
                "cuCtxPopCurrent": (self._native_pop, (pointer,)),
                "cuLaunchKernelEx": (self._native_launch, (pointer,) * 4),
                "cuTensorMapReplaceAddress": (self._native_replace, (pointer, ctypes.c_uint64)),
            }
            function, kinds = makers[text]
            self._native[text] = ctypes.CFUNCTYPE(integer, *kinds)(function)
        address = ctypes.cast(self._native[text], ctypes.c_void_p).value
        return SUCCESS, address, 0

    def _native_get(self, place):
        ctypes.c_uint64.from_address(place).value = self.cuCtxGetCurrent()[1]
        return SUCCESS

    def _native_pop(self, place):
        ctypes.c_uint64.from_address(place).value = self.cuCtxPopCurrent()[1]
        return SUCCESS

    def _native_launch(self, config, function, parameters, extra):
        config = LaunchConfig.from_address(config)
        cluster = 1
        for number in range(config.count):
            kind, _, value = config.attributes[18 * number : 18 * number + 3]
            assert kind == 4 and value
            cluster = value
        shape = config.grid, config.block, config.memory, config.stream
        return self._launch(function, *shape, cluster, parameters)

    def _native_replace(self, place, address):
        assert place % 64 == 0
        ctypes.c_uint64.from_address(place).value = address
        return SUCCESS


def apart(addresses, sizes):
    """Whether a launch's parameters lie one beside the other."""
    ends = sorted(zip(addresses, sizes, strict=True))
    return all(first + size <= second for (first, size), (second, _) in pairwise(ends))
