"""What every command has, and how runs are started and continued."""

import json
import os
import signal
import sys

import pytest
from command_line import call_cli, run_python
from rows import write_rows

from mars_env.cli import doctor
from mars_env.cli.options import loaded
from mars_env.errors import ConfigError
from mars_env.rollout import read_run

SOLVE = ["evaluate", "arithmetic-solve", "--agents", "scripted:4"]
SOLVE_CODE = ["solve", "q", "--env", "solve", "--kind", "code", "--agents", "scripted:4", "--tests"]
MISTAKES = [
    (["evalute"], "did you mean 'evaluate'"),
    ([*SOLVE, "--conurrency", 3], "--concurrency"),
    (["evaluate", "arithmetic-solve", "--agents", "solvr=scripted:4"], "did you mean 'solver'"),
    (["evaluate", "arithmetic-solve", "--agents", "broken_game:needs_more"], "function of (observation)"),
    *(([*SOLVE, option, 0], option) for option in ("--n", "--limit", "--concurrency")),
    (["grade", "--problems", "arithmetic", "--completions", "none.jsonl", "--out", "-"], "is endless"),
    ([*SOLVE_CODE, "none.json"], "none.json cannot be read"),
    (
        ["evaluate", "broken_game:arithmetic-broken", "--agents", "scripted:4"],
        "(broken_game.py, line 7:",
    ),
]


@pytest.mark.parametrize(("given", "message"), MISTAKES)
def test_mistakes_are_named(call, tmp_path, given, message):
    (tmp_path / "broken_game.py").write_text(BROKEN)
    printed, status = call(*given)
    assert status == 2 and message in " ".join(printed.split())
    assert not any(word in printed for word in ("Traceback", "JSON", "episodes"))


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


def test_fields_and_streams_stand_for_files(tmp_path):
    row = {"key": "a", "text": "What is 1 + 1?", "solution": "2"}
    write_rows(tmp_path / "own.jsonl", [row])
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
    arguments = ["--agents", "scripted:2", "--problems", "-", "--fields", fields, "--json"]
    report = json.loads(call_cli("evaluate", "arithmetic-solve", *arguments, input=json.dumps(row)))
    assert report["counts"]["problems"] == 1
    call_cli("grade", "--problems", "-", "--completions", "-", "--out", "-", code=2)


def test_the_doctor_gives_one_command_for_what_is_missing(monkeypatch, capsys):
    missing = {"wandb", "peft", "ray", "vllm"}
    monkeypatch.setattr(doctor, "installed", lambda package: None if package in missing else "1.0")
    doctor.doctor()
    printed = capsys.readouterr().out
    assert "to add what is missing: pip install 'mars-env[lora,wandb,ray]'\n" in printed
    assert "in separate environments (docs/dependencies.md): vllm\n" in printed and "torch" in printed
