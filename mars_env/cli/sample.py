"""`mars-env sample`: act for a learner that trains elsewhere (docs/machines.md)."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from yarl import URL

from mars_env.agents.registry import roles_of
from mars_env.cli.options import Count, Limit, Settings, settings
from mars_env.cli.screen import say
from mars_env.cli.train import assigned_checkpoints, given_settings, loaded_models, settings_for, team_maker
from mars_env.envs import make_game, spec
from mars_env.envs.registry import rules_spec
from mars_env.errors import ConfigError
from mars_env.models.secrets import api_key
from mars_env.net import LOOPBACK
from mars_env.sync import run_sync


def sample(  # public edge: one parameter is one option of the command
    ctx: typer.Context,
    url: str,
    env_id: Annotated[str, typer.Option("--env")],
    model: Annotated[list[str], typer.Option()],
    policy: str | None = None,
    lora: Limit = None,
    team: str | None = None,
    max_tokens: Limit = None,
    option: list[str] | None = None,
    set_: Settings = None,
    kind: Literal["math", "code", "open"] = "math",
    api_key_env: str | None = None,
    weights: Path | None = None,
    refresh: Literal["newest", "demanded"] = "newest",
    concurrency: Count = 64,
    patience: float = 600.0,
) -> None:
    """Act for a learner that trains elsewhere (docs/machines.md).

    It uses the weights that the learner publishes, makes outgoing connections only, needs no problems, and
    ends with the training. A learner that is stopped and started again is waited for. Ctrl-C hands what is
    under way back to the learner.

    Args:
        url: The learner's address, such as http://10.0.0.1:8700.
        env_id: The learner's environment, e.g. aime-solve-verify-correct.
        model: Checkpoint that the learner started from; several as for `mars-env train`.
        policy: The learner's name of the one policy; by default that of `mars-env train`.
        lora: Rank of the adapters, if the learner trains adapters.
        option: One setting, as the learner's, e.g. sampling.temperature=0.7.
        kind: Kind of the learner's problems.
        api_key_env: Environment variable with the key that the learner asks for.
        weights: The learner's folder of weights, if it can be read here; else they come by HTTP.
        refresh: Use new weights as soon as they are here, or only when a turn needs them.
        concurrency: Acts at the same time.
        patience: Seconds without a sign of the learner after which the sampler ends.
    """
    from mars_env.trainers import TrainConfig, make_team
    from mars_env.trainers.swarm import SamplerSettings, WeightStore, run_sampler

    if not patience > 0:
        raise ConfigError(f"--patience is in seconds, above 0, got {patience:g}")
    if weights is not None and not weights.is_dir():
        raise ConfigError(f"there is no folder {weights}: leave --weights out to get the weights by HTTP")
    key = api_key(api_key_env, "the learner's key")
    size = rules_spec(spec(env_id).rules).team_size
    number = {size: len(model)} if size else {}  # as `mars-env train`
    rules = make_game(spec(env_id, {**number, **settings(set_)}), kind=kind).rules
    given = given_settings(ctx, option, max_tokens=max_tokens)
    # Without copies for a KL.
    run_settings = settings_for(env_id, given).model_copy(update={"train": TrainConfig()})
    assigned = assigned_checkpoints(model, rules.possible_agents, apart=lora is not None)
    if policy is not None:
        if len(set(assigned.values())) > 1:
            raise ConfigError("--policy names one policy: name several by --model ROLE=CHECKPOINT")
        assigned = {agent: (policy, path) for agent, (_, path) in assigned.items()}
    models = loaded_models(assigned, lora, run_settings)
    make, names = team_maker(team, rules, run_settings, given), rules.possible_agents
    players = make_team(run_settings, names, models, agent=make, roles=roles_of(rules)).agents
    if key and (host := URL(url).host) and URL(url).scheme == "http" and host not in LOOPBACK:
        say(f"mars-env: the key goes to {host} unencrypted: use https:// or a private network", err=True)
    say(f"acting for {url} as {', '.join(players)}; Ctrl-C ends it", err=True)
    by_policy = {each.name: each for each in models.values()}
    how = SamplerSettings(concurrency=concurrency, refresh=refresh, patience=patience)
    store = None if weights is None else WeightStore(weights)
    try:
        taken = run_sync(run_sampler(players, by_policy, url, how, key=key, weights=store))
    except (KeyboardInterrupt, SystemExit):
        say("mars-env: stopped: the learner gives what was under way to other samplers", err=True)
        raise
    say(f"the training is over: {taken} answers")
