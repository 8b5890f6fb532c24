"""The page of a launch: what became of each line of a kernel, in one file that a browser opens.

``data`` has all that a page shows, as frozen values; `gizml_tile.viewing` collects them from a launch, and
``render`` writes them into the page, whose scripts and style are in ``assets``. The scripts know no target:
what they show of one is in the data.
"""

from gizml_tile.page.render import Html, render

__all__ = ["Html", "render"]
