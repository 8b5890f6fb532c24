"""Names of files in the text: the assembler takes ASCII alone, whatever a person's folders are called."""

import pytest
from ptxas import assemble
from small_kernels import SmallKernel

from gizml_tile.dtypes import F32
from gizml_tile.errors import Place
from gizml_tile.lowering.emit.ptx import emit


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/home/jürgen/核.py", "/home/j?rgen/?.py"),
        ('a "b".py', "a ?b?.py"),
        ("C:\\new\\303 folder\\x.py", "C:\\new\\303 folder\\x.py"),
        ("two\nlines \udcff.py", "two?lines ?.py"),
    ],
)
def test_any_name_assembles(name, told):
    build = SmallKernel("sm_90a")
    build.place = Place(name, 3, 5)
    build.output(build.add(build.input(F32), build.constant(1.0, F32)))
    text = emit(build.kernel("add")).text
    assert text.isascii() and f'.file 1 "{told}"' in text.splitlines()
    assemble(text, "sm_90a")
