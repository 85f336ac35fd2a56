"""Environment ids: ``<problem set>-<rules>``, any problem set with any rules.

    aime-solve-verify-correct        built in
    my_module:my-set-my-rules        my_module is imported first; it registers its parts

Parts are registered by name: problem sets in `mars_env.problems`, rules here. A package can also
declare them as entry points (groups ``mars_env.problems`` and ``mars_env.rules``), and they are found
without an import by the user. An `EnvSpec` is plain data, so it reaches worker processes as it is.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

import pettingzoo
from pettingzoo.env_registry.registration import aec_registry

from mars_env.envs.evidence import Evidence
from mars_env.envs.game import Game
from mars_env.envs.growers import Linear, MakeGrower
from mars_env.envs.rewards import PAPER_REWARDS
from mars_env.envs.rules import Rules
from mars_env.envs.search_grower import SearchGrower
from mars_env.envs.solve import Solve
from mars_env.envs.solve_verify_correct import (
    INFERENCE,
    TRAINING,
    Schedule,
    SolveVerifyCorrect,
    public_evidence,
)
from mars_env.envs.tree_search import SEARCH_REWARDS, search_evidence, tree_search
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.problems import ProblemSet, list_problem_sets, register_problem_set
from mars_env.problems.registry import Loader
from mars_env.types import Grader, Reward, TeamReward


@dataclass(frozen=True, slots=True)
class RulesSpec:
    """Rules by name.

    Attributes:
        make: Settings (keyword arguments of `make`) in, rules out. One that has a parameter ``kind`` is
            told the kind of the problems; one that has ``agents``, how many a list of agents holds.
        rewards: Step rewards by role, unless the user gives others.
        grower: What grows a tree in play and evaluation.
        training: Settings that training takes unless told otherwise.
        evidence: What agents may read of judgements, and a search may see, given the rules and the kind.
    """

    make: Callable[..., Rules[Any]]
    rewards: Mapping[str, Reward] = field(default_factory=lambda: PAPER_REWARDS)
    grower: MakeGrower = Linear
    training: Mapping[str, Any] = field(default_factory=dict)
    evidence: Callable[[Rules[Any], str], Evidence | None] | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the settings that `make` declares."""
        return frozenset(inspect.signature(self.make).parameters)


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment by name, as plain data.

    Attributes:
        problems: Name of the problem set (or path of a problem file).
        rules: Name of the rules.
        module: Imported first, to register what is the user's own.
        settings: Settings of the rules.
    """

    problems: str
    rules: str
    module: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id that gives this spec, settings aside.

        Example:
            >>> EnvSpec("aime", "solve").id
            'aime-solve'
        """
        prefix = f"{self.module}:" if self.module else ""
        return f"{prefix}{self.problems}-{self.rules}"


def solve_verify_correct(
    schedule: str | Mapping[str, Any] | Schedule = "inference",
    *,
    public_feedback: bool = False,
    **numbers: Any,
) -> Rules[Any]:
    """The rules of MarsRL.

    Args:
        schedule: ``"inference"``, ``"training"`` or numbers of one's own.
        public_feedback: Whether the Verifier reads what came of a program's public tests.
        **numbers: Single numbers of `Schedule` that take the place of the schedule's.

    Raises:
        ConfigError: A setting is wrong.

    Example:
        >>> solve_verify_correct("training", rounds=1).schedule.rounds
        1
    """
    presets = {"inference": INFERENCE, "training": TRAINING}
    if not isinstance(public_feedback, bool):
        raise ConfigError(f"public_feedback is true or false, got {public_feedback!r}")
    if isinstance(schedule, str):
        if schedule not in presets:
            raise ConfigError(f"schedule must be 'inference', 'training' or a Schedule, got {schedule!r}")
        schedule = presets[schedule]
    base = schedule.model_dump() if isinstance(schedule, Schedule) else dict(schedule)
    try:
        return SolveVerifyCorrect(Schedule(**{**base, **numbers}), public_feedback)
    except ValueError as error:
        raise ConfigError(f"these settings do not fit solve-verify-correct: {error}") from error


_IDS: dict[str, tuple[str, str]] = {}
"""Registered whole ids: their problem set and their rules."""

_RULES: dict[str, RulesSpec] = {
    "solve-verify-correct": RulesSpec(
        solve_verify_correct, training={"schedule": "training"}, evidence=public_evidence
    ),
    "solve": RulesSpec(Solve),
    "self-refine": RulesSpec(lambda revisions=1: Solve(revisions=revisions)),
    "tree-search": RulesSpec(
        tree_search, SEARCH_REWARDS, SearchGrower, {"schedule": "training"}, search_evidence
    ),
}


def register_rules(
    name: str,
    make: Callable[..., Rules[Any]],
    *,
    rewards: Mapping[str, Reward] = PAPER_REWARDS,
    grower: MakeGrower = Linear,
    training: Mapping[str, Any] | None = None,
    evidence: Callable[[Rules[Any], str], Evidence | None] | None = None,
) -> None:
    """Register rules by name, so that ``<any set>-<name>`` can be made.

    Registering the same name again replaces it, as a reloaded module must.

    Args:
        name: Of the rules.
        make: Settings (keyword arguments of `mars_env.make`) in, rules out.
        rewards: Step rewards by role, unless the user gives others.
        grower: What grows a tree in play and evaluation.
        training: Settings that `mars-env train` takes unless told otherwise.
        evidence: What agents may read of the judgements of their submissions, given the rules and the kind of
            the problems; the rules are then `mars_env.envs.rules.Informed`.

    Raises:
        ConfigError: The name is empty or holds a colon or a slash.
    """
    if not name or any(mark in name for mark in ":/ "):
        raise ConfigError(f"the name of rules must be a word without ':', '/' or spaces, got {name!r}")
    _RULES[name] = RulesSpec(make, rewards, grower, training or {}, evidence)


def register(
    env_id: str,
    *,
    problems: str | ProblemSet | Loader,
    rules: str | Callable[..., Rules[Any]],
    rewards: Mapping[str, Reward] = PAPER_REWARDS,
    grower: MakeGrower = Linear,
) -> None:
    """Register an environment under an id of your own, here and with PettingZoo.

    For parts that are to be combined with others, use `register_rules` and
    `mars_env.problems.register_problem_set` instead.

    Args:
        env_id: The id, e.g. ``"riddles-debate"``.
        problems: Name of a set, a set, or a loader of one.
        rules: Name of rules, or a function of settings that makes them.
        rewards: Step rewards by role.
        grower: What grows a tree in play and evaluation.

    Raises:
        ConfigError: A name is malformed or taken.

    Example:
        >>> from mars_env.envs.solve import Solve
        >>> register("sums-alone", problems="arithmetic", rules=Solve)
        >>> spec("sums-alone").problems
        'arithmetic'
    """
    if isinstance(problems, ProblemSet):
        whole = problems
        problems = lambda *, seed=0, split=None: whole  # noqa: E731 (a loader of a set in hand)
    if not isinstance(problems, str):
        register_problem_set(env_id, problems)
        problems = env_id
    if not isinstance(rules, str):
        register_rules(env_id, rules, rewards=rewards, grower=grower)
        rules = env_id
    _IDS[env_id] = (problems, rules)
    register_with_pettingzoo([env_id])


def register_with_pettingzoo(env_ids: Iterable[str]) -> None:
    """Make ids known to PettingZoo: ``pettingzoo.make("aec", "mars_env/<id>-v0")``."""
    for env_id in env_ids:
        name = f"mars_env/{env_id}-v0"
        aec_registry.pop(name, None)  # registering again, as a reloaded module must, is no clash
        pettingzoo.register("aec", name, "mars_env:make", kwargs={"env_id": env_id})


@cache
def _declared(group: str) -> Mapping[str, Any]:
    """Entry points of other packages, by name."""
    return MappingProxyType({point.name: point for point in entry_points(group=group)})


def rules_names() -> list[str]:
    """All rules by name, built in, registered and declared."""
    return sorted({*_RULES, *_declared("mars_env.rules")})


def rules_spec(name: str) -> RulesSpec:
    """The rules of a name.

    Raises:
        ConfigError: There are none; the message lists what there is.
    """
    if name not in _RULES and name in _declared("mars_env.rules"):
        found = _declared("mars_env.rules")[name].load()
        _RULES[name] = found if isinstance(found, RulesSpec) else RulesSpec(found)
    if name not in _RULES:
        raise ConfigError(f"there are no rules {name!r}; known are {', '.join(rules_names())}")
    return _RULES[name]


def spec(env_id: str, **settings: Any) -> EnvSpec:
    """The spec of an id.

    Raises:
        ConfigError: No rules end the id, or its module cannot be imported.

    Example:
        >>> spec("aime-solve-verify-correct").rules
        'solve-verify-correct'
    """
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(
                f"the module of the environment id {env_id!r} cannot be imported: {error}"
            ) from error
    if name in _IDS:
        problems, rules = _IDS[name]
        return EnvSpec(problems, rules, module, settings)
    endings = [rules for rules in rules_names() if name.endswith(f"-{rules}")]
    if not endings:
        raise ConfigError(
            f"the environment id {env_id!r} is not of the form <problem set>-<rules>; "
            f"known rules are {', '.join(rules_names())}"
        )
    rules = max(endings, key=len)
    return EnvSpec(name[: -len(rules) - 1], rules, module, settings)


def list_envs() -> list[str]:
    """All ids that `make` knows without an import by the user.

    Example:
        >>> "aime-solve-verify-correct" in list_envs()
        True
    """
    sets = [name for name in list_problem_sets() if name not in _IDS]
    rules = [name for name in rules_names() if name not in _IDS]
    return sorted([*_IDS, *(f"{problems}-{name}" for problems in sets for name in rules)])


def resolve(name: str) -> Any:
    """The object that ``"module:attribute"`` names: how the command line takes a user's own parts.

    Raises:
        ConfigError: The module or the attribute is not there.

    Example:
        >>> resolve("mars_env.envs.rewards:outcome").__name__
        'outcome'
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{name!r} is not of the form 'module:attribute' of something importable: {error}"
        ) from error


def make_game(
    env_spec: EnvSpec,
    *,
    kind: str = "math",
    rewards: Mapping[str, Reward | str] | None = None,
    team_reward: TeamReward | str | None = None,
    grader: Grader | str | None = None,
    grower: MakeGrower | None = None,
) -> Game:
    """The game of a spec: its rules, judged and rewarded as the rules say unless told otherwise.

    Args:
        env_spec: Names the rules and their settings.
        kind: The kind of the problems (``"math"``, ``"code"``), which chooses the grader.
        rewards: Step rewards by role that take the place of the rules' own; functions or
            ``"module:attribute"``.
        team_reward: Rewards that need the whole tree; likewise.
        grader: Takes the place of the kind's own; likewise.
        grower: Takes the place of the rules' own.

    Raises:
        ConfigError: The settings do not fit the rules, or a reward names a role there is none of.
    """
    if env_spec.module:
        importlib.import_module(env_spec.module)
    found = rules_spec(env_spec.rules)
    try:
        told = {"kind": kind} if "kind" in found.parameters else {}
        rules = found.make(**told, **env_spec.settings)
    except TypeError as error:
        raise ConfigError(f"these settings do not fit the rules {env_spec.rules!r}: {error}") from error
    own = {role: resolve(r) if isinstance(r, str) else r for role, r in (rewards or {}).items()}
    roles = {agent.rpartition("_")[0] or agent for agent in rules.possible_agents}
    if unknown := sorted(own.keys() - roles):
        raise ConfigError(
            f"rewards are given for {unknown}, but the roles of {env_spec.rules!r} are {sorted(roles)}"
        )
    if isinstance(grader, str):
        grader = resolve(grader)
        grader = grader() if isinstance(grader, type) else grader
    game = Game(
        rules=rules,
        grader=grader_for(kind) if grader is None else grader,  # type: ignore[arg-type]
        rewards=MappingProxyType({**found.rewards, **own}),
        team_reward=resolve(team_reward) if isinstance(team_reward, str) else team_reward,
        grower=found.grower,
        evidence=found.evidence(rules, kind) if found.evidence else None,
    )
    return game if grower is None else replace(game, grower=grower)
