"""``completion``: what words may become, and that the shells take it."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from gizml_tile.cli.parser import COMMANDS

BIN = os.path.dirname(sys.executable)


@pytest.fixture
def complete(command):
    """What the last word of a line may become."""

    def run(line):
        code, out, err = command("completion", "zsh", "--line", line)
        assert (code, err) == (0, "")
        return out.splitlines()

    return run


def test_commands_and_options(complete):
    assert complete("gizml-tile ") == list(COMMANDS)
    assert complete("gizml-tile c") == ["check", "cache", "completion"]
    assert complete("gizml-tile preview --") == ["--help", "--diff", "--json"]
    assert complete("gizml-tile check x.py --s") == ["--seed", "--strict"]
    assert complete("gizml-tile nothing ") == []
    assert complete("gizml-tile devices ") == []


def test_values(complete):
    assert complete("gizml-tile ir x.py -k ") == ["cpu", "cuda", "hip", "metal"]
    assert complete("gizml-tile ir x.py --arch apple") == ["apple7", "apple8", "apple9"]
    assert complete("gizml-tile ir x.py -k hip --arch ")[:2] == ["gfx90a", "gfx942"]
    assert complete("gizml-tile ir x.py -k hip --arch sm") == []
    assert complete("gizml-tile bench x.py -d c") == ["cpu", "cuda"]
    assert complete("gizml-tile cache ") == ["list", "size", "limit", "clear"]
    assert complete("gizml-tile cache limit ") == []
    assert complete("gizml-tile completion ") == ["bash", "zsh", "fish"]


def test_files_and_their_kernels(file, written, tmp_path, complete):
    (tmp_path / "kernels").mkdir()
    written("", "kernels/other.py")
    (tmp_path / "notes.txt").write_text("")
    kernels = [f"{file}:{name}" for name in ("negated", "scale", "Layer.copy")]
    assert complete("gizml-tile ir ") == ["kernels/", file, *kernels]
    assert complete("gizml-tile ir kernels/") == ["kernels/other.py"]
    assert complete(f"gizml-tile ir {file}:") == kernels
    assert complete(f"gizml-tile ir {file}:L") == kernels[2:]
    assert complete(f"gizml-tile preview {file} {file}:s") == kernels[1:2]
    written("", "kernels_more.py")
    assert complete("gizml-tile ir kern") == ["kernels/", "kernels_more.py", file]


def test_parameters_of_the_kernel_that_is_named(file, complete):
    assert complete(f"gizml-tile ir {file}:scale -a ") == ["x=", "out=", "factor="]
    assert complete(f"gizml-tile ir {file}:scale -a x=f16[8] -a ") == ["out=", "factor="]
    assert complete(f"gizml-tile ir {file}:scale -a x=bf") == ["x=bf16["]
    assert complete(f"gizml-tile ir {file}:scale -c ") == ["BM=", "mode=", "warps=", "stages="]
    # Of two kernels none is meant.
    assert complete(f"gizml-tile ir {file} -a ") == []


def test_nothing_of_the_persons_runs(written, complete):
    file = written("raise SystemExit('run')\n\n@tile.kernel\ndef kept(p, x): pass\n", "raising.py")
    assert complete(f"gizml-tile ir {file}:") == [f"{file}:kept"]
    broken = written("def (\n", "broken.py")
    assert complete(f"gizml-tile ir {broken}:") == []


def test_bash_takes_what_follows_a_colon_or_an_equals_sign(file, command):
    def run(line):
        return command("completion", "bash", "--line", line)[1].splitlines()

    assert run(f"gizml-tile ir {file}:s") == ["scale"]
    assert run(f"gizml-tile ir {file}:scale -a x=bf") == ["bf16["]
    assert run(f"gizml-tile ir '{file}:s") == ["scale"]
    assert run("gizml-tile chec") == ["check"]


def test_other_shells(command):
    code, _, err = command("completion", "tcsh")
    assert code == 2 and "invalid choice: 'tcsh'" in err


def typed(argv, *lines):
    """What a shell shows when lines are typed."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="dumb", PATH=f"{BIN}:{os.environ['PATH']}")
        os.execvp(argv[0], argv)
    shown = b""
    for line, wanted in lines:
        os.write(terminal, line.encode())
        until = time.monotonic() + 20
        while wanted not in shown.replace(b"\a", b"") and time.monotonic() < until:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 1 << 12)
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.replace(b"\a", b"")


def need(shell):
    """Skip a test whose shell is missing, but not where all tests must run, as in .ci/run."""
    if shutil.which(shell) is None and os.environ.get("GIZML_TILE_TESTS") != "all":
        pytest.skip(f"no {shell} here")


@pytest.mark.parametrize(
    "argv, begin",
    [(["bash", "--norc", "--noprofile"], ""), (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u; ")],
)
def test_shells_at_the_tab_key(file, argv, begin):
    need(argv[0])
    load = f'{begin}eval "$(gizml-tile completion {argv[0]})"; echo rea""dy\n'
    whole = f"{file}:scale".encode()
    assert whole in typed(argv, (load, b"ready"), (f"gizml-tile ir {file}:sc\t", whole))


def test_fish(file):
    need("fish")
    script = f"gizml-tile completion fish | source; complete -C 'gizml-tile ir {file}:sc'"
    around = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=around)
    assert done.stdout == f"{file}:scale\tkernel\n"
