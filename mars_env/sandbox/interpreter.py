"""Python interpreters in the sandbox that keep their names from one call to the next."""

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Final

from mars_env.errors import SandboxError, explained
from mars_env.sandbox.limits import Ended, Limits, Result
from mars_env.sandbox.pool import Pool
from mars_env.sync import end_tasks

_MODULE: Final = "mars_env_repl"
_SERVE: Final = f"import {_MODULE}\n{_MODULE}.serve(living={{}})"
_LIMITS: Final = Limits(cpu_seconds=120, idle_seconds=float("inf"), wall_seconds=86_400)
"""What one interpreter may use in its whole life."""


class Interpreters:
    """What interpreters share: a sandbox, and room for `most` that live at a time.

    The calls of the others, and those in a backend that has no channels to running programs, are jobs that
    run the earlier calls again.

    Args:
        backend: The sandbox, as for `mars_env.sandbox.run`.
        most: How many interpreters live at a time; each is a process.
    """

    def __init__(self, backend: str = "auto", most: int = 64) -> None:
        source = Path(__file__).with_name("inside").joinpath("repl.py").read_text(encoding="utf-8")
        self.pool = Pool(backend, slots=2 * most, modules={_MODULE: source})  # half of them for such jobs
        self.most = most
        self.living: set[Interpreter] = set()


class Interpreter:
    """One interpreter, which starts with its first call; close it after use.

    Args:
        home: What it shares with others.
        seconds: How long one call may take.
        characters: How much of what a call prints is kept.
    """

    def __init__(self, home: Interpreters, seconds: float = 10.0, characters: int = 10_000) -> None:
        self._home, self._seconds, self._characters = home, seconds, characters
        self._busy = asyncio.Lock()
        self._calls: list[str] = []
        self._channel: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._session: asyncio.Future[Result] | None = None

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
                    text = await _answer(answers, self._seconds)
                    left -= 1
                self._calls.append(source)
                lives = self._channel is not None
                return text
            except TimeoutError:
                why = f"it took longer than {self._seconds:g} seconds"
            except EOFError:
                why = f"it ended ({await self._ended()})"
            finally:
                if not lives:
                    await self.aclose()
            if left == 1:  # the new one
                raise RuntimeError(f"{why}; names are as they were before this call")
            self._calls.clear()  # the program's fault: it must not make its turn UNKNOWN
            raise RuntimeError(f"its earlier calls do not run again: {why}; all names are lost")

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
        longest = 12 * self._characters + 1000  # of a letter outside of the basic plane, as JSON
        if not self._channel and (await home.pool.backend()).channels and len(home.living) < home.most:
            home.living.add(self)
            ours, theirs = socket.socketpair()
            self._channel = await asyncio.open_connection(sock=ours, limit=longest)
            running = home.pool.session(_SERVE.format(True), theirs, _LIMITS)
            self._session = asyncio.ensure_future(running)
            self._session.add_done_callback(lambda _: theirs.close())  # it may have failed before it began
        if self._channel:
            self._channel[1].write(lines)
            return self._channel[0]
        limits = replace(_LIMITS, wall_seconds=self._seconds * len(calls) + 10)
        self._session = asyncio.ensure_future(home.pool.run(_SERVE.format(False), lines, limits=limits))
        answers = asyncio.StreamReader(limit=longest)
        answers.feed_data((await self._session).stdout)
        answers.feed_eof()
        return answers

    async def _ended(self) -> str:
        """Why the interpreter has ended by itself; a `SandboxError` if its sandbox was lost."""
        assert self._session is not None
        if self._channel:
            self._channel[1].close()
        if not (await asyncio.wait([self._session], timeout=self._seconds))[0]:
            return Ended.KILLED.value  # it answers no more, and is killed after this
        result = await self._session
        if result.ended is Ended.LOST:
            raise SandboxError(f"the sandbox of an interpreter was lost: {result.detail}")
        return result.ended.value


async def _answer(answers: asyncio.StreamReader, seconds: float) -> str:
    """The next answer; an EOFError if there is none, or if the program itself has written here."""
    with explained(EOFError, "no answer", ValueError, RecursionError, ConnectionError):
        return str(json.loads(await asyncio.wait_for(answers.readline(), seconds)))
