"""What every command has, and how runs are started, watched, continued and compared."""

import io
import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

import pytest
from command_line import call_cli, run_python
from rich.console import Console
from rows import write_rows

import mars_env
from mars_env.cli import _command as command_of
from mars_env.cli import doctor
from mars_env.cli.options import loaded
from mars_env.cli.progress import show_progress
from mars_env.cli.screen import Screen
from mars_env.errors import ConfigError, StoreError
from mars_env.evaluation.counters import Counters
from mars_env.rollout import Store, read_run
from mars_env.text import logger
from mars_env.types import Problem


def test_the_version_help_and_completion_are_there(call):
    assert call("--version") == (f"mars_env {mars_env.__version__}\n", 0)
    assert "evaluate" in call("-h")[0]
    assert "--completions" in call("grade", "-h")[0]
    assert "--install-completion" in call("--help")[0]


def test_a_paragraph_of_the_help_has_no_lines_of_its_own():
    for name in ("audit", "record", "export"):
        assert "\n" not in command_of(name).help.replace("\n\n", "")


SOLVE = ["evaluate", "arithmetic-solve", "--agents", "scripted:4"]
SOLVE_CODE = ["solve", "q", "--env", "solve", "--kind", "code", "--agents", "scripted:4", "--tests"]
GRADE = ["grade", "--problems", "p.jsonl", "--completions", "c.jsonl", "--out", "v.jsonl", "--rubric"]
RECORD = ["record", "--upstream", "http://127.0.0.1:9/v1", "--out", "run", "--problems"]
MISTAKES = [
    (["evalute"], "did you mean 'evaluate'"),
    ([*SOLVE, "--conurrency", 3], "--concurrency"),
    (
        ["train", "arithmetic-solve", "--team.model.solvr", "miniature", "--out", "run"],
        "did you mean 'solver'",
    ),
    (["evaluate", "arithmetic-solve", "--agents", "solvr=scripted:4"], "did you mean 'solver'"),
    (["evaluate", "arithmetic-solve", "--agents", "broken_game:needs_more"], "function of (observation)"),
    *(([*SOLVE, option, 0], option) for option in ("--n", "--limit", "--concurrency")),
    (
        [*SOLVE, "--price", "1,2", "--price", "3,4"],
        "two prices",
    ),
    (["grade", "--problems", "arithmetic", "--completions", "none.jsonl", "--out", "-"], "is endless"),
    ([*RECORD, "arithmetic"], "the set 'arithmetic' is endless"),
    ([*SOLVE_CODE, "none.json"], "none.json cannot be read"),
    ([*GRADE, "none.json"], "none.json cannot be read"),
]


@pytest.mark.parametrize(("given", "message"), MISTAKES)
def test_mistakes_are_named(call, tmp_path, given, message):
    (tmp_path / "broken_game.py").write_text(BROKEN)
    printed, status = call(*given)
    assert status == 2 and message in " ".join(printed.split())
    assert "Traceback" not in printed and "JSON" not in printed


def test_modules_of_the_working_folder_can_be_named(tmp_path):
    (tmp_path / "my_agents.py").write_text("def four(observation):\n    return '4'\n")
    arguments = ["evaluate", "arithmetic-solve", "--agents", "my_agents:four", "--limit", 1, "--json"]
    script = "import sys; sys.path = [p for p in sys.path if p]; from mars_env.__main__ import main; main()"
    paths = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = run_python(script, *arguments, cwd=tmp_path, env={**os.environ, **paths})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["episodes"] == 1


BROKEN = """
from mars_env import ask, game


@game(max_turns=1, roles={"solver": "mars_env.agents:Solver"})
def broken(problem):
    yield ask("solver", problem=problem.nope)


def needs_more(observation, history):
    return "4"
"""


def test_a_game_that_raises_is_shown_with_their_line(call, tmp_path):
    (tmp_path / "broken_game.py").write_text(BROKEN)
    printed, status = call("evaluate", "broken_game:arithmetic-broken", "--agents", "scripted:4")
    assert status == 2 and "(broken_game.py, line 7: yield ask" in " ".join(printed.split())
    assert "Traceback" not in printed and "episodes" not in printed


def test_an_interrupt_at_the_first_moment_prints_no_traceback():
    done = run_python(INTERRUPTED, "envs")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


INTERRUPTED = f"""
import os, signal, sys
from mars_env.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":  # the first thing that the command line imports
            os.kill(os.getpid(), {int(signal.SIGINT)})

sys.meta_path.insert(0, Interrupting())
main()
"""


def test_a_comparison_can_be_read_in_eighty_columns_and_as_json(call):
    for name, text in (("one", "4"), ("two", "5")):
        agents = f"scripted:{text}"
        call("evaluate", "arithmetic-solve", "--agents", agents, "--limit", 3, "--out", name, "--json")
    comparison = mars_env.compare("one", "two")
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(comparison)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    accuracy = next(line for line in lines if "Solver accuracy" in line)
    assert accuracy.count("[") <= 1  # the interval of the difference alone
    assert call("compare", "one", "three")[1] == 2
    printed, _ = call("compare", "one", "two", "--json")
    assert json.loads(printed)["names"] == ["one", "two"]


def test_a_run_grows_moves_and_changes_its_concurrency(call):
    arguments = ["evaluate", "arithmetic-solve", "--agents", "scripted:4", "--out", "run", "--json"]
    call(*arguments, "--limit", 2)
    before = read_run("run").trees
    printed, status = call(*arguments, "--limit", 3, "--n", 2, "--concurrency", 3)
    assert status == 0, printed
    after = read_run("run").trees
    assert [tree.id for tree in after if tree.id in {t.id for t in before}] == [t.id for t in before]
    assert all(tree in after for tree in before)
    assert len(after) == 6
    call(*arguments[:-2], "whole", "--json", "--limit", 3, "--n", 2)
    whole = read_run("whole").trees
    assert [(t.id, [turn.text for turn in t.turns]) for t in whole] == [
        (t.id, [turn.text for turn in t.turns]) for t in after
    ]
    other = ["evaluate", "arithmetic-solve", "--agents", "scripted:5", "--out", "run"]
    assert "another configuration" in " ".join(call(*other)[0].split())


def test_a_grown_run_has_the_same_problems_as_before(tmp_path):
    first, changed = Problem("p", "1 + 1?", "2"), Problem("p", "1 + 2?", "3")
    Store(tmp_path, {}, [first], may_change={"problems_hash": "a"}).close()
    with pytest.raises(StoreError):
        Store(tmp_path, {}, [changed], may_change={"problems_hash": "b"})
    with pytest.raises(StoreError):
        Store(tmp_path, {}, [Problem("q", "?", "1")], may_change={"problems_hash": "c"})
    Store(tmp_path, {}, [first, Problem("q", "?", "1")], may_change={"problems_hash": "d"}).close()
    assert sorted(read_run(tmp_path).problems) == ["p", "q"]


def test_faults_of_one_kind_are_told_once_and_progress_in_lines():
    told, counters = io.StringIO(), Counters(total=3)
    log = logger("mars_env.models.http")
    with show_progress(counters, Screen(file=told, width=200)):
        for number in range(240):
            logger("mars_env.rollout").warning("tree p/%d#0 is discarded: no model %d", number, number)
        log.info("m: attempt 1 of 6 failed: http://a: status 503: busy")
    lines = told.getvalue().splitlines()
    assert lines == [
        "tree p/0#0 is discarded: no model 0",
        "m: attempt 1 of 6 failed: http://a: status 503: busy",
        lines[2],
        "and 239 more like: tree p/0#0 is discarded: no model 0",
    ]
    assert lines[2].startswith("0/3 episodes, 0.0 turns/s")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_that_fails_before_its_first_turn_shows_no_progress(terminal):
    told, counters = io.StringIO(), Counters(total=3, clock=lambda: 0.0)
    screen = Screen(file=told, width=80, force_terminal=terminal)
    with pytest.raises(ConfigError), show_progress(counters, screen, every=0.001):
        time.sleep(0.01)
        raise ConfigError("a wrong setting")
    assert "episodes" not in told.getvalue()


def test_fields_and_streams_stand_for_files(tmp_path):
    write_rows(tmp_path / "own.jsonl", [{"key": "a", "text": "What is 1 + 1?", "solution": "2"}])
    fields = "id=key,problem=text,answer=solution"
    [problem] = loaded(str(tmp_path / "own.jsonl"), fields)
    assert (problem.id, problem.reference) == ("a", "2")
    [problem] = loaded(str(tmp_path / "own.jsonl"), "id=,problem=text,answer=solution")
    assert problem.id == "own/0"
    with pytest.raises(ConfigError):
        loaded(str(tmp_path / "own.jsonl"), "answr=solution")
    with pytest.raises(ConfigError):
        loaded(None, fields)
    arguments = ["--problems", tmp_path / "own.jsonl", "--fields", fields, "--completions", "-", "--out", "-"]
    graded = call_cli("grade", *arguments, input='{"problem_id": "a", "completion": "2"}\n')
    assert json.loads(graded)["verdict"] == "CORRECT"


def test_printed_json_is_json_whatever_its_texts_hold(call, tmp_path):
    statement = "a\x7f\x80\xad\u202e\U0001d4b3"
    row = {"id": "a", "problem": statement, "answer": "4"}
    (tmp_path / "hard.jsonl").write_text(json.dumps(row))
    printed, status = call("problems", "hard.jsonl", "--jsonl")
    assert (status, json.loads(printed.splitlines()[1])["problem"]) == (0, statement)


def test_a_run_that_has_no_tree_yet_is_said_to_have_none(call, tmp_path):
    with Store(tmp_path / "run", {"title": "arithmetic-solve"}, []):
        pass
    for given in (["--env", "arithmetic-solve"], ["--format", "samples", "--role", "solver"]):
        printed, status = call("export", "run", "out.jsonl", *given)
        assert (status, "the run has no " in printed and "yet" in printed) == (2, True)


def test_the_doctor_gives_one_command_for_what_is_missing(monkeypatch, capsys):
    missing = {"wandb", "peft", "ray", "vllm"}
    monkeypatch.setattr(doctor, "installed", lambda package: None if package in missing else "1.0")
    doctor.doctor()
    printed = capsys.readouterr().out
    assert "to add what is missing: pip install 'mars-env[lora,wandb,ray]'\n" in printed
    assert "in separate environments (docs/dependencies.md): vllm\n" in printed and "torch" in printed


def test_the_doctor_knows_every_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].keys() - {"all", "docs", "dev"}
    assert doctor.PARTS.keys() == extras


def test_runs_are_named_by_their_folders_or_their_paths(call, tmp_path, monkeypatch):
    for name in ("first", "second", "one/eval", "two/eval"):
        mars_env.evaluate("arithmetic-solve", agents=lambda o: "4", limit=2, out=name)
    assert "two/eval against one/eval, 2 problems" in call("compare", "one/eval", "two/eval")[0]
    monkeypatch.chdir(tmp_path / "first")
    assert "second against first, 2 problems" in call("compare", ".", "../second")[0]
