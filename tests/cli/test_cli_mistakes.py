"""What is said of commands that are wrong, and of files that fail: one line that says what to do."""

import re
import subprocess
import sys
from importlib import metadata

import pytest

SCALE = "{file}:scale"
ARGUMENTS = ["-a", "x=f16[100]", "-a", "out=f32[100]", "-a", "factor=0.5"]
PARAMETERS = "the arguments x, out, factor and the constants BM=8, mode='plain'"

MISTAKES = [
    (["ir", SCALE, *ARGUMENTS, "-c", "BM=0"], 1, "a block has at least one element"),
    (
        ["ir", "{file}:scale", "-c", "BM=4"],
        2,
        "gizml-tile: scale needs x, out and factor ("
        + PARAMETERS
        + "); for example: gizml-tile ir {file}:scale "
        "-c BM=4 -a x=f32[1024] -a out=f32[1024] -a factor=1\n",
    ),
    (
        ["ir", "{file}:Layer.copy", "-a", "x=f32[8]", "-a", "out=f32[8]"],
        2,
        "copy has no grid of its own; say",
    ),
    (["ir", SCALE, *ARGUMENTS, "-a", "fator=1"], 2, "has no parameter fator; did you mean factor?"),
    (["ir", SCALE, *ARGUMENTS, "-c", "BM=x"], 1, "cdiv takes integers or indices, found 100 and 'x'"),
    (["ir", SCALE, *ARGUMENTS, "-a", "q=1"], 2, "scale has no parameter q; it has " + PARAMETERS),
    (["ir", SCALE, *ARGUMENTS, "-c", "BN=1"], 2, "scale has no parameter BN; did you mean BM?"),
    (["ir", SCALE, *ARGUMENTS, "-a", "x=f32[4]"], 2, "x is given twice"),
    (
        ["ir", SCALE, *ARGUMENTS, "-k", "hip", "--arch", "gfx941"],
        2,
        "no arch gfx941; did you mean gfx942",
    ),
    (["ir", SCALE, *ARGUMENTS, "-k", "cuda", "--arch", "sm_7"], 2, "archs are sm_75, sm_80, sm_86"),
    (
        ["ir", SCALE, *ARGUMENTS, "-k", "cpu", "--arch", "sm_90a"],
        2,
        "ir takes one target, found cpu (native), cuda (sm_90a)",
    ),
    (["ir", SCALE, *ARGUMENTS, "-k", "cdua"], 2, "there is no kind cdua; did you mean cuda or cpu?"),
    (
        ["ir", SCALE, *ARGUMENTS, "-k", "cpu", "-k", "cuda"],
        2,
        "ir takes one target, found cpu (native), ",
    ),
    (["ir", "{file}", *ARGUMENTS], 2, "say which kernel, {file}:NAME; its kernels are: scale, Layer.copy"),
    (["ir", "{file}:negated"], 2, "negated is a helper of kernels; name a kernel that calls it"),
    (["ir", "{file}:other"], 2, "{file} has no kernel other; its kernels are: negated, scale, Layer.copy"),
    (["ir", "{file}:scael"], 2, "{file} has no kernel scael; did you mean scale?"),
    (["ir", "{file}:tile"], 2, "{file} has no kernel tile (tile is in it, and is no kernel)"),
    (["preview", "{file}:Layer.other"], 2, "{file} has no kernel Layer.other"),
    (["preview", "absent.txt"], 2, "there is no file absent.txt\n"),
    (["preview", "kernels_of_person.py:scale"], 2, "no file kernels_of_person.py; did you mean {file}?"),
    (["ir", "{file}:scale", "-a", "x"], 2, "x: write NAME=VALUE, such as x=f32[1024]"),
    (["ir", "{file}:scale", "-a", "x=f23[4]"], 2, "x=f23[4]: no type 'f23'; did you mean f32"),
    (["ir", "{file}:scale", "-c", "BM"], 2, "BM: write NAME=VALUE, such as BM=64"),
    (["ir", SCALE, *ARGUMENTS, "-g", "x"], 2, "x: a grid is 1 to 3 sizes, such as 8,4"),
    (["check", "{file}:scale", *ARGUMENTS, "--seed", "x"], 2, "a seed is a whole number from 0 on, found x"),
    (["cache", "limit"], 2, "cache limit needs a size, such as 64M"),
    (["cache", "clear", "64M"], 2, "cache clear takes no size; see cache limit"),
    (["cache", "limit", "much"], 2, "much is not a number of bytes, such as 64M"),
    (["cache", "clean"], 2, "argument action: invalid choice: 'clean' (choose from"),
    (["unknown"], 2, "there is no command unknown; commands are preview, ir, source"),
    (["explian", "{file}"], 2, "there is no command explian; did you mean explain?"),
    (["preview", "{file}", "--diffs"], 2, "preview takes no --diffs; did you mean --diff?"),
    (["preview", "{file}", "-z"], 2, "preview takes no -z; see gizml-tile preview --help"),
    (["ir"], 2, "gizml-tile: the following arguments are required: FILE[:NAME]; see gizml-tile ir --help\n"),
    (["--json"], 2, "gizml-tile: the following arguments are required: COMMAND; see gizml-tile --help\n"),
    ([], 2, "gizml-tile: say what to do: gizml-tile COMMAND; commands are preview, ir, source"),
    (["preview", "."], 2, ". is a folder; name a Python file in it"),
    (
        ["ir", SCALE, "-a", "x=f32[8"],
        2,
        "x=f32[8: a tensor is written as a type and sizes, such as x=f32[1024]",
    ),
    (["ir", SCALE, "-a", "x=f32[-8]"], 2, "x=f32[-8]: a tensor is written as a type and sizes"),
]


@pytest.mark.parametrize("arguments, code, message", MISTAKES)
def test_mistakes(file, command, arguments, code, message):
    found = command(*(argument.format(file=file) for argument in arguments))
    assert found[0] == code
    assert found[1] == ""
    assert message.format(file=file) in found[2]
    if code == 2:
        assert found[2].startswith("gizml-tile: ") and found[2].count("\n") == 1
    assert "Traceback" not in found[2]


FAILURES = [
    ("import gizml_tile as tile\nx = undefined\n", "{file}:2: NameError: name 'undefined' is not defined"),
    ("def f(:\n    pass\n", "{file}:1: SyntaxError: invalid syntax"),
    (
        "import nothing_of_this_name\n",
        "{file}:1: ModuleNotFoundError: No module named",
    ),
    ("import json\njson.loads('{{')\n", "{file}:2: JSONDecodeError: Expecting property name"),
    (
        "x = 1\nraise SystemExit(3)\n",
        "{file}:2: the file ends the process; put what runs a script",
    ),
]


@pytest.mark.parametrize("text, message", FAILURES)
def test_a_file_that_fails(tmp_path, written, command, text, message):
    file = written(text.replace("{{", "{"))
    code, out, err = command("preview", file)
    assert (code, out) == (1, "")
    assert err.startswith(message.format(file=tmp_path / file)) and err.count("\n") == 1


RAISING = """\
import gizml_tile as tile


@tile.kernel(grid=1)
def raising(p, x):
    raise ValueError("of the person")
"""


def test_an_exception_of_the_kernels_own(tmp_path, written, command):
    file = written(RAISING)
    code, out, err = command("ir", file, "-a", "x=f32[8]")
    assert (code, out, err) == (1, "", f"{tmp_path / file}:6: ValueError: of the person\n")


def test_a_mistake_of_the_library_is_not_hidden(file, command, monkeypatch):
    from gizml_tile import looking

    def broken(*args, **named):
        raise ZeroDivisionError("in the library")

    broken.__code__ = broken.__code__.replace(co_filename=looking.__file__)
    monkeypatch.setattr(looking, "tile_ir", broken)
    with pytest.raises(ZeroDivisionError):
        command("ir", f"{file}:scale", *ARGUMENTS)


def test_a_file_named_as_a_module(written, command):
    before = sys.modules["types"]
    file = written("import gizml_tile as tile\n\n\n@tile.function\ndef same(x):\n    return x\n", "types.py")
    assert command("preview", f"{file}:same")[0] == 0
    assert sys.modules["types"] is before


def test_a_file_without_kernels(written, command):
    code, _, err = command("preview", written("x = 1\n"))
    assert code == 2
    assert "has no kernels: functions under @tile.kernel or @tile.function" in err


def test_errors_name_no_line_of_what_called_the_command(file):
    """A mistake that is no line's of the kernel."""
    arguments = ["explain", f"{file}:scale", *ARGUMENTS, "--measure", "-k", "metal"]
    command = [sys.executable, "-m", "gizml_tile", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("gizml-tile: launches on metal:0 cannot be measured")


SEVERAL = """\
import gizml_tile as tile


@tile.kernel(grid=1)
def several(p, a, b, c, d, n, /, *, B):
    A, C = p.read(a, [B, B]), p.write(c, [B, B])
    D = p.read(d, [B])
    for i in range(b.shape[0]):
        C[0, i, n] = A[0, 0, i, n] + p.read(b, [B, B])[0, 0] + D[i]
"""


def test_the_example_has_tensors_as_the_kernel_takes_them(written, command):
    code, _, err = command("ir", written(SEVERAL))
    example = err.rpartition(": ")[2]
    assert code == 2
    assert example == (
        "gizml-tile ir kernels_of_a_person.py -a a=f32[4,4,64,64] -a b=f32[64,64] -a c=f32[4,64,64] "
        "-a d=f32[1024] -a n=1 -c B=64\n"
    )


CONFIGURED = """\
import gizml_tile as tile


@tile.kernel(grid=1, configs=[{"B": 8, "warps": 1}, {"B": 16}])
def configured(p, x, out, *, B, C=1):
    p.write(out, [B])[0] = p.read(x, [B])[0] * C
"""


def test_constants_of_configurations_need_not_be_given(written, command):
    tensors = ["-a", "x=f32[16]", "-a", "out=f32[16]"]
    assert " x at 8\n" in command("ir", written(CONFIGURED), *tensors)[1].replace(": ", "\n")


def test_a_launch_that_cannot_be_made_names_no_line(file, command):
    code, out, _ = command("check", f"{file}:scale", *ARGUMENTS[:2], "-a", "out=f32[100]:0", *ARGUMENTS[4:])
    assert code == 1 and out.startswith("scale: error: argument 'out' of scale cannot be written")


def test_too_much_for_the_memory(file, command):
    huge = ["-a", "x=f16[999999999999]", "-a", "out=f32[999999999999]", "-a", "factor=1"]
    code, _, err = command("bench", f"{file}:scale", *huge)
    assert code == 2 and err.startswith("gizml-tile: the tensors take 5999999999994 bytes, and ")


def test_help_is_quick_as_it_imports_little():
    program = (
        "import sys; from gizml_tile.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([each for each in ('llvmlite', 'libcst', 'rich', 'ml_dtypes', 'gizml_tile.lowering') "
        "if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_is_told(command):
    from gizml_tile import cli
    from gizml_tile.cli.parser import COMMANDS

    code, out, _ = command("--help")
    assert code == 0
    for name in COMMANDS:
        assert re.search(rf"^    {name}\b", out, re.M) and re.search(rf"^{name} ", cli.__doc__, re.M)
        assert command(name, "--help")[0] == 0
    assert command("--version")[:2] == (0, f"gizml-tile {metadata.version('gizml-tile')}\n")
