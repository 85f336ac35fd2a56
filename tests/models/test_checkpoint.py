"""Where a checkpoint is read from: a folder, the hub's cache, and only then the hub."""

from pathlib import Path

import pytest

from mars_env.errors import ConfigError
from mars_env.models.checkpoint import from_checkpoint


class Loader:
    """Reads names that are in the cache, or on the hub."""

    def __init__(self, cached=(), hub=()):
        self.cached, self.hub, self.calls = cached, hub, []

    def __call__(self, name, local_files_only=False):
        self.calls.append(local_files_only)
        if name in self.cached or (name in self.hub and not local_files_only):
            return f"<{name}>"
        raise OSError("it is not there")


@pytest.mark.parametrize("path", ["/no/such/folder", "./checkpoint", "a/b/c", Path("runs/policy"), ""])
def test_a_path_without_a_folder_is_an_error_at_once(path):
    loader = Loader()
    with pytest.raises(ConfigError):
        from_checkpoint(path, loader)
    assert not loader.calls


@pytest.fixture
def hub_answers(monkeypatch):
    monkeypatch.setattr("mars_env.models.checkpoint.hub_answers", lambda: True)


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    loader = Loader(hub=["some/model"])
    with pytest.raises(ConfigError):
        from_checkpoint("some/model", loader)
    assert loader.calls == [True]


@pytest.mark.usefixtures("hub_answers")
def test_the_hub_is_asked_last(tmp_path):
    cached, hub = Loader(cached=["some/model"]), Loader(hub=["some/model"])
    assert from_checkpoint("some/model", cached, cached) == ["<some/model>"] * 2
    assert from_checkpoint("some/model", hub) == ["<some/model>"]
    assert (cached.calls, hub.calls) == ([True, True], [True, False])
    folder = Loader()
    for name, loader, calls in (("some/model", Loader(), [True, False]), (tmp_path, folder, [True])):
        with pytest.raises(ConfigError):
            from_checkpoint(name, loader)
        assert loader.calls == calls
