"""Whether the longest prompts of a game leave its agents room for their limits."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mars_env.envs.rules import Rules
from mars_env.envs.tree_search import TreeSearch
from mars_env.errors import ConfigError, MarsError, ModelError
from mars_env.types import Action, Agent, Observation, Problem, Sampling

GENERATED = 100
"""Problems of a generated set that are searched for the longest statement."""

TURNS = 12
"""Turns of an episode that are simulated: by then every role has read the longest texts that it can get."""

_FILLERS = ("7", "so ", "x = 7\n")
"""Texts that fill an output up to its limit; an agent may drop what it cannot read."""


@dataclass(frozen=True, slots=True)
class Need:
    """The most that an agent can need, in tokens: its longest prompt (1 if not known) and its own limit."""

    agent: str
    prompt: int
    limit: int
    context: int

    @property
    def fits(self) -> bool:
        """Whether the longest prompt leaves the whole limit."""
        return self.prompt + self.limit <= self.context


def needs(rules: Rules[Any], agents: Mapping[str, Agent], problems: Sequence[Problem]) -> list[Need]:
    """What each agent can need at most: the longest problem, played with turns as long as their limits allow.

    Feedback is not counted. Agents are left out whose limit (`sampling`) or whose model's `context` is not
    known; the length of a prompt is known where the agent has a method `prompt` and its model one `encode`.
    """
    known = {name: found for name, agent in agents.items() if (found := _limits(agent)) is not None}
    longest = longest_statement(problems) if known else []
    if not longest:
        return []
    prompts = dict.fromkeys(known, 1)
    for filler in _FILLERS:
        for state, readers in _states(rules, longest[0], agents, filler):
            for name in readers & known.keys():
                prompts[name] = max(prompts[name], _length(agents[name], rules.observe(state, name)))
    return [Need(name, prompts[name], limit, context) for name, (limit, context) in known.items()]


def _states(
    rules: Rules[Any], problem: Problem, agents: Mapping[str, Agent], filler: str
) -> Iterator[tuple[Any, Set[str]]]:
    """States with texts as long as the limits allow, each with the agents that may act on it."""
    state = rules.start(problem)
    if isinstance(rules, TreeSearch):  # any agent may refine what any agent has written
        yield state, agents.keys()
        written = {_written(agent, filler) for agent in agents.values()} if rules.max_turns > 1 else ()
        yield from ((rules.apply(state, action, None), agents.keys()) for action in written)
        return
    for _ in range(min(TURNS, rules.max_turns)):
        name = rules.current_agent(state)
        if name is None or name not in agents:  # over, or a name that the rules should not give: play says so
            return
        yield state, {name}
        state = rules.apply(state, _written(agents[name], filler), None)


def longest_statement(problems: Sequence[Problem]) -> list[Problem]:
    """The problem with the longest statement, which decides for all; none if there are no problems."""
    some = problems[:GENERATED] if getattr(problems, "generated", False) else problems
    return sorted(some, key=lambda problem: -len(problem.statement))[:1]


async def require_room(rules: Rules[Any], agents: Mapping[str, Agent], problems: Sequence[Problem]) -> None:
    """Reject a team that can be given prompts which leave less room than its limits, before a run starts.

    Models that have to ask a server what they can hold (`HTTPModel.learn_context`) do so here. Agents whose
    sampling says ``overflow="unknown"`` may play: what the context cuts off is UNKNOWN.

    Raises:
        ConfigError: An agent can be; says the numbers.
    """
    asked = {name: sampling for name, agent in agents.items() if (sampling := _sampling(agent)) is not None}
    checked = {name: agents[name] for name, sampling in asked.items() if sampling.overflow != "unknown"}
    models = {id(model): model for agent in checked.values() if (model := getattr(agent, "model", None))}
    await asyncio.gather(*(m.learn_context() for m in models.values() if hasattr(m, "learn_context")))
    short = [need for need in needs(rules, agents, problems) if need.agent in checked and not need.fits]
    if short:
        needed = "; ".join(
            f"{need.agent} can be given a prompt of {need.prompt} tokens and may write {need.limit}, "
            f"{need.prompt + need.limit} in all, where the context holds {need.context}"
            for need in short
        )
        advice = 'raise the context, lower max_tokens, or let overflow="unknown" leave such turns out'
        raise ConfigError(f"{needed}: {advice}")


def _sampling(agent: Agent) -> Sampling | None:
    sampling = getattr(agent, "sampling", None)
    return sampling if isinstance(sampling, Sampling) else None


def _limits(agent: Agent) -> tuple[int, int] | None:
    """An agent's own limit, and what its model can hold; None where one of them is not known."""
    sampling, context = _sampling(agent), getattr(getattr(agent, "model", None), "context", None)
    return (sampling.max_tokens, context) if sampling and isinstance(context, int) else None


def _length(agent: Agent, observation: Observation) -> int:
    """Tokens of the prompt of a turn; 1 where the agent or its model does not say, or cannot read it."""
    prompt = getattr(agent, "prompt", None)
    encode = getattr(getattr(agent, "model", None), "encode", None)
    if prompt is None or encode is None:
        return 1
    try:
        asked = prompt(observation)
    except MarsError:  # a problem or a template that does not fit says so itself, when it is played
        return 1
    try:
        return len(encode(asked))
    except ModelError:  # but a chat template that rejects the messages would reject those of every tree
        return 1


def _written(agent: Agent, filler: str) -> Action:
    """What an agent writes that fills its limit, in tokens of its model if known; empty without a limit."""
    sampling, encode = _sampling(agent), getattr(getattr(agent, "model", None), "encode", None)
    limit, tokens = sampling.max_tokens if sampling else 0, 32
    if encode is not None:
        with suppress(MarsError):
            tokens = len(encode(filler * 40)) - len(encode(filler * 8))
    return Action(filler * (32 * limit // max(1, tokens)))
