"""TRL's `GRPOTrainer` as a trainer of teams: mars_env makes turns, groups and advantages, TRL the update.

One tree is played for each prompt. TRL takes a fixed number of rows per prompt, that of the largest tree;
smaller trees are filled up with rows of which no token is trained (docs/other-trainers.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mars_env.envs import Game, GroupedSettings, grouped
from mars_env.errors import ConfigError
from mars_env.models.preflight import preflight
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, collect, groups_of
from mars_env.sync import run_sync
from mars_env.trainers.assembly import rows_per_tree
from mars_env.trainers.checks import check_agents, require_roles, require_rows
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.rollouts import LostTrees, graded_in_step
from mars_env.trainers.samples import TurnSample, turn_samples
from mars_env.trainers.scorable import scorable_groups
from mars_env.types import Agent, Problem, Tree

_LOSSES: Final[Mapping[str, str]] = {"token-mean": "dapo", "sequence-mean": "grpo"}

_LACKING: Final = ("minibatches", "dmmpt_threshold", "batch_roles")
_COLUMNS: Final = (
    *("prompt_ids", "completion_ids", "logprobs", "env_mask"),
    *("team_advantage", "turn_reward", "role"),
)


class TeamRollouts:
    """The ``rollout_func`` of `GRPOTrainer`.

    Args:
        game: The environment's game, e.g. ``make("...", schedule="training").game``.
        agents: By name. All turns that are trained must be sampled from the trainer's model: give its module
            to `mars_env.models.HFModel`, or update another engine in `refresh`.
        rollouts: Group size and branches; None: the game's own grower grows the trees (a search).
        config: The advantages, and the seed of the rollouts; also the loss if `arguments` is used.
        refresh: Called with the trainer before each step's rollouts.
        concurrency: Trees played at the same time; None: all of a step.

    Raises:
        ConfigError: The problem set is endless, or a setting does not exist in TRL.
    """

    def __init__(
        self,
        game: Game,
        agents: Mapping[str, Agent],
        problems: ProblemSet,
        *,
        rollouts: GroupedSettings | None = GroupedSettings(),  # noqa: B008 (frozen)
        config: TrainConfig | None = None,
        refresh: Callable[[Any], object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        if problems.endless:
            raise ConfigError("TRL needs a finite data set: give a part of it, e.g. problems[:1000]")
        self._config = config or TrainConfig()
        for setting in _LACKING:
            if getattr(self._config, setting) != getattr(TrainConfig(), setting):
                raise ConfigError(f"TRL has no {setting}: leave it out, or use the local trainer or OpenRLHF")
        if self._config.kl_coefficient and self._config.ratio == "sequence":
            raise ConfigError("TRL weights the KL term with the completion's ratio: leave kl_coefficient out")
        if self._config.kl_coefficient and self._config.mean != "token-mean":
            raise ConfigError("with this mean TRL's KL term counts the rows that fill up: use token-mean")
        require_roles(self._config, game.rules.possible_agents)
        self._trained = check_agents(agents, self._config, backend="TRL")
        self._game = graded_in_step(game if rollouts is None else replace(game, grower=grouped(rollouts)))
        self._agents, self._refresh = dict(agents), refresh
        self._concurrency, self._checked = concurrency, False
        self._problems: dict[str, Problem] = {problem.id: problem for problem in problems}
        self.rows = rows_per_tree(game, rollouts)
        """TRL's ``num_generations``: the most samples of a tree."""

    def prompts(self) -> list[dict[str, str]]:
        """The rows of TRL's data set: the ids of the problems."""
        return [{"prompt": id} for id in self._problems]

    def arguments(self, *, problems_per_step: int, rows_at_once: int, temperature: float) -> dict[str, Any]:
        """Arguments of `GRPOConfig` with which TRL's update equals that of the local trainer.

        Args:
            problems_per_step: Trees of one update.
            rows_at_once: Rows of one forward pass; must divide the rows of all trees.
            temperature: The agents' sampling temperature.
        """
        config, rows = self._config, problems_per_step * self.rows
        if config.warmup_updates:
            raise ConfigError("TRL's warm-up begins at a learning rate of 0: leave warmup_updates out")
        if rows % rows_at_once:
            raise ConfigError(f"{rows} rows of a step cannot be divided into parts of {rows_at_once}")
        return {
            "num_generations": self.rows,
            "generation_batch_size": rows,
            "per_device_train_batch_size": rows_at_once,
            "gradient_accumulation_steps": rows // rows_at_once,
            "num_iterations": config.epochs,
            "temperature": temperature,
            "scale_rewards": "none",
            "loss_type": _LOSSES[config.mean],
            "importance_sampling_level": config.ratio,
            "epsilon": config.clip[0],
            "epsilon_high": config.clip[1],
            "beta": config.kl_coefficient,
            "use_bias_correction_kl": True,
            "vllm_importance_sampling_correction": True,
            "vllm_importance_sampling_mode": "token_truncate",
            "vllm_importance_sampling_clip_max": config.tis_cap,
            "learning_rate": config.learning_rate,
            "lr_scheduler_type": "constant_with_warmup",
            "warmup_steps": 0,
            "adam_beta1": config.betas[0],
            "adam_beta2": config.betas[1],
            "weight_decay": config.weight_decay,
            "max_grad_norm": config.max_grad_norm,
            "bf16": config.autocast,
            "disable_dropout": True,
            "seed": config.seed,
        }

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        """Play the problems of a step; `prompts` are their ids, each as often as there are rows.

        Raises:
            ConfigError: TRL is set otherwise than `arguments` says, or evaluates.
            ModelError: No tree of a step of several could be played, or no turn can be scored.
        """
        problems = self._problems_of(prompts, trainer)
        if self._refresh is not None:
            self._refresh(trainer)
        if not self._checked:
            run_sync(preflight(self._agents, self._game, self._trained))
            self._checked = True
        first = int(trainer.state.global_step) * len(problems)
        jobs = [Job(problem, first + i) for i, problem in enumerate(problems)]
        trees = run_sync(self._played(jobs))
        scorable_groups(groups_of(trees), self._config, required=True)
        samples = [turn_samples(groups_of([tree]), self._config) for tree in trees]
        for tree_samples in samples:
            require_rows(tree_samples, "TRL", float(trainer.temperature), self.rows)
        # Means over completions would count the rows that fill up.
        share = sum(map(len, samples)) / (len(trees) * self.rows)
        scale = 1.0 if self._config.mean == "token-mean" or not share else 1.0 / share
        pad = [int(trainer.processing_class.pad_token_id)]
        filler = (pad, pad, [0.0], [0], 0.0, 0.0, "")  # nothing of it is trained
        rows = [
            row
            for tree in samples
            for row in [_row(sample, scale) for sample in tree] + [filler] * (self.rows - len(tree))
        ]
        return {name: list(column) for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)}

    async def _played(self, jobs: Sequence[Job]) -> Sequence[Tree]:
        return await collect(
            self._game,
            self._agents,
            jobs,
            seed=self._config.seed,
            concurrency=self._concurrency or len(jobs),
            journal=LostTrees(lambda turn: self._config.trains(turn.role), len(jobs)),
        )

    def advantage(
        self,
        completions: Sequence[Any],
        team_advantage: Sequence[float],
        role: Sequence[str],
        turn_reward: Sequence[float],
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        """The advantages of the rollouts: TRL's reward function. Also logs the mean reward of each role."""
        if log_metric is not None:
            for name in sorted({*role} - {""}):
                rewards = [r for r, of in zip(turn_reward, role, strict=True) if of == name]
                log_metric(f"team/{name}/reward", math.fsum(rewards) / len(rewards))
        return list(team_advantage)

    def _problems_of(self, prompts: Sequence[str], trainer: Any) -> list[Problem]:
        if not trainer.model.training:
            raise ConfigError("TRL cannot evaluate a team: use mars_env.evaluate, or mars-env evaluate")
        if trainer.num_generations != self.rows or trainer.scale_rewards != "none":
            raise ConfigError(
                f"TRL needs num_generations={self.rows} and scale_rewards='none': see TeamRollouts.arguments"
            )
        if self._config.mean != "token-mean" and trainer.accelerator.num_processes > 1:
            raise ConfigError("with several processes TRL can only take the mean over tokens")
        ids = list(prompts[:: self.rows])
        if list(prompts) != [id for id in ids for _ in range(self.rows)] or {*ids} - self._problems.keys():
            raise ConfigError("give TRL TeamRollouts.prompts() as data set, and each process whole problems")
        return [self._problems[id] for id in ids]


def _row(sample: TurnSample, scale: float) -> tuple[Any, ...]:
    ids = list(sample.completion_ids)
    credit = (sample.advantage * scale, sample.reward, sample.role)
    return list(sample.prompt_ids), ids, list(sample.logprobs), list(sample.completion_mask), *credit
