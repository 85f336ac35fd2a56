"""`mars-env audit`: look for rewards of an environment that are not earned."""

from dataclasses import replace

import typer

from mars_env.cli import options
from mars_env.cli.screen import Screen, say, say_json
from mars_env.envs import spec
from mars_env.testing.audit_play import audit as audit_environment


def audit(  # public edge: one parameter is one option of the command
    env_id: str,
    agents: str | None = None,
    problems: str | None = None,
    fields: str | None = None,
    split: str | None = None,
    limit: options.Count = 50,
    seed: int = 0,
    reward: list[str] | None = None,
    team_reward: str | None = None,
    grader: str | None = None,
    set_: options.Settings = None,
    json_output: options.Json = False,
) -> None:
    """Look for rewards that are not earned, before you train on an environment.

    Policies that know nothing play every role, and one that knows the reference. The exit status is 1 if
    there is a finding, and 2 if a role could not be audited.

    Args:
        env_id: E.g. aime-solve-verify-correct, or my_module:my-set-my-game.
        agents: Who plays the other roles, where scripts cannot (docs/agents.md).
        json_output: The report as JSON.
    """
    env_spec = replace(
        spec(env_id, **options.settings(set_)),
        rewards=options.pairs(reward, "--reward"),
        team_reward=team_reward,
        grader=grader,
    )
    chosen = options.loaded(problems, fields, split, env_spec.problems)
    with options.progress_bar("auditing") as on_progress:
        report = audit_environment(
            env_spec, problems=chosen, limit=limit, agents=agents, seed=seed, on_progress=on_progress
        )
    if json_output:
        say_json(report.json_text())
    else:
        say(report.summary())
        Screen().print(report.table())
    raise typer.Exit(1 if report.findings else 2 if report.not_audited else 0)
