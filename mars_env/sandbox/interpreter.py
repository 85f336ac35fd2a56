"""Python interpreters in the sandbox that keep their names from one call to the next."""

import asyncio
import json
import socket
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mars_env.errors import SandboxError
from mars_env.sandbox.inside.repl import ANSWER, CALL, CALLS
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import Ended, Limits, Result
from mars_env.sandbox.pool import Pool
from mars_env.sync import end_tasks

_MODULE: Final = "mars_env_repl"
_DAY: Final = 86_400.0
_UNDONE: Final = "names are as they were before this call"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call printed, and what ended the interpreter, if that is what it did."""

    text: str
    ended: str = ""


class Interpreters:
    """Makes interpreters, of which at most `most` live at a time.

    Where more are open, the one that was used longest ago ends, and its next call runs its earlier calls
    again. It is the same with a backend that has no channels to running programs. Use it on one event loop.

    Args:
        backend: The sandbox, as for `mars_env.sandbox.run`.
        most: How many interpreters live at a time; each is a process.
        limits: What one interpreter may use in its whole life; by default 120 seconds of CPU time.
    """

    def __init__(self, backend: str = "auto", most: int = 64, limits: Limits | None = None) -> None:
        self.limits = replace(limits or Limits(cpu_seconds=120), idle_seconds=float("inf"), wall_seconds=_DAY)
        source = Path(__file__).with_name("inside").joinpath("repl.py").read_text(encoding="utf-8")
        self.pool = Pool(backend, slots=most, modules={_MODULE: source})
        self.most = most
        self.living: OrderedDict[Interpreter, None] = OrderedDict()
        self.idle = asyncio.Event()

    def open(self) -> "Interpreter":
        """A new interpreter; close it after use."""
        return Interpreter(self)

    async def admit(self, interpreter: "Interpreter") -> None:
        """Let an interpreter live, once there is room: the idle one that was used longest ago ends."""
        while len(self.living) >= self.most:
            idle = next((other for other in self.living if not other.busy.locked()), None)
            if idle is not None:
                await idle.close()
            else:
                self.idle.clear()
                await self.idle.wait()
        self.living[interpreter] = None


class Interpreter:
    """One interpreter; `Interpreters.open` makes it. It starts with its first call."""

    def __init__(self, home: Interpreters) -> None:
        self.busy = asyncio.Lock()
        self._home = home
        self._calls: list[str] = []
        self._channel: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._session: asyncio.Task[Result] | None = None

    async def run(self, source: str, seconds: float = 10.0, characters: int = 10_000) -> CallResult:
        """Run Python code, and return what it printed, with the value of an expression at its end.

        Code that takes longer ends the interpreter, and so may its own limits; the next call finds all names
        as they were before, or none if the earlier calls do not run again.

        Raises:
            SandboxError: No sandbox works here, or it was lost.
        """
        async with self.busy:
            try:
                return await self._run(source, seconds, characters)
            finally:
                self._home.idle.set()

    async def _run(self, source: str, seconds: float, characters: int) -> CallResult:
        if not (await self._home.pool.backend()).channels:
            return await self._replayed(source, seconds, characters)
        restored = self._channel is not None
        try:
            if not restored:
                await self._start()
                restored = True
            self._home.living.move_to_end(self)
            async with asyncio.timeout(seconds):
                text = await self._call(source, characters)
        except TimeoutError:
            await self.close()
            return CallResult("", f"it took longer than {seconds:g} seconds; {_UNDONE}")
        except (ConnectionError, asyncio.IncompleteReadError):
            why = await self._end()
            if not restored:  # the program's fault: it must not make its turn UNKNOWN
                self._calls.clear()
                return CallResult("", f"its earlier calls do not run again: {why}; all names are lost")
            return CallResult("", f"{why}; {_UNDONE}")
        except asyncio.CancelledError:  # an answer may be on its way
            await self.close()
            raise
        self._calls.append(source)
        return CallResult(text)

    async def close(self) -> None:
        """End the interpreter, whatever runs in it."""
        self._home.living.pop(self, None)
        channel, self._channel = self._channel, None
        session, self._session = self._session, None
        if channel is not None:
            channel[1].close()
        if session is not None:
            await end_tasks([session])

    async def _start(self) -> None:
        await self._home.admit(self)
        ours, theirs = socket.socketpair()
        self._channel = await asyncio.open_connection(sock=ours)
        job = Job(source=f"import {_MODULE}\n{_MODULE}.serve()")
        self._session = asyncio.ensure_future(self._home.pool.session(job, theirs, self._home.limits))
        self._session.add_done_callback(lambda _: theirs.close())  # it may have failed before it began
        for source in self._calls:
            await self._call(source, 0)

    async def _end(self) -> str:
        """Why the interpreter has ended by itself; a `SandboxError` if its sandbox was lost."""
        session, self._session = self._session, None
        await self.close()
        assert session is not None
        result = await session
        if result.ended is Ended.LOST:
            raise SandboxError(f"the sandbox of an interpreter was lost: {result.detail}")
        return f"it ended ({result.ended.value})"

    async def _call(self, source: str, characters: int) -> str:
        assert self._channel is not None
        (reader, writer), data = self._channel, source.encode("utf-8", "surrogatepass")
        writer.write(CALL.pack(characters, len(data)) + data)
        await writer.drain()
        (length,) = ANSWER.unpack(await reader.readexactly(ANSWER.size))
        # A character takes up to ten bytes; a program may also write to the channel itself.
        return (await reader.readexactly(min(length, 10 * characters + 1000))).decode("utf-8", "replace")

    async def _replayed(self, source: str, seconds: float, characters: int) -> CallResult:
        calls = json.dumps([characters, [*self._calls, source]]).encode()
        job = Job(source=f"import {_MODULE}\n{_MODULE}.replay()", files={CALLS: calls})
        limits = replace(self._home.limits, wall_seconds=seconds * (len(self._calls) + 1) + 10)
        result = await self._home.pool.run(job, limits=limits)
        if result.ended is Ended.LOST:
            raise SandboxError(f"the sandbox of an interpreter was lost: {result.detail}")
        if not result.ok or not result.stdout:  # the last call ended it, perhaps with status 0
            return CallResult("", f"it ended ({result.ended.value}); {_UNDONE}")
        self._calls.append(source)
        return CallResult(result.stdout[1:].decode("utf-8", "replace"))
