"""A trace of every turn, for Chrome and Perfetto."""

import heapq
import json
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from mars_env.errors import StoreError, explained
from mars_env.files import open_new
from mars_env.text import describe_error, logger

log = logger(__name__)


class Trace(AbstractContextManager["Trace"]):
    """A file of every turn that Chrome (``chrome://tracing``) and Perfetto (ui.perfetto.dev) show.

    Turns of one agent that overlap are in different lanes. The file can be read even if the run was killed.
    Use it as a context manager. On a full disk the trace ends early, and the run goes on.

    Args:
        path: The file, which is overwritten. A link is replaced; its target is not changed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with explained(StoreError, f"the trace {self.path} cannot be written", OSError):
            self._file = open_new(self.path)
        self._failed = False
        self._separator = "[\n"
        self._agents: dict[str, int] = {}
        self._lanes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)  # free from, number

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the end of the file, and close it."""
        self._write("[]\n" if self._separator == "[\n" else "\n]\n")
        self._try(self._file.close)

    def turn(self, agent: str, began: float, ended: float, **args: object) -> None:
        """Record an act of an agent; both times are in seconds of the same clock."""
        lanes = self._lanes[agent]
        place = heapq.heappop(lanes) if lanes and lanes[0][0] <= began else (0.0, len(lanes))
        heapq.heappush(lanes, (ended, place[1]))
        self._event(
            name=agent, ph="X", pid=self._pid(agent), tid=place[1], ts=1e6 * began,
            dur=1e6 * (ended - began), args={key: value for key, value in args.items() if value != ""},
        )  # fmt: skip

    def tree_ended(self, tree_id: str, fault: str = "") -> None:
        """Record that a tree has ended."""
        now = 1e6 * time.perf_counter()
        self._event(name=tree_id, ph="i", s="g", pid=self._pid("trees"), tid=0, ts=now, args={"fault": fault})

    def _pid(self, agent: str) -> int:
        if agent not in self._agents:
            self._agents[agent] = len(self._agents)
            self._event(name="process_name", ph="M", pid=self._agents[agent], args={"name": agent})
        return self._agents[agent]

    def _event(self, **event: object) -> None:
        self._write(self._separator + json.dumps(event, allow_nan=False))
        self._separator = ",\n"

    def _write(self, text: str) -> None:
        if not self._failed:
            self._try(self._file.write, text)

    def _try(self, act: Callable[..., object], *args: object) -> None:
        """Use the file until that fails: a trace must not cost the turns that it shows."""
        try:
            act(*args)
        except OSError as error:
            if not self._failed:
                log.warning("the trace %s ends early: %s", self.path, describe_error(error))
            self._failed = True
