"""The remote backend against a small server of the same protocol, which runs programs plainly."""

import base64
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import sandbox_suite
from aiohttp import web
from http_app import served

from mars_env import sandbox
from mars_env.errors import ConfigError
from mars_env.grading.code.grader import CodeGrader
from mars_env.problems.code import code_problem_from_row
from mars_env.sandbox import Ended, Limits, Remote, remote
from mars_env.types import Verdict


async def run_code(request):
    body = await request.json()
    if "BREAK" in body["code"]:
        return web.json_response({"status": "SandboxError", "message": "no"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in body["files"].items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_bytes(base64.b64decode(content))
        (folder / "main.py").write_text(body["code"])
        how = {"cwd": folder, "input": body["stdin"].encode(), "timeout": body["run_timeout"]}
        try:
            done = subprocess.run([sys.executable, "main.py"], capture_output=True, **how)
        except subprocess.TimeoutExpired:
            late = {"status": "TimeLimitExceeded", "stdout": "", "stderr": ""}
            return web.json_response({"status": "Failed", "run_result": late})
        files = {
            file: base64.b64encode((folder / file).read_bytes()).decode()
            for file in body["fetch_files"]
            if (folder / file).exists()
        }
    result = {
        "status": "Finished",
        "execution_time": 0.1,
        "return_code": done.returncode,
        "stdout": done.stdout.decode(),
        "stderr": done.stderr.decode(),
    }
    status = "Success" if done.returncode == 0 else "Failed"
    return web.json_response({"status": status, "message": "", "run_result": result, "files": files})


@pytest.fixture
async def address():
    async with served({"* /run_code": run_code}) as address:
        yield address


CHECKS = sandbox_suite.checks_for(Remote("http://x"))
COMMON = [c for c in CHECKS if not (c.guarantee or "traceback" in c.name or "close_their" in c.name)]


@pytest.mark.parametrize("check", COMMON, ids=lambda c: c.name)
async def test_common_contract(check, address):
    await check.prove(Remote(address))


async def test_results(address):
    backend = f"remote:{address}"
    result = await sandbox.run("print(6 * 7)", backend=backend)
    assert result.ok and result.stdout == b"42\n" and result.backend == "remote"
    assert sandbox.Guarantee.CPU in result.missing
    result = await sandbox.run("import time; time.sleep(9)", limits=Limits(wall_seconds=0.5), backend=backend)
    assert result.ended is Ended.WALL
    result = await sandbox.run("import os; os.kill(os.getpid(), 9)", backend=backend)
    assert (result.ended, result.signal) == (Ended.KILLED, 9)


async def test_its_faults_are_not_the_programs(address):
    result = await sandbox.run("BREAK", backend=f"remote:{address}")
    assert result.ended is Ended.LOST and "internal fault" in result.detail
    result = await sandbox.run("print(1)", backend="remote:http://127.0.0.1:1")
    assert result.ended is Ended.LOST
    with pytest.raises(ConfigError):
        Remote("localhost")


@pytest.mark.parametrize(
    "row",
    [
        {"mode": "function_call", "fn_name": "f", "inputs": [[2], [3]], "outputs": [4, 6]},
        {"mode": "stdin", "tests": [{"input": "2", "output": "4"}, {"input": "3", "output": "6"}]},
    ],
    ids=["call", "stdin"],
)
async def test_grading(address, row):
    grader = CodeGrader(backend=f"remote:{address}")
    problem = code_problem_from_row({"id": "p", "prompt": "Double it.", **row})
    body = "def f(x): return x {0}\nif __name__ == '__main__': print(f(int(input())))"
    assert (await grader.grade(problem, body.format("* 2"))).verdict is Verdict.CORRECT
    wrong = await grader.grade(problem, body.format("+ 2"))
    assert (wrong.verdict, wrong.reason) == (Verdict.WRONG, "test 2 of 2: wrong answer")
    assert wrong.backend == "remote"


async def test_it_follows_no_redirect(address):
    """The program and the tests go to the address that was named, and nowhere else."""
    seen = []

    async def elsewhere(request):
        seen.append(await request.read())
        return web.json_response({"run_result": {"return_code": 0, "stdout": "elsewhere"}})

    async def away(request):
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with served({"* /run_code": away, "* /elsewhere": elsewhere}) as address:
        result = await sandbox.run("print(1)", backend=f"remote:{address}")
    assert result.ended is Ended.LOST and "redirects to '/elsewhere'" in result.detail and seen == []


@pytest.mark.parametrize(
    ("program", "ended"),
    [
        ("import os\nfor _ in range(40): os.write(1, b'a' * (1 << 19))", Ended.OUTPUT),
        ("import os\nos.write(1, bytes([255]))", Ended.KILLED),  # this executor fails at what is no text
    ],
)
async def test_a_program_that_breaks_the_executor_each_time_has_failed(address, program, ended):
    limits = Limits(output_bytes=1 << 20)
    result = await sandbox.run(program, limits=limits, backend=f"remote:{address}")
    assert result.ended is ended
    row = {"id": "p", "prompt": "?", "mode": "stdin", "tests": [{"input": "", "output": "1"}]}
    grader = CodeGrader(backend=f"remote:{address}", limits=limits)
    assert (await grader.grade(code_problem_from_row(row), program)).verdict is Verdict.WRONG
    await grader.aclose()


async def test_an_answer_is_bounded_whatever_was_asked_for(address, monkeypatch):
    monkeypatch.setattr(remote, "MOST_ANSWER", 1 << 17)
    run = functools.partial(sandbox.run, limits=Limits(output_bytes=1 << 24), backend=f"remote:{address}")
    assert (await run("print('a' * 100_000)")).ended is Ended.EXITED
    assert (await run("print('a' * 200_000)")).ended is Ended.OUTPUT


ANSWERS = {
    "nested": b"[" + b"[]," * (1 << 22) + b"[]]",
    "deep": b"[" * (1 << 24),
    "stdout is a list": {"return_code": 0, "stdout": [1]},
    "code is a boolean": {"return_code": True},
    "code is huge": {"return_code": -(10**40)},
    "NaN": b'{"run_result": {"return_code": 0, "execution_time": NaN}}',
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_of_another_form_is_lost(name):
    answer = ANSWERS[name]

    async def answers(request):
        body = answer if isinstance(answer, bytes) else json.dumps({"run_result": answer}).encode()
        return web.Response(body=body, content_type="application/json")

    async with served({"* /run_code": answers}) as address:
        result = await sandbox.run("print(1)", backend=f"remote:{address}")
    assert result.ended is Ended.LOST and "\n" not in result.detail
