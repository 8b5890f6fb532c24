"""What is installed: every package is listed, and a wheel holds every module."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {"gizml_tile": "gizml_tile", "frontend": "gizml_tile/frontend", "lowering": "gizml_tile/lowering"}
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def sources():
    """Every module's path in the repository, and in an installation."""
    for folder, installed in PARTS.items():
        for path in (ROOT / folder).rglob("*.py"):
            yield path, f"{installed}/{path.relative_to(ROOT / folder).as_posix()}"


def test_every_folder_is_a_listed_package():
    folders = {Path(installed).parent.as_posix().replace("/", ".") for _, installed in sources()}
    assert sorted(SETTINGS["tool"]["setuptools"]["packages"]) == sorted(folders)
    for path, _ in sources():
        assert path.with_name("__init__.py").exists(), f"{path.parent} has no __init__.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the repository, built beside it so that nothing is left in it."""
    copy = tmp_path_factory.mktemp("repository")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in PARTS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    build = (
        "import sys; from setuptools import build_meta; print(build_meta.build_wheel('.'), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return copy / done.stderr.splitlines()[-1]


def test_a_wheel_holds_every_module(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assets = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gizml_tile/page/assets").iterdir()}
    assert len(assets) > 5
    assert held == {installed for _, installed in sources()} | {"gizml_tile/py.typed"} | assets


def test_an_installed_wheel_runs_a_kernel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, gizml_tile as tile, sys\n"
        "@tile.kernel(grid=1)\n"
        "def double(p, x, y):\n"
        "    p.write(y, [8])[0] = p.read(x, [8])[0] * 2\n"
        "x, y = np.arange(8, dtype=np.float32), np.empty(8, np.float32)\n"
        "double(x, y)\n"
        "assert list(y) == list(x * 2)\n"
        "print(double.source(x, y, kind='cuda', arch='sm_90a'))\n"
        "print(double.simulate(x, y, kind='cuda', arch='sm_90a'))\n"
        "own = [module for name, module in sys.modules.items() if name.startswith('gizml_tile')]\n"
        "assert all(module.__file__.startswith(sys.path[1]) for module in own)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "GIZML_TILE_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ".target sm_90a" in done.stdout


def test_a_checkout_is_whole_where_nothing_is_installed():
    """Python takes the checkout's folder for the package wherever someone stands in it."""
    program = (
        "import sys\n"
        "sys.meta_path = [each for each in sys.meta_path if 'editable' not in repr(each).lower()]\n"
        "import gizml_tile.frontend, gizml_tile.lowering\n"
        "print(gizml_tile.__file__, gizml_tile.frontend.__file__, gizml_tile.lowering.__file__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [Path(each).parent for each in done.stdout.split()]
    assert found == [ROOT / "gizml_tile", ROOT / "frontend", ROOT / "lowering"]
