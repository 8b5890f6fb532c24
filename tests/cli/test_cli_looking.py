"""The commands that show what became of a kernel: preview, ir, source, explain."""

import json
import re

import numpy as np
from persons_file import TEXT

import gizml_tile as tile

ARGUMENTS = ["-a", "x=f16[100]", "-a", "out=f32[100]", "-a", "factor=0.5"]


def test_preview_of_a_file_shows_every_kernel(file, command):
    code, out, err = command("preview", file)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("def ")] == [
        "def negated(x):",
        'def scale(p, x, out, factor, *, BM=8, mode="plain"):',
        "def copy(p, x, out):",
    ]
    assert "    # Kept.\n" in out
    assert "\x1b" not in out and "\n\n\n" not in out


def test_preview_of_one_kernel_is_a_program(file, command):
    code, out, _ = command("preview", f"{file}:Layer.copy")
    assert code == 0
    names = {"tile": tile}
    exec(out, names)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    tile.run(1, lambda p: names["copy"](p, x, y))
    assert np.array_equal(x, y)


def test_preview_of_several_named_kernels(file, written, command):
    other = written(TEXT, "others_of_a_person.py")
    code, out, _ = command("preview", f"{file}:scale", "--json", f"{other}:scale", f"{file}:negated")
    texts = json.loads(out)
    assert code == 0 and list(texts) == ["scale", f"{other}:scale", "negated"]
    assert texts["scale"] == texts[f"{other}:scale"] == command("preview", f"{file}:scale")[1]


def test_preview_as_a_difference(file, command):
    code, out, _ = command("preview", "--diff", f"{file}:negated")
    assert code == 0
    assert "-    return -x if x < 0 else x\n" in out
    assert out.startswith("--- written\n+++ rewritten\n")
    assert json.loads(command("preview", "--diff", f"{file}:negated", "--json")[1]) == {"negated": out}


def test_ir(file, command):
    code, out, _ = command("ir", f"{file}:scale", *ARGUMENTS)
    assert code == 0
    assert out.startswith("program scale(x: f16 rank 1, out: f32 rank 1, factor: f32)")
    assert " x at 8" in out
    code, out, _ = command("ir", f"{file}:scale", *ARGUMENTS, "-c", "BM=64", "-c", "mode=other")
    assert " x at 64" in out
    code, out, _ = command("ir", f"{file}:scale", *ARGUMENTS, "-c", "warps=8")
    assert "\nwarps 8\n" in out


def test_ir_as_json(file, command):
    arguments = ["ir", f"{file}:scale", *ARGUMENTS, "-k", "cuda"]
    report = json.loads(command(*arguments, "--json")[1])
    text = command(*arguments)[1]
    assert (report["kernel"], report["kind"], report["arch"]) == ("scale", "cuda", "sm_90a")
    (program,) = report["programs"]
    assert (program["name"], program["text"]) == ("scale", text)
    tensors = [(each["name"], each["dtype"], each["rank"], each["written"]) for each in program["tensors"]]
    assert tensors == [("x", "f16", 1, False), ("out", "f32", 1, True), ("factor", "f32", 0, False)]
    nodes = program["nodes"]
    assert [each["number"] for each in nodes] == list(range(len(nodes)))
    read = next(each for each in nodes if each["op"] == "read")
    assert (read["attribute"], read["shape"], read["dtype"]) == ("x at 8", [1, 8], "f16")
    assert [nodes[number]["op"] for number in read["operands"]] == ["id"]
    assert f"{{{read['layout']}}}" in text and read["place"]["line"] == 14
    assert nodes[-1]["op"] == "put" and nodes[-1]["dtype"] == "" and nodes[-1]["shape"] == []


LOOP = """\
import gizml_tile as tile


@tile.kernel(grid=1)
def total(p, x, out):
    X = p.read(x, [8])
    acc = p.zeros([1, 8])
    for k in range(X.blocks(0)):
        acc = acc + X[k]
    p.write(out, [8])[0] = acc
"""


def test_ir_of_a_loop_as_json(written, command):
    arguments = ["ir", written(LOOP), "-a", "x=f32[64]", "-a", "out=f32[8]"]
    (program,) = json.loads(command(*arguments, "--json")[1])["programs"]
    nodes = program["nodes"]
    loop = next(each for each in nodes if each["op"] == "loop")
    inside = [each for each in nodes if each["parent"] == loop["number"]]
    assert [each["op"] for each in inside] == ["param", "param", "read", "add"]
    assert loop["results"] == [[inside[-1]["number"]]]
    # The numbers are those of the text.
    for each in nodes:
        assert re.search(rf"^ *{each['number']}  +{each['op']}\b", program["text"], re.M)


def test_source_and_strides(file, command):
    code, out, _ = command("source", f"{file}:scale", *ARGUMENTS)
    assert code == 0 and "define" in out
    strided = ["-a", "x=f16[100]:2", *ARGUMENTS[2:]]
    assert command("source", f"{file}:scale", *strided)[1] != out


def test_source_is_what_the_target_takes(file, command):
    for kind, language, part in (
        ("cpu", "LLVM IR", "define"),
        ("cuda", "PTX", ".target sm_90a"),
        ("hip", "LLVM IR", "amdgpu_kernel"),
        ("metal", "Metal Shading Language", "#include <metal_stdlib>"),
    ):
        code, out, _ = command("source", f"{file}:scale", *ARGUMENTS, "-k", kind, "--json")
        report = json.loads(out)
        assert code == 0 and (report["kind"], report["language"]) == (kind, language)
        assert part in report["text"]


def test_an_architecture_implies_its_kind(file, command):
    assert "amdgpu_kernel" in command("source", f"{file}:scale", *ARGUMENTS, "--arch", "gfx1100")[1]


def test_looks_at_what_runs_on_a_gpu(file, command):
    arguments = [f"{file}:scale", *ARGUMENTS, "-k", "cuda", "--arch", "sm_80"]
    assert "{blocked 1 wide}" in command("ir", *arguments)[1]
    assert ".target sm_80" in command("source", *arguments)[1]


def test_explain(file, command):
    code, out, _ = command("explain", f"{file}:scale", *ARGUMENTS)
    assert code == 0 and out.startswith("vectors of ")
    report = json.loads(command("explain", f"{file}:scale", *ARGUMENTS, "--json")[1])
    (section,) = report["sections"]
    assert section["title"] == "" and "\n".join(section["lines"]) + "\n" == out
    assert (report["variants"], report["spent"], report["measured_seconds"]) == ([], [], None)


def test_explain_for_a_gpu_says_the_variants_and_the_bound(file, command):
    arguments = [f"{file}:scale", *ARGUMENTS, "-c", "BM=64", "-k", "cuda"]
    out = command("explain", *arguments)[1]
    report = json.loads(command("explain", *arguments, "--json")[1])
    told = ["scale for cuda (sm_90a)"]
    for section in report["sections"]:
        told += ["", section["title"], *(f"  {line}" for line in section["lines"])]
    assert out.splitlines() == told
    read, *_, put = report["variants"]
    assert (read["operation"], read["what"], read["place"]["line"]) == ("read x at 64", "read", 14)
    assert read["chosen"] in [each["name"] for each in read["candidates"] if each["accepted"]]
    assert put["operation"] == "put out at 64"
    bound = max(report["spent"], key=lambda each: each["seconds"])
    assert f"\n  bound by {bound['name']}: " in out


def test_explain_measures_on_the_cpu(file, command):
    assert "measured" not in command("explain", f"{file}:scale", *ARGUMENTS)[1]
    code, out, _ = command("explain", f"{file}:scale", *ARGUMENTS, "--measure")
    assert code == 0 and re.search(r"^measured: \d+\.\d\d [mu]s$", out, re.M)
    report = json.loads(command("explain", f"{file}:scale", *ARGUMENTS, "--measure", "--json")[1])
    assert 0 < report["measured_seconds"] < 1
    code, _, err = command("explain", f"{file}:scale", *ARGUMENTS, "--measure", "-k", "hip")
    assert (code, err) == (1, "gizml-tile: launches on hip:0 cannot be measured; those on cpu and cuda can\n")


def test_explain_measures_on_a_gpu(file, command, cuda):
    for device in cuda.devices:
        device |= {"L2_CACHE_SIZE": 1 << 10, "COMPUTE_CAPABILITY_MAJOR": 8}
    arguments = ["explain", f"{file}:scale", *ARGUMENTS, "--measure", "-k", "cuda"]
    code, out, _ = command(*arguments)
    assert code == 0 and out.startswith("scale for cuda (sm_80)\n") and "  measured: 1.00 ms, " in out
    report = json.loads(command(*arguments, "--json")[1])
    assert (report["arch"], report["measured_seconds"]) == ("sm_80", 0.001)
    assert not cuda.memory
    code, _, err = command(*arguments, "--arch", "sm_90a")
    assert code == 1 and "measured where its tensors are, for cuda (sm_80), and not for cuda (sm_90a)" in err


SPECIAL = """\
import gizml_tile as tile


@tile.kernel(grid=1)
def sums(p, out, /, *inputs, SCALE=2):
    total = p.zeros([1, 8])
    for each in tile.unroll(inputs):
        total = total + p.read(each, [8])[0]
    p.write(out, [8])[0] = total * SCALE
"""


def test_parameters_that_go_by_position(written, command):
    file = written(SPECIAL)
    tensors = [part for name in ("inputs_1", "out", "inputs_0") for part in ("-a", f"{name}=f32[8]")]
    code, out, _ = command("ir", file, *tensors)
    assert code == 0
    assert out.startswith("program sums(inputs_0: f32 rank 1, inputs_1: f32 rank 1, out: f32 rank 1)")


def test_what_a_file_prints_is_not_the_answer(written, command):
    file = written("print('imported')\n" + TEXT.replace("# Kept.", "print('traced')"))
    code, out, err = command("ir", f"{file}:scale", *ARGUMENTS, "--json")
    assert code == 0 and json.loads(out)["kernel"] == "scale"
    assert err == "imported\ntraced\n"
