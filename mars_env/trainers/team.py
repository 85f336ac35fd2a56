"""Who plays and what is trained: one model for all agents, one for each, or adapters on one base."""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mars_env.agents.roles import ROLES, RoleAgent
from mars_env.checks import validate_signature
from mars_env.errors import ConfigError
from mars_env.lazy import needs
from mars_env.models.hf import HFModel
from mars_env.models.vllm import VLLMAdapter, VLLMModel
from mars_env.players import by_name
from mars_env.problems import ProblemSet
from mars_env.rollout.segments import SegmentedModel
from mars_env.text import brief, logger
from mars_env.trainers.assembly import library_agents
from mars_env.trainers.lora import Adapter
from mars_env.trainers.optimiser import trained_parameters
from mars_env.trainers.policy import Policy
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.samplers import Refresher, sampling_models
from mars_env.trainers.samples import require_trainable
from mars_env.types import Agent

with needs("hf", "a team of local models needs torch and transformers"):
    import torch

log = logger(__name__)

Metrics = Mapping[str, float]

Refresh = Callable[[Mapping[str, Policy]], Awaitable[Metrics | None] | Metrics | None]
"""Brings new weights to the models that sample, and may give metrics of that; `Refresher` makes one."""

OWN: Final = "mars_env.agents.registry:as_agent"
"""What makes the library's own agents of a model."""

SampledModel = HFModel | VLLMModel | VLLMAdapter | SegmentedModel


@dataclass(frozen=True, slots=True)
class Team:
    """Who plays and what is trained. `make_team` makes one from models in this process.

    Make one by hand for your own agents, or for an engine such as vLLM:
    ``Team(agents, {"mars": Policy(module, tokenizer)}, Refresher({"mars": vllm_model}))``.

    Attributes:
        agents: By name; their `policy` names their weights.
        policies: The weights that are trained, by name.
        refresh: Brings new weights to the agents' models, at the start and after every update.
        made_by: The function of a model that makes the agents, as ``module:function``, so that
            ``team:FOLDER`` makes the same ones; `OWN`: the library's. None: not known.
        make_agents: Makes the same agents in a sampler's process on Ray; None: copies of them are sent.
    """

    agents: Mapping[str, Agent]
    policies: Mapping[str, Policy]
    refresh: Refresh | None = None
    made_by: str | None = None
    make_agents: Callable[[], Mapping[str, Agent]] | None = None

    @property
    def frozen(self) -> frozenset[str]:
        """Names of the agents' policies that are not trained."""
        return frozenset(agent.policy for agent in self.agents.values()) - self.policies.keys()


def make_team(
    settings: RunSettings,
    names: Sequence[str],
    models: Sequence[HFModel] | Mapping[str, HFModel],
    *,
    agent: Callable[[str, SampledModel], Agent] | None = None,
    roles: Mapping[str, type[RoleAgent]] = ROLES,
    problems: ProblemSet | None = None,
) -> Team:
    """A team from models in this process; each is trained on the turns of the agents that use it.

    Args:
        settings: What samples (`mars_env.trainers.samplers.sampling_models`) and how, whether policies are
            trained meanwhile, whether a KL term needs a reference.
        names: Names of the agents: ``env.possible_agents``.
        models: One for all agents, one for each in their order, or by agent or role: checkpoints, whose
            weights become float32 without ``train.offload``, or the adapters of one base
            (`mars_env.trainers.lora`). Policies have the models' names.
        agent: Makes an agent from its name and model; by default `mars_env.agents.as_agent`.
        roles: The agents that models become, by role (`mars_env.agents.registry.roles_of` the rules).
        problems: Whose public tests the tool ``public_tests`` runs.

    Raises:
        ConfigError: The models do not fit the agents, or a setting does not allow training.
    """
    assigned = _by_agent(names, models)
    trained = {model.name: model for model in assigned.values()}
    if len(trained) < len({id(model) for model in assigned.values()}):
        raise ConfigError(f"models need different names, got {', '.join(m.name for m in assigned.values())}")
    if agent is not None and settings.team.tools:
        raise ConfigError("tools are for the library's own agents: give them in agent=, or leave it out")

    def agents_of(sampled: Mapping[str, SampledModel]) -> dict[str, Agent]:
        by_agent = {name: sampled[model.name] for name, model in assigned.items()}
        if agent is None:
            return library_agents(settings, by_agent, roles, problems)
        return _made_by(agent, by_agent)

    return team_of(settings, trained, agents_of, OWN if agent is None else None)


def team_of(
    settings: RunSettings,
    trained: Mapping[str, HFModel],
    agents_of: Callable[[Mapping[str, SampledModel]], dict[str, Agent]],
    made_by: str | None,
) -> Team:
    """The team of models by policy: `agents_of` makes its agents from those that sample; see `make_team`."""
    require_trainable(settings.sampling)
    if not settings.train.offload:
        for model in trained.values():
            _widen(model)
    engines = dict(sampling_models(trained, settings))
    tokens = settings.segment_tokens
    agents = agents_of({name: SegmentedModel(m, tokens) if tokens else m for name, m in engines.items()})
    named = {player.policy for player in agents.values()}
    if len(trained) == len(named) == 1:  # one model, which your own agents may name as they like
        [name], [old] = named, trained
        trained, engines = {name: trained[old]}, {name: engines[old]}
    shared = {name: engines[name] is model and settings.samplers is None for name, model in trained.items()}
    policies = {name: _policy(model, settings, shared=shared[name]) for name, model in trained.items()}
    return Team(agents, policies, Refresher(engines), made_by)


def _made_by(
    agent: Callable[[str, SampledModel], Agent], models: Mapping[str, SampledModel]
) -> dict[str, Agent]:
    validate_signature(agent, ("name", "model"), "agent=")
    agents = {name: agent(name, model) for name, model in models.items()}
    for name, player in agents.items():
        if not isinstance(getattr(player, "policy", None), str) or not hasattr(player, "act"):
            raise ConfigError(f"agent= made {brief(player)} for {name}, no agent such as RoleAgent(model)")
    return agents


def _by_agent(
    names: Sequence[str], models: Sequence[HFModel] | Mapping[str, HFModel]
) -> Mapping[str, HFModel]:
    if isinstance(models, Mapping):
        return by_name(models, names)
    if len(models) not in (1, len(names)):
        raise ConfigError(f"{len(names)} agents take 1 model or {len(names)}, not {[m.name for m in models]}")
    return {name: models[i % len(models)] for i, name in enumerate(names)}


def _widen(model: HFModel) -> None:
    """Make the weights float32 that are to be trained: in 16 bits rounding would lose an update of 1e-6."""
    trained = trained_parameters(model.module).values()
    if not isinstance(model.module, Adapter) and any(weight.dtype != torch.float32 for weight in trained):
        log.info("%s: its weights are trained in float32, not %s", model.name, model.dtype)
        model.module.float()


def _policy(model: HFModel, settings: RunSettings, *, shared: bool) -> Policy:
    """What is trained: the model's own weights, or a copy of them if it samples meanwhile."""
    overlaps, is_adapter = shared and settings.pipeline.staleness > 0, isinstance(model.module, Adapter)
    if overlaps and is_adapter:
        raise ConfigError("adapters share their base with what samples: train them with pipeline.staleness=0")
    reference = None
    if settings.train.kl_coefficient:  # the present weights
        reference = model.module.base if is_adapter else copy.deepcopy(model.module).requires_grad_(False)
    return Policy(copy.deepcopy(model.module) if overlaps else model.module, model.tokenizer, reference)
