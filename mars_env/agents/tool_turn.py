"""The calls of one turn: which of them run, in which sessions, and what the model reads of each."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Literal

from pydantic import ValidationError

from mars_env.agents.calls import Call
from mars_env.agents.tools import Tool, Toolbox
from mars_env.errors import ModelError, SandboxError, ToolError
from mars_env.sync import gather_all, only_own_cancellation
from mars_env.text import brief, describe_error, logger, validation_message
from mars_env.types import Observation, ToolCall

log = logger(__name__)

NO_CALLS_LEFT: Final = "no calls are left: give your answer"
NO_TIME_LEFT: Final = "no time for calls is left: give your answer"

FAULTS: Final = (ToolError, SandboxError, ModelError)
"""What a tool raises if a harmless call would fail, too: the turn is UNKNOWN."""

Outcome = Literal["ok", "error", "refused", "fault"]


class ToolTurn:
    """Answers the calls of one turn until their number or their time is used up."""

    def __init__(self, box: Toolbox, observation: Observation) -> None:
        self.calls: list[ToolCall] = []
        self._tools, self._max_calls, self._seconds_left = box.by_name, box.max_calls, box.tool_seconds
        self._observation = observation
        self._sessions: dict[Any, Any] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "ToolTurn":
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._stack.aclose()
        except Exception as error:  # of a user's session; the turn's calls are answered
            log.warning("a tool's session could not be closed: %s", describe_error(error))

    @property
    def has_refused(self) -> bool:
        """Whether a call was refused, after which the model may only answer."""
        return bool(self.calls) and self.calls[-1].outcome == "refused"

    async def answer(self, calls: Sequence[Call], completion: int) -> list[ToolCall]:
        """Answer the calls of one message, which run at the same time."""
        refusal = NO_CALLS_LEFT if self._seconds_left > 0 else NO_TIME_LEFT
        room = self._max_calls - len(self.calls) if self._seconds_left > 0 else 0
        fault = await self._open(self._tools[call.name] for call in calls[:room] if call.name in self._tools)
        clock = asyncio.get_running_loop().time
        began = clock()
        answers = await gather_all(
            self._answer(call, completion, fault, refusal if number >= room else "")
            for number, call in enumerate(calls)
        )
        self._seconds_left -= clock() - began
        self.calls += answers
        return answers

    async def _open(self, tools: Iterable[Tool]) -> str:
        """Open the sessions of tools that are not open yet; returns why one of them cannot be opened."""
        for tool in tools:
            if tool.session not in self._sessions:
                try:
                    session = await self._stack.enter_async_context(tool.session(self._observation))
                except Exception as error:  # a user's, too: no call has begun that could be to blame
                    return f"the tool {tool.name} cannot be used: {describe_error(error)}"
                self._sessions[tool.session] = session
        return ""

    async def _answer(self, call: Call, completion: int, fault: str, refusal: str) -> ToolCall:
        began, tool = time.perf_counter(), self._tools.get(call.name)
        outcome: Outcome = "error"
        if refusal:
            text, outcome = refusal, "refused"
        elif tool is None:
            text = f"Error: {call.mistake or f'there is no tool {brief(call.name)}'}"
        elif fault:
            text, outcome = fault, "fault"
        else:
            text, outcome = await self._run(tool, call)
        return ToolCall(completion, call.name, call.written, text, outcome, time.perf_counter() - began)

    async def _run(self, tool: Tool, call: Call) -> tuple[str, Outcome]:
        """What the model reads of a call that runs; all but a fault of the machinery is its result."""
        seconds = min(tool.seconds, self._seconds_left)
        outcome: Outcome = "error"
        try:
            async with asyncio.timeout(seconds) as limit:
                with only_own_cancellation():
                    text, outcome = str(await tool.run(self._sessions[tool.session], call.arguments)), "ok"
        except FAULTS as error:
            text, outcome = str(error), "fault"
        except ValidationError as error:
            text = f"Error: {validation_message(error)}"
        except Exception as error:  # the user's function: its errors are for the model
            late = f"it took longer than {seconds:.3g} seconds"
            text = f"Error: {late if limit.expired() else _words_of(error)}"
        return _readable(text, tool.characters), outcome


def _words_of(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a user's class may fail to describe itself
        return type(error).__name__


def _readable(text: str, characters: int) -> str:
    """The start of a result; no tokenizer takes a lone surrogate."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= characters:
        return text
    return f"{text[:characters]}\n[{len(text) - characters} more characters]"
