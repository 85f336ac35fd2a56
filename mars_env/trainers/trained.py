"""What a training run wrote, as agents: ``team:runs/one`` (see `mars_env.agents.make_agents`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mars_env.agents.registry import as_agent
from mars_env.agents.roles import ROLES, RoleAgent
from mars_env.agents.thinking import THINKING, Thinking
from mars_env.agents.tools import Tool, Toolbox, make_tools
from mars_env.errors import ConfigError
from mars_env.lazy import import_object
from mars_env.models.hf import HFModel
from mars_env.players import takes
from mars_env.problems import ProblemSet
from mars_env.text import brief
from mars_env.trainers.assembly import agents_of_function
from mars_env.trainers.checkpoints import STATE, load_state, newest_checkpoint
from mars_env.trainers.lora import add_adapters
from mars_env.trainers.team import OWN
from mars_env.types import Agent, Sampling

ADAPTER = "adapter_config.json"


class TrainedTeam:
    """The agents of the newest checkpoint in a run's folder; each policy is loaded where it is used.

    Args:
        run: ``--out`` of `mars-env train`, ``directory`` of `mars_env.trainers.train`, or one checkpoint.
        function: What makes the agents of a model, as ``module:function``; by default that of the run.
        changes: Fields of `Sampling` that replace those of the run.
        thinking: How the library's own agents mark their thinking.
        tools: Tools of the library's own agents, in place of those of the run.
        problems: Whose public tests a tool of the run runs.
        model: Arguments of `HFModel`, such as ``device``.

    Raises:
        ConfigError: No checkpoint of a team is there, or what made the agents is not; or they ignore changes.
    """

    def __init__(
        self,
        run: str | Path,
        *,
        function: str | None = None,
        changes: Mapping[str, Any] | None = None,
        thinking: Thinking | None = THINKING,
        tools: Toolbox | Sequence[Tool] = (),
        problems: ProblemSet | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> None:
        path = Path(run) if (Path(run) / STATE).is_file() else newest_checkpoint(Path(run))
        run_settings = {} if path is None else load_state(path)["must_match"]["run"]
        if path is None or "made_by" not in run_settings:
            raise ConfigError(
                f"{str(run)!r} has no checkpoint of a team: give the folder of --out, or hf:PATH of a model"
            )
        self._path, self._policies, self._thinking = path, run_settings["agents"], thinking
        sampling = TypeAdapter(Sampling).validate_python(run_settings["sampling"])
        self._sampling = replace(sampling, **(changes or {}))
        self._function = _function_name(function or run_settings["made_by"], changes)
        self._arguments = dict(model or {})
        self._tools = tools or make_tools(run_settings.get("tools", ""), problems)
        self._models: dict[str, HFModel] = {}
        self._made: dict[str, Mapping[str, Agent]] = {}

    def agent(self, name: str, roles: Mapping[str, type[RoleAgent]] = ROLES) -> Agent:
        """The agent of a place, e.g. ``"verifier_0"``; a `ConfigError` if the run trained no such agent."""
        if name not in self._policies:
            raise ConfigError(
                f"{self._path.parent} has the agents {', '.join(self._policies)}, and none for {brief(name)}"
            )
        policy = self._policies[name]
        model = self._model(policy)
        if self._function == OWN:
            return as_agent(
                model, name, sampling=self._sampling, thinking=self._thinking, roles=roles, tools=self._tools
            )
        if policy not in self._made:
            names = [each for each, own in self._policies.items() if own == policy]
            self._made[policy] = agents_of_function(self._function, names, model, self._sampling, policy)
        return self._made[policy][name]

    def _model(self, policy: str) -> HFModel:
        if policy not in self._models:
            self._models |= self._adapters(policy) or {
                policy: HFModel(self._path / policy, name=policy, **self._arguments)
            }
        return self._models[policy]

    def _adapters(self, policy: str) -> dict[str, HFModel]:
        names = [each for each in {*self._policies.values()} if (self._path / each / ADAPTER).exists()]
        if policy not in names:
            return {}
        config = json.loads((self._path / policy / ADAPTER).read_text(encoding="utf-8"))
        base = HFModel(config["base_model_name_or_path"], **self._arguments)
        adapters = add_adapters(base.module, names, config["r"])
        for name, adapter in adapters.items():
            adapter.load_pretrained(self._path / name)
        return {name: HFModel((adapter, base.tokenizer), name=name) for name, adapter in adapters.items()}


def _function_name(name: str | None, changes: Mapping[str, Any] | None) -> str:
    if name is None:
        raise ConfigError("name what makes its agents of a model: team:FOLDER?function=my_module:my_team")
    if name != OWN and changes and not takes(import_object(name), "sampling"):
        raise ConfigError(f"{name} takes no sampling: leave {', '.join(changes)} out")
    return name
