"""What a page shows of a turn: its badges and amounts, its texts with formulas and programs, what changed."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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

Prompts = Callable[[Tree], Mapping[str, Sequence[tuple[str, str]]]]
"""What each turn of a tree was asked: by turn id, messages as (role, text). Turns may be missing."""

_THINKING = re.compile(r"^\s*<think>\s*|\s*</think>\s*$")
_POINTS = 60


MAX_TURNS = 20_000
MAX_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Display:
    """How the turns of a page are shown.

    Attributes:
        prompts: What each turn was asked, see `mars_env.agents.asked.prompts_of`; else no prompt is shown.
        advantages: By tree and turn id, as an estimator of `mars_env.trainers.advantages` gives them.
        max_turns: How many turns a page holds; `write_page` writes further pages for a larger run.
        max_characters: How much of one text is shown; less in a run of very many turns.
        formulas: Makes MathML of a formula.
        colours: Colours a program.
        opened: Whether the trees are open from the start.
    """

    prompts: Prompts | None = None
    advantages: Mapping[tuple[str, str], float] = field(default_factory=dict)
    max_turns: int = MAX_TURNS
    max_characters: int = MAX_CHARACTERS
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


def shortened(text: str, limit: int) -> str:
    """The text made visible, without its middle if it is longer than the limit."""
    text = visible(text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def turn_view(
    turn: Turn, tree: Tree, by_id: Mapping[str, Turn], shown: Display, asked: Sequence[tuple[str, str]] = ()
) -> Mapping[str, Any]:
    """A turn as the template shows it; `asked` are the messages of its prompt."""
    grade = turn.grade
    notes = [f"{k}: {v}" for k, v in turn.info.items() if k not in ("verdict", "malformed", "truncated")]
    feedback = grade.feedback if grade else ""
    read = _Fold("Feedback for the next agent", shown.text(feedback)) if feedback else None
    after = (_changed(turn, tree, by_id), read, _logprobs(turn.action.completions))
    return {
        "id": visible(turn.id),
        "agent": visible(turn.agent),
        "role": _ROLE_CLASSES.get(turn.role, "other"),
        "badges": _badges(turn, by_id, tree.final),
        "amounts": _amounts(turn, shown.advantages.get((turn.tree_id, turn.id))),
        "text": shown.text(turn.text),
        "before": [fold for fold in (_prompt(asked, shown), *_calls(turn, shown)) if fold is not None],
        "after": [fold for fold in after if fold is not None],
        "reason": shortened(grade.reason, 2000) if grade else "",
        "notes": shortened(", ".join(notes), 2000),
    }


def _badges(turn: Turn, by_id: Mapping[str, Turn], final: str | None) -> list[tuple[str, str]]:
    """What was found of a turn, as (kind, label)."""
    found: list[tuple[str, str]] = []
    if turn.grade is not None:
        found.append((turn.grade.verdict.value.lower(), turn.grade.verdict.value))
    if (verdict := turn.info.get("verdict")) is not None:
        found.append(_judgement(verdict, judged_turn(turn, by_id)))
    if turn.info.get("malformed"):
        found.append(("warn", "malformed"))
    reasons = {completion.finish_reason for completion in turn.action.completions}
    if interrupted := sorted(reasons & INTERRUPTIONS.keys()):
        found += [("warn", f"cut off by the {reason.replace('_', ' ')}") for reason in interrupted]
    elif turn.action.truncated:
        found.append(("warn", "cut off"))
    if turn.id == final:
        found.append(("final", "team's answer"))
    return found


def _judgement(verdict: Any, judged: Turn | None) -> tuple[str, str]:
    """What a Verifier says, and whether it is right."""
    says = f"says {one_line(str(verdict), 20)}"
    truth = is_right(judged)
    if truth is None:
        return "says", says
    return ("right", f"{says}, rightly") if truth == (verdict == "Correct") else ("wrong", f"{says}, wrongly")


def _amounts(turn: Turn, advantage: float | None) -> list[str]:
    found = []
    if turn.reward is not None:
        found.append(f"reward {turn.reward:.3g}")
    elif turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
        found.append("reward unknown")
    if advantage is not None:
        found.append(f"advantage {advantage:+.3g}")
    if turn.search_score is not None:
        found.append(f"search score {turn.search_score:.3g}")
    logprobs = [x for completion in turn.action.completions for x in completion.logprobs]
    if logprobs:
        found.append(f"log p {sum(logprobs) / len(logprobs):.3g} a token")
    if tokens := sampled_tokens(turn):
        found.append(f"{tokens:,} tokens")
    return found


def _calls(turn: Turn, shown: Display) -> Iterator[_Fold | None]:
    """The texts of several completions (of one what its turn does not show), each with the tools' answers."""
    most = len(turn.action.completions)
    for i, completion in enumerate(turn.action.completions):
        several = _Fold(f"Call {i + 1} of {most}", shown.text(completion.text))
        yield _thinking(turn, shown) if most == 1 else several
        for call in turn.action.calls:
            if call.completion == i:
                title = f"Tool {visible(call.name) or '?'}, {call.outcome}, {call.seconds:.3g} s"
                yield _Fold(title, shown.text(call.result), "tool" if call.outcome == "ok" else "tool warn")


def _prompt(asked: Sequence[tuple[str, str]], shown: Display) -> _Fold | None:
    if not asked:
        return None
    size = sum(len(text) for _, text in asked)
    part = Markup('<span class="who">{}</span>\n{}')
    html = Markup("\n\n").join(part.format(visible(role), shown.text(text)) for role, text in asked)
    return _Fold(f"Prompt, {size:,} characters", html)


def _thinking(turn: Turn, shown: Display) -> _Fold | None:
    """What the model wrote besides the text that the others see."""
    written = turn.action.completions[0].text
    text = turn.text.strip()
    if written.strip() == text:
        return None
    if written.rstrip().endswith(text):
        inner = _THINKING.sub("", written.rstrip()[: len(written.rstrip()) - len(text)])
        return _Fold(f"Thinking, {len(inner):,} characters", shown.text(inner), "thinking") if inner else None
    return _Fold(f"All that the model wrote, {len(written):,} characters", shown.text(written), "thinking")


def _changed(turn: Turn, tree: Tree, by_id: Mapping[str, Turn]) -> _Fold | None:
    before = judged_turn(turn, by_id) if turn.grade is not None else None
    if before is None:
        return None
    old, new = (_program(t, tree) for t in (before, turn))
    found = changed_lines(visible(old), visible(new))
    if found is None:
        return None
    html = Markup('<code class="diff">{}</code>').format(found)
    return _Fold(f"Changes to {visible(before.agent)}'s turn {visible(before.id)}", html)


def _program(turn: Turn, tree: Tree) -> str:
    """The program in a turn's text where programs are asked for; otherwise the text."""
    program, _ = extract_program(turn.text, *asked_names(tree.problem.reference))
    return turn.text if program is None or tree.problem.kind != "code" else program


def _logprobs(completions: Sequence[Completion]) -> _Fold | None:
    """The log-probabilities along a turn, as a curve: in up to 60 steps the mean of each."""
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


_ROLE_CLASSES = {"solver": "solver", "verifier": "verifier", "corrector": "corrector", "coder": "solver"}
