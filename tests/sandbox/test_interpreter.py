"""Interpreters in the sandbox that keep their names."""

import asyncio
import copy

import pytest
import sandboxes

from mars_env.errors import SandboxError
from mars_env.sandbox import find_backend
from mars_env.sandbox.interpreter import Interpreter, Interpreters


@pytest.fixture(params=["living", "replayed"])
async def home(request):
    sandboxes.need_a_sandbox()
    backend = await find_backend("auto")
    if request.param == "replayed":  # as a backend without channels does
        backend = copy.copy(backend)
        object.__setattr__(backend, "channels", False)
    home = Interpreters(backend)
    yield home
    await home.pool.aclose()


@pytest.fixture
async def interpreter(home):
    opened = Interpreter(home)
    yield opened
    await opened.aclose()


async def printed(interpreter, *calls):
    return [await interpreter.run(call) for call in calls]


async def test_names_live_on_and_the_last_value_is_shown(interpreter):
    texts = await printed(interpreter, "x = 2\nx + 3", "def f(): return x * 10", "f()", "print('a'); None")
    assert texts == ["5\n", "", "20\n", "a\n"]
    assert await printed(interpreter, "import os; os.write(1, b'a')", "'\\ud800'") == ["1\n", "'\\ud800'\n"]


async def test_errors_are_shown_and_leave_names(interpreter):
    calls = "x = 1\n1 / 0", "x +", "x", "def f(a: int): pass", "f.__annotations__"
    first, second, *others = await printed(interpreter, *calls)
    assert "ZeroDivisionError" in first and "SyntaxError" in second
    assert "repl.py" not in first + second and "ast.py" not in second
    assert others == ["1\n", "", "{'a': <class 'int'>}\n"]


async def test_output_is_cut(home):
    interpreter = Interpreter(home, characters=50)
    [text] = await printed(interpreter, "print('y' * 10**7)")
    await interpreter.aclose()
    assert text == "y" * 50 + f"\n[{10**7 - 49} more characters]"


@pytest.mark.parametrize("fatal", ["x = 5; os._exit(3)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
async def test_a_call_that_ends_the_interpreter_is_undone(interpreter, fatal):
    await interpreter.run("x = 2")
    with pytest.raises(RuntimeError, match="it ended"):
        await interpreter.run(f"import os; {fatal}")
    assert await interpreter.run("x") == "2\n"


async def test_a_call_that_takes_too_long_is_undone():
    sandboxes.need_a_sandbox()
    interpreter = Interpreter(Interpreters(), seconds=0.3)
    await interpreter.run("x = 2")
    with pytest.raises(RuntimeError, match="it took longer"):
        await interpreter.run("x = 3\nwhile True: pass")
    assert await interpreter.run("x") == "2\n"
    await interpreter.aclose()


async def test_no_call_outlives_its_time():
    sandboxes.need_a_sandbox()
    interpreter = Interpreter(Interpreters(), seconds=1)
    await interpreter.run("import os, sys, time\ntime.sleep(0 if sys.stdout.room else 600)")
    for code, why in (("os.write(4, b'no JSON\\n'); time.sleep(600)", "it ended"), ("1", "do not run again")):
        with pytest.raises(RuntimeError, match=why):
            await interpreter.run(code)
    await interpreter.aclose()


async def test_calls_that_do_not_run_again_cost_the_names_and_not_the_turn(home):
    interpreter = Interpreter(home)
    await interpreter.run("import os, sys\nx = 2 if sys.stdout.room else os._exit(0)")  # none when repeated
    ended = await asyncio.gather(*map(interpreter.run, ["os._exit(0)", "x"]), return_exceptions=True)
    assert any(str(error).startswith("its earlier calls") for error in ended)
    assert "NameError" in await interpreter.run("x")
    await interpreter.aclose()


async def test_an_interrupted_call_leaves_no_answer_behind():
    sandboxes.need_a_sandbox()
    interpreter = Interpreter(Interpreters())
    await interpreter.run("import time")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(interpreter.run("time.sleep(0.3)\n'late'"), 0.1)
    assert await interpreter.run("'next'") == "'next'\n"
    await interpreter.aclose()


async def test_those_without_room_run_their_calls_again():
    sandboxes.need_a_sandbox()
    home = Interpreters(most=2)
    several = [Interpreter(home) for _ in range(5)]
    for round_ in range(3):
        for number, interpreter in enumerate(several):
            await interpreter.run(f"x = {number} + {round_}")
            assert len(home.living) <= 2
    texts = await asyncio.gather(*(interpreter.run("x") for interpreter in several))
    assert texts == [f"{number + 2}\n" for number in range(5)]
    await asyncio.gather(*(interpreter.aclose() for interpreter in several))
    assert not home.living


async def test_a_lost_sandbox_is_a_fault(home, interpreter, monkeypatch):
    async def lost(*_, **__):
        raise SandboxError("no sandbox could be started")

    monkeypatch.setattr(home.pool, "session", lost)
    monkeypatch.setattr(home.pool, "run", lost)
    with pytest.raises(SandboxError):
        await asyncio.wait_for(interpreter.run("1"), 20)
