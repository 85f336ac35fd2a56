import pytest

from mars_env.errors import ConfigError
from mars_env.models.endpoint import Endpoint


def test_addresses_beside_each_other():
    endpoint = Endpoint("http://localhost:8000/v1?token=secret")
    assert str(endpoint.base) == "http://localhost:8000/v1"  # what is shown
    assert str(endpoint.chat) == "http://localhost:8000/v1/chat/completions?token=secret"


@pytest.mark.parametrize(
    "url", ["", "/v1", "localhost:8000", "ftp://x:secret@y/v1", "http://", "http://me:secret@x/v1"]
)
def test_other_addresses_are_refused_without_their_secrets(url):
    with pytest.raises(ConfigError) as refused:
        Endpoint(url)
    assert "secret" not in str(refused.value)
