"""Checkpoints: from a folder here, the cache of the Hugging Face hub, or the hub."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError
from mars_env.lazy import needs
from mars_env.net import hub_answers

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def from_checkpoint(checkpoint: str | Path, *loaders: Callable[..., Any]) -> list[Any]:
    """What loaders of transformers (``AutoTokenizer.from_pretrained``) read; the hub is asked last."""
    name = str(checkpoint)
    is_folder = bool(name) and Path(name).is_dir()
    if not is_folder and (isinstance(checkpoint, Path) or _HUB_NAME.fullmatch(name) is None):
        raise ConfigError(f"there is no checkpoint {name!r:.300}")
    try:
        try:
            return [loader(checkpoint, local_files_only=True) for loader in loaders]
        except OSError:  # not in the cache, or not all of it
            if is_folder:
                raise
        if not hub_answers():
            raise OSError("it is not in the cache here, and the Hugging Face hub does not answer")
        return [loader(checkpoint) for loader in loaders]
    except (OSError, ValueError, KeyError) as error:
        base = _base_of(Path(checkpoint))
        raise ConfigError(f"the checkpoint {name!r}{base} cannot be loaded: {error}") from error


def _base_of(folder: Path) -> str:
    config = folder / "adapter_config.json"
    if not config.is_file():
        return ""
    name = json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path")
    return f", an adapter on {name!r},"


def load_model(kind: Any, checkpoint: str | Path, device: str | None, dtype: str) -> tuple[Any, Any]:
    """A model of a class of transformers, ready to be used, and its tokenizer; by default on a GPU."""
    with needs("hf", "a checkpoint needs torch and transformers"):
        import torch
        from transformers import AutoTokenizer

    def load(name: str | Path, **where: Any) -> Any:  # an adapter's base is looked for there, too
        return kind.from_pretrained(name, dtype=dtype, adapter_kwargs=where, **where)

    module, tokenizer = from_checkpoint(checkpoint, load, AutoTokenizer.from_pretrained)
    return module.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval(), tokenizer
