"""``devices``: what is here, by stand-ins of the drivers, and what is missing, which is no exception."""

import json
import os
import sys

ROOT = os.path.join(os.path.dirname(__file__), "..")


def devices(command):
    code, out, err = command("devices", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def problem(report, kind):
    (found,) = [each["problem"] for each in report["missing"] if each["kind"] == kind]
    return found


def test_the_cpu(command, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_THREADS", "3")
    monkeypatch.setenv("GIZML_TILE_CPU", "x86-64-v2")
    cpu = devices(command)["cpu"]
    assert (cpu["arch"], cpu["threads"], cpu["vector_bits"]) == ("x86-64", 3, 128)
    assert cpu["features"] == ["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"]
    assert cpu["name"] and cpu["memory_bytes"] > 1 << 20 and len(cpu["cache_bytes"]) == 3
    out = command("devices")[1]
    assert "\ncpu: 3 threads of 128-bit vectors, with sse3 ssse3 sse4.1 sse4.2 popcnt\n" in out


def test_a_setting_that_is_wrong(command, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CPU", "x86-64-v9")
    report = devices(command)
    assert report["cpu"] is None and "GIZML_TILE_CPU=x86-64-v9 is not known" in problem(report, "cpu")


def test_cuda(command, cuda):
    cuda.devices[1]["COMPUTE_CAPABILITY_MAJOR"] = 5
    report = devices(command)
    first, second = report["gpus"]
    assert first == {
        "device": "cuda:0",
        "name": "Fake GPU",
        "arch": "sm_90a",
        "units": 132,
        "memory_bytes": 1 << 37,
        "driver": "CUDA 13.1",
        "problem": "",
    }
    assert (second["device"], second["arch"]) == ("cuda:1", "")
    assert "compute capability 5.0, for which no code can be made" in second["problem"]
    assert report["assembler"] is None
    out = command("devices")[1]
    row = next(line for line in out.splitlines() if line.startswith("cuda:0 "))
    assert row.split("  ")[0] == "cuda:0" and "Fake GPU" in row and "128.0 GiB" in row
    assert "\ncuda: GPU code is assembled by the driver (pip install nvidia-cuda-nvcc" in out
    assert "\ncuda:1: cuda:1 (Fake GPU) has compute capability" in out


def test_no_package(command, cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    report = devices(command)
    assert not report["gpus"] and "pip install 'gizml-tile[cuda]'" in problem(report, "cuda")


def test_a_driver_that_does_not_start(command, cuda, monkeypatch):
    cuda.start = 3
    assert "the CUDA driver does not start" in problem(devices(command), "cuda")


def test_no_gpu(command, cuda, monkeypatch):
    cuda.start = 100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert problem(devices(command), "cuda") == "the CUDA driver sees no GPU (CUDA_VISIBLE_DEVICES=7)"


def test_a_driver_that_fails_in_its_own_way(command, cuda, monkeypatch):
    def fails():
        raise OSError("no such library")

    monkeypatch.setattr(cuda, "cuDeviceGetCount", fails)
    assert problem(devices(command), "cuda") == "OSError: no such library"


def test_apple(command, monkeypatch):
    assert problem(devices(command), "metal") == "Apple's GPUs need macOS on an Apple M1 or later"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install torch" in problem(devices(command), "metal")


def test_amd():
    sys.path.insert(0, os.path.join(ROOT, "runtime"))
    from fake_hip import run

    program = "from gizml_tile.cli import main\n{}main(['devices', '--json'])"
    report = json.loads(run(program.format("from fake_hip import FakeHip\nfake = FakeHip('gfx942')\n")))
    names = [(gpu["device"], gpu["name"], gpu["arch"], gpu["units"]) for gpu in report["gpus"]]
    assert names == [(f"hip:{number}", "Stand-in", "gfx942", 3) for number in range(2)]
    report = json.loads(run(program.format(""), with_rocm=False))
    assert not report["gpus"] and "install ROCm for this GPU" in problem(report, "hip")
