"""Real engines with the miniature; `make test-engines` installs vLLM into a separate environment."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import real_model

HERE = Path(__file__).parent
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}<|solve|>"

TOLERANCE = 1e-4
"""The largest difference of a log-probability in float32 between vLLM and transformers (docs/agents.md)."""


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("vllm") is None:
        skip = pytest.mark.skip(reason="vLLM is not installed here: make test-engines")
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(skip)


def wide_miniature():
    """The shipped miniature with heads padded to a size that vLLM's attention for CPUs supports."""
    from mars_env.miniature import load
    from mars_env.models.head_padding import pad_heads

    return pad_heads(load().module, 32).float().eval()


@pytest.fixture(scope="session")
def tolerance():
    return TOLERANCE


@pytest.fixture
def module():
    """A fresh copy for each test, which may change it."""
    return wide_miniature()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """The miniature as a checkpoint for vLLM, with a chat template."""
    from mars_env.miniature import load

    path = tmp_path_factory.mktemp("miniature")
    tokenizer = load().tokenizer
    tokenizer.chat_template = TEMPLATE
    wide_miniature().save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M-Instruct, a real chat model, as a checkpoint in bfloat16."""
    if not real_model.installed():
        pytest.skip(real_model.MISSING)
    return real_model.made()
