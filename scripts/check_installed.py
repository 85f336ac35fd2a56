"""Checks an installed mars_env as a user meets it first, with its core dependencies alone.

    python scripts/check_installed.py BIN/mars-env

Run it with the interpreter of the environment in which the package is installed, from an empty folder: the
script writes there. `scripts/check_distributions.sh` does so for the wheel.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import mars_env
from mars_env import testing

OPTIONAL = "torch transformers safetensors datasets pyarrow matplotlib tensorboard pytest"
TEAM = {
    "solver_0": lambda observation: r"I guess \boxed{25}.",
    "verifier_0": lambda observation: "Nothing is justified.\nCorrectness: Wrong",
    "corrector_0": lambda observation: r"Having read the report, I guess \boxed{26}.",
}


def command(*arguments):
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"mars-env {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def check_surroundings():
    """Nothing optional is there to lean on, and the wheel brought no package of a common name."""
    for name in (*OPTIONAL.split(), "agents", "trainers", "tests"):
        assert importlib.util.find_spec(name) is None, f"{name} can be imported"


def check_command_line():
    """Every command explains itself; a run is played, shown and exported."""
    from mars_env.cli import _COMMANDS

    printed = command("--help")
    for name in _COMMANDS:
        assert name in printed and "Usage" in command(name, "--help")
    assert {"aime25", "solve-verify-correct"} <= set(command("envs").split())
    assert mars_env.__version__ in command("doctor")
    agents = "scripted:\\boxed{25} Correctness: Wrong"
    evaluate = ("evaluate", "aime-solve-verify-correct", "--limit", "2", "--n", "2", "--out", "run", "--json")
    report = json.loads(command(*evaluate, "--agents", agents))
    assert report["counts"]["episodes"] == 4 and not report["counts"]["unknown"], report["counts"]
    command("view", "run")
    assert "<html" in Path("run/report.html").read_text(encoding="utf-8")
    command("export", "run", "examples.jsonl", "--least", "0")
    assert Path("examples.jsonl").read_text(encoding="utf-8")


def check_grading():
    """Stored answers and stored programs are judged by the command line: in workers, and in a sandbox."""
    problems = [
        {"id": "sum", "problem": "1 + 1?", "answer": "2"},
        {"id": "next", "prompt": "Add 1.", "mode": "stdin", "tests": [{"input": "1", "output": "2"}]},
    ]
    right = {"sum": r"\boxed{2}", "next": "```python\nprint(int(input()) + 1)\n```"}
    wrong = {"sum": r"\boxed{3}", "next": "```python\nprint(int(input()) - 1)\n```"}
    for problem in problems:
        rows = [{"problem_id": problem["id"], "completion": texts[problem["id"]]} for texts in (right, wrong)]
        Path("problems.jsonl").write_text(json.dumps(problem) + "\n")
        Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = ("--problems", "problems.jsonl", "--completions", "answers.jsonl", "--out", "verdicts.jsonl")
        command("grade", *files)
        verdicts = [json.loads(line)["verdict"] for line in Path("verdicts.jsonl").read_text().splitlines()]
        assert verdicts == ["CORRECT", "WRONG"], (problem["id"], verdicts)


def check_library():
    """The README's first example, a report, and the contract suites."""
    env = mars_env.make("aime-solve-verify-correct")
    env.reset(seed=0)
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else TEAM[agent](observation))
    assert env.tree.turns[0].grade.verdict is not mars_env.Verdict.UNKNOWN
    report = mars_env.evaluate("aime-solve-verify-correct", agents=TEAM, limit=2, samples=2, seed=0)
    assert report.counts.episodes == 4

    assert all(getattr(testing, name) for name in testing.__all__)
    testing.check_env(
        lambda **settings: mars_env.make("arithmetic-solve-verify-correct", **settings), cycles=5
    )
    testing.check_game(env.game.rules, env.problems[0], episodes=5)


if __name__ == "__main__":
    check_surroundings()
    check_command_line()
    check_grading()
    check_library()
