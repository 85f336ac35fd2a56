"""SPELL's rules: one asks about documents, one answers, one compares (arXiv 2509.23863; docs/methods.md)."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import PositiveInt

from mars_env.envs.game_function import game
from mars_env.envs.rules import Play, ask
from mars_env.errors import ConfigError
from mars_env.grading.json_reply import parse_json_object
from mars_env.methods.spell.answers import MOST_ANSWER, NUMBER, comparable, read_answer
from mars_env.text import brief
from mars_env.types import Problem, Verdict

QUESTIONER, RESPONDER, VERIFIER = "questioner_0", "responder_0", "verifier_0"

TASKS: Final = ("general", "number", "choice")
"""Kinds of questions, a problem's ``task`` in its metadata: any; answered by one number; of four choices."""

LETTERS: Final = ("A", "B", "C", "D")
MOST_QUESTION: Final = 4000
"""A longer question is malformed, in characters."""

Vote = Literal["yes", "no", "unknown"]


def cluster(
    id: str,
    task_text: str,
    documents: Sequence[str],
    *,
    other_documents: Sequence[str] = (),
    task: str = "general",
) -> Problem:
    """A problem of these rules: documents, and what is to be asked about them, a task of `TASKS`.

    `other_documents` are those of another cluster, for the answer that must not succeed; `train_spell` draws
    them itself. A `ConfigError` if there is no document, or no such task.
    """
    metadata = {"documents": list(documents), "task": task}
    if other_documents:
        metadata["other_documents"] = list(other_documents)
    problem = Problem(id, task_text, None, "open", metadata)
    documents_of(problem)
    return problem


def documents_of(problem: Problem, key: str = "documents") -> list[str]:
    """The documents of a cluster, or its ``"other_documents"``; a `ConfigError` without them or a task."""
    documents, task = problem.metadata.get(key), problem.metadata.get("task", "general")
    texts = documents if isinstance(documents, list | tuple) else ()
    if not texts or not all(isinstance(text, str) and text for text in texts):
        advice = "make it by mars_env.methods.spell.rules.cluster, from lists of strings"
        if key != "documents":
            advice += ", or set grounding to false"
        raise ConfigError(f"the problem {brief(problem.id)} has no {key}: {advice}")
    if task not in TASKS:
        raise ConfigError(f"the task of {brief(problem.id)} is {brief(task)}, not {', '.join(TASKS)}")
    return list(texts)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What a Questioner wrote; malformed is penalised, a long answer dropped without a penalty."""

    question: str = ""
    answer: str = ""
    fault: Literal["", "malformed", "long"] = ""


_MALFORMED = AskedQuestion(fault="malformed")


def read_question(text: str, task: str = "general", longest_answer: int = 40) -> AskedQuestion:
    r"""Read question and reference from a Questioner's output, which is untrusted.

    It is one JSON object, or ends with one in a code fence. It has the keys ``question`` and ``answer``; for
    a choice also ``options``, an object of four different strings A to D. The answer to a ``number``
    question is one number that is not 0. A ``general`` answer has at most `longest_answer` words, and
    `MOST_ANSWER` characters.

    Example:
        >>> read_question('Here:\n```json\n{"question": "Which profit?", "answer": 17}\n```', "number")
        AskedQuestion(question='Which profit?', answer='17', fault='')
        >>> read_question('{"question": "Which profit?", "answer": "none"}', "number").fault
        'malformed'
    """
    reply = parse_json_object(text) or parse_json_object(_last_fence(text))
    if reply is None:
        return _MALFORMED
    question, answer = _line(reply.get("question")), " ".join(_line(reply.get("answer")).split())
    if task == "choice":
        question += _choices(reply.get("options"))
        fits = answer in LETTERS and "\n" in question
    elif task == "number":
        fits = NUMBER.fullmatch(answer) is not None and comparable(answer) != 0
    else:
        fits = True
    if not fits or not any(map(str.isalnum, question)) or len(question) > MOST_QUESTION:
        return _MALFORMED
    if task == "general" and (len(answer.split()) > longest_answer or len(answer) > MOST_ANSWER):
        return AskedQuestion(fault="long")
    reference = read_answer(answer)
    return AskedQuestion(question, reference) if reference else _MALFORMED


def _last_fence(text: str) -> str:
    """What stands in the fence of JSON with which a string ends, if it does."""
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


@game(
    max_turns=lambda settings: 4 if settings.grounding else 3,
    roles={
        "questioner": "mars_env.methods.spell.agents:Questioner",
        "responder": "mars_env.methods.spell.agents:Responder",
        "verifier": "mars_env.methods.spell.agents:AnswerVerifier",
    },
    fields={
        "questioner": ["task", "documents", "examples"],
        "responder": ["documents", "question"],
        "verifier": ["question", "answer", "reference"],
    },
    rewards={},
    team_reward="mars_env.methods.spell.rewards:EPISODE_REWARD",
    grader="mars_env.methods.spell.answers:SameAnswer",
    trained_by="mars_env.methods.spell.training:train_spell",
    poses=True,
)
def spell(problem: Problem, *, grounding: bool = True, longest_answer: PositiveInt = 40) -> Play:
    """The Questioner asks, the Responder answers, the Verifier compares the answer with the reference.

    The metadata of a cluster say what the Questioner sees: the documents with the numbers ``shown`` (all by
    default) and ``examples``, earlier questions with their answers. The Responder sees all documents.

    Args:
        problem: A cluster.
        grounding: Whether the Responder first answers from the other cluster's documents.
        longest_answer: Longer references are dropped, in words. The paper: 40 tokens.
    """
    documents = documents_of(problem)
    other_documents = documents_of(problem, "other_documents") if grounding else []

    def parse(text: str) -> dict[str, Any]:
        return asdict(read_question(text, problem.metadata.get("task", "general"), longest_answer))

    reply = yield ask("questioner", **_questioner_fields(problem), graded=False, parse=parse)
    if reply.info["fault"]:
        return None
    question, reference = reply.info["question"], reply.info["answer"]
    posed = Problem(problem.id, question, reference)
    seen: dict[str, Any] = {"question": question, "graded": posed}
    if grounding:
        guess = yield ask("responder", **seen, documents=_numbered(other_documents), info={"probe": True})
        if guess.grade is not None and guess.grade.verdict is not Verdict.WRONG:
            return None  # the question is not known to need its documents
    answer = yield ask("responder", **seen, documents=_numbered(documents), info={"probe": False})
    if short_answer := read_answer(answer.text):
        compared: dict[str, Any] = {"question": question, "answer": short_answer, "reference": reference}
        yield ask("verifier", **compared, graded=False, parse=lambda text: {"vote": read_vote(text)})
    return answer


def _questioner_fields(problem: Problem) -> dict[str, Any]:
    documents, metadata = documents_of(problem), problem.metadata
    chosen = [documents[number] for number in metadata.get("shown", range(len(documents)))]
    examples = [f"Question: {e['question']}\nAnswer: {e['answer']}" for e in metadata.get("examples", ())]
    return {"task": problem.statement, "documents": _numbered(chosen), "examples": "\n\n".join(examples)}


def _numbered(documents: Sequence[str]) -> str:
    return "\n\n".join(f"Document {number}:\n{text}" for number, text in enumerate(documents, 1))
