"""Verdicts of judges that work, fail, answer late or answer rubbish."""

import asyncio
import json
import re
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mars_env
from benchmarks.simulator import run_virtual
from mars_env.agents import Solver
from mars_env.envs import Game, solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.errors import ConfigError, ModelError
from mars_env.grading.rubrics import Criterion, Rubric, RubricGrader, Tier, Veto, WeightedSum
from mars_env.grading.rubrics.judging import read_verdict
from mars_env.models import ScriptedModel
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect
from mars_env.rollout.contexts import require_room
from mars_env.rollout.records import turn_from_row, turn_to_row
from mars_env.types import Completion, Problem, Sampling, Verdict

YES, NO = '{"explanation": "e", "met": true}', '{"explanation": "e", "met": false}'
RUBRIC = Rubric.from_rows(
    [{"text": "It is right.", "points": 3}, {"text": "It flatters the reader.", "points": -1}]
)
PROBLEM = Problem("p", "What is 2 + 2?", None, "open")


class Judge:
    """Answers by criterion; an answer may be an exception or a number of seconds to wait."""

    name = "judge"

    def __init__(self, right=(YES,), flatters=(NO,)):
        self.answers = {"It is right.": list(right), "It flatters the reader.": list(flatters)}
        self.asked = []

    async def complete(self, prompt, n, sampling):
        self.asked.append(prompt)
        criterion = re.findall(r"The criterion:\n(.*)", prompt[-1]["content"])[-1]
        answers = self.answers[criterion]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            await asyncio.sleep(answer)
        return [answer if isinstance(answer, Completion) else Completion(str(answer), completion_tokens=7)]


async def graded(judge, text="4", **settings):
    return await RubricGrader(judge, RUBRIC, **settings).grade(PROBLEM, text)


async def test_the_score_is_cut_to_what_a_score_may_be_and_the_value_is_kept():
    both = await graded(Judge())
    assert (both.verdict, both.score, both.tokens) == (Verdict.CORRECT, 1.0, 14)
    bad = await graded(Judge([NO], [YES]))
    assert (bad.verdict, bad.score) == (Verdict.WRONG, 0.0)
    assert bad.details["value"] == pytest.approx(-1 / 3)
    assert bad.details["fractions"] == {"c1": 0.0, "c2": 1.0} and bad.feedback == ""
    assert bad.reason == "the value is -0.333: 2 of 2 criteria failed"  # infos show it: nothing of the rubric


FAULTS = {
    "an error": ModelError("the server is gone"),
    "no answer in time": 60,
    "rubbish": "I think so, yes.",
    "two verdicts": f"{YES}\n{NO}",
    "a key twice": '{"met": true, "met": false}',
    "a text for a truth": '{"met": "true"}',
    "no verdict": '{"explanation": "e"}',
    "thousands of brackets": "[" * 100_000,
    "cut off by the context": Completion(YES, "context"),
    "cut off in thought": "<think>It is met. " + YES,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_judge_that_fails_never_moves_a_reward(fault):
    """Neither on a criterion with points, nor on one with a penalty, which "not met" would spare."""
    for judge in (Judge(right=[fault]), Judge(flatters=[fault])):
        grade = run_virtual(graded(judge, timeout=30.0))
        assert (grade.verdict, grade.score) == (Verdict.UNKNOWN, None)
        assert None in grade.details["fractions"].values()
        assert "1 of 2 criteria are UNKNOWN" in grade.reason


@pytest.mark.parametrize("capacity", [1, 3, None])
def test_a_judge_gets_as_many_requests_as_it_has_places_so_that_waiting_is_no_lateness(capacity):
    class Slow:
        now = most = 0

        async def complete(self, prompt, n, sampling):
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(5):
                await asyncio.sleep(0)
            self.now -= 1
            return [Completion(YES)]

    judge = Slow()
    judge.capacity = capacity
    grader = RubricGrader(judge, Rubric.from_rows([{"text": f"It says {i}."} for i in range(8)]))
    problem = Problem("p", "What is 2 + 2?", None, "open")
    for _ in range(2):  # event loops
        assert asyncio.run(grader.grade(problem, "4")).score == 1.0
    assert judge.most == (capacity or 8)


SEVENS = "7" * 20


class Choosy(Judge):
    """Works as it should, but fails on responses with many sevens."""

    def __init__(self, fault, **answers):
        super().__init__(**answers)
        self.fault = fault

    async def complete(self, prompt, n, sampling):
        found = await super().complete(prompt, n, sampling)
        if SEVENS not in prompt[-1]["content"]:
            return found
        if isinstance(self.fault, Exception):
            raise self.fault
        return [Completion(self.fault) if isinstance(self.fault, str) else self.fault]


OWN_FAULTS = {name: fault for name, fault in FAULTS.items() if name != "no answer in time"}


@pytest.mark.parametrize("fault", OWN_FAULTS.values(), ids=OWN_FAULTS)
async def test_a_response_that_makes_a_working_judge_fail_gets_the_worst(fault):
    """On no criterion could it have earned less, so that it is no way out of a penalty."""
    grade = await graded(Choosy(fault), "7" * 33_000)
    assert (grade.verdict, grade.score) == (Verdict.WRONG, 0.0)
    assert grade.details["fractions"] == {"c1": 0.0, "c2": 1.0}
    assert (await graded(Choosy(fault), "8")).score == 1.0


@given(
    st.lists(st.sampled_from([SEVENS, "8", ""]), min_size=1, max_size=6),
    st.sampled_from([*OWN_FAULTS.values()]),
)
async def test_a_response_that_makes_its_judge_fail_changes_no_other_grade(texts, fault):
    grader = RubricGrader(Choosy(fault), RUBRIC)
    grades = await asyncio.gather(*(grader.grade(PROBLEM, text) for text in texts))
    assert [grade.score for grade in grades] == [0.0 if text == SEVENS else 1.0 for text in texts]


async def test_a_check_that_a_response_breaks_gives_the_worst():
    rubric = Rubric.from_rows([{"text": "a", "check": {"short": 1}}, {"text": "b", "points": -1}])
    checks = {"short": lambda problem, text, value: 1 / (5 - len(text))}
    grader = RubricGrader(ScriptedModel([NO]), rubric, checks=checks)
    assert (await grader.grade(PROBLEM, "x" * 5)).score == 0.0


@pytest.mark.parametrize(("context", "fits"), [(None, True), (1000, True), (150, False), (149, False)])
async def test_the_judges_room_is_checked_before_a_run(context, fits):
    judge = Judge()
    judge.context = context
    for others in ({}, {"judge": None, "evaluation_judge": judge}):
        grader = RubricGrader(
            **{"judge": judge, "rubric": RUBRIC, "sampling": Sampling(max_tokens=51), **others}
        )
        game, agents = Game(solve(), grader), {"solver_0": Solver(ScriptedModel(["4"]), sampling=LIMIT)}
        with nullcontext() if fits else pytest.raises(ConfigError):
            await require_room(game.rules, agents, [PROBLEM], game.grader)
        if not fits:
            shorter = RubricGrader(**{**vars(grader), "most_characters": 60})
            await require_room(game.rules, agents, [PROBLEM], shorter)


LIMIT = Sampling(max_tokens=100)


async def test_a_check_that_fails_is_unknown_too():
    async def gone(problem, text, value):
        raise OSError("the disk is full")

    rubric = Rubric.from_rows([{"text": "a", "check": {"gone": 1}}])
    for checks in ({"gone": gone}, {}, {"gone": lambda *_: None}, {"gone": lambda *_: 7}):
        grade = await RubricGrader(rubric=rubric, checks=checks).grade(PROBLEM, "4")
        assert grade.verdict is Verdict.UNKNOWN, checks
    fine = await RubricGrader(rubric=rubric, checks={"gone": lambda *_: 0.5}).grade(PROBLEM, "4")
    assert fine.score == 0.5


async def test_an_unreadable_answer_is_asked_for_again_and_a_fault_is_not():
    judge = Judge(right=["Hm.", "```json\n" + YES + "\n```"])
    assert (await graded(judge)).score == 1.0
    assert (await graded(Judge(right=["Hm.", "Hm.", YES]), tries=1)).verdict is Verdict.UNKNOWN
    assert (await graded(Judge(right=[ModelError("gone")] * 2 + [YES]))).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("votes", "decided"),
    [
        ([YES, YES, NO], 1.0),
        ([NO, YES, NO], 0.0),
        ([YES, "rubbish", YES], 1.0),
        ([YES, "rubbish", NO], 0.0),  # the last answer is that of the control and of all further requests
        ([YES, "rubbish", ModelError("gone")], None),
        ([YES, YES, NO, "rubbish", "rubbish"], None),
        ([YES, NO, NO, "rubbish", "rubbish"], None),
        ([YES, YES, NO, YES, "rubbish"], 1.0),
    ],
)
async def test_repeats_need_more_than_half(votes, decided):
    grade = await graded(Judge(right=votes), repeats=len(votes), tries=1)
    assert grade.details["fractions"]["c1"] == decided
    assert len(grade.details["votes"]["c1"]) == len(votes)


LEVELS = Rubric(
    (Criterion("c", "How much is proved?", 2, (Tier(0, "none"), Tier(0.4, "some"), Tier(1, "all"))),)
)


async def test_tiers_need_more_than_half_and_take_the_median():
    for votes, decided in (([0, 1, 2, None, None], 0.4), ([2, 1, None, None, None], None)):
        texts = ["rubbish" if vote is None else f'{{"explanation": "e", "tier": {vote}}}' for vote in votes]
        judge = Judge()
        judge.answers = {"How much is proved?": texts}
        grade = await RubricGrader(judge, LEVELS, repeats=5, tries=1).grade(PROBLEM, "4")
        assert grade.details["fractions"]["c"] == decided


async def test_an_overlong_response_gets_the_worst_and_costs_no_judgement():
    judge = Judge()
    grade = await graded(judge, "x" * 101, most_characters=100)
    assert (grade.verdict, grade.details["value"]) == (Verdict.WRONG, pytest.approx(-1 / 3))
    assert not judge.asked


async def test_thinking_is_not_judged():
    judge = Judge()
    await graded(judge, "<think>Is it 5?</think>4")
    assert "Is it 5?" not in judge.asked[0][-1]["content"]
    assert (await graded(judge, "<think>Is it")).details["value"] == pytest.approx(-1 / 3)
    assert len(judge.asked) == 2


def test_evaluate_uses_the_judge_of_evaluations_and_names_it():
    training, other = ScriptedModel([YES], name="one"), ScriptedModel([NO], name="other")
    rubric = Rubric.from_rows([{"text": "It is right."}])
    report = mars_env.evaluate(
        "aime-solve",
        problems=[PROBLEM],
        agents=lambda seen: "4",
        grader=RubricGrader(training, rubric, evaluation_judge=other),
    )
    assert report.metrics["system_accuracy"].estimate.value == 0.0
    assert "rubric by other" in report.markdown()
    assert RubricGrader(training, RUBRIC).for_evaluation().name == "rubric by one"


async def test_a_stage_judges_its_own_criteria_and_the_reward_too():
    rows = [{"text": "It is right.", "tags": ["hard"]}, {"text": "It flatters the reader.", "tags": ["soft"]}]
    problem = Problem("p", "?", None, "open", {"rubric": rows})
    judge = Judge()
    grade = await RubricGrader(judge, tags=("hard",)).grade(problem, "4")
    assert len(judge.asked) == 1 and grade.score == 1.0


async def test_stored_verdicts_can_be_aggregated_again():
    grader = RubricGrader(Judge(flatters=[YES]), RUBRIC)
    game = Game(solve(), grader, rewards={"solver": RubricReward(rubric=RUBRIC)})
    agents = assign_agents(game.rules, lambda seen: "Great question! 4")
    [tree] = await collect(game, agents, [Job(PROBLEM)], seed=0)
    turn = turn_from_row(json.loads(json.dumps(turn_to_row(tree.turns[0]))))
    assert turn == tree.turns[0] and turn.reward == pytest.approx(2 / 3)
    again = RubricReward(Veto(WeightedSum(), ("c2",)), RUBRIC)
    assert again(turn, (), PROBLEM) == 0.0


async def test_tiers_are_levels_with_values():
    grader = RubricGrader(ScriptedModel(['{"explanation": "e", "tier": 1}']), LEVELS)
    assert (await grader.grade(PROBLEM, "4")).score == pytest.approx(0.4)
    for bad in ('{"tier": 3}', '{"tier": -1}', '{"tier": true}', '{"tier": 1.0}', '{"met": true}'):
        assert read_verdict(LEVELS.criteria[0], bad) is None
