"""For OpenRLHF's own command line: a file for ``--train.agent_func_path`` (docs/other-trainers.md)."""

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mars_env.agents.registry import roles_of
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError, ModelError
from mars_env.evaluation.trees import system_right
from mars_env.models.preflight import preflight
from mars_env.models.requests import Sampled
from mars_env.rollout import Job, groups_of
from mars_env.rollout.engine import play
from mars_env.text import logger
from mars_env.trainers.checks import check_agents, require_trainable
from mars_env.trainers.openrlhf.agent_file.prompts import EVALUATE, TRAIN, read_settings
from mars_env.trainers.openrlhf.agent_file.rows import SharedCalls, evaluation_row, training_rows
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, agents_by_name
from mars_env.trainers.samples import turn_samples
from mars_env.types import Agent, Completion, Model, Problem, Sampling, Tree

try:
    from openrlhf.utils.agent import AgentExecutorBase
except ImportError:  # so that this file can be imported and tested without OpenRLHF
    AgentExecutorBase = object

log = logger(__name__)

SETTINGS = "MARS_ENV_OPENRLHF_SETTINGS"
"""The environment variable with the path of the JSON file of `TeamSettings`, on all nodes."""

ATTEMPTS = 3
"""How often an episode is played in evaluation until its answer can be graded."""


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """OpenRLHF asks it for rows, in the process of each engine; `SETTINGS` names its settings."""

    def __init__(self, settings: TeamSettings | None = None) -> None:
        if settings is None:
            if not (path := os.environ.get(SETTINGS)):
                raise ConfigError(f"set {SETTINGS} to the path of a JSON file of TeamSettings, on all nodes")
            settings = read_settings(path)
        self._settings = settings
        self._rows = settings.rows_per_tree()
        self._games = {TRAIN: settings.game(), EVALUATE: settings.evaluation_game()}
        self._teams: dict[tuple[str, Sampling, int], asyncio.Future[dict[str, Agent]]] = {}
        self._problems = {TRAIN: settings.training_problems(), EVALUATE: settings.evaluation_problems()}
        self._calls = SharedCalls()
        self._played = 0

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        **_: Any,
    ) -> dict[str, Any]:
        """One row of a batch: of the tree that a prompt's calls share, or of an evaluated episode.

        `prompt` is a problem's id, `label` `TRAIN` or `EVALUATE`, `sampling_params` one object for all calls
        of a prompt, `max_length` the most tokens of a row. Raises ConfigError where a flag does not fit.
        """
        if label not in self._problems:
            raise ConfigError(f"the label {label!r} is not {TRAIN!r} or {EVALUATE!r}: write prompts again")
        try:
            problem = self._problems[label].by_id(prompt)
        except KeyError as error:
            raise ConfigError(
                f"the prompt {prompt!r} is no problem of these settings: write them again, without templates"
            ) from error
        sampling = Sampling(
            temperature=sampling_params.temperature,
            top_p=sampling_params.top_p,
            top_k=max(0, sampling_params.top_k),
            max_tokens=sampling_params.max_tokens or max_length,
            overflow=self._settings.overflow,
        )
        filler = hf_tokenizer.eos_token_id or 0
        if label == TRAIN:
            require_trainable(sampling)
        key = label, sampling, max_length
        if key not in self._teams:  # made once: the models of others keep their connections
            model = EnginesModel([AgentFileEngine(llm_engine)], hf_tokenizer, max_length)
            self._teams[key] = asyncio.ensure_future(self._make_team(label, sampling, model))
        team = await asyncio.shield(self._teams[key])
        if label == EVALUATE:
            row = await self._evaluate(problem, team, filler)
        else:
            row = await self._calls.share(
                id(sampling_params), lambda n: self._train(problem, n, team, sampling.temperature, filler)
            )
        if sampling_params.logprobs is None:  # OpenRLHF does not correct with them, and rejects them then
            row = row | {"rollout_log_probs": None}
        return row | {"prompt": prompt, "label": label, "images": None, "mm_train_inputs": None}

    async def _make_team(self, label: str, sampling: Sampling, model: Model) -> dict[str, Agent]:
        """Who plays; rejected where a prompt could leave less room than an agent's limit."""
        rules = self._games[label].rules
        models = {POLICY: model}
        team = agents_by_name(self._settings, rules.possible_agents, models, sampling, roles=roles_of(rules))
        if label == TRAIN:
            check_agents(team, self._settings, models, door="OpenRLHF")
        await preflight(team, self._games[label])
        await require_room(rules, team, self._problems[label])
        return team

    async def _train(
        self, problem: Problem, n: int, team: Mapping[str, Agent], temperature: float, filler: int
    ) -> list[dict[str, Any]]:
        """The rows of one tree."""
        if n < self._rows:
            raise ConfigError(f"--rollout.n_samples_per_prompt is {n}: make it {self._rows}, a tree's most")
        tree = await self._play(TRAIN, problem, team)
        frozen = {agent.policy for agent in team.values()} - {POLICY}
        samples = turn_samples(groups_of([tree]), self._settings, frozen=frozen)
        return training_rows(samples, n, temperature=temperature, filler=filler)

    async def _evaluate(self, problem: Problem, team: Mapping[str, Agent], filler: int) -> dict[str, Any]:
        """The row of an episode. Its reward says whether the team's answer is right; NaN if unknown."""
        for _ in range(ATTEMPTS):
            tree = await self._play(EVALUATE, problem, team)
            right = system_right(tree)
            if right is not None:
                return evaluation_row(_shown(tree), float(right), filler)
        log.warning("problem %s could not be graded in %d attempts: %s", problem.id, ATTEMPTS, tree.fault)
        return evaluation_row(None, math.nan, filler)

    async def _play(self, label: str, problem: Problem, team: Mapping[str, Agent]) -> Tree:
        self._played += 1
        return await play(self._games[label], team, Job(problem, self._played), seed=self._settings.seed)


class AgentFileEngine:
    """The engine that OpenRLHF gives to an agent file; it does not report versions of the weights."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        """One completion of a prompt for each request."""
        return list(await asyncio.gather(*(self._one(ids, request) for request in requests)))

    async def _one(self, ids: Sequence[int], request: Mapping[str, Any]) -> Sampled:
        from vllm import SamplingParams

        try:
            answer = await self._engine.generate(list(ids), SamplingParams(**request))
        except (RuntimeError, ValueError) as error:  # vLLM raises these for all failures
            raise ModelError(f"the engine failed: {type(error).__name__}: {error}"[:300]) from error
        output = answer.outputs[0]
        tokens = tuple(output.token_ids)
        logprobs = tuple(entry[token].logprob for token, entry in zip(tokens, output.logprobs, strict=True))
        return Sampled(tokens, logprobs, output.finish_reason, ())


def _shown(tree: Tree) -> Completion | None:
    """The completion of the trained model that stands for an episode: its answer's, or else its last."""
    first = [turn for turn in tree.turns if turn.id == tree.final]
    completions = [c for turn in [*first, *reversed(tree.turns)] for c in reversed(turn.action.completions)]
    return next((completion for completion in completions if completion.trainable), None)
