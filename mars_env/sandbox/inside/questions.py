"""The box's answers to the system call filter's questions, about ends of children and new threads."""

# It must import fast, so it does not use pathlib.
# ruff: noqa: PTH116, PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
from time import monotonic as clock

from mars_env.sandbox.inside.watch import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from collections.abc import Callable

RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND
CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
SIG_IGN, SA_NOCLDWAIT = 1, 2
ADDRESS_AT = 40  # of the second argument, in struct seccomp_notif
STARTING_SECONDS = 0.5
"""How long an allowed thread may take to start, even on a machine under load."""

MADE, WITHOUT_EFFECT, REFUSED = (0, CONTINUE), (0, 0), (-errno.EAGAIN, 0)
"""The call is made; it does nothing and reports success; it fails. (Error and flags of the answer.)"""


def answer(listener: int, decide: Callable[[int, bytes], tuple[int, int]]) -> None:
    """Answer one question of the filter that asks over the file descriptor `listener`.

    `decide` returns `MADE`, `WITHOUT_EFFECT` or `REFUSED` for a task and its ``struct seccomp_notif``.
    """
    question = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, question)
        identity, task = struct.unpack_from("QI", question)
        error, flags = decide(task, bytes(question))
        fcntl.ioctl(listener, SEND, struct.pack("QqiI", identity, 0, error, flags))
    except OSError:
        pass  # it was killed meanwhile


def set_action(task: int, question: bytes) -> tuple[int, int]:
    """Whether a program may change what happens when its children end; if not, it is told that it has."""
    (address,) = struct.unpack_from("Q", question, ADDRESS_AT)
    return MADE if _keeps_children(task, address) else WITHOUT_EFFECT


class Threads:
    """Allows threads up to a limit. The program is one process, and the kernel counts its threads.

    Between the answer and the start of the thread, other tasks may ask. So each task that was allowed to
    start a thread counts as two until it is seen to wait for something, or asks again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.starting: dict[int, float] = {}

    def start(self, task: int, question: bytes) -> tuple[int, int]:
        """Whether a task may start a thread."""
        self.starting.pop(task, None)
        for pause in (0.0, *(0.001,) * 5):
            select.select([], [], [], pause)
            threads = os.stat(f"/proc/{task}/task").st_nlink - 2
            if threads + len(self.starting) < self.limit:
                self.starting[task] = clock()
                return MADE
            if threads >= self.limit:
                break
            since = self.starting.items()
            self.starting = {other: began for other, began in since if _is_starting(other, began)}
        return REFUSED


def _is_starting(task: int, since: float) -> bool:
    """Whether a task that was allowed to start a thread may not have done so yet."""
    try:
        return clock() - since < STARTING_SECONDS and read_stat(f"/proc/{task}")[0] in b"RD"
    except OSError:
        return False  # it has ended


def _keeps_children(task: int, address: int) -> bool:
    """Whether a ``struct sigaction`` neither ignores children nor discards them.

    It could change between this look and the kernel's, so nobody else must be able to write to it: it is in
    private memory of a process that has one thread and shares its memory with no other process.
    """
    try:
        if (
            len(os.listdir(f"/proc/{task}/task")) > 1
            or _shares_memory(task)
            or not _is_private(task, address)
        ):
            return False
        with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            handler, flags = struct.unpack("QQ", memory.read(16))
    except (OSError, OverflowError, struct.error):
        return False
    return handler != SIG_IGN and not flags & SA_NOCLDWAIT


def _shares_memory(task: int) -> bool:
    """Whether a process may still use the memory of its parent, which waits for it and takes no signals."""
    parent = int(read_stat(f"/proc/{task}")[1])
    for _ in range(5):
        states = [read_stat(f"/proc/{parent}/task/{t}")[0] for t in os.listdir(f"/proc/{parent}/task")]
        if b"D" not in states:
            return False
        select.select([], [], [], 0.001)  # it may wait for a disk
    return True


def _is_private(task: int, address: int) -> bool:
    """Whether an address is in memory that neither belongs to a file nor is shared."""
    with open(f"/proc/{task}/maps", "rb") as file:
        for line in file.read().splitlines():
            region, mode, _, _, inode, *_ = line.split()
            start, end = (int(part, 16) for part in region.split(b"-"))
            if start <= address and address + 32 <= end:
                return mode.endswith(b"p") and inode == b"0"
    return False
