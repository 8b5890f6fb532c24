"""How notebooks show texts and kernels: as they are printed, instead of on one line in quotation marks."""

from __future__ import annotations

from html import escape

_BLOCK = "margin:0;padding:6px 10px;line-height:1.35;overflow:auto;max-height:36em;white-space:pre"


class Text(str):
    """A text of several lines; anywhere but in a notebook it is a string like others."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return block(self)


def block(text: str) -> str:
    """A text as HTML, line by line."""
    return f'<pre style="{_BLOCK}">{escape(text)}</pre>'


def beside(*titled: tuple[str, str]) -> str:
    """Texts side by side as HTML, each under its title."""
    columns = (
        f'<div style="flex:1 1 24em;min-width:0"><b>{escape(title)}</b>{block(text)}</div>'
        for title, text in titled
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:1.5em">{"".join(columns)}</div>'
