"""Interpreters in the sandbox that keep their names."""

import asyncio
import copy

import pytest
import sandboxes

from mars_env.sandbox import find_backend
from mars_env.sandbox import interpreter as module
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


@pytest.mark.parametrize(
    ("fatal", "why"),
    [
        ("os._exit(3)", "it ended"),
        ("os._exit(0)", "it ended"),
        ("os.kill(os.getpid(), 9)", "it ended"),
        ("exec('while True: pass')", "CPU time"),
    ],
)
async def test_a_call_that_ends_the_interpreter_is_undone(home, fatal, why):
    interpreter = Interpreter(home, seconds=0.3)
    await interpreter.run("x = 2")
    with pytest.raises(RuntimeError, match=why):
        await interpreter.run(f"import os; x = 5; {fatal}")
    assert await interpreter.run("x") == "2\n"
    await interpreter.aclose()


async def test_each_call_has_its_own_cpu_time_whatever_start_and_repetition_use(home, monkeypatch):
    compute = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    monkeypatch.setattr(module, "_SERVE", 2 * compute + module._SERVE)
    interpreter = Interpreter(home, seconds=0.5)
    for _ in range(2):
        await interpreter.run(compute)
    with pytest.raises(RuntimeError, match="it ended"):
        await interpreter.run("import os; os._exit(0)")
    assert await interpreter.run("end > 0") == "True\n"
    await interpreter.aclose()


async def test_a_call_that_sleeps_too_long_ends(home):
    sleeps = Interpreter(home, wall_seconds=0.1)
    with pytest.raises(RuntimeError, match="longer"):
        await sleeps.run("import time; time.sleep(600)")
    await sleeps.aclose()


async def test_a_call_that_breaks_its_channel_ends(monkeypatch):
    sandboxes.need_a_sandbox()
    monkeypatch.setattr(module, "_END_SECONDS", 0.1)
    interpreter = Interpreter(Interpreters())
    with pytest.raises(RuntimeError, match="it ended"):
        await interpreter.run("import os, time; os.write(4, b'no JSON\\n'); time.sleep(600)")
    await interpreter.aclose()


@pytest.mark.parametrize("fatal", ["os._exit(0)", "exec('while True: pass')"])
async def test_calls_that_do_not_run_again_cost_the_names_and_not_the_turn(home, fatal):
    interpreter = Interpreter(home, seconds=0.3)
    await interpreter.run(f"import os, sys\nx = 2 if sys.stdout.room else {fatal}")  # none when repeated
    ended = await asyncio.gather(*map(interpreter.run, ["os._exit(0)", "x"]), return_exceptions=True)
    assert any(str(error).startswith("its earlier calls") for error in ended)
    assert "NameError" in await interpreter.run("x")
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
