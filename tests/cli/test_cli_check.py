"""``check``: what it finds for each target, and the exit status that it has for that."""

import json

import pytest

ARGUMENTS = ["-a", "x=f16[100]", "-a", "out=f32[100]", "-a", "factor=0.5"]
KERNELS = """\
import gizml_tile as tile


@tile.kernel(grid=4)
def together(p, x, out):
    p.write(out, [64])[0] = p.read(x, [64])[p.id(0)]


@tile.kernel(grid=1)
def across(p, x, out):
    p.variant("put", "element")
    p.write(out, [32, 32])[0, 0] = p.read(x, [32, 32])[0, 0]


@tile.kernel(grid=1)
def total(p, x, out):
    value = p.read(x, [8])[0] + 1
    p.write(out, [1])[0] = value.sum(1)


@tile.kernel(grid=1)
def large(p, x, out, *, B=16):
    t = p.read(x, [B, B])[0, 0]
    p.print("sum", t.sum(0).sum(1))
    for _ in range(2):
        t = t @ t
    p.write(out, [B, B])[0, 0] = t


@tile.kernel(grid=1)
def positive(p, x):
    t = p.read(x, [8])[0]
    p.check(t > 100, "t is large", t)
"""
SQUARE = ["-a", "x=f32[32,32]", "-a", "out=f32[32,32]"]
RACE = ["-a", "x=u8[256]", "-a", "out=u8[64]"]


@pytest.fixture
def kernels(written):
    return written(KERNELS, "checked_kernels.py")


def test_without_a_target_it_is_the_cpu(file, command):
    told = "scale for cpu (native): no errors, no warnings, no costs; run\n"
    assert command("check", f"{file}:scale", *ARGUMENTS) == (0, told, "")


def test_several_targets_in_one_call(file, command):
    kinds = ["-k", "cuda", "-k", "cpu", "-k", "metal"]
    archs = ["--arch", "sm_80", "--arch", "apple7", "--arch", "sm_90a"]
    code, out, err = command("check", f"{file}:scale", *ARGUMENTS, *kinds, *archs)
    clean = "no errors, no warnings, no costs"
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"scale for cuda (sm_80): {clean}; simulated",
        f"scale for cuda (sm_90a): {clean}; simulated",
        f"scale for cpu (native): {clean}; run",
        f"scale for metal (apple7): {clean}; simulated",
    ]


def test_an_architecture_adds_its_kind(file, command):
    out = command("check", f"{file}:scale", *ARGUMENTS, "-k", "cpu", "--arch", "gfx1100", "--no-run")[1]
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "scale for cpu (native)",
        "scale for hip (gfx1100)",
    ]


def test_a_race_is_a_mistake(kernels, command):
    code, out, _ = command("check", f"{kernels}:together", *RACE, "-k", "cuda", "-k", "hip")
    first, told, second, last = out.splitlines()
    assert code == 1
    for race in (first, second):
        assert f"{kernels}:6:5: race: store: thread 0 of workgroup 0 writes out" in race
    assert told == "together for cuda (sm_90a): 1 error, no warnings, no costs; simulated"
    assert last == "together for hip (gfx942): 1 error, no warnings, no costs; simulated"


def test_a_cost_is_a_mistake_only_where_it_is_strict(kernels, command):
    arguments = ["check", f"{kernels}:across", *SQUARE, "-k", "cuda"]
    code, out, _ = command(*arguments)
    cost, last = out.splitlines()
    assert code == 0
    assert f"{kernels}:12:5: uncoalesced: the lanes of a warp access 4 bytes of out each" in cost
    assert "in all 512 pieces of 32 bytes where 128 would do; let blocks go along the axis" in cost
    assert last == "across for cuda (sm_90a): no errors, no warnings, 1 cost; simulated"
    assert command(*arguments, "--strict")[:2] == (3, out)


def test_a_warning_is_one_too(kernels, command):
    arguments = ["check", f"{kernels}:total", "-a", "out=f32[1]", "-k", "cpu", "-k", "cuda"]
    code, out, _ = command(*arguments, "-a", "x=f32[9]")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 4
    assert [kernels + ":18: warning: " in line for line in lines] == [True, False, True, False]
    assert lines[1] == "total for cpu (native): no errors, 1 warning, no costs; run"
    assert lines[3] == "total for cuda (sm_90a): no errors, 1 warning, no costs; simulated"
    assert command(*arguments, "-a", "x=f32[9]", "--strict")[0] == 3
    assert command(*arguments, "-a", "x=f32[16]", "--strict")[0] == 0


def test_a_mistake_counts_more_than_a_cost(kernels, command):
    assert command("check", f"{kernels}:together", *RACE, "-k", "cuda", "-k", "cpu", "--strict")[0] == 1


def test_an_error_for_one_target_leaves_the_others(kernels, command):
    kinds = ["-k", "cpu", "-k", "metal"]
    code, out, _ = command("check", f"{kernels}:large", *SQUARE, *kinds, "-c", "B=512")
    assert code == 1
    assert "large for cpu (native): no errors, no warnings, no costs; run" in out
    error, source, caret, last = out.splitlines()[-4:]
    assert f"{kernels}:23:9: error: " in error and "use smaller blocks" in error
    assert source.strip() == "t = p.read(x, [B, B])[0, 0]" and set(caret) == {" ", "^"}
    assert last == "large for metal (apple9): 1 error, no warnings, no costs; compiled"


def test_checks_of_the_kernels_own(kernels, command):
    for target, done in (("cpu", "compiled"), ("hip", "simulated")):
        code, out, _ = command("check", f"{kernels}:positive", "-a", "x=f32[8]", "-k", target)
        assert code == 1
        assert (
            f"{kernels}:33:5: " in out and "check failed: t is large: in program 0 8 of 1 x 8 elements" in out
        )
        assert out.endswith(f"1 error, no warnings, no costs; {done}\n")


def test_what_is_too_large_is_only_compiled(kernels, command):
    large = ["-a", "x=f32[4096,4096]", "-a", "out=f32[4096,4096]", "-k", "cuda"]
    code, out, _ = command("check", f"{kernels}:across", *large)
    assert code == 0
    assert out.endswith(
        "; not run: the tensors have 33554432 elements, more than 4194304; describe smaller ones\n"
    )
    assert command("check", f"{kernels}:across", *large, "--strict")[0] == 3
    code, out, _ = command("check", f"{kernels}:across", *large, "--strict", "--no-run")
    assert (code, out) == (0, "across for cuda (sm_90a): no errors, no warnings, no costs; compiled\n")


def test_the_report_as_json(kernels, command):
    code, out, _ = command(
        "check", f"{kernels}:across", *SQUARE, "-k", "cuda", "--json", "--strict", "--seed", 5
    )
    report = json.loads(out)
    assert code == report["status"] == 3
    (target,) = report.pop("targets")
    assert report == {"kernel": "across", "seed": 5, "strict": True, "status": 3}
    (found,) = target.pop("found")
    assert target == {"kind": "cuda", "arch": "sm_90a", "ran": "simulated", "why": "", "printed": ""}
    assert found.pop("place")["file"].endswith(kernels)
    text = found.pop("text")
    assert "in all 512 pieces of 32 bytes where 128 would do; let blocks go" in text
    assert found == {"kind": "uncoalesced", "severity": "cost", "excerpt": "", "count": 384}


def test_what_programs_print_is_of_the_tensors_of_the_seed(kernels, command):
    def printed(*more):
        arguments = [*SQUARE, "--json", *more]
        return json.loads(command("check", f"{kernels}:large", *arguments)[1])["targets"][0]["printed"]

    assert printed().startswith(f"{kernels}:24: program 0: sum ")
    assert printed() == printed("--seed", "0") != printed("--seed", "1")
    plain = command("check", f"{kernels}:large", *SQUARE)[1]
    assert plain.startswith(printed())
