"""The commands of docs/team.md, as they stand, before a small model server."""

import re
import shlex
import subprocess
from pathlib import Path

import openai_server
import pytest
from command_line import command

PAGE = Path(__file__).parents[2] / "docs" / "team.md"
COMMANDS = re.findall(r"^    (mars-env .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def run(tmp_path):
    """Runs a command of the page in an empty folder, at the addresses of this test."""

    def run(line, places, **options):
        for told, here in places.items():
            line = line.replace(told, here)
        arguments = command(*shlex.split(line)[1:])
        return subprocess.run(
            arguments, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True, **options
        )

    return run


def test_the_commands_of_the_page_run(run, tmp_path):
    solve, view, serve, evaluate, play = COMMANDS
    with openai_server.Server() as engine:
        places = {"http://localhost:8000/v1": engine.url}
        assert "tokens in" in run(solve, places).stdout
        assert "report.html" in run(view, {}).stdout
        line = serve.replace("http://localhost:8000/v1", engine.url).replace("--port 8200", "--port 0")
        server = subprocess.Popen(
            command(*shlex.split(line)[1:]), cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        try:
            url = server.stdout.readline().split(" at ")[1].split(";")[0]
            assert "4 problems" in run(evaluate, {"http://127.0.0.1:8200/v1": url}).stdout
        finally:
            server.terminate()
            assert "served: 4 answers" in server.communicate(timeout=30)[0]
        typed = "Fine.\nCorrectness: Correct\n.\n" * 4
        assert "The team's answer is turn 0." in run(play, places, input=typed).stdout
