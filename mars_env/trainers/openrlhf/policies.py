"""Several policies in one run: the arguments of each, and checkpoints of the same update."""

import copy
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from mars_env.errors import StoreError
from mars_env.files import write_atomically
from mars_env.seeds import derive_seed

LATEST = "latest"
"""DeepSpeed's file that names the newest checkpoint of a directory."""

_TAG = "global_step"


def arguments_of(
    args: SimpleNamespace, name: str, checkpoint: str, resumed: str | None = None
) -> SimpleNamespace:
    """OpenRLHF's arguments for one policy: its weights, and its own directories and seed.

    Engines draw all samples from one random stream, which starts with their seed: with the same one, engines
    of different policies would draw the same numbers, and so would those of a run that is `resumed` from the
    checkpoint of this tag.
    """
    policy_args = copy.deepcopy(args)
    policy_args.actor.model_name_or_path = checkpoint
    policy_args.ckpt.path = str(Path(args.ckpt.path) / name)
    policy_args.ckpt.output_dir = str(Path(args.ckpt.output_dir) / name)
    policy_args.train.seed = derive_seed(args.train.seed, name, resumed or "") % 2**31
    return policy_args


def tag_of(update: int) -> str:
    """The name of the checkpoints of an update, the same for all policies."""
    return f"{_TAG}{update}"


def take_common_checkpoint(directories: Sequence[Path]) -> str | None:
    """Make all policies resume from the same update: the newest that each of them has saved completely.

    If a run is killed while it saves, some policies are one update ahead. DeepSpeed loads the checkpoint that
    the file `LATEST` names, and writes the file when a checkpoint is complete; here it is set back.

    Returns the tag; None if nothing is saved yet. A `StoreError` if no update is saved by all policies.
    """
    saved = [_complete_updates(directory) for directory in directories]
    if not all(saved) and max(map(len, saved)) <= 1:
        return None  # the very first save may be incomplete: there is no earlier one
    common = set.intersection(*saved)
    if not common:
        raise StoreError("the policies have no saved update in common: set out to another folder")
    tag = tag_of(max(common))
    for directory in directories:
        write_atomically(directory / LATEST, tag)
    return tag


def _complete_updates(directory: Path) -> set[int]:
    """The updates saved in a directory, up to its latest one: later checkpoints are incomplete."""
    latest = directory / LATEST
    if not latest.exists():
        return set()
    last = int(latest.read_text(encoding="utf-8").strip().removeprefix(_TAG))
    saved = {int(path.name.removeprefix(_TAG)) for path in directory.glob(f"{_TAG}*") if path.is_dir()}
    return {update for update in saved if update <= last}
