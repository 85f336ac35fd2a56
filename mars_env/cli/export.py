"""`mars-env export`: a stored run as a data set for other trainers."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mars_env.agents.registry import as_agent, roles_of
from mars_env.agents.roles import RoleAgent
from mars_env.cli import options
from mars_env.cli.screen import say
from mars_env.cli.stored import stored_game
from mars_env.cli.streams import STREAM, write_to
from mars_env.errors import ConfigError
from mars_env.lazy import import_object, needs
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.requests import is_messages
from mars_env.models.scripted import ScriptedModel
from mars_env.rollout import groups_of, read_run
from mars_env.rollout.exports import (
    PromptOf,
    dpo_rows,
    prompted,
    sft_rows,
    turn_rows,
    write_jsonl,
    write_parquet,
)
from mars_env.text import counted
from mars_env.types import Message, Observation, Turn

_CUTS = re.compile(r'\b(top_p|top_k|min_p)[\\"=: ]{1,6}(\d*\.?\d+)')
"""As in ``top_p=0.9`` of a specification, or ``"top_p": "0.9"`` of an agent given as an object."""


def export(  # public edge: one parameter is one option of the command
    run: Path,
    out: Annotated[Path, typer.Argument()],
    format: Literal["sft", "dpo", "samples", "parquet"] = "sft",
    role: list[str] | None = None,
    least: float = 1.0,
    tokenizer: str | None = None,
    prompt: str | None = None,
    env_id: options.StoredEnv = None,
    set_: options.Settings = None,
    advantage: Literal["group_normalised", "mean_centred", "leave_one_out"] = "group_normalised",
    skip_untrainable: bool = False,
) -> None:
    """Write a run as a data set for other trainers.

    Prompts are those of the library's own agents, as messages; --tokenizer gives the exact prompts of runs
    that recorded token ids, and --prompt those of your own agents.

    Args:
        out: The file to write: .jsonl, or .parquet for the flat table; - is standard output.
        format: sft: right turns; dpo: pairs of a right and a wrong turn on the same prompt; samples: what a
            trainer needs of each completion, with its advantage; parquet: all turns.
        role: Only turns of this role; repeatable.
        least: Lowest reward of a right turn, for roles that are not graded.
        tokenizer: Decode the prompts that were read with this, as strings.
        prompt: my_module:my_prompt, a function of role and observation: text or messages.
        advantage: How samples are compared in their groups.
        skip_untrainable: Leave samples without token ids or log-probabilities out.
    """
    if tokenizer and prompt:
        raise ConfigError("--tokenizer and --prompt both make the prompts: give one of them")
    if str(out) != STREAM and (out.suffix == ".parquet") != (format == "parquet"):
        raise ConfigError(f"--format parquet writes FILE.parquet, and no other does: got {out} for {format}")
    for option, is_given, formats in (
        ("--least", least != 1.0, ("sft", "dpo")),
        ("--tokenizer", tokenizer is not None, ("sft", "dpo")),
        ("--prompt", prompt is not None, ("sft", "dpo")),
        ("--advantage", advantage != "group_normalised", ("samples",)),
        ("--skip-untrainable", skip_untrainable, ("samples",)),
    ):
        if is_given and format not in formats:
            raise ConfigError(f"{option} is for --format {' and '.join(formats)}, not for {format}")
    stored = read_run(run)
    if role and format in ("samples", "parquet"):
        known = {turn.role for tree in stored.trees for turn in tree.turns}
        if unknown := sorted({*role} - known):
            there = f"there are {', '.join(sorted(known))}" if known else "the run has no turns yet"
            raise ConfigError(f"no turn has the role {unknown[0]!r}; {there}")
    with write_to(out) as target:
        if format == "samples":
            from mars_env.trainers.config import TrainConfig
            from mars_env.trainers.sample_files import write_samples
            from mars_env.trainers.samples import turn_samples

            config = TrainConfig(advantage=advantage, train_roles=tuple(role) if role else None)
            sampled = turn_samples(groups_of(stored.trees), config, skip=skip_untrainable)
            number = write_samples(target, sampled)
            if cut := cut_distribution(stored.manifest["config"]):
                wrong = "its log-probabilities may be of the cut distribution, and a trainer's ratios wrong"
                say(f"note: this run was sampled with {cut}: {wrong}", err=True)
        elif format == "parquet":
            table = (row for row in turn_rows(stored.trees) if not role or row["role"] in role)
            number = write_parquet(table, target)
        else:
            game = stored_game(stored, env_id, options.settings(set_))
            prompt_of: PromptOf = partial(_library_prompt, roles_of(game.rules))
            if tokenizer or prompt:
                prompt_of = _decoded(tokenizer) if tokenizer else _called(prompt or "")
            rows_of = sft_rows if format == "sft" else dpo_rows
            turns = prompted(stored.trees, game, prompt_of, role)
            number = write_jsonl(rows_of(turns, least), target)
    say(f"wrote {counted(number, 'row')} to {out}", err=str(out) == STREAM)


def cut_distribution(config: Mapping[str, Any]) -> str:
    """How a stored run's agents cut the distribution that they sampled from; empty if nothing says that."""
    recorded = json.dumps([config.get("agents"), config.get("identity")])
    found = {(name, value) for name, value in _CUTS.findall(recorded) if float(value)}
    return ", ".join(sorted(f"{n}={value}" for n, value in found if n != "top_p" or float(value) < 1))


def _called(name: str) -> PromptOf:
    function: Any = import_object(name)

    def prompt(turn: Turn, observation: Observation) -> str | list[Message] | None:
        made = function(turn.role, observation)
        if made is None or isinstance(made, str):
            return made
        if not isinstance(made, Sequence) or not is_messages(made):
            raise ConfigError(f"{name} gave {type(made).__name__}: return a string, messages or None")
        return [dict(message) for message in made]

    return prompt


def _library_prompt(
    roles: Mapping[str, type[RoleAgent]], turn: Turn, observation: Observation
) -> str | list[Message] | None:
    """The prompt of the library's agent; None for a turn that took several calls."""
    if len(turn.action.completions) > 1:
        return None
    if turn.role not in roles:
        raise ConfigError(f"the role {turn.role!r} has no built-in prompt: give --prompt or --tokenizer")
    agent: Any = as_agent(ScriptedModel([""]), turn.agent, roles=roles)
    return [dict(message) for message in agent.prompt(observation)]


def _decoded(name: str) -> PromptOf:
    with needs("hf", "--tokenizer needs transformers"):
        from transformers import AutoTokenizer
    [tokenizer] = from_checkpoint(name, AutoTokenizer.from_pretrained)

    def prompt(turn: Turn, observation: Observation) -> str:
        ids = turn.action.completions[-1].prompt_ids
        if not ids:
            raise ConfigError(f"turn {turn.id} of {turn.tree_id} has no prompt ids: leave --tokenizer out")
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return prompt
