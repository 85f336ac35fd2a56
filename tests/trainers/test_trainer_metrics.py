from dataclasses import replace

from turns import turn

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.trainers.metrics import role_metrics
from mars_env.trainers.samples import given_sample
from mars_env.types import Completion, Group


def test_role_metrics_by_hand():
    cut = Completion("", "length", token_ids=(1, 2, 3))
    counted = Completion("", completion_tokens=5)
    group = Group("g", (turn("0", 1.0, cut), turn("1", None, counted, counted)))
    lone = Group("h", (turn("2", None, Completion(""), agent="verifier_0"),))
    trained = given_sample(replace(cut, prompt_ids=(9,)), "mars")
    assert role_metrics([lone, group], [replace(trained, tree_id="t", turn_id="0")]) == {
        "solver": {"turns": 2.0, "trained": 1.0, "truncated": 0.5, "tokens": 6.5, "reward": 1.0},
        "verifier": {"turns": 1.0, "trained": 0.0, "truncated": 0.0, "tokens": 0.0},
    }


def test_rewards_that_failed_are_counted_by_role():
    failed, left = turn("0", None, info={REWARD_FAULT: "it raised"}), turn("1", 1.0)
    judged = turn("2", None, agent="verifier_0")  # None for another reason
    roles = role_metrics([Group("g", (failed, left, judged))], ())
    assert roles["solver"]["reward_faults"] == 1.0 and "reward_faults" not in roles["verifier"]


def test_prompts_that_fill_the_context_are_counted_apart_from_those_that_leave_little_room():
    empty = Completion("", "context", prompt_ids=(1, 2, 3))
    some = Completion("So", "context", prompt_ids=(1, 2), token_ids=(7,), logprobs=(-0.1,))
    filtered = Completion("", "content_filter", prompt_ids=(1,))
    whole = Completion("So", "stop", prompt_ids=(1,), token_ids=(7,), logprobs=(-0.1,))
    corrector = [
        turn(str(i), None, c, agent="corrector_0")
        for i, c in enumerate((empty, empty, some, filtered, whole))
    ]
    table = role_metrics([Group("g", (*corrector, turn("9", None, whole)))], ())
    assert table["corrector"]["interrupted"] == 4
    assert table["corrector"]["overlong_prompts"] == 2
    assert table["corrector"]["little_room"] == 1
    assert not {"interrupted", "overlong_prompts", "little_room"} & table["solver"].keys()
