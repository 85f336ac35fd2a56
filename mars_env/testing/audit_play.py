"""An audit of an environment: texts that know nothing must earn nothing, those that know must be paid.

Policies play every role through the engine, with partners whose solutions are all right, or all wrong.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from typing import Any

from mars_env.agents.registry import make_agents, roles_of
from mars_env.api import make
from mars_env.envs import MarsEnv
from mars_env.envs.game import Game
from mars_env.envs.game_function import GameFunction
from mars_env.envs.registry import EnvSpec, find_game, spec
from mars_env.errors import ConfigError, ModelError
from mars_env.evaluation.plan import first_problems
from mars_env.grading.code.mutants import variants_of
from mars_env.grading.code.validate import fenced
from mars_env.players import FunctionAgent
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, play
from mars_env.sync import maybe_await, run_sync
from mars_env.testing.audit_policies import (
    COPY,
    KNOWS,
    VERDICTS,
    right_solutions,
    texts_by_policy,
    wrong_solution,
)
from mars_env.testing.audit_report import AuditReport, AuditRow, Played, known_plays, leak_row, rows_of
from mars_env.text import counted, raised
from mars_env.types import Agent, Grade, Grader, Model, Observation, Problem, RewardModel, Tree, role_of

Write = Callable[[Observation], str]
OnProgress = Callable[[int, int], None]

_SECRET = "7405926813"  # no text holds it by chance
_COPIED_FIELDS = 3
_MUTANTS = 4
_AT_ONCE = 32


def audit(
    env: str | EnvSpec | GameFunction | MarsEnv,
    *,
    problems: Any = None,
    limit: int = 50,
    agents: Any = None,
    knows: Callable[[Observation, Problem], str] | None = None,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
    **settings: Any,
) -> AuditReport:
    """Look for rewards that are not earned, and for right texts that are not paid.

    Args:
        env: An environment; or an id, a game or a spec, with settings of training unless others are given.
        problems: As for `mars_env.make`.
        limit: Number of problems, from the first.
        agents: Who plays the other roles, as for `mars_env.evaluate`: for graders that ask a model, and for
            games whose other roles scripts cannot play. By default scripts that know the reference.
        knows: Gives a right text, for a role whose texts have a form of their own.
        seed: Of the episodes.
        on_progress: Called with the numbers of problems that are done, and of all.
        **settings: As for `mars_env.make`.

    Raises:
        ConfigError: As for `mars_env.make`; or an environment is given with problems or settings.
        ModelError: An episode could not be finished.

    Example:
        >>> report = audit("arithmetic-solve", limit=2)
        >>> [(row.policy, row.reward) for row in report.rows if row.reward > 0], report.findings
        ([('knows the reference', 1.0)], ())
    """
    if isinstance(env, MarsEnv) and (problems is not None or settings):
        raise ConfigError("an environment has its problems and settings: give them to mars_env.make")
    built = env if isinstance(env, MarsEnv) else _training_env(env, problems, settings)
    chosen = first_problems(built.problems, limit)
    if agents is None and (model := _model_of(built.game)):
        reason = f"{model} asks a model: say who plays the other roles, agents= or --agents"
        return AuditReport(str(built), len(chosen), (), (reason,))
    partners = None
    if agents is not None:
        partners = make_agents(agents, built.possible_agents, roles=roles_of(built.game.rules))
    return run_sync(_Audit(built.game, partners, knows, seed).report(str(built), chosen, on_progress))


def _training_env(env: str | EnvSpec | GameFunction, problems: Any, settings: Mapping[str, Any]) -> MarsEnv:
    named = spec(env)
    training = {**find_game(named.game).training, **named.settings}
    return make(replace(named, settings=training), problems=problems, **settings)


def _model_of(game: Game) -> str:
    """The attribute of a grader that is a model; empty if none is."""
    for grader in filter(None, (game.grader, getattr(game.visibility, "grader", None))):
        declared = [each.name for each in fields(grader)] if is_dataclass(grader) else []
        for name in declared or getattr(grader, "__dict__", {}):
            if isinstance(getattr(grader, name, None), Model | Agent | RewardModel):
                return f"{type(grader).__name__}.{name}"
    return ""


class _Remembering:
    """A grader that judges each text once."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader
        self._grades: dict[tuple[str, ...], asyncio.Future[Grade]] = {}

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The grade of a text, perhaps from before."""
        reference = problem.reference if isinstance(problem.reference, str) else ""
        key = (problem.id, problem.statement, reference, text)
        if key not in self._grades:
            self._grades[key] = asyncio.ensure_future(self._grade(problem, text))
        return await asyncio.shield(self._grades[key])

    async def _grade(self, problem: Problem, text: str) -> Grade:
        try:
            return await maybe_await(self._grader.grade(problem, text))
        except Exception as error:  # a user's grader may raise anything
            return Grade.unknown(f"the grader raised {raised(error)}")


@dataclass(frozen=True, slots=True)
class _Audit:
    """An audit of a game; partners of None are scripts."""

    game: Game
    partners: Mapping[str, Agent] | None
    knows: Callable[[Observation, Problem], str] | None
    seed: int
    graded: Mapping[str, bool] = field(default_factory=dict)

    async def report(self, title: str, problems: ProblemSet, on_progress: OnProgress) -> AuditReport:
        """Play all problems."""
        rows, graded = await self._probe(problems[0])
        plays, missing = list[Played](), list[str]()
        for number, problem in enumerate(problems, 1):
            plays += await replace(self, game=_with_memory(self.game), graded=graded)._play_all(problem)
            on_progress(number, len(problems))
        for role in dict.fromkeys(map(role_of, self.game.rules.possible_agents)):
            of_role = [play for play in plays if play.turn.role == role]
            if not any(play.turn.reward is not None for play in of_role):
                grade = next((play.turn.grade for play in of_role if play.turn.grade), None)
                missing.append(f"{role}, {grade.reason if grade else 'no turn of it has a reward'}")
                continue
            rows += rows_of(role, of_role)
            if unknown := len(problems) - len(known_plays(of_role)):
                missing.append(f"{role}, a right text: none is known on {counted(unknown, 'problem')}")
        rows.sort(key=lambda row: not row.finding)
        return AuditReport(title, len(problems), tuple(rows), tuple(missing))

    async def _play_all(self, problem: Problem) -> list[Played]:
        """Every agent, with every text of every policy and every team of partners, on one problem."""
        agents, writers = self.game.rules.possible_agents, self._writers(problem)
        teams, room = enumerate(await self._teams(problem)), asyncio.Semaphore(_AT_ONCE)

        async def played(agent: str, policy: str, write: Write, team: int, partners: Any) -> list[Played]:
            async with room:
                tree = await self._play(problem, {**partners, agent: FunctionAgent(write, policy=policy)})
            return [Played(policy, team, tree, turn) for turn in tree.turns if turn.agent == agent]

        jobs = (played(agent, *one, *team) for agent, one, team in product(agents, writers, teams))
        return [play for plays in await asyncio.gather(*jobs) for play in plays]

    def _writers(self, problem: Problem) -> list[tuple[str, Write]]:
        policies = texts_by_policy(problem).items()
        writers = [(policy, _always(text)) for policy, texts in policies for text in texts]
        writers += [(COPY, _copy_of(number, problem.statement)) for number in range(_COPIED_FIELDS)]
        if (knows := self.knows) is not None:
            writers.append((KNOWS, lambda observation: knows(observation, problem)))
        return writers

    async def _teams(self, problem: Problem) -> list[Mapping[str, Agent]]:
        """The partners: the user's, else scripts that accept or reject, with right or wrong solutions."""
        if self.partners is not None or len(self.game.rules.possible_agents) == 1:
            return [self.partners or {}]
        right, wrong = right_solutions(problem), [wrong_solution(problem)]
        if right and problem.kind == "code":
            variants = variants_of(problem.id, problem.reference["solutions"][0], _MUTANTS)
            wrong = [*map(fenced, variants), *wrong]
        solutions = [await self._first(problem, right, 1.0)] if right else []
        solutions.append(await self._first(problem, wrong, 0.0))
        return [self._scripts(solution, verdict) for solution, verdict in product(solutions, VERDICTS)]

    def _scripts(self, solution: str, verdict: str) -> dict[str, Agent]:
        """A solution from each agent whose texts are graded, a verdict from the others, else both."""
        texts = {True: solution, False: verdict, None: f"{solution}\n\n{verdict}"}
        agents = self.game.rules.possible_agents
        return {agent: FunctionAgent(_always(texts[self.graded.get(agent)])) for agent in agents}

    async def _first(self, problem: Problem, texts: Sequence[str], score: float) -> str:
        """The first text with this score, else the last one."""
        for text in texts[:-1]:
            if (await self.game.grader.grade(problem, text)).score == score:
                return text
        return texts[-1]

    async def _play(self, problem: Problem, agents: Mapping[str, Agent]) -> Tree:
        tree = await play(self.game, agents, Job(problem), seed=self.seed)
        if tree.fault:
            raise ModelError(f"an episode of the audit could not be finished: {tree.fault}")
        return tree

    async def _probe(self, problem: Problem) -> tuple[list[AuditRow], dict[str, bool]]:
        """Which agents read the reference, here one to search for, and whose texts are graded."""
        reference: Any = _SECRET
        if problem.kind == "code" and problem.reference is not None:
            reference = {**problem.reference, "solutions": [_SECRET]}
        leaks, graded = set[tuple[str, str]](), dict[str, bool]()

        def reader(agent: str, text: str) -> Agent:
            def write(observation: Observation) -> str:
                leaks.update((agent, name) for name, value in observation.items() if _SECRET in str(value))
                return text

            return FunctionAgent(write)

        for verdict in VERDICTS:
            text = f"{wrong_solution(problem)}\n\n{verdict}"
            agents = {agent: reader(agent, text) for agent in self.game.rules.possible_agents}
            tree = await self._play(replace(problem, reference=reference), agents)
            graded |= {turn.agent: turn.grade is not None for turn in tree.turns}
        return [leak_row(agent, name, problem) for agent, name in sorted(leaks)], graded


def _always(text: str) -> Write:
    return lambda observation: text


def _copy_of(number: int, statement: str) -> Write:
    def write(observation: Observation) -> str:
        texts = [value for value in observation.values() if isinstance(value, str) and value != statement]
        return texts[number % len(texts)] if texts else ""

    return write


def _with_memory(game: Game) -> Game:
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=_Remembering(visibility.grader))
    return replace(game, grader=_Remembering(game.grader), visibility=visibility)
