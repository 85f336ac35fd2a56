"""`solve`: a team answers a question whose answer is unknown. `Answerer` answers many."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mars_env.agents.registry import make_agents, roles_of, team_identity, team_size
from mars_env.api import Env, Team, as_problem_set, described_spec, spec_with
from mars_env.envs.game import Game, make_game
from mars_env.envs.registry import find_game, with_team_size
from mars_env.envs.visibility import EXAMPLES
from mars_env.errors import ConfigError, ModelError, explained
from mars_env.models.preflight import preflight
from mars_env.net import UNREADABLE
from mars_env.problems.code import code_problem_from_row
from mars_env.rollout import Job, Store, play
from mars_env.rollout.contexts import require_room
from mars_env.rollout.engine import Journal, at_most
from mars_env.rollout.tree_index import TreeIndex
from mars_env.serving.solution import Solution, solution_of
from mars_env.sync import run_sync
from mars_env.text import brief
from mars_env.types import Agent, Problem, Tree, Turn

Kind = Literal["math", "code"]

Tests = Sequence[Mapping[str, Any] | str] | Mapping[str, Any]
"""A program's public tests: ``{"input", "output"}`` strings, asserts, or a row as in docs/code-grading.md."""

OnTurn = Callable[[Turn], None]

SOLVE_VERIFY_CORRECT = "solve-verify-correct"
_TURNS = 64  # of one question, played at the same time


def make_question(
    statement: str, *, kind: Kind | None = None, tests: Tests = (), salt: object = None
) -> Problem:
    """A problem without a reference: no answer to it is graded. Another `salt` makes another problem."""
    if not isinstance(statement, str) or not statement.strip():
        raise ConfigError(f"a question is a string that is not empty, got {brief(statement)}")
    kind = kind or ("code" if tests else "math")
    if kind not in ("math", "code"):
        raise ConfigError(f"the kind of a question is 'math' or 'code', got {brief(kind)}")
    metadata: dict[str, Any] = {}
    if tests:
        if kind != "code":
            raise ConfigError("tests are for questions of code: leave them out, or say kind='code'")
        statement, metadata[EXAMPLES] = _examples(statement, tests)
    with explained(ConfigError, "the tests are plain data", TypeError, ValueError, RecursionError):
        text = json.dumps([statement, kind, metadata, salt], sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    return Problem(f"question/{name}", statement, None, kind, metadata)


def _examples(statement: str, tests: Tests) -> tuple[str, dict[str, Any]]:
    with explained(ConfigError, "these tests cannot be read", *UNREADABLE):
        if isinstance(tests, Mapping):
            row = dict(tests)
        else:
            inputs = all(isinstance(test, Mapping) for test in tests)
            listed = tests if isinstance(tests, str) else list(tests)  # JSON, or else unreadable
            row = {"tests": listed, **({"mode": "stdin"} if inputs else {})}
        problem = code_problem_from_row({**row, "id": "question", "prompt": statement})
    public = [{**test, "public": True} for test in problem.reference["tests"]]
    return problem.statement, {**problem.reference, "tests": public, "solutions": []}


class Answerer:
    """A team that answers questions: agents, and the game that they play.

    The game is one, its name (``"solve-verify-correct"``, ``"tree-search"`` ...), or that of an environment's
    id, with its kind of problems; agents and settings are as for `mars_env.evaluate`.
    """

    def __init__(
        self,
        env_id: Env,
        agents: Team,
        *,
        kind: Kind | None = None,
        turn_timeout: float | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        chosen = {**(settings or {}), **more}
        env_spec = spec_with(solve, env_id, chosen, turn_timeout=turn_timeout)
        if kind is None:  # of questions, open ones are played like those of mathematics
            code = bool(env_spec.problems) and as_problem_set(env_spec.problems)[0].kind == "code"
            kind = "code" if code else "math"
        env_spec = with_team_size(replace(env_spec, grader=None), team_size(agents))
        self.kind: Kind = kind
        self.name = env_spec.id
        # Rewards are for training: here there is nothing that they could be told.
        self.game: Game = replace(make_game(env_spec, kind=kind), rewards={}, team_reward=None)
        if find_game(env_spec.game).options.poses:
            raise ConfigError(f"the agents of {env_spec.game_name!r} make their own problems: ask them none")
        roles = roles_of(self.game.rules)
        self.agents: Mapping[str, Agent] = make_agents(agents, self.game.rules.possible_agents, roles=roles)
        named = agents if isinstance(agents, str) else self.agents
        identities = team_identity(named, self.game.rules.possible_agents, roles)
        self._identity = described_spec(env_spec, named, identities)
        if self.game.visibility is not None:
            self.game.visibility.validate_problems([make_question("?")] if kind == "math" else [])

    def store(self, out: str | Path, problems: Sequence[Problem] = (), **must_match: Any) -> Store:
        """A store of answers; a run that it continues has the same `must_match`, game and team."""
        identity = self._identity
        must_match = {"title": self.name, **identity["must_match"], **must_match}
        return Store(out, must_match, problems, may_change=identity["may_change"])

    async def require_room(self, problem: Problem | None = None) -> None:
        """Reject contexts that are too small for the agents' limits on a question, by default on any."""
        await require_room(self.game.rules, self.agents, [problem or make_question("?")])

    async def answer(
        self,
        problem: Problem,
        *,
        sample: int = 0,
        seed: int = 0,
        journal: Journal | None = None,
        on_turn: OnTurn | None = None,
    ) -> Solution:
        """Play one question to its end; question, sample and seed are the only sources of randomness.

        Turns that the `journal` has are not played again; `on_turn` gets each turn as soon as it is finished.
        A `ConfigError` if the game cannot play this question, a `ModelError` if the team has no answer.
        """
        if problem.kind != self.kind:
            raise ConfigError(f"this team answers questions of {self.kind}, not of {problem.kind}")
        if self.game.visibility is not None:
            self.game.visibility.validate_problems([problem])

        def on_turns(turns: Sequence[Turn]) -> None:
            if on_turn is not None:
                for turn in turns:
                    on_turn(turn)

        job, gate = Job(problem, sample), at_most(_TURNS)
        tree = await play(
            self.game, self.agents, job, seed=seed, journal=journal, on_turns=on_turns, gate=gate
        )
        return self.solution(tree)

    def solution(self, tree: Tree) -> Solution:
        """The solution that a finished tree holds; a `ModelError` if it has no answer."""
        if tree.fault:
            raise ModelError(f"the team could not answer: {tree.fault}")
        if tree.final is None:
            raise ModelError("the team could not answer: none of its turns could be judged")
        return solution_of(tree, self.game.visibility)


def solve(  # public edge: friendly keywords, each with a default
    statement: str,
    *,
    agents: Team,
    env_id: Env = SOLVE_VERIFY_CORRECT,
    kind: Kind | None = None,
    tests: Tests = (),
    seed: int = 0,
    out: str | Path | None = None,
    on_turn: OnTurn | None = None,
    turn_timeout: float | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Solution:
    r"""Let a team answer a question whose answer is unknown.

    Args:
        statement: The question.
        agents: As for `mars_env.evaluate`.
        env_id: The game, by default MarsRL's loop: your own, a name such as ``"tree-search"``, or an
            environment's id.
        kind: ``"math"`` or ``"code"``; by default that of the id's problems, or code where tests are given.
        tests: Public tests of a program: ``{"input": ..., "output": ...}``, asserts, or a row of
            docs/code-grading.md. A search of programs needs some.
        seed: Together with a deterministic model, fixes everything but the timings.
        out: Directory to store the run in; the same call continues an interrupted one.
        on_turn: Called with each turn as soon as it is finished.
        turn_timeout: Seconds that an agent may take for a turn.
        settings: Of the game, as for `mars_env.make`.
        **more: As for `mars_env.make`, e.g. ``rounds=3``.

    Raises:
        ConfigError: An argument is wrong.
        ModelError: The team has no answer; says why.

    Example:
        >>> team = {"solver": lambda seen: r"It is \boxed{4}.", "corrector": lambda seen: "",
        ...         "verifier": lambda seen: "All steps hold.\nCorrectness: Correct"}
        >>> print(solve("What is 2 + 2?", agents=team))
        4
        [confidence 1.00 (4 of 4 verdicts accept it), 0 tokens in 5 turns]
    """
    if tests and kind is None:
        kind = "code"
    answerer = Answerer(env_id, agents, kind=kind, turn_timeout=turn_timeout, settings=settings, **more)
    problem = make_question(statement, kind=answerer.kind, tests=tests)

    async def solved(journal: Journal | None = None) -> Solution:
        await preflight(answerer.agents, answerer.game)
        await answerer.require_room(problem)
        return await answerer.answer(problem, seed=seed, journal=journal, on_turn=on_turn)

    if out is None:
        return run_sync(solved())
    with answerer.store(out, [problem], seed=seed, question=problem.id) as store:
        if (tree_id := Job(problem).tree_id) in store.finished:
            return answerer.solution(TreeIndex(out).tree(tree_id, problem))
        return run_sync(solved(store))
