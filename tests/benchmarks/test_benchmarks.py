"""The benchmarks run and refuse wrong results; what they measure is not a matter of tests."""

import subprocess
import sys
import time
from pathlib import Path

import planning
import pytest
from timing import Case, measure


def test_a_row_is_measured_and_printed():
    script = Path(__file__).with_name("cpu.py")
    command = [sys.executable, str(script), "launch", "--threads", "1", "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if "launch of 16 elements" in line)
    assert "us | NumPy" in row


def test_ratios_say_how_much_faster_ours_is():
    case = Case("sleep", 0, "ms", lambda: time.sleep(0.002), {"slow": lambda: time.sleep(0.02)})
    line = measure(case, 1, rounds=3, block_seconds=0.005)
    assert line.ratios["slow"] > 2
    assert line.shown("ours").endswith("ms")


def test_a_wrong_result_is_not_timed():
    case = Case("wrong", 1, "GB/s", lambda: None, {}, lambda: (2.0, 1.0))
    with pytest.raises(SystemExit, match="off by 2"):
        measure(case, 1, rounds=1, block_seconds=0.001)
    lost = Case("lost", 1, "GB/s", lambda: None, {}, lambda: (float("nan"), 1.0))
    with pytest.raises(SystemExit, match="off by nan"):
        measure(lost, 1, rounds=1, block_seconds=0.001)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_are_planned_and_emitted_within_a_tenth_of_a_second(arch):
    nodes = {}
    for name in planning.KERNELS:
        watches = planning.watched(name, arch, 3)
        nodes[name] = watches[0].nodes
        assert min(watch.planned for watch in watches) < 0.1, name
    assert nodes["many"] > 200
