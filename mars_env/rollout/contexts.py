"""Whether the longest prompts of a game leave its agents room for their limits."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from mars_env.envs.rules import Rules, State
from mars_env.errors import ConfigError, MarsError, ModelError
from mars_env.types import Action, Agent, Grader, Observation, Problem, Sampling

TURNS = 12
"""Turns of an episode that are simulated: by then every role has read the longest texts that it can get."""

_FILLERS = ("7", "so ", "x = 7\n")
"""Texts that fill an output up to its limit; an agent may drop what it cannot read."""


@dataclass(frozen=True, slots=True)
class Need:
    """The most that an agent can need, in tokens: its longest prompt (1 if not known), and its limit."""

    agent: str
    prompt: int
    limit: int
    context: int

    @property
    def fits(self) -> bool:
        """Whether the longest prompt leaves the whole limit."""
        return self.prompt + self.limit <= self.context


def needs(rules: Rules, agents: Mapping[str, Agent], problems: Sequence[Problem]) -> list[Need]:
    """What each agent can need at most: the longest problem, played with turns as long as their limits allow.

    Feedback is not counted. Agents are left out whose limit (`sampling`) or whose model's `context` is not
    known; the length of a prompt is known where the agent has a method `prompt` and its model one `encode`.
    """
    limits = {name: limit for name, agent in agents.items() if (limit := _limits(agent)) is not None}
    longest = longest_statement(problems) if limits else []
    if not longest:
        return []
    prompts = dict.fromkeys(limits, 1)
    for filler in _FILLERS:
        for state, readers in _states(rules, longest[0], agents, filler):
            for name in readers & limits.keys():
                prompts[name] = max(prompts[name], _length(agents[name], rules.observe(state, name)))
    return [Need(name, prompts[name], limit, context) for name, (limit, context) in limits.items()]


def _states(
    rules: Rules, problem: Problem, agents: Mapping[str, Agent], filler: str
) -> Iterator[tuple[State, Set[str]]]:
    """States with texts as long as the limits allow, each with the agents that may act on it."""
    state = rules.start(problem)
    for _ in range(min(TURNS, rules.max_turns)):
        readers = agents.keys() & rules.actors(state)  # any of a role may act, after any other of them
        if not readers:
            return
        yield state, readers
        written = [_written(agents[name], filler) for name in readers]
        state = rules.apply(state, max(written, key=lambda action: len(action.text)), None)


def longest_statement(problems: Sequence[Problem]) -> list[Problem]:
    """The problem with the longest statement, which decides for all; none if there are no problems."""
    some = problems[:100] if getattr(problems, "generated", False) else problems
    return sorted(some, key=lambda problem: -len(problem.statement))[:1]


async def require_room(
    rules: Rules, agents: Mapping[str, Agent], problems: Sequence[Problem], grader: Grader | None = None
) -> None:
    """Raise a ConfigError if agents can be given prompts that leave less room than their limits.

    Models that have to ask a server what they can hold (`HTTPModel.learn_context`) do so here. Agents whose
    sampling says ``overflow="unknown"`` may play: what the context cuts off is UNKNOWN. A grader with a
    method ``require_room(problems, tokens)``, such as `RubricGrader`, gets the problem with the longest
    statement and the limit of the agents whose texts it grades.
    """
    samplings = {name: sampling for name, agent in agents.items() if (sampling := _sampling(agent))}
    checked = {name: agents[name] for name, sampling in samplings.items() if sampling.overflow != "unknown"}
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
    ask_grader = getattr(grader, "require_room", None)
    longest = longest_statement(problems) if ask_grader is not None else []
    limits = [samplings[name].max_tokens for name in _graded(rules, longest, agents) if name in samplings]
    if ask_grader is not None and limits:
        await ask_grader(longest, max(limits))


def _graded(rules: Rules, problems: Sequence[Problem], agents: Mapping[str, Agent]) -> set[str]:
    return {
        name
        for problem in problems
        for state, names in _states(rules, problem, agents, _FILLERS[0])
        for name in names
        if rules.submission(state, _written(agents[name], _FILLERS[0])) is not None
    }


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
        content = prompt(observation)
    except MarsError:  # a problem or a template that does not fit says so itself, when it is played
        return 1
    try:
        return len(encode(content))
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
