"""Checkpoints: if the process is killed at any moment, each is either complete or ignored.

In ``step-00000012`` each policy has an ordinary Hugging Face checkpoint, which transformers and vLLM can
load, with ``optimizer.state`` beside it. ``state.json`` has the step, settings, versions, and the size of
every file.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.envs import Game
from mars_env.errors import StoreError, explained
from mars_env.identity import identity_changes, identity_of
from mars_env.lazy import needs
from mars_env.text import logger
from mars_env.types import Agent, TrainingAgent

with needs("hf", "checkpoints need torch and safetensors"):
    import safetensors
    import safetensors.torch
    import torch
    from transformers.utils import logging as transformers_logging

if TYPE_CHECKING:
    from mars_env.trainers.local import Policy
    from mars_env.trainers.team import Team

_FORMAT = 1
_NAME = re.compile(r"step-([0-9]{8})")
_SCRATCH = ".scratch-"
_GENERATION = "generation_config.json"
_OPTIMIZER = "optimizer.state"
"""In the format of safetensors, but not named so: vLLM reads all ``*.safetensors`` as weights."""
_HEAD = 64
"""Values of each parameter that a fingerprint reads."""
log = logger(__name__)


def save_checkpoint(
    directory: Path, step: int, settings: Mapping[str, Any], policies: "Mapping[str, Policy]", keep: int
) -> Path:
    """Write a checkpoint under another name, sync it to disk, and rename it; returns its directory.

    Older ones are deleted, so that `keep` up to this one are left, at least this one; later ones
    stay. A `StoreError` if it cannot be written, on a full disk for example.
    """
    target = directory / f"step-{step:08d}"
    # safetensors has an error of its own for a full disk
    with explained(StoreError, f"{directory} cannot be written", OSError, safetensors.SafetensorError):
        with whole_folder(target, replace=True) as scratch:
            for name, policy in policies.items():
                _save_model(policy.model, scratch / name)
                if policy.tokenizer is not None:
                    policy.tokenizer.save_pretrained(scratch / name)
                safetensors.torch.save_file(policy.optimiser.tensors(), scratch / name / _OPTIMIZER)
            files = sorted(path for path in scratch.rglob("*") if path.is_file())
            state = {
                "format": _FORMAT,
                "step": step,
                "settings": dict(settings),
                "policies": {
                    name: {"version": policy.version, "updates": policy.updates}
                    for name, policy in policies.items()
                },
                "files": {path.relative_to(scratch).as_posix(): path.stat().st_size for path in files},
            }
            (scratch / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        for _, old in [found for found in numbered(directory, _NAME) if found[0] <= step][max(1, keep) :]:
            remove_folder(old)
    return target


@contextmanager
def whole_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to write; it gets its name when all is on the disk, so `target` is complete or not there.

    What kills have left of earlier ones is removed. With `replace`, a folder of this name is, too.
    """
    for leftover in target.parent.glob(_SCRATCH + "*"):
        shutil.rmtree(leftover)
    scratch = target.with_name(_SCRATCH + target.name)
    try:
        scratch.mkdir(parents=True)
        yield scratch
        for path in [*scratch.rglob("*"), scratch]:
            _sync_to_disk(path)
        if replace and target.exists():
            remove_folder(target)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _sync_to_disk(target.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder; if the process is killed meanwhile, nothing is left that looks like one."""
    scratch = path.with_name(_SCRATCH + "old-" + path.name)
    path.rename(scratch)
    shutil.rmtree(scratch)


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest complete checkpoint in a directory; None if there is none. Incomplete ones are skipped."""
    for _, path in numbered(directory, _NAME):
        fault = _fault(path)
        if fault is None:
            return path
        log.warning("checkpoint %s is skipped: %s", path.name, fault)
    return None


def load_checkpoint(path: Path, settings: Mapping[str, Any], policies: "Mapping[str, Policy]") -> int:
    """Load a checkpoint into the policies; returns its step. Other settings are a `StoreError`."""
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    if state["format"] != _FORMAT:
        raise StoreError(f"checkpoint {path} has the format {state['format']}, this version reads {_FORMAT}")
    given = json.loads(json.dumps(dict(settings)))  # tuples become lists
    if differing := identity_changes(state["settings"], given):
        raise StoreError(
            f"checkpoint {path} was made with other settings ({'; '.join(differing)}): "
            "give the same ones, or another directory for a new run"
        )
    if state["policies"].keys() != policies.keys():
        raise StoreError(f"{path} has the policies {sorted(state['policies'])}, not {sorted(policies)}")
    for name, policy in policies.items():
        _load_weights(policy.model, path / name)
        policy.optimiser.restore(safetensors.torch.load_file(path / name / _OPTIMIZER))
        policy.version = state["policies"][name]["version"]
        policy.updates = state["policies"][name]["updates"]
    return int(state["step"])


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
        "frozen": fingerprint_weights(team.policies),
    }


def describe_team(agents: Mapping[str, Agent], trained: Collection[str]) -> dict[str, Any]:
    """What identifies the agents of a run that trains.

    Of the models that sample `trained` policies, whose weights the run has itself, only the context and the
    options of the chat template count: a continued run may have another engine.
    """
    identities = {name: identity_of(agent) for name, agent in agents.items()}
    return {
        name: _without_models(each) if agents[name].policy in trained else each
        for name, each in identities.items()
    }


def _without_models(identity: Any, at: str = "") -> Any:
    """An identity without what its models are, at any depth."""
    if not isinstance(identity, Mapping):
        return identity
    if at.lstrip("_") == "model":
        kept = ("context", "template_options", "model")
        identity = {name: identity[name] for name in kept if not isinstance(identity.get(name, ""), str)}
    return {name: _without_models(value, name) for name, value in identity.items()}


def fingerprint_weights(policies: "Mapping[str, Policy]") -> dict[str, str]:
    """Of the weights that a run needs and its checkpoints do not hold: references, and bases of adapters."""
    frozen = {name: getattr(policy.model, "base", policy.reference) for name, policy in policies.items()}
    return {name: _fingerprint(model) for name, model in frozen.items() if model is not None}


def _fingerprint(model: Any) -> str:
    """Of the first values of each parameter, so that a run does not read all of them."""
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        if ".lora_" not in name:  # the base of adapters has theirs in it, which are trained
            head = parameter.detach().flatten()[:_HEAD].float().cpu()
            digest.update(f"{name} {tuple(parameter.shape)} {head.tolist()}".encode())
    return digest.hexdigest()


def _save_model(model: Any, path: Path) -> None:
    """Write a model with its generation config as it was read.

    transformers reads a config that names a temperature without ``do_sample``, and does not write it.
    """
    given: Any = getattr(model, "generation_config", None)  # not every model has one
    if given is not None:
        model.generation_config = type(given)()
    try:
        with _no_progress_bars():
            model.save_pretrained(path)
    finally:
        if given is not None:
            model.generation_config = given
    if (path / _GENERATION).exists():  # an adapter writes none
        given.to_json_file(path / _GENERATION)


def _load_weights(model: Any, path: Path) -> None:
    if hasattr(model, "load_pretrained"):  # an adapter: its base is not in the checkpoint
        model.load_pretrained(path)
        return
    with _no_progress_bars():
        loaded = type(model).from_pretrained(path, dtype=torch.float32, local_files_only=True)
    model.load_state_dict(loaded.state_dict())


def trained_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters that require gradients, by name; tied ones once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def numbered(directory: Path, name: re.Pattern[str]) -> list[tuple[int, Path]]:
    """All folders and files of a directory whose name has the form, by its number, the highest first."""
    if not directory.is_dir():
        return []
    matches = [(name.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted(((int(m[1]), path) for m, path in matches if m), reverse=True)


def _fault(path: Path) -> str | None:
    """Why a checkpoint is not complete; None if it is."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        sizes = dict(state["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:  # incomplete, or not ours
        return f"state.json cannot be read ({type(error).__name__})"
    for name, size in sizes.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            return f"{name} is missing or cut short"
    return None


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Hide transformers' progress bars for reading and writing weights."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _sync_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
