"""Launches on CUDA devices: parameters byte by byte, contexts, workgroups, modules and their errors."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
import threading

import pytest
from fake_cuda import INVALID_IMAGE, INVALID_PTX, OUT_OF_MEMORY, apart

from gizml_tile.dtypes import BF16, F32
from gizml_tile.errors import TileError
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.cuda import assembler
from gizml_tile.runtime.cuda.artifact import (
    Artifact,
    LaunchShape,
    MapDimension,
    MapSpec,
    describe,
    of_emitted,
    restore,
)
from gizml_tile.runtime.cuda.assembler import Report
from gizml_tile.runtime.cuda.kernel import CudaKernel, assembled, restored
from gizml_tile.runtime.parameters import Parameter
from gizml_tile.runtime.tensors import TensorInfo

TEXT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n"
PARAMETERS = (
    Parameter("pointer", 1),
    Parameter("size", 0, 1),
    Parameter("stride", 0, 0),
    Parameter("scalar", 0),
    Parameter("scalar", 1, 0, "f32"),
    Parameter("tensor_map", 0),
    Parameter("grid", 0, 0),
    Parameter("grid", 0, 2),
    Parameter("pointer", 0),
)
MAPS = (MapSpec(0, (MapDimension(1, 64), MapDimension(0, 128))),)
SIZES = [8, 8, 8, 8, 4, 128, 8, 8, 8]


def artifact(**changes):
    plain = Artifact(TEXT, "k", "sm_90a", 128, 1000, 1, PARAMETERS, MAPS)
    return dataclasses.replace(plain, **changes)


def info(shape=(256, 512), pointer=0x7F0000000000, device="cuda:0", dtype=BF16, owner=None):
    strides = (shape[1], 1) if len(shape) == 2 else (1,)
    return TensorInfo(dtype, shape, strides, pointer, device, "", owner)


def plain(**changes):
    """A kernel of one pointer, and the tensor that it takes."""
    return CudaKernel(artifact(parameters=(Parameter("pointer", 0),), maps=(), **changes)), [info()]


def test_parameters_byte_by_byte(cuda):
    cuda.sizes = SIZES
    kernel = CudaKernel(artifact())
    kernel([info(), info((8,), 0x7F0000001000, dtype=F32)], [-5, 0.1], (3, 4))
    (launch,) = cuda.launches
    tensor_map = (0x7F0000000000).to_bytes(8, "little") + bytes(range(120))
    assert launch.parameters == (
        struct.pack("<Q", 0x7F0000001000),
        struct.pack("<q", 512),
        struct.pack("<q", 512),
        struct.pack("<q", -5),
        struct.pack("<f", 0.1),
        tensor_map,
        struct.pack("<q", 3),
        struct.pack("<q", 1),
        struct.pack("<Q", 0x7F0000000000),
    )
    assert launch.addresses[5] % 64 == 0 and apart(launch.addresses, SIZES)
    assert all(address % 8 == 0 for address in launch.addresses)
    assert (launch.grid, launch.block, launch.memory, launch.cluster) == ((12, 1, 1), (128, 1, 1), 1000, 1)


def test_numbers_beyond_f32_round_to_infinity(cuda):
    cuda.sizes = [4]
    kernel = CudaKernel(artifact(parameters=(Parameter("scalar", 0, 0, "f32"),), maps=()))
    kernel([info()], [-1e300], (1,))
    assert cuda.launches[0].parameters == (struct.pack("<f", float("-inf")),)


def test_tensor_maps_are_encoded_as_the_driver_wants(cuda):
    split = (MapDimension(1, 64, 64), MapDimension(0, 64), MapDimension(1, 2, 64, True))
    spec = MapSpec(0, split, 32, 0)
    kernel = CudaKernel(artifact(parameters=(Parameter("tensor_map", 0),), maps=(spec,)))
    for _ in range(2):
        kernel([info()], [], (1,))
    (encoded,) = cuda.encoded
    assert encoded == (
        "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        3,
        0x7F0000000000,
        [64, 256, 8],
        [1024, 128],
        [64, 64, 2],
        [1, 1, 1],
        "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_32B",
        "CU_TENSOR_MAP_L2_PROMOTION_NONE",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    )


@pytest.mark.parametrize("rounded, kind", [(False, "FLOAT32"), (True, "TFLOAT32")])
def test_f32_that_are_rounded_on_their_way(cuda, rounded, kind):
    spec = dataclasses.replace(MAPS[0], rounded=rounded)
    kernel = CudaKernel(artifact(parameters=(Parameter("tensor_map", 0),), maps=(spec,)))
    kernel([info(dtype=F32)], [], (1,))
    assert cuda.encoded[0][0] == f"CU_TENSOR_MAP_DATA_TYPE_{kind}"


@pytest.mark.parametrize(
    "tensor, message",
    [
        (info(pointer=0x7F0000000008), "no multiple of 16 bytes"),
        (dataclasses.replace(info(), strides=(512, 2)), "step of more than one element"),
        (info((256, 511)), "no multiple of 16 from 0"),
        (dataclasses.replace(info(), strides=(-512, 1)), "no multiple of 16 from 0"),
        (info((0, 512)), "not from 1 to"),
    ],
)
def test_tensors_that_bulk_copies_cannot_take(cuda, tensor, message):
    with pytest.raises(TileError, match=message):
        CudaKernel(artifact())([tensor, info()], [1, 1.0], (1,))


def test_a_launch_puts_back_the_context_before(cuda):
    kernel, _ = plain()
    cuda.stack.append(0x1000)
    for device, pushes in (("cuda:1", True), ("cuda:0", False)):
        cuda.calls.clear()
        kernel([info(device=device)], [], (1,))
        assert cuda.launches[-1].context == (0x1001 if pushes else 0x1000)
        assert bool(cuda.called("cuCtxPushCurrent")) == pushes
        assert cuda.stack == [0x1000]
    assert [context for context, _ in cuda.images] == [0x1001, 0x1000]
    assert cuda.launches[0].function != cuda.launches[1].function


def test_a_thread_without_a_context(cuda):
    kernel, tensors = plain()
    kernel(tensors, [], (1,))
    assert cuda.launches[0].context == 0x1000 and cuda.stack == []


def test_the_context_is_put_back_after_a_failure(cuda):
    kernel, tensors = plain()
    cuda.launch_status = 700
    with pytest.raises(TileError, match=r"kernel k was not launched.*illegal memory access.*before this one"):
        kernel(tensors, [], (1,))
    assert cuda.stack == []


def test_memory_of_a_device_without_a_number(cuda):
    kernel, _ = plain()
    cuda.owner_of_pointer = 1
    kernel([info(device="cuda")], [], (1,))
    assert cuda.launches[0].context == 0x1001


def test_workgroups(cuda):
    grids = {(3, 4, 5): 60, (1 << 31) - 1: (1 << 31) - 1}
    for grid, count in grids.items():
        kernel, tensors = plain()
        kernel(tensors, [], grid if isinstance(grid, tuple) else (grid,))
        assert cuda.launches[-1].grid == (count, 1, 1)
    with pytest.raises(TileError, match=r"65536 x 32768 has 2147483648 programs.*at most 2147483647"):
        kernel(tensors, [], (65536, 32768))


def test_workgroups_in_clusters_and_of_persistent_launches(cuda):
    shape = LaunchShape("persistent", 2)
    cases = [
        ({"cluster": 2}, 7, 14),
        ({"launch": shape}, 1000, 250),
        ({"launch": shape}, 528, 264),
        ({"launch": shape}, 100, 100),
        ({"launch": shape, "cluster": 4}, 1000, 236),
        ({"launch": shape, "cluster": 4}, 3, 12),
        ({"launch": LaunchShape(together=3)}, 7, 3),
        ({"launch": LaunchShape("persistent", 2, 3)}, 3000, 250),
        ({"launch": LaunchShape(together=3, along=1)}, (4, 8), 12),
    ]
    for changes, programs, count in cases:
        kernel, tensors = plain(**changes)
        kernel(tensors, [], programs if isinstance(programs, tuple) else (programs,))
        assert cuda.launches[-1].grid == (count, 1, 1)
        assert cuda.launches[-1].cluster == changes.get("cluster", 1)


def test_more_than_every_device_gives_is_asked_for(cuda):
    kernel, tensors = plain(workgroup_memory=200_000, cluster=16)
    kernel(tensors, [], (16,))
    assert cuda.called("cuFuncSetAttribute") == [
        ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 200_000),
        ("CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1),
    ]


@pytest.mark.parametrize(
    "changes, most, message",
    [
        ({"workgroup_memory": 232449}, 1024, "232449 bytes of workgroup memory, and Fake GPU has 232448"),
        ({"threads": 1056}, 1024, "1056 threads in a workgroup, and Fake GPU takes 1024; use fewer warps"),
        ({"threads": 512}, 384, "512 threads of 40 registers, and Fake GPU has registers for 384"),
    ],
)
def test_devices_that_are_too_small(cuda, changes, most, message):
    cuda.most_threads = most
    kernel, tensors = plain(**changes)
    with pytest.raises(TileError, match=message):
        kernel(tensors, [], (1,))


def test_the_driver_assembles_text(cuda):
    cuda.information = (
        b"ptxas info    : Compiling entry function 'k'\n"
        b"ptxas info    : 0 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads\n"
        b"ptxas info    : Used 168 registers, used 1 barriers\n"
        b"ptxas info    : (C7512) Potential Performance Loss: wgmma is serialized\n"
    )
    kernel, tensors = plain()
    kernel(tensors, [], (1,))
    ((image, options),) = cuda.called("cuModuleLoadDataEx")
    assert image == TEXT.encode() + b"\0"
    assert {"CU_JIT_LOG_VERBOSE", "CU_JIT_GENERATE_LINE_INFO"} < set(options)
    warning = "ptxas info    : (C7512) Potential Performance Loss: wgmma is serialized"
    assert kernel.loaded(0).report == Report(168, 24, 8, (warning,))


def test_text_that_the_driver_cannot_assemble(cuda):
    cuda.errors = b"ptxas application ptx input, line 7; error   : Unknown symbol 'r1'\nptxas fatal   : gone"
    cuda.refuse = {b".version": INVALID_PTX}
    kernel, tensors = plain()
    with pytest.raises(TileError, match=r"kernel k: .*cannot assemble its code: .*line 7; error   : Unknown"):
        kernel(tensors, [], (1,))
    cuda.refuse, cuda.errors = {}, b""
    kernel(tensors, [], (1,))
    assert len(cuda.launches) == 1


@pytest.mark.parametrize(
    "status, message",
    [
        (OUT_OF_MEMORY, r"cannot be loaded: .*'out of memory' \(CUDA_ERROR_OUT_OF_MEMORY\).*free tensors"),
        (222, r"unsupported toolchain.*update the NVIDIA driver"),
    ],
)
def test_other_reasons_not_to_load(cuda, status, message):
    cuda.refuse, cuda.errors = {b".version": status}, b"ptxas fatal : some error"
    kernel, tensors = plain()
    if status == OUT_OF_MEMORY:
        cuda.errors = b""
    with pytest.raises(TileError, match=message):
        kernel(tensors, [], (1,))


def test_a_kernel_on_disk(cuda, monkeypatch, tmp_path):
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    log = "ptxas info    : Used 32 registers, 4 bytes spill stores, 0 bytes spill loads"
    monkeypatch.setattr(assembler, "assemble", lambda text, arch: (b"\x7fELF code", log))
    disk_cache.put("a key", assembled(artifact()), "code")
    entry = disk_cache.get("a key")
    kernel = restored(entry)
    assert kernel.artifact == artifact()
    kernel([info(), info()], [1, 1.0], (1,))
    assert cuda.called("cuModuleLoadDataEx") == [(b"\x7fELF code", ())]
    assert kernel.loaded(0).report == Report(32, 4, 0, ())


def test_code_that_is_newer_than_the_driver(cuda, monkeypatch):
    monkeypatch.setattr(assembler, "assemble", lambda text, arch: (b"\x7fELF code", ""))
    cuda.refuse = {b"ELF": INVALID_IMAGE}
    cuda.information = b"ptxas info : Used 12 registers"
    kernel = restored(assembled(artifact()))
    kernel([info(), info()], [1, 1.0], (1,))
    assert [image for image, _ in cuda.called("cuModuleLoadDataEx")] == [
        b"\x7fELF code",
        TEXT.encode() + b"\0",
    ]
    assert kernel.loaded(0).report.registers == 12


def test_artifacts_as_json():
    described = json.loads(json.dumps(describe(artifact(launch=LaunchShape("persistent", 3, 2, 1)))))
    assert restore(described, TEXT) == artifact(launch=LaunchShape("persistent", 3, 2, 1))
    assert TEXT not in described.values()


def test_what_the_emitter_gives():
    from gizml_tile.dtypes import I64
    from gizml_tile.lowering.emit.ptx import Argument, PtxArtifact, TensorMap
    from gizml_tile.lowering.kernel_ir import instructions

    def argument(kind, number=0, axis=0, dtype=I64):
        return Argument(instructions.Parameter(kind, number, axis), dtype)

    arguments = (argument("pointer", 1), argument("scalar", 2, dtype=F32), argument("stride", 1, 1))
    maps = (TensorMap(1, (8, 64), 64),)
    emitted = PtxArtifact(TEXT, "k", "sm_90a", 96, 4096, arguments, maps, 2, cluster=2)
    own = (Parameter("pointer", 1), Parameter("scalar", 2, 0, "f32"), Parameter("stride", 1, 1))
    specs = (MapSpec(1, (MapDimension(1, 64), MapDimension(0, 8)), 64),)
    wanted = Artifact(TEXT, "k", "sm_90a", 96, 4096, 2, (*own, Parameter("tensor_map", 0)), specs)
    assert of_emitted(emitted) == wanted
    overlapping = dataclasses.replace(emitted, overlapping=True)
    assert of_emitted(overlapping) == dataclasses.replace(wanted, overlapping=True)


def test_loading_while_a_graph_is_captured(cuda):
    cuda.capturing = 7
    kernel, tensors = plain()
    kernel(tensors, [], (1,), stream=7)
    assert not cuda.broken_capture and cuda.launches[0].stream == 7
    cuda.refuse = {b".version": 901}
    other, _ = plain()
    with pytest.raises(TileError, match=r"must be loaded, which this capture.*launch it once before"):
        other(tensors, [], (1,), stream=7)
    assert cuda.cuThreadExchangeStreamCaptureMode("x")[1] == "CU_STREAM_CAPTURE_MODE_GLOBAL"


def test_eight_threads(cuda):
    cuda.sizes = [8, 8]
    kernel = CudaKernel(artifact(parameters=(Parameter("pointer", 0), Parameter("scalar", 0)), maps=()))
    start = threading.Barrier(8)

    def launch(thread):
        start.wait()
        for turn in range(100):
            number = thread * 1000 + turn
            kernel([info(pointer=number << 8)], [number], (1,), stream=thread)

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cuda.images) == 1
    found = sorted(struct.unpack("<QQ", b"".join(each.parameters)) for each in cuda.launches)
    wanted = sorted(
        (number << 8, number) for thread in range(8) for number in range(thread * 1000, thread * 1000 + 100)
    )
    assert found == wanted
    assert all(struct.unpack("<Q", each.parameters[1])[0] // 1000 == each.stream for each in cuda.launches)


@pytest.mark.parametrize("loaded_before", [True, False])
def test_a_fork(cuda, loaded_before):
    kernel, tensors = plain()
    other, _ = plain()
    (kernel if loaded_before else other)(tensors, [], (1,))
    child = os.fork()
    if not child:
        try:
            kernel(tensors, [], (1,))
        except TileError as error:
            os._exit(0 if "before this process was forked" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
