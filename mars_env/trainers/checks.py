"""What fits what in a training: rules for all trainers (local, OpenRLHF, TRL, verifiers, samplers)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mars_env.envs import Game
from mars_env.envs.growers import Linear
from mars_env.errors import ConfigError
from mars_env.models.preflight import models_of
from mars_env.players import validate_playable
from mars_env.rollout.segments import SegmentedModel
from mars_env.text import brief, suggestion
from mars_env.trainers.config import Credit, TrainConfig
from mars_env.trainers.credit_rules import credit_rule
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.samples import TurnSample, require_trainable
from mars_env.types import Agent, Sampling, TrainingAgent, role_of

if TYPE_CHECKING:
    from mars_env.trainers.team import Team


def check_run(game: Game, team: "Team", settings: RunSettings) -> list[str]:
    """The agents whose turns are trained on, after checking that game, team and settings fit together.

    Raises:
        ConfigError: They would train something other than the settings say, or nothing.
    """
    train = settings.train
    require_groups(game, settings)
    if idle := team.policies.keys() - {agent.policy for agent in team.agents.values()}:
        raise ConfigError(
            f"no agent acts with the policy {brief(min(idle))}: an agent's policy is the name of its model"
        )
    if not team.policies:
        raise ConfigError("the team has no policy that is trained: name one in its policies")
    trained = check_agents(team.agents, train, team.policies)
    if not trained:
        raise ConfigError(f"train_roles has no role of {', '.join(map(brief, team.policies))}: add one")
    weights = {id(policy.model) for policy in team.policies.values()}
    for name, agent in team.agents.items():
        if agent.policy not in team.policies:
            continue
        models = models_of(agent)
        if isinstance(agent, TrainingAgent):
            _check_scaffold(name, settings)
        overlaps = settings.pipeline.staleness and settings.samplers is None
        if overlaps and any(id(getattr(m, "module", None)) in weights for m in models):
            # An update in the middle of a sample would be neither the old policy nor the new one.
            raise ConfigError(f"{name} samples from the trained weights: copy them, or set staleness to 0")
        if settings.segment_tokens and not any(isinstance(m, SegmentedModel) for m in models):
            raise ConfigError(f"{name} samples in one piece: give it a SegmentedModel, or no segment_tokens")
    return trained


def require_groups(game: Game, settings: RunSettings) -> None:
    """Reject groups that do not fit the game or the credit rule, or that have nothing to compare."""
    rollouts = settings.rollouts
    rule = credit_rule(settings.train.credit)
    alone = rollouts is None and game.grower is Linear
    if (rule.rollouts == "tree" and rollouts is not None) or (rule.rollouts == "siblings" and alone):
        raise ConfigError(f"train.credit = {settings.train.credit!r} needs {rule.needs}")
    if rollouts is None:
        return
    if game.visibility is not None and game.visibility.searched:
        raise ConfigError("a search grows its own trees: set rollouts to None (as MARS2 does)")
    if rollouts.group < 2 and not settings.train.batch_roles:
        raise ConfigError("groups of one turn have nothing to compare: set rollouts.group to 2 or more")


def is_on_policy(team: "Team", config: TrainConfig) -> bool:
    """Whether every trained agent samples from a model of this process in the trainer's own precision.

    Then, as long as rollouts and updates alternate, the log-probabilities of its samples are the trainer's.
    """

    def is_own(model: object) -> bool:
        module = getattr(model, "module", None)
        return module is not None and str(module.dtype) == "torch.float32"

    trained = [agent for agent in team.agents.values() if agent.policy in team.policies]
    return not config.autocast and all(any(map(is_own, models_of(agent))) for agent in trained)


def check_agents(
    agents: Mapping[str, Agent], config: Credit, policies: Iterable[str] | None = None, *, backend: str = ""
) -> list[str]:
    """The agents whose turns are trained on, after checking what agents and loss need of each other.

    Args:
        agents: Who plays, by name.
        config: The loss.
        policies: Those that are trained; None: all.
        backend: Where they are trained, if agents may have no help there (`mars_env.types.TrainingAgent`).
    """
    if backend:
        validate_playable(agents, backend)
    for name, agent in agents.items():
        sampling = getattr(agent, "sampling", None)
        limit = config.overlong and config.overlong.limit
        if limit and isinstance(sampling, Sampling) and sampling.max_tokens != limit:
            raise ConfigError(f"{name} samples up to {sampling.max_tokens} tokens: make overlong.limit that")
    if agents:
        require_roles(config, agents)
    own = {agent.policy for agent in agents.values()} if policies is None else set(policies)
    trained = [name for name, agent in agents.items() if agent.policy in own and config.trains(role_of(name))]
    for name in trained:
        if isinstance(sampling := getattr(agents[name], "sampling", None), Sampling):
            require_trainable(sampling)
    return trained


def _check_scaffold(name: str, settings: RunSettings) -> None:
    if settings.rollouts is None or settings.pipeline.groups_per_update is not None:
        raise ConfigError(f"{name} acts by place in group and run: give rollouts, and no groups_per_update")


def require_roles(config: Credit, agents: Iterable[str]) -> None:
    """Reject `train_roles` and `batch_roles` that no agent has: less than was meant would be trained.

    Example:
        >>> require_roles(TrainConfig(train_roles=("solver",)), ["solver_0", "verifier_0"])
    """
    names = list(dict.fromkeys(map(role_of, agents)))
    if config.train_roles is not None and not config.train_roles:
        raise ConfigError(f"train_roles names no role, so nothing would be trained: give {', '.join(names)}")
    for setting, roles in (("train_roles", config.train_roles or ()), ("batch_roles", config.batch_roles)):
        for role in roles:
            if role not in names:
                raise ConfigError(
                    f"{setting} names {brief(role)}; roles are {', '.join(names)}{suggestion(role, names)}"
                )


def require_steps(done: int, steps: int, directory: object) -> None:
    """Reject a run of fewer steps than are done: its weights would be those of a longer run."""
    if done > steps:
        where = "" if directory is None else f" in {directory}"
        raise ConfigError(f"{done} steps are done{where}: set steps to at least {done}, or take a new folder")


def require_rows(samples: Sequence[TurnSample], trainer: str, temperature: float, rows: int) -> None:
    """Reject the samples of a tree that another library's trainer of so many rows a prompt would distort."""
    require_plain(samples, trainer, temperature)
    if len(samples) > rows:
        raise ConfigError(f"tree {samples[0].tree_id} has {len(samples)} samples, over {trainer}'s {rows}")
    total = math.fsum(sample.advantage for sample in samples)
    if abs(total) > 1e-6 * rows:
        raise ConfigError(
            f"the advantages of tree {samples[0].tree_id} add up to {total:.3g}, and {trainer} would take "
            "their mean off: groups that are trained in part and turns of several samples need the local "
            "trainer or the launcher (mars-env train --backend openrlhf)"
        )


def require_plain(samples: Iterable[TurnSample], trainer: str, temperature: float) -> None:
    """Reject samples of another prompt than is trained on, or of another temperature than the trainer's."""
    for sample in samples:
        if sample.read_prompt_ids:
            raise ConfigError(
                f"turn {sample.turn_id} of {sample.tree_id} had another prompt than {trainer} trains on"
            )
        if sample.temperature != temperature:
            raise ConfigError(
                f"{sample.agent} samples at temperature {sample.temperature}, {trainer} at {temperature}: "
                "make them equal"
            )
