"""A game as engines play it: states that are a problem and the replies so far, replayed where they branch.

What a game yields next follows from these alone, so a state is found again by replaying it: its first child
takes the live generator, other children start new ones.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import import_object
from mars_env.text import brief, choices, raised
from mars_env.types import Action, Grade, Observation, Problem, role_of

if TYPE_CHECKING:
    from gymnasium import Space

    from mars_env.envs.game_function import GameFunction

Parse = Callable[[str], Mapping[str, Any]]
"""Reads the text of a reply into plain data."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a reply; see `ask`."""

    role: str
    fields: Mapping[str, str | int]
    graded: bool | Problem = True
    info: Mapping[str, Any] = field(default_factory=dict)
    parse: Parse | None = field(default=None, compare=False)


def ask(
    role: str,
    /,
    *,
    graded: bool | Problem = True,
    info: Mapping[str, Any] | None = None,
    parse: Parse | None = None,
    **fields: str | int,
) -> Ask:
    """What a game yields to get the `Reply` of an agent.

    Args:
        role: Who is asked: ``"judge"``, or one place of a role, ``"solver_1"``. A role with several agents is
            played in turn, or by whom a search chooses.
        graded: Whether the reply is graded, and may be the team's answer; or the `Problem`, made by agents,
            that it is graded on.
        info: Plain data to store with the turn.
        parse: A function of the reply's text, called once; what it returns is added to `Reply.info`.
        fields: What the agent observes: strings and integers; other fields of its role are empty.

    Example:
        >>> ask("critic", problem="2 + 2?", attempt="5", graded=False).fields["attempt"]
        '5'
    """
    return Ask(role, fields, graded, dict(info or {}), parse)


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent replied; `info` is of the `ask`, and what its ``parse`` has read.

    The grade, None where it was not graded or cannot be, may decide how a game continues, but no field of an
    `ask` may depend on it. `feedback` is empty where the game's agents may read none.
    """

    action: Action
    info: Mapping[str, Any]
    grade: Grade | None = None
    feedback: str = ""
    graded: bool = True

    @property
    def text(self) -> str:
        """The action's text."""
        return self.action.text

    @property
    def truncated(self) -> bool:
        """Whether it was cut off at its length limit."""
        return self.action.truncated


Play = Generator[Ask, Reply, Reply | None]
"""What a game's function returns: it yields requests, gets replies, and returns the team's answer."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a game, with the team's answer."""

    answer: Reply | None


class State:
    """A problem and the replies so far; a child shares its parent's.

    `pending` is what the game does next, once that is known; `live` the generator that waits there, until a
    child takes it.
    """

    __slots__ = ("depth", "live", "parent", "pending", "problem", "reply")

    def __init__(self, problem: Problem, parent: "State | None" = None, reply: Reply | None = None) -> None:
        self.problem, self.parent, self.reply = problem, parent, reply
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.pending: Ask | End | None = None
        self.live: Play | None = None

    def up(self) -> "Iterator[State]":
        """This state and those before it, the first one last."""
        state: State | None = self
        while state is not None:
            yield state
            state = state.parent

    def path(self) -> "list[State]":
        """The states from the first one to this one, both included."""
        return [*self.up()][::-1]

    def replies(self) -> tuple[Reply, ...]:
        """The replies so far."""
        return tuple(state.reply for state in self.path() if state.reply is not None)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is replayed: generators cannot be copied
        return _state_of, (self.problem, self.replies())


def _state_of(problem: Problem, replies: Sequence[Reply]) -> State:
    state = State(problem)
    for reply in replies:
        state = State(problem, state, reply)
    return state


@dataclass(frozen=True)
class Rules:
    """A game with its settings: the seam between games, environments, growers and the engine.

    `roles` has, by place, the default agent's class, its name ``"module:Class"``, or None.
    """

    game: "GameFunction"
    settings: Any
    roles: Mapping[str, Any]
    max_turns: int

    def __reduce__(self) -> tuple[Any, ...]:  # the class of settings is made of a function, and has no name
        return _rules_of, (self.game, dict(self.settings))

    @property
    def name(self) -> str:
        """The game's name."""
        return self.game.name

    @cached_property
    def _begin(self) -> Callable[[Problem], Play]:
        return self.game.begin(self.settings)

    @cached_property
    def possible_agents(self) -> tuple[str, ...]:
        """All agents, named ``"<role>_<number>"`` as PettingZoo recommends."""
        return tuple(self.roles)

    @cached_property
    def _places(self) -> dict[str, tuple[str, ...]]:
        """The agents that an `ask` may mean, by what it names: a role, or one place."""
        places: dict[str, tuple[str, ...]] = {agent: (agent,) for agent in self.roles}
        for agent in self.roles:
            places[role_of(agent)] = (*places.get(role_of(agent), ()), agent)
        return places

    @cached_property
    def _empty(self) -> dict[str, dict[str, str | int]]:
        """What an agent observes that is shown nothing, by agent."""
        return {agent: dict.fromkeys(self._names(agent), "") for agent in self.roles}

    def _names(self, agent: str) -> Sequence[str]:
        for name in (agent, role_of(agent)):
            if name in self.game.options.fields:
                return self.game.options.fields[name]
        if (default := self.default_agent(agent)) is None:
            why = f"the role {role_of(agent)!r} has no default agent whose prompt says what it observes"
            raise ConfigError(f"the game {self.name}: {why}: name its fields in fields=")
        return default.field_names()

    def default_agent(self, agent: str) -> Any:
        """The class of agent that a model becomes in a place; None where the game names none."""
        default = self.roles[agent]
        return import_object(default) if isinstance(default, str) else default

    def identity(self) -> Mapping[str, Any]:
        """What identifies it: its function and its settings."""
        return {"game": self.game.function, "settings": self.settings}

    def fields(self, agent: str) -> "Mapping[str, Space[Any]]":
        """The spaces of the agent's observation, by field name."""
        from mars_env.envs.spaces import TextOrInteger  # brings Gymnasium, whose import needs the registry

        return dict.fromkeys(self._empty[agent], TextOrInteger())

    def start(self, problem: Problem) -> State:
        """The state before the first turn; the game may reject the problem."""
        state = State(problem)
        self.pending(state)
        return state

    def current_agent(self, state: State) -> str | None:
        """Whose turn it is; None when the episode is over."""
        agents = self.actors(state)
        return agents[state.depth % len(agents)] if agents else None

    def actors(self, state: State) -> tuple[str, ...]:
        """All agents that may act: those of the role that is asked."""
        pending = self.pending(state)
        return self._places[pending.role] if isinstance(pending, Ask) else ()

    def observe(self, state: State, agent: str) -> Observation:
        """What the agent is shown, or else was shown last. Never holds the reference."""
        self.pending(state)
        for pending in (earlier.pending for earlier in state.up()):
            if isinstance(pending, Ask) and agent in self._places[pending.role]:
                return {**self._empty[agent], **pending.fields}
        return dict(self._empty[agent])

    def submission(self, state: State, action: Action) -> str | None:
        """The text that the grader judges after this action; None if it is not to be graded."""
        return None if self._request(state).graded is False else action.text

    def posed(self, state: State) -> Problem:
        """What a reply is graded on: a problem that agents have made, or the episode's."""
        graded = self._request(state).graded
        return graded if isinstance(graded, Problem) else state.problem

    def note(self, state: State, action: Action) -> Mapping[str, Any]:
        """Plain data to record with the turn: what the game says, and what it parses."""
        request = self._request(state)
        parsed = {} if request.parse is None else self._parsed(state, request.parse, action.text)
        return {**request.info, **parsed, "truncated": action.truncated}

    def _parsed(self, state: State, parse: Parse, text: str) -> Mapping[str, Any]:
        try:
            parsed: object = parse(text)
        except Exception as error:  # a user's function may raise anything
            self._fail(state.live, f"parse= raised {raised(error)}", error)
        if not isinstance(parsed, Mapping):
            self._fail(state.live, f'parse= returns a mapping such as {{"choice": 1}}, not {brief(parsed)}')
        return parsed

    def apply(
        self, state: State, action: Action, grade: Grade | None, note: Mapping[str, Any] | None = None
    ) -> State:
        """The state after the action; without its `note` the action is parsed again."""
        info = self.note(state, action) if note is None else note
        graded = self._request(state).graded is not False
        return State(state.problem, state, Reply(action, info, grade, graded=graded))

    def with_feedback(self, state: State, feedback: str) -> State:
        """The state with feedback on its last reply; the same state if the feedback is empty."""
        if not feedback or state.reply is None:
            return state
        return State(state.problem, state.parent, replace(state.reply, feedback=feedback))

    def final(self, state: State) -> int | None:
        """Which of the graded replies so far, in their order, is the team's answer."""
        end = self.pending(state)
        if not isinstance(end, End) or end.answer is None:
            return None
        graded = [id(reply) for reply in state.replies() if reply.graded]
        if id(end.answer) not in graded:
            self._fail(None, "it returns a reply that was graded, not one of graded=False, or None")
        return graded.index(id(end.answer))

    def _request(self, state: State) -> Ask:
        pending = self.pending(state)
        if isinstance(pending, End):
            raise ConfigError(f"the game {self.name} is over, so no agent can act")
        return pending

    def pending(self, state: State) -> Ask | End:
        """What the game does next in a state."""
        if state.pending is None:
            parent = state.parent
            if parent is not None and parent.live is not None:
                live, parent.live = parent.live, None
                state.pending = self._next(live, state)
            else:
                live = self._replay(state)
            state.live = live if isinstance(state.pending, Ask) else None
        assert state.pending is not None
        return state.pending

    def _replay(self, state: State) -> Play:
        """A new generator that waits in a state. On the way there it must ask what was asked before."""
        live = self._begin(state.problem)
        for step in state.path():
            if step.pending is None:
                step.pending = self._next(live, step)
            elif step.pending != self._send(live, step.reply):
                self._fail(live, "it continues differently when it is replayed: it has state, or is random")
        return live

    def _send(self, live: Play, reply: Reply | None) -> object:
        try:
            return live.send(reply)  # type: ignore[arg-type]  # what is sent first is None
        except StopIteration as end:
            return End(end.value)
        except MarsError:  # a game may reject a problem with a sentence of its own
            raise
        except Exception as error:  # a user's function may raise anything
            self._fail(live, f"it raised {raised(error)}", error)

    def _next(self, live: Play, state: State) -> Ask | End:
        """What the game does when it gets a state's reply, checked."""
        pending = self._send(live, state.reply)
        if isinstance(pending, End):
            return pending
        if not isinstance(pending, Ask):
            self._fail(live, f"it yields ask(...), not {brief(pending)}")
        places = self._places.get(pending.role)
        if places is None:
            there = choices(pending.role, self.roles)
            self._fail(live, f"it asks {brief(pending.role)}, and its agents are {there}")
        self._validate_fields(live, pending, self._empty[places[0]])
        if state.depth >= self.max_turns:
            self._fail(live, f"it asks {pending.role} for a turn after its max_turns = {self.max_turns}")
        return pending

    def _validate_fields(self, live: Play, request: Ask, fields: Mapping[str, object]) -> None:
        for name, value in request.fields.items():
            if name not in fields:
                there = choices(name, fields)
                self._fail(live, f"{request.role} has no field {brief(name)}; its fields are {there}")
            if not isinstance(value, str | int):
                self._fail(live, f"the field {name!r} is a string or an integer, not {brief(value)}")

    def _fail(self, live: Play | None, why: str, cause: Exception | None = None) -> NoReturn:
        raise ConfigError(f"{self.game.where(live)}: {why}") from cause


def _rules_of(game: "GameFunction", settings: Mapping[str, Any]) -> Rules:
    return game.with_settings(game.Settings(**settings))
