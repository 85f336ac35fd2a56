"""Draws docs/architecture.svg: the rooms of the package, a floor for each layer, an arrow for each import.

    python scripts/draw_architecture.py           # writes the picture
    python scripts/draw_architecture.py --check   # fails if the picture does not match the code

The floors are the layers in pyproject.toml (which import-linter enforces). The arrows are the modules'
imports, except those for type checking. Arrows that a path through other rooms implies are left out, and so
are those to the ground floor, which all may use. A room's purpose is the first sentence of its docstring.
"""

import argparse
import ast
import re
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGE = "mars_env"
WIDTH, FLOOR, BOX, MARGIN = 960, 92, 56, 20

STYLE = """
  text { font: bold 14px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #1f2430; text-anchor: middle }
  text.why { font: 11px system-ui, 'DejaVu Sans', sans-serif }
  rect { fill: #eef2fb; stroke: #5b6b95; rx: 6 }
  path { fill: none; stroke: #7c88ad; stroke-width: 1.3 }
  marker path { fill: #7c88ad; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e8f4 }
    rect { fill: #232a3d; stroke: #8ea0d0 }
    path { stroke: #9aa6cc }
    marker path { fill: #9aa6cc }
  }
"""


def floors():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix(f"{PACKAGE}.") for name in layer.split(":")] for layer in layers]


def imports(rooms):
    """Pairs of rooms in which the first imports the second."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)

    def room_of(module):
        name = module.removeprefix(f"{PACKAGE}.").split(".")[0]
        return name if name in rooms else None

    pairs = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            one, two = room_of(module), room_of(other)
            if one and two and one != two:
                pairs.add((one, two))
    return sorted(pairs)


def needed(pairs):
    """The pairs that no path through other rooms implies."""
    pairs, below = list(pairs), {}
    for one, two in pairs:
        below.setdefault(one, set()).add(two)

    def reached(room):
        return set().union(*({other} | reached(other) for other in below.get(room, ())))

    return [(one, two) for one, two in pairs if not any(two in reached(o) for o in below[one] - {two})]


def purpose(room):
    folder, module = ROOT / PACKAGE / room / "__init__.py", ROOT / PACKAGE / f"{room}.py"
    doc = ast.get_docstring(ast.parse((folder if folder.exists() else module).read_text(encoding="utf-8")))
    sentence = " ".join(doc.split("\n\n")[0].split()).replace("`", "")
    return re.split(r"(?<=[.;]) |; ", sentence)[0].rstrip(".;")


def picture():
    rows = floors()
    boxes = {}
    for y, rooms in enumerate(rows):
        step = (WIDTH - 2 * MARGIN) / len(rooms)
        wide = min(step - 16, 430)
        for x, room in enumerate(rooms):
            boxes[room] = (MARGIN + step * (x + 0.5), MARGIN + FLOOR * y, wide)
    height = 2 * MARGIN + FLOOR * (len(rows) - 1) + BOX
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The rooms of mars_env: each imports only rooms below it</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 Z"/></marker></defs>',
    ]
    ground = set(rows[-1])
    for one, two in needed(pair for pair in imports(boxes) if not ground & set(pair)):
        (x1, y1, wide1), (x2, y2, wide2) = boxes[one], boxes[two]
        if y2 - y1 == FLOOR:
            path = f"M{x1:.0f} {y1 + BOX} L{x2:.0f} {y2}"
        else:
            side = 1 if x2 >= WIDTH / 2 else -1
            x1, x2 = x1 + side * wide1 / 2, x2 + side * wide2 / 2
            out = max(x1, x2, key=lambda x: side * x) + side * (20 + 22 * (y2 - y1) / FLOOR)
            y1, y2 = y1 + BOX * 0.7, y2 + BOX * 0.3
            path = f"M{x1:.0f} {y1:.0f} C{out:.0f} {y1 + 20:.0f} {out:.0f} {y2 - 20:.0f} {x2:.0f} {y2:.0f}"
        lines.append(f'<path marker-end="url(#tip)" d="{path}"/>')
    for room, (x, y, wide) in boxes.items():
        lines.append(f'<rect x="{x - wide / 2:.0f}" y="{y}" width="{wide:.0f}" height="{BOX}"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 19}">{escape(room)}</text>')
        why = purpose(room) if wide > 200 else re.split("[:,]", purpose(room))[0]
        for i, line in enumerate(textwrap.wrap(why, int(wide / 6.4), max_lines=2, placeholder=" …")):
            lines.append(f'<text class="why" x="{x:.0f}" y="{y + 36 + 13 * i}">{escape(line)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the picture with the code")
    drawn = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != drawn:
        sys.exit(f"{PICTURE.relative_to(ROOT)} does not match the code: run scripts/draw_architecture.py")


if __name__ == "__main__":
    main()
