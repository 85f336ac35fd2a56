"""`mars-env evaluate`: play an environment with a team and report."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mars_env.agents.asked import MADE_AGAIN, prompts_of
from mars_env.agents.registry import with_tools
from mars_env.api import prepare, start_play
from mars_env.cli import options
from mars_env.cli.progress import shown_progress
from mars_env.cli.screen import Screen, say, say_json
from mars_env.envs import spec
from mars_env.errors import ConfigError
from mars_env.evaluation.metrics import register_metric
from mars_env.evaluation.report import Report
from mars_env.evaluation.run import cost_bound, play_plan
from mars_env.lazy import import_object
from mars_env.loggers import TensorBoardLogger
from mars_env.rollout.monitor import Monitor, Trace, reporting
from mars_env.rollout.store import finished_trees
from mars_env.sync import run_sync
from mars_env.text import counted
from mars_env.types import Tree
from mars_env.viewer import Display, write_page


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
    trace: Path | None = None,
    tensorboard: Path | None = None,
    metrics_port: int | None = None,
) -> None:
    """Play every problem n times with a team and print the report.

    Args:
        env_id: E.g. aime-solve-verify-correct, or my_module:my-set-my-rules.
        n: Samples of each problem.
        concurrency: Episodes played at the same time.
        workers: Play on Ray: ray:COUNT, or ray:FILE.json (docs/machines.md).
        ray_address: Address of a running Ray; by default RAY_ADDRESS, else one is started here.
        baselines: Also measure the Solver alone, with as many tokens.
        metric: Your own metric, my_module:my_metric; repeatable.
        price: Price of a million tokens: READ,SAMPLED or POLICY=READ,SAMPLED; repeatable.
        dry_run: Print the most calls and tokens, and start nothing.
        json_output: The report as JSON.
        trace: File for a timeline that Chrome and Perfetto show.
        tensorboard: Directory for TensorBoard metrics of the run.
        metrics_port: Serve the metrics at http://127.0.0.1:PORT/metrics for Prometheus.
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
    given = options.loaded(problems, fields, split, env_spec.problems)
    repeats: dict[str, Any] = {"samples": n, "seed": seed, "concurrency": concurrency, "baselines": baselines}
    repeats |= {"limit": limit, "prices": options.prices(price)}
    elsewhere = workers is not None and not dry_run
    plan = prepare(env_spec, with_tools(agents, tools), given, elsewhere=elsewhere, **repeats)
    if dry_run:
        most = cost_bound(plan)
        tokens = f"{most.tokens:,} sampled tokens" if most.tokens is not None else "tokens without a limit"
        apart = "; the baselines take about twice that again" if baselines else ""
        played = f"{counted(len(plan.problems), 'problem')} x {counted(n, 'sample')}"
        calls = counted(most.calls, "model call")
        say(f"{played}: {counted(most.episodes, 'episode')}, at most {calls} and {tokens}{apart}")
        return
    with Trace(trace) if trace else nullcontext() as traced:
        wanted = {job.tree_id for job in plan.jobs}
        before = len(finished_trees(out) & wanted) if out else 0
        monitor = Monitor(None if baselines else len(wanted), finished=before, trace=traced)
        logger = TensorBoardLogger(tensorboard) if tensorboard else None

        async def watched() -> tuple[Report, list[Tree]]:
            async with (
                reporting(monitor, logger=logger, port=metrics_port),
                start_play(plan, workers, address=ray_address, monitor=monitor) as play,
            ):
                return await play_plan(plan, play, out=out, on_tree=monitor.record_tree)

        console = Screen(stderr=True)
        try:
            with shown_progress(monitor, console):
                report, trees = run_sync(watched())
        except (KeyboardInterrupt, SystemExit):
            kept = f"{out} keeps the finished part, and the same command continues it"
            console.print(f"mars-env: stopped: {kept if out else 'nothing was stored'}")
            raise
    if out is not None:
        how: dict[str, Any] = {"notes": [MADE_AGAIN], "display": Display(prompts_of(plan.game))}
        write_page(out / "report.html", trees, title=plan.title, report=report, **how)
    if json_output:
        say_json(report.json_text())
    else:
        Screen().print(report)
