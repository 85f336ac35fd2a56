"""Tools that an agent uses inside of its turn; docs/tools.md says what they may do, and what is trained."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, Literal

from pydantic import PydanticUserError, TypeAdapter, validate_call
from pydantic_core import to_json

from mars_env.envs.visibility import public_tests, visible_problem
from mars_env.errors import ConfigError, SandboxError, explained
from mars_env.grading.code import CodeGrader
from mars_env.grading.code.validate import fenced
from mars_env.lazy import import_object, is_object_name
from mars_env.problems import ProblemSet
from mars_env.sandbox import Lease
from mars_env.sandbox.interpreter import Interpreter, Interpreters
from mars_env.sync import in_own_thread, maybe_await
from mars_env.text import brief
from mars_env.types import Observation, Problem

Run = Callable[[Any, Mapping[str, Any]], Awaitable[str]]
"""Runs one call: the turn's session and the arguments, to the text that the model reads."""


@dataclass(frozen=True)
class Tool:
    """Something that a model may call while it writes. Make one from a function with `tool`.

    What `run` raises is an error that the model reads, except for `ToolError`, `SandboxError` and
    `ModelError`, which make the turn UNKNOWN: raise these only if a harmless call would fail, too.

    Attributes:
        parameters: JSON schema of the arguments.
        session: Opens what the calls of one turn share, given its observation, at the first call. It is
            closed when the turn ends. Tools with the same `session` share it.
        seconds: How long a call may take; the call is then answered by an error.
        characters: How much of a result the model reads.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Run
    session: Callable[[Observation], AbstractAsyncContextManager[Any]] = nullcontext
    seconds: float = 30.0
    characters: int = 10_000

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][\w-]{0,63}", self.name):
            raise ConfigError(f"a tool's name consists of letters, digits, - and _, got {brief(self.name)}")
        if self.seconds <= 0 or self.characters < 1:
            raise ConfigError(f"the limits of the tool {self.name!r} must be above 0")

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as chat templates and servers expect it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def identity(self) -> dict[str, Any]:
        """What identifies it: what the model reads of it, and the limits."""
        return {"schema": self.schema, "seconds": self.seconds, "characters": self.characters}


@dataclass(frozen=True)
class Toolbox:
    """The tools of an agent, and how it may use them; a `ConfigError` if a tool is none, or a setting wrong.

    Attributes:
        tools: At least one tool or typed function, each with a different name.
        max_calls: Most calls in one turn; further ones do not run, and the model may only answer.
        tool_seconds: How long the calls of one turn may take together; a call that still runs then is
            answered by an error, and further ones do not run.
        calls: How calls are written. ``"auto"``: as the server (``tool_calls``) or the model's own template
            and response parser do, else as ``"tags"``; ``"tags"``: JSON in ``<tool_call>``, as Hermes and
            Qwen write it; ``"fenced"``: a fenced block of Python that ends a message, for the tool `python`.
    """

    tools: Sequence[Tool | Callable[..., Any]]
    max_calls: int = 8
    tool_seconds: float = 120.0
    calls: Literal["auto", "tags", "fenced"] = "auto"

    def __post_init__(self) -> None:
        tools = tuple(map(as_tool, self.tools))
        object.__setattr__(self, "tools", tools)
        names = [tool.name for tool in tools]
        if not names or len({*names}) < len(names):
            raise ConfigError(f"give tools, each with its own name, got {', '.join(names) or 'none'}")
        if self.max_calls < 1:
            raise ConfigError(f"max_calls must be at least 1, got {self.max_calls}")
        if not self.tool_seconds > 0:
            raise ConfigError(f"tool_seconds must be above 0, got {self.tool_seconds}")
        if self.calls not in ("auto", "tags", "fenced"):
            raise ConfigError(f"calls is one of auto, tags, fenced, not {brief(self.calls)}")
        if self.calls == "fenced" and names != ["python"]:
            raise ConfigError("fenced calls are for the tool python alone")

    @property
    def by_name(self) -> dict[str, Tool]:
        """The tools."""
        return {tool.name: tool for tool in map(as_tool, self.tools)}


def tool(
    function: Callable[..., Any], *, name: str = "", seconds: float = 30.0, characters: int = 10_000
) -> Tool:
    """A tool from a typed function, sync or async; a `ConfigError` if a type or the docstring is missing.

    The model reads its name, its docstring and its parameters' types. It runs in this process, a sync
    function in a thread, which cannot be stopped when its time is over.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     "Add two integers."
        ...     return a + b
        >>> tool(add).schema["function"]["parameters"]["required"]
        ['a', 'b']
    """
    title = name or getattr(function, "__name__", "")
    description = inspect.getdoc(function) or ""
    if not description:
        raise ConfigError(f"the tool {title!r} needs a docstring: it tells the model what the tool does")

    @wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        return partial(function, *args, **kwargs)

    unreadable = (PydanticUserError, NameError, TypeError, ValueError)
    with explained(ConfigError, f"the tool {title!r} has no readable signature", *unreadable):
        untyped = [p.name for p in inspect.signature(function).parameters.values() if p.annotation is p.empty]
        schema, checked = _schema(function), validate_call(bound)
    if untyped or schema["type"] != "object":
        raise ConfigError(f"the tool {title!r}: {', '.join(untyped) or 'a parameter'} needs name and type")

    async def run(_: object, arguments: Mapping[str, Any]) -> str:
        # Called without pydantic's frames: a process that ends while a thread is in them is aborted.
        result = await maybe_await(await in_own_thread(checked(**arguments)))
        return result if isinstance(result, str) else to_json(result, fallback=str).decode()

    return Tool(title, description, schema, run, seconds=seconds, characters=characters)


def python_tool(*, seconds: float = 10.0, characters: int = 10_000) -> Tool:
    """The tool ``python``: code runs in the sandbox, with `seconds` of CPU time; names live for the turn."""

    def session(_: Observation) -> AbstractAsyncContextManager[Interpreter]:
        return Interpreter(_interpreters(), seconds, characters)

    async def run(interpreter: Interpreter, arguments: Mapping[str, Any]) -> str:
        return await interpreter.run(_code(**arguments)) or "(no output)"

    description = (
        "Run Python code and read what it prints, and the value of an expression at its end. Names live on "
        "from one call to the next. There is no network."
    )
    # The interpreter keeps both limits itself; its session starts it, which takes no call's time.
    return Tool("python", description, _schema(_code), run, session, seconds * 10 + 60, characters + 100)


def public_tests_tool(problems: ProblemSet, *, seconds: float = 60.0) -> Tool:
    """The tool ``public_tests``: runs a program on the public tests of the problem, of a finite set."""
    if problems.endless:
        raise ConfigError("public_tests_tool needs a finite problem set: give a part, e.g. problems[:1000]")
    by_statement = {
        problem.statement: visible_problem(problem) for problem in problems if public_tests(problem)
    }
    judge = CodeGrader(tests="public", run_all=True)

    def session(observation: Observation) -> AbstractAsyncContextManager[Problem | None]:
        return nullcontext(by_statement.get(str(observation.get("problem"))))

    async def run(problem: Problem | None, arguments: Mapping[str, Any]) -> str:
        code = _code(**arguments)
        if problem is None:
            return "Error: this problem has no public tests"
        grade = await judge.grade(problem, fenced(code))
        if grade.score is None and not await judge.pool.use(Lease.is_sound):
            raise SandboxError(grade.reason)
        return grade.feedback or grade.reason

    description = "Run a whole program on the problem's public tests, and read which of them it passes."
    return Tool("public_tests", description, _schema(_code), run, session, seconds)


def _schema(function: Any) -> dict[str, Any]:
    return TypeAdapter(function).json_schema()


_interpreters = cache(Interpreters)
"""Gives what all interpreters of this process share."""


@validate_call
def _code(code: str) -> str:
    """The argument of a tool that runs a program."""
    return code


def make_tools(names: str, problems: ProblemSet | None = None) -> tuple[Tool, ...]:
    """The tools that a string names, joined by ``+``: ``python``, ``public_tests``, or ``my_module:object``.

    An object is a `Tool`, a typed function, or a list of these.
    """
    tools: list[Tool] = []
    for name in names.split("+") if names else ():
        if name == "python":
            tools.append(python_tool())
        elif name == "public_tests":
            if problems is None:
                raise ConfigError("public_tests needs the problems: give agents public_tests_tool(problems)")
            tools.append(public_tests_tool(problems))
        elif is_object_name(name):
            value = import_object(name)
            tools += map(as_tool, value if isinstance(value, list | tuple) else [value])
        else:
            raise ConfigError(f"there is no tool {brief(name)}: give python, public_tests or module:tool")
    return tuple(tools)


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """A tool as it is, or made from a function."""
    if isinstance(value, Tool):
        return value
    if not callable(value):
        raise ConfigError(f"a tool is a Tool or a typed function, not {brief(value)}")
    return tool(value)
