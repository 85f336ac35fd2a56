"""A trace of every turn, for Chrome and Perfetto."""

from __future__ import annotations

import heapq
import json
import time
from collections import defaultdict
from pathlib import Path

from mars_env.files import open_new


class Trace:
    """A file of every turn that Chrome (``chrome://tracing``) and Perfetto (ui.perfetto.dev) show.

    A row of the picture is a place among the turns under way of one agent. The file can be read even if
    the run was killed. Use it as a context manager.

    Args:
        path: The file, written anew; a link there is replaced, and what it points to stays as it is.

    Raises:
        OSError: It cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Trace(f"{folder}/trace.json") as trace:
        ...         trace.turn("solver_0", 1.0, 1.5, n=8)
        ...     events = json.loads(Path(f"{folder}/trace.json").read_text())
        >>> [(event["name"], event.get("dur")) for event in events]
        [('process_name', None), ('solver_0', 500000.0)]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open_new(self.path)
        self._separator = "[\n"
        self._agents: dict[str, int] = {}
        self._lanes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)  # free from, number

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the file."""
        self._file.write("[]\n" if self._separator == "[\n" else "\n]\n")
        self._file.close()

    def turn(self, agent: str, began: float, ended: float, **args: object) -> None:
        """Note an act of an agent, from and to in seconds of one and the same clock."""
        lanes = self._lanes[agent]
        place = heapq.heappop(lanes) if lanes and lanes[0][0] <= began else (0.0, len(lanes))
        heapq.heappush(lanes, (ended, place[1]))
        self._event(
            name=agent, ph="X", pid=self._pid(agent), tid=place[1], ts=1e6 * began,
            dur=1e6 * (ended - began), args={key: value for key, value in args.items() if value != ""},
        )  # fmt: skip

    def moment(self, tree: str, fault: str = "") -> None:
        """Note that a tree is finished."""
        now = 1e6 * time.perf_counter()
        self._event(name=tree, ph="i", s="g", pid=self._pid("trees"), tid=0, ts=now, args={"fault": fault})

    def _pid(self, agent: str) -> int:
        if agent not in self._agents:
            self._agents[agent] = len(self._agents)
            self._event(name="process_name", ph="M", pid=self._agents[agent], args={"name": agent})
        return self._agents[agent]

    def _event(self, **event: object) -> None:
        self._file.write(self._separator + json.dumps(event, allow_nan=False))
        self._separator = ",\n"
