"""Other weights for the miniature, how far a completion is from transformers, and a Ray."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from mars_env.models.hf import HFModel

PROMPT = "a:288b: - 72<|solve|>"
"""Of the miniature's language."""


def gap(completion, model):
    """The largest difference of a log-probability from transformers, given as a module or as a model."""
    model = model if isinstance(model, HFModel) else HFModel((model, None))
    expected = model.logprobs(completion.prompt_ids, completion.token_ids, completion.temperature)
    return max(abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True))


def shaken(module, seed, size=0.05, endless=False):
    """The module with other weights; an endless one hardly ever ends a completion by itself."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * size)
        if endless:
            module.lm_head.weight[module.config.eos_token_id] = 0
    return module


@contextmanager
def local_ray(cpus, **options):
    """A Ray whose processes import the helpers and the studies; more CPUs than here are: they mostly wait."""
    import ray

    helpers = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        for folder in (helpers, helpers.parents[1]):
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_SCHEDULER_EVENTS", "0")
        ray.init(
            address="local", num_cpus=cpus, include_dashboard=False, object_store_memory=100 * 2**20,
            logging_level="ERROR", **options,
        )  # fmt: skip
        yield
        ray.shutdown()
