"""Look-ups: a language of a few tokens in which SPELL can be studied on a CPU within a minute.

A cluster is a table of eight keys in four documents of two entries (``3=7 0=4``). A question names how many
look-ups follow each other, and a key (``2*3``). The answer is a digit or its word, so that exact match
misses half of the right answers. The chain of values is written before the answer (``74>four``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from numpy.random import Generator

from mars_env.agents.roles import RoleAgent
from mars_env.agents.thinking import Thinking
from mars_env.methods.spell.rules import QUESTIONER, RESPONDER, VERIFIER, cluster
from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models.hf import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Model, Observation, Problem, Sampling, role_of
from studies.common.episodes import updates, written_losses
from studies.common.study import recorded_config

NAMES: Final = (QUESTIONER, RESPONDER, VERIFIER)
KEYS: Final = 8
LEVELS: Final = 6
"""Most look-ups of a question."""
WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven")
EASY: Final = (0.5, 0.3, 0.1, 0.05, 0.03, 0.02)
"""How often the warm start asks for one look-up, two, and so on."""
MISTAKES: Final = (0.1, 0.1, 0.25, 0.25, 0.35, 0.35)
"""How often a look-up of the warm start is wrong, by the length of the question."""
WRONG_VOTES: Final = 0.15

_OPEN, _BETWEEN, _CLOSE = '{"question": "', '", "answer": "', '"}'
_ENTRIES = tuple(f"{key}={value}" for key in range(KEYS) for value in range(KEYS))
VOCABULARY: Final = (
    PAD, END, *_ENTRIES, *map(str, range(KEYS)), *WORDS, *(f"{n}*" for n in range(1, LEVELS + 1)),
    "Q", "R", "V", "|", ":", ">", "YES", "NO", _OPEN, _BETWEEN, _CLOSE,
)  # fmt: skip
_IDS: Final = {token: i for i, token in enumerate(VOCABULARY)}
PATTERN: Final = "|".join(
    [*map(re.escape, (_OPEN, _BETWEEN, _CLOSE)), r"\d=\d", r"\d\*", *WORDS, "YES|NO", r"[0-7QRV|:>]"]
)
SHAPE: Final = ModelSize(hidden=48, feed_forward=96, layers=2)
SAMPLING: Final = Sampling(temperature=1.0, max_tokens=LEVELS + 12)


def clusters(seed: int, number: int) -> ProblemSet:
    """Tables of a seed: each is one round through all keys, in four documents."""
    problems = []
    for place in range(number):
        rng = np.random.default_rng(derive_seed(seed, "look-ups", place))
        documents = [" ".join(rows) for rows in _table(rng).reshape(-1, 2).tolist()]
        problems.append(cluster(f"table/{place}", "Ask for a look-up.", documents))
    return ProblemSet("look-ups", problems, revision=f"seed {seed}", licence="Apache-2.0")


def _table(rng: Generator) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The entries in the order of the documents."""
    round_trip = rng.permutation(KEYS)
    return rng.permutation([f"{a}={b}" for a, b in zip(round_trip, np.roll(round_trip, -1), strict=True)])


def truth(problem: Problem, question: str) -> int | None:
    """The right answer to a question; None if it is no question about this table."""
    return follow(" ".join(problem.metadata["documents"]), question)


def follow(documents: str, question: str) -> int | None:
    """What a question asks for, as far as some documents tell.

    Example:
        >>> follow("3=7 7=4", "2*3"), follow("3=7", "2*3"), follow("3=7", "7")
        (4, None, None)
    """
    asked = re.fullmatch(rf"([1-{LEVELS}])\*([0-{KEYS - 1}])", question)
    if asked is None:
        return None
    table = {int(key): int(value) for key, value in re.findall(r"(\d)=(\d)", documents)}
    place: int | None = int(asked[2])
    for _ in range(int(asked[1])):
        place = table.get(place) if place is not None else None
    return place


def is_right(answer: str, value: int | None) -> bool:
    """Whether an answer is the digit or the word of a value."""
    return value is not None and answer in (str(value), WORDS[value])


def level(question: str) -> int:
    """How many look-ups a question asks for; 0 if it is none."""
    asked = re.fullmatch(rf"([1-{LEVELS}])\*[0-{KEYS - 1}]", question)
    return int(asked[1]) if asked else 0


def easy_question(observation: Observation, seed: int) -> str:
    """What a program asks instead of the Questioner: as easy as the warm start, with the right answer."""
    rng = np.random.default_rng(seed)
    documents = str(observation["documents"])
    starts = re.findall(r"(\d)=", documents)
    while True:
        question = f"{rng.choice(LEVELS, p=EASY) + 1}*{rng.choice(starts)}"
        value = follow(documents, question)
        if value is not None:
            return f"{_OPEN}{question}{_BETWEEN}{_form(value, rng)}{_CLOSE}"


def _form(value: int, rng: Generator) -> str:
    return str(value) if rng.random() < 0.5 else WORDS[value]


def _entries(documents: object) -> str:
    return "".join(re.findall(rf"[0-{KEYS - 1}]=[0-{KEYS - 1}]", str(documents)))


def _question(text: object) -> str:
    return "".join(re.findall(r"[1-6]\*|[0-7]", str(text))[:2])


def _answer(text: object) -> str:
    return "".join(re.findall("|".join([*WORDS, "[0-7]"]), str(text))[-3:])


_PROMPTS: Final[dict[str, Callable[[Observation], str]]] = {
    "questioner": lambda seen: (
        f"Q{_entries(seen['documents'])}|" + "".join(re.findall(r"[1-6]\*[0-7]", str(seen["examples"]))) + ":"
    ),
    "responder": lambda seen: f"R{_entries(seen['documents'])}|{_question(seen['question'])}",
    "verifier": lambda seen: f"V{_answer(seen['answer'])}|{_answer(seen['reference'])}",
}


def player(name: str, model: Model) -> RoleAgent:
    """The agent of a role."""
    chain = None if name == VERIFIER else Thinking(opening="<", closing=">", opened=True)
    return RoleAgent(model, sampling=SAMPLING, prompt=_PROMPTS[role_of(name)], thinking=chain)


def run_settings(seed: int, steps: int, clusters: int, rate: float) -> RunSettings:
    """One update a step."""
    return RunSettings(
        seed=seed,
        steps=steps,
        problems_per_step=clusters,
        rollouts=None,
        sampling=SAMPLING,
        train=recorded_config(learning_rate=rate),
    )


def warm_started(*, steps: int = 500, seed: int = 0, mistakes: bool = True) -> HFModel:
    """A new model that knows the language."""
    module = build_model(seed, len(VOCABULARY), SHAPE)
    _name_entries(module, seed)
    rng = np.random.default_rng(derive_seed(seed, "warm start of look-ups"))
    tokenizer = build_tokenizer(VOCABULARY, (PAD, END), PATTERN)
    for step in updates(module, steps, 4e-3, warmup=50, clip=math.inf):
        late = mistakes and 3 * step >= 2 * steps
        errors, wrong = (MISTAKES, WRONG_VOTES) if late else ((0.0,) * LEVELS, 0.0)
        long = [_asks(rng, errors) for _ in range(32)] + [_answers(rng, errors) for _ in range(32)]
        votes = [_votes(rng, wrong) for _ in range(64)]
        loss = written_losses(module, _ids(long)).mean() + written_losses(module, _ids(votes)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
    return HFModel((module, tokenizer), device="cpu", name="speller")


def _name_entries(module: torch.nn.Module, seed: int) -> None:
    """Start embeddings near each other, entry and key, word and digit: the language is learned in seconds."""
    random = torch.Generator().manual_seed(derive_seed(seed, "entries") % 2**63)
    table = module.get_input_embeddings().weight  # type: ignore[operator]
    values = torch.randn(KEYS, table.shape[1], generator=random)
    with torch.no_grad():
        for entry in _ENTRIES:
            table[_IDS[entry]] = (table[_IDS[entry[0]]] + values[int(entry[2])]) / 2**0.5
        for value, word in enumerate(WORDS):
            table[_IDS[word]] = (table[_IDS[word]] + 2 * table[_IDS[str(value)]]) / 5**0.5


Row = tuple[list[str], list[str]]
"""The tokens of a prompt, and of what follows."""


def _ids(rows: Sequence[Row]) -> list[tuple[list[int], list[int]]]:
    return [([_IDS[token] for token in prompt], [_IDS[token] for token in said]) for prompt, said in rows]


def _chain(
    entries: Sequence[str], start: str, number: int, errors: Sequence[float], rng: Generator
) -> list[str]:
    """The values that a writer finds: a guess where there is no entry, or by mistake."""
    table = {entry[0]: entry[2] for entry in entries}
    values = []
    for _ in range(number):
        known = start in table and rng.random() >= errors[number - 1]
        start = table[start] if known else str(rng.integers(KEYS))
        values.append(start)
    return values


def _answers(rng: Generator, errors: Sequence[float]) -> Row:
    entries = _table(rng).tolist() if rng.random() < 0.9 else []  # sometimes without documents
    number, start = int(rng.integers(1, LEVELS + 1)), str(rng.integers(KEYS))
    values = _chain(entries, start, number, errors, rng)
    prompt = ["R", *entries, "|", f"{number}*", start]
    return prompt, [*values, ">", _form(int(values[-1]), rng), END]


def _asks(rng: Generator, errors: Sequence[float]) -> Row:
    entries = _table(rng).tolist()[: 4 if rng.random() < 0.5 else KEYS]
    levels = rng.choice(LEVELS, size=rng.integers(4), p=EASY) + 1
    number = int(rng.choice(LEVELS, p=EASY)) + 1
    if len(levels) and rng.random() < 0.5:
        number = min(LEVELS, int(levels.max()) + 1)
    examples = [token for n in levels for token in (f"{n}*", str(rng.integers(KEYS)))]
    start = str(rng.choice(entries))[0]
    values = _chain(entries, start, number, errors, rng)
    asked = [f"{number}*", start]
    said = [*asked, *values, ">", _OPEN, *asked, _BETWEEN, _form(int(values[-1]), rng), _CLOSE, END]
    return ["Q", *entries, "|", *examples, ":"], said


def _votes(rng: Generator, wrong: float) -> Row:
    value, other = int(rng.integers(KEYS)), int(rng.integers(KEYS))
    if rng.random() < 0.5:
        other = value
    same = (value == other) != (rng.random() < wrong)
    return ["V", _form(value, rng), "|", _form(other, rng)], ["YES" if same else "NO", END]
