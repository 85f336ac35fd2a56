"""A model that fails while other requests to it run."""

import asyncio

from mars_env.errors import ModelError
from mars_env.types import Completion


class FailsOnce:
    """Gives its answers, then fails at the next request; further ones run until they are cancelled.

    Attributes:
        asked: Requests after the answers.
        ended: Those of them that were cancelled.
    """

    name = "fails-once"

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = self.ended = 0

    async def complete(self, prompt, n, sampling):
        if self._answers:
            return [Completion(self._answers.pop(0))] * n
        self.asked += 1
        if self.asked == 1:
            await asyncio.sleep(0.01)  # the others run by then
            raise ModelError("the server is gone")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.ended += 1
            raise
