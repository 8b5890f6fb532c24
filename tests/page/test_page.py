"""What a page has: the texts as they are, their links in every direction, and drawings."""

import inspect
import json
import re

import numpy as np
import paged_kernels
import pytest
from paged_kernels import CASES, IDS, TARGETS, matmul

import gizml_tile as tile
from gizml_tile import gpu, looking, viewing
from gizml_tile.page import data, render
from gizml_tile.page.render import json_of


def page_of(name, kind, arch):
    kernel, tensors, constants = CASES[name]
    request = kernel._request(kernel.grid, tensors, constants)
    return viewing.page(request, kernel._source, kernel._rewritten, kind, arch)


@pytest.fixture(scope="module")
def pages():
    return {(name, target): page_of(name, *target) for name in ("matmul", "softmax") for target in TARGETS}


def panes(page):
    return {pane.name: pane for pane in page.panes}


def lines_of(page, pane, line):
    """The numbers of a pane's lines that are linked to a line of the person's."""
    found = []
    for number, link in enumerate(pane.links):
        places = [page.places[place] for place in page.links[link]] if link >= 0 else []
        if any(page.files[place.file] == paged_kernels.__file__ and place.line == line for place in places):
            found.append(number)
    return found


def line_with(text):
    """The number of the one line of the kernels' file that has a text."""
    lines = inspect.getsource(paged_kernels).splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if text in line)
    return number


@pytest.mark.parametrize("target", TARGETS, ids=IDS)
@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_panes_hold_the_texts_as_they_are(pages, name, target):
    page, (kernel, tensors, _) = pages[name, target], CASES[name]
    found = panes(page)
    kind, arch = target
    wanted = ["source", "explicit", "tile", "kernel", "text"]
    assert list(found) == (wanted if kind != "cpu" else [each for each in wanted if each != "kernel"])
    assert "\n".join(found["text"].lines) == kernel.source(*tensors, kind=kind, arch=arch).rstrip("\n")
    assert "\n".join(found["explicit"].lines) == kernel.preview().rstrip("\n")
    ir = kernel.ir(*tensors, kind=kind, arch=arch)
    assert len(found["tile"].lines) == len(ir.splitlines())
    assert all(line.startswith(own) for line, own in zip(ir.splitlines(), found["tile"].lines, strict=True))
    for pane in page.panes:
        assert len(pane.lines) == len(pane.links)
        assert all(-1 <= link < len(page.links) for link in pane.links)


@pytest.mark.parametrize("target", TARGETS, ids=IDS)
@pytest.mark.parametrize(
    "name, text, inside",
    [
        ("matmul", "acc += A[i, k] @ B[k, j]", {"explicit": ".dot(", "tile": "dot"}),
        ("matmul", "for k in range(A.blocks(1))", {"explicit": "p.fold(", "tile": "loop"}),
        ("matmul", "C[i, j] = shifted(", {"explicit": "C.put(", "tile": "put"}),
        ("matmul", "return t + by", {"tile": "add"}),
        ("softmax", ").exp()", {"explicit": ".exp()", "tile": "exp"}),
        ("softmax", "- row.max(1)", {"explicit": ".max(1)", "tile": "max"}),
        ("softmax", "powers / powers.sum(1)", {"explicit": ".div(", "tile": "div"}),
    ],
)
def test_a_line_is_linked_to_what_became_of_it(pages, target, name, text, inside):
    page, line = pages[name, target], line_with(text)
    found = panes(page)
    for pane in page.panes:
        # A helper's own lines are not in the kernel's explicit program.
        if pane.name == "explicit" and "explicit" not in inside:
            continue
        linked = lines_of(page, pane, line)
        assert linked, f"nothing in {pane.name} comes from {text}"
        shown = "\n".join(pane.lines[number] for number in linked)
        assert inside.get(pane.name, "") in shown
    (own,) = lines_of(page, found["source"], line)
    assert text in found["source"].lines[own]


@pytest.mark.parametrize("target", [each for each in TARGETS if each[0] != "cpu"], ids=IDS[1:])
@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_links_are_those_of_the_nodes_and_the_emitter(pages, name, target):
    """In both directions: each line of a text has the places of what it is of, and no line has others."""
    page, (kernel, tensors, _) = pages[name, target], CASES[name]
    seen = looking.look_at(kernel._request(kernel.grid, tensors, {}), *target, ())
    program, layout = seen.program, seen.gpu_layout()
    made = {place_of(node.place) for node in gpu.plan(program, layout).program.body.walk() if node.place}
    done = {place_of(each.place) for each in gpu.kernel(program, layout).body.walk() if each.place}
    emitted = gpu.emitted(program, layout)
    told = {place_of(place) for _, place in emitted.origins if place}
    for name, places in (("tile", made), ("kernel", done), ("text", told)):
        links = {link for link in panes(page)[name].links if link >= 0}
        linked = {line for link in links for line in lines_of_link(page, link)}
        assert linked == {line for each in places for line in each}


def place_of(place):
    """All lines of a place and of the calls that led there."""
    return tuple(
        (each.filename, line)
        for each in (place, *place.callers())
        for line in range(each.line, max(each.line, each.end_line) + 1)
    )


def lines_of_link(page, link):
    return [(page.files[page.places[each].file], page.places[each].line) for each in page.links[link]]


@pytest.mark.parametrize("target", [("cpu", None), ("cuda", "sm_90a")])
def test_a_launch_of_several_programs_is_shown_whole(target):
    page, (kernel, tensors, _) = page_of("totals", *target), CASES["totals"]
    kind, arch = target
    text = panes(page)["text"]
    source = kernel.source(*tensors, kind=kind, arch=arch).rstrip("\n").split("\n")
    # What is done before and after all programs comes from the line of the call.
    assert [line for line in text.lines if ".loc" not in line] == [
        line for line in source if ".loc" not in line
    ]
    assert sum("entry" in line for line in text.lines) > 1
    assert lines_of(page, text, line_with("deterministic=True"))


def test_the_source_has_the_functions_that_lines_are_of(pages):
    source = panes(pages["matmul", ("cuda", "sm_90a")])["source"]
    text = "\n".join(source.lines)
    assert "@tile.function\ndef shifted(t, by):" in text and "acc += A[i, k] @ B[k, j]" in text
    assert "def softmax" not in text


def test_a_kernel_may_be_a_lambda_and_stand_inside_of_a_function():
    x = np.zeros(8, np.float32)
    copy = tile.kernel(grid=1)(
        lambda p, x, y: p.write(y, [8]).put(
            p.read(x, [8])[0] * 2,  # kept on a line of its own
            [0],
        )
    )
    request = copy._request(1, [x, x.copy()], {})
    found = panes(viewing.page(request, copy._source, copy._rewritten, "cuda", "sm_80"))
    assert [line.strip() for line in found["source"].lines] == [
        "lambda p, x, y: p.write(y, [8]).put(",
        "p.read(x, [8])[0] * 2,  # kept on a line of its own",
        "[0],",
        ")",
    ]
    assert "mul" in "\n".join(found["tile"].lines)


def test_tiles_have_their_drawings(pages):
    page = pages["matmul", ("cuda", "sm_80")]
    tile_ir = panes(page)["tile"]
    reads = [number for number, line in enumerate(tile_ir.lines) if " read " in line]
    kinds = {type(page.drawings[each].layout) for line in reads for each in tile_ir.drawings[line]}
    assert kinds == {data.Memory, data.Registers}
    for drawing in page.drawings:
        rows, columns = drawing.shape
        layout = drawing.layout
        if isinstance(layout, data.Registers):
            bits = [*layout.register, *layout.lane, *layout.warp]
            assert all(0 <= row < rows and 0 <= column < columns for row, column in bits)
            assert 1 << len(layout.lane) == 32
        else:
            assert len({*layout.rows, *layout.columns}) == (rows * columns).bit_length() - 1
            assert layout.banks == 32 and layout.element_bytes == 2


def test_the_timeline_of_a_loop_tells_who_does_what(pages):
    (plain,) = pages["matmul", ("cuda", "sm_80")].timelines
    assert (plain.blocks, plain.slots, plain.ahead) == (("a", "b"), 2, 1)
    (track,) = plain.tracks
    kinds = [step.kind for step in track.steps]
    assert kinds[:2] == ["wait", "meet"]
    assert kinds.index("fill") < kinds.index("read") < kinds.index("multiply")
    roles = pages["matmul", ("cuda", "sm_90a")].timelines
    titles = [track.title for each in roles for track in each.tracks]
    assert titles == ["multiply 0, 4 warps and multiply 1, 4 warps", "bring, 4 warps"]
    for timeline in roles:
        assert timeline.slots == timeline.ahead + timeline.kept
        bring = next(track for track in timeline.tracks if track.title.startswith("bring"))
        assert [step.kind for step in bring.steps][-1] == "fill"


def test_decisions_have_one_variant_chosen(pages):
    page = pages["matmul", ("cuda", "sm_90a")]
    assert any(each.title.startswith("dot") for each in page.decisions)
    for decision in page.decisions:
        assert decision.remark or [each.verdict for each in decision.variants].count("chosen") == 1
        assert decision.link >= 0


def test_a_page_asks_nothing_of_the_network_and_is_small():
    tensors = [np.zeros(shape, np.float16) for shape in ((4096, 4096), (4096, 4096), (4096,), (4096, 4096))]
    page = matmul.view(*tensors, kind="cuda", arch="sm_90a")
    assert len(page) < 3_000_000
    shell = re.sub(r'<script type="application/json" id="data">.*?</script>', "", page, flags=re.DOTALL)
    addresses = set(re.findall(r"https?://[^\"' ]+", shell))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which nothing is fetched from
    assert not re.search(r"@import|url\(|\bsrc=|<link\b|\bfetch\(|XMLHttpRequest|\bimport\(", shell)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("target", TARGETS, ids=IDS)
def test_the_persons_words_stay_words(target):
    page = page_of("hostile", *target)
    assert any(paged_kernels.HOSTILE in line for line in panes(page)["source"].lines)
    text = render(page)
    assert "<img" not in text and text.count("</script>") == 2
    held = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(held) == json.loads(json.dumps(json.loads(json_of(page))))
    assert json.loads(held)["panes"][0]["lines"] == list(panes(page)["source"].lines)


def test_a_title_cannot_stand_for_a_part_of_the_page():
    page = data.Page("{data}<b>", "cpu", (), (), (), (), ())
    assert "<title>{data}&lt;b&gt; for cpu</title>" in render(page)


def test_notebooks_show_a_page_in_a_frame():
    x, y = np.zeros((2, 8), np.float32)
    page = CASES["hostile"][0].view(x, y)
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count('"') == 4 and "<script" not in shown


def test_the_command_writes_the_page(tmp_path, capsys, monkeypatch):
    from gizml_tile.cli import main

    monkeypatch.chdir(tmp_path)
    given = ["-a", "x=f32[64,200]", "-a", "y=f32[64,200]"]
    assert main(["view", f"{paged_kernels.__file__}:softmax", *given, "--arch", "sm_80"]) == 0
    assert "softmax.html" in capsys.readouterr().out
    assert (tmp_path / "softmax.html").read_text().startswith("<!doctype html>")
    assert main(["view", f"{paged_kernels.__file__}:softmax", *given, "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert main(["view", f"{paged_kernels.__file__}:softmax", *given, "-o", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_view_is_of_this_kernel_and_its_configuration():
    x = np.zeros(64, np.float32)

    @tile.kernel(grid=1, configs=[{"B": 32}])
    def copy(p, x, y, *, B):
        p.write(y, [B])[0] = p.read(x, [B])[0]

    assert "[1, 32]" in copy[2].view(x, x.copy(), kind="cuda", arch="sm_80")
