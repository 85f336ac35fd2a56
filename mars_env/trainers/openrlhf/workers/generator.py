"""OpenRLHF's samples generator with a team behind it. Imports OpenRLHF."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from mars_env.agents.registry import roles_of
from mars_env.envs.rules import Rules
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.rollout.segments import SegmentedModel
from mars_env.trainers.openrlhf.flags import sampling_of
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel, RayEngine, refuse_dead
from mars_env.trainers.openrlhf.rollouts.feed import RolloutFeed
from mars_env.trainers.openrlhf.rollouts.figures import evaluation_figures, training_figures
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems, by_id
from mars_env.trainers.openrlhf.rollouts.record import Record
from mars_env.trainers.openrlhf.rollouts.responses import responses, shape_of
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, make_team
from mars_env.trainers.samples import TurnSample, turn_samples
from mars_env.types import Agent, Model, Sampling


class Rollouts(list[Any]):
    """The rows of an update, with the team's figures; an ordinary list for OpenRLHF."""

    figures: dict[str, float]

    def __init__(self, rows: Any = (), figures: dict[str, float] | None = None) -> None:
        super().__init__(rows)
        self.figures = figures or {}

    def __reduce__(self) -> Any:
        return Rollouts, (list(self), self.figures)


class TeamSamplesGenerator(SamplesGenerator):  # type: ignore[misc]
    """Gives OpenRLHF the batches of `mars_env.rollout.pipeline`, one at a time.

    A batch is asked for when the previous one has been trained and its weights have reached the engines.
    Rollouts continue meanwhile, as far as the staleness bound allows.

    Args:
        settings: The team's.
        strategy: OpenRLHF's, with its arguments.
        prompts: The ledger around OpenRLHF's loader.
        eval_dataloader: OpenRLHF's; it shows that there is an evaluation.
        tokenizer: The policy's tokenizer.
        vllm_engines: Handles of `mars_env.trainers.openrlhf.workers.actors.TeamRolloutActor`.
    """

    def __init__(
        self,
        settings: TeamSettings,
        strategy: Any,
        prompts: DrawnProblems,
        eval_dataloader: Any,
        tokenizer: Any,
        vllm_engines: list[Any],
    ) -> None:
        super().__init__(strategy, prompts, eval_dataloader, tokenizer, vllm_engines)
        self._settings = settings
        self._config = settings.config
        self._shape = shape_of(self.args)
        self._engines = list(map(RayEngine, vllm_engines))
        self._model = playing_model(settings, self.args, self._engines, tokenizer, POLICY)
        game = settings.game()
        self._feed = RolloutFeed(
            game,
            self._team(game.rules, sampling_of(settings, self.args)),
            prompts,
            self.args.rollout.batch_size,
            settings,
            lambda policy: self._version if policy == POLICY else None,
        )
        self._record: Record | None = None
        self._version: int | None = None
        self._expected = 0

    def generate_samples(self, **generate_kwargs: Any) -> tuple[Rollouts, None, int, bool]:
        """The rows of the next update; none if no turn of it has an advantage."""
        self._await_weights()
        with awake(self.args, self.vllm_engines):
            batch = self._feed.next()
        refuse_dead(self._engines)
        if batch is None:
            return Rollouts(), None, 0, True
        samples = turn_samples(batch.groups, self._config)
        self._note(batch, samples)
        if not samples:
            return Rollouts(), None, len(batch.trained_tree_ids), False
        self._expected += 1
        return self._rows(batch, samples, generate_kwargs), None, len(batch.trained_tree_ids), False

    def generate_eval_samples(self, **generate_kwargs: Any) -> list[Any]:
        """Evaluations are trees, not rows: see `evaluate`."""
        raise NotImplementedError("a team is evaluated by TeamSamplesGenerator.evaluate")

    def evaluate(self) -> dict[str, float]:
        """Play the evaluation's problems with the present weights."""
        problems = self._settings.evaluation_problems()
        game = self._settings.evaluation_game()
        with awake(self.args, self.vllm_engines):
            trees = self._feed.play(
                game,
                self._team(game.rules, sampling_of(self._settings, self.args, evaluation=True)),
                problems,
                samples=self.args.eval.n_samples_per_prompt,
                concurrency=self.args.rollout.vllm_generate_batch_size * self._settings.group,
            )
        return evaluation_figures(trees, problems.name)

    def _team(self, rules: Rules[Any], sampling: Sampling) -> dict[str, Agent]:
        roles = roles_of(rules)
        return make_team(self._settings, rules.possible_agents, self._model, sampling, roles=roles)

    def _await_weights(self) -> None:
        """Wait until the engines have the weights of the previous update."""
        if self._version is None:
            self._expected = ray.get(self.vllm_engines[0].version.remote())
        self._version = min(ray.get([e.version.remote(self._expected) for e in self.vllm_engines]))

    def _rows(self, batch: UpdateBatch, samples: list[TurnSample], generate_kwargs: Any) -> Rollouts:
        rows = responses(
            samples,
            self._shape,
            temperature=self.args.rollout.temperature,
            padding_token=self.tokenizer.pad_token_id,
            ages=batch.age_by_group,
        )
        figures = training_figures(
            batch, samples, self._config, waited=self._feed.waited, between=self._feed.between
        )
        return Rollouts(
            (self._process_response_into_experience(row, **generate_kwargs) for row in rows),
            figures | self._feed.verifier,
        )

    def _note(self, batch: UpdateBatch, samples: list[TurnSample]) -> None:
        """Record what is trained, if a record is asked for."""
        if self._settings.record is None:
            return
        updates = self.prompts_dataloader.updates
        self._record = self._record or Record(self._settings.record, updates - 1)
        self._record.note(updates, {POLICY: self._version or 0}, batch, samples)


@contextmanager
def awake(args: Any, engines: list[Any]) -> Iterator[None]:
    """A context in which engines that sleep during training are awake."""
    if args.vllm.enable_sleep:
        batch_vllm_engine_call(engines, "wake_up")
    try:
        yield
    finally:
        if args.vllm.enable_sleep:
            batch_vllm_engine_call(engines, "sleep")


def playing_model(
    settings: TeamSettings, args: Any, engines: Sequence[RayEngine], tokenizer: Any, policy: str
) -> Model:
    """The engines of a policy as the model of its agents, in segments if the settings say so."""
    context = args.data.max_len
    model = EnginesModel(engines, tokenizer, context, name=policy)
    if settings.segment_tokens is None:
        return model
    return SegmentedModel(model, settings.segment_tokens, context=context)


def drawn_problems(settings: TeamSettings, loader: Any, args: Any) -> DrawnProblems:
    """The ledger around OpenRLHF's loader."""
    return DrawnProblems(loader, by_id(settings.training_problems()), args.train.num_episodes)
