import pytest
from chaos import ChaosServer


@pytest.fixture
def chaos():
    server = ChaosServer()
    yield server
    server.kill()
