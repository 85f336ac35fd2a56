"""The contract suites for games and environments; run them on your own."""

import contextlib
import copy
import io
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pettingzoo.test

from mars_env.envs.aec import MarsEnv
from mars_env.envs.game_function import GameFunction
from mars_env.envs.rules import Rules, State
from mars_env.errors import ConfigError, explained
from mars_env.text import logger
from mars_env.types import Action, Completion, Grade, Problem

log = logger(__name__)

DEFAULT_TEXTS = (
    "",
    "\\boxed{4}",
    "Fine.\nCorrectness: Correct",
    "No.\nCorrectness: Wrong",
    "é \ud800 \x00 {0} %s",
    "x" * 5000,
)
GRADES = (None, Grade.correct(), Grade.wrong("another number"), Grade.unknown("the grader was lost"))
SECRET = "the-reference-must-not-leak-4711"


def check_game(
    game: GameFunction | Rules,
    problem: Problem,
    *,
    texts: Sequence[str] = DEFAULT_TEXTS,
    episodes: int = 50,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Play random episodes and check what every engine relies on.

    A replayed game asks the same again. Observations are of the fields that a role has, hold nothing of the
    reference, and do not depend on grades. Episodes end within `max_turns`, with a graded reply or None. What
    is stored with a turn is plain data. Feedback decides neither who acts nor what the answer is. Agents
    reply with `texts`: add what your game treats specially.

    Example:
        >>> from mars_env.envs import self_refine
        >>> check_game(self_refine, Problem("p", "What is 2 + 2?", "4"), settings={"revisions": 2})
    """
    rng = np.random.default_rng(seed)
    with explained(AssertionError, "a broken promise", ConfigError):
        rules = game if isinstance(game, Rules) else game.rules(settings or {}, problem.kind)
        for agent in rules.possible_agents:
            assert "observation" not in rules.fields(agent), "PettingZoo allows no field called 'observation'"
        answers = [_Episode(rules, problem, texts, rng).play() for _ in range(episodes)]
    if not any(answers):
        log.warning("%s: no episode had an answer: return a reply, or add texts=", rules.game.where())


class _Episode:
    """A random episode, and beside it the same one with other grades."""

    def __init__(
        self, rules: Rules, problem: Problem, texts: Sequence[str], rng: np.random.Generator
    ) -> None:
        metadata = {**problem.metadata, "rubric": [{"text": SECRET}]}
        secret = Problem(problem.id, problem.statement, SECRET, problem.kind, metadata)
        self.rules, self.texts, self.rng = rules, texts, rng
        self.state = self.other = rules.start(secret)
        assert rules.final(self.state) is None, "the game has an answer before the first turn"

    def play(self) -> bool:
        """Whether it has an answer at its end."""
        while self.rules.current_agent(self.state) is not None:
            self._check_observations()
            text = self.texts[int(self.rng.integers(len(self.texts)))]
            self._step(Action(text, (Completion(text, "length" if self.rng.integers(2) else "stop"),)))
        self._check_observations()
        return self.rules.final(self.state) is not None

    def _step(self, action: Action) -> None:
        rules = self.rules
        note = rules.note(self.state, action)
        with explained(AssertionError, "what is stored with a turn is plain data", TypeError, ValueError):
            json.dumps(dict(note), allow_nan=False)
        same = note == rules.note(self.state, action)
        assert same, f"{self._where}: parse= returned two results for one text"
        graded = rules.submission(self.state, action) is not None
        drawn = int(self.rng.integers(1, len(GRADES))) if graded else 0
        after = rules.apply(self.state, action, GRADES[drawn], note)
        self._check_replay(after)
        for grade in GRADES if graded else ():
            self._check_same(after, rules.apply(self.state, action, grade, note))
        other = rules.apply(self.other, action, GRADES[1 + drawn % 3] if graded else None, note)
        if rules.current_agent(other) != rules.current_agent(after):
            other = after  # a grade may decide how the episode continues
        self._check_same(after, other)
        self.state = self._informed(after, action.text) if graded else after
        self.other = self._informed(other, action.text) if graded else other

    def _check_replay(self, state: State) -> None:
        copied = copy.deepcopy(state)  # which is replayed
        for agent in self.rules.possible_agents:
            same = self.rules.observe(state, agent) == self.rules.observe(copied, agent)
            assert same, f"{self._where}: {agent} observes something else when the game is replayed"

    def _check_same(self, state: State, other: State) -> None:
        if self.rules.current_agent(state) != self.rules.current_agent(other):
            return
        for agent in self.rules.possible_agents:
            same = self.rules.observe(other, agent) == self.rules.observe(state, agent)
            assert same, f"{self._where}: what {agent} observes depends on a grade: the reference leaks"

    def _informed(self, state: State, feedback: str) -> State:
        informed = self.rules.with_feedback(state, feedback)
        same_agent = self.rules.current_agent(informed) == self.rules.current_agent(state)
        assert same_agent, f"{self._where}: feedback changed whose turn it is"
        same = self.rules.final(informed) == self.rules.final(state)
        assert same, f"{self._where}: feedback changed the answer"
        return informed

    def _check_observations(self) -> None:
        for agent in self.rules.possible_agents:
            leaks = SECRET in repr(self.rules.observe(self.state, agent))
            assert not leaks, f"{self._where}: {agent} observes the reference or the rubric"

    @property
    def _where(self) -> str:
        return self.rules.game.where(self.state.live)


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
    problem = Problem("leak", "What is the mark?", SECRET, first.kind, metadata)
    env.reset(seed=0, options={"problem": problem})
    for agent in env.agent_iter(1000):
        _, _, terminated, truncated, _ = env.last()
        for seen in env.agents:
            observation, info = env.observe(seen), env.infos[seen]
            assert SECRET not in repr(observation), f"the observation of {seen} contains the reference"
            assert SECRET not in repr(info), f"the info of {seen} contains the reference: {info}"
        env.step(None if terminated or truncated else env.action_space(agent).sample())
