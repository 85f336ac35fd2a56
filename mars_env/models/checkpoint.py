"""Where a checkpoint is: a folder here, the cache of the Hugging Face hub, or the hub."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError
from mars_env.lazy import needs

PATIENCE = 5.0
"""Seconds that the hub may take to answer."""

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def is_here(checkpoint: str | Path) -> bool:
    """Whether a checkpoint is read from this machine: from a folder, or since the hub cannot be reached.

    Pass it to transformers as ``local_files_only``: transformers asks a hub that is out of reach again and
    again, here it is asked once.

    Raises:
        ConfigError: There is no such folder, and the hub cannot have it, or cannot be reached and its cache
            here does not hold it.
    """
    name = str(checkpoint)
    if name and Path(name).is_dir():
        return True
    if isinstance(checkpoint, Path) or _HUB_NAME.fullmatch(name) is None:
        raise ConfigError(f"there is no checkpoint {name!r:.300}")
    from huggingface_hub import model_info, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # httpx's or httpx2's

    try:
        model_info(name, timeout=PATIENCE)
    except HfHubHTTPError:  # an answer; transformers says what it means
        return False
    except (OSError, ValueError, HTTPError) as error:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            why = "it is neither a folder nor in the cache of the Hugging Face hub, which cannot be reached"
            raise ConfigError(f"there is no checkpoint {name!r:.300}: {why}") from error
        return True
    return False


def from_checkpoint(checkpoint: str | Path, *loaders: Callable[..., Any]) -> list[Any]:
    """What loaders of transformers (``AutoTokenizer.from_pretrained``) read, or a `ConfigError`."""
    here = is_here(checkpoint)
    try:
        return [loader(checkpoint, local_files_only=here) for loader in loaders]
    except (OSError, ValueError, KeyError) as error:
        config, base = Path(checkpoint) / "adapter_config.json", ""
        if config.is_file():
            name = json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path")
            base = f", an adapter on {name!r},"
        raise ConfigError(f"the checkpoint {str(checkpoint)!r}{base} cannot be loaded: {error}") from error


def load_model(kind: Any, checkpoint: str | Path, device: str | None, dtype: str) -> tuple[Any, Any]:
    """A model of a class of transformers, ready to be used, and its tokenizer; by default on a GPU."""
    with needs("hf", "a checkpoint needs torch and transformers"):
        import torch
        from transformers import AutoTokenizer
    load = partial(kind.from_pretrained, dtype=dtype)
    module, tokenizer = from_checkpoint(checkpoint, load, AutoTokenizer.from_pretrained)
    return module.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval(), tokenizer
