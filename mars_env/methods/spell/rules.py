"""SPELL's rules: one asks about documents, one answers, one compares (arXiv 2509.23863; docs/methods.md).

A problem is a cluster of documents without a question. The Questioner makes question and reference; the
Responder first answers once without documents, and if that succeeds the question is not grounded in them;
otherwise it answers with all documents; the Verifier says whether an answer and the reference are equivalent.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from gymnasium import Space

from mars_env.checks import require_integer
from mars_env.envs.spaces import UnicodeText
from mars_env.errors import ConfigError
from mars_env.grading.cover import words_of
from mars_env.grading.untrusted import json_object
from mars_env.text import shown
from mars_env.types import Action, Grade, Observation, Problem, Reward, Verdict

QUESTIONER, RESPONDER, VERIFIER = "questioner_0", "responder_0", "verifier_0"

TASKS: Final = ("general", "number", "choice")
"""Kinds of questions, a problem's ``task`` in its metadata: any; answered by one number; of four choices."""

LETTERS: Final = ("A", "B", "C", "D")
MOST_QUESTION: Final = 4000
"""A longer question is malformed, in characters."""

_NUMBER = re.compile(r"[-−+]?[$€£]?\s?(\d{1,30}(?:,\d{3}){0,9}(?:\.\d{1,30})?)\s?%?")

Vote = Literal["yes", "no", "unknown"]


def cluster(id: str, task_text: str, documents: Sequence[str], *, task: str = "general") -> Problem:
    """A problem of these rules: documents, and what is to be asked about them.

    Args:
        id: Unique within its set.
        task_text: What the Questioner is to ask about.
        documents: At least one.
        task: One of `TASKS`.

    Raises:
        ConfigError: There is no document, or no such task.
    """
    problem = Problem(id, task_text, None, "open", {"documents": list(documents), "task": task})
    documents_of(problem)
    return problem


def documents_of(problem: Problem) -> list[str]:
    """The documents of a cluster.

    Raises:
        ConfigError: The problem is not a cluster.
    """
    documents, task = problem.metadata.get("documents"), problem.metadata.get("task", "general")
    given = documents if isinstance(documents, list | tuple) else ()
    if not given or not all(isinstance(each, str) and each for each in given):
        advice = "make it by mars_env.methods.spell.rules.cluster, from a list of strings"
        raise ConfigError(f"the problem {shown(problem.id)} has no documents: {advice}")
    if task not in TASKS:
        raise ConfigError(f"the task of {shown(problem.id)} is {shown(task)}, not {', '.join(TASKS)}")
    return list(given)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What a Questioner wrote: the question (empty if there is none) and its reference.

    `fault` is ``"malformed"`` (penalised), ``"long"`` (the answer is; dropped without a penalty), or empty.
    """

    question: str = ""
    answer: str = ""
    fault: Literal["", "malformed", "long"] = ""


_MALFORMED = AskedQuestion(fault="malformed")


def read_question(text: str, task: str = "general", longest_answer: int = 40) -> AskedQuestion:
    r"""Read question and reference from a Questioner's output, which is untrusted.

    It is one JSON object, or ends with one in a code fence. It has the keys ``question`` and ``answer``; for
    a choice also ``options``, an object of four different strings A to D. The answer to a ``number``
    question is one number that is not 0. A ``general`` answer has at most `longest_answer` words.

    Example:
        >>> read_question('Here:\n```json\n{"question": "Which profit?", "answer": 17}\n```', "number")
        AskedQuestion(question='Which profit?', answer='17', fault='')
        >>> read_question('{"question": "Which profit?", "answer": "none"}', "number").fault
        'malformed'
    """
    found = json_object(text) or json_object(_last_fence(text))
    if found is None:
        return _MALFORMED
    question, answer = _line(found.get("question")), _line(found.get("answer"))
    if task == "choice":
        question += _choices(found.get("options"))
        fits = answer in LETTERS and "\n" in question
    elif task == "number":
        match = _NUMBER.fullmatch(answer)
        fits = match is not None and float(match[1].replace(",", "")) != 0
    else:
        fits = True
    if not fits or not words_of(question) or not words_of(answer) or len(question) > MOST_QUESTION:
        return _MALFORMED
    if task == "general" and len(answer.split()) > longest_answer:
        return AskedQuestion(fault="long")
    return AskedQuestion(question, answer)


def _last_fence(text: str) -> str:
    """What stands in the code fence with which a string ends; empty if it ends with none of JSON."""
    before, _, after = text.strip().rpartition("```")
    _, fence, inside = before.rpartition("```")
    label, brace, rest = inside.partition("{")
    whole = fence and not after and label.strip().casefold() in ("", "json")
    return brace + rest.rstrip() if whole else ""


def _line(value: object) -> str:
    """A string or a number as a string; empty for anything else, and for what no prompt can hold."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    finite = isinstance(value, float) and math.isfinite(value)
    text = format(Decimal(str(value)), "f") if finite else str(value).strip()  # 0.00002, not 2e-05
    strange = any(unicodedata.category(letter) in ("Cs", "Cc") and letter not in "\n\t\r" for letter in text)
    return "" if strange else text


def _choices(options: object) -> str:
    """The four choices as lines; empty if there are not four different ones."""
    if not isinstance(options, dict) or tuple(sorted(options)) != LETTERS:
        return ""
    texts = [_line(options[letter]) for letter in LETTERS]
    if not all(texts) or len(set(texts)) < len(texts):
        return ""
    return "".join(f"\n{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=True))


def read_vote(text: str) -> Vote:
    r"""A Verifier's verdict: its last line is YES or NO. Anything else is an unknown vote, never a third one.

    Example:
        >>> read_vote("Both say 17.\n**YES**"), read_vote("NO."), read_vote("YES and NO"), read_vote("")
        ('yes', 'no', 'unknown', 'unknown')
    """
    *_, last = text.strip().rsplit("\n", 1)
    word = last.strip(" \t\r*_`.!#>").casefold()
    return "yes" if word == "yes" else "no" if word == "no" else "unknown"


Phase = Literal["ask", "probe", "answer", "judge", "end"]


@dataclass(frozen=True, slots=True)
class SpellState:
    """Who acts next, the question with its reference (`expected`), the answer as the Verifier reads it."""

    problem: Problem
    phase: Phase = "ask"
    question: str = ""
    expected: str = ""
    output: str = ""
    answered: bool = False


_ACTING: Mapping[Phase, str] = {
    "ask": QUESTIONER, "probe": RESPONDER, "answer": RESPONDER, "judge": VERIFIER
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spell:
    """The rules of SPELL.

    The metadata of a cluster say what the Questioner sees: the documents with the numbers ``shown`` (all by
    default), and ``examples``, earlier questions with their answers. The Responder sees all documents.

    Attributes:
        grounding: Whether the Responder first answers without documents.
        longest_answer: Longer references are dropped, in words. The paper: 40 tokens.
        most_characters: Of an answer, as the Verifier reads it: its end. So no answer can fill the context of
            its Verifier.

    Raises:
        ConfigError: A setting makes no sense.
    """

    roles_from: ClassVar[str] = "mars_env.methods.spell.agents:SPELL_ROLES"
    rewards: ClassVar[Mapping[str, Reward]] = MappingProxyType({})
    team_reward: ClassVar[str] = "mars_env.methods.spell.rewards:EPISODE_REWARD"
    grader: ClassVar[str] = "mars_env.grading.cover:CoverMatch"
    trained_by: ClassVar[str] = "mars_env.methods.spell.training:train_spell"

    grounding: bool = True
    longest_answer: int = 40
    most_characters: int = 4000
    possible_agents: ClassVar[tuple[str, ...]] = (QUESTIONER, RESPONDER, VERIFIER)

    def __post_init__(self) -> None:
        if not isinstance(self.grounding, bool):
            raise ConfigError(f"grounding is true or false, got {shown(self.grounding)}")
        for name in ("longest_answer", "most_characters"):
            require_integer(getattr(self, name), name)

    @property
    def max_turns(self) -> int:
        """A question, the answer without documents, an answer and a verdict."""
        return 4 if self.grounding else 3

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """Questioner: task, documents, examples; Responder: documents, question; Verifier: no documents."""
        names = {
            QUESTIONER: ("task", "documents", "examples"),
            RESPONDER: ("documents", "question"),
            VERIFIER: ("question", "answer", "reference"),
        }
        return {name: UnicodeText() for name in names[agent]}

    def start(self, problem: Problem) -> SpellState:
        """Nothing has been asked yet.

        Raises:
            ConfigError: The problem is not a cluster of documents.
        """
        documents_of(problem)
        return SpellState(problem)

    def current_agent(self, state: SpellState) -> str | None:
        """Whose turn it is; None at the end, which a malformed or ungrounded question brings at once."""
        return _ACTING.get(state.phase)

    def observe(self, state: SpellState, agent: str) -> Observation:
        """The agent's fields. Without documents the Responder's are an empty text."""
        if agent == VERIFIER:
            return {"question": state.question, "answer": state.output, "reference": state.expected}
        documents, metadata = documents_of(state.problem), state.problem.metadata
        if agent == RESPONDER:
            seen = state.phase not in ("ask", "probe")
            return {"documents": _listed(documents) if seen else "", "question": state.question}
        shown_ones = metadata.get("shown", range(len(documents)))
        return {
            "task": state.problem.statement,
            "documents": _listed([documents[i] for i in shown_ones]),
            "examples": "\n\n".join(
                f"Question: {each['question']}\nAnswer: {each['answer']}"
                for each in metadata.get("examples", ())
            ),
        }

    def submission(self, state: SpellState, action: Action) -> str | None:
        """Answers are graded, with and without documents."""
        return action.text if self.current_agent(state) == RESPONDER else None

    def posed(self, state: SpellState) -> Problem:
        """The question with its reference: what an answer is graded on."""
        return Problem(state.problem.id, state.question, state.expected)

    def note(self, state: SpellState, action: Action) -> Mapping[str, Any]:
        """Question and reference; whether an answer was one without documents; the vote of a Verifier."""
        notes: dict[str, Any] = {"truncated": action.truncated}
        if state.phase == "ask":
            asked = self._asked(state, action)
            return notes | {"question": asked.question, "answer": asked.answer, "fault": asked.fault}
        if state.phase == "judge":
            return notes | {"vote": read_vote(action.text)}
        return notes | {"probe": state.phase == "probe"}

    def apply(self, state: SpellState, action: Action, grade: Grade | None) -> SpellState:
        """The next phase. The grade decides only whether a question is grounded, and no agent sees it."""
        if state.phase == "ask":
            asked = self._asked(state, action)
            if asked.fault:
                return replace(state, phase="end")
            phase: Phase = "probe" if self.grounding else "answer"
            return replace(state, phase=phase, question=asked.question, expected=asked.answer)
        if state.phase == "probe":
            grounded = grade is None or grade.verdict is Verdict.WRONG
            return replace(state, phase="answer" if grounded else "end")
        if state.phase == "answer":
            return replace(state, phase="judge", output=action.text[-self.most_characters :], answered=True)
        return replace(state, phase="end")

    def final(self, state: SpellState) -> int | None:
        """The answer with documents."""
        return int(self.grounding) if state.answered else None

    def _asked(self, state: SpellState, action: Action) -> AskedQuestion:
        return read_question(action.text, state.problem.metadata.get("task", "general"), self.longest_answer)


def _listed(documents: Sequence[str]) -> str:
    return "\n\n".join(f"Document {number}:\n{text}" for number, text in enumerate(documents, 1))
