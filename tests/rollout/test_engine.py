import asyncio
import random
from dataclasses import dataclass, replace

import pytest
from messages import raises
from sums_team import told

from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect, grouped, team_outcome
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.errors import ConfigError, ModelError
from mars_env.players import assign_agents
from mars_env.rollout import Job, collect, play, play_all
from mars_env.rollout.engine import at_most
from mars_env.rollout.rewarding import regrade
from mars_env.types import Action, Grade, Problem

PROBLEMS = [Problem(f"p{i}", f"What is {i} + {i}?", str(2 * i)) for i in range(6)]


class ExactGrader:
    async def grade(self, problem, text):
        await asyncio.sleep(0)
        return Grade.correct() if text == problem.reference else Grade.wrong("another number")


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
            return [Action(str(right + rng.randrange(2))) for _ in range(n)]
        return [Action(f"Hm.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}") for _ in range(n)]


GAME = Game(SolveVerifyCorrect(TRAINING), ExactGrader())
GROUPED = replace(GAME, grower=grouped(GroupedSettings(group=4)))


async def trees_of(game, agent, concurrency):
    jobs = [Job(problem, sample) for sample in range(3) for problem in PROBLEMS]
    return [
        told(t)
        for t in await collect(game, assign_agents(game.rules, agent), jobs, seed=5, concurrency=concurrency)
    ]


@pytest.mark.parametrize("game", [GAME, GROUPED], ids=["linear", "grouped"])
async def test_the_same_seed_gives_the_same_trees_whatever_the_concurrency(game):
    one_by_one = await trees_of(game, Guesser(), 1)
    assert one_by_one == await trees_of(game, Guesser(delays=random.Random(1)), 7)
    assert one_by_one == await trees_of(game, Guesser(delays=random.Random(2)), 64)


async def test_rewards_are_the_papers():
    for tree in await trees_of(GROUPED, Guesser(), 8):
        by_id = {turn.id: turn for turn in tree.turns}
        for turn in tree.turns:
            if turn.role == "verifier":
                right = by_id[turn.parent_id].grade.score == 1.0
                assert turn.reward == float((turn.info["verdict"] == "Correct") == right)
                assert turn.grade is None
            else:
                assert turn.reward == turn.grade.score


async def test_finished_groups_are_handed_on_at_once():
    seen = []

    class Watching(Guesser):
        async def act(self, observation, n, seed):
            if "solution" in observation:
                assert seen  # the Solver's group came before any Verifier acted
            return await super().act(observation, n, seed)

    await play(
        GROUPED, assign_agents(GROUPED.rules, Watching()), Job(PROBLEMS[1]), seed=0, on_turns=seen.append
    )
    assert all(len(turns) == 4 for turns in seen)


async def test_an_agent_that_cannot_act_costs_its_own_tree_only():
    class Faulty(Guesser):
        async def act(self, observation, n, seed):
            if "3 + 3" in observation["problem"] and "solution" in observation:
                raise ModelError("the server is gone")
            return await super().act(observation, n, seed)

    trees = await trees_of(GAME, Faulty(), 8)
    for tree in trees:
        if tree.problem.id == "p3":
            assert "the server is gone" in tree.fault
            assert tree.final is None
            assert [turn.agent for turn in tree.turns] == ["solver_0"]
        else:
            assert not tree.fault


async def test_a_bug_in_an_agent_is_logged_and_noted(caplog):
    tree = await play(GAME, assign_agents(GAME.rules, lambda observation: 1 / 0), Job(PROBLEMS[0]), seed=0)
    assert "ZeroDivisionError" in tree.fault and "ZeroDivisionError" in caplog.text


async def test_a_wrong_number_of_actions_is_a_fault():
    class TooFew(Guesser):
        async def act(self, observation, n, seed):
            return (await super().act(observation, n, seed))[:-1]

    tree = await play(GROUPED, assign_agents(GROUPED.rules, TooFew()), Job(PROBLEMS[0]), seed=0)
    assert "returned 3 actions where 4 were asked for" in tree.fault


async def test_rules_that_raise_end_the_run_and_nothing_hangs():
    class Broken(SolveVerifyCorrect):
        def note(self, state, action):
            raise KeyError("my bug")

    game = replace(GAME, rules=Broken(TRAINING))
    with raises(KeyError):
        async for _ in play_all(game, assign_agents(game.rules, Guesser()), map(Job, PROBLEMS), seed=0):
            pass


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

    played = play_all(GAME, assign_agents(GAME.rules, Slow()), map(Job, PROBLEMS), seed=0)
    assert (await anext(played)).problem.id == "p0"
    await played.aclose()
    assert len(cancelled) == 5


async def test_async_rewards_and_the_path_that_led_there():
    async def length(turn, path, problem):
        await asyncio.sleep(0)
        return float(len(path))

    game = replace(GAME, rewards={"solver": length, "verifier": length, "corrector": length})
    tree = await play(game, assign_agents(game.rules, Guesser()), Job(PROBLEMS[2]), seed=3)
    assert [turn.reward for turn in tree.turns] == [float(i) for i in range(len(tree.turns))]


async def test_a_team_reward_is_the_mean_over_branches():
    game = replace(GROUPED, team_reward=team_outcome)
    tree = await play(game, assign_agents(game.rules, Guesser()), Job(PROBLEMS[4]), seed=1)
    children = {}
    for turn in tree.turns:
        children.setdefault(turn.parent_id, []).append(turn)
    assert any(turn.id in children for turn in tree.turns)
    for turn in tree.turns:
        below = children.get(turn.id)
        if below:
            assert turn.reward == pytest.approx(sum(t.reward for t in below) / len(below))
        elif turn.grade:
            assert turn.reward == turn.grade.score


async def test_grading_again_gives_the_same_tree_and_another_grader_another():
    tree = await play(GAME, assign_agents(GAME.rules, Guesser()), Job(PROBLEMS[3]), seed=2)
    assert await regrade(tree, GAME) == tree

    class Strict:
        async def grade(self, problem, text):
            return Grade.wrong("nothing pleases me")

    again = await regrade(tree, replace(GAME, grader=Strict()))
    assert all(turn.grade.score == 0.0 for turn in again.turns if turn.grade)


async def cancelled_future(*_):
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def test_an_agent_that_waits_for_something_cancelled_loses_only_its_own_tree():
    class Waits(Guesser):
        async def act(self, observation, n, seed):
            if "0 + 0" in observation["problem"]:
                await cancelled_future()
            return await super().act(observation, n, seed)

    trees = await trees_of(GAME, Waits(), 2)
    assert all(bool(tree.fault) == (tree.problem.id == "p0") for tree in trees)


@pytest.mark.parametrize("part", ["grader", "rewards", "team_reward"])
async def test_a_grader_or_reward_that_waits_for_something_cancelled_gives_none(part):
    class Waits:
        async def grade(self, problem, text):
            await cancelled_future()

    given = {"grader": Waits(), "rewards": {"solver": cancelled_future}, "team_reward": cancelled_future}
    game = replace(GAME, **{part: given[part]})
    tree = await play(game, assign_agents(game.rules, Guesser()), Job(PROBLEMS[0]), seed=0)
    assert not tree.fault and tree.turns[0].reward is None


async def test_a_tree_that_is_cancelled_from_outside_ends():
    class Waits(Guesser):
        async def act(self, observation, n, seed):
            acting.set()
            await asyncio.get_running_loop().create_future()

    acting = asyncio.Event()
    task = asyncio.create_task(play(GAME, assign_agents(GAME.rules, Waits()), Job(PROBLEMS[0]), seed=0))
    await acting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_width_or_concurrency_below_one_is_refused():
    agents = assign_agents(GAME.rules, Guesser())
    with raises(ConfigError):
        await collect(GAME, agents, [Job(PROBLEMS[0])], seed=0, concurrency=0)
    with raises(ConfigError):
        at_most(0)
