"""What stands above the trees of a page: figures, and how turns did at each place of an episode."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mars_env.evaluation.costs import money
from mars_env.evaluation.report import Report
from mars_env.evaluation.tables import interval, number_text
from mars_env.evaluation.trees import is_right, judged_turn, sampled_tokens
from mars_env.text import counted, one_line, visible
from mars_env.types import Tree, Turn
from mars_env.viewer.drawing import templates

_METRICS = {
    "system_accuracy": "System right",
    "solver_accuracy": "First attempt right",
    "gain": "System minus first",
}
_MAX_BARS = 32
_BAR, _GAP, _HEIGHT = 34, 14, 72


def outcome(turn: Turn, by_id: Mapping[str, Turn]) -> str:
    """``"right"``, ``"wrong"`` or ``"unknown"``: of a graded turn, or of a verdict on one; else empty."""
    if turn.grade is not None:
        return {True: "right", False: "wrong", None: "unknown"}[is_right(turn)]
    if turn.accepts is None:
        return ""
    truth = is_right(judged_turn(turn, by_id))
    if truth is None:
        return "unknown"
    return "right" if truth == turn.accepts else "wrong"


def figures(trees: Sequence[Tree], report: Report | None) -> list[tuple[str, str, str]]:
    """The strip: name, value, and interval or another remark."""
    turns = sum(len(tree.turns) for tree in trees)
    tokens = sum(sampled_tokens(turn) for tree in trees for turn in tree.turns)
    lost = sum(bool(tree.fault) for tree in trees)
    cells = [("Episodes", f"{len(trees):,}", f"{lost:,} not finished" if lost else "")]
    metrics = report.metrics if report is not None else {}
    for name, words in _METRICS.items():
        if name in metrics and (estimate := metrics[name].estimate).value is not None:
            cells.append((words, number_text(estimate.value, estimate.scale), interval(estimate)))
    if tokens:
        cells.append(("Tokens sampled", f"{tokens:,}", f"{tokens / len(trees):,.0f} an episode"))
    else:
        cells.append(("Turns", f"{turns:,}", ""))
    if report is not None and report.cost is not None:
        cells.append(("Cost", f"${money(report.cost)}", ""))
    return cells


def chart(trees: Iterable[Tree]) -> Markup | None:
    """A bar for each of several places of an episode and role: right and wrong turns, and the mean reward."""
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    rewards: dict[tuple[int, str], list[float]] = defaultdict(list)
    for tree in trees:
        by_id = {turn.id: turn for turn in tree.turns}
        for turn in tree.turns:
            place = turn.id.count("."), turn.role
            counts[place][outcome(turn, by_id)] += 1
            if turn.reward is not None:
                rewards[place].append(turn.reward)
    if len({place for place, _ in counts}) < 2 or not any(set(count) - {""} for count in counts.values()):
        return None
    places = sorted(counts)[:_MAX_BARS]
    bars = [
        {"x": _GAP + i * (_BAR + _GAP), **_bar(place, counts[place], rewards[place])}
        for i, place in enumerate(places)
    ]
    width = len(bars) * (_BAR + _GAP) + _GAP
    template = templates.get_template("chart.svg.jinja")
    return Markup(template.render(bars=bars, width=width, height=_HEIGHT, bar=_BAR))


def _bar(place: tuple[int, str], counts: Counter[str], rewards: Sequence[float]) -> dict[str, Any]:
    total, top, segments = counts.total(), 0.0, []
    for kind in ("right", "wrong", "unknown", ""):
        size = _HEIGHT * counts[kind] / total
        if size:
            segments.append({"kind": kind or "none", "y": f"{top:.1f}", "size": f"{size:.1f}"})
        top += size
    number, role = place[0] + 1, visible(one_line(place[1], 20))
    words = [f"{counts[kind]:,} {kind}" for kind in ("right", "wrong", "unknown") if counts[kind]]
    mean = sum(rewards) / len(rewards) if rewards else None
    words += [f"mean reward {mean:.3f}"] if mean is not None else []
    return {
        "segments": segments,
        "turns": f"{total:,}",
        "role": role[:10],
        "place": number,
        "reward": "" if mean is None else f"{mean:.2f}",
        "title": f"Turn {number}, {role}, {counted(total, 'turn')}: {', '.join(words) or 'not graded'}",
    }
