"""The command line in this process."""

import pytest
from command_line import invoke


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Calls mars-env in a folder of its own; returns what it prints, and its exit status."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments):
        printed, errors, status = invoke(*arguments)
        return printed + errors, status

    return called
