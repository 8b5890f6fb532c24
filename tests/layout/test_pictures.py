"""Pictures of layouts as SVG: every element is there, in its holder's colour, with what the hover tells."""

import xml.etree.ElementTree as ElementTree

import pytest

from gizml_tile import layout
from gizml_tile.layout import Layout, Linear, Swizzle, draw, make_composed_layout, staged

SVG = "{http://www.w3.org/2000/svg}"


def cells(text):
    """Each cell's title, letters and colour."""
    root = ElementTree.fromstring(text)
    (group,) = root.findall(f"{SVG}g")
    found = []
    for cell in group:
        letters = cell.find(f"{SVG}text")
        rectangle = cell.find(f"{SVG}rect")
        shown = None if letters is None else letters.text
        found.append((cell.find(f"{SVG}title").text, shown, rectangle.get("fill"), cell))
    return found


def test_threads_are_colours_and_registers_letters():
    tile = Linear.of((2, 4), register=[(0, 1)], lane=[(0, 2), (1, 0)])
    found = cells(draw(tile, form="svg"))
    assert [shown for _, shown, _, _ in found] == ["0", "1"] * 4
    colours = [colour for _, _, colour, _ in found]
    assert colours[0::2] == colours[1::2] and len(set(colours)) == 4
    assert found[3][0] == "[0, 3] thread 1: warp 0, lane 1, register 1"


def test_replicas_are_marked():
    once = Linear.of((1, 2), lane=[(0, 1)])
    twice = Linear.of((1, 2), lane=[(0, 1)], warp=[(0, 0)])
    for tile, marks in ((once, 0), (twice, 2)):
        found = cells(draw(tile, form="svg"))
        assert sum(cell.find(f"{SVG}path") is not None for *_, cell in found) == marks
    assert found[0][0].endswith("; also 2:0")


@pytest.mark.parametrize("swizzled", [False, True])
def test_banks_are_colours_and_show_the_swizzle(swizzled):
    plain = Layout((8, 32), (32, 1))
    memory = make_composed_layout(Swizzle(3, 2, 3), plain) if swizzled else plain
    found = cells(draw(memory, form="svg", element_bytes=4))
    first_column = [colour for title, _, colour, _ in found if title.split(",")[1].startswith(" 0]")]
    assert len(first_column) == 8 and len(set(first_column)) == (8 if swizzled else 1)
    assert found[1][0] == "[0, 1] at 1, byte 4, bank 1"
    assert draw(memory, form="text", element_bytes=4).splitlines()[1].split()[:3] == ["0", "0:0", "1:1"]


def test_staged_rows_are_drawn_with_their_banks():
    found = cells(draw(staged(8, 128), form="svg", element_bytes=2))
    assert len(found) == 8 * 32 and len({colour for _, _, colour, _ in found}) == 32


def test_neighbours_of_a_thread_are_one_cell_where_there_are_many():
    vectors = Linear.of(
        (128, 128),
        register=[(0, 1), (0, 2), (0, 4), (32, 0), (64, 0)],
        lane=[(0, 8), (0, 16), (0, 32), (0, 64), (1, 0)],
        warp=[(2, 0), (4, 0), (8, 0), (16, 0)],
    )
    text = draw(vectors, form="svg")
    assert len(cells(text)) == 128 * 16 and len(text) < 1_000_000
    assert "[0, 0] thread 0: warp 0, lane 0, register 0 to [0, 7]" in cells(text)[0][0]


def test_what_is_left_out_is_told():
    text = draw(Linear.of((4, 4), register=[(0, 1), (0, 2), (1, 0), (2, 0)]), limit=(2, 3), form="svg")
    assert len(cells(text)) == 6 and "the first 2 rows and 3 columns" in text


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match="form is 'text' or 'svg', found 'png'"):
        draw(Layout(4, 1), form="png")


@pytest.mark.parametrize(
    "value",
    [Layout((2, 2), (2, 1)), make_composed_layout(Swizzle(1, 0, 1), Layout((2, 2), (2, 1))), staged(2, 32)],
    ids=str,
)
def test_notebooks_show_layouts_as_pictures(value):
    shown = value._repr_svg_()
    assert shown == layout.draw(value, form="svg") and ElementTree.fromstring(shown).tag == f"{SVG}svg"
