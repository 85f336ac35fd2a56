"""Invariant 3 in a turn with tools: whatever a model writes is an error that it reads, and no fault."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from typing import Any

import pytest
import sandboxes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from token_model import TokenModel
from tool_calls import add, call, writes

from benchmarks.simulator import run_virtual
from mars_env.agents import Solver, Tool, Toolbox, python_tool, tool
from mars_env.agents.tool_turn import NO_TIME_LEFT
from mars_env.errors import ConfigError, ModelError, SandboxError, ToolError
from mars_env.types import Completion

ASK = {"problem": "What is 6 * 7?"}


def echo(value: Any, times: int = 1) -> list[Any]:
    "Give a value back."
    return [value] * times


def stop(kind: str) -> None:
    "Raise what a name says."
    raise {"exit": SystemExit, "stop": StopIteration, "config": ConfigError}.get(kind, ValueError)(kind)


async def odd(session, arguments):
    return object()


TOOLS = [add, echo, stop, Tool("odd", "Give an odd value.", {"type": "object"}, odd)]

names = st.sampled_from(["add", "echo", "stop", "odd", "python", "no such tool!", ""]) | st.text(max_size=9)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["a", "b", "value", "times", "kind", "code"]) | st.text(max_size=5)
calls = st.builds(
    lambda name, arguments: {"name": name, "arguments": arguments},
    names | values,
    st.dictionaries(keys, values, max_size=3) | values,
)
surrogates = st.text(st.characters(), max_size=20) | st.sampled_from(["\ud800", "\0", "[" * 2000, "1" * 5000])
pieces = st.one_of(
    surrogates,
    calls.map(lambda call: f"<tool_call>{json.dumps(call)}</tool_call>"),
    st.lists(calls, max_size=3).map(lambda several: f"<tool_call>{json.dumps(several)}</tool_call>"),
    st.builds("<function={}><parameter={}>{}</parameter></function>".format, names, keys, surrogates),
    st.sampled_from(
        ["<tool_call>", "</tool_call>", "<function=", "```json\n", "```", '{"name": "add"', "</think>"]
    ),
)
messages = st.lists(pieces, max_size=5).map("".join)


class StrictServer:
    """Takes tools as OpenAI's servers do, and refuses a history that one of them may refuse."""

    name, takes_tools = "strict", True

    def __init__(self, texts):
        self.texts = texts

    async def complete(self, prompt, n, sampling, tools=()):
        known = {each["function"]["name"] for each in tools}
        for place, message in enumerate(prompt):
            json.dumps(message, allow_nan=False)
            requests = message.get("tool_calls", [])
            answers = prompt[place + 1 : place + 1 + len(requests)]
            assert [each["id"] for each in requests] == [each["tool_call_id"] for each in answers]
            assert all(re.fullmatch("[a-zA-Z0-9]{9}", each["id"]) for each in requests)
            assert all(each["function"]["name"] in known for each in requests)
            assert all(is_object(each["function"]["arguments"]) for each in requests)
        turns = sum(message["role"] == "assistant" for message in prompt)
        return [Completion(self.texts[turns] if turns < len(self.texts) else "42")] * n


def is_object(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return isinstance(json.loads(text, parse_constant=refuse), dict)


STRANGE = [f'<tool_call>{{"name": "echo", "arguments": {{"value": {value}}}}}</tool_call>'
           for value in ("NaN", "1e999", '"\\ud800"', "[" * 300 + "]" * 300)]  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.lists(messages, min_size=1, max_size=4), st.sampled_from(["auto", "tags", "tokens"]))
@example(STRANGE, "auto")
@example(STRANGE, "tokens")
def test_no_text_of_a_model_is_a_fault(texts, how):
    model = StrictServer(texts)
    if how == "tokens":  # which never stand for a lone surrogate
        model = TokenModel(*(text.encode(errors="replace").decode() for text in texts), *["42"] * 9)
    box = Toolbox(TOOLS, max_calls=5, calls="auto" if how == "tokens" else how)
    solver = Solver(model, tools=box)
    [action] = asyncio.run(solver.act(ASK, 1, 0))
    assert not action.interrupted
    assert {each.outcome for each in action.calls} <= {"ok", "error", "refused"}
    assert all(each.result.encode() is not None for each in action.calls)


PROGRAMS = """import os; os.kill(os.getpid(), 9)
import os; os.kill(os.getppid(), 9)
import os; os.kill(-1, 9)
import os; os._exit(0)
import os; os.closerange(0, 99)
import os; os.write(4, b'[' * 10**6)
import os; [os.fork() for _ in range(99)]
import sys; sys.setrecursionlimit(10**9); f = lambda: f(); f()
while True: pass
x = 'a' * 10**10
print('a' * 10**8)
'\\ud800'""".splitlines()
programs = st.sampled_from([*PROGRAMS, "\0", "\ud800", "(" * 10**5]) | st.text(max_size=20)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(programs, min_size=1, max_size=2))
def test_no_program_of_a_model_is_a_fault(codes):
    sandboxes.need_a_sandbox()
    texts = [call("python", code=code) for code in codes]
    solver = Solver(writes(*texts, call("python", code="6 * 7"), "42"), tools=[python_tool(seconds=2)])
    [action] = asyncio.run(solver.act(ASK, 1, 0))
    assert not action.interrupted and len(action.calls) == len(codes) + 1


async def turn(*texts, **options):
    [action] = await Solver(writes(*texts), **options).act(ASK, 1, 0)
    return action


def test_the_time_of_a_turn_in_tools_is_limited_and_the_model_may_then_answer():
    async def sleep(session, arguments):
        await asyncio.sleep(arguments["seconds"])
        return "awake"

    box = Toolbox([Tool("sleep", "Sleep.", {"type": "object"}, sleep)], tool_seconds=20)
    short, long = call("sleep", seconds=15), call("sleep", seconds=60)
    action = run_virtual(turn(short * 2, long * 2, short, "42", tools=box))  # two at the same time
    assert [each.outcome for each in action.calls] == ["ok", "ok", "error", "error", "refused"]
    assert action.calls[-1].result == NO_TIME_LEFT
    assert action.text == "42" and not action.interrupted
    endless = run_virtual(turn(long, *[short] * 9, tools=box))
    assert len(endless.completions) == 3


@pytest.mark.parametrize("error", [ToolError, SandboxError, ModelError, ConfigError, ValueError])
async def test_only_what_tools_raise_for_their_machinery_is_a_fault(error):
    def broken() -> None:
        "Raise."
        raise error("no luck")

    action = await turn(call("broken"), "42", tools=[broken])
    fault = error in (ToolError, SandboxError, ModelError)
    assert bool(action.interrupted) == fault
    assert [each.outcome for each in action.calls] == ["fault" if fault else "error"]


async def test_tools_share_a_session_that_lasts_one_turn_and_opens_with_the_first_call():
    numbers, open_sessions = itertools.count(), []

    @contextlib.asynccontextmanager
    async def session(observation):
        open_sessions.append(number := next(numbers))
        yield [number]
        open_sessions.remove(number)

    async def write(session, arguments):
        session.append(len(session))
        return str(session)

    first, second = [Tool(name, "Write.", {"type": "object"}, write, session) for name in ("first", "second")]
    for turn_number in range(2):
        action = await turn(call("add", a=1), call("first"), call("second"), "42", tools=[first, second, add])
        texts = [f"[{turn_number}, 1]", f"[{turn_number}, 1, 2]"]
        assert [each.result for each in action.calls] == ["2", *texts] and not open_sessions
    await turn(call("add", a=1), "42", tools=[first, add])
    assert next(numbers) == 2


async def test_a_session_that_cannot_be_opened_is_a_fault():
    def session(observation):
        raise OSError("no disk")

    broken = Tool("broken", "Write.", {"type": "object"}, odd, session)
    action = await turn(call("broken"), "42", tools=[broken, tool(add)])
    assert action.interrupted and [each.outcome for each in action.calls] == ["fault"]
