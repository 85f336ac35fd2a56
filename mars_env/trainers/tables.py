"""The tables of a run file beside the update's: environment, team, engine, evaluation, logging."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, model_validator


class Table(BaseModel):
    """Settings that are read strictly: an unknown name is an error. Null stands for the default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value is not None}


class EnvironmentSettings(Table):
    """What is played."""

    id: str
    """An id such as ``aime-solve-verify-correct``; ``my_module:my-set-my-game`` imports my_module first, and
    ``my_module:my_game`` is a game, which needs `problems`."""
    settings: Mapping[str, Any] = {}
    """Settings of the game, on top of those that it names for training."""
    problems: str | None = None
    """Replaces the problems in the id: a set's name, or a file."""
    problem_options: Mapping[str, Any] = {}
    """For the loader of the problems, e.g. ``{ split = "train", seed = 1 }``."""
    limit: PositiveInt | None = None
    """Train on this many problems, the first ones; None: all."""
    rewards: Mapping[str, str] = {}
    """Step rewards by role, as ``module:function``; they replace the game's own."""
    team_reward: str | None = None
    """A reward that needs the whole tree, as ``module:function``."""
    grader: str | None = None
    """Replaces the grader for the problems' kind, as ``module:object``."""


class TeamSettings(Table):
    """Who plays, and what is trained."""

    model: str | tuple[str, ...] | Mapping[str, str] | None = None
    """Checkpoint, a path or a Hugging Face name, or ``tiny`` for a small random model, with which to try a
    file in this process: one for all agents, a list in the order of the agents, or a table by role or agent,
    in which ``"verifier,corrector"`` share one policy."""
    lora: PositiveInt | None = None
    """Train adapters of this rank on one checkpoint, one for each agent or each name in `model`."""
    others: Mapping[str, str] = {}
    """Roles or agents that other models play, not trained, e.g. ``{ solver = "http://host/v1#model" }``."""
    agents: str | None = None
    """A function that makes the team, as ``module:function``, and returns agents by name or role. It gets
    those of these arguments for which it has parameters: ``model``, ``names``, ``sampling``,
    ``temperature``, ``max_tokens``, ``policy``. None: the library's own agents."""
    thinking: Literal["tags", "opened", "off"] = "tags"
    """How the model marks its thinking (`mars_env.agents.thinking`); for the library's own agents."""
    tools: str = ""
    """What the library's own agents may call while they write: ``python``, ``my_module:my_tool``, joined by
    ``+`` (docs/tools.md)."""


class EngineSettings(Table):
    """What samples."""

    name: Literal["hf", "vllm"] | None = None
    """``hf``: the trained model itself; ``vllm``: vLLM. None: hf in this process, vllm through OpenRLHF."""
    context: PositiveInt | None = None
    """Most tokens of a prompt and its completion; None: the context of the model."""
    max_num_seqs: PositiveInt | None = None
    """Most sequences that vLLM samples at once; None: its own limit (128 to 1024, by the GPU)."""
    max_num_batched_tokens: PositiveInt | None = None
    """Most tokens that vLLM reads in one step; None: its own limit (2048 to 16384, by the GPU)."""
    arguments: Mapping[str, Any] = {}
    """Other arguments of vLLM's engine, e.g. ``{ gpu_memory_utilization = 0.4 }``."""

    def limits(self) -> dict[str, int]:
        """The limits by vLLM's names, without those that are left to vLLM."""
        return self.model_dump(include={"max_num_seqs", "max_num_batched_tokens"}, exclude_none=True)


class EvaluationSettings(Table):
    """Evaluation during training."""

    every: NonNegativeInt = 0
    """Updates between two evaluations; 0: none."""
    problems: str | None = None
    """A set's name or a file; None: the set of the training."""
    problem_options: Mapping[str, Any] = {}
    """For their loader, e.g. ``{ split = "test" }``."""
    limit: PositiveInt | None = None
    """Play this many problems, the first ones; None: all."""
    settings: Mapping[str, Any] | None = None
    """Settings of the game, e.g. ``{ rounds = 2 }``; None: those of training; empty: the game's own."""
    samples: PositiveInt = 1
    """Episodes of each problem."""
    temperature: float | None = None
    """None: that of training, as agents of your own always have it."""
    max_tokens: PositiveInt | None = None
    """Most tokens of a completion; None: as in training."""


class LoggingSettings(Table):
    """Where metrics go, beside a file in the folder of the run."""

    console: bool = True
    """A line for each update."""
    tensorboard: bool = False
    """Files for TensorBoard, in the folder of the run."""
    trackio: str | None = None
    """Name of a project of trackio."""
    wandb: str | None = None
    """Name of a project of Weights & Biases."""
    record: bool = False
    """Write the rows that were trained beside the checkpoints: ``samples.jsonl`` (docs/other-trainers.md)."""


def setting_rows(table: Any, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, default and meaning of each setting, tables before what is in them.

    `table` has the defaults, or is a type of settings.
    """
    for name, annotation, default, meaning in _fields(table):
        value = getattr(table, name, default)
        inner = next((each for each in (annotation, *get_args(annotation)) if _is_table(each)), None)
        text = " ".join(meaning.split()).replace("`", "")
        if inner is None:
            shown_default = "" if value in (None, {}, ()) else json.dumps(value, default=str)
            yield prefix + name, _type_name(annotation), shown_default, text
        else:
            yield prefix + name, "table", "", text
            yield from setting_rows(inner if value is None else value, f"{prefix}{name}.")


def _fields(table: Any) -> Iterator[tuple[str, Any, Any, str]]:
    kind: Any = table if isinstance(table, type) else type(table)
    if not is_dataclass(kind):
        for name, info in kind.model_fields.items():
            default = None if info.is_required() else info.get_default(call_default_factory=True)
            yield name, info.annotation, default, info.description or ""
        return
    text = inspect.cleandoc(kind.__doc__ or "")
    described = dict(re.findall(r"^ {4}(\w+): ((?:.+|\n {8})+)", text, re.MULTILINE))
    for field in fields(kind):
        yield field.name, field.type, field.default, described.get(field.name, "")


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def _type_name(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    text = re.sub(r"\b(?:typing|collections\.abc)\.", "", str(kind))
    text = re.sub(r"Optional\[(.+)\]$", r"\1 | None", text)
    return re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", text)
