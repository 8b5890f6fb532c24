"""Every line of a target's text knows which line of the person's it comes from."""

import re

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import build, gpu, looking
from gizml_tile.errors import Place
from gizml_tile.lowering.emit import amdgpu, metal, ptx
from gizml_tile.lowering.emit.lines import Lines, origins, places_of
from gizml_tile.runtime.host import host

EMITTERS = {"cuda": ptx, "hip": amdgpu, "metal": metal}
TARGETS = [("cpu", None), ("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")]


@tile.kernel(grid=lambda c, **_: tile.cdiv(c.shape[0], 64))
def product(p, a, b, c, *, K=64):
    i = p.id(0)
    A, B = p.read(a, [64, K]), p.read(b, [K, 64])
    acc = p.zeros([64, 64])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, 0]
    scaled = acc.exp()
    p.write(c, [64, 64])[i, 0] = scaled


def emitted(kind, arch):
    tensors = [np.zeros((128, 128), np.float16) for _ in range(3)]
    seen = looking.look_at(product._request(product.grid, tensors, {}), kind, arch, ())
    if kind == "cpu":
        return build._emit(seen.program, seen.layout(), host())
    return EMITTERS[kind].emit(gpu.kernel(seen.program, seen.gpu_layout()))


@pytest.mark.parametrize("kind, arch", TARGETS)
def test_lines_of_the_text_come_from_the_persons(kind, arch):
    found = emitted(kind, arch)
    places = places_of(found.text, found.origins)
    assert len(places) == len(found.text.split("\n"))
    assert {place.filename for place in places if place} == {__file__}
    lines = {place.line - product.__wrapped__.__code__.co_firstlineno for place in places if place}
    assert {6, 7, 8} <= lines <= set(range(2, 9))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lines_agree_with_what_a_debugger_is_told(arch):
    found = emitted("cuda", arch)
    told = 0
    for line, place in zip(found.text.split("\n"), places_of(found.text, found.origins), strict=True):
        if (located := re.match(r"\.loc \d+ (\d+) (\d+)", line)) is not None:
            assert place is not None and (str(place.line), str(place.column)) == located.groups()
            told += 1
    assert told > 5


def test_inserted_lines_come_from_where_the_line_before_does():
    lines = Lines()
    here, there = Place("file.py", 1), Place("file.py", 2)
    lines.append("a")
    before = lines.come_from(here)
    lines.append("b")
    lines.come_from(there)
    lines += ["c", "d"]
    lines.come_from(before)
    lines.append("e")
    lines.insert_all(2, ["x", "y"])
    assert lines == ["a", "b", "x", "y", "c", "d", "e"]
    text = "\n".join(["head\nhead", *lines, "end"])
    found = places_of(text, origins(["head\nhead"], lines, "end"))
    assert found == [None, None, None, here, here, here, there, there, None, None]
