import asyncio
import random
from dataclasses import dataclass, replace

import pytest
from sums_team import game, sums, told

from mars_env.envs import GroupedSettings, grouped
from mars_env.envs.game_function import GameFunction, GameOptions
from mars_env.envs.rules import ask
from mars_env.errors import ConfigError, ModelError
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect, play_all
from mars_env.types import Action

PROBLEMS = sums(6)
GAME = game()
GROUPED = replace(GAME, grower=grouped(GroupedSettings(group=4)))


@dataclass
class Guesser:
    """Answers, judges and corrects by chance; the seed decides everything but the delay."""

    policy: str = "guesser"
    delays: random.Random | None = None

    async def act(self, observation, n, seed):
        if self.delays:
            await asyncio.sleep(self.delays.random() / 500)
        rng = random.Random(seed)
        if "report" in observation or "solution" not in observation:
            right = int(observation["problem"].split()[2]) * 2
            return [Action(f"\\boxed{{{right + rng.randrange(2)}}}") for _ in range(n)]
        return [Action(f"Hm.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}") for _ in range(n)]


async def trees_of(agent, game=GAME, concurrency=8):
    jobs = [Job(problem, sample) for sample in range(3) for problem in PROBLEMS]
    agents = assign_agents(game.rules, agent)
    return list(map(told, await collect(game, agents, jobs, seed=5, concurrency=concurrency)))


@pytest.mark.parametrize("game", [GAME, GROUPED], ids=["linear", "grouped"])
async def test_the_same_seed_gives_the_same_trees_whatever_the_concurrency(game):
    one_by_one = await trees_of(Guesser(), game, 1)
    assert one_by_one == await trees_of(Guesser(delays=random.Random(1)), game, 7)
    assert one_by_one == await trees_of(Guesser(delays=random.Random(2)), game, 64)


async def waits_for_what_is_cancelled(*_):
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def raising(error):
    async def act(*_):
        raise error

    return act


async def too_few(observation, n, seed):
    return [Action("Correctness: Correct")] * (n - 1)


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (raising(ModelError("the server is gone")), "ModelError: the server is gone"),
        (raising(TimeoutError("the tool did not answer")), "TimeoutError: the tool did not answer"),
        (raising(ZeroDivisionError()), "ZeroDivisionError"),
        (waits_for_what_is_cancelled, "what it waited for was cancelled"),
        (too_few, "returned 0 actions where 1 were asked for"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_agent_that_cannot_act_costs_its_own_trees_only(act, fault, caplog):
    class Faulty(Guesser):
        async def act(self, observation, n, seed):
            bad = "3 + 3" in observation["problem"] and "solution" in observation
            return await (act if bad else super().act)(observation, n, seed)

    for tree in await trees_of(Faulty(), replace(GAME, turn_timeout=30)):
        if tree.problem == PROBLEMS[3]:
            assert tree.fault.startswith("verifier_0 at turn 0.0: ") and fault in tree.fault
            assert "Traceback" not in caplog.text
            assert tree.final is None and [turn.agent for turn in tree.turns] == ["solver_0"]
        else:
            assert not tree.fault


@pytest.mark.parametrize("place", ["parse", "game"])
async def test_a_game_that_raises_ends_the_run_and_nothing_hangs(place):
    def parse(text):
        raise KeyError("my bug")

    def broken(problem):
        first = yield ask("solver", problem=problem.statement)
        if place == "game":
            raise KeyError("my bug")
        yield ask("solver", problem=problem.statement, parse=parse)
        return first

    options = GameOptions(max_turns=2, roles={"solver": None}, fields={"solver": ["problem"]})
    rules = GameFunction(broken, options)()
    game = replace(GAME, rules=rules)
    stored = []
    with pytest.raises(ConfigError, match=r"the game broken \(test_engine.py, line \d+\): .*my bug"):
        async for _ in play_all(
            game, assign_agents(rules, Guesser()), map(Job, PROBLEMS), seed=0, on_turns=stored.extend
        ):
            pass
    assert {turn.agent for turn in stored} == {"solver_0"}


async def test_closing_early_cancels_what_is_under_way():
    cancelled = []

    class Slow(Guesser):
        async def act(self, observation, n, seed):
            if "0 + 0" in observation["problem"]:
                return await super().act(observation, n, seed)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(1)
                raise

    trees = play_all(GAME, assign_agents(GAME.rules, Slow()), map(Job, PROBLEMS), seed=0)
    assert (await anext(trees)).problem == PROBLEMS[0]
    await trees.aclose()
    assert len(cancelled) == 5
