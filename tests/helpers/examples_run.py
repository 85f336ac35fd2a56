"""Runs a script of examples/ as a reader does, but in this process: importing torch again takes seconds."""

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder, *arguments):
    """What the script prints."""
    script, printed = str(EXAMPLES / f"{name}.py"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(script, run_name="__main__")
    return printed.getvalue()
