import asyncio
import json
import re
from contextlib import aclosing
from dataclasses import replace

import pytest
from sums_team import game

from mars_env import load_problems
from mars_env.envs import GroupedSettings, solve_verify_correct, team_outcome
from mars_env.errors import ConfigError, ModelError, StoreError
from mars_env.loggers import Logger
from mars_env.methods.spell.answers import SameAnswer
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.models import HTTPModel, tiny_model
from mars_env.rollout import PipelineSettings, SegmentedModel
from mars_env.trainers import Policy, RunSettings, Team, TrainConfig, train
from mars_env.trainers.rollouts import LEDGER, rollouts
from mars_env.types import Sampling

COMMON = {
    "seed": 3,
    "steps": 3,
    "problems_per_step": 3,
    "rollouts": GroupedSettings(group=4, branches=1),
    "train": TrainConfig(learning_rate=1e-4, token_budget=4096),
}


class Run(Logger):
    """A tiny run of the miniature; the rollouts have weights of their own unless `shared`."""

    def __init__(self, *, shared=False, segment=None):
        self.trained = load()
        self.player = self.trained if shared else load()
        self.logged = []
        model = SegmentedModel(self.player, segment) if segment else self.player
        self.agents = {f"{role}_0": MiniatureAgent(role, model, max_tokens=24) for role in LIMITS}
        self.policies = {"miniature": Policy(self.trained.module)}
        self.game = game()
        self.problems = load_problems("arithmetic", seed=3, split="train")

    def refresh(self, policies):
        module = policies["miniature"].model
        weights = None if self.player is self.trained else module
        self.player.refresh(weights, version=policies["miniature"].version)

    def log(self, step, figures):
        self.logged.append(figures)

    @property
    def team(self):
        return Team(self.agents, self.policies, self.refresh)

    async def train(self, settings, directory=None, checkpoint_every=10):
        out = None if directory is None else str(directory)
        settings = settings.with_(out=out, checkpoint_every=checkpoint_every)
        return await train(self.game, self.team, self.problems, settings, loggers=[self])


@pytest.mark.parametrize(("checkpoint_every", "after"), [(1, "goes on after step 1"), (10, "starts again")])
async def test_a_run_that_is_stopped_says_where_it_goes_on(tmp_path, caplog, checkpoint_every, after):
    stopped = asyncio.Event()

    class StopsAtTwo(Run):
        def log(self, step, figures):
            if step == 2:
                stopped.set()

    settings = RunSettings(**COMMON | {"steps": 100})
    run = asyncio.create_task(StopsAtTwo().train(settings, tmp_path, checkpoint_every))
    await stopped.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert after in caplog.text


async def test_a_resumed_run_trains_no_group_twice(tmp_path):
    settings = RunSettings(**COMMON, pipeline=PipelineSettings(staleness=1, groups_per_update=3))
    short, run = settings.model_copy(update={"steps": 2}), Run()
    await run.train(short, directory=tmp_path, checkpoint_every=1)
    assert all(figures["pipeline/oldest"] <= 1 and figures["pipeline/dropped"] == 0 for figures in run.logged)
    assert run.player.version == run.policies["miniature"].version
    with (tmp_path / LEDGER).open("a", encoding="utf-8") as file:
        file.write('{"update": 3, "groups": ["of weights that are lost"], "trees": []}\n{"torn')
    history = await Run().train(settings, directory=tmp_path, checkpoint_every=1)
    assert [metrics.step for metrics in history] == [3]
    rows = [json.loads(line) for line in (tmp_path / LEDGER).read_text(encoding="utf-8").splitlines()]
    assert [row["update"] for row in rows] == [1, 2, 3]
    groups = [group for row in rows for group in row["groups"]]
    assert len(groups) == len(set(groups)) >= 9
    assert "of weights that are lost" not in groups
    assert await Run().train(settings, directory=tmp_path) == []
    other = settings.model_copy(update={"pipeline": PipelineSettings(staleness=3)})
    with pytest.raises(StoreError):
        await Run().train(other, directory=tmp_path)


@pytest.mark.parametrize("staleness", [0, 1])
async def test_stale_samples_have_importance_weights(staleness):
    run = Run()
    history = await run.train(RunSettings(**COMMON, pipeline=PipelineSettings(staleness=staleness)))
    assert max(figures["pipeline/oldest"] for figures in run.logged) == staleness
    weights = [metrics.policies["miniature"]["importance"] for metrics in history]
    assert any(abs(weight - 1) > 1e-6 for weight in weights) == bool(staleness)
    assert [metrics.policies["miniature"]["ratio"] for metrics in history] == pytest.approx([1.0] * 3)


async def test_a_server_without_log_probabilities_is_refused_before_anything_is_played():
    run = Run()
    run.agents["verifier_0"].model = HTTPModel("http://127.0.0.1:9/v1", "served")
    with pytest.raises(ConfigError):
        await run.train(RunSettings(**COMMON))
    frozen = COMMON | {"train": TrainConfig(token_budget=4096, train_roles=("solver", "corrector"))}
    with pytest.raises(ModelError):  # it plays, and need not tell
        await run.train(RunSettings(**frozen))


class Failing:
    """The miniature behind an engine that is gone after three calls."""

    def __init__(self, inner):
        self.inner, self.calls = inner, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def identity(self):
        return self.inner.identity()

    async def complete(self, prompt, n, sampling):
        self.calls += 1
        if self.calls > 3:
            raise ModelError("connection refused")
        return await self.inner.complete(prompt, n, sampling)


@pytest.mark.parametrize("options", [
    PipelineSettings(staleness=0),
    PipelineSettings(staleness=1, groups_per_update=6),
], ids=["steps", "agentic"])  # fmt: skip
async def test_a_model_that_is_gone_for_good_ends_the_run_before_an_update_counts(options, tmp_path):
    settings = RunSettings(**COMMON, pipeline=options)
    run = Run(shared=True)
    run.agents["solver_0"].model = Failing(run.player)
    run.trained = load()  # apart from the weights that sample
    run.policies = {"miniature": Policy(run.trained.module)}
    with pytest.raises(ModelError):
        await run.train(settings, directory=tmp_path, checkpoint_every=1)
    done = run.policies["miniature"].version
    assert done == len(run.logged) < 3
    assert [path.name for path in tmp_path.glob("step-*")] == [f"step-{done:08d}"] * bool(done)
    again = Run()
    history = await again.train(settings, directory=tmp_path)
    assert [metrics.step for metrics in history] == list(range(done + 1, 4))


def always(turn, path, problem):
    return 1.0


def changed_game(run, **changes):
    run.game = replace(run.game, **changes)


OTHER_RUNS = {
    "run.rewards": lambda run: changed_game(run, rewards={"solver": always}),
    "run.rules": lambda run: changed_game(
        run, rules=solve_verify_correct(schedule="training", accept_after=2)
    ),
    "run.team_reward": lambda run: changed_game(run, team_reward=team_outcome),
    "run.grader": lambda run: changed_game(run, grader=SameAnswer()),
    "run.team.solver_0": lambda run: setattr(run.agents["solver_0"], "sampling", Sampling(max_tokens=9)),
    "run.problems": lambda run: setattr(run, "problems", load_problems("arithmetic", seed=4)),
    "frozen": lambda run: setattr(run.policies["miniature"], "reference", tiny_model().module),
}


async def test_a_run_is_not_continued_with_another_game_or_reference(tmp_path):
    def fresh():
        run = Run(shared=True)
        run.policies["miniature"].reference = load().module
        return run

    settings = RunSettings(**COMMON)
    await fresh().train(settings.model_copy(update={"steps": 1}), directory=tmp_path)
    longer = settings.model_copy(update={"steps": 2})
    for name, change in OTHER_RUNS.items():
        other = fresh()
        change(other)
        with pytest.raises(StoreError, match=re.escape(name)):
            await other.train(longer, directory=tmp_path)
    assert len(await fresh().train(longer, directory=tmp_path)) == 1


def first(turn, path, problem):
    """Right is the first of each group."""
    return float(turn.id.endswith("0"))


async def test_groups_of_a_policy_that_is_not_trained_do_not_fill_an_update():
    """As those of a role that is not trained: others are played in their place."""
    run, solvers = Run(segment=16), []
    for role in ("verifier", "corrector"):
        run.agents[f"{role}_0"] = MiniatureAgent(role, load(), policy="frozen", max_tokens=24)
    run.game = replace(run.game, rewards=dict.fromkeys(LIMITS, first))
    options = PipelineSettings(staleness=1, groups_per_update=4, refill=8)
    drop = TrainConfig(uniform_groups="drop")
    settings = RunSettings(**{**COMMON, "pipeline": options, "train": drop})
    async with aclosing(rollouts(run.game, run.team, run.problems, settings)) as batches:
        async for batch in batches:
            solvers.append(sum(group.turns[0].role == "solver" for group in batch.groups))
            if len(solvers) == 3:
                break
    assert min(solvers) >= 4
