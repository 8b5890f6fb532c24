"""A page's data as HTML: one file with its script and style, which asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict
from html import escape
from importlib.resources import files

from gizml_tile.page.data import Page

_SCRIPTS = ("page.js", "search.js", "layouts.js", "plan.js", "start.js")


class Html(str):
    """The text of a page; a notebook shows it in a frame."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        style = "width:100%;height:80vh;border:1px solid #8888;border-radius:6px"
        return f'<iframe srcdoc="{escape(self)}" style="{style}"></iframe>'


def render(page: Page) -> Html:
    """The page as one HTML file.

    What is the person's stands in the JSON alone, in which nothing can end the element that holds it, and the
    script puts it on the page as text. The page's policy lets no other script run and nothing be fetched.
    """
    script, style = "".join(map(_asset, _SCRIPTS)), _asset("page.css")
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "policy": f"default-src 'none'; script-src 'sha256-{own}'; style-src 'unsafe-inline'",
        "title": escape(f"{page.title} for {page.target}"),
        "style": style,
        "data": json_of(page),
        "script": script,
    }
    # All at once, so that nothing of a part is taken for a place of another.
    return Html(re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], _asset("page.html")))


def json_of(page: Page) -> str:
    """A page's data as JSON that may stand in an element of HTML."""
    text = json.dumps(asdict(page), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
