"""The rows that an agent file returns: n calls for one prompt share one tree of turns.

OpenRLHF asks an agent file n times for a prompt, each time for one row of a batch, and compares the n rows
with each other. Here one of the n calls plays a tree, and each call takes one of its samples. The advantages
are known by then, and are the rows' rewards: the estimator "dr_grpo" does not change them, as their mean is
0.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from mars_env.errors import ConfigError
from mars_env.trainers.checks import require_rows
from mars_env.trainers.openrlhf.rollouts.responses import response, response_row
from mars_env.trainers.samples import TurnSample
from mars_env.types import Completion

Row = dict[str, Any]


class SharedCalls:
    """Calls with the same key, made at the same time, share what one of them makes."""

    def __init__(self) -> None:
        self._running: dict[Hashable, _Calls] = {}

    async def share(self, key: Hashable, make: Callable[[int], Awaitable[Sequence[Row]]]) -> Row:
        """This call's part of what `make` makes; `make` gets the number of calls with this key.

        All calls with one key must start before the event loop does anything else, as the tasks of one
        `asyncio.gather` do. Parts are given in the order of the calls; a `ConfigError` if there are others.
        """
        group = self._running.setdefault(key, _Calls())
        place, group.number = group.number, group.number + 1
        await asyncio.sleep(0)  # by now every call is counted
        self._running.pop(key, None)  # later calls of the key form another group
        group.parts = group.parts or asyncio.ensure_future(make(group.number))
        parts = await group.parts
        if len(parts) != group.number:
            raise ConfigError(f"{group.number} calls share {len(parts)} parts: make one for each")
        return parts[place]


@dataclass(slots=True)
class _Calls:
    """The calls of one key, and what they share."""

    number: int = 0
    parts: asyncio.Future[Sequence[Row]] | None = None


def training_rows(samples: Sequence[TurnSample], n: int, *, temperature: float, filler: int) -> list[Row]:
    """The n rows of a prompt: its samples, filled up to n with rows of one token and no advantage.

    OpenRLHF needs a fixed number of rows, and subtracts the mean of their n rewards from each. A row's
    ``reward`` is the advantage, ``scores`` the turn's reward, which OpenRLHF's dynamic filtering uses.
    `filler` is the token of the filling rows. More samples than rows raise ConfigError, and so do advantages
    whose sum is not zero.

    Example:
        >>> sample = TurnSample("p#0", "0", "g", "solver_0", "solver", "mars", (5, 6), (7,), (-0.5,), 1.0, (),
        ...                     False, 1.0, None, 0.0)
        >>> rows = training_rows([sample], 2, temperature=1.0, filler=0)
        >>> [(row["observation_tokens"], row["reward"], row["scores"]) for row in rows]
        [([5, 6, 7], 0.0, 1.0), ([0, 0], 0.0, 1.0)]
    """
    require_rows(samples, "OpenRLHF", temperature, n)
    mean = sum(sample.reward for sample in samples) / max(1, len(samples))
    rows = [
        response(sample)
        | {"reward": float(sample.advantage), "scores": float(sample.reward)}
        | {"extra_logs": {"turn_reward": float(sample.reward), "filler": 0.0}}
        for sample in samples
    ]
    return rows + [_filler(filler, 0.0, mean, 1.0) for _ in range(n - len(samples))]


def evaluation_row(completion: Completion | None, score: float, filler: int) -> Row:
    """The row of an evaluated episode: one of its completions, if there is any, and the score as reward."""
    if completion is None:
        return _filler(filler, score, score, 0.0)
    tokens = completion.prompt_ids, completion.token_ids, completion.logprobs
    row = response_row(*tokens, score, score, {"turn_reward": score, "filler": 0.0})
    return row | {"truncated": completion.finish_reason == "length"}


def _filler(token: int, reward: float, score: float, filler: float) -> Row:
    logs = {"turn_reward": score, "filler": filler}
    return response_row((token,), (token,), (0.0,), reward, score, logs)
