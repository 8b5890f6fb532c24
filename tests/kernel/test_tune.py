"""Tuning: which configuration a launch uses, that measuring changes nothing, and what goes wrong."""

import collections
import dataclasses
import json
import os
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import trial
from gizml_tile.errors import TileWarning
from gizml_tile.runtime.tensors import describe

# The module: the package has the function under the same name.
tune = sys.modules["gizml_tile.tune"]

Point = collections.namedtuple("Point", "BLOCK warps")


@dataclasses.dataclass(frozen=True)
class Config:
    BLOCK: int
    stages: int = 2


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(tune, "_winners", {})


def make(configs, **named):
    @tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK), configs=configs, **named)
    def double(p, x, out, *, BLOCK, OFFSET=0.0):
        p.write(out, [BLOCK])[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] * 2 + OFFSET

    return double


def arrays(size=1000):
    return np.arange(size, dtype=np.float32), np.zeros(size, np.float32)


@pytest.mark.parametrize(
    "config",
    [
        {"BLOCK": 64},
        {"BLOCK": 64, "warps": 4, "stages": 3},
        Config(64),
        Point(64, 8),
        types.SimpleNamespace(BLOCK=64),
        types.MappingProxyType({"BLOCK": 64}),
    ],
)
def test_any_mapping_or_record_is_a_configuration(config):
    double = make([config])
    x, out = arrays()
    double(x, out)
    assert np.array_equal(out, x * 2)
    assert double.best(x, out)["BLOCK"] == 64


def test_on_the_cpu_the_first_is_used():
    double = make([{"BLOCK": 64}, {"BLOCK": 8}])
    x, out = arrays()
    for _ in range(4):
        assert double(x, out)[0] is out
    assert np.array_equal(out, x * 2)
    assert double.best(x, out) == {"BLOCK": 64}
    assert double.cache_info().misses == 1
    assert "at 64" in double.ir(x, out)


def test_a_given_constant_keeps_the_configurations_that_agree():
    double = make([{"BLOCK": 64, "warps": 1}, {"BLOCK": 8, "warps": 2}, {"BLOCK": 8, "warps": 4}])
    x, out = arrays()
    assert double.best(x, out, BLOCK=8) == {"BLOCK": 8, "warps": 2}
    assert double.best(x, out, warps=4) == {"BLOCK": 8, "warps": 4}
    assert double.best(x, out, OFFSET=1.0) == {"BLOCK": 64, "warps": 1}
    double(x, out, BLOCK=8, OFFSET=1.0)
    assert np.array_equal(out, x * 2 + 1)
    assert "at 8" in double.ir(x, out, BLOCK=8)
    with pytest.raises(tile.TileError, match="has no configuration with BLOCK=True"):
        double(x, out, BLOCK=True)


def slow_configurations(monkeypatch, seconds):
    """Makes each launch take a given time by its block size."""

    def timed(bench, launch_once):
        launch_once()
        return seconds.pop(0)

    monkeypatch.setattr(trial.HostBench, "seconds", timed)


def test_measuring_keeps_the_fastest_and_changes_no_tensor(monkeypatch):
    slow_configurations(monkeypatch, [3.0, 1.0, 2.0])
    double = make([{"BLOCK": 64}, {"BLOCK": 8}, {"BLOCK": 16}], measure=True)
    x, out = arrays()
    out += 5
    assert double.best(x, out) == {"BLOCK": 8}
    assert np.array_equal(out, np.full(1000, 5, np.float32))
    double(x, out)
    assert np.array_equal(out, x * 2)


def test_the_environment_asks_for_measuring_and_sizes_count(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_TUNE", "1")
    seconds = [3.0, 1.0, 1.0, 3.0]
    slow_configurations(monkeypatch, seconds)
    double = make([{"BLOCK": 64}, {"BLOCK": 8}])
    assert double.best(*arrays()) == {"BLOCK": 8}
    assert double.best(*arrays()) == {"BLOCK": 8}
    assert double.best(*arrays(10)) == {"BLOCK": 64}
    assert seconds == []


def test_measuring_for_real(monkeypatch):
    double = make([{"BLOCK": 64}, {"BLOCK": 8}, {"BLOCK": 1}], measure=True)
    x, out = arrays(10_000)
    double(x, out)
    assert np.array_equal(out, x * 2)
    assert double.best(x, out)["BLOCK"] in (64, 8)


def test_programs_that_read_what_they_write_are_measured_on_copies(monkeypatch):
    @tile.kernel(
        grid=lambda x, BLOCK: tile.cdiv(x.shape[0], BLOCK),
        configs=[{"BLOCK": 8}, {"BLOCK": 16}],
        measure=True,
    )
    def increment(p, x, *, BLOCK):
        X = p.write(x, [BLOCK])
        X[p.id(0)] = p.read(x, [BLOCK])[p.id(0)] + 1

    x = np.zeros(100, np.float32)
    increment(x)
    assert list(x) == [1] * 100


def test_the_winner_is_kept_on_disk(tmp_path):
    program = """
import json
import numpy as np
import gizml_tile as tile

from gizml_tile import trial

calls = []
trial.HostBench.seconds = lambda bench, launch: calls.append(launch) or (2.0 if len(calls) == 1 else 1.0)

@tile.kernel(grid=1, configs=[{"BLOCK": 8}, {"BLOCK": 16}], measure=True)
def fill(p, out, *, BLOCK):
    p.write(out, [BLOCK])[0] = p.full([BLOCK], 1.0)

print(json.dumps([len(calls), fill.best(np.zeros(8, np.float32)), len(calls)]))
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = os.environ | {"GIZML_TILE_CACHE": str(tmp_path / "cache")}
    results = []
    for _ in range(2):
        result = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        results.append(json.loads(result.stdout))
    assert results == [[0, {"BLOCK": 16}, 2], [0, {"BLOCK": 16}, 0]]


def test_results_that_differ_are_an_error():
    @tile.kernel(grid=1, configs=[{"VALUE": 1.0}, {"VALUE": 1.5}], measure=True)
    def fill(p, out, *, VALUE):
        p.write(out, [8])[0] = p.full([8], VALUE)

    out = np.zeros(8, np.float32)
    with pytest.raises(tile.TileError) as caught:
        fill(out)
    assert caught.value.message == (
        "configurations VALUE=1.0 and VALUE=1.5 of fill give different results: output 0 by up to 0.5 where "
        "the largest value is 1"
    )
    assert caught.value.filename == __file__
    assert not out.any()


def test_sums_in_another_order_agree():
    @tile.kernel(grid=1, configs=[{"BLOCK": 8}, {"BLOCK": 256}], measure=True)
    def total(p, x, out, *, BLOCK):
        X = p.read(x, [BLOCK])
        acc = p.zeros([1, 1])
        for k in range(X.blocks(0)):
            acc += X[k].sum(1)
        p.write(out, [1])[0] = acc

    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    out = np.zeros(1, np.float32)
    total(x, out)
    assert abs(out[0] - x.astype(np.float64).sum()) < 1e-4


def test_configurations_that_do_not_fit_are_left_out_and_named():
    double = make([{"BLOCK": 2**21}, {"BLOCK": 8}])
    x, out = arrays()
    with pytest.warns(TileWarning, match=r"configuration BLOCK=2097152 is left out: ") as caught:
        double(x, out)
    assert caught[0].filename == __file__
    assert np.array_equal(out, x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        double(x, out)
        assert double.best(x, out) == {"BLOCK": 8}
    with pytest.raises(tile.TileError, match="a block has at least one element"):
        make([{"BLOCK": 0}, {"BLOCK": -5}])(x, out)


def test_tune_runs_a_body_with_the_first_configuration():
    x, out = arrays()
    seen = []

    def body(p, config):
        seen.append(config)
        p.write(out, [config.BLOCK]).put(p.read(x, [config.BLOCK]).at([p.id(0)]).mul(2), [p.id(0)])

    configs = [Config(64), Config(8)]
    (result,) = tile.tune(configs, lambda c: tile.cdiv(1000, c.BLOCK), body)
    assert result is out
    assert np.array_equal(out, x * 2)
    assert seen == [Config(64)]


def test_tune_measures_a_body_when_asked(monkeypatch):
    slow_configurations(monkeypatch, [2.0, 1.0])
    x, out = arrays()
    used = []

    def body(p, block):
        p.write(out, [block]).put(p.read(x, [block]).at([p.id(0)]).mul(2), [p.id(0)])

    def grid(block):
        used.append(block)
        return [tile.cdiv(1000, block)]

    for _ in range(2):
        tile.tune([64, 8], grid, body, measure=True)
        assert np.array_equal(out, x * 2)
        out[:] = 0
    assert set(used) == {64, 8}


def test_trials_copy_all_memory_that_is_written():
    base = np.arange(64, dtype=np.float32)
    infos = [describe(view) for view in (base[:40], base[8:32:2], base[63:47:-1], np.zeros(0, np.float32))]
    run = trial.Trial(infos, frozenset({1, 2}), trial.HostBench())
    for info, copy in zip(infos[:3], run.infos, strict=False):
        assert copy.pointer != info.pointer
        assert copy.pointer % 64 == info.pointer % 64
        assert np.array_equal(trial.array_of(copy), trial.array_of(info))
    trial.array_of(run.infos[1])[:] = -1
    assert (trial.array_of(run.infos[0])[8:32:2] == -1).all()
    assert np.array_equal(base, np.arange(64))
    assert run.infos[3] is infos[3]


@pytest.mark.parametrize(
    "one, other, rounds, differs",
    [
        ([1.0, np.nan], [1.0, np.nan], False, False),
        ([0.0], [-0.0], False, False),
        ([1.0], [1.0 + 2**-20], False, True),
        ([1.0], [1.0 + 2**-20], True, False),
        ([1.0], [1.01], True, True),
        ([1.0], [np.nan], True, True),
        ([np.inf], [1.0], True, True),
    ],
)
def test_when_results_differ(one, other, rounds, differs):
    trials = []
    for values in (one, other):
        run = trial.Trial([describe(np.array(values, np.float32))], frozenset({0}), trial.HostBench())
        run.keep_results()
        trials.append(run)
    assert bool(trials[1].difference(trials[0], rounds)) == differs
