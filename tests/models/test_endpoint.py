import random
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


@pytest.mark.parametrize(
    "url", ["", "/v1", "localhost:8000", "ftp://x:secret@y/v1", "http://", "http://me:secret@x/v1"]
)
def test_other_addresses_are_refused_without_their_secrets(url):
    with pytest.raises(ConfigError) as refused:
        Endpoint(url)
    assert "secret" not in str(refused.value)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_rests_grow_to_a_bound(clock):
    endpoint, rests = Endpoint("http://x/v1", 0.5, random.Random(1)), []
    for _ in range(5000):
        endpoint.rest("503", clock.now)
        begun = clock.now
        while not endpoint.ready(clock.now):
            clock.now += 0.05
        rests.append(clock.now - begun)
    for i, rest in enumerate(rests):
        mean = min(30.0, 0.5 * 2.0 ** min(i, 20))
        assert 0.5 * mean <= rest <= 1.5 * mean + 0.1
    assert len({round(rest, 1) for rest in rests[10:]}) > 10  # they vary
    again = Endpoint("http://x/v1", 0.5, random.Random(1))
    again.rest("503", clock.now)
    assert again._rested_at - clock.now == pytest.approx(0.5 * random.Random(1).uniform(0.5, 1.5))


def test_requests_under_way_at_a_failure_are_one_failure_with_it(clock):
    endpoint = Endpoint("http://x/v1")
    news = [endpoint.rest("reset", clock.now - 1.0) for _ in range(2000)]
    assert endpoint.failures == sum(news) == 1


def test_a_success_ends_a_rest_but_not_before_the_server_takes_requests(clock):
    endpoint = Endpoint("http://x/v1")
    endpoint.rest("status 500", clock.now)
    endpoint.recover()  # one that was under way
    assert endpoint.ready(clock.now)
    endpoint.rest("status 503", clock.now, taken=False)
    endpoint.recover()
    assert not endpoint.ready(clock.now) and endpoint.ready(clock.now + 1.0)
    endpoint.rest("status 429", clock.now, 20.0, taken=False)
    endpoint.recover()
    assert not endpoint.ready(clock.now + 19.0) and endpoint.ready(clock.now + 20.0)
    endpoint.admit()
    assert endpoint.ready(clock.now)


def test_after_a_failure_one_request_at_a_time(clock):
    endpoint = Endpoint("http://x/v1")
    with endpoint.occupied():  # hangs since before the failure, and keeps none from trying
        endpoint.rest("reset", clock.now)
        clock.now += 1.0
        assert endpoint.ready(clock.now)
        with endpoint.occupied():
            assert not endpoint.ready(clock.now)
            endpoint.recover()
            assert endpoint.ready(clock.now)
    assert (endpoint.busy, endpoint.probes) == (0, 0)
