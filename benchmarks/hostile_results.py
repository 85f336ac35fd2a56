"""How long an honest verdict takes beside one hostile result of 16 MB.

    python benchmarks/hostile_results.py [SANDBOX]      # half a minute

Each line: the median and the longest of 40 honest verdicts alone, and while hostile programs are judged.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from mars_env.errors import ConfigError, SandboxError
from mars_env.grading.code.grader import CodeGrader
from mars_env.problems.code import code_problem_from_row

HONEST = "def f(x): return 2 * x"
CALL = code_problem_from_row(
    {"id": "c", "prompt": "?", "mode": "function_call", "fn_name": "f", "inputs": [[2]], "outputs": [4]}
)
READ = code_problem_from_row(
    {"id": "r", "prompt": "?", "mode": "stdin", "tests": [{"input": "", "output": "1"}]}
)
HEAD = "b't\\2\\0\\0\\0s\\6\\0\\0\\0resultd' + struct.pack('<I', 7 << 20)"
HOSTILE = {
    "14 MB of pairs": (
        CALL,
        f"import os, struct\ndef f(x): os.write(3, {HEAD} + b'N' * (14 << 20)); os._exit(0)",
    ),
    "15 MB of newlines": (READ, "print('\\n' * (15 << 20))"),
    "14 MB of words": (READ, "print('1 ' * (7 << 20))"),
    "15 MB that are no text": (READ, "import os\nos.write(1, b'\\xff' * (15 << 20))"),
}


async def honest(grader: CodeGrader) -> float:
    started = time.monotonic()
    grade = await grader.grade(CALL, HONEST)
    assert str(grade.verdict) == "CORRECT", grade
    return time.monotonic() - started


def show(name: str, seconds: list[float]) -> None:
    print(f"{name}: median {1000 * statistics.median(seconds):.0f} ms, longest {1000 * max(seconds):.0f} ms")


async def main(backend: str) -> None:
    grader = CodeGrader(backend=backend, slots=3)
    await honest(grader)
    show("alone", [await honest(grader) for _ in range(40)])
    for name, (problem, program) in HOSTILE.items():
        seconds: list[float] = []
        while len(seconds) < 40:
            hostile = asyncio.create_task(grader.grade(problem, program))
            while not hostile.done() and len(seconds) < 40:
                seconds.append(await honest(grader))
            assert str((await hostile).verdict) == "WRONG"
        show(f"beside {name}", seconds)
    await grader.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sandbox", nargs="?", default="auto", help="auto, a sandbox's name, or remote:<address>"
    )
    try:
        asyncio.run(main(parser.parse_args().sandbox))
    except (ConfigError, SandboxError) as error:
        parser.error(str(error))
