"""MarsRL on programs, the Verifier reading the results of their public tests."""

import asyncio
import random
from contextlib import aclosing

import torch
from tiny_team import flat, tiny

import mars_env
from mars_env.agents import Verifier
from mars_env.envs import GroupedSettings
from mars_env.players import assign_agents
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import Policy
from mars_env.trainers.loop import train
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.team import Team
from mars_env.types import Sampling

PROGRAMS = ["print(input())", "print(1 / 0)", "def f("]
SETTINGS = RunSettings(
    steps=1,
    problems_per_step=2,
    rollouts=GroupedSettings(group=4, branches=2),
    train=TrainConfig(learning_rate=1e-2, train_roles=("verifier",)),
)


def write(observation, seed):
    """A Solver and a Corrector that are not trained."""
    return f"```python\n{random.Random(seed).choice(PROGRAMS)}\n```"


def digits(turn, path, problem):
    """A random model agrees with no grade."""
    return sum(letter.isdigit() for letter in turn.text) / 6


def team():
    torch.set_num_threads(1)
    env = mars_env.make(
        "programs-solve-verify-correct",
        schedule="training",
        rounds=1,
        public_feedback=True,
        rewards={"verifier": digits},
    )
    model = tiny("checker", positions=4096)
    verifier = Verifier(model, sampling=Sampling(max_tokens=6))
    agents = assign_agents(env, {"solver": write, "verifier": verifier, "corrector": write})
    return env, model, Team(agents, {"checker": Policy(model.module, model.tokenizer)})


def test_a_verifier_is_trained_on_the_feedback_of_public_tests():
    trained = []
    for _ in range(2):
        env, model, players = team()
        before = flat(model.module)
        (metrics,) = asyncio.run(train(env.game, players, env.problems, SETTINGS))
        assert metrics.policies["checker"]["completions"] >= 8
        trained.append(flat(model.module))
        assert not torch.equal(before, trained[-1])
    assert torch.equal(*trained)  # how long a sandbox takes changes no bit


def test_each_prompt_to_be_trained_on_tells_what_came_of_its_own_program():
    env, model, players = team()

    async def first():
        async with aclosing(rollouts(env.game, players, env.problems, SETTINGS)) as batches:
            return (await anext(batches)).groups

    groups = asyncio.run(first())
    solutions = {(turn.tree_id, turn.id): turn for group in groups for turn in group.turns}
    told = set()
    for turn in (turn for turn in solutions.values() if turn.role == "verifier"):
        judged = solutions[turn.tree_id, turn.parent_id]
        (completion,) = turn.action.completions
        prompt = model.tokenizer.decode(completion.prompt_ids)
        assert judged.info["feedback"] in prompt and "<feedback>" in prompt
        told.add(judged.info["feedback"].rsplit("\n", 1)[-1])
    assert len(told) > 1
