"""Ways to credit a team, side by side: three games, equal sampled tokens, one ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from studies.common.claims import Claim, Judged, holm, judge_all, p_value
from studies.common.episodes import rewards_of
from studies.common.ledger import LedgerRow, seed_text, table
from studies.common.pages import ANSWERS, REPAIRS, SOLVER, SYSTEM
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.credit import figures
from studies.credit.games import GAMES
from studies.credit.recipe import QUICK, RECIPE
from studies.credit.training import Training, train_within

CHAIN_GAMES: Final = ("arithmetic", "sums")
ROLES: Final = {**dict.fromkeys(CHAIN_GAMES, ("solver", "verifier", "corrector")), "search": ("coder",)}


@dataclass(frozen=True, slots=True)
class Arm:
    """A game and a rule: `changes` of the settings of the update; None: the warm start, not trained."""

    game: str
    rule: str
    changes: Mapping[str, Any] | None = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in the ledger, such as "sums, c3"."""
        return f"{self.game}, {self.rule}"


CHAIN_RULES: Final[Mapping[str, dict[str, Any] | None]] = {
    "none": None,
    "marsrl": {},
    "team": {"credit": "team"},
    "c3": {"credit": "c3"},
    "ccpo": {"credit": "ccpo"},
    "dr-mas": {"credit": "dr-mas"},
    "at-grpo": {"credit": "at-grpo"},
    "balance": {"balance": True},
    "majority": {"labels": "majority"},
}
TREE_RULES: Final[Mapping[str, dict[str, Any] | None]] = {
    "none": None,
    "mars2": {"credit": "mars2"},
    "tree-shaped": {"credit": "mars2", "tree_credit": {}},
    "team": {"credit": "team"},
    "c3": {"credit": "c3"},
    "ccpo": {"credit": "ccpo"},
    "dr-mas": {"credit": "dr-mas"},
    "at-grpo": {"credit": "at-grpo"},
}
RULES: Final = {**dict.fromkeys(CHAIN_GAMES, CHAIN_RULES), "search": TREE_RULES}
BASES: Final = {**dict.fromkeys(CHAIN_GAMES, "marsrl"), "search": "mars2"}
"""The rule of each game's own paper, with which the others are compared."""
ARMS: Final = {
    arm.name: arm
    for arm in (Arm(game, rule, changes) for game, rules in RULES.items() for rule, changes in rules.items())
}


LEVEL: Final = 0.05
"""A primary comparison is shown if its corrected p-value is below this."""

REPAIR_COLUMNS: Final = {
    "acceptance_recall": "right accepted",
    **REPAIRS,
    "verifier_collapsed": "Verifier collapsed",
    "corrector_collapsed": "Corrector collapsed",
}
COLUMNS: Final = {
    **{game: {**ANSWERS, **REPAIR_COLUMNS} for game in CHAIN_GAMES},
    "search": {
        SOLVER: "fresh programs",
        SYSTEM: "search",
        "distinct": "different",
        "coder_collapsed": "collapsed",
    },
}
"""The columns of each game's table."""

COLLAPSED: Final = 0.02
"""A role that does its part in a smaller share of cases has collapsed."""


def collapsed_roles(figures: Mapping[str, float]) -> dict[str, float]:
    """Which roles of a team have stopped to do their part, as 1 or 0.

    A Verifier has collapsed if it finds fewer than 2% of the errors, or accepts fewer than 2% of the right
    solutions; a Corrector if it repairs fewer than 2% of what it gets; a coder if fewer than 2% of its
    programs are different. A figure that an evaluation lacks counts as 0: the role did not act.
    """
    parts = {
        "verifier": ("verifier_recall", "acceptance_recall"),
        "corrector": ("fix_rate",),
        "coder": ("distinct",),
    }
    roles = ("coder",) if "distinct" in figures else ("verifier", "corrector")
    return {
        f"{role}_collapsed": float(min(figures.get(name, 0.0) for name in parts[role]) < COLLAPSED)
        for role in roles
    }


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train a game's warm start by one rule, and evaluate it."""
    arm, game, began = ARMS[name], GAMES[ARMS[name].game], time.process_time()
    model, seed = game.start(run.seed, run.recipe, run.cache), run.seed
    started = time.process_time()
    training = Training(model)
    if arm.changes is not None:
        training = await train_within(game, model, arm.changes, seed, run.recipe.tokens[arm.game])
    trained = time.process_time()
    team = game.team(game.settings.with_(seed=seed), model)
    measured = await game.evaluate(team.agents, seed, run.recipe.problems[arm.game])
    measured |= collapsed_roles(measured)
    measured |= {"updates": float(len(training.history)), "sampled": float(sum(training.sampled[-1:]))}
    seconds = {"start": started - began, "training": trained - started}
    rewards = rewards_of(training.history, ROLES[arm.game])
    detail = {
        "rewards": {role: rounded(values) for role, values in rewards.items()},
        "sampled": training.sampled,
        "cpu_seconds": {part: round(value, 1) for part, value in seconds.items()},
    }
    return Result(measured, detail, seconds=time.process_time() - began)


def rounded(values: Sequence[float | None]) -> list[float | None]:
    """Rewards to four digits."""
    return [None if value is None else round(value, 4) for value in values]


def primary_claims(game: str) -> list[Claim]:
    """The primary comparisons of a game: each rule's System against that of the game's paper."""
    base = BASES[game]
    return [
        Claim(f"{game}: {rule} above {base}", f"{game}, {rule}", SYSTEM, f"{game}, {base}")
        for rule in RULES[game]
        if rule not in ("none", base)
    ]


CLAIMS: Final = tuple(claim for game in GAMES for claim in primary_claims(game))


def effects(rows: Sequence[LedgerRow]) -> dict[str, dict[str, Judged]]:
    """The primary comparisons that have rows, by game and rule."""
    judged = {game: judge_all(rows, primary_claims(game)) for game in GAMES}
    return {
        game: {ARMS[found.claim.arm].rule: found for found in every}
        for game, every in judged.items()
        if every
    }


def primary_table(rows: Sequence[LedgerRow]) -> str:
    """The primary comparisons with their p-values, corrected by Holm's method over those of a game."""
    lines = []
    for found in effects(rows).values():
        p_values = [p_value(list(each.by_seed.values())) for each in found.values()]
        for each, p, corrected in zip(found.values(), p_values, holm(p_values), strict=True):
            verdict = "not shown" if corrected >= LEVEL else "above" if each.difference.mean > 0 else "below"
            difference = seed_text(each.difference, signed=True)
            seeds = str(each.difference.seeds)
            lines.append((each.claim.text, difference, seeds, f"{p:.3f}", f"{corrected:.3f}", verdict))
    return table(("comparison", "System, points", "seeds", "p", "p, Holm", "at 5%"), lines)


def groups_of(rows: Sequence[LedgerRow]) -> dict[str, dict[str, list[LedgerRow]]]:
    """The rows of trained arms, by game and rule."""
    groups: dict[str, dict[str, list[LedgerRow]]] = {}
    for name, arm in ARMS.items():
        own = [row for row in rows if row.arm == name]
        if own and arm.changes is not None:
            groups.setdefault(arm.game, {})[arm.rule] = own
    return groups


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows of the rows beside their figures."""
    present = {row.arm for row in rows}
    return {
        "planned": len(STUDY.plan_rows()),
        "arms_of": {
            game: [a.name for a in ARMS.values() if a.game == game and a.name in present] for game in GAMES
        },
        "columns_of": COLUMNS,
        "primary": primary_table(rows),
        "recipe": RECIPE,
        "hours": sum(row.seconds for row in rows) / 3600,
    }


def plots(rows: Sequence[LedgerRow]) -> dict[str, bytes]:
    """Learning curves, and all rules on all games; a plot without rows is left out."""
    groups, found = groups_of(rows), effects(rows)
    differences = {game: {rule: each.difference for rule, each in own.items()} for game, own in found.items()}
    titles = {game: f"{game}, against {BASES[game]}" for game in found}
    made = {"curves.svg": figures.curves(groups, BASES)} if groups else {}
    return made | ({"rules.svg": figures.comparison(differences, titles)} if found else {})


STUDY = Study(
    name="credit",
    version="1",
    task="ways to credit a team",
    starts="1, or 1 for each seed",
    arms=tuple(ARMS),
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    shown=shown,
    claims=CLAIMS,
    seeds="0-4",
    columns=ANSWERS,
    plots=plots,
)
