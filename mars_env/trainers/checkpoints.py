"""Checkpoints, and what a training has in common with the one that it continues.

In ``step-00000012`` each policy has an ordinary Hugging Face checkpoint, with ``optimizer.state`` beside it.
``state.json`` has the step, versions, and what must match; ``SHA256SUMS`` the digests of all files.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.envs import Game
from mars_env.errors import StoreError, explained
from mars_env.identity import identity_changes, identity_of
from mars_env.lazy import needs
from mars_env.text import logger
from mars_env.trainers.folders import damaged_file, numbered, remove_folder, whole_folder, write_digests
from mars_env.types import Agent, TrainingAgent

with needs("hf", "checkpoints need torch and safetensors"):
    import safetensors
    import safetensors.torch
    import torch
    from transformers.utils import logging as transformers_logging

    from mars_env.trainers.optimiser import trained_parameters

if TYPE_CHECKING:
    from mars_env.trainers.policy import Policy
    from mars_env.trainers.team import Team

_FORMAT = 2
_NAME = re.compile(r"step-([0-9]{8})")
STATE = "state.json"
_GENERATION = "generation_config.json"
_OPTIMIZER = "optimizer.state"
"""In the format of safetensors, but not named so: vLLM reads all ``*.safetensors`` as weights."""
log = logger(__name__)


def save_checkpoint(
    directory: Path, step: int, identity: Mapping[str, Any], policies: "Mapping[str, Policy]", keep: int
) -> Path:
    """Write a checkpoint, complete or not at all, or raise a `StoreError`; returns its directory.

    Older ones are deleted, so that `keep` up to this one are left, at least this one; later ones stay.
    """
    target = directory / f"step-{step:08d}"
    # safetensors has an error of its own for a full disk
    with explained(StoreError, f"{directory} cannot be written", OSError, safetensors.SafetensorError):
        with whole_folder(target) as scratch:
            for name, policy in policies.items():
                _save_model(policy.model, scratch / name)
                if policy.tokenizer is not None:
                    policy.tokenizer.save_pretrained(scratch / name)
                safetensors.torch.save_file(policy.optimiser.tensors(), scratch / name / _OPTIMIZER)
            counts = {name: {"version": p.version, "updates": p.updates} for name, p in policies.items()}
            state = {"format": _FORMAT, "step": step, **identity, "policies": counts}
            (scratch / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
            write_digests(scratch)
        done = [path for number, path in numbered(directory, _NAME) if number <= step]
        for old in done[max(1, keep) :]:
            remove_folder(old)
    return target


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest checkpoint in a directory; None if there is none."""
    return next((path for _, path in numbered(directory, _NAME)), None)


def load_checkpoint(path: Path, identity: Mapping[str, Any], policies: "Mapping[str, Policy]") -> int:
    """Load a checkpoint into the policies; returns its step. A `StoreError` if it is of another run."""
    state = load_state(path)
    identity = json.loads(json.dumps(dict(identity)))  # tuples become lists
    if changes := identity_changes(state["must_match"], identity["must_match"]):
        raise StoreError(
            f"checkpoint {path} was made with other settings ({'; '.join(changes)}): "
            "give the same ones, or another directory for a new run"
        )
    if state["policies"].keys() != policies.keys():
        raise StoreError(f"{path} has the policies {sorted(state['policies'])}, not {sorted(policies)}")
    for change in identity_changes(state["may_change"], identity["may_change"]):
        log.info("%s continues with %s", path.parent, change)
    for name, policy in policies.items():
        _load_weights(policy.model, path / name)
        policy.optimiser.restore(safetensors.torch.load_file(path / name / _OPTIMIZER))
        policy.version = state["policies"][name]["version"]
        policy.updates = state["policies"][name]["updates"]
    return int(state["step"])


def load_state(path: Path) -> dict[str, Any]:
    """What `STATE` says, or a `StoreError` if a file is damaged, or the format another version's."""
    if (damaged := damaged_file(path)) is not None:
        names = [other.name for _, other in numbered(path.parent, _NAME) if other.name < path.name]
        advice = f"remove {path} to continue from {names[0]}" if names else "there is no older checkpoint"
        raise StoreError(f"{damaged} is damaged or missing: {advice}")
    state: dict[str, Any] = json.loads((path / STATE).read_text(encoding="utf-8"))
    if state["format"] != _FORMAT:
        raise StoreError(f"checkpoint {path} has the format {state['format']}, this version reads {_FORMAT}")
    return state


def run_identity(game: Game, team: "Team", steps: int) -> dict[str, Any]:
    """What a run must have in common with the one that it continues, besides its settings: as plain data.

    The number of steps is a part of it only where agents act by how much of the run is done.
    """
    by_progress = any(isinstance(agent, TrainingAgent) for agent in team.agents.values())
    parts = ("rules", "grader", "rewards", "team_reward")
    return {
        "agents": {name: agent.policy for name, agent in team.agents.items()},
        "team": describe_team(team.agents, team.policies),
        **{name: identity_of(getattr(game, name)) for name in parts},
        **({"steps": steps} if by_progress else {}),
    }


def describe_team(agents: Mapping[str, Agent], trained: Collection[str]) -> dict[str, Any]:
    """What identifies the agents of a run that trains.

    Of the models that sample `trained` policies, whose weights the run has itself, only the context and the
    options of the chat template count: a continued run may have another engine.
    """
    return {
        name: _without_models(identity_of(agent)) if agent.policy in trained else identity_of(agent)
        for name, agent in agents.items()
    }


def _without_models(identity: Any, at: str = "") -> Any:
    if not isinstance(identity, Mapping):
        return identity
    if at.lstrip("_") == "model":
        names = ("context", "template_options", "model")
        identity = {name: identity[name] for name in names if not isinstance(identity.get(name, ""), str)}
    return {name: _without_models(value, name) for name, value in identity.items()}


def describe_weights(policies: "Mapping[str, Policy]") -> dict[str, Any]:
    """The precision of the trained weights, and digests of references and the bases of adapters."""
    frozen = {name: getattr(policy.model, "base", policy.reference) for name, policy in policies.items()}
    return {
        "precision": {
            name: sorted({str(weight.dtype) for weight in trained_parameters(policy.model).values()})
            for name, policy in policies.items()
        },
        "frozen": {name: _weights_digest(model) for name, model in frozen.items() if model is not None},
    }


def _weights_digest(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if ".lora_" not in name:  # the base of adapters has theirs in it, which are trained
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _save_model(model: Any, path: Path) -> None:
    """Write a model with its generation config as it was read.

    transformers reads a config that names a temperature without ``do_sample``, and does not write it.
    """
    config: Any = getattr(model, "generation_config", None)  # not every model has one
    if config is not None:
        model.generation_config = type(config)()
    try:
        with _no_progress_bars():
            model.save_pretrained(path)
    finally:
        if config is not None:
            model.generation_config = config
    if (path / _GENERATION).exists():  # an adapter writes none
        config.to_json_file(path / _GENERATION)


def _load_weights(model: Any, path: Path) -> None:
    if hasattr(model, "load_pretrained"):  # an adapter: its base is not in the checkpoint
        model.load_pretrained(path)
        return
    with _no_progress_bars():
        loaded = type(model).from_pretrained(path, dtype=torch.float32, local_files_only=True)
    model.load_state_dict(loaded.state_dict())


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    were_on = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            transformers_logging.enable_progress_bar()
