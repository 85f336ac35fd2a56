"""Checkpoints: if the process is killed at any moment, each is either complete or ignored.

A checkpoint is a directory ``step-00000012``. For each policy it has an ordinary Hugging Face checkpoint
(``<policy>/config.json``, ``model.safetensors``, tokenizer files), which transformers and vLLM can load, with
``optimizer.safetensors`` beside it. ``state.json`` has the step, settings, versions, and the size of every
file. A checkpoint is written under another name, synced to disk, and then renamed, so it is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor
from transformers.utils import logging as transformers_logging

from mars_env.errors import ConfigError, StoreError
from mars_env.identity import identity_changes
from mars_env.text import logger

if TYPE_CHECKING:
    from mars_env.trainers.local import Policy

FORMAT = 1
"""Version of the layout; other versions are refused."""

NEWER = (
    "run.problems",
    "run.rules",
    "run.grader",
    "run.rewards",
    "run.team_reward",
    "run.frozen",
    "run.team",
    "run.steps",
)
"""Settings that checkpoints of before do not have: compared where a checkpoint has them."""

_NAME = re.compile(r"step-([0-9]{8})")
_SCRATCH = ".scratch-"
_GENERATION = "generation_config.json"
_log = logger(__name__)


def save_checkpoint(
    directory: Path, step: int, settings: Mapping[str, Any], policies: Mapping[str, Policy], keep: int
) -> Path:
    """Write a checkpoint, then delete older ones, so that `keep` up to this one are left; later ones stay.

    Returns:
        Its directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in directory.glob(_SCRATCH + "*"):
        shutil.rmtree(leftover)
    target, scratch = directory / f"step-{step:08d}", directory / f"{_SCRATCH}{step:08d}"
    for name, policy in policies.items():
        _save_model(policy.model, scratch / name)
        if policy.tokenizer is not None:
            policy.tokenizer.save_pretrained(scratch / name)
        safetensors.torch.save_file(_optimiser_tensors(policy), scratch / name / "optimizer.safetensors")
    files = sorted(path for path in scratch.rglob("*") if path.is_file())
    state = {
        "format": FORMAT,
        "step": step,
        "settings": dict(settings),
        "policies": {name: {"version": p.version, "updates": p.updates} for name, p in policies.items()},
        "files": {path.relative_to(scratch).as_posix(): path.stat().st_size for path in files},
    }
    (scratch / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
    for path in [*scratch.rglob("*"), scratch]:
        sync_to_disk(path)
    if target.exists():
        _remove(target)
    scratch.rename(target)
    sync_to_disk(directory)
    for _, old in [found for found in _found(directory) if found[0] <= step][keep:]:
        _remove(old)
    return target


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest complete checkpoint in a directory; None if there is none. Incomplete ones are skipped."""
    for _, path in _found(directory):
        fault = _fault(path)
        if fault is None:
            return path
        _log.warning("checkpoint %s is skipped: %s", path.name, fault)
    return None


def checkpoint_step(path: Path) -> int:
    """The step in a checkpoint's name.

    Example:
        >>> checkpoint_step(Path("run/step-00000012"))
        12
    """
    return int(path.name.removeprefix("step-"))


def require_steps(done: int, steps: int, directory: Path | str | None) -> None:
    """Refuse a run of fewer steps than are done: its weights would be those of a longer run.

    Raises:
        ConfigError: Says both numbers.

    Example:
        >>> require_steps(20, 30, "runs/one")
        >>> require_steps(20, 10, "runs/one")
        Traceback (most recent call last):
        mars_env.errors.ConfigError: 20 steps are done in runs/one, and 10 were asked for in all: give at least as many, or another directory
    """  # noqa: E501
    if done > steps:
        where = "" if directory is None else f" in {directory}"
        raise ConfigError(
            f"{done} steps are done{where}, and {steps} were asked for in all: give at least as many, or "
            "another directory"
        )


def load_checkpoint(path: Path, settings: Mapping[str, Any], policies: Mapping[str, Policy]) -> int:
    """Load a checkpoint's weights, optimiser states and versions into the policies, in place.

    Returns:
        The step after which it was written.

    Raises:
        StoreError: It was made with other settings or other policies.
    """
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    if state["format"] != FORMAT:
        raise StoreError(f"checkpoint {path} has the format {state['format']}, this version reads {FORMAT}")
    stored, given = state["settings"], json.loads(json.dumps(dict(settings)))  # tuples become lists
    named = stored.keys() | (given.keys() - set(NEWER))
    differing = identity_changes(
        {name: stored.get(name) for name in named}, {name: given.get(name) for name in named}
    )
    if differing:
        raise StoreError(
            f"checkpoint {path} was made with other settings ({'; '.join(differing)}): "
            "give the same ones, or another directory for a new run"
        )
    if state["policies"].keys() != policies.keys():
        raise StoreError(
            f"checkpoint {path} has the policies {', '.join(sorted(state['policies']))}, "
            f"the trainer has {', '.join(sorted(policies))}"
        )
    for name, policy in policies.items():
        _load_weights(policy.model, path / name)
        _restore_optimiser(policy, safetensors.torch.load_file(path / name / "optimizer.safetensors"))
        policy.version = state["policies"][name]["version"]
        policy.updates = state["policies"][name]["updates"]
    return int(state["step"])


def _save_model(model: Any, path: Path) -> None:
    """Write a model as transformers does, with its generation config as it was read.

    transformers reads a config that names a temperature without ``do_sample`` with a warning, and refuses to
    write it.
    """
    given: Any = getattr(model, "generation_config", None)
    refused = not _is_writable(given)
    try:
        if refused:
            model.generation_config = type(given)()
        with _no_progress_bars():
            model.save_pretrained(path)
    finally:
        if refused:
            model.generation_config = given
    if refused and (path / _GENERATION).exists():  # an adapter writes none
        given.to_json_file(path / _GENERATION)


def _is_writable(generation_config: Any) -> bool:
    try:
        if generation_config is not None:  # not every model has one
            generation_config.validate(strict=True)
    except ValueError:
        return False
    return True


def _load_weights(model: Any, path: Path) -> None:
    if hasattr(model, "load_pretrained"):  # an adapter: its base is not in the checkpoint
        model.load_pretrained(path)
        return
    with _no_progress_bars():
        loaded = type(model).from_pretrained(path, dtype=torch.float32, local_files_only=True)
    model.load_state_dict(loaded.state_dict())


def _optimiser_tensors(policy: Policy) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: ``"exp_avg.model.norm.weight"`` and so on."""
    return {
        f"{kind}.{name}": tensor.detach().cpu().contiguous()
        for name, parameter in trained_parameters(policy.model).items()
        for kind, tensor in policy.optimiser.state.get(parameter, {}).items()
    }


def _restore_optimiser(policy: Policy, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    names = {parameter: name for name, parameter in trained_parameters(policy.model).items()}
    order = [parameter for group in policy.optimiser.param_groups for parameter in group["params"]]
    for index, name in enumerate(names[parameter] for parameter in order):
        own = {kind: tensors[f"{kind}.{name}"] for kind in _KINDS if f"{kind}.{name}" in tensors}
        if own:
            state[index] = own
    policy.optimiser.load_state_dict(
        {"state": state, "param_groups": policy.optimiser.state_dict()["param_groups"]}
    )


_KINDS = ("step", "exp_avg", "exp_avg_sq")


def trained_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters that require gradients, by name; tied ones once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _found(directory: Path) -> list[tuple[int, Path]]:
    """All checkpoints in a directory, complete or not, newest first."""
    if not directory.is_dir():
        return []
    matches = [(_NAME.fullmatch(path.name), path) for path in directory.iterdir()]
    return sorted(((int(m[1]), path) for m, path in matches if m), reverse=True)


def _fault(path: Path) -> str | None:
    """Why a checkpoint is not complete; None if it is."""
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        sizes = dict(state["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:  # incomplete or foreign
        return f"state.json cannot be read ({type(error).__name__})"
    for name, size in sizes.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            return f"{name} is missing or cut short"
    return None


def _remove(path: Path) -> None:
    """Remove a checkpoint; if the process is killed meanwhile, nothing is left that looks like one."""
    scratch = path.with_name(_SCRATCH + "old-" + path.name)
    path.rename(scratch)
    shutil.rmtree(scratch)


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


def sync_to_disk(path: Path) -> None:
    """Have the system write a file or a directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
