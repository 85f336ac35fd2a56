"""A person as an agent: reads observations in the terminal and writes texts."""

from __future__ import annotations

import sys
from typing import ClassVar

from mars_env.cli.screen import say
from mars_env.types import Action, Observation

_END = "."


class Stopped(BaseException):
    """The person has ended the input. It is no fault of an agent, so it ends the run."""


class Person:
    """An agent whose texts are typed: a line with a single dot ends one."""

    policy: ClassVar[str] = "person"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Show the observation and read n texts. It blocks the event loop: a person plays one turn at a time.

        Raises:
            Stopped: The input has ended without a text.
        """
        return [Action(self._text(observation)) for _ in range(n)]

    def _text(self, observation: Observation) -> str:
        for name, value in observation.items():
            say(f"\n[{name}]\n{value}")
        say(f"\nYour text, ended by a line with a single {_END!r}:")
        lines: list[str] = []
        while True:
            line = sys.stdin.readline()
            if not line and not lines:
                raise Stopped
            if not line or line.rstrip("\r\n") == _END:
                return "".join(lines).rstrip("\n")
            lines.append(line)
