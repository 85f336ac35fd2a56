"""A run as one HTML page that needs no network: tables, plots, and every tree with its turns.

Model output is hostile: everything is escaped, and the content policy allows no script but the template's (by
its hash) and no request. A tree's turns stand in a ``<noscript>`` until the tree is opened.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mars_env.evaluation.compare import Comparison
from mars_env.evaluation.report import Report
from mars_env.evaluation.trees import children_of, first_verdicts, sampled_tokens, system_right
from mars_env.files import write_atomically, writing
from mars_env.text import one_line, visible
from mars_env.types import Tree, Turn, Verdict
from mars_env.viewer import summary
from mars_env.viewer.drawing import picture, templates
from mars_env.viewer.prose import limited, prose
from mars_env.viewer.turns import Display, Shown, shortened, turn_view

PAGE_CHARACTERS = 60_000_000  # about so many: of a large run, each text is cut shorter
FORMULA_CHARACTERS = 500_000  # further formulas stay LaTeX
PROGRAM_CHARACTERS = 5_000_000  # further programs are plain
MAX_TRAIL = 32  # turns of a tree that have a mark in its line


def render_page(
    trees: Sequence[Tree],
    *,
    title: str,
    report: Report | None = None,
    comparison: Comparison | None = None,
    figures: Sequence[tuple[str, bytes]] = (),
    notes: Sequence[str] = (),
    display: Display | None = None,
    parts: Sequence[tuple[str, str]] = (),
    summary_of: Sequence[Tree] | None = None,
    version: str = "",
) -> str:
    """One self-contained HTML page of a run.

    Episodes are shown turn under turn; grouped rollouts and searches as nested branches, with a picture of
    the tree. Formulas and programs are drawn (with the extra ``viewer``).

    Args:
        trees: Whole trees, in order, until `Display.max_turns` is reached.
        title: The page's heading.
        report: Its main figures stand above the trees, its tables are folded below them.
        comparison: Likewise, for instance before and after training.
        figures: (caption, SVG or PNG bytes), from `mars_env.viewer.plots`.
        notes: Sentences to put on top.
        display: How the turns are shown.
        parts: (label, address) of the pages of one run; the address of this page is empty.
        summary_of: The trees that the strip of figures and the chart are of; by default those of the page.
        version: Of a run that is still played: the page loads itself again when its server has another one.

    Example:
        >>> page = render_page([], title="<script>")
        >>> "&lt;script&gt;" in page, "<h1><script>" in page
        (True, False)
    """
    whole = trees if summary_of is None else summary_of
    limits = display or Display()
    chosen = next(_parts(trees, limits.max_turns), [])
    how = replace(
        limits,
        max_characters=_fitting_characters(chosen, limits.max_characters),
        formulas=limited(limits.formulas, FORMULA_CHARACTERS),
        colours=limited(limits.colours, PROGRAM_CHARACTERS),
    )
    views = [_tree(tree, number, how) for number, tree in enumerate(chosen)]
    lines = [*notes, *plain_note()]
    if len(chosen) < len(trees):
        turns = sum(min(len(tree.turns), limits.max_turns) for tree in chosen)
        first = f"the first {len(chosen)} of {len(trees)} trees ({turns} turns)"
        lines.append(f"This page shows {first}; the tables cover all of them.")
    if parts:
        lines.append("The trees are on several pages; the tables, on the first one, cover all of them.")
    if how.max_characters < limits.max_characters:
        lines.append(f"The run is large: of each text this page shows {how.max_characters:,} characters.")
    tag_counts = Counter(tag for view in views for tag in view["tags"])
    script = templates.get_template("page.js.jinja").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return templates.get_template("page.html.jinja").render(
        title=visible(title),
        notes=[visible(line) for line in [*lines, *(report.notes if report else ())]],
        tables=_tables(report, comparison),
        strip=summary.figures(whole, report) if whole else [],
        chart=summary.chart(whole),
        headline=_headline(report, title) if report else "",
        version=version,
        figures=[(visible(caption), _data_uri(data)) for caption, data in figures],
        parts=[(visible(label), address) for label, address in parts],
        trees=views,
        opened=how.opened,
        kinds=[(tag, words, tag_counts[tag]) for tag, words in _KINDS.items() if tag_counts[tag]],
        script=script,
        script_hash=digest,
    )


def _parts(trees: Sequence[Tree], most: int) -> Iterator[list[Tree]]:
    page: list[Tree] = []
    held = 0
    for tree in trees:
        size = min(len(tree.turns), most)
        if page and held + size > most:
            yield page
            page, held = [], 0
        page.append(tree)
        held += size
    if page:
        yield page


def plain_note() -> list[str]:
    """A note on what pages show as plain text without the extra ``viewer``."""
    plain = {"latex2mathml": "Formulas", "pygments": "Programs"}
    lacking = [what for package, what in plain.items() if find_spec(package) is None]
    return [f"{' and '.join(lacking)} stay plain text: pip install 'mars-env[viewer]'"] if lacking else []


_KINDS = {
    "right": "right",
    "wrong": "wrong",
    "fixed": "fixed: first wrong, then right",
    "broken": "broken: first right, then wrong",
    "unknown": "UNKNOWN",
    "graded-unknown": "with a turn graded UNKNOWN",
    "cut": "with a turn cut off",
    "misjudged": "with a verdict that is wrong",
    "fault": "not finished",
}
"""What trees are filtered by: the tag, and what a reader sees."""


def _fitting_characters(trees: Sequence[Tree], most: int) -> int:
    turns = [turn for tree in trees for turn in tree.turns]
    texts = [len(turn.text) for turn in turns]
    for completion in (each for turn in turns for each in turn.action.completions):
        texts += [len(completion.text), *(len(text) for _, text in completion.messages)]
    while most > 1000 and sum(min(size, most) for size in texts) > PAGE_CHARACTERS:
        most = max(1000, most // 2)
    return most


def write_page(path: str | Path, trees: Sequence[Tree], **options: Any) -> Path:
    """Write `render_page` to a file; takes the same arguments. A link in its place is replaced, not followed.

    A run of more than `Display.max_turns` turns gets further pages beside it (``report-2.html`` ...), each
    linked from all; tables and plots are on the first. A `StoreError` if it cannot be written.
    """
    path = Path(path)
    options.setdefault("summary_of", trees)
    parts = list(_parts(trees, (options.get("display") or Display()).max_turns)) or [[]]
    names = [path.name, *(f"{path.stem}-{number}{path.suffix}" for number in range(2, len(parts) + 1))]
    labels = [f"{part[0].id} to {part[-1].id}" for part in parts if part]
    for number, (name, part) in enumerate(zip(names, parts, strict=True)):
        pairs = zip(labels, names, strict=False)
        links = [(label, "" if each == name else quote(each)) for label, each in pairs]
        if number:
            options = {**options, "report": None, "comparison": None, "figures": (), "summary_of": ()}
        with writing(path.with_name(name)):
            page = render_page(part, **options, parts=links if len(parts) > 1 else ())
            write_atomically(path.with_name(name), page)
    return path


class Episode:
    """Shows a tree, such as ``read_run(folder).trees[0]``, in a notebook, with every turn open.

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


def _data_uri(data: bytes) -> str:
    """In an <img>, even a hostile SVG runs nothing."""
    kind = "image/png" if data.startswith(b"\x89PNG") else "image/svg+xml"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _headline(report: Report, title: str) -> str:
    about = report.headline.partition(";")[0]
    return visible(about if report.title == title else f"{report.title}, {about}")


def _tables(report: Report | None, comparison: Comparison | None) -> list[Mapping[str, Any]]:
    tables = []
    if comparison is not None:
        title = " ".join(["Comparison.", *comparison.remarks()]).rstrip(".")
        tables += [replace(table, title=title) for table in comparison.tables()]
    if report is not None:
        tables += sorted(report.tables(), key=lambda table: table.title != "Baselines")  # wide ones first
    return [
        {
            "title": table.title or "Metrics",
            "wide": len(table.columns) > 3 and table.title != "",
            "heads": map(visible, table.columns) if table.align == "right" else (),
            "rows": table.strings(),
        }
        for table in tables
    ]


def _tree(tree: Tree, number: int, how: Display) -> Mapping[str, Any]:
    first = first_verdicts(tree)
    system = system_right(tree)
    verdict = "fault" if tree.fault else _WORDS[system]
    if tree.final is None and not tree.fault and system is None:
        verdict = ""  # a training rollout: it has no answer of its own
    anchors = _anchors(tree, number)
    steps = list(_steps(tree, how, anchors))
    by_id = {turn.id: turn for turn in tree.turns}
    labels = [badge for step in steps if "turn" in step for badge in step["turn"]["badges"]]
    tags = {
        verdict: bool(verdict),
        "fixed": first == [False] and system is True,
        "broken": first == [True] and system is False,
        "cut": any(t.action.truncated for t in tree.turns),
        "graded-unknown": any(t.grade is not None and t.grade.verdict is Verdict.UNKNOWN for t in tree.turns),
        "misjudged": any(kind == "wrong" and words.startswith("says") for kind, words in labels),
    }
    reference = tree.problem.reference
    if not isinstance(reference, str):
        reference = f"```json\n{json.dumps(reference, indent=1, default=str)}"
    return {
        "id": visible(tree.id),
        "anchor": anchors[""],
        "statement": how.text(tree.problem.statement),
        "statement_line": one_line(tree.problem.statement, 300),
        "trail": [summary.outcome(turn, by_id) or "none" for turn in tree.turns[:MAX_TRAIL]],
        "reference": prose(shortened(reference, 2000), how.formulas, how.colours),
        "first": _WORDS[first[0]] if len(first) == 1 else f"{sum(first)}/{len(first)}" if first else "",
        "verdict": verdict,
        "fault": visible(tree.fault),
        "turns": len(tree.turns),
        "tokens": sum(map(sampled_tokens, tree.turns)),
        "tags": [tag for tag, holds in tags.items() if holds],
        "left_out": max(0, len(tree.turns) - how.max_turns),
        "picture": picture(tree, anchors) if len(tree.turns) <= how.max_turns else None,
        "steps": steps,
    }


def _anchors(tree: Tree, number: int) -> dict[str, str]:
    """The ids of the page's elements for a tree (under the empty text) and its turns, by turn id.

    They stay the same when a page is written again, so that a link to a turn can be kept.
    """
    name = quote(visible(tree.id), safe="")
    name = f"tree-{name}" if len(name) <= 200 else f"tree-{number}-"
    return {"": name, **{turn.id: f"{name}/{quote(visible(turn.id)[:2000], safe='')}" for turn in tree.turns}}


_WORDS = {None: "unknown", True: "right", False: "wrong"}


def _steps(tree: Tree, how: Display, anchors: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Depth first, with a branch around each of several children; a search may be too deep to recurse."""
    by_id = {turn.id: turn for turn in tree.turns}
    page = Shown(anchors)
    children = children_of(tree)
    stack: list[tuple[Turn | None, str]] = []  # a turn and its branch's label; None closes a branch

    def push(turns: list[Turn]) -> None:
        for i, turn in reversed(list(enumerate(turns, 1))):
            branch = f"{visible(turn.agent)}, branch {i} of {len(turns)}" if len(turns) > 1 else ""
            stack.append((turn, branch))

    push(children.get(None, []))
    written = 0
    while stack:
        turn, branch = stack.pop()
        if turn is None:
            yield {"kind": "close"}
        elif written < how.max_turns:
            if branch:
                yield {"kind": "open", "label": branch}
                stack.append((None, ""))
            view = turn_view(turn, tree, by_id, how, page)
            yield {"kind": "turn", "turn": {**view, "anchor": anchors[turn.id]}}
            written += 1
            push(children.get(turn.id, []))
