"""`mars-env compare` and `mars-env view`: reading stored runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mars_env import api
from mars_env.agents.asked import MADE_AGAIN, prompts_of
from mars_env.cli import options
from mars_env.cli.screen import Screen, say, say_json
from mars_env.cli.stored import stored_game, stored_report
from mars_env.cli.streams import STREAM, write_to
from mars_env.errors import ConfigError
from mars_env.rollout import Run, groups_of, read_run
from mars_env.viewer import Display, write_page
from mars_env.viewer.page import plain_note
from mars_env.viewer.turns import Prompts


def compare(
    run_a: Path,
    run_b: Path,
    json_output: options.Json = False,
    latex: Annotated[bool, typer.Option("--latex")] = False,
) -> None:
    """Paired differences between two runs, B minus A, with 95% intervals.

    Args:
        run_a: Directory of a run.
        run_b: Directory of another run of the same problems.
        json_output: The comparison as JSON.
        latex: The comparison as a LaTeX table.
    """
    if json_output and latex:
        raise ConfigError("--json and --latex are two forms of one comparison: give one of them")
    found = api.compare(run_a, run_b)
    if json_output:
        say_json(found.json_text())
    elif latex:
        say(found.latex().rstrip())
    else:
        Screen().print(found)


def view(
    run: Path,
    out: Path | None = None,
    env_id: options.StoredEnv = None,
    set_: options.Settings = None,
    advantage: Literal["group_normalised", "mean_centred", "leave_one_out"] | None = None,
) -> None:
    """Write a run as one HTML page that needs no network.

    Args:
        out: Where to write the page; - is standard output.
        advantage: Show each turn's advantage by this estimator.
    """
    page, stored = out or run / "report.html", read_run(run)
    prompts = _prompts(stored, env_id, options.settings(set_))
    display = Display(prompts, _advantages(stored, advantage) if advantage else {})
    about: dict[str, Any] = {"title": run.resolve().name, "report": stored_report(run, stored)}
    with write_to(page) as target:
        write_page(target, stored.trees, **about, notes=[MADE_AGAIN] if prompts else [], display=display)
    for note in plain_note():
        say(f"mars-env: {note}", err=True)
    say(f"wrote {page}", err=str(page) == STREAM)


def _prompts(stored: Run, env_id: str | None, given: Mapping[str, Any]) -> Prompts | None:
    """The prompts of a stored run, made again; None, and a message, if its game is not known."""
    try:
        return prompts_of(stored_game(stored, env_id, given))
    except ConfigError as error:
        if env_id is not None:
            raise
        Screen(stderr=True).print(f"mars-env: the page shows no prompts: {error}")
        return None


def _advantages(stored: Run, estimator: str) -> Mapping[tuple[str, str], float]:
    from mars_env.trainers.config import TrainConfig, estimator_of

    config = TrainConfig.model_validate({"advantage": estimator})
    return estimator_of(config)(groups_of(stored.trees))
