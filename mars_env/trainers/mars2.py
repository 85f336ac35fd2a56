"""MARS2 on one machine: agents grow search trees together, and each learns from its own nodes.

environment + team ──> search trees ──> a group for each tree ──> LocalTrainer.step ──> new weights ──> team

The three stages of the paper, from one agent to many, are configurations of this one trainer: they differ in
who shares weights with whom.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from mars_env.agents.hf import HFModel
from mars_env.agents.registry import as_agent
from mars_env.envs import Game
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet
from mars_env.rollout import rollout_step
from mars_env.rollout.pipeline import PipelineSettings
from mars_env.trainers.batches import require_trainable
from mars_env.trainers.config import Overlong, TrainConfig
from mars_env.trainers.in_step import graded_in_step
from mars_env.trainers.local import LocalTrainer, Policy, Rollout
from mars_env.trainers.lora import Adapter
from mars_env.trainers.metrics import Logger, StepMetrics
from mars_env.types import Agent, Group, Sampling, Tree

Stage = Literal["single", "homogeneous", "heterogeneous"]
"""One agent; several agents that share their weights; several agents with weights of their own."""

MARS2: Final = TrainConfig(
    advantage="group_normalised",
    ratio="sequence",
    aggregation="sequence-mean",
    clip_low=3e-4,
    clip_high=4e-4,
    tis_cap=2.0,
    tis_veto=1e-4,
    kl_coefficient=1e-3,
    overlong=Overlong(limit=Sampling().max_tokens, buffer=2048),
)
"""The paper's training (arXiv 2602.07848): ``(r - mean) / std`` over a tree, GSPO's ratio, truncated
importance sampling, KL, overlong penalty. Tree-shaped credit is off. The clip range is GSPO's own (arXiv
2507.18071). The limit of one completion is that of `Sampling`: set ``overlong`` to the agents' own."""


class MARS2Settings(BaseModel):
    """Everything that a run depends on, besides environment, agents and weights.

    The size of the trees is the environment's: ``make("...-tree-search", schedule="training")`` grows the
    paper's 8 nodes.

    Example:
        >>> MARS2Settings(stage="homogeneous").train.ratio
        'sequence'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage = "heterogeneous"
    """Who shares weights. A team of another kind is refused."""
    seed: int = 0
    """Of problems, searches, samples and minibatches."""
    steps: PositiveInt = 100
    """Fixed beforehand: a run is never stopped because its curve looks good."""
    problems_per_step: PositiveInt = 128
    """Trees of one step, their problems drawn without replacement. The paper's number is not known here."""
    concurrency: PositiveInt | None = None
    """Trees at once; None is all of a step."""
    pipeline: PipelineSettings | None = None
    """How far rollouts may run ahead of training; None is synchronous, as ``max_staleness=0`` is. Trees are
    trained whole, so leave ``groups_per_update`` out."""
    train: TrainConfig = MARS2
    """Optimiser, loss and advantages."""


@dataclass(frozen=True, slots=True)
class Team:
    """Who plays and what is trained. Make one with `team`, or by hand.

    Attributes:
        agents: By agent name; their `policy` names their weights.
        policies: The weights, by name.
        models: What samples from them, by the same names.
    """

    agents: Mapping[str, Agent]
    policies: Mapping[str, Policy]
    models: Mapping[str, HFModel]

    def refresh(self, policies: Mapping[str, Policy]) -> None:
        """Bring the models up to date: the version, and the weights where they are not the policy's own."""
        for name, model in self.models.items():
            policy = policies[name]
            shared = policy.model is model.module
            model.refresh(None if shared else policy.model, version=policy.version)


def team(
    settings: MARS2Settings,
    names: Sequence[str],
    models: Sequence[HFModel],
    *,
    sampling: Sampling | None = None,
    agent: Callable[[str, HFModel], Agent] | None = None,
) -> Team:
    """The team of a stage: one model for all agents, or one for each.

    Args:
        settings: Their stage and loss.
        names: Of the agents, e.g. ``env.possible_agents``.
        models: One, or for ``"heterogeneous"`` one for each agent: checkpoints with float32 weights, or the
            adapters of one base (`mars_env.trainers.lora`). Each name is that of a policy.
        sampling: How agents sample. Training needs all tokens: no top_p, no top_k.
        agent: Makes an agent of its name and model, where agents differ in their prompts, say; by default
            that of the role (`mars_env.agents.as_agent`).

    Raises:
        ConfigError: The numbers of agents and models are not those of the stage, or a setting cannot be
            trained with.
    """
    sampling = require_trainable(sampling or Sampling())
    wanted = len(names) if settings.stage == "heterogeneous" else 1
    if len(models) != wanted or len({model.name for model in models}) != wanted:
        raise ConfigError(
            f"the stage {settings.stage!r} with {len(names)} agents takes {wanted} models, each of a name of "
            f"its own, got {', '.join(model.name for model in models) or 'none'}"
        )
    make = agent or (lambda name, model: as_agent(model, name, sampling=sampling))
    agents = {name: make(name, models[i % wanted]) for i, name in enumerate(names)}
    policies = {model.name: _policy(model, settings) for model in models}
    made = Team(agents, policies, {model.name: model for model in models})
    _refuse_unfit(made, settings)
    return made


def rollouts(
    game: Game, agents: Mapping[str, Agent], problems: ProblemSet, settings: MARS2Settings
) -> Rollout:
    """The groups of a step, one for each tree, as a function of its number."""
    game = graded_in_step(game)

    async def rollout(step: int) -> Sequence[Group]:
        return tree_groups(
            await rollout_step(
                game,
                agents,
                problems,
                step=step,
                problems_per_step=settings.problems_per_step,
                seed=settings.seed,
                concurrency=settings.concurrency,
            )
        )

    return rollout


def tree_groups(trees: Sequence[Tree]) -> list[Group]:
    """A group for each tree: all its nodes, of all agents, are compared with each other (tree-GRPO).

    Example:
        >>> from mars_env.types import Action, Problem, Turn
        >>> turns = [Turn("p#0", id, None, "any", "coder_0", "", "p", Action("")) for id in ("0", "1")]
        >>> [(g.id, len(g.turns)) for g in tree_groups([Tree("p#0", Problem("p", "?", "4"), tuple(turns))])]
        [('p#0', 2)]
    """
    return [Group(tree.id, tree.turns) for tree in trees]


async def train(
    game: Game,
    team: Team,
    problems: ProblemSet,
    settings: MARS2Settings,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """Train a team in the search: grow trees, update, tell the models, until `settings.steps` steps are done.

    With `MARS2Settings.pipeline` the trees of later steps grow meanwhile (`mars_env.trainers.pipelined`).
    Every turn tells the versions that sampled it, no tree older than the bound is trained on, and what was
    dropped is counted.

    Args:
        game: The environment's game, e.g. ``make("...-tree-search", schedule="training", agents=2).game``.
        team: Who plays and what is trained.
        problems: Training problems.
        settings: Everything else.
        directory: Of checkpoints of all policies; the same call goes on from the newest one, exactly.
        checkpoint_every: Steps between two checkpoints.
        loggers: Take the figures of every step.

    Returns:
        The figures of the steps that this call did.

    Raises:
        ConfigError: The team is not that of the stage, its limit is not that of the overlong penalty, or an
            agent can be given prompts that leave less room than its limit in the model's context.
    """
    _refuse_unfit(team, settings)
    require_room(game.rules, team.agents, problems)
    run = {
        "stage": settings.stage,
        "problems_per_step": settings.problems_per_step,
        "agents": {name: agent.policy for name, agent in team.agents.items()},
        "nodes": game.rules.max_turns,
    }
    if settings.pipeline is not None:
        from mars_env.trainers import pipelined  # synchronous training needs none of it

        overlaps = settings.pipeline.max_staleness > 0
        return await pipelined.train(
            game if overlaps else graded_in_step(game),
            team.agents,
            problems,
            team.policies,
            pipelined.PipelinedSettings(
                seed=settings.seed,
                steps=settings.steps,
                problems_per_step=settings.problems_per_step,
                rollouts=None,
                pipeline=settings.pipeline,
                train=settings.train,
            ),
            refresh=team.refresh,
            directory=directory,
            checkpoint_every=checkpoint_every,
            loggers=loggers,
            run=run,
        )
    trainer = LocalTrainer(team.policies, settings.train.model_copy(update={"seed": settings.seed}), run=run)
    return await trainer.fit(
        rollouts(game, team.agents, problems, settings),
        settings.steps,
        directory=directory,
        checkpoint_every=checkpoint_every,
        refresh=team.refresh,
        loggers=loggers,
    )


def _refuse_unfit(team: Team, settings: MARS2Settings) -> None:
    """Refuse a team that is not what the settings say: its results would bear the wrong name."""
    agents, policies = len(team.agents), len({agent.policy for agent in team.agents.values()})
    fits = {
        "single": agents == 1,
        "homogeneous": agents > 1 and policies == 1,
        "heterogeneous": agents > 1 and policies == agents,
    }
    if not fits[settings.stage]:
        raise ConfigError(
            f"the stage {settings.stage!r} is not that of {agents} agents with {policies} policies in all"
        )
    overlong = settings.train.overlong
    for name, agent in team.agents.items():
        sampling = getattr(agent, "sampling", None)
        if overlong and isinstance(sampling, Sampling) and sampling.max_tokens != overlong.limit:
            raise ConfigError(
                f"{name} samples up to {sampling.max_tokens} tokens, but the overlong penalty is for a limit "
                f"of {overlong.limit}: set train.overlong to the agents' own"
            )


def _policy(model: HFModel, settings: MARS2Settings) -> Policy:
    """What is trained: the model's own weights, or a copy of them where it samples on meanwhile."""
    overlaps = settings.pipeline is not None and settings.pipeline.max_staleness > 0
    if overlaps and isinstance(model.module, Adapter):
        raise ConfigError("adapters share their base with what is sampled: train them with max_staleness=0")
    return Policy(
        copy.deepcopy(model.module) if overlaps else model.module,
        model.tokenizer,
        reference=_frozen(model.module) if settings.train.kl_coefficient else None,
    )


def _frozen(module: Any) -> Any:
    """The weights as they are now, for a KL term: the base of an adapter, or a copy."""
    return module.base if isinstance(module, Adapter) else copy.deepcopy(module).requires_grad_(False)
