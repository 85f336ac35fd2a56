from types import SimpleNamespace

import pytest

import mars_env.models.endpoint as module
from mars_env.errors import ConfigError
from mars_env.models.endpoint import Endpoint


def test_addresses_beside_each_other():
    endpoint = Endpoint("http://localhost:8000/v1?token=secret")
    assert str(endpoint.base) == "http://localhost:8000/v1"  # what is shown
    assert str(endpoint.chat) == "http://localhost:8000/v1/chat/completions?token=secret"
    assert str(endpoint.health) == "http://localhost:8000/health?token=secret"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://", "http://me:secret@x/v1"])
def test_other_addresses_are_refused(url):
    with pytest.raises(ConfigError) as refused:
        Endpoint(url)
    assert "http" in str(refused.value) or "password" in str(refused.value)


def test_rests_grow_and_end(monkeypatch):
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    endpoint, rests = Endpoint("http://x/v1"), []
    for _ in range(8):
        endpoint.rest()
        rests.append(endpoint.rested_at - 1000.0)
    assert rests == [1, 2, 4, 8, 16, 30, 30, 30]
    endpoint.rest(100.0, reachable=False)
    assert endpoint.rested_at == 1100 and not endpoint.well
    endpoint.recover()
    assert endpoint.well and endpoint.rested_at == 0
    endpoint.failures, endpoint.busy = 1, 1
    assert not endpoint.well  # one request at a time, until one succeeds
