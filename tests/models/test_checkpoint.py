import logging
import os
import sys
from pathlib import Path

import pytest
from command_line import run_python

from mars_env.errors import ConfigError
from mars_env.models.checkpoint import is_here

pytest.importorskip("transformers", reason="checkpoints need transformers: pip install 'mars-env[hf]'")


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """A hub that is out of reach, and an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "httpx", None)  # newer hubs bring httpx2 instead


def test_a_folder_is_here(tmp_path):
    assert is_here(tmp_path) and is_here(str(tmp_path))


@pytest.mark.parametrize("path", ["/no/such/folder", "./checkpoint", "a/b/c", Path("runs/policy"), ""])
def test_a_path_without_a_folder_is_an_error_at_once(path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.model_info", None)
    with pytest.raises(ConfigError):
        is_here(path)


def test_a_name_that_no_hub_can_be_asked_for_is_one_error(tmp_path):
    """The whole way, in a process of its own: the hub's address is read on import."""
    code = "from mars_env.agents import make_agents; make_agents('hf:some/model', ['solver_0'])"
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        environment.pop(name, None)
    ended = run_python(code, env=environment)
    assert ended.returncode == 1 and "Retry" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("mars_env.errors.ConfigError: ")


def test_a_cached_name_is_read_from_the_cache(no_hub, monkeypatch, caplog):
    with pytest.raises(ConfigError):
        is_here("some/model")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda name, file: "/cache/config.json")
    with caplog.at_level(logging.WARNING):
        assert is_here("some/model")
    assert not caplog.records
