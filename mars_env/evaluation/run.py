"""Plays an evaluation: many samples of every problem, the equal-token baselines, one report."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mars_env.errors import ConfigError, ModelError
from mars_env.evaluation.costs import Prices, cost, price_of, uncounted
from mars_env.evaluation.equal_tokens import play_baselines, require_solver
from mars_env.evaluation.plan import LocalPlay, OnTree, Plan, Play, evaluated_game, play_trees
from mars_env.evaluation.provenance import Provenance, provenance, versions
from mars_env.evaluation.report import REPORT, Report, RunDescription, build_report
from mars_env.evaluation.trees import final_answer
from mars_env.files import write_atomically, writing
from mars_env.text import brief, counted, logger
from mars_env.types import Tree

log = logger(__name__)


async def play_plan(
    plan: Plan, play: Play, *, out: Path | None = None, on_tree: OnTree | None = None
) -> tuple[Report, list[Tree]]:
    """Play a plan; returns the report and the trees, in the order of problems and samples.

    With `out`, finished turns are stored there, and a run that was interrupted goes on where it stopped.

    Raises:
        ConfigError: A search that has nothing to see, or would see the grade without `oracle=True`; a game
            that has no baselines; an agent without a price.
        StoreError: `out` holds a run of another configuration, or cannot be written.
        ModelError: Not a single episode could be finished.
    """
    _validate(plan, play)
    about, visibility = _description(plan), plan.game.visibility
    visible = visibility.notes if visibility is not None else ()
    remarks = (*visible, *getattr(evaluated_game(plan.game).grader, "notes", ()))

    def finished(tree: Tree) -> None:
        # The first one leaves what the trees do not say, for whoever views an interrupted run.
        if out is not None and not (out / REPORT).exists():
            with writing(out / REPORT):
                write_atomically(out / REPORT, build_report([], about, notes=remarks).json_text())
        if on_tree is not None:
            on_tree(tree)

    trees = await play_trees(play, evaluated_game, plan, out, finished)
    if all(tree.fault for tree in trees):
        raise ModelError(f"no episode could be finished; the first one's fault: {trees[0].fault}")
    baselines, notes = await play_baselines(plan, play, trees, out, on_tree) if plan.baselines else ([], [])
    prices, unpriced = _usable_prices(trees, plan.prices)
    report = build_report(
        trees,
        about,
        prices=prices,
        answer_of=final_answer if plan.problems[0].kind == "math" else None,
        baselines=baselines,
        notes=(*remarks, *notes, *unpriced, *uncounted(trees)),
    )
    if out is not None:
        with writing(out / REPORT):
            write_atomically(out / REPORT, report.json_text())
            write_atomically(out / "report.md", report.markdown() + "\n")
            write_atomically(out / "report.tex", report.latex())
    return report, trees


def _validate(plan: Plan, play: Play) -> None:
    """Reject what cannot be evaluated, before anything is played."""
    game = plan.game
    ungraded = [problem.id for problem in plan.problems if not game.can_grade(problem)]
    if ungraded:
        number = f"{counted(len(ungraded), 'problem')} without a reference, such as {brief(ungraded[0])}"
        raise ConfigError(f"{number}, cannot be graded: give another grader, or use mars_env.solve")
    if game.visibility is not None:
        game.visibility.validate_problems(plan.problems)
    if plan.baselines:
        require_solver(game)
    if plan.prices is not None and isinstance(play, LocalPlay):
        for agent in play.agents.values():
            price_of(agent.policy, plan.prices)


def _description(plan: Plan) -> RunDescription:
    try:
        origin = provenance()
    except ConfigError as error:
        log.warning("the report names no commit: %s", error)
        origin = Provenance(None, versions())
    described = plan.config["may_change"]
    team_reward = {"the team": described["team_reward"]} if "team_reward" in described else {}
    return RunDescription(
        title=plan.title,
        problem_set=plan.problems.name,
        generated=plan.problems.generated,
        seed=plan.seed,
        rewards={**described.get("rewards", {}), **team_reward},
        **asdict(origin),
    )


def _usable_prices(trees: Sequence[Tree], prices: Prices | None) -> tuple[Prices | None, list[str]]:
    """The prices, unless they do not price every token; then a note that says why."""
    try:
        if prices is not None:
            cost(trees, prices)
    except ConfigError as error:
        return None, [f"The cost is not known: {error}"]
    return prices, []
