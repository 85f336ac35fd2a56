import time

import pytest

from mars_env.agents.endpoint import Endpoint
from mars_env.errors import ConfigError


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


def test_rests_grow_and_end():
    endpoint, rests = Endpoint("http://x/v1"), []
    for _ in range(8):
        before = time.monotonic()
        endpoint.rest()
        rests.append(endpoint.rested_at - before)
    assert rests == sorted(rests) and rests[0] < 1.5 and rests[-1] < 30.5
    endpoint.rest(100.0, reachable=False)
    assert endpoint.rested_at - time.monotonic() > 99 and not endpoint.well
    endpoint.recover()
    assert endpoint.well and endpoint.rested_at == 0
    endpoint.failures, endpoint.busy = 1, 1
    assert not endpoint.well  # one request at a time, until one succeeds
