from dataclasses import replace

import pytest
from turns import SAMPLED, turn

from mars_env.trainers.advantages import penalise_overlong
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.samples import turn_samples
from mars_env.types import Action, Grade, Group, ToolCall


def test_a_sample_says_what_its_turn_and_completion_say():
    cut = replace(
        SAMPLED, token_ids=(9,), logprobs=(-1.0,), finish_reason="length", versions=((3, 0), (4, 1))
    )
    group = Group("g", (turn("0", 1.0, grade=Grade.correct()), turn("1", 0.0, cut, agent="verifier_0")))
    right, other = turn_samples([group], TrainConfig(advantage="mean_centred"))
    assert (right.tree_id, right.turn_id, right.group_id, right.agent, right.role, right.policy) == (
        "t", "0", "g", "solver_0", "solver", "mars",
    )  # fmt: skip
    assert (right.prompt_ids, right.completion_ids, right.logprobs) == ((1, 2), (3, 4), (-0.5, -0.25))
    assert (right.temperature, right.versions, right.truncated) == (0.85, ((3, 2),), False)
    assert (right.reward, right.score, right.advantage) == (1.0, 1.0, 0.5)
    assert (other.role, other.truncated, other.versions) == ("verifier", True, ((3, 0), (4, 1)))
    assert (other.reward, other.score, other.advantage) == (0.0, None, -0.5)


def test_calls_cost_what_the_settings_say():
    paid = replace(turn("0", 1.0), action=Action("x", (SAMPLED,), (ToolCall(0, "f", "", ""),) * 2))
    groups = [Group("g", (paid, turn("1", 1.0), turn("2", None)))]
    config = TrainConfig(advantage="mean_centred", call_cost=0.1)
    samples = turn_samples(groups, config)
    assert [(s.reward, round(s.advantage, 9)) for s in samples] == [(1.0, -0.1), (1.0, 0.1)]


TOLD = replace(SAMPLED, prompt_ids=(1, 2, 3, 4, 7, 8), token_ids=(5,), logprobs=(-1.0,), versions=((4, 1),))


def test_a_chain_of_completions_is_one_sample():
    cut = replace(TOLD, finish_reason="length")
    sample, _ = turn_samples([Group("g", (turn("0", 1.0, SAMPLED, cut), turn("1", 0.0)))], TrainConfig())
    assert (sample.prompt_ids, sample.completion_ids) == ((1, 2), (3, 4, 7, 8, 5))
    assert sample.completion_mask == (1, 1, 0, 0, 1)
    assert sample.logprobs == (-0.5, -0.25, 0.0, 0.0, -1.0)
    assert (sample.versions, sample.truncated) == (((3, 2), (4, 1)), True)


def test_a_chain_without_its_help_is_one_sample():
    helped = replace(SAMPLED, train_prompt_ids=(2,)), replace(TOLD, train_prompt_ids=(2, 3, 4, 7, 8))
    sample, _ = turn_samples([Group("g", (turn("0", 1.0, *helped), turn("1", 0.0)))], TrainConfig())
    assert (sample.ids, sample.completion_mask) == ((2, 3, 4, 7, 8, 5), (1, 1, 0, 0, 1))
    assert sample.read_prompt_ids == (1, 2)


@pytest.mark.parametrize(
    "second",
    [
        replace(TOLD, prompt_ids=(1, 2, 3, 7, 4, 8)),
        replace(TOLD, temperature=1.0),
        replace(TOLD, train_prompt_ids=(1,)),
        replace(TOLD, prompt_ids=(1, 2, 3)),
    ],
)
def test_completions_that_do_not_continue_are_samples_of_their_own(second):
    samples = turn_samples([Group("g", (turn("0", 1.0, SAMPLED, second), turn("1", 0.0)))], TrainConfig())
    assert [sample.completion_ids for sample in samples] == [(3, 4), (5,), (3, 4)]
    assert all(sample.completion_mask == (1,) * len(sample.completion_ids) for sample in samples)
    assert samples[0].advantage == samples[1].advantage == -samples[2].advantage > 0


def test_the_penalty_of_length_counts_what_a_chain_sampled():
    group = Group("g", (turn("0", 1.0, SAMPLED, TOLD), turn("1", 1.0, SAMPLED)))
    first, second = penalise_overlong([group], max_length=3, buffer=1)[0].turns
    assert (first.reward, second.reward) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("way", "kept"), [("count", ["0", "1", "3", "4", "5", "6", "9"]), ("drop", ["0", "1", "3", "4", "9"])]
)
def test_unknown_turns_and_groups_that_say_nothing_are_left_out_and_order_means_nothing(way, kept):
    groups = [
        Group("b", (turn("3", 1.0), turn("2", None, grade=Grade.unknown("lost")), turn("4", 0.0))),
        Group("equal", (turn("5", 1.0), turn("6", 1.0))),
        Group("alone", (turn("7", 1.0), turn("8", None))),
        Group("a", (turn("1", 0.0), turn("0", 1.0), turn("9", 1.0))),
    ]
    config = TrainConfig(uniform_groups=way)
    samples = turn_samples(groups, config)
    assert [s.turn_id for s in samples] == kept
    assert all(s.advantage == 0 for s in samples if s.group_id == "equal")
    assert turn_samples(groups[::-1], config) == samples


def test_advantages_of_another_estimator_and_policies():
    other = replace(SAMPLED, token_ids=(4, 5))
    groups = [
        Group("a", (turn("1", 1.0, SAMPLED, other), turn("0", 1.0))),
        Group("b", (turn("2", 1.0, policy="helper"), turn("3", 1.0))),
    ]
    advantages = {("t", "0"): 0.5, ("t", "1"): -1.0, ("t", "2"): 2.0}
    policies = ["mars", "helper", "idle"]
    samples = turn_samples(groups, TrainConfig(), advantages=advantages, policies=policies)
    assert [(s.policy, s.turn_id, s.completion_ids, s.advantage) for s in samples] == [
        ("mars", "0", (3, 4), 0.5), ("mars", "1", (3, 4), -1.0), ("mars", "1", (4, 5), -1.0),
        ("helper", "2", (3, 4), 2.0),
    ]  # fmt: skip
    turned = dict(reversed(advantages.items()))
    assert turn_samples(groups[::-1], TrainConfig(), advantages=turned, policies=policies) == samples
