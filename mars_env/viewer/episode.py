"""One tree in a notebook: the page of a run, inside of a cell."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from mars_env.types import Tree
from mars_env.viewer.page import render_page
from mars_env.viewer.turns import Display


class Episode:
    """Shows a tree in a notebook, with every turn open.

    Args:
        tree: What to show, such as ``read_run(folder).trees[0]``.
        height: Of the cell, in pixels.
        display: How the turns are shown.

    Example:
        >>> from mars_env.types import Problem
        >>> Episode(Tree("p#0", Problem("p", "1 + 1?", "2"), ()))._repr_html_()[:7]
        '<iframe'
    """

    def __init__(self, tree: Tree, *, height: int = 480, display: Display | None = None) -> None:
        self.tree, self.height = tree, height
        self.display = replace(display or Display(), opened=True)

    def _repr_html_(self) -> str:
        # The frame may run the page's own script and nothing else: it has no origin, and no way out.
        page = render_page([self.tree], title=self.tree.id, display=self.display)
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'
