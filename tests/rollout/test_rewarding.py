import pytest
from messages import raises

from mars_env.errors import StoreError
from mars_env.grading import grader_for
from mars_env.rollout import read_run
from mars_env.rollout.rewarding import grade_run, reward_run
from mars_env.rollout.store import write_run
from mars_env.types import Action, Completion, Problem, Tree, Turn

PROBLEM = Problem("p", "2 + 2?", "4")


def stored(path, *reasons, text=r"\boxed{4}"):
    """A recorded run of one tree: a chain of turns whose completions ended for these reasons."""
    turns = []
    for i, reason in enumerate(reasons):
        name, above = ".".join("0" * (i + 1)), turns[-1].id if turns else None
        action = Action(text, (Completion(text, reason, (1,), (2,), (-0.1,)),))
        turns.append(Turn("p#0", name, above, "g", "solver_0", "m", "p", action, info={"number": i}))
    write_run(path, [Tree("p#0", PROBLEM, tuple(turns))], {"title": "recorded"})
    return path


def rewards(path):
    return [turn.reward for turn in read_run(path).trees[0].turns]


@pytest.mark.parametrize("cut", ["context", "content_filter"])
async def test_an_answer_that_the_set_up_cut_off_is_not_graded(tmp_path, cut):
    await grade_run(stored(tmp_path / "answer", "stop", cut), grader_for("math"))
    assert rewards(tmp_path / "answer") == [None, None]
    await grade_run(stored(tmp_path / "earlier", cut, "stop"), grader_for("math"))
    assert rewards(tmp_path / "earlier") == [None, 1.0]


@pytest.mark.parametrize(("text", "score"), [("Let me think.", 0.0), (r"\boxed{4}", 1.0)])
async def test_an_answer_that_reached_its_own_limit_is_graded(tmp_path, text, score):
    await grade_run(stored(tmp_path, "stop", "length", text=text), grader_for("math"))
    assert rewards(tmp_path) == [score, score]


async def test_a_function_gives_no_reward_to_a_turn_that_the_set_up_cut_off(tmp_path):
    await reward_run(stored(tmp_path, "stop", "context", "length"), lambda turn, path, problem: 7.0)
    assert rewards(tmp_path) == [7.0, None, 7.0]


async def test_a_run_that_was_not_recorded_keeps_the_rewards_of_its_game(tmp_path):
    turn = Turn("p#0", "0", None, "g", "solver_0", "m", "p", Action(r"\boxed{4}"), reward=0.25)
    write_run(tmp_path, [Tree("p#0", PROBLEM, (turn,), final="0")], {"title": "sums-solve"})
    with raises(StoreError):
        await grade_run(tmp_path, grader_for("math"))
    assert rewards(tmp_path) == [0.25]
