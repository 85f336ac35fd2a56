"""Whatever text comes to a terminal or a log, none of it steers."""

import io
import json
import logging

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table

import mars_env
from mars_env.cli.screen import Screen, say
from mars_env.errors import ConfigError, MissingExtra
from mars_env.text import logger

HOSTILE = (
    "a\x1b[2J\x1b]0;PWNED\x07\x9b31m\u202eb\u200bc\u2028d\ud800[bold]e[/bold][link=http://evil]f[/link][/x]"
)
STEERS = "\x1b\x07\x9b\u202e\u200b\u2028\ud800"


def clean(text):
    return not [c for c in STEERS if c in text]


def test_a_screen_shows_texts_as_they_are_wherever_they_stand():
    file = io.StringIO()
    screen = Screen(file=file, width=400, color_system=None)
    table = Table("id", title=HOSTILE)
    table.add_row(HOSTILE)
    screen.print(HOSTILE)
    screen.print(table)
    screen.print(f"mars-env: {HOSTILE}", style="red")
    with Progress(TextColumn("{task.description}", markup=False), console=screen) as bar:
        bar.add_task(HOSTILE, total=1)
    shown = file.getvalue()
    assert clean(shown) and shown.count("[bold]e[/bold][link=http://evil]f[/link][/x]") == 4


def test_what_is_said_and_logged_and_raised_is_clean(capsys, caplog):
    say(HOSTILE)
    log = logger("mars_env.test")
    with caplog.at_level(logging.INFO, "mars_env.test"):
        log.info("%s and %r", HOSTILE, HOSTILE)
        try:
            raise KeyError("x") from ValueError(HOSTILE)
        except KeyError:
            log.exception("failed")
    assert clean(capsys.readouterr().out) and clean(caplog.text) and "PWNED" in caplog.text
    for error in (ConfigError(HOSTILE), MissingExtra(HOSTILE)):
        assert clean(str(error)) and "PWNED" in str(error)


def test_human_rendering_is_clean(capsys):
    problem = mars_env.types.Problem("p\x1b[2J", HOSTILE, "4")
    env = mars_env.make("arithmetic-solve", problems=[problem], render_mode="human")
    env.reset(seed=0)
    env.step(HOSTILE)
    shown = capsys.readouterr().out
    assert "PWNED" in shown and clean(shown)


FILES = {
    "id": {"id": HOSTILE, "problem": "x", "answer": "2"},
    "statement": {"id": "p", "problem": HOSTILE, "answer": "2"},
    "key": {"id": "a", "pro\x1b[2Jblem": 1, "answer": "2"},
    "mode": {"id": "a", "mode": HOSTILE, "prompt": "p", "tests": []},
    "surrogate": {"id": "\ud800", "problem": "\udfff", "answer": "2"},
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_problem_files_end_in_a_table_or_one_clean_sentence(call, tmp_path, name):
    (tmp_path / "p.jsonl").write_text(json.dumps(FILES[name]) + "\n")
    shown, status = call("problems", "p.jsonl")
    assert status in (0, 2) and clean(shown) and (status == 2) == shown.startswith("mars-env: ")
