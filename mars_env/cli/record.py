"""`mars-env record` and `mars-env reward`: programs of agents in any framework, as runs to train on."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mars_env.api import load_problems
from mars_env.cli.options import Required, client_keys, finite_set, serve_until_stopped
from mars_env.cli.screen import say
from mars_env.cli.streams import read_from
from mars_env.errors import ConfigError, ProblemError, explained
from mars_env.files import jsonl_rows
from mars_env.grading import grader_for
from mars_env.lazy import import_object
from mars_env.rollout import read_run
from mars_env.rollout.rewarding import attach_rewards, grade_run, reward_run
from mars_env.serving.recorder import Recorder
from mars_env.sync import run_sync
from mars_env.text import brief


def record(  # public edge: one parameter is one option of the command
    upstream: Required,
    out: Annotated[Path, typer.Option()],
    port: int = 8100,
    host: str = "127.0.0.1",
    problems: str | None = None,
    group: Literal["input", "agent"] = "input",
    logprobs: Literal["raw", "processed"] = "raw",
    api_key_env: str | None = None,
    client_keys_env: str | None = None,
    version: int = 0,
) -> None:
    """Serve an OpenAI-compatible API that records each agent's calls.

    It keeps tokens and log-probabilities. Agents are named by the header X-Mars-Agent, an API key mars:AGENT,
    or a model's name MODEL@AGENT.

    Args:
        upstream: The engine, such as http://localhost:8000/v1.
        out: Directory of the run; one that exists is continued.
        problems: A problem set's name or file: problems that trees may name.
        group: Compare an agent's turns on the same input, or all its turns on a problem.
        logprobs: The engine's log-probabilities: of raw logits, or after the temperature.
        api_key_env: Environment variable with the engine's key.
        client_keys_env: Environment variable with the programs' keys, separated by commas.
        version: Version of the weights, noted with each token.
    """
    recorder = Recorder(
        upstream,
        out,
        problems=() if problems is None else finite_set(load_problems(problems)),
        group=group,
        logprobs=logprobs,
        api_key_env=api_key_env,
        keys=client_keys(client_keys_env),
    )
    recorder.version = version
    asyncio.run(recorder.check())
    serve_until_stopped(recorder, host, port, lambda url: f"recording {url} into {out}")
    counts = ", ".join(f"{number} {what}" for what, number in sorted(recorder.counts.items()) if number)
    say(f"recorded: {counts or 'nothing'}")


def reward(
    run: Path,
    rewards: Path | None = None,
    function: str | None = None,
    grade: Annotated[bool, typer.Option("--grade")] = False,
) -> None:
    """Give the turns of a recorded run their rewards.

    Args:
        run: Directory of a recorded run; its recorder has ended.
        rewards: Rows {"id", "reward"}; an id is an answer's, a tree's, or TREE/TURN; - is standard input.
        function: my_module:my_reward, a function of turn, path and problem.
        grade: Grade the last turn of each tree; all its turns get the score.
    """
    if (rewards is not None) + (function is not None) + grade != 1:
        raise ConfigError("give one of --rewards, --function and --grade")
    if rewards is not None:
        number = attach_rewards(run, _rows(rewards))
    elif function is not None:
        number = run_sync(reward_run(run, import_object(function)))
    else:
        kinds = {tree.problem.kind for tree in read_run(run).trees}
        if len(kinds) > 1:
            raise ConfigError("the run has problems of mathematics and of code: reward it by a --function")
        number = run_sync(grade_run(run, grader_for(kinds.pop() if kinds else "math")))
    say(f"{number} turns of {run} have a reward now")


def _rows(path: Path) -> dict[str, Any]:
    cannot = explained(ProblemError, f"{path} cannot be read", OSError)
    with cannot, read_from(path) as source, source.open("rb") as file:
        rows = list(jsonl_rows(path, file, ProblemError))
    rewards: dict[str, Any] = {}
    for place, row in rows:
        if not {"id", "reward"} <= row.keys():
            raise ProblemError(f'{place}: a row is {{"id": ..., "reward": ...}}')
        if (name := str(row["id"])) in rewards:
            raise ProblemError(f"{place}: {brief(name)} has a reward already: give each id one")
        rewards[name] = row["reward"]
    return rewards
