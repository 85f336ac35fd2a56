"""The Verifier of solve-verify-correct reads the results of a program's public tests, and of no others."""

import asyncio
from dataclasses import replace
from typing import ClassVar

import pytest
from messages import raises
from pettingzoo.test import api_test

import mars_env
from mars_env.envs import GroupedSettings, RulesSpec, SolveVerifyCorrect, grouped, make_game, registry, spec
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.envs.visibility import public_tests
from mars_env.errors import ConfigError
from mars_env.players import assign_agents
from mars_env.problems.code import code_problem_from_row
from mars_env.rollout import Job, Store, collect, play
from mars_env.testing import check_rules
from mars_env.types import Action, Completion, Grade, Problem, Verdict

ID = "programs-solve-verify-correct"
RIGHT = "```python\ndef f(x):\n    return 2 * x if x < 5 else 0\n```"
SHOWN_ONLY = "```python\ndef f(x):\n    return 2 * x\n```"  # passes the public tests alone
WRONG = "```python\ndef f(x):\n    return x\n```"
DOUBLE = code_problem_from_row(
    {
        "id": "double",
        "prompt": "Return the double of x below 5, and 0 above.",
        "mode": "function_call",
        "fn_name": "f",
        "inputs": [[1], [2], [7], [8]],
        "outputs": [2, 4, 0, 0],
        "public_tests": 2,
    }
)
PASS, FAIL = "Fine.\nCorrectness: Correct", "It is not.\nCorrectness: Wrong"


def private(problem, change):
    """The problem with other private tests."""
    tests = problem.reference["tests"]
    shown = public_tests(problem)
    hidden = [test for test in tests if not test["public"]]
    return replace(problem, reference={**problem.reference, "tests": [*shown, *change(hidden)]})


class Watched:
    """Agents that write the given programs in turn, and what the Verifier saw."""

    def __init__(self, programs=(WRONG, SHOWN_ONLY, RIGHT)):
        self.programs = programs
        self.seen = []

    def write(self, observation):
        return self.programs[min(observation.get("round", 0), len(self.programs) - 1)]

    def verify(self, observation):
        self.seen.append(dict(observation))
        return PASS if observation["feedback"].startswith("All") else FAIL

    def agents(self, game):
        return assign_agents(
            game.rules, {"solver": self.write, "verifier": self.verify, "corrector": self.write}
        )


def game_of(**settings):
    return make_game(spec(ID, **{"public_feedback": True, "schedule": "training", **settings}), kind="code")


def shell():
    return mars_env.make(ID, problems=[DOUBLE], schedule="training", public_feedback=True)


def test_the_verifier_reads_it_in_the_aec_shell():
    env = shell()
    env.reset(seed=0)
    env.step(WRONG)
    seen = env.observe("verifier_0")
    assert env.observation_space("verifier_0").contains(seen)
    assert "Expected: 2" in seen["feedback"] and "Returned: 1" in seen["feedback"]
    assert "feedback" not in env.observe("solver_0") and "feedback" not in env.observe("corrector_0")
    env.step(FAIL)
    assert env.observe("verifier_0")["feedback"] == seen["feedback"]  # still that of the same program
    env.step(SHOWN_ONLY)
    assert env.observe("verifier_0")["feedback"] == "All 2 tests passed."
    assert env.tree.turns[-1].grade.verdict is Verdict.WRONG  # all tests judge it, as ever
    assert all(turn.search_score is None for turn in env.tree.turns)


def test_without_being_asked_for_it_is_not_there():
    env = mars_env.make(ID, problems=[DOUBLE])
    env.reset(seed=0)
    env.step(WRONG)
    assert "feedback" not in env.observe("verifier_0") and env.game.visibility is None
    assert "feedback" not in env.tree.turns[0].info


def test_the_engine_shows_the_same_and_a_resumed_run_too(tmp_path):
    game, watched = game_of(), Watched((WRONG, WRONG, SHOWN_ONLY))
    (tree,) = asyncio.run(collect(game, watched.agents(game), [Job(DOUBLE)], seed=0))
    assert [seen["feedback"].split(".")[0] for seen in watched.seen] == ["0 tests passed"] * 2
    assert [turn.agent[0] for turn in tree.turns] == list("svcvc") and tree.final == tree.turns[-1].id

    again = Watched(watched.programs)
    with Store(tmp_path, {}, [DOUBLE]) as store:
        store.write_turns(tree.turns[:3])
    with Store(tmp_path, {}, [DOUBLE]) as store:
        resumed = asyncio.run(play(game, again.agents(game), Job(DOUBLE), seed=0, journal=store))
    assert again.seen == watched.seen[1:]
    assert [turn.text for turn in resumed.turns] == [turn.text for turn in tree.turns]


@pytest.mark.parametrize("programs", [(WRONG, SHOWN_ONLY), (SHOWN_ONLY,), (RIGHT,)])
def test_private_tests_change_nothing_that_the_verifier_sees(programs):
    game = game_of(schedule="inference", rounds=2, accept_after=2)
    changed = [
        private(DOUBLE, lambda tests: [{**test, "accept": [14, 16]} for test in tests[::-1]]),
        private(DOUBLE, lambda tests: []),
    ]
    found, grades = [], []
    for problem in (DOUBLE, *changed):
        watched = Watched(programs)
        (tree,) = asyncio.run(collect(game, watched.agents(game), [Job(problem)], seed=0))
        found.append((watched.seen, [(t.text, dict(t.info)) for t in tree.turns], tree.final))
        grades.append([turn.grade.verdict for turn in tree.turns if turn.grade])
    assert found[0] == found[1] == found[2]
    assert any(seen["feedback"] for seen in found[0][0])
    assert any(grades[0] != others for others in grades[1:]) or programs == (RIGHT,)


def test_its_grader_never_gets_private_tests_and_its_faults_say_nothing():
    class Recording:
        problems: ClassVar = []

        async def grade(self, problem, text):
            self.problems.append(problem)
            return Grade.unknown("no sandbox could be had", feedback="")

    game = game_of()
    assert game.visibility.grader is not game.grader
    game = replace(game, visibility=replace(game.visibility, grader=Recording()))
    watched = Watched((WRONG,))
    watched.verify = lambda observation: watched.seen.append(observation) or PASS
    (tree,) = asyncio.run(collect(game, watched.agents(game), [Job(DOUBLE)], seed=0))
    assert [seen["feedback"] for seen in watched.seen] == [""]
    assert tree.turns[0].grade.verdict is Verdict.WRONG and tree.turns[1].reward == 0.0
    (shown,) = Recording.problems
    assert [test["arguments"] for test in shown.reference["tests"]] == [[1], [2]]
    assert shown.reference["solutions"] == [] and shown.metadata == {}


def test_every_verifier_of_a_grouped_rollout_reads_its_own_programs_feedback():
    game = game_of()
    game = replace(game, grower=grouped(GroupedSettings(group=4, branches=2, sampling="balanced")))
    watched = Watched()
    variety = iter([WRONG, SHOWN_ONLY, RIGHT, WRONG] * 4)
    watched.write = lambda observation: next(variety)
    asyncio.run(collect(game, watched.agents(game), [Job(DOUBLE)], seed=1))
    assert len(watched.seen) >= 8
    expected = {WRONG: "0 tests passed", SHOWN_ONLY: "All 2 tests passed", RIGHT: "All 2 tests passed"}
    for seen in watched.seen:
        assert seen["feedback"].startswith(expected[seen["solution"]])
    assert {seen["feedback"][:1] for seen in watched.seen} == {"0", "A"}


def test_an_evaluation_says_it_and_its_baselines_play_without():
    def write(observation):
        return Action(RIGHT, (Completion(RIGHT, completion_tokens=9),))

    settings = {"agents": {"solver": write, "corrector": write, "verifier": lambda seen: PASS}, "rounds": 2}
    report = mars_env.evaluate(ID, problems=[DOUBLE], baselines=True, public_feedback=True, **settings)
    assert any("public tests" in note for note in report.notes)
    assert [baseline.name for baseline in report.baselines]
    plain = mars_env.evaluate(ID, problems=[DOUBLE], **settings)
    assert not any("public tests" in note for note in plain.notes)


def test_rules_and_shell_keep_their_contracts():
    check_rules(SolveVerifyCorrect(TRAINING, public_feedback=True), DOUBLE)
    api_test(shell(), num_cycles=6)


def test_what_has_no_public_tests_is_refused():
    hidden = [{**test, "public": False} for test in DOUBLE.reference["tests"]]
    bare = replace(DOUBLE, id="bare", reference={**DOUBLE.reference, "tests": hidden})
    for env_id, settings in (
        ("arithmetic-solve-verify-correct", {}),
        (ID, {"problems": [DOUBLE, bare]}),
        (ID, {"rounds": "many"}),
        (ID, {"public_feedback": "yes"}),
    ):
        with raises(ConfigError):
            mars_env.make(env_id, **{"public_feedback": True, **settings})


def test_own_rules_may_take_feedback(monkeypatch):
    class Noisy(SolveVerifyCorrect):
        """Feedback lets the Verifier be asked no more."""

        def current_agent(self, state):
            return None if state.feedback else super().current_agent(state)

    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))  # registered for this test alone
    name = "told-solve-verify-correct"
    visibility = SolveVerifyCorrect.visibility
    mars_env.register_rules(
        name, RulesSpec(lambda: SolveVerifyCorrect(TRAINING, True), visibility=visibility)
    )
    env = mars_env.make(f"programs-{name}", problems=[DOUBLE])
    env.reset(seed=0)
    env.step(RIGHT)
    assert env.observe("verifier_0")["feedback"] == "All 2 tests passed."
    with raises(AssertionError):
        check_rules(Noisy(TRAINING, True), DOUBLE)


def test_feedback_needs_rules_that_take_it():
    game = make_game(spec("programs-solve"), kind="code")
    with raises(ConfigError):
        replace(game, visibility=game_of().visibility)


def test_a_problem_in_hand_without_public_tests_has_empty_feedback():
    env = shell()
    env.reset(seed=0, options={"problem": Problem("x", "?", {**DOUBLE.reference, "tests": []}, "code")})
    env.step(RIGHT)
    assert env.observe("verifier_0")["feedback"] == ""
