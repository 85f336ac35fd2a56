"""The embedded `aime` set: AIME-*style* problems made from templates, with answers from 0 to 999.

It contains no text of the contest. Each template computes its answer in a different way than the statement's
own formula (counting, enumeration, exact fractions); a second method confirmed answers that tests hold.
"""

import random
from collections.abc import Collection, Iterator
from functools import partial
from typing import TypeVar, get_args

from mars_env.errors import ConfigError
from mars_env.problems.aime import (  # noqa: F401 (each registers its templates)
    algebra,
    combinatorics,
    geometry,
    number_theory,
    probability,
    sequences,
)
from mars_env.problems.aime.template import TEMPLATES, Topic
from mars_env.problems.generated import MADE, Draft, generated_set
from mars_env.problems.problem_set import ProblemSet

LEVELS = (1, 2, 3, 4, 5)


def aime_problems(
    *,
    seed: int = 0,
    split: str | None = None,
    level: int | Collection[int] | None = None,
    topic: str | Collection[str] | None = None,
    template: str | Collection[str] | None = None,
) -> ProblemSet:
    """Generated problems in the style of AIME, without end.

    The level is drawn uniformly from those requested, then the template from those of that level. Metadata:
    ``level`` (1 to 5), ``topic``, ``template``, ``parameters`` (the numbers drawn). No statement is in both
    splits, ``"train"`` (the default) and ``"test"``. A `ConfigError` if no template fits all options.

    Example:
        >>> problem = aime_problems(seed=0, topic="geometry")[3]
        >>> problem.id, problem.metadata["topic"], 0 <= int(problem.reference) <= 999
        ('aime-geometry/train/0/3', 'geometry', True)
    """
    levels = _chosen("level", level, LEVELS)
    topics = _chosen("topic", topic, get_args(Topic))
    names = _chosen("template", template, tuple(TEMPLATES))
    entries = sorted(map(TEMPLATES.__getitem__, names), key=lambda entry: entry.name)
    fitting = tuple(entry.name for entry in entries if entry.level in levels and entry.topic in topics)
    if not fitting:
        raise ConfigError(f"the aime set has none of level={level!r}, topic={topic!r}, template={template!r}")
    label = "aime"
    label += "" if level is None else "-level" + "".join(map(str, levels))
    label += "" if topic is None else "".join(f"-{each.replace(' ', '_')}" for each in topics)
    label += "" if template is None else "".join(f"-{each}" for each in names)
    notes = "AIME-style problems made from templates; not the contest's"
    return generated_set("aime", partial(_make, fitting), seed=seed, split=split, label=label, notes=notes)


_T = TypeVar("_T", int, str)


def _chosen(what: str, choice: _T | Collection[_T] | None, options: tuple[_T, ...]) -> tuple[_T, ...]:
    if choice is None:
        return options
    chosen = {choice} if isinstance(choice, str) or not isinstance(choice, Collection) else set(choice)
    unknown = chosen - set(options)
    if unknown or not chosen:
        named = ", ".join(map(repr, unknown)) or "(none asked for)"
        raise ConfigError(f"the aime set has no {what} {named}; it has: {', '.join(map(str, options))}")
    return tuple(item for item in options if item in chosen)


def _make(names: tuple[str, ...], rng: random.Random) -> Iterator[Draft | None]:
    """Draw the template first, then its parameters, so that redraws change no template's share."""
    templates = [TEMPLATES[name] for name in names]
    level = rng.choice(sorted({entry.level for entry in templates}))
    entry = rng.choice([entry for entry in templates if entry.level == level])
    about = {"level": entry.level, "topic": entry.topic, "template": entry.name}
    while True:
        if (question := entry.draw(rng)) is None:
            yield None
            continue
        metadata = {**MADE, "integer": True, **about, "parameters": dict(question.parameters)}
        yield Draft(question.statement, str(int(question.answer)), metadata)
