"""How each limit is enforced, by backend and by who starts it: one table for people, pages and tests."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Row:
    """One limit.

    Attributes:
        limit: What is limited, in words.
        how: How it is enforced, by column.
        checks: The checks of `mars_env.testing.sandbox_suite` that prove it.
    """

    limit: str
    how: tuple[How, How, How, How]
    checks: tuple[str, ...] = ()

    def of(self, backend: str, *, root: bool) -> How:
        """How it is enforced for one backend and user.

        Raises:
            ValueError: The table has no such column.
        """
        return self.how[COLUMNS.index(f"{backend}, {'root' if root else 'user'}")]


_K, _A, _W, _C, _S = How.KERNEL, How.ASKED, How.WATCHED, How.CLOSED, How.SHARED

ROWS = (
    Row(
        "CPU time of all processes",
        (_W, _W, _W, _W),
        ("stops_a_busy_loop", "counts_the_time_of_threads", "counts_the_time_of_children_that_are_ignored"),
    ),
    Row("time asleep, time on the clock", (_W, _W, _W, _W), ("stops_a_sleeper", "stops_a_deadlock")),
    Row(
        "memory of all processes, together",
        (_W, _W, _W, _W),
        (
            "counts_memory_of_a_process_whose_first_thread_has_ended",
            "counts_the_pages_that_forks_share_once",
            "judges_a_short_program_by_its_peak",
        ),
    ),
    Row("address space of each process", (_K, _K, _K, _K), ("stops_a_hoarder",)),
    Row(
        "shared memory without a file, huge pages, pages in pipes",
        (_C, _C, _C, _C),
        ("counts_memory_that_is_in_no_process",),
    ),
    Row("memory in sockets (charged as memory)", (_W, _W, _W, _W), ("counts_memory_in_sockets",)),
    Row(
        "processes and threads",
        (_K, _K, _A, _A),
        (
            "stops_a_fork_bomb",
            "stops_a_thread_bomb",
            "counts_threads_whose_first_has_ended",
            "bounds_threads_that_are_started_all_at_once",
        ),
    ),
    Row(
        "bytes in files, deleted ones too",
        (_W, _W, _W, _W),
        (
            "stops_one_that_fills_the_disk",
            "counts_files_that_are_in_no_folder",
            "counts_deleted_files_that_are_only_mapped",
            "counts_files_however_deep",
        ),
    ),
    Row("512 MiB in files", (_K, _K, _W, _W), ("stops_one_that_fills_the_disk",)),
    Row("bytes in one file", (_K, _K, _K, _K), ("bounds_the_size_of_one_file",)),
    Row(
        "files and folders",
        (_W, _W, _W, _W),
        ("stops_one_that_makes_many_files", "bounds_nested_folders"),
    ),
    Row("open files of one process", (_K, _K, _K, _K), ("bounds_open_files",)),
    Row(
        "open files of all processes",
        (_W, _W, _W, _W),
        ("bounds_the_open_files_of_all_processes", "charges_nothing_for_children_that_end"),
    ),
    Row("output", (_W, _W, _W, _W), ("stops_a_flood", "keeps_standard_input_as_large_as_it_was")),
    Row(
        "leases, locks, attributes and notifications of host files",
        (_C, _C, _C, _C),
        ("holds_up_no_file_of_the_host",),
    ),
    Row(
        "inotify, queues of messages, keys, asynchronous input and output",
        (_C, _C, _C, _C),
        ("leaves_what_is_counted_by_user_to_others",),
    ),
    Row("64 timers and queued signals", (_K, _K, _K, _K), ("leaves_what_is_counted_by_user_to_others",)),
    Row(
        "being first to go when memory runs out",
        (_C, _C, _C, _C),
        ("leaves_what_is_counted_by_user_to_others",),
    ),
    Row("memory of pipes, entries of epoll, as the kernel counts them by user", (_K, _S, _S, _S)),
)
"""Each limit; `docs/sandbox.md` shows them."""


def table() -> str:
    """The table in Markdown, as shown in `docs/sandbox.md`.

    Example:
        >>> print(table().splitlines()[2])
        | CPU time of all processes | watched | watched | watched | watched |
    """
    head = f"| limit | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    return head + "".join(f"| {row.limit} | {' | '.join(row.how)} |\n" for row in ROWS)


def held_here(backend: str) -> dict[str, How]:
    """How each limit is enforced for the user of this process; empty for backends that the table lacks.

    Example:
        >>> held_here("landlock")["bytes in one file"].value
        'kernel'
        >>> held_here("unsafe")
        {}
    """
    if not any(column.startswith(f"{backend},") for column in COLUMNS):
        return {}
    return {row.limit: row.of(backend, root=is_root()) for row in ROWS}
