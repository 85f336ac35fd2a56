"""Environment ids ``[module:]<problem set>-<rules>``: any problem set with any rules.

Rules are registered here by name, or declared by a package as an entry point of ``mars_env.rules``.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from mars_env.envs.specs import EnvSpec, RulesSpec, refuse_misfits
from mars_env.errors import ConfigError
from mars_env.lazy import declared, import_object, imported
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.registry import WITH_DOCUMENTS, Loader, list_problem_sets, register_problem_set
from mars_env.text import choices, shown, suggestion
from mars_env.types import Reward, TeamReward

if TYPE_CHECKING:
    from mars_env.envs.growers import MakeGrower
    from mars_env.envs.rules import Rules

_BUILT_IN = {
    "solve-verify-correct": "mars_env.envs.solve_verify_correct:SolveVerifyCorrect",
    "solve": "mars_env.envs.solve:Solve",
    "self-refine": "mars_env.envs.solve:self_refine",
    "spell": "mars_env.methods.spell.rules:Spell",
    "tree-search": "mars_env.envs.tree_search:TreeSearch",
}
"""The library's own rules, imported on use."""

ENTRY_POINTS = "mars_env.rules"
"""Group of the entry points that offer rules: name -> class, function or `RulesSpec`."""

_ON_DOCUMENTS = frozenset({"spell"})
"""Rules of these that are played on documents, and on nothing else."""

_RULES: dict[str, RulesSpec] = {}
"""The rules of users."""

_IDS: dict[str, tuple[str, str]] = {}
"""Registered whole ids: their problem set and their rules."""


def register_rules(
    name: str,
    make: "Callable[..., Rules[Any]] | RulesSpec",
    *,
    rewards: Mapping[str, Reward | str] | None = None,
    team_reward: TeamReward | str | None = None,
    grower: "MakeGrower | str | None" = None,
) -> None:
    """Register rules by name, so that ``<any set>-<name>`` can be made.

    The defaults of a rules class are its class attributes (see `RulesSpec`); arguments here replace them.
    Registering the same name again replaces it, as a reloaded module must.

    Args:
        name: Of the rules.
        make: The rules class, a function that makes rules of settings, or a `RulesSpec`.
        rewards: Step rewards by role, unless the user gives others.
        team_reward: Rewards that need the whole tree, unless the user gives others.
        grower: What grows a tree in play and evaluation; None for one that plays an episode.

    Raises:
        ConfigError: The name is empty or holds a colon or a slash, or an argument is of another kind.
    """
    if not name or any(mark in name for mark in ":/ "):
        raise ConfigError(f"the name of rules must be a word without ':', '/' or spaces, got {name!r}")
    if not callable(make) and not isinstance(make, RulesSpec):
        raise ConfigError(f"rules are given by their class, or a function of settings, not {shown(make)}")
    _RULES[name] = RulesSpec.of(make, rewards=rewards, team_reward=team_reward, grower=grower)


def register(
    env_id: str,
    *,
    problems: str | ProblemSet | Loader,
    rules: "str | Callable[..., Rules[Any]] | RulesSpec",
    rewards: Mapping[str, Reward | str] | None = None,
    team_reward: TeamReward | str | None = None,
    grower: "MakeGrower | str | None" = None,
) -> None:
    """Register an environment under your own id, here, with PettingZoo and with Gymnasium.

    To combine its parts with others, use `register_rules` and
    `mars_env.problems.register_problem_set` instead.

    Args:
        env_id: The id, e.g. ``"riddles-debate"``.
        problems: Name of a set, a set, or a loader of one.
        rules: Name of rules, a function of settings that makes them, or a `RulesSpec`.
        rewards: Step rewards by role; they replace those of named rules.
        team_reward: As for `register_rules`; by default that of named rules, and so is `grower`.
        grower: As for `register_rules`.

    Raises:
        ConfigError: A name is malformed or taken, or a reward cannot be called as it will be.

    Example:
        >>> from mars_env.envs.solve import Solve
        >>> register("sums-alone", problems="arithmetic", rules=Solve)
        >>> spec("sums-alone").problems
        'arithmetic'
    """
    if not isinstance(problems, str | ProblemSet) and not callable(problems):
        raise ConfigError(f"problems= is the name of a set, a set, or a loader of one, not {shown(problems)}")
    if not isinstance(rules, str | RulesSpec) and not callable(rules):
        raise ConfigError(f"rules= is the name of rules or a function that makes them, not {shown(rules)}")
    if env_id not in _IDS and env_id in list_envs():
        known = spec(env_id)
        if (known.problems, known.rules) != (problems, rules):
            raise ConfigError(f"the id {env_id!r} is taken by {known.problems} with the rules {known.rules}")
    if not isinstance(problems, str):
        register_problem_set(env_id, problems)
        problems = env_id
    if isinstance(rules, str) and any(part is not None for part in (rewards, team_reward, grower)):
        refuse_misfits(rewards or {})
        rules = rules_spec(rules)
        rewards = {**rules.rewards, **(rewards or {})}
    if not isinstance(rules, str):
        register_rules(env_id, rules, rewards=rewards, team_reward=team_reward, grower=grower)
        rules = env_id
    _IDS[env_id] = (problems, rules)
    if "pettingzoo" in sys.modules:  # otherwise all ids are registered once it is imported
        register_with_pettingzoo([env_id])
    if "gymnasium" in sys.modules:
        register_with_gymnasium([env_id])


def register_with_pettingzoo(env_ids: Iterable[str] = ()) -> None:
    """Make ids, by default all, known to PettingZoo: ``pettingzoo.make("aec", "mars_env/<id>-v0")``."""
    import pettingzoo
    from pettingzoo.env_registry.registration import aec_registry

    for env_id in env_ids or list_envs():
        name = f"mars_env/{env_id}-v0"
        aec_registry.pop(name, None)  # a reloaded module registers again
        pettingzoo.register("aec", name, "mars_env:make", kwargs={"env_id": env_id})


def register_with_gymnasium(env_ids: Iterable[str] = ()) -> None:
    """Likewise to Gymnasium: ``gymnasium.make("mars_env/<id>-v0", learner=..., partners=...)``."""
    import gymnasium

    for env_id in env_ids or list_envs():
        name = f"mars_env/{env_id}-v0"
        gymnasium.registry.pop(name, None)
        gymnasium.register(name, "mars_env.api:make_gymnasium", kwargs={"env_id": env_id})


def rules_names() -> list[str]:
    """All rules by name, built in, registered and declared."""
    return sorted({*_BUILT_IN, *_RULES, *declared(ENTRY_POINTS)})


def rules_spec(name: str) -> RulesSpec:
    """The rules of a name; a user's replace the library's. Unknown rules are a ConfigError."""
    if name in _RULES:
        return _RULES[name]
    if name in _BUILT_IN:
        return RulesSpec.of(import_object(_BUILT_IN[name]))
    if name not in declared(ENTRY_POINTS):
        raise ConfigError(f"there are no rules {shown(name)}; known are {choices(name, rules_names())}")
    _RULES[name] = RulesSpec.of(declared(ENTRY_POINTS)[name].load())
    return _RULES[name]


def refuse_unknown(rules: str, settings: Iterable[str], arguments: Collection[str] = ()) -> None:
    """Reject settings that rules do not have; suggests the closest setting, or one of `arguments`.

    Example:
        >>> refuse_unknown("solve", ["sample"], ["samples", "seed"])
        Traceback (most recent call last):
        mars_env.errors.ConfigError: the rules 'solve' have no setting 'sample'; they have revisions; \
did you mean 'samples'?
    """
    found = rules_spec(rules)
    known = found.parameters - {"kind"}
    if not found.open_ended and (unknown := sorted({*settings} - found.parameters)):
        they_have = f"they have {', '.join(sorted(known)) or 'none'}"
        hint = suggestion(unknown[0], {*known, *arguments})
        raise ConfigError(f"the rules {rules!r} have no setting {shown(unknown[0])}; {they_have}{hint}")


def with_team_size(env_spec: EnvSpec, size: int | None) -> EnvSpec:
    """The spec with so many agents, if its rules leave their number open and the spec does not say it."""
    number = rules_spec(env_spec.rules).team_size
    if number is None or not size:
        return env_spec
    return replace(env_spec, settings={number: size, **env_spec.settings})


def spec(env_id: str, /, settings: Mapping[str, Any] | None = None, **more: Any) -> EnvSpec:
    """The spec of an id, with settings of its rules: as a mapping, or as keywords.

    Raises:
        ConfigError: No rules end the id, or its module cannot be imported.

    Example:
        >>> spec("aime-solve-verify-correct").rules
        'solve-verify-correct'
    """
    if not isinstance(env_id, str):
        raise ConfigError(f"an environment's id is a string such as 'aime-solve', not {shown(env_id)}")
    settings = {**(settings or {}), **more}
    module, _, name = env_id.rpartition(":")
    if module:
        imported(module, env_id)
    if name in _IDS:
        problems, rules = _IDS[name]
        return EnvSpec(problems, rules, module, settings)
    endings = [rules for rules in rules_names() if name.endswith(f"-{rules}")]
    if not endings:
        known = f"known rules are {', '.join(rules_names())}{_hint(name)}"
        raise ConfigError(f"the id {shown(env_id)} is not of the form <problem set>-<rules>; {known}")
    rules = max(endings, key=len)
    return EnvSpec(name[: -len(rules) - 1], rules, module, settings)


def spec_or_rules(env_id: str, settings: Mapping[str, Any] | None = None) -> EnvSpec:
    """As `spec`, and bare rules will do: for play whose problems come from elsewhere, such as a question."""
    module, _, name = env_id.rpartition(":")
    if module:
        imported(module, env_id)
    return EnvSpec("", name, module, settings or {}) if name in rules_names() else spec(env_id, settings)


def _hint(name: str) -> str:
    """A hint at an id: one that has the name as its half, else the closest one."""
    known = list_envs()
    halves = [each for each in known if each.endswith(f"-{name}") or each.startswith(f"{name}-")]
    return f"; for example {min(halves, key=len)!r}" if halves else suggestion(name, known)


def list_envs() -> list[str]:
    """All ids that `make` knows before the user imports anything: each set with all rules that fit it.

    Example:
        >>> ids = list_envs()
        >>> "aime-solve-verify-correct" in ids, "reports-spell" in ids, "aime-spell" in ids
        (True, True, False)
    """
    pairs = (pair for pair in product(list_problem_sets(), rules_names()) if not {*pair} & _IDS.keys())
    fitting = (pair for pair in pairs if (pair[0] in WITH_DOCUMENTS) == (pair[1] in _ON_DOCUMENTS))
    return sorted([*_IDS, *map("-".join, fitting)])
