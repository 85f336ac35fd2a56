"""Equal-token baselines: the budget is matched from above, and the figures are those counted by hand."""

import itertools
import math
from dataclasses import replace

import pytest

import mars_env
from mars_env.agents import Corrector, Solver, Verifier
from mars_env.errors import ConfigError
from mars_env.evaluation.baselines import (
    checked_attempts,
    majority_vote,
    oracle,
    refinement,
    retries,
    token_budget,
    weighted_vote,
)
from mars_env.models import ScriptedModel
from mars_env.rollout import read_run
from mars_env.types import Completion, Sampling


def answer_of(turn):
    return turn.text


@pytest.fixture
def system(episode):
    """30 tokens a playing on p, 50 on q: a budget of 40."""
    return [episode("p", 0, "S- Vw C+", tokens=10), episode("q", 0, "S+ Vw C+ Vw C+", tokens=10)]


def pool_of(episode, answers, tokens):
    return [
        episode(p, i, f"S{'+' if a == '7' else '-'}", answers=[a], tokens=tokens)
        for p in ("p", "q")
        for i, a in enumerate(answers)
    ]


def test_the_budget_is_the_mean_over_problems(system, episode):
    assert token_budget(system) == 40
    # More samples of one problem do not give it more weight; a fault has no cost.
    more = [*system, episode("p", 1, "S+ Vc C+", tokens=10), episode("p", 2, "S+", tokens=99, fault="lost")]
    assert token_budget(more) == 40
    for nothing in ({"tokens": 0}, {"fault": "lost"}):
        with pytest.raises(ConfigError):
            token_budget([episode("p", 0, "S+", **nothing)])


def test_majority_of_a_larger_pool_is_the_mean_over_subsets(system, episode):
    # Pairs of (7, 3, 4): {7, 3} and {7, 4} tie, {3, 4} loses.
    baseline = majority_vote(system, pool_of(episode, ["7", "3", "4"], tokens=20), answer_of)
    assert baseline.detail == "2 votes"
    assert baseline.accuracy.value == pytest.approx(1 / 3)
    assert baseline.system_minus.value == pytest.approx(2 / 3)


def test_a_pool_that_is_too_small_is_refused_with_the_number_it_takes(system, episode):
    with pytest.raises(ConfigError):
        majority_vote(system, pool_of(episode, ["7", "7"], tokens=10), answer_of)


def test_other_problems_are_refused_but_more_problems_are_not(system, episode):
    pool = pool_of(episode, ["7"] * 4, tokens=10)
    with pytest.raises(ConfigError):
        majority_vote(system, pool[:4], answer_of)
    with pytest.raises(ConfigError):
        changed = [replace(t, problem=replace(t.problem, reference="8")) for t in pool]
        majority_vote(system, changed, answer_of)
    more = [*pool, episode("r", 0, "S-", tokens=1000)]
    assert majority_vote(system, more, answer_of) == majority_vote(system, pool, answer_of)


def test_refinement_takes_the_least_turns_that_reach_the_budget(system, episode):
    refined = [
        episode("p", 0, "S- S- S+ S- S+", tokens=15),
        episode("q", 0, "S+ S+ S- S+ S+", tokens=[10, 15, 15, 15, 15]),
    ]
    baseline = refinement(system, refined)
    assert baseline.detail == "3 turns"  # 12.5, 27.5, 42.5
    assert baseline.tokens == pytest.approx(42.5)
    assert baseline.accuracy.value == 0.5  # p right at its third turn, q wrong
    assert baseline.system_minus.value == 0.5 and not baseline.short


@pytest.fixture
def team(episode):
    """Two problems, each played once at 60 tokens."""
    return [episode(p, 0, "S- Vw C+ Vc", tokens=15) for p in ("p", "q")]


@pytest.fixture
def pool(episode):
    """Four attempts a problem, each of 20 tokens with its verdict."""
    return [
        episode("p", i, script, answers=[text])
        for i, (script, text) in enumerate([("S+ Vc", "4"), ("S- Vw", "5"), ("S- Vw", "5"), ("S- Vw", "5")])
    ] + [
        episode("q", i, script, answers=[text])
        for i, (script, text) in enumerate([("S- Vc", "8"), ("S+ Vw", "7"), ("S+ Vw", "7"), ("S+ Vw", "7")])
    ]


def test_accepted_attempts_decide_a_weighted_vote(team, pool):
    """60 tokens buy three attempts of 20. One of four is accepted: three of the four subsets hold it."""
    vote = weighted_vote(team, pool, answer_of)
    assert vote.detail == "3 votes" and vote.tokens == 60
    assert vote.accuracy.value == pytest.approx((3 / 4 + 1 / 4) / 2)
    assert vote.system_minus.value == pytest.approx(0.5)


def test_retries_end_when_the_verifier_accepts(team, pool):
    """At most four of 20 tokens: the one that is accepted comes, on average, after 1.5 others."""
    found = retries(team, pool)
    assert found.detail == "up to 4 tries" and found.short and found.tokens == pytest.approx(50)
    assert found.accuracy.value == pytest.approx(0.5)  # p always right, q never


def test_retries_are_exact_over_all_orders(team, pool):
    """The formula against every order of the pool, one by one."""
    from mars_env.evaluation.baselines import _retried

    samples = checked_attempts(pool, answer_of)["p"]
    samples = [replace(each, tokens=10 * i) for i, each in enumerate(samples, 1)]
    for most in range(1, 5):
        results = []
        for order in itertools.permutations(samples):
            tried = list(order[:most])
            stop = next((i for i, each in enumerate(tried) if each.accepted), most - 1)
            results.append((tried[stop].right, sum(each.tokens for each in tried[: stop + 1])))
        right, tokens = (sum(column) / len(results) for column in zip(*results, strict=True))
        assert _retried(samples, most) == pytest.approx((right, tokens))


def test_the_oracle_is_pass_at_k(team, pool):
    """60 tokens buy six attempts of 10, so a pool of four is too small; three are enough for 30."""
    with pytest.raises(ConfigError):
        oracle(team, pool)
    with pytest.raises(ConfigError):
        oracle(team, [replace(tree, turns=()) for tree in pool])
    cheap = [replace(tree, turns=tree.turns[:2], final="0") for tree in team]
    assert oracle(cheap, pool).detail == "3 samples"
    assert oracle(cheap, pool).accuracy.value == pytest.approx((3 / 4 + 1) / 2)


class Slow:
    """Needs forty tokens for an answer, and is cut off before if its limit is lower."""

    name = "slow"

    async def complete(self, prompt, n, sampling):
        cut = sampling.max_tokens < 40
        text, reason = ("so far", "length") if cut else (r"\boxed{5}", "stop")
        tokens = min(40, sampling.max_tokens)
        return [Completion(text, reason, prompt_tokens=5, completion_tokens=tokens)] * n


def test_going_on_has_the_systems_tokens_as_its_limit(tmp_path):
    short = Sampling(max_tokens=10)
    agents = {
        "solver": Solver(Slow(), sampling=short),
        "verifier": Verifier(ScriptedModel(["Correctness: Wrong"])),
        "corrector": Corrector(Slow(), sampling=short),
    }
    settings = {"limit": 2, "rounds": 5, "baselines": True, "out": tmp_path}
    report = mars_env.evaluate("arithmetic-solve-verify-correct", agents=agents, **settings)
    found = {baseline.name: baseline for baseline in report.baselines}
    tokens = math.ceil(report.metrics["tokens"].estimate.value)
    written = found["Single agent, going on writing"]
    assert tokens >= 40 and written.detail == f"1 sample, {tokens} tokens" and written.tokens == 40
    for tree in read_run(tmp_path / f"baseline-go-on-{tokens}").trees:
        assert not tree.turns[0].action.truncated
    for tree in read_run(tmp_path / "baseline-verified").trees:  # played with the team's own limits
        assert [turn.role for turn in tree.turns] == ["solver", "verifier"]
        assert tree.turns[0].action.truncated
