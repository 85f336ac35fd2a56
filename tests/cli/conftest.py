"""The command line in this process."""

import sys

import pytest

from mars_env import cli


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Calls mars-env in a folder of its own; returns what it prints, and its exit status."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["mars-env", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", [*sys.path])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return printed.out + printed.err, ended.value.code

    return called
