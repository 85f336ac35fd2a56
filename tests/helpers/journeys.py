"""Pages that lead a reader through files and commands: their blocks, and how a test goes through them.

A block with a title is a file of that name (a second one is appended to it), `bash` is run, and `text` after
it is what it prints, where `...` stands for lines that are left out.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page):
    """The kind, the title (or an empty text) and the body of each block."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def walk(page, folder, replaced=(), **variables):
    """Write the files and run the commands of a page, in order, in a folder; returns how many were run.

    ``replaced`` holds pairs: what is on the page, such as a model to download, and what a test runs instead.
    """
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    printed, ran = None, 0
    for kind, title, body in blocks(page):
        for shown, instead in replaced:
            body = body.replace(shown, instead)
        if title:
            with (folder / title).open("a", encoding="utf-8") as file:
                file.write(body)
        elif kind == "bash":
            command = ["bash", "-euo", "pipefail", "-c", body]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800
            )
            assert done.returncode == 0, f"{page.stem}: {body}\n{done.stdout}\n{done.stderr}"
            printed, ran = re.sub(" +$", "", done.stdout, flags=re.MULTILINE), ran + 1
        elif kind == "python":
            printed = None  # tests/docs/test_pages.py runs it
        elif kind == "text" and printed is not None:
            for part in body.split("...\n"):
                assert part.strip() in printed, f"{page.stem} shows {part!r}; this is printed: {printed!r}"
    return ran
