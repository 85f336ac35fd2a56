import asyncio
from dataclasses import replace

import pytest
from messages import raises

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.agent_file.rows import SharedCalls, training_rows
from mars_env.trainers.samples import TurnSample

SAMPLE = TurnSample(
    "p#0", "0", "g", "solver_0", "solver", "actor",
    (1, 2), (3, 4), (-0.5, -1.0), 0.85, (), True, 1.0, 1.0, 0.75,
)  # fmt: skip


async def test_calls_of_one_gather_share_in_their_order_and_others_do_not():
    calls, made = SharedCalls(), []

    async def make(name, n):
        made.append((name, n))
        await asyncio.sleep(0.01)
        return [f"{name}{i}" for i in range(n)]

    def group(name, n):
        return asyncio.gather(*(calls.share(name, lambda k: make(name, k)) for _ in range(n)))

    assert await asyncio.gather(group("a", 3), group("b", 2)) == [["a0", "a1", "a2"], ["b0", "b1"]]
    assert made == [("a", 3), ("b", 2)]
    assert await group("a", 2) == ["a0", "a1"]


async def test_a_second_group_of_a_key_may_begin_while_the_first_plays():
    calls = SharedCalls()
    going_on = asyncio.Event()

    async def make(n):
        await going_on.wait()
        return list(range(n))

    first = asyncio.gather(*(calls.share("key", make) for _ in range(3)))
    await asyncio.sleep(0.01)
    second = asyncio.gather(*(calls.share("key", make) for _ in range(2)))
    await asyncio.sleep(0.01)
    going_on.set()
    assert (await first, await second) == ([0, 1, 2], [0, 1])


async def test_a_failure_reaches_all_calls():
    calls = SharedCalls()

    async def fail(n):
        raise RuntimeError("lost")

    results = await asyncio.gather(*(calls.share("key", fail) for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in results] == ["lost"] * 3
    with raises(ConfigError):
        await asyncio.gather(*(calls.share("key", lambda n: _one()) for _ in range(2)))


async def _one():
    return ["only"]


def test_rows_carry_the_advantage_as_reward_and_are_filled_up():
    wrong = replace(SAMPLE, turn_id="1", truncated=False, reward=0.5, score=0.0, advantage=-0.75)
    rows = training_rows([SAMPLE, wrong], 5, temperature=0.85, filler=9)
    assert [row["reward"] for row in rows] == [0.75, -0.75, 0.0, 0.0, 0.0]
    assert [row["scores"] for row in rows] == [1.0, 0.5, 0.75, 0.75, 0.75]
    assert [row["extra_logs"]["filler"] for row in rows] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert len({tuple(row["extra_logs"]) for row in rows}) == 1
    assert rows[0]["observation_tokens"] == [1, 2, 3, 4]
    assert rows[0]["action_ranges"] == [(2, 4)]
    assert rows[0]["rollout_log_probs"] == [0.0, 0.0, -0.5, -1.0]
    assert [row["truncated"] for row in rows] == [True, False, False, False, False]
    assert rows[4]["observation_tokens"] == [9, 9]
    assert rows[4]["action_ranges"] == [(1, 2)]
    assert len(rows[4]["rollout_log_probs"]) == 2


@pytest.mark.parametrize(
    ("advantages", "n", "temperature"),
    [
        ([0.5, -0.5, 0.0], 2, 0.85),
        ([0.5, -0.25], 2, 0.85),
        ([0.5, -0.5], 2, 1.0),
    ],
)
def test_what_openrlhf_would_distort_is_refused(advantages, n, temperature):
    samples = [replace(SAMPLE, advantage=a) for a in advantages]
    with raises(ConfigError):
        training_rows(samples, n, temperature=temperature, filler=0)
