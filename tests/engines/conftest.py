"""Real engines with the miniature; `make test-engines` installs vLLM into a separate environment."""

import importlib.util
from contextlib import ExitStack
from pathlib import Path

import openrlhf_on_cpu
import pytest
import real_model
from vllm_server import Server

HERE = Path(__file__).parent
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}<|solve|>"

TOLERANCE = 1e-4
"""The largest difference of a log-probability in float32 between vLLM and transformers (docs/agents.md)."""


def pytest_collection_modifyitems(items):
    if all(map(importlib.util.find_spec, ("vllm", "ray", "openrlhf"))):
        return
    skip = pytest.mark.skip(reason="vLLM, Ray or OpenRLHF is not installed here: make test-engines")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)


def wide_miniature():
    """The shipped miniature with heads padded to a size that vLLM's attention for CPUs supports."""
    from mars_env.miniature import load
    from studies.common.head_padding import pad_heads

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


@pytest.fixture(scope="module")
def shim():
    """OpenRLHF can be imported: it imports flash-attn whether it is used or not, and here is a stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(openrlhf_on_cpu.SHIM)
        patch.setenv("DS_ACCELERATOR", "cpu")
        yield


@pytest.fixture(scope="session")
def streaming(checkpoint):
    """An asynchronous vLLM in this process, for all tests of test_vllm_*.py: they come last."""
    from mars_env.models.vllm import VLLMModel

    with VLLMModel(checkpoint, eager=True, name="streaming") as model:
        yield model


@pytest.fixture(scope="session")
def offline(checkpoint):
    """The same with the offline engine, which takes adapters."""
    from mars_env.models.vllm import VLLMModel

    with VLLMModel(checkpoint, engine="offline", eager=True, max_lora_rank=8, name="offline") as model:
        yield model


@pytest.fixture(params=["streaming", "offline"])
def model(request, module):
    """Either engine, with the checkpoint's weights."""
    model = request.getfixturevalue(request.param)
    model.refresh(module, version=0)
    return model


@pytest.fixture(scope="session")
def servers(checkpoint, tmp_path_factory):
    """Two replicas of vLLM's server."""
    logs = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        started = [stack.enter_context(Server(checkpoint, logs / f"{i}.log")) for i in range(2)]
        for server in started:
            server.wait()
        yield started


@pytest.fixture(scope="session")
def cluster():
    """A Ray with eight pretended GPUs for the runs of OpenRLHF: the environment of their processes."""
    with openrlhf_on_cpu.ray_on_cpus(8) as environment:
        yield environment
