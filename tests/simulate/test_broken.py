"""Right kernels are found to be right, and each fault is found at its line."""

from dataclasses import replace

import broken_clusters
import broken_large
import broken_small
import numpy as np
import pytest
from fault_cases import CASES
from small_writers import run

assert broken_clusters and broken_small and broken_large  # which register their cases

FAULTS = [
    pytest.param(case, wrong, expected, id=f"{case.name}: {wrong}")
    for case in CASES
    for wrong, expected in case.faults.items()
]


def buffers_of(case, wrong):
    """The buffers, of which a fault moves the second into the first."""
    first, *others = case.buffers or (None,)
    by = {"buffers overlap": 0, "buffers overlap by two elements": 248}.get(wrong)
    if by is not None:
        others = [replace(others[0], offset=by)]
    return [first, *others] if first else []


def found_in(case, wrong):
    arrays = case.arrays()
    given = [each.copy() for each in arrays]
    found = run(lambda k: case.write(k, wrong), arrays, buffers_of(case, wrong), **case.launch)
    return found, given, arrays


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right(case):
    found, given, arrays = found_in(case, None)
    assert not found.wrong, found
    expected = np.asarray(case.expected(*given)).reshape(arrays[-1].shape)
    assert np.allclose(arrays[-1], expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("case, wrong, expected", FAULTS)
def test_fault(case, wrong, expected):
    found, _, _ = found_in(case, wrong)
    print(found)
    kinds = {kind for kind, _ in expected}
    told = {(each.kind, each.place.line) for each in found if each.kind in kinds or each in found.wrong}
    assert told == expected, found


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 25
