"""The arrows between the parts go one way, and importing the package stays cheap."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gizml_tile
import gizml_tile.frontend
import gizml_tile.lowering

PARTS = {
    "gizml_tile.frontend": Path(gizml_tile.frontend.__file__).parent,
    "gizml_tile.lowering": Path(gizml_tile.lowering.__file__).parent,
    "gizml_tile": Path(gizml_tile.__file__).parent,
}
# What is joined by `kernel` and the modules that stand directly under it: all of a launch.
JOINING = set("__init__ dispatch kernel build exact gpu looking simulating cli tune specialise".split())
JOINING |= {"viewing"}
# The tile IR, what says how it is traced and checked, and its text.
TILE_IR = {"nodes", "dtypes", "errors", "target", "rounding", "layout", "text", "recording", "index_bits"}


def modules(part: str):
    folder = PARTS[part]
    for path in sorted(folder.rglob("*.py")):
        name = ".".join((part, *path.relative_to(folder).with_suffix("").parts))
        if part == "gizml_tile" and name.startswith(("gizml_tile.frontend.", "gizml_tile.lowering.")):
            continue
        yield name.removesuffix(".__init__"), path


def imports(name: str, path: Path):
    """Every module of the package that a module imports, at its top or inside a function."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    typing_only = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            found = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for module in found:
            if module.split(".")[0] == "gizml_tile" and module != "gizml_tile":
                yield module


def is_under(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


ALL = [(name, path) for part in PARTS for name, path in modules(part)]


@pytest.mark.parametrize("name, path", ALL, ids=[name for name, _ in ALL])
def test_arrows_go_one_way(name, path):
    for module in imports(name, path):
        if is_under(name, "gizml_tile.frontend"):
            allowed = is_under(module, "gizml_tile.frontend") or is_under(module, "gizml_tile.errors")
        elif is_under(name, "gizml_tile.lowering"):
            allowed = is_under(module, "gizml_tile.lowering") or any(
                is_under(module, f"gizml_tile.{each}") for each in TILE_IR
            )
        elif is_under(name, "gizml_tile.runtime"):
            allowed = any(is_under(module, f"gizml_tile.{each}") for each in ("runtime", "dtypes", "errors"))
        elif is_under(name, "gizml_tile.layout"):
            allowed = any(is_under(module, f"gizml_tile.{each}") for each in ("layout", "errors"))
        else:
            joins = is_under(module, "gizml_tile.frontend") or is_under(module, "gizml_tile.lowering")
            stands = name.removeprefix("gizml_tile.").partition(".")[0]
            allowed = not joins or stands in JOINING or name == "gizml_tile"
        assert allowed, f"{name} imports {module}"


def test_frontend_and_lowering_are_seen():
    names = {name for name, _ in ALL}
    assert {"gizml_tile.frontend", "gizml_tile.lowering", "gizml_tile.kernel"} <= names
    assert len(names) > 30


IMPORT = """
import sys, time
start = time.process_time()
import gizml_tile
seconds = time.process_time() - start
print(seconds, *sys.modules)
"""
# What only a rewrite, a plan, a picture or a launch on a GPU needs, with all that stands below.
LATER = (
    "libcst llvmlite rich ml_dtypes platformdirs torch cuda hip subprocess difflib gizml_tile.lowering "
    "gizml_tile.frontend.rewriting gizml_tile.runtime.cuda gizml_tile.cli"
).split()


def test_importing_is_cheap(tmp_path):
    """As a person imports it: Python keeps the bytecode of a first import."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times = []
    for _ in range(4):
        result = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, env=environment
        )
        seconds, *loaded = result.stdout.split()
        assert [name for name in loaded if any(is_under(name, each) for each in LATER)] == []
        # The package of layouts itself is a table of names.
        assert [name for name in loaded if name.startswith("gizml_tile.layout.")] == []
        times.append(float(seconds))
    assert min(times) < 0.3


def test_public_names():
    names = (
        "kernel function run tune ir source explain simulate cdiv unroll layout Program Tile Index In Out "
        "DType TileError F64 F32 F16 BF16 FP8 E5M2 MASK I8 U8 I16 U16 I32 U32 I64 U64"
    )
    assert set(gizml_tile.__all__) == set(names.split())
    for name in gizml_tile.__all__:
        assert getattr(gizml_tile, name) is not None
