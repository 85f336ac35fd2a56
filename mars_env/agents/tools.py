"""Tools that an agent uses inside of its turn, and the loop of calls.

    Solver(model, tools=[python_tool()], max_calls=8)

docs/tools.md says what a tool may do, how calls are written, and what is trained.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_json

from mars_env.agents.tool_prompts import Dialogue
from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import import_object, is_object_name
from mars_env.sandbox.interpreter import Interpreters
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.text import shown
from mars_env.types import Action, Completion, Model, Prompt, Sampling, ToolCall

Run = Callable[[Mapping[str, Any]], Awaitable[str]]
"""Runs one call: arguments that fit the schema, to the text that the model reads."""

Reader = Literal["tags", "fenced"]

NO_CALLS_LEFT: Final = "no calls are left: give your answer"


@dataclass(frozen=True)
class Tool:
    """Something that a model may call while it writes.

    Make one from a function with `tool`, or take `python_tool`.

    Attributes:
        name: What the model calls it by.
        description: What it does, for the model.
        parameters: JSON schema of the arguments.
        start: Makes what runs the calls of one turn; it is closed when the turn ends.
        seconds: How long a call may take; the call is then answered by an error.
        characters: How much of a result the model reads.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    start: Callable[[], AbstractAsyncContextManager[Run]]
    seconds: float = 30.0
    characters: int = 10_000

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][\w-]{0,63}", self.name):
            raise ConfigError(f"a tool's name consists of letters, digits, - and _, got {shown(self.name)}")
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
    """The tools of an agent, and how it may use them.

    Attributes:
        tools: At least one, each with a name of its own.
        max_calls: Most calls in one turn; further ones do not run, and the model may only answer.
        reader: How calls are written: ``"tags"``, JSON in ``<tool_call>`` as Hermes and Qwen write it, or
            ``"fenced"``, a message that ends in a fenced block of Python, which the tool `python` runs.
    """

    tools: tuple[Tool, ...]
    max_calls: int = 8
    reader: Reader = "tags"

    def __post_init__(self) -> None:
        names = [each.name for each in self.tools]
        if len(set(names)) < len(names):
            raise ConfigError(f"each tool has a name of its own, got {', '.join(names)}")
        if self.max_calls < 1:
            raise ConfigError(f"max_calls must be at least 1, got {self.max_calls}")
        if self.reader not in ("tags", "fenced"):
            raise ConfigError(f"calls are written in 'tags' or 'fenced', not {shown(self.reader)}")
        if self.reader == "fenced" and "python" not in names:
            raise ConfigError("fenced calls need the tool python")

    def identity(self) -> dict[str, Any]:
        """What identifies it: all of it."""
        return {"tools": list(self.tools), "max_calls": self.max_calls, "reader": self.reader}


def tool(
    function: Callable[..., Any], *, name: str = "", seconds: float = 30.0, characters: int = 10_000
) -> Tool:
    """A tool from a typed function, sync or async.

    The model reads its name, its docstring and its parameters' types. It runs in this process, a sync
    function in a thread, which cannot be stopped when its time is over. The model reads what it raises;
    errors of mars_env itself make the turn UNKNOWN.

    Raises:
        ConfigError: A parameter has no type, or there is no docstring.

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
    arguments = _arguments(function, title)

    async def run(given: Mapping[str, Any]) -> str:
        values = dict(arguments.model_validate(given))
        if inspect.iscoroutinefunction(function):
            result = await function(**values)
        else:
            result = await asyncio.to_thread(function, **values)
            if inspect.isawaitable(result):
                result = await result
        return result if isinstance(result, str) else to_json(result, fallback=str).decode()

    @asynccontextmanager
    async def start() -> AsyncIterator[Run]:
        yield run

    schema = arguments.model_json_schema()
    schema.pop("title", None)
    return Tool(title, description, schema, start, seconds, characters)


def python_tool(
    *, seconds: float = 10.0, characters: int = 10_000, interpreters: Interpreters | None = None
) -> Tool:
    """The tool ``python``: code runs in the library's sandbox, and names live as long as the turn.

    Args:
        seconds: How long one call may take.
        characters: How much of its output the model reads.
        interpreters: Where the interpreters live; by default all tools on an event loop share one place.
    """

    @asynccontextmanager
    async def start() -> AsyncIterator[Run]:
        interpreter = (interpreters or _shared_interpreters()).open()

        async def run(given: Mapping[str, Any]) -> str:
            ran = await interpreter.run(_Code.model_validate(given).code, seconds, characters)
            if ran.ended:
                return f"Error: {ran.ended}; names are as they were before this call"
            return ran.text or "(no output)"

        try:
            yield run
        finally:
            await interpreter.close()

    description = (
        "Run Python code and read what it prints, and the value of an expression at its end. Names live on "
        "from one call to the next. There is no network."
    )
    schema = _Code.model_json_schema()
    schema.pop("title")
    # The interpreter keeps the time of a call itself; starting one may have to wait.
    return Tool("python", description, schema, start, seconds * 10 + 60, characters)


class _Code(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: str


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Interpreters] = WeakKeyDictionary()


def _shared_interpreters() -> Interpreters:
    loop = asyncio.get_running_loop()
    if loop not in _shared:
        _shared[loop] = Interpreters()
    return _shared[loop]


def make_tools(names: str) -> tuple[Tool, ...]:
    """The tools that a string names, joined by ``+``: ``python``, or ``my_module:object``.

    An object is a `Tool`, a typed function, or a list of these.
    """
    found: list[Tool] = []
    for name in names.split("+"):
        if name == "python":
            found.append(python_tool())
        elif is_object_name(name):
            value = import_object(name)
            found += map(as_tool, value if isinstance(value, list | tuple) else [value])
        else:
            raise ConfigError(f"there is no tool {shown(name)}: give python or my_module:my_tool")
    return tuple(found)


def make_toolbox(
    tools: Sequence[Tool | Callable[..., Any]], max_calls: int = 8, reader: Reader = "tags"
) -> Toolbox | None:
    """The tools of an agent; None if there are none."""
    return Toolbox(tuple(map(as_tool, tools)), max_calls, reader) if tools else None


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """A tool as it is, or made from a function."""
    if isinstance(value, Tool):
        return value
    if not callable(value):
        raise ConfigError(f"a tool is a Tool or a typed function, not {shown(value)}")
    return tool(value)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call as the model wrote it; `wrong` says why it cannot be run."""

    name: str
    arguments: Any
    written: str
    wrong: str = ""


def read_calls(text: str, reader: Reader = "tags") -> list[tuple[str, Any, str]]:
    r"""The calls in a model's message: name, arguments, and what is wrong with it, if anything is.

    Example:
        >>> read_calls('I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>')
        [('add', {'a': 1}, '')]
    """
    return [(call.name, call.arguments, call.wrong) for call in _read(text, reader)]


def _read(text: str, reader: Reader) -> list[_Asked]:
    if reader == "fenced":
        block = _FENCED.search(text)
        return [_Asked("python", {"code": block[1]}, block[1])] if block else []
    return [_tagged(match[1].strip()) for match in _TAGGED.finditer(text)]


_TAGGED: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_FENCED: Final = re.compile(r"```(?:python|py)[ \t]*\n((?:(?!```).)*)```\s*\Z", re.S)


def _tagged(written: str) -> _Asked:
    try:
        call = json.loads(written)
    except (ValueError, RecursionError):
        return _Asked("", None, written, "the call is not valid JSON")
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return _Asked("", None, written, 'a call is {"name": ..., "arguments": {...}}')
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return _Asked(call["name"], None, written, "the arguments are an object")
    return _Asked(call["name"], arguments, written)


async def act_with_tools(
    model: Model,
    prompt: Prompt,
    n: int,
    sampling: Sampling,
    toolbox: Toolbox,
    visible: Callable[[str], str] = str,
) -> list[Action]:
    """N actions on a prompt, each a chain of completions with the results of calls between them.

    ``sampling.max_tokens`` limits the sampled tokens of a whole turn. Each completion's prompt is the prompt
    before it, the sampled tokens, and the results, where the model gives token ids; see docs/tools.md.
    """
    dialogue = Dialogue(model, prompt, [each.schema for each in toolbox.tools])
    firsts = await model.complete(dialogue.prompt, n, sampling)
    chains = (_chain(model, dialogue, i, c, sampling, toolbox, visible) for i, c in enumerate(firsts))
    return await gather_all(chains)


async def _chain(
    model: Model,
    dialogue: Dialogue,
    sample: int,
    first: Completion,
    sampling: Sampling,
    toolbox: Toolbox,
    visible: Callable[[str], str],
) -> Action:
    completions, calls = [first], list[ToolCall]()
    tools = {each.name: each for each in toolbox.tools}
    async with AsyncExitStack() as turn:
        started: dict[str, Run] = {}
        while completions[-1].finish_reason == "stop":
            asked = _read(visible(completions[-1].text), toolbox.reader)
            if not asked or any(call.outcome == "refused" for call in calls):
                break
            left = toolbox.max_calls - len(calls)
            for call in asked[:left]:
                if call.name in tools and call.name not in started:
                    started[call.name] = await turn.enter_async_context(tools[call.name].start())
            results = await gather_all(
                _result(call, tools.get(call.name), started.get(call.name), len(completions) - 1)
                for call in asked[:left]
            )
            results += [
                ToolCall(len(completions) - 1, call.name, call.written, NO_CALLS_LEFT, "refused")
                for call in asked[left:]
            ]
            calls += results
            used = sum(each.sampled_tokens for each in completions)
            follow = dialogue.after(completions, calls)
            room = min(sampling.max_tokens - used, dialogue.room(follow))
            if room < 1 or any(call.outcome == "fault" for call in results):
                break
            seed = None if sampling.seed is None else derive_seed(sampling.seed, sample, len(completions))
            completions += await model.complete(follow, 1, replace(sampling, seed=seed, max_tokens=room))
    return Action(visible(completions[-1].text), tuple(completions), tuple(calls))


async def _result(call: _Asked, found: Tool | None, run: Run | None, completion: int) -> ToolCall:
    """Run one call. What is wrong with the call or its tool is a text for the model."""
    began = time.perf_counter()
    outcome: Literal["ok", "error", "fault"] = "error"
    if call.wrong:
        text = f"Error: {call.wrong}"
    elif found is None or run is None:
        text = f"Error: there is no tool {shown(call.name)}"
    else:
        try:
            async with asyncio.timeout(found.seconds):
                text, outcome = await run(call.arguments), "ok"
        except TimeoutError:
            text = f"Error: it took longer than {found.seconds:g} seconds"
        except ValidationError as error:
            text = "Error: " + "; ".join(f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()[:5])
        except MarsError as error:
            text, outcome = str(error), "fault"
        except Exception as error:  # the user's function: its errors are for the model
            text = f"Error: {type(error).__name__}: {error}"
        if len(text) > found.characters:
            text = f"{text[: found.characters]}\n[{len(text) - found.characters} more characters]"
    return ToolCall(completion, call.name, call.written, text, outcome, time.perf_counter() - began)


def _place(location: Sequence[Any]) -> str:
    return ".".join(map(str, location)) or "arguments"


def _arguments(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """A model of a function's parameters."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(f"the tool {shown(name)} has no readable signature: {error}") from error
    empty, fields = inspect.Parameter.empty, dict[str, Any]()
    for each in parameters:
        if each.annotation is empty or each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise ConfigError(f"the tool {name!r}: its parameter {each.name!r} needs a type, and a name")
        fields[each.name] = (each.annotation, ... if each.default is empty else each.default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
