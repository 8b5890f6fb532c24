"""What plans, expands, simplifies and simulates asks a target for what it has, and knows no vendor."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gizml_tile.lowering

LOWERING = Path(gizml_tile.lowering.__file__).parent
NEUTRAL = ("planning", "expand", "passes", "tile_passes", "kernel_ir", "simulate")
WORDS = re.compile(
    r"cuda|nvidia|ptx|sm_\d|wgmma|ldmatrix|cp\.async|mma\.sync|\bhip\b|\bamd|gfx\d|rdna|cdna|mfma|wmma|metal|apple|simdgroup",
    re.IGNORECASE,
)
FILES = sorted(path for part in NEUTRAL for path in (LOWERING / part).glob("**/*.py"))


def code(path: Path) -> str:
    """A file without its comments and docstrings, which may say where a fact was learnt."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(LOWERING).as_posix())
def test_code_names_no_vendor(path: Path) -> None:
    found = WORDS.findall(code(path))
    assert not found, f"{path.name} speaks of {', '.join(found)}; ask the target for a fact or an ability"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(LOWERING).as_posix())
def test_code_asks_for_no_kind_of_device(path: Path) -> None:
    """``target.kind`` and ``target.arch`` are for texts alone."""
    asked = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare | ast.Match | ast.Subscript)
        and re.search(r"target\.(kind|arch)\b", ast.unparse(node))
    ]
    assert not asked, f"{path.name} decides by {', '.join(asked)}"


def test_files_are_found() -> None:
    assert len(FILES) > 60
