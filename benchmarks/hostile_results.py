"""How long an honest verdict takes while hostile results of 16 MB arrive, from programs or a remote executor.

    python benchmarks/hostile_results.py [SANDBOX]      # half a minute

Each line gives the median and the longest of 40 honest verdicts: alone, then during hostile ones.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mars_env.errors import ConfigError, SandboxError
from mars_env.grading.code.grader import CodeGrader
from mars_env.problems.code import code_problem_from_row
from mars_env.sandbox import Pool

HONEST = "def f(x): return 2 * x"
CALL = code_problem_from_row(
    {"id": "c", "prompt": "?", "mode": "function_call", "fn_name": "f", "inputs": [[2]], "outputs": [4]}
)
READ = code_problem_from_row(
    {"id": "r", "prompt": "?", "mode": "stdin", "tests": [{"input": "", "output": "1"}]}
)
PAIRS = """b'["tuple","result",["dict"' + b',null' * (11 << 18) + b']]'"""
HOSTILE = {
    "14 MB of pairs": (CALL, f"import os\ndef f(x): os.write(3, {PAIRS}); os._exit(0)"),
    "15 MB of newlines": (READ, "print('\\n' * (15 << 20))"),
    "14 MB of words": (READ, "print('1 ' * (7 << 20))"),
    "15 MB that are not text": (READ, "import os\nos.write(1, b'\\xff' * (15 << 20))"),
}
ANSWERS = {
    "16 MB of nested lists": b"[" + b"[]," * (16 * 2**20 // 3) + b"[]]",
    "16 MB of escapes": b'{"run_result": {"return_code": 0, "stdout": "%s"}}' % (b"x\\n" * (16 * 2**20 // 3)),
}


async def honest(grader: CodeGrader) -> float:
    started = time.monotonic()
    grade = await grader.grade(CALL, HONEST)
    assert str(grade.verdict) == "CORRECT", grade
    return time.monotonic() - started


def show(name: str, seconds: list[float]) -> None:
    print(f"{name}: median {1000 * statistics.median(seconds):.0f} ms, longest {1000 * max(seconds):.0f} ms")


@asynccontextmanager
async def executor(answer: bytes) -> AsyncIterator[str]:
    """The address of a remote executor, in a separate process, that always gives the same answer."""
    command = [sys.executable, "-c", EXECUTOR]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(answer)
    process.stdin.close()
    try:
        yield f"http://127.0.0.1:{int(await asyncio.to_thread(process.stdout.readline))}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


EXECUTOR = """
import http.server, sys
answer = sys.stdin.buffer.read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", str(len(answer))); self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def main(backend: str) -> None:
    grader = CodeGrader(backend=backend, slots=3)
    await honest(grader)
    show("alone", [await honest(grader) for _ in range(40)])

    async def during(name: str, hostile: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
        seconds, results = list[float](), []
        while len(seconds) < 40:
            task = asyncio.create_task(hostile())
            while not task.done() and len(seconds) < 40:
                seconds.append(await honest(grader))
            results.append(await task)
        show(f"during {name}", seconds)
        return results

    for name, item in HOSTILE.items():
        grades = await during(name, partial(grader.grade, *item))
        assert all(str(grade.verdict) == "WRONG" for grade in grades)
    for name, answer in ANSWERS.items():
        async with executor(answer) as address:
            pool = Pool(f"remote:{address}", slots=1)
            await during(f"a remote executor's answer of {name}", partial(pool.run, "print(1)"))
            await pool.aclose()
    await grader.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sandbox", nargs="?", default="auto", help="a sandbox's name, or remote:<address>")
    try:
        asyncio.run(main(parser.parse_args().sandbox))
    except (ConfigError, SandboxError) as error:
        parser.error(str(error))
