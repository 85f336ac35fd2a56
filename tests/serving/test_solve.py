"""A team answers questions that have no reference: in Python, in the shell, and with a person in it."""

import json

import pytest
from command_line import call_cli, invoke

import mars_env
from mars_env.errors import ConfigError, ModelError, StoreError
from mars_env.rollout import read_run
from mars_env.serving import make_question

TEAM = r"solver=scripted:It is \boxed{4}.,verifier=scripted:Correctness: Correct,corrector=scripted:4"


def test_a_question_is_played_and_nothing_is_graded(tmp_path):
    seen = []
    solution = mars_env.solve("What is 2 + 2?", agents=TEAM, out=tmp_path, on_turn=seen.append)
    assert (solution.answer, solution.confidence, solution.tokens) == ("4", 1.0, 4 + 4 * 3)
    assert [turn.agent for turn in seen] == ["solver_0", *["verifier_0"] * 4]
    assert {(turn.grade, turn.reward) for turn in solution.tree.turns} == {(None, None)}
    [stored] = read_run(tmp_path).trees
    assert stored == solution.tree
    assert mars_env.solve("What is 2 + 2?", agents=TEAM, out=tmp_path).tree.turns == stored.turns
    with pytest.raises(StoreError):
        mars_env.solve("What is 3 + 3?", agents=TEAM, out=tmp_path)


def test_the_confidence_is_the_record_of_the_answer_alone():
    """The first solution is judged wrong; its correction passes once more than it fails."""
    verdicts = iter(["Wrong", "Correct", "Wrong", "Wrong"])
    team = {
        "solver": lambda seen: r"\boxed{5}",
        "verifier": lambda seen: f"Look.\nCorrectness: {next(verdicts)}",
        "corrector": lambda seen: r"\boxed{4}",
    }
    solution = mars_env.solve("2 + 2?", agents=team, rounds=2, accept_after=3)
    assert (solution.answer, solution.confidence) == ("4", 0.5)
    assert solution.grounds == "1 of 2 verdicts accept it"


def test_public_tests_are_shown_and_never_a_grade():
    solution = mars_env.solve(
        "Echo a line.",
        agents=lambda seen: "print(input())",
        env_id="tree-search",
        tests=[{"input": "a", "output": "a"}],
        nodes=1,
    )
    assert (solution.confidence, solution.answer.strip()) == (1.0, "print(input())")
    assert solution.tree.turns[0].grade is None
    two = "```python\ndef f(): return 1\n```\nSo:\n```python\nf()\n```"
    asked = {"entry_point": "f", "tests": ["assert f() == 1"]}
    solution = mars_env.solve("1?", agents=lambda seen: two, env_id="tree-search", tests=asked, nodes=1)
    assert solution.answer == "def f(): return 1\n"
    for unreadable in [{"input": "a"}], "assert f() == 1", "abc", 5:
        with pytest.raises(ConfigError):
            make_question("Echo.", tests=unreadable)


def test_a_team_that_fails_gives_no_answer():
    def lost(seen):
        raise RuntimeError("the model is lost")

    with pytest.raises(ModelError):
        mars_env.solve("2 + 2?", agents=lost)


def test_the_command_answers_and_tells_of_its_turns():
    out = "".join(invoke("solve", "What is 2 + 2?", "--agents", TEAM)[:2])
    assert out.startswith("4\n[confidence 1.00 ") and "verifier_0 (turn 0.0): judges it correct" in out
    answered = call_cli("solve", "-", "--agents", TEAM, "--json", input="2 + 2?")
    assert json.loads(answered)["answer"] == "4"


def test_a_person_plays_a_role():
    def played(*arguments, code=0, **how):
        out, told, status = invoke("play", "arithmetic-solve-verify-correct", *arguments, **how)
        assert status == code, told
        return out + told

    partners = ["--role", "solver", "--agents", "scripted:Correctness: Wrong", "--set", "rounds=1"]
    shown = played(*partners, input="It is\n\\boxed{-1}\n.\n")
    assert "solver_0 (turn 0): WRONG reward 0" in shown and "verifier_0 (turn 0.0): reward 1" in shown
    played(*partners, input="", code=1)
    played("--role", "solver", input="", code=2)  # the other roles have no players
