"""Python interpreters in the sandbox that keep their names from one call to the next."""

import asyncio
import json
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from mars_env.errors import SandboxError, explained
from mars_env.sandbox.limits import Ended, Limits, Result
from mars_env.sandbox.pool import Lease, Pool
from mars_env.sync import end_tasks

_MODULE: Final = "mars_env_repl"
_SERVE: Final = f"import {_MODULE}\n{_MODULE}.serve(living={{}}, seconds={{}})"
_LIMITS: Final = Limits(cpu_seconds=120, idle_seconds=float("inf"), wall_seconds=86_400)  # of its whole life
_START_SECONDS: Final = 600.0  # with the wait for its turn; this is no time of a call
_END_SECONDS: Final = 10.0  # for an interpreter that has closed its channel


class Interpreters:
    """What interpreters share: a sandbox, and room for `most` that live at a time, each a process.

    The calls of the others, and those in a backend without channels, are jobs that repeat the earlier ones.
    """

    def __init__(self, backend: str = "auto", most: int = 64) -> None:
        source = Path(__file__).with_name("inside").joinpath("repl.py").read_text(encoding="utf-8")
        self.pool = Pool(backend, slots=2 * most, modules={_MODULE: source})  # half of them for such jobs
        self.most = most
        self.living: set[Interpreter] = set()


class Interpreter:
    """One interpreter: a context manager that starts and ends it. Without that, its first call starts it.

    A call may use so many seconds of CPU time, without those in which the interpreter starts and earlier
    calls run again, and by the clock `wall_seconds`, by default ``10 * seconds + 20``.
    """

    def __init__(
        self,
        home: Interpreters,
        seconds: float = 10.0,
        characters: int = 10_000,
        wall_seconds: float | None = None,
    ) -> None:
        self._home, self._characters = home, characters
        self._limits = Limits(cpu_seconds=seconds, wall_seconds=wall_seconds)
        self._busy = asyncio.Lock()
        self._calls: list[str] = []
        self._channel: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._session: asyncio.Future[Result] | None = None

    async def __aenter__(self) -> Self:
        """Start it, if there is room; a `SandboxError` if no sandbox works here, or it does not start."""
        async with self._busy:
            try:
                await self._start_if_possible()
            except BaseException:
                await self.aclose()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def run(self, source: str) -> str:
        """Run Python code, and return what it printed, with the value of an expression at its end.

        Raises:
            RuntimeError: The code took longer, or ended the interpreter. The next call finds all names as
                they were before, or none if the earlier calls do not run again.
            SandboxError: No sandbox works here, or it was lost.
        """
        async with self._busy:
            earlier = [] if self._channel else self._calls
            left, lives = len(earlier) + 1, False
            try:
                answers = await self._send([*((0, call) for call in earlier), (self._characters, source)])
                while left:
                    text = await _answer(answers, self._limits.wall)
                    left -= 1
                self._calls.append(source)
                lives = self._channel is not None
                return text
            except (TimeoutError, EOFError) as error:
                reason = await self._end_reason(error)
            finally:
                if not lives:
                    await self.aclose()
            if left == 1:  # the new one
                raise RuntimeError(f"{reason}; names are as they were before this call")
            self._calls.clear()  # the program's fault: it must not make its turn UNKNOWN
            raise RuntimeError(f"its earlier calls do not run again: {reason}; all names are lost")

    async def aclose(self) -> None:
        """End the interpreter, whatever runs in it."""
        self._home.living.discard(self)
        channel, self._channel = self._channel, None
        session, self._session = self._session, None
        if channel is not None:
            channel[1].close()
        if session is not None:
            await end_tasks([session])

    async def _send(self, calls: list[tuple[int, str]]) -> asyncio.StreamReader:
        """Have calls run, each with the characters to keep; returns what gives their answers."""
        home, lines = self._home, "".join(f"{json.dumps(call)}\n" for call in calls).encode()
        await self._start_if_possible()
        if self._channel:
            self._channel[1].write(lines)
            return self._channel[0]
        limits = replace(_LIMITS, wall_seconds=self._limits.wall * len(calls))
        job = home.pool.run(_SERVE.format(False, self._limits.cpu_seconds), lines, limits=limits)
        self._session = asyncio.ensure_future(job)
        answers = asyncio.StreamReader(limit=self._longest_answer)
        answers.feed_data((await self._session).stdout)
        answers.feed_eof()
        return answers

    async def _start_if_possible(self) -> None:
        """Start one with a channel, and wait until it is ready; not if it lives, or if there is no room."""
        home = self._home
        if self._channel or not (await home.pool.backend()).channels or len(home.living) >= home.most:
            return
        home.living.add(self)
        ours, theirs = socket.socketpair()
        self._channel = await asyncio.open_connection(sock=ours, limit=self._longest_answer)
        program = _SERVE.format(True, self._limits.cpu_seconds)
        self._session = asyncio.ensure_future(home.pool.session(program, theirs, _LIMITS))
        self._session.add_done_callback(lambda _: theirs.close())  # it may have failed before it began
        try:
            await _answer(self._channel[0], _START_SECONDS)
        except (TimeoutError, EOFError) as error:
            reason = await self._end_reason(error)
            raise SandboxError(f"an interpreter in the sandbox did not start: {reason}") from error

    @property
    def _longest_answer(self) -> int:
        """Bytes of an answer's line: a letter outside of the basic plane takes 12 as JSON."""
        return 12 * self._characters + 1000

    async def _end_reason(self, error: Exception) -> str:
        """Why there is no answer; a `SandboxError` if a harmless program does not run, either."""
        assert self._session is not None
        if self._channel:
            self._channel[1].close()
        seconds = 0 if isinstance(error, TimeoutError) else _END_SECONDS
        ended = (await asyncio.wait([self._session], timeout=seconds))[0]
        result = self._session.result() if ended else Result(Ended.LOST)
        if result.ended is Ended.LOST and not await self._home.pool.use(Lease.is_sound):
            raise SandboxError(f"the sandbox of an interpreter was lost: {result.detail}")
        if isinstance(error, TimeoutError) or result.ended is Ended.WALL:
            return f"it took longer than {self._limits.wall:g} seconds"
        if result.signal == signal.SIGPROF:
            return f"it took longer than {self._limits.cpu_seconds:g} seconds of CPU time"
        return f"it ended ({result.ended.value})"


async def _answer(answers: asyncio.StreamReader, seconds: float) -> str:
    """The next answer; an EOFError if there is none, or if the program itself has written here."""
    with explained(EOFError, "no answer", ValueError, RecursionError, ConnectionError):
        return str(json.loads(await asyncio.wait_for(answers.readline(), seconds)))
