"""examples/notebook.ipynb: every cell runs, in order, and shows what the stored outputs show."""

import ast
import asyncio
import inspect
import json
import sys
import types
from pathlib import Path

from made_by_make import needed

from mars_env.miniature.recipe import QUICK

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def cells():
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in stored if cell["cell_type"] == "code"]


async def shown(source, names):
    """Run a cell as Jupyter does: `await` is allowed, and the last expression is its value."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body = ast.parse(source)
    last = ast.Expression(body.body.pop().value) if isinstance(body.body[-1], ast.Expr) else None
    value = None
    for part, mode in ((body, "exec"), (last, "eval")):
        if part is not None:
            value = eval(compile(part, str(NOTEBOOK), mode, flags), names)  # noqa: S307 (our own notebook)
            if inspect.isawaitable(value):
                value = await value
    return value


def test_the_notebook_runs_and_shows_report_plot_and_episode(monkeypatch, capsys):
    needed("torch", "hf")
    needed("matplotlib", "plots")
    monkeypatch.setattr("mars_env.miniature.recipe.RECIPE", QUICK)
    display = types.ModuleType("IPython.display")
    display.SVG = lambda data: types.SimpleNamespace(_repr_svg_=data.decode)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    forms = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}

    async def run():
        names = {"__name__": "__main__"}
        for cell in cells():
            value = await shown("".join(cell["source"]), names)
            printed = capsys.readouterr().out
            stored = cell["outputs"][0]
            if stored["output_type"] == "stream":
                assert printed.count("\n") == "".join(stored["text"]).count("\n")
            for form in stored.get("data", {}).keys() & forms.keys():
                assert len(getattr(value, forms[form])()) > 1000

    asyncio.run(run())
