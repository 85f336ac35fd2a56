"""A run as one HTML page: tables, plots, and every tree with its turns; it needs no network.

Model output is hostile, and a browser renders it here. So everything is escaped, control and bidirectional
characters are made visible, and the page's content policy allows no script but the one in the template (by
its hash) and no network requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from mars_env.errors import StoreError
from mars_env.evaluation.compare import Comparison, difference_text
from mars_env.evaluation.report import (
    BASELINE_HEADS,
    Report,
    baseline_rows,
    count_rows,
    interval,
    number,
    shown,
)
from mars_env.evaluation.trees import first_attempts, is_right, judged_turn, sampled_tokens, system_right
from mars_env.files import write_whole
from mars_env.text import one_line, visible
from mars_env.types import INTERRUPTIONS, Tree, Turn, Verdict

MAX_TURNS = 4000
MAX_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class _Step:
    """One thing to write: a branch opens or closes, or a turn stands here."""

    kind: str
    turn: Mapping[str, Any] | None = None
    label: str = ""


@lru_cache(maxsize=1)
def _template() -> tuple[jinja2.Template, str, str]:
    """The compiled template, its style sheet and its script."""
    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    names = ("page.html", "page.css", "page.js")
    page, style, script = ((folder / f"{name}.jinja").read_text(encoding="utf-8") for name in names)
    return environment.from_string(page), style, script


def render_page(  # public edge: friendly keywords, each with a default
    trees: Sequence[Tree],
    *,
    title: str,
    report: Report | None = None,
    comparison: Comparison | None = None,
    figures: Sequence[tuple[str, bytes]] = (),
    notes: Sequence[str] = (),
    max_turns: int = MAX_TURNS,
    max_characters: int = MAX_CHARACTERS,
) -> str:
    """One self-contained HTML page of a run.

    Episodes are shown turn under turn; grouped rollouts and searches as nested branches.

    Args:
        trees: What to show; whole trees, in order, until `max_turns` is reached.
        title: The page's heading.
        report: Shown as a table on top.
        comparison: Likewise, for instance before and after training.
        figures: (caption, SVG or PNG bytes), from `mars_env.evaluation.plots`.
        notes: Sentences to put on top.
        max_turns: How many turns the page holds; a note says what was left out.
        max_characters: How much of one text is shown.

    Returns:
        The page's HTML.

    Example:
        >>> page = render_page([], title="<script>")
        >>> "&lt;script&gt;" in page, "<h1><script>" in page
        (True, False)
    """
    template, style, script = _template()
    chosen: list[Mapping[str, Any]] = []
    shown_turns = 0
    for tree in trees:
        if chosen and shown_turns + len(tree.turns) > max_turns:
            break
        chosen.append(_tree(tree, max_characters, max_turns))
        shown_turns += min(len(tree.turns), max_turns)
    left_out = len(trees) - len(chosen)
    lines = list(notes)
    if left_out:
        lines.append(
            f"This page shows the first {len(chosen)} of {len(trees)} trees ({shown_turns} turns); the "
            "tables cover all of them."
        )
    # Text in a script or style element must not end it; these are files of the package.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        title=visible(title),
        notes=[visible(line) for line in [*lines, *(report.notes if report else ())]],
        tables=_tables(report, comparison),
        headline=visible(report.headline) if report else "",
        figures=[(visible(caption), _data_uri(data)) for caption, data in figures],
        trees=chosen,
        style=style,
        script=script,
        script_hash=digest,
    )


def write_page(path: str | Path, trees: Sequence[Tree], **options: Any) -> Path:
    """Write `render_page` to a file; takes the same arguments. A link in its place is replaced, not followed.

    Raises:
        StoreError: It cannot be written.

    Example:
        >>> import tempfile
        >>> write_page(Path(tempfile.mkdtemp()) / "run.html", [], title="A run").name
        'run.html'
    """
    path = Path(path)
    try:
        write_whole(path, render_page(trees, **options))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from error
    return path


def _data_uri(data: bytes) -> str:
    """An image as a data address: in an <img>, even a hostile SVG runs nothing."""
    kind = "image/png" if data.startswith(b"\x89PNG") else "image/svg+xml"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _tables(report: Report | None, comparison: Comparison | None) -> list[Mapping[str, Any]]:
    tables: list[Mapping[str, Any]] = []
    if comparison is not None:
        rows = [(r.title, shown(r.a), shown(r.b), difference_text(r)) for r in comparison.rows.values()]
        heads = ("", *map(visible, comparison.names), "Difference, 95% interval")
        tables.append({"title": "Comparison, paired by problem", "wide": True, "heads": heads, "rows": rows})
    if report is not None:
        if baselines := baseline_rows(report):
            tables.append({"title": "Baselines", "wide": True, "heads": BASELINE_HEADS, "rows": baselines})
        figures = [
            (f.title, number(f.estimate.value, f.estimate.scale), interval(f.estimate), f.estimate.problems)
            for f in report.figures.values()
        ]
        heads = ("", "Value", "95% interval", "Problems")
        tables.append({"title": "Figures", "wide": False, "heads": heads, "rows": figures})
        counts = count_rows(report.counts)
        tables.append({"title": "Counts", "wide": False, "heads": ("", ""), "rows": counts})
    return tables


def _tree(tree: Tree, max_characters: int, max_turns: int) -> Mapping[str, Any]:
    first = [r for t in first_attempts(tree) if (r := is_right(t)) is not None]
    system = system_right(tree)
    verdict = "fault" if tree.fault else _word(system)
    if tree.final is None and not tree.fault and system is None:
        verdict = ""  # a training rollout: it has no answer of its own
    return {
        "id": visible(tree.id),
        "statement": _cut(tree.problem.statement, max_characters),
        "summary": one_line(tree.problem.statement, 140),
        "reference": _cut(_reference(tree.problem.reference), 2000),
        "first": _word(bool(first[0])) if len(first) == 1 else f"{sum(first)}/{len(first)}" if first else "",
        "verdict": verdict,
        "fault": visible(tree.fault),
        "turns": len(tree.turns),
        "tokens": sum(map(sampled_tokens, tree.turns)),
        "fixed": len(first) == 1 and not first[0] and system is True,
        "broken": len(first) == 1 and first[0] and system is False,
        "cut": any(t.action.truncated for t in tree.turns),
        "left_out": max(0, len(tree.turns) - max_turns),
        "steps": list(_steps(tree, max_characters, max_turns)),
    }


def _reference(reference: object) -> str:
    return reference if isinstance(reference, str) else json.dumps(reference, indent=1, default=str)


def _word(right: bool | None) -> str:
    return "unknown" if right is None else "right" if right else "wrong"


def _steps(tree: Tree, max_characters: int, max_turns: int) -> Iterator[_Step]:
    """The tree in depth-first order. A turn's only child stands under it; several open a branch each.

    An explicit stack: a search's tree may be deeper than the interpreter's.
    """
    by_id = {turn.id: turn for turn in tree.turns}
    children: dict[str | None, list[Turn]] = {}
    for turn in tree.turns:
        children.setdefault(turn.parent_id, []).append(turn)
    stack: list[_Step | Turn] = []

    def push(turns: list[Turn]) -> None:
        for i, turn in reversed(list(enumerate(turns))):
            if len(turns) > 1:
                size = f"{i + 1} of {len(turns)}"
                stack.extend((_Step("close"), turn, _Step("open", label=f"{turn.agent}, branch {size}")))
            else:
                stack.append(turn)

    push(children.get(None, []))
    written = 0
    while stack:
        item = stack.pop()
        if isinstance(item, _Step):
            # Branches that were opened are closed; none is opened beyond the limit.
            if item.kind == "close" or written < max_turns:
                yield item
            else:
                _skip_branch(stack)
            continue
        if written < max_turns:
            yield _Step("turn", _turn(item, by_id, tree.final, max_characters))
            written += 1
            push(children.get(item.id, []))


def _skip_branch(stack: list[_Step | Turn]) -> None:
    """Skip a branch that is not opened: its turn and its end."""
    stack.pop()
    stack.pop()


def _turn(turn: Turn, by_id: Mapping[str, Turn], final: str | None, max_characters: int) -> Mapping[str, Any]:
    grade = turn.grade
    verdict = turn.info.get("verdict")
    badges: list[tuple[str, str]] = []
    if grade is not None:
        badges.append((grade.verdict.value.lower(), grade.verdict.value))
    if verdict is not None:
        badges.append(_judgement(verdict, judged_turn(turn, by_id)))
    if turn.info.get("malformed"):
        badges.append(("warn", "malformed"))
    reasons = {completion.finish_reason for completion in turn.action.completions}
    if cut := sorted(reasons & INTERRUPTIONS.keys()):
        badges += [("warn", f"cut off by the {reason.replace('_', ' ')}") for reason in cut]
    elif turn.action.truncated:
        badges.append(("warn", "cut off"))
    if turn.id == final:
        badges.append(("final", "team's answer"))
    notes = {k: v for k, v in turn.info.items() if k not in ("verdict", "malformed", "truncated")}
    return {
        "id": visible(turn.id),
        "agent": visible(turn.agent),
        "role": _ROLE_CLASSES.get(turn.role, "other"),
        "badges": badges,
        "reward": None if turn.reward is None else f"{turn.reward:.3g}",
        "search_score": None if turn.search_score is None else f"{turn.search_score:.3g}",
        "unknown_reward": turn.reward is None and grade is not None and grade.verdict is Verdict.UNKNOWN,
        "tokens": sampled_tokens(turn),
        "text": _cut(turn.text, max_characters),
        "reason": _cut(grade.reason, 2000) if grade else "",
        "notes": _cut(", ".join(f"{k}: {v}" for k, v in notes.items()), 2000),
    }


def _judgement(verdict: Any, judged: Turn | None) -> tuple[str, str]:
    """What a Verifier says, and whether it is right."""
    says = f"says {one_line(str(verdict), 20)}"
    truth = None if judged is None else is_right(judged)
    if truth is None:
        return "says", says
    return ("right", f"{says}, rightly") if truth == (verdict == "Correct") else ("wrong", f"{says}, wrongly")


_ROLE_CLASSES = {"solver": "solver", "verifier": "verifier", "corrector": "corrector", "coder": "solver"}


def _cut(text: str, limit: int) -> str:
    text = visible(text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"
