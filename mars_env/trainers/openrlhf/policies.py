"""Which agent uses which policy, and each policy's own arguments.

Pure functions; `mars_env.trainers.openrlhf.workers.driver` trains.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

from mars_env.errors import ConfigError, StoreError
from mars_env.files import write_atomically
from mars_env.seeds import derive_seed
from mars_env.types import role_of

LATEST = "latest"
"""DeepSpeed's file that names the newest checkpoint of a directory."""


def plays(
    names: Sequence[str], policies: Collection[str], given: Mapping[str, str], others: Collection[str] = ()
) -> dict[str, str]:
    """Which policy each agent plays with.

    Args:
        names: Names of the agents.
        policies: Names of the policies.
        given: Policies by agent or role; an agent's own entry has priority. If it is empty, all agents have
            the only policy, or as many agents as policies are paired in order.
        others: Agents or roles that other models play: they are left out.

    Raises:
        ConfigError: An agent has no policy, a policy has no agent, or a name is unknown.

    Example:
        >>> plays(["solver_0", "verifier_0", "corrector_0"], ["s", "c"],
        ...       {"solver": "s", "verifier": "c", "corrector": "c"})
        {'solver_0': 's', 'verifier_0': 'c', 'corrector_0': 'c'}
        >>> plays(["coder_0", "coder_1"], ["one", "two"], {})
        {'coder_0': 'one', 'coder_1': 'two'}
    """
    names = [name for name in names if name not in others and role_of(name) not in others]
    if not given and len(policies) == 1:
        given = dict.fromkeys(names, next(iter(policies)))
    if not given and len(names) == len(policies):
        given = dict(zip(names, policies, strict=True))
    known = {*names, *map(role_of, names)}
    if wrong := [key for key in given if key not in known]:
        raise ConfigError(f"--mars.plays names {wrong[0]!r}, but the agents are {', '.join(names)}")
    if wrong := [policy for policy in given.values() if policy not in policies]:
        raise ConfigError(f"--mars.plays names the policy {wrong[0]!r}, but there are {', '.join(policies)}")
    found = {name: given.get(name) or given.get(role_of(name)) for name in names}
    if missing := [name for name, policy in found.items() if policy is None]:
        raise ConfigError(f"--mars.plays gives no policy for {', '.join(missing)}")
    if idle := [policy for policy in policies if policy not in found.values()]:
        raise ConfigError(
            f"no agent plays with the policy {', '.join(idle)}: leave it out, or see --mars.plays"
        )
    return {name: policy for name, policy in found.items() if policy is not None}


def arguments_of(
    args: SimpleNamespace, name: str, checkpoint: str, resumed: str | None = None
) -> SimpleNamespace:
    """OpenRLHF's arguments for one policy: its weights, and its own directories and seed.

    Engines draw all samples from one random stream, which starts with their seed. With the same seed the
    engines of different policies would draw the same numbers, and so would those of a resumed run.

    Args:
        args: The run's arguments.
        name: Name of the policy.
        checkpoint: The weights with which it starts.
        resumed: Tag of the checkpoint from which the run continues, if it does.

    Example:
        >>> from types import SimpleNamespace as S
        >>> args = S(actor=S(model_name_or_path=None), ckpt=S(path="run/ckpt", output_dir="run/model"),
        ...          logger=S(tensorboard_dir=None, wandb=S(run_name="run", group=None)), train=S(seed=42))
        >>> own = arguments_of(args, "one", "path/a")
        >>> own.actor.model_name_or_path, own.ckpt.path, own.ckpt.output_dir, own.logger.wandb.run_name
        ('path/a', 'run/ckpt/one', 'run/model/one', 'run_one')
    """
    own = copy.deepcopy(args)
    own.actor.model_name_or_path = checkpoint
    own.ckpt.path = str(Path(args.ckpt.path) / name)
    own.ckpt.output_dir = str(Path(args.ckpt.output_dir) / name)
    own.logger.wandb.run_name = f"{args.logger.wandb.run_name}_{name}"
    own.logger.wandb.group = args.logger.wandb.group or args.logger.wandb.run_name
    own.train.seed = derive_seed(args.train.seed, name, resumed or "") % 2**31
    return own


def tag_of(update: int) -> str:
    """The name of the checkpoints of an update, the same for all policies."""
    return f"global_step{update}"


def take_common_checkpoint(directories: Sequence[Path]) -> str | None:
    """Make all policies resume from the same update: the newest that each of them has saved completely.

    If a run is killed while it saves, some policies are one update ahead. DeepSpeed loads the checkpoint that
    the file `LATEST` names, and writes the file when a checkpoint is complete; here it is set back if
    necessary.

    Args:
        directories: Each policy's directory of checkpoints.

    Returns:
        The tag; None if there is no common checkpoint yet and the run starts from the beginning.

    Raises:
        StoreError: There is no update that all policies have saved.
    """
    saved = [_whole_tags(directory) for directory in directories]
    if not all(saved) and max(map(len, saved)) <= 1:
        return None  # the very first save may be incomplete: there is no earlier one
    common = set(saved[0]).intersection(*saved[1:])
    if not common:
        raise StoreError(
            f"the policies have no saved update in common below {directories[0].parent.parent}: give another "
            "--ckpt.path, and keep at least two checkpoints of each (--ckpt.max_num)"
        )
    tag = max(common, key=_update)
    for directory in directories:
        write_atomically(directory / LATEST, tag)
    return tag


def _whole_tags(directory: Path) -> list[str]:
    """The tags in a directory up to its latest one: later checkpoints are incomplete."""
    latest = directory / LATEST
    if not latest.exists():
        return []
    last = _update(latest.read_text(encoding="utf-8").strip())
    tags = [
        path.name for path in directory.iterdir() if path.is_dir() and path.name.startswith(tag_of(0)[:-1])
    ]
    return [tag for tag in tags if _update(tag) <= last]


def _update(tag: str) -> int:
    return int(tag.removeprefix(tag_of(0)[:-1]))
