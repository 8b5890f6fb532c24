"""CUDA devices and the driver: what they are, and one clear error for each thing that is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gizml_tile.errors import TileError
from gizml_tile.runtime.cuda import assembler, devices, driver
from gizml_tile.runtime.tensors import describe


def test_a_device(cuda):
    device = devices.device(1)
    assert (device.name, device.arch, device.processors) == ("Fake GPU", "sm_90a", 132)
    assert (device.workgroup_memory, device.threads) == (232448, 1024)
    assert (device.cache_bytes, device.memory_bytes) == (50 << 20, 1 << 37)
    assert device.key == "Fake GPU sm_90a 132"
    assert devices.device(1) is device


@pytest.mark.parametrize(
    "major, minor, arch",
    [
        (7, 5, "sm_75"),
        (8, 0, "sm_80"),
        (8, 9, "sm_89"),
        (9, 0, "sm_90a"),
        (10, 0, "sm_100a"),
        (12, 0, "sm_120a"),
    ],
)
def test_architectures(cuda, major, minor, arch):
    cuda.devices[0].update(COMPUTE_CAPABILITY_MAJOR=major, COMPUTE_CAPABILITY_MINOR=minor)
    assert devices.device(0).arch == arch


def test_an_array_that_tells_only_its_address(cuda):
    facts = {"version": 3, "shape": (3,), "typestr": "<f4", "data": (4096, False), "strides": None}
    array = SimpleNamespace(__cuda_array_interface__=facts)
    cuda.owner_of_pointer = 1
    assert describe(array).device == "cuda:1"
    assert cuda.called("cuPointerGetAttribute") == [("CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL", 4096)]


def test_an_unknown_architecture(cuda):
    cuda.devices[0].update(COMPUTE_CAPABILITY_MAJOR=6, COMPUTE_CAPABILITY_MINOR=1)
    with pytest.raises(
        TileError, match=r"cuda:0 \(Fake GPU\) has compute capability 6\.1.*known are sm_75, .*sm_90a"
    ):
        devices.device(0)


def test_a_device_that_is_not_there(cuda):
    with pytest.raises(TileError, match=r"there is no cuda:2; the CUDA driver sees 2 GPUs"):
        devices.device(2)


def test_no_package(monkeypatch):
    driver.forget()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(TileError, match=r"need cuda-python.*pip install 'gizml-tile\[cuda\]'"):
        devices.device(0)


def test_no_driver(cuda, monkeypatch):
    def missing(flags):
        raise RuntimeError("libcuda.so.1 cannot be opened")

    monkeypatch.setattr(cuda, "cuInit", missing)
    with pytest.raises(TileError, match=r"no CUDA driver was found; install NVIDIA's.*libcuda\.so\.1"):
        devices.device(0)


def test_no_device(cuda, monkeypatch):
    cuda.start = 100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(TileError, match=r"sees no GPU \(CUDA_VISIBLE_DEVICES=7\)"):
        devices.device(0)


def test_a_driver_that_does_not_start(cuda):
    cuda.start = 3
    with pytest.raises(
        TileError, match=r"does not start: .*\(CUDA_ERROR_NOT_INITIALIZED\); if another .* 'spawn' method"
    ):
        devices.device(0)


def test_importing_the_package_touches_no_driver():
    program = (
        "import sys, gizml_tile\n"
        "import numpy, gizml_tile.runtime.tensors\n"
        "assert not [name for name in sys.modules if 'cuda' in name], sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_which_assembler(monkeypatch, tmp_path):
    ptxas = tmp_path / "nvidia" / "cu99" / "bin" / "ptxas"
    ptxas.parent.mkdir(parents=True)
    ptxas.write_text("#!/bin/sh\necho 'no' >&2; exit 1\n")
    ptxas.chmod(0o755)
    monkeypatch.setenv(assembler.PTXAS_VARIABLE, "off")
    assert assembler.path() is None and assembler.key() == "driver"
    assert assembler.assemble("text", "sm_90a") is None
    monkeypatch.setenv(assembler.PTXAS_VARIABLE, str(ptxas))
    assert assembler.path() == ptxas and str(ptxas) in assembler.key()
    assert assembler.assemble("text", "sm_90a") is None
    monkeypatch.delenv(assembler.PTXAS_VARIABLE)
    assembler._path.cache_clear()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert assembler.path() == ptxas
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", str(ptxas.parent))
    assembler._path.cache_clear()
    assert assembler.path() == ptxas
    assembler._path.cache_clear()


def test_an_assembler(monkeypatch, tmp_path):
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(
        "#!/bin/sh\n"
        "for last; do :; done\n"
        'while [ "$1" != -o ]; do echo "option $1" >&2; shift; done\n'
        'cat "$last" >"$2"\n'
        "echo 'ptxas info    : Used 99 registers' >&2\n"
    )
    ptxas.chmod(0o755)
    monkeypatch.setenv(assembler.PTXAS_VARIABLE, str(ptxas))
    code, log = assembler.assemble("the text", "sm_90a")
    assert code == b"the text" and "option -arch=sm_90a" in log and "option -v" in log
    assert assembler.report_of(log).registers == 99
    monkeypatch.setenv(assembler.PTXAS_VARIABLE, str(Path(tmp_path, "none")))
    assert assembler.assemble("the text", "sm_90a") is None and assembler.key() == "driver"
