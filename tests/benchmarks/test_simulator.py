import asyncio
import statistics

import pytest

from benchmarks.simulator import Cluster, SimulatedEngine, run_virtual, simulate
from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError, MarsError
from mars_env.types import Sampling

SMALL = Cluster(
    steps=4,
    problems_per_step=4,
    slots=16,
    trainer_tokens_per_second=1280.0,
    rollouts=GroupedSettings(group=4, branches=2),
)


def test_virtual_time_jumps_in_order():
    async def events():
        seen = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            seen.append((seconds, asyncio.get_running_loop().time()))

        await asyncio.gather(*(sleeper(s) for s in (3e6, 0.001, 50, 50.5)))
        return seen

    assert run_virtual(events()) == [(s, pytest.approx(s)) for s in (0.001, 50, 50.5, 3e6)]


def test_a_standstill_is_an_error_and_not_a_hang():
    async def forever():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(MarsError):
        run_virtual(forever())


def test_the_engine_has_its_slots_and_its_lengths():
    async def batch(slots):
        engine = SimulatedEngine(slots, 10.0, 100, 0.7)
        completions = await engine.complete([0], 400, Sampling(max_tokens=10_000, seed=3))
        return completions, asyncio.get_running_loop().time(), engine.busy

    lengths = {}
    for slots in (1, 8, 400):
        completions, seconds, busy = run_virtual(batch(slots))
        lengths[slots] = [c.completion_tokens for c in completions]
        assert busy == pytest.approx(sum(lengths[slots]) / 10)
        assert max(busy / slots, max(lengths[slots]) / 10) - 1e-6 <= seconds
        assert seconds <= busy / slots + max(lengths[slots]) / 10 + 1e-6
    assert lengths[1] == lengths[8] == lengths[400]
    assert statistics.median(lengths[1]) == pytest.approx(100, rel=0.15)


def test_the_schedule_changes_when_groups_are_trained_and_not_which():
    def trained(**changes):
        groups = {}

        def watch(group):
            groups[group.id] = tuple((t.text, t.action.completions[0].completion_tokens) for t in group.turns)

        report = simulate(SMALL.model_copy(update=changes), watch=watch)
        return groups, report

    barrier, slow = trained(staleness=0)
    assert set(slow.ages) == {0}
    per_update = -(-slow.groups // 4)
    for changes in (
        {"groups_per_update": per_update},
        {"groups_per_update": per_update, "staleness": 0},
        {"staleness": 3},
        {"segment_tokens": None, "groups_per_update": 7},
    ):
        groups, report = trained(**changes)
        assert groups == barrier
        assert report.dropped == 0
        assert max(report.ages) <= changes.get("staleness", SMALL.staleness)
        assert report.seconds <= slow.seconds + 1e-6


def test_shares_and_times_agree_with_each_other():
    report = simulate(SMALL.model_copy(update={"staleness": 0}))
    training = report.tokens / SMALL.trainer_tokens_per_second + 4 * SMALL.seconds_per_update
    assert report.trainer_idle == pytest.approx(1 - training / report.seconds)
    assert report.engine_idle == pytest.approx(1 - report.tokens / (SMALL.engine_rate * report.seconds))
    assert list(report.updates) == sorted(report.updates)
    assert sum(report.ages.values()) == report.groups


def test_a_resolution_above_the_segment_is_refused():
    with pytest.raises(ConfigError):
        simulate(SMALL.model_copy(update={"segment_tokens": 100}))
