"""Random tile programs, planned and expanded for a GPU, assemble for every architecture."""

import re
import sys
from pathlib import Path

import pytest
from ptxas import ARCHS, assemble

import gizml_tile as tile

sys.path.append(str(Path(__file__).parents[1] / "random_programs"))

from execute import compile_body
from generate import generate
from generate_products import generate_products
from tensors import build_all

# The programs count what lies past ragged ends on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
EACH = 5


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("make", [generate, generate_products], ids=["programs", "products"])
def test_random_programs(make, arch):
    assembled = 0
    for seed in range(ARCHS.index(arch), EACH * len(ARCHS), len(ARCHS)):
        program = make(seed)
        tensors = {name: view for name, (_, view) in build_all(program.tensors).items()}
        try:
            text = tile.source(list(program.grid), compile_body(program, tensors), kind="cuda", arch=arch)
        except tile.TileError as error:
            assert "registers" in str(error), f"seed {seed}"  # a tile that no thread can hold
            continue
        # A launch has several modules where its programs run one after the other.
        for module in re.split(r"(?m)^(?=\.version )", text)[1:]:
            assert assemble(module, arch).warnings == (), f"seed {seed}"
        assembled += 1
    assert assembled >= EACH - 2
