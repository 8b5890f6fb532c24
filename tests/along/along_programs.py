"""Programs of whole tiles, run on the CPU or simulated for a GPU."""

import numpy as np

import gizml_tile as tile

DEVICES = [
    None,
    ("cuda", "sm_80"),
    ("cuda", "sm_90a"),
    ("hip", "gfx942"),
    ("hip", "gfx1100"),
    ("metal", "apple9"),
]


def run(body, device):
    """Run one program on the CPU or in simulation, where nothing may be wrong."""
    if device is None:
        tile.run((1,), body)
        return
    findings = tile.simulate((1,), body, kind=device[0], arch=device[1]).findings
    assert not [each for each in findings if each.kind not in ("bank conflict", "uncoalesced")], findings


def outputs(device, inputs, function, *wanted):
    """What a function of whole tiles gives: arrays of the shapes and types of ``wanted``."""
    found = [np.full(shape, 77, dtype) for shape, dtype in wanted]

    def body(p):
        results = function(p, *(p.read(each, each.shape).at([0, 0]) for each in inputs))
        for array, result in zip(found, results if isinstance(results, tuple) else (results,), strict=True):
            p.write(array, array.shape).put(result, [0, 0])

    run(body, device)
    return found


def elements(shape, dtype, *, seed=0, wild=False):
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -9), min(info.max, 9), shape, endpoint=True).astype(dtype)
    values = rng.standard_normal(shape).astype(np.float32)
    if wild:
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3.0, 3.0], np.float32)
        values = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), values)
    return values.astype(dtype)


def left(shape, axis):
    return (1, shape[1]) if axis == 0 else (shape[0], 1)
