"""`mars-env solve`, `mars-env serve`, `mars-env play`: a team at work, and a person in one of its roles."""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Literal

import typer

from mars_env.agents.registry import with_tools
from mars_env.api import make_env
from mars_env.cli import options
from mars_env.cli.screen import say, say_json
from mars_env.cli.streams import STREAM, json_of, text_of
from mars_env.envs import EnvSpec, MarsEnv, spec
from mars_env.envs.game import Game
from mars_env.errors import ConfigError
from mars_env.rollout import Job, play
from mars_env.rollout.engine import at_most
from mars_env.seeds import derive_seed
from mars_env.serving.answering import SOLVE_VERIFY_CORRECT, Answerer
from mars_env.serving.answering import solve as solve_question
from mars_env.serving.openenv import OpenEnvServer
from mars_env.serving.server import TeamServer
from mars_env.serving.solution import progress
from mars_env.text import brief
from mars_env.types import Action, Agent, Observation, Tree, Turn, role_of

_END = "."


class _Stopped(BaseException):
    """The person has ended the input, which is no fault of an agent."""


class Person:
    """An agent whose texts are typed: a line with a single dot ends one."""

    policy: ClassVar[str] = "person"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Show the observation and read n texts; it blocks the event loop, since a person plays alone."""
        return [Action(self._text(observation)) for _ in range(n)]

    def _text(self, observation: Observation) -> str:
        for name, value in observation.items():
            say(f"\n[{name}]\n{value}")
        say(f"\nYour text, ended by a line with a single {_END!r}:")
        lines: list[str] = []
        while True:
            line = sys.stdin.readline()
            if not line and not lines:
                raise _Stopped
            if not line or line.rstrip("\r\n") == _END:
                return "".join(lines).rstrip("\n")
            lines.append(line)


Kind = Literal["math", "code"] | None


def solve(  # public edge: one parameter is one option of the command
    question: str,
    agents: options.Required,
    tools: str | None = None,
    env: str = SOLVE_VERIFY_CORRECT,
    kind: Kind = None,
    tests: Path | None = None,
    seed: int = 0,
    turn_timeout: float | None = None,
    out: Path | None = None,
    set_: options.Settings = None,
    json_output: options.Json = False,
) -> None:
    """Let a team answer a question whose answer is unknown.

    Progress goes to standard error, turn by turn; the answer to standard output.

    Args:
        question: The question; - reads it from standard input.
        env: The game, such as tree-search or my_module:my_game, or an environment's id.
        tests: Public tests of a program, JSON: [{"input": ..., "output": ...}], or asserts.
        json_output: The answer as JSON.
    """
    statement = text_of(Path(question)) if question == STREAM else question
    solution = solve_question(
        statement,
        agents=with_tools(agents, tools),
        env_id=env,
        kind=kind,
        tests=() if tests is None else json_of(tests, "the file of tests"),
        seed=seed,
        out=out,
        turn_timeout=turn_timeout,
        on_turn=lambda turn: say(progress(turn), err=True),
        **options.settings(set_),
    )
    if json_output:
        say_json(json.dumps(solution.as_dict()))
    else:
        say(str(solution))


def serve(  # public edge: one parameter is one option of the command
    env_id: str,
    agents: str | None = None,
    tools: str | None = None,
    protocol: Literal["openai", "openenv"] = "openai",
    role: str | None = None,
    problems: str | None = None,
    port: int = 8200,
    host: str = "127.0.0.1",
    name: str = "",
    api_key_env: str | None = None,
    concurrency: int = 64,
    waiting: int = 1024,
    kind: Kind = None,
    seed: int = 0,
    turn_timeout: float | None = None,
    out: Path | None = None,
    set_: options.Settings = None,
) -> None:
    """Serve a team as one model, or a place in a game as an environment to learn in.

    The team may be a search: docs/how-to/serve-a-team.md.

    Args:
        env_id: E.g. aime-solve-verify-correct, programs-tree-search, or a game.
        agents: The team; with --protocol openenv, who plays the other places.
        protocol: openai: an OpenAI-compatible API; openenv: an environment for clients of OpenEnv.
        role: The place that a client of OpenEnv plays, e.g. solver_0; by default the first.
        problems: Other problems for clients of OpenEnv: a set's name or a file.
        name: The model's name for clients; by default the id.
        api_key_env: Environment variable with the clients' keys, separated by commas.
        concurrency: Answers played at the same time.
        waiting: Answers that may wait; more are rejected (429).
        seed: Seed of requests that have none.
        out: Store all turns here; what a kill cuts off is continued.
    """
    if protocol == "openenv":
        env_spec = spec(env_id, **options.settings(set_))
        environment = _openenv_server(env_spec, problems, role, agents, api_key_env)
        options.serve_until_stopped(environment, host, port, lambda url: f"serving at {url}")
        return
    if agents is None:
        raise ConfigError("say who plays: --agents SPEC (docs/agents.md)")
    agents = with_tools(agents, tools)
    answerer = Answerer(env_id, agents, kind=kind, turn_timeout=turn_timeout, **options.settings(set_))
    how: dict[str, Any] = {"concurrency": concurrency, "waiting": waiting, "seed": seed, "out": out}
    server = TeamServer(answerer, name=name, keys=options.client_keys(api_key_env), **how)
    options.serve_until_stopped(server, host, port, lambda url: f"serving {server.name} at {url}")
    snapshot = server.counters.snapshot()
    say(f"served: {snapshot.episodes:,} answers, {snapshot.turns:,} turns")


def _openenv_server(
    env_spec: EnvSpec, problems: str | None, role: str | None, agents: str | None, api_key_env: str | None
) -> OpenEnvServer:
    env = make_env(env_spec, problems)
    learner = role or env.possible_agents[0]
    partners = _others(env, [name for name in env.possible_agents if name != learner], agents)
    keys = tuple(options.client_keys(api_key_env))
    return OpenEnvServer(lambda: make_env(env_spec, problems), learner, partners, keys)


def _others(env: MarsEnv, names: list[str], agents: str | None) -> dict[str, Agent]:
    from mars_env.agents.registry import make_agents, roles_of

    if not names:
        return {}
    if agents is None:
        raise ConfigError(f"say who plays {', '.join(names)}: --agents SPEC")
    return make_agents(agents, names, roles=roles_of(env.game.rules))


def play_game(
    env_id: str,
    role: list[str] | None = None,
    agents: str | None = None,
    problems: str | None = None,
    problem: str | None = None,
    seed: int = 0,
    set_: options.Settings = None,
) -> None:
    """Take a role in the terminal.

    You read what the agent would read, and write its text; a line with a single dot ends it.

    Args:
        env_id: E.g. aime-solve-verify-correct.
        role: A role that you play; repeatable. By default all.
        agents: Who plays the other roles: a specification (docs/agents.md).
        problems: Other problems: a set's name or a file.
        problem: Id of the problem; by default the seed's.
        seed: Seed of the game.
    """
    env = make_env(spec(env_id, **options.settings(set_)), problems)
    env.reset(seed=seed, options={"problem": problem} if problem else None)
    team = _with_person(env, role or [], agents)
    say(f"You play {', '.join(name for name, agent in team.items() if isinstance(agent, Person))}.")
    try:
        tree = _played(env.game, team, Job(env.problem), seed)
    except _Stopped as stopped:
        say("\nYou stopped; nothing was stored.")
        raise typer.Exit(1) from stopped
    if tree.fault:
        raise ConfigError(f"the game ended early: {tree.fault}")
    for turn in tree.turns:
        verdict = f" {turn.grade.verdict}" if turn.grade else ""
        reward = "unknown" if turn.reward is None else f"{turn.reward:g}"
        say(f"{turn.agent} (turn {turn.id}):{verdict} reward {reward}")
    say("The team has no answer." if tree.final is None else f"The team's answer is turn {tree.final}.")


def _played(game: Game, team: Mapping[str, Agent], job: Job, seed: int) -> Tree:
    """The tree, played in this thread on a plain event loop, so that Ctrl-C interrupts the reading."""
    with closing(asyncio.new_event_loop()) as loop:
        turns = play(game, team, job, seed=derive_seed(seed, "play"), on_turns=_show_all, gate=at_most(1))
        return loop.run_until_complete(turns)


def _with_person(env: MarsEnv, roles: list[str], agents: str | None) -> dict[str, Agent]:
    names = list(env.possible_agents)
    all_names = {*names, *map(role_of, names)}
    if unknown := next((role for role in roles if role not in all_names), None):
        raise ConfigError(f"there is no role {brief(unknown)}; the agents are {', '.join(names)}")
    mine = [name for name in names if not roles or name in roles or role_of(name) in roles]
    if mine == names and agents is not None:
        raise ConfigError("you play all roles: say which one is yours, --role ROLE, or leave out --agents")
    others = _others(env, [name for name in names if name not in mine], agents)
    return {**dict.fromkeys(names, Person()), **others}


def _show_all(turns: Iterable[Turn]) -> None:
    for turn in turns:
        if turn.policy != Person.policy:
            say(f"\n{turn.agent} (turn {turn.id}) writes:\n{turn.text}")
