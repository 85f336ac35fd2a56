"""How each limit is enforced, by backend and by who starts it: one table for people, pages and tests."""

from __future__ import annotations

from enum import StrEnum

from mars_env.sandbox.backends import is_root

COLUMNS = ("bubblewrap, root", "bubblewrap, user", "landlock, root", "landlock, user")
"""Each column is a backend, started by root or by an ordinary user."""


class How(StrEnum):
    """How a limit is enforced."""

    KERNEL = "kernel"
    """The kernel refuses to exceed it."""
    ASKED = "asked"
    """The kernel asks the box before each one, and the box refuses to exceed the limit."""
    WATCHED = "watched"
    """The box looks every 4 to 20 ms and kills: a program may exceed the limit for that long."""
    CLOSED = "closed"
    """There is nothing to limit: programs cannot use it at all."""
    SHARED = "shared"
    """It is not enforced: the kernel counts it for the user who started the sandbox, so that user's other
    programs have less while the program runs. The program's other limits bound how much it can take."""


LIMITS: dict[str, How | tuple[How, ...]] = {
    "CPU time of all processes": How.WATCHED,
    "time asleep, time on the clock": How.WATCHED,
    "memory of all processes, together": How.WATCHED,
    "address space of each process": How.KERNEL,
    "shared memory without a file, huge pages, pages in pipes": How.CLOSED,
    "memory in sockets (charged as memory)": How.WATCHED,
    "processes and threads": (How.KERNEL, How.KERNEL, How.ASKED, How.ASKED),
    "bytes in files, deleted ones too": How.WATCHED,
    "512 MiB in files": (How.KERNEL, How.KERNEL, How.WATCHED, How.WATCHED),
    "bytes in one file": How.KERNEL,
    "files and folders": How.WATCHED,
    "open files of one process": How.KERNEL,
    "open files of all processes": How.WATCHED,
    "output": How.WATCHED,
    "leases, locks, attributes and notifications of host files": How.CLOSED,
    "inotify, queues of messages, keys, asynchronous input and output": How.CLOSED,
    "64 timers and queued signals": How.KERNEL,
    "being first to go when memory runs out": How.CLOSED,
    "memory of pipes, entries of epoll, as the kernel counts them by user": (
        How.KERNEL,
        How.SHARED,
        How.SHARED,
        How.SHARED,
    ),
}
"""Each limit, and how it is enforced: by column, or in all of them; `docs/sandbox.md` shows them."""


def _columns(limit: str) -> tuple[How, ...]:
    ways = LIMITS[limit]
    return ways if isinstance(ways, tuple) else (ways,) * len(COLUMNS)


def table() -> str:
    """The table in Markdown, as shown in `docs/sandbox.md`.

    Example:
        >>> print(table().splitlines()[2])
        | CPU time of all processes | watched | watched | watched | watched |
    """
    head = f"| limit | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    return head + "".join(f"| {limit} | {' | '.join(_columns(limit))} |\n" for limit in LIMITS)


def held_here(backend: str) -> dict[str, How]:
    """How each limit is enforced for the user of this process; empty for backends that the table lacks.

    Example:
        >>> held_here("landlock")["bytes in one file"].value
        'kernel'
        >>> held_here("unsafe")
        {}
    """
    column = f"{backend}, {'root' if is_root() else 'user'}"
    if column not in COLUMNS:
        return {}
    return {limit: _columns(limit)[COLUMNS.index(column)] for limit in LIMITS}
