"""The contract suite for environments: PettingZoo's own tests, and a test that no reference leaks."""

import contextlib
import io
import warnings
from collections.abc import Callable

import pettingzoo.test

from mars_env.envs.aec import MarsEnv
from mars_env.types import Problem

MARK = "reference-4711"


def check_env(make: Callable[..., MarsEnv], *, cycles: int = 20) -> None:
    """Run PettingZoo's api, seed, render and observation tests on an environment, and look for leaks.

    Example:
        >>> import mars_env
        >>> check_env(lambda **kwargs: mars_env.make("arithmetic-solve", **kwargs), cycles=3)
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)
        pettingzoo.test.api_test(make(), num_cycles=cycles)
        pettingzoo.test.seed_test(make, num_cycles=cycles)
        pettingzoo.test.render_test(make)
        pettingzoo.test.test_save_obs(make())
    _check_no_leak(make())


def _check_no_leak(env: MarsEnv) -> None:
    first = env.problems[0]
    metadata = first.metadata if first.kind == "open" else {}  # documents, say, without which nothing starts
    problem = Problem("leak", "What is the mark?", MARK, first.kind, metadata)
    env.reset(seed=0, options={"problem": problem})
    for agent in env.agent_iter(1000):
        _, _, terminated, truncated, _ = env.last()
        for seen in env.agents:
            observation, info = env.observe(seen), env.infos[seen]
            assert MARK not in repr(observation), f"the observation of {seen} contains the reference"
            assert MARK not in repr(info), f"the info of {seen} contains the reference: {info}"
        env.step(None if terminated or truncated else env.action_space(agent).sample())
