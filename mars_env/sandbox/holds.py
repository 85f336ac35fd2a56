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


LIMITS = {
    "CPU time of all processes": "watched",
    "time asleep, time on the clock": "watched",
    "memory of all processes, together": "watched",
    "address space of each process": "kernel",
    "shared memory without a file, huge pages, pages in pipes": "closed",
    "memory in sockets (charged as memory)": "watched",
    "processes and threads": "kernel kernel asked asked",
    "bytes in files, deleted ones too": "watched",
    "512 MiB in files": "kernel kernel watched watched",
    "bytes in one file": "kernel",
    "files and folders": "watched",
    "open files of one process": "kernel",
    "open files of all processes": "watched",
    "output": "watched",
    "leases, locks, attributes and notifications of host files": "closed",
    "inotify, queues of messages, keys, asynchronous input and output": "closed",
    "64 timers and queued signals": "kernel",
    "being first to go when memory runs out": "closed",
    "memory of pipes, entries of epoll, as the kernel counts them by user": "kernel shared shared shared",
}
"""Each limit, and how it is enforced: by column, or in all of them; `docs/sandbox.md` shows them."""


def _columns(limit: str) -> list[How]:
    ways = [How(way) for way in LIMITS[limit].split()]
    return ways if len(ways) > 1 else ways * len(COLUMNS)


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
