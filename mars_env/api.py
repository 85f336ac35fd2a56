"""The functions of `import mars_env` (`make`, `evaluate` ...): they combine the parts, with defaults."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.envs.aec import MarsEnv
from mars_env.envs.game import make_game
from mars_env.envs.game_function import GameFunction
from mars_env.envs.growers import MakeGrower
from mars_env.envs.gymnasium_view import GymnasiumView, as_gymnasium
from mars_env.envs.registry import EnvSpec, find_game, spec, with_team_size
from mars_env.errors import ConfigError
from mars_env.grading import check_reference
from mars_env.identity import identity_of
from mars_env.players import Player, validate_playable
from mars_env.problems import ProblemSet, load_set
from mars_env.rollout import read_run
from mars_env.rollout.contexts import require_room
from mars_env.sync import blocking
from mars_env.text import brief, logger
from mars_env.types import Agent, Grader, Model, Problem, Reward, TeamReward, Tree

if TYPE_CHECKING:
    from mars_env.distributed import Placement
    from mars_env.evaluation.compare import Comparison
    from mars_env.evaluation.costs import Prices
    from mars_env.evaluation.plan import Plan, Play
    from mars_env.evaluation.report import Report
    from mars_env.rollout.engine import OnTurns

log = logger("mars_env")

Env = str | GameFunction | EnvSpec
"""An environment's id, a game (which needs problems), its name, ``"my_module:my_game"``, or an `EnvSpec`."""

Problems = str | Path | ProblemSet | Sequence[Problem]
"""A set's name, a problem file, a set, or problems in hand."""

Team = str | Player | Model | Mapping[str, Player | Model | str] | Sequence[Player | Model | str]
"""An agent, model or specification for the whole team, a mapping of these by agent or role, or a list."""


def load_problems(name_or_path: str | Path, **options: Any) -> ProblemSet:
    """`mars_env.problems.load_set`, which here rejects problems whose reference no grader could use.

    Example:
        >>> import mars_env
        >>> mars_env.load_problems("aime", n=10, seed=7)[3].metadata["licence"]
        'Apache-2.0'
    """
    options.setdefault("check", check_reference)
    return load_set(name_or_path, **options)


def as_problem_set(problems: Problems) -> ProblemSet:
    """The problem set that is named or in hand."""
    if isinstance(problems, ProblemSet):
        return problems
    if isinstance(problems, str | Path):
        return load_problems(problems)
    listed = ProblemSet("given", problems)
    if not listed:
        raise ConfigError("problems= has no problem: give at least one")
    return listed


def make(  # public edge: friendly keywords, each with a default
    env_id: Env,
    *,
    problems: Problems | None = None,
    rewards: Mapping[str, Reward | str] | None = None,
    team_reward: TeamReward | str | None = None,
    grader: Grader | str | None = None,
    grower: MakeGrower | str | None = None,
    render_mode: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> MarsEnv:
    """Make an environment, by its id ``<problem set>-<game>``, or of a game and problems.

    Args:
        env_id: E.g. ``"aime-solve-verify-correct"``; ``"my_module:my-set-my-game"`` imports my_module first;
            a game, its name or ``"my_module:my_game"``; or an `EnvSpec`.
        problems: The problems of a game, or others than the id names: a set's name (``"aime25"``), a file, a
            set.
        rewards: Step rewards by role that replace those of the game.
        team_reward: Rewards that need the whole tree, given at its end.
        grader: Replaces the grader for the problems' kind.
        grower: Replaces that of the game.
        render_mode: ``"ansi"``, ``"human"`` or None.
        settings: Settings of the game, e.g. ``{"schedule": "training", "rounds": 3}``. A `verifier` and a
            `reward_model` may be specifications (see `mars_env.agents`).
        **more: Settings by keyword; they replace those in `settings`.

    Raises:
        ConfigError: No such id, problem set or setting.

    Example:
        >>> env = make("aime-solve-verify-correct", schedule="training", rounds=1)
        >>> env.reset(seed=0)
        >>> env.agent_selection, sorted(env.observe("solver_0"))
        ('solver_0', ['problem'])
    """
    parts = {"rewards": rewards, "team_reward": team_reward, "grader": grader, "grower": grower}
    env_spec = spec_with(make, env_id, {**(settings or {}), **more}, **parts)
    return make_env(env_spec, problems, render_mode=render_mode)


def make_env(
    env_spec: EnvSpec, problems: Problems | None = None, *, render_mode: str | None = None
) -> MarsEnv:
    """The environment of a spec, on its own problems or others; errors as for `make`."""
    if problems is None and not env_spec.problems:
        name = env_spec.game_name
        raise ConfigError(
            f"say on which problems to play {name!r}: problems=, or an id such as 'aime-{name}'"
        )
    chosen = as_problem_set(env_spec.problems if problems is None else problems)
    if chosen.name == "aime":
        _warn_of_aime()
    game = make_game(env_spec, kind=chosen[0].kind)
    if game.needs_reference and not chosen.generated:
        _validate_kinds(chosen)
    if game.visibility is not None and not game.visibility.searched:
        game.visibility.validate_problems(chosen[:1] if chosen.endless else chosen)
    return MarsEnv(game, chosen, name=env_spec.id, render_mode=render_mode)


@cache
def _warn_of_aime() -> None:
    log.warning("the problems of 'aime' are generated in its style; the real ones are aime24 and aime25")


def _validate_kinds(problems: ProblemSet) -> None:
    """Reject problems of several kinds: each kind has a grader, and a game has one."""
    first = {problem.kind: problem.id for problem in reversed(problems)}
    if len(first) > 1:
        named = " and ".join(f"{brief(one)} ({kind})" for kind, one in first.items())
        raise ConfigError(f"one game cannot grade {named}: play each kind alone, or give a grader for both")


def make_gymnasium(
    env_id: Env, *, learner: str | None = None, partners: Mapping[str, Player] | None = None, **options: Any
) -> GymnasiumView:
    """What ``gymnasium.make("mars_env/<id>-v0")`` makes: an agent learns, by default the first.

    `partners` are the others, by agent or role; a `ConfigError` if one is missing.
    """
    keywords = _keywords(make) | _keywords(make_gymnasium)
    env_spec = spec(env_id)
    find_game(env_spec.game).validate_names(options.keys() - keywords, keywords)
    env = make(env_spec, **options)
    return as_gymnasium(env, learner=learner or env.possible_agents[0], partners=partners or {})


def aevaluate(  # public edge: friendly keywords, each with a default
    env_id: Env,
    *,
    agents: Team,
    problems: Problems | None = None,
    limit: int | None = None,
    samples: int = 1,
    seed: int = 0,
    concurrency: int = 64,
    baselines: bool = False,
    prices: Prices | None = None,
    out: str | Path | None = None,
    rewards: Mapping[str, Reward | str] | None = None,
    team_reward: TeamReward | str | None = None,
    grader: Grader | str | None = None,
    turn_timeout: float | None = None,
    workers: str | int | Placement | None = None,
    on_tree: Callable[[Tree], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Coroutine[Any, Any, Report]:
    r"""Play every problem with a team, once or several times, and report with 95% intervals.

    ``evaluate`` waits for the report. ``aevaluate`` is the same for code in an event loop, to be awaited; the
    call itself loads agents and problems. If its task is cancelled, the run stops within seconds, and the
    same call continues what `out` holds.

    Args:
        env_id: As for `make`.
        agents: An agent, a model or a function for the whole team, a mapping of these by agent or role, a
            list with one for each agent (a tree search gets as many as are listed or named), or a
            specification as on the command line (see `mars_env.agents.make_agents`).
        problems: As for `make`.
        limit: Number of problems, from the first; by default all of a real set, 100 of a generated one.
        samples: Episodes per problem (the n of avg@n).
        seed: Together with a deterministic model, fixes everything but the timings.
        concurrency: Episodes played at the same time.
        baselines: Also spend the System's tokens without the team: one sample, a majority vote,
            self-refinement and going on by the Solver alone; a vote weighted by the team's Verifier, and
            fresh retries until it accepts.
        prices: Of a million tokens read and sampled, by policy (the empty name: any other); with them
            the report says what the run costs.
        out: Directory to store the run in; the same call continues an interrupted one.
        rewards: As for `make`.
        team_reward: As for `make`.
        grader: As for `make`.
        turn_timeout: Seconds that an agent may take for a turn; after them its tree has a fault.
        workers: Play on Ray: how many workers, or a `mars_env.distributed.Placement` (docs/machines.md). The
            result is the same.
        on_tree: Called with each finished tree.
        settings: As for `make`.
        **more: As for `make`.

    Raises:
        ConfigError: An argument is wrong.
        StoreError: `out` holds a run of another configuration.
        ModelError: No episode could be finished.

    Example:
        >>> report = evaluate("arithmetic-solve", agents=lambda observation: "\\boxed{5}", limit=3)
        >>> report.counts.episodes
        3
    """
    from mars_env.evaluation.run import play_plan  # brings scipy: not for those who only make environments

    if out is not None and not isinstance(out, str | Path):
        raise ConfigError(f"out is the directory to store the run in, not {brief(out)}")
    if on_tree is not None and not callable(on_tree):
        raise ConfigError(f"on_tree is a function of a tree, not {brief(on_tree)}")
    parts = {"rewards": rewards, "team_reward": team_reward, "grader": grader, "turn_timeout": turn_timeout}
    env_spec = spec_with(aevaluate, env_id, {**(settings or {}), **more}, **parts)
    repeats: dict[str, Any] = {"samples": samples, "seed": seed, "concurrency": concurrency}
    repeats |= {"baselines": baselines, "prices": prices}
    plan = prepare(env_spec, agents, problems, limit=limit, elsewhere=workers is not None, **repeats)

    async def evaluated() -> Report:
        async with start_play(plan, workers) as play:
            report, _ = await play_plan(plan, play, out=None if out is None else Path(out), on_tree=on_tree)
            return report

    return evaluated()


evaluate = blocking(aevaluate, "evaluate")
"""As `aevaluate`; waits for the report."""


@asynccontextmanager
async def start_play(
    plan: Plan,
    workers: str | int | Placement | None = None,
    *,
    address: str | None = None,
    on_turns: OnTurns | None = None,
) -> AsyncIterator[Play]:
    """What plays an evaluation: here, or with `workers` on Ray, at `address` if it runs already."""
    from mars_env.evaluation.plan import LocalPlay
    from mars_env.models.preflight import preflight

    if workers is None:
        game, agents = plan.game, plan.make_agents()
        validate_playable(agents, "an evaluation")
        await preflight(agents, game)
        await require_room(game.rules, agents, plan.problems, game.grader)
        yield LocalPlay(game, agents, on_turns)
        return
    from mars_env.distributed import Fleet, as_placement

    async with Fleet(plan.make_game, plan.make_agents, as_placement(workers, address)) as fleet:
        await fleet.check(plan.problems, preflight)
        yield LocalPlay(fleet.game, fleet.agents, on_turns)


def prepare(
    env_spec: EnvSpec,
    agents: Team,
    problems: Problems | None = None,
    *,
    limit: int | None = None,
    elsewhere: bool = False,
    **repeats: Any,
) -> Plan:
    """Make what an evaluation needs.

    With `elsewhere` other processes play, and agents given as strings are not made in this one. `repeats` are
    ``samples``, ``seed``, ``concurrency``, ``baselines`` and ``prices`` of the `Plan`.
    """
    from mars_env.agents.registry import make_agents, roles_of, team_identity, team_size
    from mars_env.evaluation.plan import Plan, first_problems

    env_spec = with_team_size(env_spec, team_size(agents))
    env = make_env(env_spec, problems)
    roles, chosen = roles_of(env.game.rules), first_problems(env.problems, limit)
    tested = chosen if "public_tests" in str(agents) or not elsewhere else None  # it travels with the agents
    make = partial(make_agents, agents, env.possible_agents, roles=roles, problems=tested)
    named: str | Mapping[str, Agent] = agents if isinstance(agents, str) else make()
    identities = team_identity(named, env.possible_agents, roles)
    return Plan(
        title=str(env),
        problems=chosen,
        game=env.game,
        make_game=partial(make_game, env_spec, kind=env.problems[0].kind),
        make_agents=make if elsewhere or isinstance(named, str) else lambda: named,
        config=described_spec(env_spec, named, identities),
        **repeats,
    )


def spec_with(
    function: Callable[..., Any], env_id: Env, settings: Mapping[str, Any], **parts: Any
) -> EnvSpec:
    """A spec in which settings and parts that are given replace those of the id or spec.

    A setting that the game does not have is a `ConfigError`; it may suggest a keyword of `function`.
    """
    env_spec = spec(env_id)
    find_game(env_spec.game).validate_names(settings, _keywords(function))
    changes: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
    return replace(env_spec, settings={**env_spec.settings, **settings}, **changes)


def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters.values()
    return frozenset(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def described_spec(
    env_spec: EnvSpec, agents: str | Mapping[str, Agent], identities: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What identifies a game and a team, in every process alike; and how readers see them."""
    from mars_env.agents.registry import named_identity

    game, settings = find_game(env_spec.game), env_spec.settings
    rewards = {**game.options.rewards, **env_spec.rewards}
    of_setting = {name: named_identity if name in game.options.parts else identity_of for name in settings}
    identity = {
        "agents": dict(identities),
        "settings": {name: of_setting[name](value) for name, value in settings.items()},
        "game": identity_of(game.function),
        "rewards": {role: named_identity(reward) for role, reward in rewards.items()},
    }
    for name in ("team_reward", "grader", "grower"):
        identity[name] = named_identity(getattr(env_spec, name) or getattr(game.options, name))
    parts = {"team_reward": env_spec.team_reward, "grader": env_spec.grader}
    described: dict[str, Any] = {name: _described(part) for name, part in parts.items() if part is not None}
    if env_spec.rewards:
        described["rewards"] = {role: _described(reward) for role, reward in env_spec.rewards.items()}
    policies = agents if isinstance(agents, str) else {name: agent.policy for name, agent in agents.items()}
    described_settings = {name: _described(value) for name, value in settings.items()}
    may_change = {"settings": described_settings, **described, "agents": policies}
    return {"must_match": identity, "may_change": may_change}


def _described(setting: Any) -> str:
    """A setting as a stored run records it: models and agents by name, the same in every process."""
    if setting is None or isinstance(setting, str | int | float | Mapping | Sequence):
        return str(setting)
    names = (getattr(setting, name, None) for name in ("policy", "name", "__name__"))
    return next((name for name in names if isinstance(name, str) and name), type(setting).__name__)


def compare(run_a: str | Path, run_b: str | Path) -> Comparison:
    """Paired differences between two stored runs of the same problems, B minus A.

    A `StoreError` if a directory holds no run, a `ConfigError` if they are of different problems.
    """
    from mars_env.evaluation.compare import compare_trees
    from mars_env.evaluation.trees import final_answer

    for run in (run_a, run_b):
        if not isinstance(run, str | Path):
            raise ConfigError(f"a run is given as its directory, not as {brief(run)}")
    a, b = read_run(run_a), read_run(run_b)
    votes = all(tree.problem.kind == "math" for tree in a.trees)  # to vote, programs would have to be run
    answer_of = final_answer if votes else None
    names = Path(run_a).absolute().name, Path(run_b).absolute().name
    if names[0] == names[1]:
        names = str(run_a), str(run_b)
    return compare_trees(a.trees, b.trees, names=names, answer_of=answer_of)
