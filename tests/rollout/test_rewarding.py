import asyncio
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from small_runs import ABOUT
from sums_team import stored
from turns import SAMPLED, turn

from benchmarks.simulator import run_virtual
from mars_env.agents import make_agents
from mars_env.envs import Game, GroupedSettings, grouped, solve, solve_verify_correct
from mars_env.envs.rewards import REWARD_FAULT, REWARD_FAULTS, team_outcome
from mars_env.errors import ModelError, StoreError
from mars_env.evaluation.report import build_report
from mars_env.grading import grader_for
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, collect, read_run, write_run
from mars_env.rollout.rewarding import attach_rewards, grade_run, regrade, reward_run
from mars_env.types import UNKNOWN_LOGPROB, Action, Completion, Grade, Problem, Tree, Verdict

PROBLEM = Problem("p", "2 + 2?", "4")


def recorded(path, *reasons, text=r"\boxed{4}"):
    """A recorded run of one tree: a chain of turns whose completions ended for these reasons."""
    turns = []
    for i, reason in enumerate(reasons):
        completion = replace(SAMPLED, text=text, finish_reason=reason)
        turns.append(
            turn("0" + ".0" * i, None, completion, tree="p#0", info={"number": i, "id": f"answer-{i}"})
        )
    write_run(path, [Tree("p#0", PROBLEM, tuple(turns))], {"title": "recorded"})
    return path


def rewards(path):
    return [turn.reward for turn in read_run(path).trees[0].turns]


@pytest.mark.parametrize("cut", ["context", "content_filter"])
async def test_an_answer_that_the_set_up_cut_off_is_not_graded(tmp_path, cut):
    await grade_run(recorded(tmp_path / "answer", "stop", cut), grader_for("math"))
    assert rewards(tmp_path / "answer") == [None, None]
    await grade_run(recorded(tmp_path / "earlier", cut, "stop"), grader_for("math"))
    assert rewards(tmp_path / "earlier") == [None, 1.0]
    assert read_run(tmp_path / "earlier").trees[0].final == "0.0"


async def test_a_function_gives_no_reward_to_a_turn_that_the_set_up_cut_off(tmp_path):
    run = recorded(tmp_path, "stop", "context", "length")
    assert await reward_run(run, lambda turn, path, problem: len(path) + 7.0) == 3
    assert rewards(tmp_path) == [7.0, None, 9.0]


def test_rewards_are_attached_by_the_ids_of_answers_turns_and_trees(tmp_path):
    run = recorded(tmp_path, "stop", "stop")
    assert attach_rewards(run, {"answer-0": 0.5, "p#0/0.0": -1}) == 2
    assert rewards(run) == [0.5, -1.0]
    assert attach_rewards(run, {"p#0": None}) == 2
    for wrong in ({"nothing": 1.0}, {"answer-0": math.nan}):
        with pytest.raises(StoreError):
            attach_rewards(run, wrong)
    assert rewards(run) == [None, None]


async def test_a_run_that_was_not_recorded_keeps_the_rewards_of_its_game(tmp_path):
    answer = turn("0", 0.25, Completion(r"\boxed{4}"), tree="p#0")
    write_run(tmp_path, [Tree("p#0", PROBLEM, (answer,), final="0")], {"title": "sums-solve"})
    with pytest.raises(StoreError):
        await grade_run(tmp_path, grader_for("math"))
    assert rewards(tmp_path) == [0.25]


PROBLEMS = [Problem(f"p{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(4)]
GAME = Game(solve(), grader_for("math"))
AGENTS = make_agents(ScriptedModel([r"\boxed{4}"]), ["solver_0"])


class Rude(Exception):
    def __str__(self):
        raise ValueError("no words")


def raising(error):
    def fails(*_):
        raise error

    return fails


async def raises_later(*_):
    await asyncio.sleep(0)
    raise TimeoutError("later")


def giving(value):
    return lambda *_: value


FINE = [1, True, 0.25, np.float32(0.5), np.int64(2), np.bool_(True), Fraction(1, 4)]


async def run(game, out=None, agents=AGENTS, problems=PROBLEMS):
    if out is None:
        return await collect(game, agents, list(map(Job, problems)), seed=0)
    trees = [tree async for tree in stored(out, game, agents, map(Job, problems), problems, seed=0)]
    return sorted(trees, key=lambda tree: tree.id)


async def test_a_tree_that_a_fault_has_ended_has_no_team_rewards(tmp_path):
    """Its chains end where the set-up ended them: nobody knows what its turns would have led to."""

    class Gone:
        policy = "gone"

        async def act(self, observation, n, seed):
            raise ModelError("the server is gone")

    game = Game(solve_verify_correct(), grader_for("math"), team_reward=team_outcome)
    players = make_agents(ScriptedModel(["\\boxed{5}"]), game.rules.possible_agents)
    (whole,) = await run(game, agents=players, problems=PROBLEMS[:1])
    assert [turn.reward for turn in whole.turns] == [0.0] * len(whole.turns)
    players["verifier_0"] = Gone()
    (tree,) = await run(game, tmp_path / "run", agents=players, problems=PROBLEMS[:1])
    assert tree.fault and [turn.grade.score for turn in tree.turns] == [0.0]
    assert [turn.reward for turn in tree.turns] == [None]
    assert read_run(tmp_path / "run").trees == (tree,)
    assert [turn.reward for turn in (await regrade(tree, game)).turns] == [None]


@pytest.mark.parametrize(
    ("reward", "why"),
    [
        (raising(RuntimeError("my bug")), f"raised RuntimeError: my bug ({Path(__file__).name}, line "),
        (raises_later, "raised TimeoutError: later"),
        (raising(Rude()), "raised Rude"),
        (raising(StopIteration()), "raised StopIteration"),
        (giving("0.5"), "'0.5'"),
        (giving(math.nan), "nan"),
    ],
)
async def test_a_step_reward_that_fails_is_none_with_its_reason(tmp_path, reward, why):
    trees = await run(replace(GAME, rewards={"solver": reward}), tmp_path / "run")
    for tree in trees:
        (turn,) = tree.turns
        fault = turn.info[REWARD_FAULT]
        assert turn.reward is None and why in fault
        assert turn.grade is not None and not tree.fault  # the turn is kept, its grade stands
    assert read_run(tmp_path / "run").trees == tuple(trees)
    report = build_report(trees, ABOUT)
    assert report.counts.reward_faults == {"solver": {fault: 4}}
    json.loads(report.json_text(), parse_constant=pytest.fail)


FORMS = [None, 1.0, "0", {"9": 1.0}, [("0", 1.0)], {"0": "0.5"}, {"0": math.nan}]


@pytest.mark.parametrize("team", [raises_later, raising(Rude()), *map(giving, FORMS)])
async def test_a_team_reward_that_fails_is_none_for_every_turn_it_rewards(tmp_path, team):
    (tree,) = await run(replace(GAME, team_reward=team), tmp_path / "run", problems=PROBLEMS[:1])
    (turn,) = tree.turns
    assert turn.reward is None
    assert turn.info[REWARD_FAULT].startswith("the team reward")
    assert tree.info[REWARD_FAULTS] == {"0": turn.info[REWARD_FAULT]}
    assert read_run(tmp_path / "run").trees == (tree,)


@pytest.mark.parametrize("value", FINE, ids=repr)
async def test_any_finite_number_is_a_reward_and_stored_as_a_float(tmp_path, value):
    game = replace(GAME, rewards={"solver": giving(value)})
    (tree,) = await run(game, tmp_path / "r", problems=PROBLEMS[:1])
    assert tree.turns[0].reward == float(value) and type(tree.turns[0].reward) is float
    assert read_run(tmp_path / "r").trees == (tree,)


def test_an_async_reward_that_never_answers_does_not_hang_the_run():
    async def waits(turn, path, problem):
        await asyncio.Event().wait()

    game = replace(GAME, rewards={"solver": waits}, grading_timeout=10.0)
    (tree,) = run_virtual(run(game, problems=PROBLEMS[:1]))
    assert "no answer within 10 s" in tree.turns[0].info[REWARD_FAULT]


@pytest.mark.parametrize(
    "grade",
    [
        lambda: Grade(Verdict.WRONG, math.nan),
        lambda: Grade(Verdict.WRONG, "0.5"),
        lambda: Grade("CORRECT", 1.0),
        lambda: Grade.correct(reason=b"bytes"),
        lambda: Grade.correct(seconds=math.nan),
        lambda: Grade.correct(tokens="9"),
        lambda: "CORRECT",
    ],
)
async def test_a_grade_that_is_none_is_unknown(tmp_path, grade):
    class Mine:
        async def grade(self, problem, text):
            return grade()

    (tree,) = await run(replace(GAME, grader=Mine()), tmp_path / "run", problems=PROBLEMS[:1])
    assert tree.turns[0].grade.verdict is Verdict.UNKNOWN and tree.turns[0].reward is None
    assert read_run(tmp_path / "run").trees == (tree,)


@pytest.mark.parametrize(
    "action",
    [
        "a text",
        Action(5),
        Action("4", (Completion("4", token_ids=(1,), logprobs=("x",)),)),
        Action("4", (Completion("4", token_ids=(-1,)),)),
        Action("4", (Completion("4", completion_tokens="9"),)),
        Action("4", ("no completion",)),
        Action("4", (Completion("4", finish_reason="max_tokens"),)),  # whether it was cut off is not known
    ],
    ids=repr,
)
async def test_an_action_that_cannot_be_stored_costs_its_own_tree_only(tmp_path, action):
    class Mine:
        policy = "mine"

        async def act(self, observation, n, seed):
            return [action if "1 + 1" in observation["problem"] else Action("4")] * n

    trees = await run(GAME, tmp_path / "run", agents={"solver_0": Mine()})
    assert [bool(tree.fault) for tree in trees] == [False, True, False, False]
    assert len(read_run(tmp_path / "run").trees) == 4


async def test_log_probabilities_that_no_row_can_hold_cost_nobody_a_turn(tmp_path):
    """Of four samples of one call; such a turn is not trained (tests/trainers/test_scorable.py)."""

    class Mine:
        policy = "mine"

        async def act(self, observation, n, seed):
            values = (math.nan, -math.inf, -0.5, -0.5)
            return [Action("4", (Completion("4", token_ids=(1,), logprobs=(v,)),)) for v in values[:n]]

    game = replace(GAME, grower=grouped(GroupedSettings(group=4)))
    await run(game, tmp_path / "run", agents={"solver_0": Mine()})
    trees = read_run(tmp_path / "run").trees
    assert not any(tree.fault for tree in trees)
    found = [[turn.action.completions[0].logprobs for turn in tree.turns] for tree in trees]
    assert found == [[(UNKNOWN_LOGPROB,), (UNKNOWN_LOGPROB,), (-0.5,), (-0.5,)]] * len(trees)
