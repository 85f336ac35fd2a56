"""A pipeline on a virtual clock: agents that act by chance, and what must hold at every moment."""

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass, replace

from benchmarks.simulator import run_virtual
from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct
from mars_env.errors import ModelError
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect, groups_of
from mars_env.rollout.pipeline import pipeline
from mars_env.rollout.staleness import least_updates
from mars_env.types import Action, Completion, Grade, Problem

GROUP = 3


class ExactGrader:
    async def grade(self, problem, text):
        return Grade.correct() if text == "right" else Grade.wrong("by chance")


EPISODES = Game(solve_verify_correct(schedule="training"), ExactGrader())
GAME = replace(EPISODES, grower=grouped(GroupedSettings(group=GROUP, branches=2)))


@dataclass
class Actor:
    """Acts by chance; the seed decides everything but the time it takes. `versions` are a policy's."""

    versions: list[int]
    delays: random.Random
    policy: str = "mars"
    fails: float = 0.0
    told: bool = True

    def version(self):
        return self.versions[-1]

    async def act(self, observation, n, seed):
        rng = random.Random(seed)
        first = self.version()
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        if rng.random() < self.fails:
            raise ModelError("lost")
        second = self.version()
        await asyncio.sleep(self.delays.lognormvariate(0, 1))
        solving = "solution" not in observation or "report" in observation
        texts = ("right", "wrong") if solving else ("Correctness: Correct", "Correctness: Wrong")
        versions = ((first, 2), (second, 1)) if self.told else ()
        return [Action(rng.choice(texts), (Completion("", versions=versions),)) for _ in range(n)]


class Laggard(Actor):
    """Acts with the oldest weights that it may."""

    def version(self):
        return self.versions[0] + least_updates()


def steps_of(count, problems):
    return [[Job(Problem(f"p{step}.{i}", "", ""), step) for i in range(problems)] for step in range(count)]


def plain(groups):
    """Groups as plain data, without what the schedule may change."""
    return {g.id: tuple((t.id, t.agent, t.text, t.reward) for t in g.turns) for g in groups}


def batches_of(actor, options, steps, game=GAME, **more):
    return pipeline(game, assign_agents(game.rules, actor), steps, options, seed=7, **more)


async def all_batches(actor, options, steps, *, train_time=2.0, game=GAME, late=(), first=0, **more):
    """Train on a virtual clock; checks on the way what must hold at every moment."""
    batches, size = [], options.groups_per_update
    async with aclosing(batches_of(actor, options, steps, game, **more)) as due:
        async for batch in due:
            assert batch.version == first + len(batches)
            assert all(age <= options.staleness for age in batch.ages)
            for group in batch.groups:
                for turn in group.turns:
                    for version, _ in turn.action.completions[0].versions:
                        assert batch.version - options.staleness <= version <= batch.version
            if size is not None:
                assert len(batch.groups) <= options.bound + int((options.refill - 1) * size)
            batches.append(batch)
            await asyncio.sleep(train_time)
            if len(batches) not in late:
                actor.versions.append(first + len(batches))
    return batches


def everything(actor, steps, game=GAME):
    """What a run without a pipeline plays."""
    jobs = [job for step in steps for job in step]
    return groups_of(run_virtual(collect(game, assign_agents(game.rules, actor), jobs, seed=7)))
