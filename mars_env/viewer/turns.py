"""What a page shows of a turn: its badges and amounts, its texts with formulas and programs, what changed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from markupsafe import Markup

from mars_env.evaluation.trees import is_right, judged_turn, sampled_tokens
from mars_env.grading.code.extract import asked_names, extract_program
from mars_env.text import one_line, visible
from mars_env.types import INTERRUPTIONS, Completion, Tree, Turn, Verdict
from mars_env.viewer.mathml import mathml
from mars_env.viewer.programs import changed_lines, coloured
from mars_env.viewer.prose import Colours, Formulas, prose

_THINKING = re.compile(r"^\s*<think>\s*|\s*</think>\s*$")
_POINTS = 60


@dataclass(frozen=True, slots=True)
class Display:
    """How the turns of a page are shown.

    Attributes:
        advantages: By tree and turn id, as an estimator of `mars_env.trainers.advantages` gives them.
        max_turns: How many turns a page holds; `write_page` writes further pages for a larger run.
        max_characters: How much of one text is shown; less in a run of very many turns.
        opened: Whether the trees are open from the start.
    """

    advantages: Mapping[tuple[str, str], float] = field(default_factory=dict)
    max_turns: int = 20_000
    max_characters: int = 20_000
    formulas: Formulas = mathml
    colours: Colours = coloured
    opened: bool = False

    def text(self, text: str) -> Markup:
        """A text, cut, with its formulas and programs."""
        return prose(shortened(text, self.max_characters), self.formulas, self.colours)


class _Fold(NamedTuple):
    """A part of a turn that opens on a click."""

    title: str
    html: Markup
    kind: str = ""
    points: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is known of a tree while its turns are written: their anchors, and the turn of each prompt."""

    anchors: Mapping[str, str]
    prompts: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)


def shortened(text: str, limit: int) -> str:
    """The text made visible, without its middle if it is longer than the limit."""
    text = visible(text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def turn_view(
    turn: Turn, tree: Tree, by_id: Mapping[str, Turn], display: Display, page: Shown
) -> Mapping[str, Any]:
    """A turn as the template shows it; `page` holds the prompts that stand above it."""
    grade = turn.grade
    notes = [f"{k}: {v}" for k, v in turn.info.items() if k not in _SHOWN_ELSEWHERE]
    after = (_changed(turn, tree, by_id), *_feedback(turn, display), _logprobs(turn.action.completions))
    return {
        "id": visible(turn.id),
        "agent": visible(turn.agent),
        "role": _ROLE_CLASSES.get(turn.role, "other"),
        "badges": _badges(turn, by_id, tree.final),
        "amounts": _amounts(turn, display.advantages.get((turn.tree_id, turn.id))),
        "text": display.text(turn.text),
        "before": [fold for fold in _calls(turn, display, page) if fold is not None],
        "after": [fold for fold in after if fold is not None],
        "reason": prose(shortened(grade.reason, 2000), display.formulas, display.colours) if grade else "",
        "notes": shortened(", ".join(notes), 2000),
    }


def _badges(turn: Turn, by_id: Mapping[str, Turn], final: str | None) -> list[tuple[str, str]]:
    """As (kind, label)."""
    badges: list[tuple[str, str]] = []
    if turn.grade is not None:
        badges.append((turn.grade.verdict.value.lower(), turn.grade.verdict.value))
    if (verdict := turn.info.get("verdict")) is not None:
        badges.append(_judgement(verdict, judged_turn(turn, by_id)))
    if turn.info.get("malformed"):
        badges.append(("warn", "malformed"))
    reasons = {completion.finish_reason for completion in turn.action.completions}
    if interrupted := sorted(reasons & INTERRUPTIONS.keys()):
        labels = {reason: f"cut off by the {reason.replace('_', ' ')}" for reason in interrupted}
        badges += [("warn", "lost" if reason == "fault" else labels[reason]) for reason in interrupted]
    elif turn.action.truncated:
        badges.append(("warn", "cut off"))
    if turn.id == final:
        badges.append(("final", "team's answer"))
    return badges


def _judgement(verdict: Any, judged: Turn | None) -> tuple[str, str]:
    says = f"says {one_line(str(verdict), 20)}"
    truth = is_right(judged)
    if truth is None:
        return "says", says
    return ("right", f"{says}, rightly") if truth == (verdict == "Correct") else ("wrong", f"{says}, wrongly")


def _amounts(turn: Turn, advantage: float | None) -> list[str]:
    amounts = []
    if turn.reward is not None:
        amounts.append(f"reward {turn.reward:.3g}")
    elif turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
        amounts.append("reward unknown")
    if advantage is not None:
        amounts.append(f"advantage {advantage:+.3g}")
    if turn.search_score is not None:
        amounts.append(f"search score {turn.search_score:.3g}")
    logprobs = [x for completion in turn.action.completions for x in completion.logprobs]
    if logprobs:
        amounts.append(f"log p {sum(logprobs) / len(logprobs):.3g} a token")
    if tokens := sampled_tokens(turn):
        amounts.append(f"{tokens:,} tokens")
    return amounts


def _calls(turn: Turn, display: Display, page: Shown) -> Iterator[_Fold | None]:
    """Prompts, texts of several completions (of one what its turn does not show), the tools' answers."""
    most, before = len(turn.action.completions), tuple[tuple[str, str], ...]()
    for i, completion in enumerate(turn.action.completions):
        if not before or completion.messages[: len(before)] != before:  # else it continues what is shown
            yield _prompt(turn, completion.messages, display, page)
        before = completion.messages
        several = _Fold(f"Call {i + 1} of {most}", display.text(completion.text))
        yield _thinking(turn, display) if most == 1 else several
        for call in turn.action.calls:
            if call.completion == i:
                title = f"Tool {visible(call.name) or '?'}, {call.outcome}, {call.seconds:.3g} s"
                yield _Fold(title, display.text(call.result), "tool" if call.outcome == "ok" else "tool warn")


def _prompt(turn: Turn, messages: Sequence[tuple[str, str]], display: Display, page: Shown) -> _Fold | None:
    """What the model was sent, formulas not drawn; a tree has each prompt once, other turns link to it."""
    if not messages:
        return None
    first = page.prompts.setdefault(tuple(messages), turn.id)
    if first != turn.id:
        link = Markup('<a href="#{}">as in turn {}</a>').format(page.anchors[first], visible(first))
        return _Fold("Prompt", link)
    size = sum(len(text) for _, text in messages)
    message = Markup('<span class="who">{}</span>\n{}')
    plain = ((visible(role), shortened(text, display.max_characters)) for role, text in messages)
    html = Markup("\n\n").join(message.format(role, text) for role, text in plain)
    return _Fold(f"Prompt, {size:,} characters", html)


def _thinking(turn: Turn, display: Display) -> _Fold | None:
    written = turn.action.completions[0].text
    text = turn.text.strip()
    if written.strip() == text:
        return None
    if written.rstrip().endswith(text):
        inner = _THINKING.sub("", written.rstrip()[: len(written.rstrip()) - len(text)])
        title = f"Thinking, {len(inner):,} characters"
        return _Fold(title, display.text(inner), "thinking") if inner else None
    return _Fold(f"All that the model wrote, {len(written):,} characters", display.text(written), "thinking")


def _changed(turn: Turn, tree: Tree, by_id: Mapping[str, Turn]) -> _Fold | None:
    before = judged_turn(turn, by_id) if turn.grade is not None else None
    if before is None:
        return None
    old, new = (_program(t, tree) for t in (before, turn))
    changes = changed_lines(visible(old), visible(new))
    if changes is None:
        return None
    html = Markup('<code class="diff">{}</code>').format(changes)
    return _Fold(f"Changes to {visible(before.agent)}'s turn {visible(before.id)}", html)


def _feedback(turn: Turn, display: Display) -> Iterator[_Fold]:
    in_play = str(turn.info.get("feedback", ""))
    of_grader = turn.grade.feedback if turn.grade else ""
    if in_play:
        yield _Fold("Feedback in play", display.text(in_play))
    if of_grader and of_grader != in_play:
        yield _Fold("Feedback of the grader", display.text(of_grader))  # which may have seen private tests


def _program(turn: Turn, tree: Tree) -> str:
    """The program in a turn's text where programs are asked for; otherwise the text."""
    program, _ = extract_program(turn.text, *asked_names(tree.problem.reference))
    return turn.text if program is None or tree.problem.kind != "code" else program


def _logprobs(completions: Sequence[Completion]) -> _Fold | None:
    """Along a turn, as a curve: in up to `_POINTS` steps the mean of each."""
    values = [x for completion in completions for x in completion.logprobs]
    if len(values) < 2:
        return None
    size = max(1, -(-len(values) // _POINTS))
    means = [sum(part) / len(part) for i in range(0, len(values), size) if (part := values[i : i + size])]
    lowest = min(*means, -1e-9)
    points = " ".join(
        f"{600 * i / max(1, len(means) - 1):.0f},{58 * mean / lowest + 1:.0f}" for i, mean in enumerate(means)
    )
    note = f"from 0 at the top to {lowest:.3g} at the bottom, {size} tokens a step"
    return _Fold("Log-probabilities", Markup.escape(note), points=points)


_SHOWN_ELSEWHERE = frozenset(("verdict", "malformed", "truncated", "feedback"))
_ROLE_CLASSES = {"solver": "solver", "verifier": "verifier", "corrector": "corrector", "coder": "solver"}
