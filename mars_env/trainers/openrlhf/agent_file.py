"""For OpenRLHF's own command line: the file for ``--train.agent_func_path`` (docs/other-trainers.md).

OpenRLHF asks n times for a prompt. One call plays a tree, and each takes one of its samples. A row's reward
is its advantage: the estimator "dr_grpo" takes off their mean, which is 0.
``python -m mars_env.trainers.openrlhf.agent_file run.toml FOLDER`` writes prompts and prints flags.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mars_env.envs import grouped
from mars_env.errors import ConfigError, explained
from mars_env.files import write_atomically
from mars_env.models.preflight import preflight
from mars_env.rollout import Job, groups_of
from mars_env.rollout.contexts import require_room
from mars_env.rollout.engine import play
from mars_env.trainers.assembly import POLICY, agents_by_name, training_game, training_problems
from mars_env.trainers.checks import check_agents
from mars_env.trainers.openrlhf.command_line import Flags, as_words
from mars_env.trainers.openrlhf.rollouts.engines import AgentFileEngine, EnginesModel
from mars_env.trainers.openrlhf.rollouts.responses import Row, training_rows
from mars_env.trainers.openrlhf.translation import complete_flags, policies_of
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.run_file import load_run
from mars_env.trainers.samples import turn_samples
from mars_env.types import Agent

try:
    from openrlhf.utils.agent import AgentExecutorBase
except ImportError:  # so that this file can be imported and tested without OpenRLHF
    AgentExecutorBase = object

RUN_FILE = "MARS_ENV_RUN_FILE"  # the environment variable with the path of the run file, on all nodes


@dataclass
class SharedTree:
    """The calls for one prompt, and the rows of their tree."""

    calls: int = 0
    rows: asyncio.Future[list[Row]] | None = None


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """OpenRLHF asks it for rows, in the process of each engine; `RUN_FILE` names its settings."""

    def __init__(self, settings: RunSettings | None = None) -> None:
        self.settings = settings or load_run(os.environ.get(RUN_FILE, f"{RUN_FILE} is not set"))
        game, rollouts = training_game(self.settings), self.settings.rollouts
        self.game = game if rollouts is None else replace(game, grower=grouped(rollouts))
        self.problems, self.played = training_problems(self.settings), 0
        self.trees: dict[int, SharedTree] = {}
        self.team: asyncio.Future[dict[str, Agent]] | None = None

    async def execute(
        self, prompt: str, sampling_params: Any, max_length: int, hf_tokenizer: Any, llm_engine: Any, **_: Any
    ) -> Row:
        """A row of the tree of a problem; calls with the same `sampling_params` share the tree."""
        if sampling_params.temperature != self.settings.sampling.temperature:
            raise ConfigError("make --rollout.temperature and sampling.temperature equal")
        tree = self.trees.setdefault(id(sampling_params), SharedTree())
        place, tree.calls = tree.calls, tree.calls + 1
        await asyncio.sleep(0)  # by now every call is counted
        self.trees.pop(id(sampling_params), None)  # later calls share another tree
        if self.team is None:
            model = EnginesModel([AgentFileEngine(llm_engine)], hf_tokenizer, max_length, name=POLICY)
            self.team = asyncio.ensure_future(self._make_team(model))
        team = await asyncio.shield(self.team)
        if tree.rows is None:
            tree.rows = asyncio.ensure_future(self._play(prompt, tree.calls, team, hf_tokenizer.eos_token_id))
        return {**(await tree.rows)[place], "prompt": prompt, "label": "", "mm_train_inputs": None}

    async def _make_team(self, model: EnginesModel) -> dict[str, Agent]:
        rules = self.game.rules
        team = agents_by_name(self.settings, rules, {POLICY: model}, self.problems)
        check_agents(team, self.settings.train, [POLICY], backend="OpenRLHF")
        await preflight(team, self.game)
        await require_room(rules, team, self.problems, self.game.grader)
        return team

    async def _play(self, prompt: str, n: int, team: Mapping[str, Agent], filler: int | None) -> list[Row]:
        settings, self.played = self.settings, self.played + 1
        with explained(ConfigError, "the prompts are of other problems: write them again", KeyError):
            job = Job(self.problems.by_id(prompt), self.played)
        tree = await play(self.game, team, job, seed=settings.seed)
        frozen = {agent.policy for agent in team.values()} - {POLICY}
        samples = turn_samples(groups_of([tree]), settings.train, frozen=frozen)
        return training_rows(samples, n, temperature=settings.sampling.temperature, filler=filler or 0)


def agent_file_flags(settings: RunSettings, folder: Path) -> Flags:
    """Write the problems as prompts, and return all flags of OpenRLHF; a `ConfigError` for other runs."""
    launcher = [settings.pipeline.staleness, settings.segment_tokens, settings.evaluation.every]
    if any([*launcher, len(policies_of(settings)) > 1, settings.train.dmmpt_threshold]):
        raise ConfigError("pipeline, evaluation, DMMPT and several policies are for mars-env train alone")
    number, path = settings.steps * settings.problems_per_step, folder.absolute() / "train.jsonl"
    problems = training_problems(settings)[:number]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(json.dumps({"input": problem.id}) + "\n" for problem in problems))
    return complete_flags(settings) | {
        "--data.prompt_dataset": [str(path)],
        "--train.agent_func_path": [str(Path(__file__).absolute())],
        "--train.num_episodes": [str(-(-number // len(problems)))],
        "--algo.advantage.estimator": ["dr_grpo"],
        "--logger.tensorboard_dir": [str(path.with_name("tensorboard"))],
    }


if __name__ == "__main__":
    print(shlex.join(as_words(agent_file_flags(load_run(sys.argv[1]), Path(sys.argv[2])))))  # noqa: T201
