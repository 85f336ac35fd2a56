"""A tree of turns as a picture: an SVG with a circle for each turn, a link to it, its score and visits."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from markupsafe import Markup

from mars_env.evaluation.trees import is_right
from mars_env.text import one_line
from mars_env.types import Tree, Turn

MAX_NODES = 600
_STEP, _FLOOR, _RADIUS, _MARGIN = 52, 56, 13, 26


def visits(tree: Tree) -> dict[str, int]:
    """How often each turn was visited: itself, and once for each turn that grew below it."""
    found = dict.fromkeys((turn.id for turn in tree.turns), 1)
    for turn in reversed(tree.turns):  # children after their parents
        if turn.parent_id is not None:
            found[turn.parent_id] += found[turn.id]
    return found


def branches(tree: Tree) -> bool:
    """Whether a turn of the tree, or its root, has more than one child."""
    parents = [turn.parent_id for turn in tree.turns]
    return len(set(parents)) < len(parents)


def picture(tree: Tree, anchors: Mapping[str, str]) -> Markup | None:
    """The tree as an SVG, each turn a link to its anchor; None where it does not branch, or is too large."""
    if not branches(tree) or len(tree.turns) > MAX_NODES:
        return None
    positions = _positions(tree)
    seen = visits(tree)
    width = 2 * _MARGIN + _RADIUS + max(x for x, _ in positions.values()) * _STEP
    height = 2 * _MARGIN + max(y for _, y in positions.values()) * _FLOOR
    roots = [positions[turn.id][0] for turn in tree.turns if turn.parent_id is None]
    top = _at(((roots[0] + roots[-1]) / 2, 0))  # the problem
    lines = []
    nodes = [f'<circle class="top" cx="{top[0]:g}" cy="{top[1]:g}" r="5"><title>the problem</title></circle>']
    for turn in tree.turns:
        x, y = _at(positions[turn.id])
        a, b = top if turn.parent_id is None else _at(positions[turn.parent_id])
        lines.append(f'<path d="M{a:g} {b:g}C{a:g} {b + 30:g} {x:g} {y - 30:g} {x:g} {y:g}"/>')
        nodes.append(_node(turn, x, y, seen[turn.id], anchors[turn.id], turn.id == tree.final))
    label = f"Search tree of {len(tree.turns)} turns"
    return Markup(  # its texts are escaped, the rest are numbers
        f'<svg class="drawing" role="img" aria-label="{label}" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">{"".join(lines)}{"".join(nodes)}</svg>'
    )


def _at(place: tuple[float, int]) -> tuple[float, float]:
    return _MARGIN + place[0] * _STEP, _MARGIN + place[1] * _FLOOR


def _positions(tree: Tree) -> dict[str, tuple[float, int]]:
    """Column and row of each turn: leaves side by side, a parent over the middle of its children."""
    children: dict[str | None, list[Turn]] = {}
    for turn in tree.turns:
        children.setdefault(turn.parent_id, []).append(turn)
    rows: dict[str, int] = {}
    for turn in tree.turns:
        rows[turn.id] = 1 if turn.parent_id is None else rows[turn.parent_id] + 1
    columns: dict[str, float] = {}
    leaves = 0
    stack = list(reversed(children.get(None, [])))
    opened: set[str] = set()
    while stack:
        turn = stack.pop()
        below = children.get(turn.id, [])
        if not below:
            columns[turn.id] = leaves
            leaves += 1
        elif turn.id in opened:
            columns[turn.id] = (columns[below[0].id] + columns[below[-1].id]) / 2
        else:
            opened.add(turn.id)
            stack += [turn, *reversed(below)]
    return {id: (column, rows[id]) for id, column in columns.items()}


def _node(turn: Turn, x: float, y: float, seen: int, anchor: str, final: bool) -> str:
    right = is_right(turn)
    kind = "unknown" if right is None else "right" if right else "wrong"
    if turn.grade is None:
        kind = "ungraded"
    score = "" if turn.search_score is None else f"{turn.search_score:.2f}".removeprefix("0")
    known = [one_line(turn.agent, 60), kind, f"visits {seen}"]
    known += [f"search score {turn.search_score:.3g}"] if turn.search_score is not None else []
    known += ["the team's answer"] if final else []
    ring = f'<circle class="ring" cx="{x:g}" cy="{y:g}" r="{_RADIUS + 4}"/>' if final else ""
    return (
        f'<a href="#{escape(anchor)}">'
        f"<title>{escape(one_line(turn.id, 60))}: {escape(', '.join(known))}</title>"
        f'{ring}<circle class="node {kind}" cx="{x:g}" cy="{y:g}" r="{_RADIUS}"/>'
        f'<text x="{x:g}" y="{y + 4:g}">{score or "·"}</text>'
        f'<text class="visits" x="{x + _RADIUS:g}" y="{y - _RADIUS + 2:g}">n={seen}</text></a>'
    )
