"""A tree of turns as a picture: an SVG with a circle for each turn, a link to it, its score and visits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mars_env.evaluation.trees import children_of, is_right
from mars_env.text import one_line
from mars_env.types import Tree, Turn

MAX_NODES = 600
_STEP, _FLOOR, _RADIUS, _MARGIN = 60, 58, 13, 28

templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def visits(tree: Tree) -> dict[str, int]:
    """How often each turn was visited: itself, and once for each turn that grew below it."""
    counts = dict.fromkeys((turn.id for turn in tree.turns), 1)
    for turn in reversed(tree.turns):  # children after their parents
        if turn.parent_id is not None:
            counts[turn.parent_id] += counts[turn.id]
    return counts


def picture(tree: Tree, anchors: Mapping[str, str]) -> Markup | None:
    """The tree as an SVG, each turn a link to its anchor; None where it has no branch, or is too large."""
    children = children_of(tree)
    if len(children) == len(tree.turns) or len(tree.turns) > MAX_NODES:
        return None
    places = _places(tree, children)
    roots = children[None]
    top = (places[roots[0].id][0] + places[roots[-1].id][0]) // 2, _MARGIN  # the problem
    seen = visits(tree)
    nodes = [
        {
            "above": top if turn.parent_id is None else places[turn.parent_id],
            "x": places[turn.id][0],
            "y": places[turn.id][1],
            "anchor": anchors[turn.id],
            **_node(turn, seen[turn.id], turn.id == tree.final),
        }
        for turn in tree.turns
    ]
    width, height = (_MARGIN + max(place) for place in zip(*places.values(), strict=True))
    template = templates.get_template("tree.svg.jinja")
    return Markup(template.render(nodes=nodes, top=top, width=width + _RADIUS, height=height, radius=_RADIUS))


def _places(tree: Tree, children: Mapping[str | None, Sequence[Turn]]) -> dict[str, tuple[int, int]]:
    """Where each turn is: leaves side by side, a parent over the middle of its children."""
    stack, order = list(children[None]), list[Turn]()
    while stack:
        order.append(stack.pop())
        stack += children.get(order[-1].id, [])
    columns: dict[str, float] = {}
    leaves = 0
    for turn in reversed(order):  # the first leaf first, children before their parents
        below = children.get(turn.id)
        leaves += not below
        ends = [columns[below[i].id] for i in (0, -1)] if below else [leaves - 1]
        columns[turn.id] = sum(ends) / len(ends)
    rows: dict[str | None, int] = {None: 0}
    for turn in tree.turns:
        rows[turn.id] = rows[turn.parent_id] + 1
    return {id: (_MARGIN + round(x * _STEP), _MARGIN + rows[id] * _FLOOR) for id, x in columns.items()}


def _node(turn: Turn, seen: int, final: bool) -> dict[str, Any]:
    right = is_right(turn)
    kind = "ungraded" if turn.grade is None else {None: "unknown", True: "right", False: "wrong"}[right]
    facts = [one_line(turn.agent, 60), kind, f"visits {seen}"]
    facts += [f"search score {turn.search_score:.3g}"] if turn.search_score is not None else []
    facts += ["the team's answer"] if final else []
    score = "·" if turn.search_score is None else f"{turn.search_score:.2f}".removeprefix("0")
    title = f"{one_line(turn.id, 60)}: {', '.join(facts)}"
    return {"kind": kind, "score": score, "title": title, "visits": seen, "final": final}
