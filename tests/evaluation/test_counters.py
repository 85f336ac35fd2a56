import asyncio
import random
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sums_team import sums

from mars_env.envs import Game, solve_verify_correct
from mars_env.errors import ModelError
from mars_env.evaluation.counters import Counters, Share, logged
from mars_env.evaluation.trees import system_right
from mars_env.loggers import Logger
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect
from mars_env.types import Action, Completion, Grade

PROBLEMS = sums(8)


class PartGrader:
    """Cannot grade one problem."""

    async def grade(self, problem, text):
        if problem.id == "sum/2":
            return Grade.unknown("worker 17 was lost")
        return Grade.correct() if text == problem.reference else Grade.wrong("another number")


@dataclass
class Player:
    policy: str = "player"

    async def act(self, observation, n, seed):
        if "7 + 7" in observation["problem"] and "solution" in observation:
            raise ModelError("m: no answer after 6 attempts")
        rng = random.Random(seed)
        if "report" in observation or "solution" not in observation:
            text = str(int(observation["problem"].split()[2]) * 2 + rng.randrange(2))
        else:
            text = f"Hm.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}"
        return [Action(text, (Completion(text, prompt_tokens=10, completion_tokens=5),)) for _ in range(n)]


GAME = Game(solve_verify_correct(schedule="training"), PartGrader())
JOBS = [Job(problem, sample) for sample in range(3) for problem in PROBLEMS]


def played():
    return asyncio.run(collect(GAME, assign_agents(GAME.rules, Player()), JOBS, seed=2))


TREES = played()
TURNS = [turn for tree in TREES for turn in tree.turns]


def totals(snapshot):
    """Everything but times."""
    timed = {"seconds", "turns_per_second", "tokens_per_second", "seconds_left"}
    return {item.name: getattr(snapshot, item.name) for item in fields(snapshot) if item.name not in timed}


@given(st.randoms(use_true_random=False), st.booleans())
def test_counts_do_not_depend_on_the_order_or_on_repetition(rng, repeated):
    """Trees come in any order, some of their turns before them, once or twice."""
    counters = Counters(len(TREES), prices={"player": (1.0, 4.0)}, clock=lambda: 0.0)
    for tree in rng.sample(TREES, len(TREES)):
        for turn in tree.turns:
            if rng.random() < 0.5:
                counters.count_turns([turn] * (1 + repeated))
        counters.count_tree(tree)
    snapshot = counters.snapshot()
    solved = [turn.grade.score for turn in TURNS if turn.role == "solver" and turn.grade.score is not None]
    right = [right for tree in TREES if (right := system_right(tree)) is not None]
    accepts = [turn.accepts for turn in TURNS if turn.accepts is not None]
    assert totals(snapshot) == {
        "episodes": 24,
        "total": 24,
        "turns": len(TURNS),
        "read_tokens": 10 * len(TURNS),
        "sampled_tokens": 5 * len(TURNS),
        "cost": pytest.approx(30 * len(TURNS) / 1e6),
        "accuracy": Share(sum(right), len(right)),
        "correct": snapshot.correct,
        "accepts": {"verifier": Share(sum(accepts), len(accepts))},
        "faults": {reason: 3 for reason in snapshot.faults if "no answer after N attempts" in reason},
        "unknown": {
            "worker N was lost": sum(turn.grade is not None and turn.grade.score is None for turn in TURNS)
        },
    }
    assert len(snapshot.faults) == 1
    assert snapshot.correct["solver"] == Share(sum(solved), len(solved))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_hold_their_share(counts):
    share = Share(*counts)
    low, high = share.interval
    assert 0 <= low <= share.value + 1e-12 and share.value - 1e-12 <= high <= 1 and low < high


async def test_metrics_go_to_a_logger():
    class Log(Logger):
        rows, ended = [], False

        def log(self, step, values):
            self.rows.append((step, dict(values)))

        def close(self):
            self.ended = True

    counters, log = Counters(len(TREES)), Log()
    async with logged(counters, log, every=0.001):
        while len(log.rows) < 2:
            await asyncio.sleep(0.001)
        for tree in TREES:
            counters.count_tree(tree)
    step, values = log.rows[-1]
    assert log.ended and step == values["rollout/turns"] == len(TURNS)
    assert values["rollout/accepts/verifier"] == counters.snapshot().accepts["verifier"].value
    assert all(isinstance(value, float) for value in values.values())


async def test_a_logger_that_fails_costs_no_run(caplog):
    class Failing(Logger):
        def log(self, step, values):
            raise OSError(28, "No space left on device")

        def close(self):
            raise RuntimeError("lost")

    async with logged(Counters(), Failing()):
        pass
    assert "No space left" in caplog.text and "RuntimeError: lost" in caplog.text
