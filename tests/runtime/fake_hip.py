"""Programs of AMD GPUs in a process of their own, where a stand-in is ROCm's library of the HIP runtime."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NAME = "libamdhip64.so"
# The bytes of a device's description.
SIZE = 1472
# Where hip-python looks for the library.
VARIABLE = "ROCM_PATH"


@functools.cache
def rocm() -> tempfile.TemporaryDirectory[str]:
    """A folder like ROCm's, with the stand-in."""
    folder = tempfile.TemporaryDirectory(prefix="gizml-tile-rocm-")
    library = Path(folder.name, "lib", NAME)
    library.parent.mkdir()
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", HERE / "fake_hip.c", "-o", library], check=True)
    return folder


def run(program: str, *, with_rocm: bool = True, **environment: str) -> str:
    """What a program prints, whose errors of the package are printed too."""
    paths = [HERE, HERE.parent / "amdgpu", HERE.parent / "gpu", *filter(None, sys.path)]
    around = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "GIZML_TILE_CACHE": "off",
        VARIABLE: rocm().name if with_rocm else "/nowhere",
        # hip-python before 10 asks the system alone.
        "LD_LIBRARY_PATH": str(Path(rocm().name, "lib")) if with_rocm else "",
    }
    guarded = "from gizml_tile import TileError\ntry:\n" + "".join(
        f"    {line}\n" for line in program.strip().splitlines()
    )
    guarded += "except TileError as error:\n    print(error.message)\n"
    # In a file, where the source of its kernels is found.
    file = Path(rocm().name, "program.py")
    file.write_text(guarded)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, env=around | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


class FakeHip:
    """The stand-in, in the process of such a program; launches run the texts of kernels on the host."""

    def __init__(self, arch: str = "gfx90a", devices: int = 2) -> None:
        self.library = ctypes.CDLL(str(Path(os.environ[VARIABLE], "lib", NAME)))
        self.launches: list[tuple[str, tuple[int, ...], bytes, bytes]] = []
        self.artifacts: dict[str, object] = {}
        self.set("fake_hip_devices", devices)
        if devices:
            self._describe(arch)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_uint),
            ctypes.c_void_p,
            ctypes.c_uint64,
        )
        self._launched = kind(self._launch)
        ctypes.c_void_p.in_dll(self.library, "fake_hip_launched").value = ctypes.cast(
            self._launched, ctypes.c_void_p
        ).value

    def set(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value

    @property
    def log(self) -> list[str]:
        found = ctypes.c_char.in_dll(self.library, "fake_hip_log")
        return ctypes.string_at(ctypes.addressof(found)).decode().splitlines()

    def _describe(self, arch: str) -> None:
        """Fill the devices' description, whose fields are found by trying."""
        content = ctypes.c_char.in_dll(self.library, "fake_hip_properties")
        start = ctypes.addressof(content)
        facts = {"multiProcessorCount": 3, "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 65536}
        for field, value in [*facts.items(), ("gcnArchName", arch.encode()), ("name", b"Stand-in")]:
            text = value if isinstance(value, bytes) else value.to_bytes(4, "little")
            ctypes.memmove(start + self._offset(start, field), text, len(text))

    def _offset(self, start: int, field: str) -> int:
        from gizml_tile.runtime.hip.devices import properties

        kept, mark = ctypes.string_at(start, SIZE), b"mark"
        known = {mark, mark.decode(), int.from_bytes(mark, "little")}
        for offset in range(0, SIZE - 3, 4):
            ctypes.memset(start, 0, SIZE)
            ctypes.memmove(start + offset, mark, 4)
            if getattr(properties(0), field) in known:
                ctypes.memmove(start, kept, SIZE)
                return offset
        raise AssertionError(f"no field {field}")

    def _launch(self, image: int, name: bytes, sizes: object, arguments: int, count: int) -> int:
        from host import launch

        told, packed = tuple(sizes[:7]), ctypes.string_at(arguments, count)
        self.launches.append((name.decode(), told, packed, ctypes.string_at(image, 4)))
        artifact = self.artifacts.get(name.decode())
        if artifact is not None:
            assert told[3:] == (artifact.threads, 1, 1, 0)
            launch(artifact, packed, told[:3])
        return 0

    def keep_texts(self) -> None:
        """Let launches run the text of every kernel that is emitted from now on."""
        from gizml_tile.lowering.emit import amdgpu

        emit = amdgpu.emit

        def kept(kernel):
            artifact = emit(kernel)
            self.artifacts[artifact.entry] = artifact
            return artifact

        amdgpu.emit = kept


class OnHip:
    """An array of NumPy's that says it is on an AMD GPU."""

    def __init__(self, array, device: int = 0, stream: int | None = None) -> None:
        self.array, self.shape, self.device = array, array.shape, device
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "data": (array.ctypes.data, False),
            "version": 3,
            "stream": stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, self.device)

    def __dlpack__(self, **options):
        return self.array.__dlpack__()


def without_comgr() -> bool:
    """Whether there is no library that makes code: then code is a stub, which the stand-in takes."""
    from gizml_tile import TileError
    from gizml_tile.runtime.hip import comgr

    try:
        comgr.found()
    except TileError:
        comgr.found = lambda: type("None", (), {"name": "none"})
        comgr.compile_text = lambda text, arch: b"\x7fELF" + text.encode()
        return True
    return False
