"""Make the pictures in examples/pictures anew: ``python tests/page/pictures.py``; a Chromium has to be there.

The pages are those of ``gizml-tile view examples/matmul.py:matmul -a a=bf16[4096,4096] ... --arch sm_90a``.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import Browser

from gizml_tile import layout
from gizml_tile.layout import Linear, Swizzle, draw, make_composed_layout, staged

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "examples/pictures"
TENSORS = "a=bf16[4096,4096] b=bf16[4096,4096] bias=bf16[4096] c=bf16[4096,4096]"

# c of m16n8k16 on NVIDIA's matrix units, and a tile of two warps that each hold rows of it.
RESULT = Linear.of((16, 8), register=[(0, 1), (8, 0)], lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)])
TWO_WARPS = RESULT.with_shape((16, 16)).extended("warp", [(0, 8)])


def write_page(folder, arch):
    path = folder / f"{arch}.html"
    given = [word for tensor in TENSORS.split() for word in ("-a", tensor)]
    command = [sys.executable, "-m", "gizml_tile", "view", "examples/matmul.py:matmul", *given]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([*command, "--arch", arch, "-o", path], cwd=ROOT, env=environment, check=True)
    return path


def keep_line(browser, text):
    """Click the line of the person's that has a text."""
    number = browser.run(f"page.panes[0].lines.findIndex(line => line.includes({text!r}))")
    browser.point(*browser.middle(f"[data-name=source] [data-line='{number}']"), click=True)
    browser.run("document.activeElement.blur()")


def draw_layouts(path):
    """A page with layouts as `layout.draw` gives them."""
    shared = make_composed_layout(Swizzle(3, 3, 3), layout.make_layout((16, 64), (64, 1)))
    drawings = {
        "draw(result, form='svg'): who holds what of a 16 x 16 result": draw(TWO_WARPS, form="svg"),
        "draw(staged(16, 64), form='svg', element_bytes=2): banks of 16 swizzled rows": draw(
            staged(16, 64), form="svg", element_bytes=2
        ),
        "draw(Swizzle(3, 3, 3) o 0 o (16,64):(64,1), form='svg', element_bytes=2)": draw(
            shared, form="svg", element_bytes=2
        ),
    }
    shown = "".join(f"<div><p>{title}</p>{drawing}</div>" for title, drawing in drawings.items())
    style = "body{font:13px monospace;display:flex;flex-wrap:wrap;gap:24px;margin:16px}p{margin:0 0 6px}"
    path.write_text(
        f"<!doctype html><html data-ready=1><meta charset=utf-8><style>{style}</style>{shown}</html>"
    )
    return path


def main():
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Browser(folder / "light", width=1280, height=800) as browser:
            browser.open(write_page(folder, "sm_90a"))
            keep_line(browser, "acc += A[i, k]")
            browser.press("t", "t")
            time.sleep(0.5)
            browser.picture(PICTURES / "page.png")
            browser.open(draw_layouts(folder / "layouts.html"))
            browser.picture(PICTURES / "layouts.png")
        with Browser(folder / "dark", width=1280, height=800, dark=True) as browser:
            browser.open(write_page(folder, "sm_80"))
            keep_line(browser, "acc += A[i, k]")
            browser.run("drawing = page.drawings.findIndex(each => 'banks' in each.layout); sheetChanged()")
            time.sleep(0.5)
            browser.picture(PICTURES / "page_layouts.png")


if __name__ == "__main__":
    main()
