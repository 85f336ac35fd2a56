"""Calls of the tool `python` beside a plain job of the sandbox's pool, in the same run.

python benchmarks/tools.py
"""

import asyncio
import statistics
import time
from pathlib import Path

from mars_env.sandbox import Pool
from mars_env.sandbox.interpreter import Interpreter, Interpreters

REPEATS, AT_ONCE, CALLS = 200, 64, 8
MANY, PAUSE = 1000, 2.0
"""So many turns, whose model takes so many seconds between two calls."""


async def seconds(work):
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def memory():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


async def turn(home, pause=0.0):
    interpreter = Interpreter(home)
    for number in range(CALLS):
        await asyncio.sleep(pause)
        await interpreter.run(f"x = {number}\nx * 7")
    await interpreter.aclose()


async def main():
    pool, home = Pool(), Interpreters(most=AT_ONCE)
    await asyncio.gather(pool.run("print(6 * 7)"), turn(home))
    found = {"plain job": [], "first call": [], "later call": []}
    for _ in range(REPEATS):  # in turns, so that all meet the same machine
        found["plain job"].append(await seconds(pool.run("print(6 * 7)")))
        interpreter = Interpreter(home)
        found["first call"].append(await seconds(interpreter.run("6 * 7")))
        found["later call"].append(await seconds(interpreter.run("6 * 7")))
        await interpreter.aclose()
    for name, values in found.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name}: {1e3 * middle:.2f} ms ({1e3 * low:.2f} to {1e3 * high:.2f})")
    for turns, pause in ((AT_ONCE, 0.0), (MANY, PAUSE), (MANY, PAUSE)):
        took = await seconds(asyncio.gather(*(turn(home, pause) for _ in range(turns))))
        kept = f"{memory():.1f} MiB and {len([*Path('/proc/self/fd').iterdir()])} descriptors after them"
        print(f"{turns} turns at once: {turns * CALLS / took:,.0f} calls/s; {kept}")
    await asyncio.gather(pool.aclose(), home.pool.aclose())


if __name__ == "__main__":
    asyncio.run(main())
