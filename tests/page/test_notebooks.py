"""Kernels and their texts in notebooks: shown line by line, and strings everywhere else."""

import copy
import pickle

import numpy as np
import pytest

import gizml_tile as tile


@tile.kernel(grid=1)
def doubled(p, x, y):
    # <b>Kept as text.</b>
    t = p.read(x, [8])[0]
    p.write(y, [8])[0] = t + t if p.id(0) >= 0 else t


@tile.function
def halved(t):
    return t / 2


TENSORS = np.zeros((2, 8), np.float32)
TEXTS = {
    "preview": doubled.preview,
    "diff": lambda: doubled.preview(diff=True),
    "ir": lambda: doubled.ir(*TENSORS),
    "ir of a GPU": lambda: doubled.ir(*TENSORS, kind="cuda"),
    "source": lambda: doubled.source(*TENSORS),
    "source of a GPU": lambda: doubled.source(*TENSORS, kind="metal"),
    "explain": lambda: doubled.explain(*TENSORS, kind="cuda"),
    "ir of a body": lambda: tile.ir(1, lambda p: p.write(TENSORS[0], [8]).put(p.zeros([1, 8]), [0])),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_strings_that_notebooks_show_by_lines(name):
    text = TEXTS[name]()
    assert isinstance(text, str) and text == str(text) and hash(text) == hash(str(text))
    assert repr(text) == repr(str(text)) and type(text + "") is str
    assert pickle.loads(pickle.dumps(text)) == text == copy.deepcopy(text)
    shown = text._repr_html_()
    assert shown.startswith("<pre") and shown.count("\n") == text.count("\n") and "<b>" not in shown


@pytest.mark.parametrize("kernel", [doubled, halved])
def test_kernels_are_shown_as_written_and_as_they_are_meant(kernel):
    shown = kernel._repr_html_()
    assert "as written" in shown and "explicit program" in shown
    assert f"def {kernel.__name__}" in shown
    assert kernel is halved or "t.add(t)" in shown
    assert "<b>Kept" not in shown
