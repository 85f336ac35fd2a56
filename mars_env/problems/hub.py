"""The real sets of mathematics, through Hugging Face `datasets`: repository, pinned revision, licence, rows.

docs/problems.md says how each repository, revision and column name was checked against the hub.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from mars_env.errors import ProblemError
from mars_env.problems.hub_set import RemoteSet, import_datasets, unreachable
from mars_env.problems.rows import BadField, Row, text_of
from mars_env.types import Problem

BATCH = 4096


class HubConvert(Protocol):
    """A pure function that converts a row from the hub into a problem; raises `BadField`."""

    def __call__(self, row: Row, index: int, split: str) -> Problem:
        """Convert the row at an index (from 0) of a split."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSet(RemoteSet):
    """A set of mathematics.

    Attributes:
        splits: Number of rows of each split on the hub; a download of another size is refused.
        convert: Converts a row into a problem.
        config: The repository's configuration, if it has several.
    """

    splits: Mapping[str, int]
    convert: HubConvert
    config: str | None = None

    @property
    def known_splits(self) -> Collection[str]:
        """The splits whose sizes are known."""
        return self.splits

    def problem(self, row: Row, index: int, split: str) -> Problem:
        """Convert a row into a problem; raises `BadField`."""
        return self.convert(row, index, split)

    def download(self, split: str) -> Iterator[tuple[str, Row]]:
        """The rows of a split, with `datasets`.

        Raises:
            ProblemError: It cannot be downloaded, or its size differs from the recorded one.
            MissingExtra: The extra ``datasets`` is not installed.
        """
        datasets = import_datasets(self.name)
        place = f"{self.repo} (revision {self.revision}, split {split})"
        try:
            data = datasets.load_dataset(self.repo, self.config, split=split, revision=self.revision)
        except Exception as error:  # the libraries underneath have many error types for "offline"
            raise unreachable(f"{place} from the Hugging Face hub", error) from error
        if len(data) != self.splits[split]:
            raise ProblemError(
                f"{place} has {len(data)} rows, not the {self.splits[split]} that were recorded: the data "
                "has changed"
            )
        number = 0
        for batch in data.iter(batch_size=BATCH):
            columns = list(batch)
            for values in zip(*batch.values(), strict=True):
                number += 1
                yield f"{self.repo}, split {split}, row {number}", dict(zip(columns, values, strict=True))


def integer_of(row: Row, field: str) -> str:
    r"""An integer answer's decimal text, without leading zeros, thousands separators and a degree sign.

    Raises:
        BadField: The field does not contain an integer.

    Example:
        >>> integer_of({"answer": "025"}, "answer"), integer_of({"answer": "336^\\circ"}, "answer")
        ('25', '336')
    """
    text = text_of(row, field)
    match = re.fullmatch(r"\$?([+-]?[0-9][0-9,]*)(?:\^\{?\\circ\}?)?\$?", text)
    if match is None:
        raise BadField(field, f"must be an integer, got {text!r}")
    return str(int(match[1].replace(",", "")))


def _metadata(source: str, licence: str, row: Row, *keys: str) -> dict[str, Any]:
    # Worked solutions are left out: the metadata must not reveal an answer.
    return {"source": source, "licence": licence, **{key: row[key] for key in keys if key in row}}


def integer_problem(
    row: Row, index: int, split: str, *, name: str, source: str, licence: str, keys: Sequence[str] = ()
) -> Problem:
    """A row of AIME 2024 (HuggingFaceH4), AIME 2025 (math-ai) or BeyondAIME: problem and an integer answer.

    Example:
        >>> row = {"id": "aime2024/60", "problem": "Find $x$.", "answer": "025"}
        >>> problem = integer_problem(row, 0, "train", name="aime24", source="AIME 2024", licence="unknown")
        >>> problem.id, problem.reference
        ('aime24/60', '25')
    """
    number = text_of(row, "id").rpartition("/")[2] if "id" in row else index
    metadata = _metadata(source, licence, row, *keys) | {"integer": True}
    reference = integer_of(row, "answer")
    return Problem(f"{name}/{number}", text_of(row, "problem"), reference, metadata=metadata)


def math500_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of HuggingFaceH4/MATH-500: problem, solution, answer, subject, level, unique_id.

    Example:
        >>> row = {"problem": "Find $x$.", "answer": "\\frac{1}{2}", "subject": "Algebra", "level": 3,
        ...        "unique_id": "test/algebra/12.json"}
        >>> math500_problem(row, 0, "test").id
        'math500/algebra/12'
    """
    metadata = _metadata("MATH-500", MATH_LICENCE, row, "subject", "level")
    unique = text_of(row, "unique_id").removeprefix("test/").removesuffix(".json")
    return Problem(f"math500/{unique}", text_of(row, "problem"), text_of(row, "answer"), metadata=metadata)


def gsm8k_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of openai/gsm8k: question, answer (a worked solution that ends in ``#### 1,234``).

    Example:
        >>> row = {"question": "How many?", "answer": "2 * 617 = 1234\n#### 1,234"}
        >>> gsm8k_problem(row, 5, "test").reference
        '1234'
    """
    _, mark, final = text_of(row, "answer").rpartition("####")
    if not mark:
        raise BadField("answer", "has no '####' before its final answer")
    reference = integer_of({"answer": final}, "answer")
    metadata = _metadata("GSM8K", "MIT", row) | {"integer": True}
    return Problem(f"gsm8k/{split}/{index}", text_of(row, "question"), reference, metadata=metadata)


_DAPO_BEFORE = re.compile(r"Solve the following math problem step by step\.[^\n]*\n\n")
_DAPO_AFTER = re.compile(r'\n\nRemember to put your answer on its own line after "Answer:"\.?$')


def dapo_problem(row: Row, index: int, split: str) -> Problem:
    r"""A row of BytedTsinghua-SIA/DAPO-Math-17k: prompt (messages), reward_model, extra_info and others.

    The prompt's instructions before and after the problem are removed, because agents have their own prompts.

    Example:
        >>> text = ("Solve the following math problem step by step. The last line is Answer: $Answer.\n\n"
        ...         'Find $x$.\n\nRemember to put your answer on its own line after "Answer:".')
        >>> row = {"prompt": [{"role": "user", "content": text}], "reward_model": {"ground_truth": "34"},
        ...        "extra_info": {"index": "9a9b6eb4"}}
        >>> problem = dapo_problem(row, 0, "train")
        >>> problem.id, problem.statement, problem.reference
        ('dapo-math-17k/9a9b6eb4', 'Find $x$.', '34')
    """
    prompt = row.get("prompt")
    if not isinstance(prompt, (list, tuple)) or len(prompt) != 1 or not isinstance(prompt[0], Mapping):
        raise BadField("prompt", "must be a list of one message")
    nested = {
        "prompt[0].content": prompt[0].get("content"),
        "reward_model.ground_truth": _item(row, "reward_model", "ground_truth"),
        "extra_info.index": _item(row, "extra_info", "index"),
    }
    content = text_of(nested, "prompt[0].content")
    before = _DAPO_BEFORE.match(content)
    statement = _DAPO_AFTER.sub("", content[before.end() if before else 0 :]).strip()
    if not statement:
        raise BadField("prompt", "contains no problem between its instructions")
    return Problem(
        f"dapo-math-17k/{text_of(nested, 'extra_info.index')}",
        statement,
        text_of(nested, "reward_model.ground_truth"),
        metadata=_metadata("DAPO-Math-17k", "Apache-2.0", row) | {"integer": True},
    )


def _item(row: Row, field: str, key: str) -> Any:
    value = row.get(field)
    return value.get(key) if isinstance(value, Mapping) else None


MATH_LICENCE = "MIT (of MATH; the data card states none)"


def _integers(name: str, source: str, licence: str, *keys: str, **where: Any) -> HubSet:
    convert = partial(integer_problem, name=name, source=source, licence=licence, keys=keys)
    (default,) = where["splits"]
    return HubSet(name=name, licence=licence, default=default, convert=convert, **where)


HUB_SETS = (
    _integers(
        "aime24",
        "AIME 2024",
        "not stated (problems (c) MAA)",
        "url",
        "year",
        repo="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        splits={"train": 30},
    ),
    _integers(
        "aime25",
        "AIME 2025",
        "Apache-2.0 (data card; problems (c) MAA)",
        repo="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        splits={"test": 30},
    ),
    _integers(
        "beyondaime",
        "BeyondAIME",
        "not verified (see the data card)",
        repo="ByteDance-Seed/BeyondAIME",
        splits={"test": 100},
    ),
    HubSet(
        name="math500",
        repo="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        licence=MATH_LICENCE,
        splits={"test": 500},
        default="test",
        convert=math500_problem,
    ),
    HubSet(
        name="gsm8k",
        repo="openai/gsm8k",
        revision="740312add88f781978c0658806c59bc2815b9866",
        licence="MIT",
        splits={"train": 7473, "test": 1319},
        default="test",
        convert=gsm8k_problem,
        config="main",
    ),
    HubSet(
        name="dapo-math-17k",
        repo="BytedTsinghua-SIA/DAPO-Math-17k",
        revision="65877096c24ffa7abc4e4fa5edb95cf3413a5674",
        licence="Apache-2.0",
        splits={"train": 1_791_700},
        default="train",
        convert=dapo_problem,
        reference_field="reward_model.ground_truth",
        duplicates="merge",
    ),
)

LOADERS = {hub_set.name: hub_set.load for hub_set in HUB_SETS}
"""The sets' loaders by name, for the registry."""
