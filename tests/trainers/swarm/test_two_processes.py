"""Training with samplers that share nothing with the learner but HTTP."""

import asyncio
import json
import os
from collections import Counter

import pytest
import swarm_run
import torch
from kills import TURNS, killed, lasting
from messages import raises
from tiny_team import Rows, flat

from mars_env.errors import ConfigError, MarsError
from mars_env.loggers import read_jsonl
from mars_env.methods.spell.training import MEMORY, SpellRun, SpellSettings, train_spell
from mars_env.models import BatchLimits, HFModel
from mars_env.rollout import Job, collect
from mars_env.rollout.groups import step_jobs
from mars_env.trainers import Policy, make_team, train
from mars_env.trainers.rollouts import LEDGER, read_lines
from mars_env.trainers.swarm import Swarm, SwarmSettings, WeightStore, run_sampler
from studies.rubrics.lock import opener
from studies.spell import lookups


async def in_one_process(chosen):
    module, history = await swarm_run.in_one_process(chosen)
    return flat(module), [metrics.roles["solver"]["reward"] for metrics in history]


async def apart(folder, chosen, samplers=1, swarm_options=None, shared=False, **options):
    """The same with a learner and samplers: weights, figures and answers."""
    trained, heard = swarm_run.model(), Rows()
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    settings = SwarmSettings(max_staleness=chosen.pipeline.staleness, **(swarm_options or {}))
    game, problems = swarm_run.game(), swarm_run.problems()
    async with Swarm(swarm_run.AGENTS, policies, folder / "weights", settings) as swarm:
        if shared:
            options["weights"] = WeightStore(folder / "weights")
        others = [asyncio.create_task(swarm_run.sample(swarm.url, **options)) for _ in range(samplers)]
        await train(game, swarm.team, problems, chosen, directory=folder, loggers=[swarm, heard])
    return flat(trained.module), heard.rows, await asyncio.gather(*others), swarm


@pytest.mark.parametrize(("samplers", "shared"), [(1, False), (2, False), (1, True)])
async def test_a_bound_of_0_is_bitwise_the_synchronous_run(tmp_path, samplers, shared):
    chosen = swarm_run.settings(0)
    before = flat(swarm_run.model().module)
    alone, alone_rewards = await in_one_process(chosen)
    far, rows, answered, _ = await apart(tmp_path, chosen, samplers, shared=shared)
    assert not torch.equal(before, alone)
    assert torch.equal(alone, far)
    assert alone_rewards == [row["role/solver/reward"] for row in rows]
    assert sum(answered) == swarm_run.LOCKS * chosen.steps


@pytest.mark.parametrize("changes", [{}, {"groups_per_update": 2}], ids=["steps", "agentic"])
async def test_above_0_no_turn_is_older_than_the_bound_lost_or_trained_twice(tmp_path, changes):
    chosen = swarm_run.settings(2, steps=6, **changes)
    _, rows, _, swarm = await apart(tmp_path, chosen, 2, refresh="demanded")
    ages = [row["pipeline/oldest"] for row in rows]
    assert max(ages) == 2 and all(row["pipeline/dropped"] == 0 for row in rows)
    ledger = [json.loads(line) for line in (tmp_path / "trained.jsonl").read_text().splitlines()]
    groups = [group for row in ledger for group in row["groups"]]
    assert len(set(groups)) == len(groups) >= 6 * changes.get("groups_per_update", swarm_run.LOCKS)
    assert len(list((tmp_path / "weights").iterdir())) == 4  # the bound and two more
    assert swarm.capacity() is not None


async def test_demanded_weights_are_exactly_as_old_as_the_bound_allows_and_the_run_repeats(tmp_path):
    runs = []
    for name, samplers in (("one", 1), ("two", 2)):
        found, rows, _, _ = await apart(
            tmp_path / name, swarm_run.settings(2, steps=5), samplers, refresh="demanded"
        )
        ages = [row["pipeline/age"] for row in rows]
        assert ages == [0, 1, 2, 2, 2]  # all groups of a step
        runs.append((found, [row["role/solver/reward"] for row in rows]))
    assert torch.equal(runs[0][0], runs[1][0]) and runs[0][1] == runs[1][1]


async def test_with_drop_samplers_do_not_wait_and_what_is_too_old_is_dropped_and_counted(tmp_path):
    # These samplers never take new weights: nothing demands them. One lost update is borne, two are not.
    options = {"swarm_options": {"stale": "drop"}, "refresh": "demanded"}
    _, rows, _, _ = await apart(tmp_path / "three", swarm_run.settings(1, steps=3), **options)
    assert [row["pipeline/dropped"] for row in rows] == [0, 0, swarm_run.LOCKS * swarm_run.GROUP]
    assert [row["pipeline/oldest"] for row in rows] == [0, 1, 0]  # of what is trained
    with raises(MarsError):
        await apart(tmp_path / "four", swarm_run.settings(1, steps=4), **options)


async def test_a_sampler_whose_agents_cannot_be_trained_is_refused():
    hot = swarm_run.model()
    greedy = opener(hot)
    greedy.sampling = greedy.sampling.__class__(temperature=0.0)
    with raises(ConfigError):
        await run_sampler({"solver_0": greedy}, {"opener": hot}, "http://127.0.0.1:1")
    with raises(ConfigError):
        await run_sampler({"solver_0": opener(hot)}, {"other": hot}, "http://127.0.0.1:1")
    with raises(ConfigError):
        await run_sampler({"solver_0": opener(hot)}, {"opener": hot}, "127.0.0.1:1")


async def test_a_swarm_that_has_played_before_trains_and_trains_on_as_in_one_process(tmp_path):
    trained = swarm_run.model()
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    async with Swarm(swarm_run.AGENTS, policies, tmp_path / "weights") as swarm:
        other = asyncio.create_task(swarm_run.sample(swarm.url, refresh="demanded"))
        swarm.publish(policies)
        jobs = [Job(problem) for problem in swarm_run.problems()]
        await collect(swarm_run.game(), swarm.team.agents, jobs, seed=0)
        for steps in (2, 3):  # two trainings, one after the other
            chosen = swarm_run.settings(0, steps=steps)
            await train(
                swarm_run.game(), swarm.team, swarm_run.problems(), chosen, directory=tmp_path / "run"
            )
    alone, _ = await in_one_process(swarm_run.settings(0, steps=3))
    assert torch.equal(flat(trained.module), alone)
    assert await other == 4 * swarm_run.LOCKS


STEPS = 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script that kills the run forks it")
@pytest.mark.slow
@pytest.mark.parametrize("bound", [0, 2])
def test_killed_and_started_again_either_process_costs_no_turn(tmp_path, bound):
    killed(swarm_run, tmp_path, bound, STEPS)
    updates = lasting(read_jsonl(tmp_path / TURNS))
    assert list(updates) == list(range(1, STEPS + 1))
    assert len({row["attempt"] for update in updates.values() for row in update}) == 3
    turns = [row for update in updates.values() for row in update]
    wanted = {
        (job.tree_id, str(sample))
        for step in range(STEPS)
        for job in step_jobs(swarm_run.problems(), step=step, problems_per_step=swarm_run.LOCKS, seed=1)
        for sample in range(swarm_run.GROUP)
    }
    assert Counter((row["tree"], row["turn"]) for row in turns) == dict.fromkeys(
        wanted, 1
    )  # none twice, none lost
    assert max(row["age"] for row in turns) <= bound
    ledger = read_lines(tmp_path / LEDGER)
    assert [row["update"] for row in ledger] == list(range(1, STEPS + 1))
    if bound == 0:
        module, _ = asyncio.run(swarm_run.in_one_process(swarm_run.settings(0, STEPS)))
        found, state = torch.load(tmp_path / "weights.pt", weights_only=True), module.state_dict()
        assert found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state)


SETTINGS = lookups.run_settings(seed=3, steps=2, clusters=3, rate=1e-3)
SPELL = SpellSettings(group=4, verifiers=2, fresh=2, questions=3, tries=2, verifier_turns=2.0)


def model(start):
    """The warm start with weights of its own. Each sample is a batch, whatever the timing."""
    module = lookups.build_model(0, len(lookups.VOCABULARY), lookups.SHAPE)
    module.load_state_dict(start.module.state_dict())
    return HFModel((module, start.tokenizer), device="cpu", name="speller", batch=BatchLimits(1))


async def test_with_samplers_elsewhere_a_run_is_bitwise_the_run_in_one_process(tmp_path):
    """All three roles act in the sampler; documents, memory, grading and rewards stay in the learner."""
    start = lookups.warm_started(steps=60)
    clusters = lookups.clusters(3, 4)
    here, there, trained = model(start), model(start), model(start)
    team = make_team(SETTINGS, lookups.NAMES, [here], agent=lookups.player)
    await train_spell(SpellRun(team, clusters, SETTINGS, SPELL), directory=tmp_path / "here")

    policies = {"speller": Policy(trained.module, trained.tokenizer)}
    names = dict.fromkeys(lookups.NAMES, "speller")
    async with Swarm(names, policies, tmp_path / "weights") as swarm:
        players = {name: lookups.player(name, there) for name in lookups.NAMES}
        sampler = asyncio.create_task(run_sampler(players, {"speller": there}, swarm.url))
        run = SpellRun(swarm.team, clusters, SETTINGS, SPELL)
        history = await train_spell(run, directory=tmp_path / "apart")
    assert await sampler > 0 and len(history) == 2
    memories = [(tmp_path / name / MEMORY).read_text() for name in ("here", "apart")]
    assert memories[0] == memories[1] and "question" in memories[0]
    one, other = here.module.state_dict(), trained.module.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(one[name], value) for name, value in start.module.state_dict().items())
