"""The page in a real browser: links in every direction, search, keys, drawings, and how soon it is there."""

import os
import time

import numpy as np
import pytest
from browser import Browser, executable
from paged_kernels import CASES, matmul

# Where all tests must run, as in .ci/run, a missing browser is an error of its own.
_REQUIRED = os.environ.get("GIZML_TILE_TESTS") == "all"
pytestmark = pytest.mark.skipif(
    executable() is None and not _REQUIRED,
    reason="there is no Chromium on the PATH; Debian's package chromium brings one",
)

SOURCE = "[data-name=source]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    tensors = [np.zeros(shape, np.float16) for shape in ((4096, 4096), (4096, 4096), (4096,), (4096, 4096))]
    for name, kind, arch in (("sm_90a", "cuda", "sm_90a"), ("sm_80", "cuda", "sm_80"), ("cpu", "cpu", None)):
        (folder / f"{name}.html").write_text(matmul.view(*tensors, kind=kind, arch=arch))
    kernel, tensors, _ = CASES["hostile"]
    (folder / "hostile.html").write_text(kernel.view(*tensors))
    return folder


@pytest.fixture(scope="module")
def browser(folder):
    with Browser(folder / "profile") as found:
        yield found


@pytest.fixture
def page(browser, folder, request):
    """A fresh page of matmul, for sm_90a or what the test asks for."""
    browser.open(folder / f"{getattr(request, 'param', 'sm_90a')}.html")
    return browser


def lit(page, name="on"):
    """The texts of the lines that are lit, by pane."""
    return page.run(
        "Object.fromEntries([...document.querySelectorAll('.pane')].map(pane => [pane.dataset.name, "
        f"[...pane.querySelectorAll('.row.{name} code')].map(line => line.textContent)]))"
    )


def row(page, pane, text):
    """The selector of the first line of a pane that has a text."""
    number = page.run(
        f"panes.find(pane => pane.data.name === '{pane}').data.lines"
        f".findIndex(line => line.includes({text!r}))"
    )
    assert number >= 0
    return f"[data-name={pane}] [data-line='{number}']"


def test_a_page_is_there_at_once(browser, folder):
    """From the request to a page that answers the mouse; again where the machine was busy with others."""
    times = []
    while len(times) < 10 and min(times, default=9) >= 1:
        begun = time.perf_counter()
        browser.open(folder / "sm_90a.html")
        times.append(time.perf_counter() - begun)
    assert min(times) < 1


@pytest.mark.parametrize("page", ["sm_90a", "cpu"], indirect=True)
def test_a_line_lights_up_what_became_of_it_and_back(page):
    page.point(*page.middle(row(page, "source", "acc += A[i, k]")))
    down = lit(page)
    assert down["source"] == ["        acc += A[i, k] @ B[k, j]"]
    assert down["explicit"] == ["        acc = acc.add(A.at([i, k]).dot(B.at([k, j])))"]
    assert any("dot" in line for line in down["tile"]) and len(down["text"]) > 10
    for pane in down:
        # From each text the same lines, as they all come from one line alone.
        link = page.run(f"document.querySelector('[data-name={pane}] .row.on').dataset.line")
        page.point(5, 5)
        assert not any(lit(page).values())
        page.point(*page.middle(f"[data-name={pane}] [data-line='{link}']"))
        assert lit(page) == down, pane


def test_lines_of_the_text_are_linked_as_the_data_say(page):
    """All lines at once: what lights up with a line is what has a place in common with it."""
    wrong = page.run(
        """(() => {
          let wrong = 0;
          const rows = [...document.querySelectorAll('.row')];
          for (const link of page.links.keys()) {
            hover(link);
            const places = new Set(page.links[link]);
            for (const row of rows) {
              const own = Number(row.dataset.link);
              const meets = own >= 0 && page.links[own].some(place => places.has(place));
              if (meets !== row.classList.contains('on')) wrong++;
            }
          }
          return wrong;
        })()"""
    )
    assert wrong == 0


def test_a_kept_line_brings_its_lines_into_view(page):
    page.point(*page.middle(row(page, "source", "acc += A[i, k]")), click=True)
    page.point(5, 5)
    for pane in ("explicit", "tile", "kernel", "text"):
        assert page.run(
            f"""(() => {{
              const box = document.querySelector('[data-name={pane}] .code').getBoundingClientRect();
              return [...document.querySelectorAll('[data-name={pane}] .row.pin')].some(each => {{
                const row = each.getBoundingClientRect();
                return row.top >= box.top && row.bottom <= box.bottom + 1;
              }});
            }})()"""
        ), pane
    assert page.run("location.hash").startswith("#line")
    page.press("Escape")
    assert not any(lit(page, "pin").values())


def test_search_finds_in_all_panes_and_steps_through(page):
    page.press("/", "/")
    assert page.run("document.activeElement.id") == "search"
    page.ask("Input.insertText", text="DOT")
    found = lit(page, "hit")
    assert found["tile"] and found["explicit"] and not found["source"]
    assert all("dot" in line.lower() for lines in found.values() for line in lines)
    count = sum(map(len, found.values()))
    assert page.run("document.getElementById('hits').value") == f"{count} lines"
    page.press("Enter")
    assert page.run("document.getElementById('hits').value") == f"1 of {count}"
    page.press("Enter")
    assert page.run("document.querySelectorAll('.row.here').length") == 1
    page.press("Escape")
    assert not any(lit(page, "hit").values())


def test_keys_move_along_the_lines(page):
    page.press("1", "1")
    for _ in range(20):
        page.press("ArrowDown")
        if lit(page)["source"] == ["        acc += A[i, k] @ B[k, j]"]:
            break
    assert lit(page)["text"]
    page.press("Enter", "\\r")
    assert lit(page, "pin")["tile"]
    page.press("1", "1")
    assert page.run("panes.filter(pane => !pane.element.hidden).length") == 1
    page.press("1", "1")
    assert page.run("panes.filter(pane => pane.element.hidden).length") == 0


def test_borders_between_panes_can_be_dragged(page):
    width = "document.querySelector('.column').offsetWidth"
    before = page.run(width)
    x, y = page.middle(".split:not(.across)")
    for kind, at in (("mousePressed", x), ("mouseMoved", x + 120), ("mouseReleased", x + 120)):
        page.ask("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1, clickCount=1)
    assert 110 <= page.run(width) - before <= 130
    page.run("document.querySelector('.split:not(.across)').dispatchEvent(new Event('dblclick'))")
    assert page.run(width) == before


def colours(page):
    """How many colours the drawing has."""
    return page.run(
        """(() => {
          const canvas = document.querySelector('canvas.layout');
          const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let at = 0; at < pixels.length; at += 4) seen.add(pixels.slice(at, at + 3).join());
          return seen.size;
        })()"""
    )


@pytest.mark.parametrize("page", ["sm_80"], indirect=True)
def test_layouts_are_drawn_and_tell_about_each_element(page):
    page.point(*page.middle(row(page, "tile", " dot ")), click=True)
    assert colours(page) > 32  # a lane each, and its letters
    middle = page.middle("canvas.layout")
    page.point(*middle)
    told = page.run("document.getElementById('tip').textContent")
    assert "thread" in told and "register" in told
    shared = page.run("page.drawings.findIndex(each => 'banks' in each.layout)")
    page.run(f"drawing = {shared}; pinned = -1; sheetChanged()")
    page.point(*page.middle("canvas.layout"))
    assert "bank" in page.run("document.getElementById('tip').textContent")


@pytest.mark.parametrize("page", ["sm_80"], indirect=True)
def test_drawings_agree_with_the_layouts(page):
    """What the script computes from bases is what the layouts say."""
    from gizml_tile.layout import Linear

    for number, drawing in enumerate(page.run("page.drawings")):
        if "register" not in drawing["layout"]:
            continue
        linear = Linear.of(drawing["shape"], **drawing["layout"])
        rows, columns = drawing["shape"]
        for at in ((0, 0), (rows - 1, columns - 1), (rows // 2, columns // 3)):
            told = page.run(f"heldGrid(page.drawings[{number}]).cell({at[0]}, {at[1]}).title")
            holder = linear.invert().apply(*at)
            wanted = f"warp {holder['warp']}, lane {holder['lane']})  register {holder['register']}"
            assert wanted in told, drawing["title"]


def test_the_timeline_shows_slots_and_steps(page):
    page.press("t", "t")
    slots = page.run("page.timelines[0].slots")
    shown = page.run("[...document.querySelectorAll('.chart text')].map(text => text.textContent)")
    assert [text for text in shown if text.startswith("slot")] == [f"slot {each}" for each in range(slots)]
    assert page.run("document.querySelectorAll('.chart .fill').length") >= slots
    assert page.run("document.querySelectorAll('.track li').length") > 5
    page.point(*page.middle(".track li.multiply"))
    assert lit(page)["source"] == ["        acc += A[i, k] @ B[k, j]"]


def test_hostile_words_do_nothing(browser, folder):
    browser.open(folder / "hostile.html")
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.querySelectorAll('img, script').length") == 2  # the page's own scripts
    browser.run("search('script'); panes[0].rows.forEach(row => hover(Number(row.dataset.link)))")
    assert browser.run("typeof window.hacked") == "undefined"
