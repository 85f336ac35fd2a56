"""MARS2's scaling law in miniature: from one agent to many, over seeds.

    python -m studies.mars2 --seeds 0-4     # runs what the ledger lacks, then writes the page
    python -m studies.mars2 --table         # only writes the page
    python -m studies.mars2 --quick         # one small seed of all arms; nothing is kept
    python -m studies.mars2 --check 0       # plays one seed again and compares its rows exactly

Each model gets the same number of samples and updates in every arm, except in the control that gives one
model twice as many. Each row is written to docs/results/mars2.jsonl as soon as it is ready, so that an
interrupted run can be continued; the part of docs/results.md on MARS2 is made from them. The settings are
fixed in studies/mars2/recipe.py and were tuned on other seeds than those reported.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import typer

from mars_env.envs.tree_search import T_PLUS
from mars_env.errors import ConfigError
from mars_env.evaluation import Provenance, provenance
from mars_env.viewer.plots import training_curves
from studies.common import program as studies
from studies.common.ledger import (
    Ledger,
    LedgerRow,
    SeedEstimate,
    arm_difference,
    arm_estimate,
    arms_table,
    origins,
    seed_text,
    seeds_of,
)
from studies.common.program import DOCS, RESULTS
from studies.mars2.experiment import ARMS, Mars2Arm, evaluate_team, train_team
from studies.mars2.recipe import QUICK, RECIPE, Mars2Recipe

LEDGER = Ledger(RESULTS / "mars2.jsonl")
NOTES = RESULTS / "mars2-notes.md"
"""What a reader must know about the outcome, written by hand."""

SEARCHES = {
    "pass@1": "Pass@1 of the agents",
    "best-of-n_pass@1": "best-of-n",
    "refinement_pass@1": "refinement",
    "search_pass@1": "AB-MCTS",
}
ANY = {
    "best-of-n_pass@n": "best-of-n",
    "refinement_pass@n": "refinement",
    "search_pass@n": "AB-MCTS",
}
DIVERSITY = {
    "distinct": "different functions",
    "different": "two agents differ",
    "disagree": "one right, one wrong",
}
RIGHT = {
    "distinct_right": "different right programs for 100 problems",
    "solved": "problems with a right one",
    "right_pairs": "problems with two, by different agents",
    "different_right": "these two differ",
}
CHOICE = {
    "t-plus_solved": "problems with a program that passes",
    "t-plus_one candidate": "one candidate left, whole budget",
    "t-plus stopped_one candidate": "one candidate left, stopped at the first",
}
BUDGETS = {"best-of-n": "best-of-n", "search": "AB-MCTS"}
CURVES = ("untrained", "single", "homogeneous", "equal pair", "heterogeneous")
PARTS = {
    "no-feedback_pass@1": "no part",
    "search_pass@1": "feedback",
    "vote_pass@1": "feedback, vote",
    "shortest_pass@1": "feedback, shortest",
    "depth_pass@1": "feedback, depth",
    "t-plus_pass@1": "all: feedback, depth, shortest",
    "preset_pass@1": "all, no other setting",
}
SHAPE = (
    # text, arm, arm that is taken away
    ("training: single above untrained", "single", "untrained"),
    ("homogeneous above single", "homogeneous", "single"),
    ("heterogeneous above homogeneous", "heterogeneous", "homogeneous"),
    ("heterogeneous above single", "heterogeneous", "single"),
    ("heterogeneous above the equal pair (control)", "heterogeneous", "equal pair"),
    ("equal pair above homogeneous", "equal pair", "homogeneous"),
    ("heterogeneous above homogeneous x2 (control)", "heterogeneous", "homogeneous x2"),
)
COMPARED = {
    "pass@1": "Pass@1 of the agents",
    "search_pass@1": "AB-MCTS, Pass@1",
    "search_pass@n": "AB-MCTS, Pass@N",
    "refinement_pass@1": "refinement, Pass@1",
    "distinct": "different functions, right or wrong",
    "distinct_right": "different right programs for 100 problems",
}
WITHIN = (
    # text, figure, figure that is taken away
    ("AB-MCTS above best-of-n", "search_pass@1", "best-of-n_pass@1"),
    ("AB-MCTS above refinement", "search_pass@1", "refinement_pass@1"),
    ("refinement above best-of-n", "refinement_pass@1", "best-of-n_pass@1"),
    ("T+: feedback", "search_pass@1", "no-feedback_pass@1"),
    ("T+: depth-guided exploration", "depth_pass@1", "search_pass@1"),
    ("T+: a vote as the final choice", "vote_pass@1", "search_pass@1"),
    ("T+: the shortest program as the final choice", "shortest_pass@1", "search_pass@1"),
    ("T+: all parts above none", "t-plus_pass@1", "no-feedback_pass@1"),
    ("T+ with no other setting above AB-MCTS without its parts", "preset_pass@1", "no-feedback_pass@1"),
)
WITHIN_ARMS = tuple(arm.name for arm in ARMS if arm.parts)


def settings(recipe: Mars2Recipe = RECIPE) -> str:
    """The hash of everything that decides a result except arm and seed."""
    return studies.settings_of(recipe, {"t-plus": T_PLUS.model_dump(mode="json")})


async def run(arm: Mars2Arm, seed: int, recipe: Mars2Recipe, cache: Path, origin: Provenance) -> LedgerRow:
    """Train and evaluate one arm on one seed."""
    began, cpu = time.perf_counter(), time.process_time()
    trained = await train_team(arm, seed, recipe, cache=cache)
    figures = await evaluate_team(trained, seed, recipe, parts=arm.parts)
    completions: dict[str, float] = {}
    for step in trained.history:
        for policy, values in step.policies.items():
            completions[policy] = completions.get(policy, 0.0) + values.get("completions", 0.0)
    sampled = sum(role["turns"] for step in trained.history for role in step.roles.values())
    rewards = [step.roles["coder"].get("reward") for step in trained.history]
    seconds = time.perf_counter() - began
    figures |= {"sampled": sampled, "cpu_seconds": round(time.process_time() - cpu, 1)}
    detail = {
        "rewards": [None if reward is None else round(reward, 4) for reward in rewards],
        "trained": completions,
        "steps": len(trained.history),
        "problems": recipe.problems,
        "tokens": recipe.tokens,
    }
    return studies.new_row(arm.name, seed, origin, settings(recipe), seconds, figures, detail)


def play(name: str, seed: int, quick: bool, cache: Path, origin: Provenance) -> LedgerRow:
    """`run` in a separate process."""
    torch.set_num_threads(1)  # more threads only slow models this small down
    arm = next(arm for arm in ARMS if arm.name == name)
    return asyncio.run(run(arm, seed, QUICK if quick else RECIPE, cache, origin))


def judged(difference: SeedEstimate) -> str:
    """A difference with its interval, in bold if the interval excludes 0."""
    text = seed_text(difference, signed=True)
    shown = difference.low is not None and difference.high is not None
    excludes = shown and (difference.low or 0.0) * (difference.high or 0.0) > 0
    return f"**{text}**" if excludes else text


def shape_table(rows: Sequence[LedgerRow], names: Sequence[str]) -> str:
    """The parts of the claim, each with its paired differences."""
    lines = [
        (text, *(judged(arm_difference(rows, other, arm, figure)) for figure in COMPARED))
        for text, arm, other in SHAPE
        if arm in names and other in names
    ]
    return studies.table(("claim", *COMPARED.values()), lines)


def within_table(rows: Sequence[LedgerRow], names: Sequence[str]) -> str:
    """Two ways to search compared, for the same models and tokens."""
    arms = [name for name in WITHIN_ARMS if name in names]
    lines = [
        (text, *(judged(arm_difference(rows, arm, arm, less, more)) for arm in arms))
        for text, more, less in WITHIN
        if all({more, less} <= row.figures.keys() for row in rows if row.arm in arms)
    ]
    return studies.table(("claim", *arms), lines)


def trained_on(rows: Sequence[LedgerRow], arm: str) -> str:
    """The number of programs that entered the loss of each model, averaged over seeds."""
    found = [row.detail["trained"] for row in rows if row.arm == arm]
    means = {model: sum(each[model] for each in found) / len(found) for model in found[0]}
    return ", ".join(f"{model} {mean:,.0f}" for model, mean in means.items()) or "–"


def budgets(recipe: Mars2Recipe) -> list[tuple[int, str]]:
    """Budgets in tokens, and the suffix of a search's name in its figures for each."""
    return [*((cut, f"_pass@1 at {cut}") for cut in recipe.cuts), (recipe.tokens, "_pass@1")]


def curves(
    rows: Sequence[LedgerRow], recipe: Mars2Recipe = RECIPE
) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Pass@1 of AB-MCTS in percent by budget, for the arms that are compared."""
    names = [name for name in CURVES if any(row.arm == name for row in rows)]
    return {
        name: [
            (float(tokens), 100 * arm_estimate(rows, name, f"search{figure}").mean)
            for tokens, figure in budgets(recipe)
        ]
        for name in names
    }


def page(rows: Sequence[LedgerRow], recipe: Mars2Recipe = RECIPE) -> str:
    """The part of docs/results.md on MARS2."""
    present = [arm for arm in ARMS if any(row.arm == arm.name for row in rows)]
    names = [arm.name for arm in present]
    spent = [
        (name, trained_on(rows, name), *(f"{arm_estimate(rows, name, figure).mean:,.1f}" for figure in SPENT))
        for name in names
    ]
    whole = [seed for seed in {row.seed for row in rows} if sum(r.seed == seed for r in rows) == len(present)]
    seconds, cpu = (
        [sum(cost(row) for row in rows if row.seed == seed) for seed in whole or {row.seed for row in rows}]
        for cost in (lambda row: row.seconds, lambda row: row.figures["cpu_seconds"])
    )
    choices = known(rows, CHOICE)
    return studies.rendered(
        "mars2/results.md.jinja",
        present=present,
        recipe=recipe,
        pass_1=arms_table(rows, names, SEARCHES),
        pass_n=arms_table(rows, names, ANY),
        budgets=arms_table(
            rows,
            names,
            {
                f"{search}{figure}": f"{title}, {tokens}"
                for search, title in BUDGETS.items()
                for tokens, figure in budgets(recipe)[:-1]
            },
        ),
        right=arms_table(rows, names, known(rows, RIGHT)),
        diversity=arms_table(rows, names, DIVERSITY),
        parts=arms_table(rows, [n for n in WITHIN_ARMS if n in names], known(rows, PARTS)),
        choice=arms_table(rows, [n for n in WITHIN_ARMS if n in names], choices) if choices else "",
        shape=shape_table(rows, names),
        within=within_table(rows, names),
        spent=studies.table(("arm", "trained on, by model", *SPENT.values()), spent),
        notes=NOTES.read_text(encoding="utf-8"),
        fastest=f"{min(seconds):.0f}",
        slowest=f"{max(seconds):.0f}",
        cpu=f"{sum(cpu) / len(cpu):.0f}",
        machine=studies.MACHINE,
        origins=origins(rows),
    )


SPENT = {
    "sampled": "sampled in training",
    "best-of-n_tokens": "tokens, best-of-n",
    "refinement_tokens": "refinement",
    "search_tokens": "AB-MCTS",
    "best-of-n_nodes": "nodes, best-of-n",
    "search_nodes": "nodes, AB-MCTS",
    "search_depth": "depth, AB-MCTS",
}


def shown() -> list[LedgerRow]:
    """The rows for the page: those of the settings with the most seeds for which all arms were run.

    Among equals the newest settings win, so a study that is run again replaces the page once it is as large
    as the last one.

    Raises:
        ConfigError: There are no such rows.
    """
    best: list[LedgerRow] = []
    for name in dict.fromkeys(row.settings for row in LEDGER.rows()):
        rows = LEDGER.rows(name)
        whole = set.intersection(*({row.seed for row in rows if row.arm == arm.name} for arm in ARMS))
        rows = [row for row in rows if row.seed in whole]
        best = max(rows, best, key=len)  # the first of equals
    if not best:
        raise ConfigError(f"{LEDGER.path} contains no settings for which all arms were run; run a seed")
    return best


def known(rows: Sequence[LedgerRow], columns: Mapping[str, str]) -> Mapping[str, str]:
    """The columns for which at least one row has a figure: rows of older settings lack some."""
    return {name: title for name, title in columns.items() if any(name in row.figures for row in rows)}


def write_page() -> None:
    """Make the part of docs/results.md from the ledger."""
    rows = shown()
    plot = training_curves(curves(rows), ylabel="Pass@1 of the search, %", xlabel="tokens a problem")
    (DOCS / "results" / "mars2-budget.svg").write_bytes(plot)
    studies.write(DOCS / "results.md", "mars2", page(rows))


def main(
    seeds: studies.Seeds = "0-4",
    arm: studies.Arms = None,
    jobs: studies.Jobs = 1,
    table: studies.Table = False,
    quick: studies.Quick = False,
    check_seed: studies.Check = None,
    allow_dirty: studies.Dirty = False,
    cache: studies.Cache = None,
) -> None:
    """Run MARS2's scaling law in miniature and write its part of docs/results.md."""
    arms = studies.chosen(arm, [a.name for a in ARMS])
    with tempfile.TemporaryDirectory() as folder:
        place = (cache or Path(folder)) / settings(QUICK if quick else RECIPE)
        origin = provenance(allow_dirty=allow_dirty or quick or table or check_seed is not None)
        played = partial(play, quick=quick, cache=place, origin=origin)
        if check_seed is not None:
            same = studies.repeats(shown(), check_seed, arms, played, measured=("cpu_seconds",))
            raise typer.Exit(0 if same else 1)
        if quick:  # nothing is kept
            rows = [played(name, seeds_of(seeds)[0]) for name in arms]
            studies.console.print(page(rows, QUICK), highlight=False)
            return
        if not table:
            owed = LEDGER.missing(arms, seeds_of(seeds), settings())
            studies.play_owed(played, owed, LEDGER, SEARCHES, jobs)
    write_page()


if __name__ == "__main__":
    typer.run(main)
