"""`mars-env evaluate`: play an environment with a team and report."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mars_env.agents.registry import with_tools
from mars_env.api import prepare, start_play
from mars_env.cli import options
from mars_env.cli.progress import show_progress
from mars_env.cli.screen import Screen, say, say_json
from mars_env.envs import spec
from mars_env.errors import ConfigError
from mars_env.evaluation.costs import Prices, money
from mars_env.evaluation.counters import Counters, logged
from mars_env.evaluation.metrics import register_metric
from mars_env.evaluation.plan import cost_bound
from mars_env.evaluation.report import Report
from mars_env.evaluation.run import play_plan
from mars_env.lazy import import_object
from mars_env.loggers import TensorBoardLogger
from mars_env.rollout.store import finished_trees
from mars_env.sync import run_sync
from mars_env.text import counted
from mars_env.types import Tree
from mars_env.viewer import write_page


def evaluate(  # public edge: one parameter is one option of the command
    env_id: str,
    agents: options.Required,
    tools: str | None = None,
    problems: str | None = None,
    fields: str | None = None,
    split: str | None = None,
    n: Annotated[int, typer.Option("--n", "--samples", min=1)] = 1,
    limit: options.Limit = None,
    seed: int = 0,
    concurrency: options.Count = 64,
    turn_timeout: float | None = None,
    workers: str | None = None,
    ray_address: str | None = None,
    out: Path | None = None,
    baselines: Annotated[bool, typer.Option("--baselines")] = False,
    metric: list[str] | None = None,
    price: list[str] | None = None,
    reward: list[str] | None = None,
    team_reward: str | None = None,
    grader: str | None = None,
    set_: options.Settings = None,
    dry_run: options.DryRun = False,
    json_output: options.Json = False,
    tensorboard: Path | None = None,
) -> None:
    """Play every problem n times with a team and print the report.

    Args:
        env_id: E.g. aime-solve-verify-correct, my_module:my-set-my-game, or my_module:my_game and --problems.
        n: Samples of each problem.
        concurrency: Episodes played at the same time.
        workers: Play on Ray: ray:COUNT, or ray:FILE.json (docs/machines.md).
        ray_address: Address of a running Ray; by default RAY_ADDRESS, else one is started here.
        baselines: Also measure the Solver alone, with as many tokens.
        metric: Your own metric, my_module:my_metric; repeatable.
        price: Price of a million tokens: READ,SAMPLED or POLICY=READ,SAMPLED; repeatable.
        dry_run: Print the most calls and tokens, and start nothing.
        json_output: The report as JSON.
        tensorboard: Directory for TensorBoard metrics of the run.
    """
    if ray_address is not None and workers is None:
        raise ConfigError("--ray-address says where the workers run: add how many, --workers ray:8")
    for name in metric or ():
        register_metric(name.rpartition(":")[2], import_object(name))
    env_spec = replace(
        spec(env_id, **options.settings(set_)),
        rewards=options.pairs(reward, "--reward"),
        team_reward=team_reward,
        grader=grader,
        turn_timeout=turn_timeout,
    )
    chosen = options.loaded(problems, fields, split, env_spec.problems)
    repeats: dict[str, Any] = {"samples": n, "seed": seed, "concurrency": concurrency, "baselines": baselines}
    repeats |= {"limit": limit, "prices": options.prices(price)}
    elsewhere = workers is not None and not dry_run
    plan = prepare(env_spec, with_tools(agents, tools), chosen, elsewhere=elsewhere, **repeats)
    if dry_run:
        most = cost_bound(plan)
        tokens = f"{most.tokens:,} sampled tokens" if most.tokens is not None else "tokens without a limit"
        apart = "; the baselines take about twice that again" if baselines else ""
        played = f"{counted(len(plan.problems), 'problem')} x {counted(n, 'sample')}"
        calls = counted(most.calls, "model call")
        episodes = counted(most.episodes, "episode")
        say(f"{played}: {episodes}, at most {calls} and {tokens}{_price(plan.prices, most.tokens)}{apart}")
        return
    tree_ids = {job.tree_id for job in plan.jobs}
    before = len(finished_trees(out) & tree_ids) if out else 0
    counters = Counters(None if baselines else len(tree_ids), finished=before, prices=plan.prices)
    logger = TensorBoardLogger(tensorboard) if tensorboard else None

    async def watched() -> tuple[Report, list[Tree]]:
        async with (
            logged(counters, logger),
            start_play(plan, workers, address=ray_address, on_turns=counters.count_turns) as play,
        ):
            return await play_plan(plan, play, out=out, on_tree=counters.count_tree)

    console = Screen(stderr=True)
    try:
        with show_progress(counters, console):
            report, trees = run_sync(watched())
    except (KeyboardInterrupt, SystemExit):
        advice = f"{out} keeps the finished part, and the same command continues it"
        console.print(f"mars-env: stopped: {advice if out else 'nothing was stored'}")
        raise
    if out is not None:
        write_page(out / "report.html", trees, title=plan.title, report=report)
    if json_output:
        say_json(report.json_text())
    else:
        Screen().print(report)


def _price(prices: Prices | None, tokens: int | None) -> str:
    if prices is None or tokens is None:
        return ""
    highest = max(sampled for _, sampled in prices.values())
    return f" (${money(highest * tokens / 1e6)}, and what models read)"
