"""The real sets of mathematics: what a row of each means."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mars_env.problems.hub import HubSet, hub_set
from mars_env.problems.rows import BadField, Row, required_text
from mars_env.types import Problem


def _integer(row: Row, field: str) -> str:
    r"""An integer answer's decimal text, without leading zeros, thousands separators and a degree sign."""
    text = required_text(row, field)
    match = re.fullmatch(r"\$?([+-]?[0-9][0-9,]*)(?:\^\{?\\circ\}?)?\$?", text)
    if match is None:
        raise BadField(field, f"must be an integer, got {text!r}")
    return str(int(match[1].replace(",", "")))


def _metadata(source: str, row: Row, *keys: str) -> dict[str, Any]:
    # Worked solutions are left out: the metadata must not reveal an answer.
    return {"source": source, **{key: row[key] for key in keys if key in row}}


def _integer_problem(
    row: Row, index: int, split: str, *, name: str, source: str, keys: Sequence[str]
) -> Problem:
    """A row of AIME 2024 (HuggingFaceH4), AIME 2025 (math-ai) or BeyondAIME: its answer is an integer."""
    number = required_text(row, "id").rpartition("/")[2] if "id" in row else index
    metadata = _metadata(source, row, *keys) | {"integer": True}
    reference = _integer(row, "answer")
    return Problem(f"{name}/{number}", required_text(row, "problem"), reference, metadata=metadata)


def _math500_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of HuggingFaceH4/MATH-500: problem, solution, answer, subject, level, unique_id."""
    metadata = _metadata("MATH-500", row, "subject", "level")
    unique = required_text(row, "unique_id").removeprefix("test/").removesuffix(".json")
    statement, answer = required_text(row, "problem"), required_text(row, "answer")
    return Problem(f"math500/{unique}", statement, answer, metadata=metadata)


def _gsm8k_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of openai/gsm8k: question, answer (a worked solution that ends in ``#### 1,234``)."""
    _, mark, final = required_text(row, "answer").rpartition("####")
    if not mark:
        raise BadField("answer", "has no '####' before its final answer")
    reference = _integer({"answer": final}, "answer")
    metadata = {"source": "GSM8K", "integer": True}
    return Problem(f"gsm8k/{split}/{index}", required_text(row, "question"), reference, metadata=metadata)


_DAPO_BEFORE = re.compile(r"Solve the following math problem step by step\.[^\n]*\n\n")
_DAPO_AFTER = re.compile(r'\n\nRemember to put your answer on its own line after "Answer:"\.?$')


def _dapo_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of BytedTsinghua-SIA/DAPO-Math-17k: prompt (messages), reward_model, extra_info and others.

    The prompt's instructions before and after the problem are removed, because agents have their own prompts.
    """
    prompt = row.get("prompt")
    if not isinstance(prompt, (list, tuple)) or len(prompt) != 1 or not isinstance(prompt[0], Mapping):
        raise BadField("prompt", "must be a list of one message")
    nested = {"prompt[0].content": prompt[0].get("content")}
    for field, key in (("reward_model", "ground_truth"), ("extra_info", "index")):
        value = row.get(field)
        nested[f"{field}.{key}"] = value.get(key) if isinstance(value, Mapping) else None
    content = required_text(nested, "prompt[0].content")
    before = _DAPO_BEFORE.match(content)
    statement = _DAPO_AFTER.sub("", content[before.end() if before else 0 :]).strip()
    if not statement:
        raise BadField("prompt", "contains no problem between its instructions")
    number = required_text(nested, "extra_info.index")
    reference = required_text(nested, "reward_model.ground_truth")
    metadata = {"source": "DAPO-Math-17k", "integer": True}
    return Problem(f"dapo-math-17k/{number}", statement, reference, metadata=metadata)


def _integers(name: str, source: str, *keys: str) -> HubSet:
    return hub_set(name, partial(_integer_problem, name=name, source=source, keys=keys))


_CONVERT = {"math500": _math500_problem, "gsm8k": _gsm8k_problem, "dapo-math-17k": _dapo_problem}
MATH_SETS = {
    "aime24": _integers("aime24", "AIME 2024", "url", "year"),
    "aime25": _integers("aime25", "AIME 2025"),
    "beyondaime": _integers("beyondaime", "BeyondAIME"),
    **{name: hub_set(name, convert) for name, convert in _CONVERT.items()},
}
