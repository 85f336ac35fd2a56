"""`mars-env export` and `mars-env check-rows`: rows for other trainers, and whether they are right."""

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
from mars_env.cli.screen import Screen, say
from mars_env.cli.stored import stored_game
from mars_env.cli.streams import STREAM, read_from, write_to
from mars_env.errors import ConfigError, explained
from mars_env.gate import safe_messages
from mars_env.lazy import import_object, needs
from mars_env.models.checkpoint import from_checkpoint
from mars_env.models.requests import is_messages
from mars_env.models.scripted import ScriptedModel
from mars_env.rollout import Run, exports, groups_of, read_run
from mars_env.rollout.exports import PromptOf
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
    advantage: Annotated[
        Literal["group_normalised", "mean_centred", "leave_one_out"], typer.Option(metavar="NAME")
    ] = "group_normalised",
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
        advantage: How samples are compared in their groups: group_normalised, mean_centred or leave_one_out.
    """
    if tokenizer and prompt:
        raise ConfigError("--tokenizer and --prompt both make the prompts: give one of them")
    if str(out) != STREAM and (out.suffix == ".parquet") != (format == "parquet"):
        raise ConfigError(f"--format parquet writes FILE.parquet, and no other does: got {out} for {format}")
    _require_format(format, {"--advantage": advantage != "group_normalised"}, ("samples",))
    of_prompts = {"--least": least != 1, "--tokenizer": tokenizer is not None, "--prompt": prompt is not None}
    _require_format(format, of_prompts, ("sft", "dpo"))
    stored = read_run(run)
    if format in ("samples", "parquet"):
        _require_roles(stored, role or [])
    with write_to(out) as target:
        if format == "samples":
            number = _write_samples(stored, target, advantage, role)
        elif format == "parquet":
            table = (row for row in exports.turn_rows(stored.trees) if not role or row["role"] in role)
            number = exports.write_parquet(table, target)
        else:
            game = stored_game(stored, env_id, options.settings(set_))
            prompt_of: PromptOf = partial(_library_prompt, roles_of(game.rules))
            if tokenizer or prompt:
                prompt_of = _decoded(tokenizer) if tokenizer else _prompt_function(prompt or "")
            rows_of = exports.sft_rows if format == "sft" else exports.dpo_rows
            turns = exports.prompted(stored.trees, game, prompt_of, role)
            number = exports.write_jsonl(rows_of(turns, least), target)
    say(f"wrote {counted(number, 'row')} to {out}", err=str(out) == STREAM)


def check_rows(
    file: Annotated[Path, typer.Argument()],
    advantage: Annotated[
        Literal["group_normalised", "mean_centred", "leave_one_out", "any"], typer.Option(metavar="NAME")
    ] = "group_normalised",
) -> None:
    """Check rows to train on, of this or another library.

    Ids, masks, versions, log-probabilities, groups and advantages are checked. Each problem is a line with
    row and field, and makes the exit status 1. docs/other-trainers.md has the form of rows.

    Args:
        file: Rows of JSON; - is standard input.
        advantage: How advantages follow from a group's rewards: group_normalised, mean_centred,
            leave_one_out; any: not checked.
    """
    from mars_env.trainers.row_checks import check_rows as problems_of

    count = 0
    cannot = explained(ConfigError, f"{file} cannot be read", OSError)
    with cannot, read_from(file) as path, path.open("rb") as lines:
        for problem in problems_of(lines, advantage):
            count += 1
            place = f"row {problem.row}" + (f", {problem.field}" if problem.field else "")
            say(f"{place}: {problem.message}")
    Screen(stderr=True).print(counted(count, "problem") if count else "all rows are right")
    raise typer.Exit(1 if count else 0)


def _require_format(format: str, is_given: Mapping[str, bool], formats: Sequence[str]) -> None:
    for option in (option for option, is_set in is_given.items() if is_set and format not in formats):
        raise ConfigError(f"{option} is for --format {' and '.join(formats)}, not for {format}")


def _require_roles(stored: Run, roles: Sequence[str]) -> None:
    played = {turn.role for tree in stored.trees for turn in tree.turns}
    if unknown := sorted({*roles} - played):
        there = f"there are {', '.join(sorted(played))}" if played else "the run has no turns yet"
        raise ConfigError(f"no turn has the role {unknown[0]!r}; {there}")


def _write_samples(stored: Run, target: Path, advantage: Any, roles: Sequence[str] | None) -> int:
    from mars_env.trainers.config import TrainConfig
    from mars_env.trainers.sample_files import write_samples
    from mars_env.trainers.samples import turn_samples
    from mars_env.trainers.scorable import scorable_groups

    config = TrainConfig(advantage=advantage, train_roles=tuple(roles) if roles else None)
    groups, unscorable = scorable_groups(groups_of(stored.trees), config, required=True)
    number = write_samples(target, turn_samples(groups, config))
    if unscorable:
        reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(unscorable.items()))
        say(f"note: turns that cannot be scored have left their groups ({reasons})", err=True)
    if cut := cut_distribution(stored.manifest):
        wrong = "its log-probabilities may be of the cut distribution, and a trainer's ratios wrong"
        say(f"note: this run was sampled with {cut}: {wrong}", err=True)
    return number


def cut_distribution(manifest: Mapping[str, Any]) -> str:
    """How a stored run's agents cut the distribution that they sampled from; empty if nothing says that."""
    recorded = json.dumps([manifest["must_match"].get("agents"), manifest["may_change"].get("agents")])
    pairs = {(name, value) for name, value in _CUTS.findall(recorded) if float(value)}
    return ", ".join(sorted(f"{n}={value}" for n, value in pairs if n != "top_p" or float(value) < 1))


def _prompt_function(name: str) -> PromptOf:
    function: Any = import_object(name)

    def prompt(turn: Turn, observation: Observation) -> str | list[Message] | None:
        answer = function(turn.role, observation)
        if answer is None or isinstance(answer, str):
            return answer
        if not isinstance(answer, Sequence) or not is_messages(answer):
            raise ConfigError(f"{name} gave {type(answer).__name__}: return a string, messages or None")
        return [dict(message) for message in answer]

    return prompt


def _library_prompt(
    roles: Mapping[str, type[RoleAgent]], turn: Turn, observation: Observation
) -> str | list[Message] | None:
    if len(turn.action.completions) > 1:
        return None
    if turn.role not in roles:
        raise ConfigError(f"the role {turn.role!r} has no built-in prompt: give --prompt or --tokenizer")
    agent: Any = as_agent(ScriptedModel([""]), turn.agent, roles=roles)
    return safe_messages(agent.prompt(observation))


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
