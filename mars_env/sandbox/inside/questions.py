"""What a filter of system calls asks the box, and the box's answers: children's ends, new threads."""

# It starts fast, so it has no pathlib.
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
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable

RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND
CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
SIG_IGN, SA_NOCLDWAIT = 1, 2
ADDRESS_AT = 40  # of the second argument, in struct seccomp_notif
STARTING_SECONDS = 0.5
"""For how long a thread may take to be started, once it was allowed; on a machine under load too."""

MADE, WITHOUT_EFFECT, REFUSED = (0, CONTINUE), (0, 0), (-errno.EAGAIN, 0)
"""A call is made; does nothing and says that all is well; fails. (Error and flags of the answer.)"""


def answer(listener: int, decide: Callable[[int, bytes], tuple[int, int]]) -> None:
    """Answer one question of the filter.

    Args:
        listener: The file descriptor that asks.
        decide: Gives `MADE`, `WITHOUT_EFFECT` or `REFUSED` for a task and its ``struct seccomp_notif``.
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
    """Whether a program may change what is done at the end of its children.

    A call that does nothing breaks less than one that fails: many do not look.
    """
    (address,) = struct.unpack_from("Q", question, ADDRESS_AT)
    return MADE if keeps_children(task, address) else WITHOUT_EFFECT


class Threads:
    """Allows threads up to a limit. The program is one process, whose threads the kernel counts.

    Between the answer and the thread some time passes, in which others ask; so each task that was allowed to
    start one counts as two until it is seen to wait for something, or asks again.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.starting: dict[int, float] = {}

    def start(self, task: int, question: bytes) -> tuple[int, int]:
        """Whether a task may start a thread."""
        self.starting.pop(task, None)
        for _ in range(5):
            threads = os.stat(f"/proc/{task}/task").st_nlink - 2
            if threads >= self.limit:
                return REFUSED
            if threads + len(self.starting) < self.limit:
                self.starting[task] = clock()
                return MADE
            select.select([], [], [], 0.001)
            self.starting = {
                other: since for other, since in self.starting.items() if is_starting(other, since)
            }
        return REFUSED


def is_starting(task: int, since: float) -> bool:
    """Whether a task that was allowed to start a thread may not have done so yet."""
    try:
        return clock() - since < STARTING_SECONDS and read_stat(f"/proc/{task}")[0] in b"RD"
    except OSError:
        return False  # it has ended


def keeps_children(task: int, address: int) -> bool:
    """Whether a ``struct sigaction`` neither ignores children nor lets them go.

    It could become another one between our look and the kernel's: so it counts only where nobody else can
    write to it, in private memory of a process with one thread that shares its memory with no other.
    """
    try:
        if len(os.listdir(f"/proc/{task}/task")) > 1 or shares_memory(task) or not is_private(task, address):
            return False
        with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            handler, flags = struct.unpack("QQ", memory.read(16))
    except (OSError, OverflowError, struct.error):
        return False
    return handler != SIG_IGN and not flags & SA_NOCLDWAIT


def shares_memory(task: int) -> bool:
    """Whether a process may still have the memory of its parent, which waits for it without a signal."""
    parent = int(read_stat(f"/proc/{task}")[1])
    for _ in range(5):
        states = [read_stat(f"/proc/{parent}/task/{t}")[0] for t in os.listdir(f"/proc/{parent}/task")]
        if b"D" not in states:
            return False
        select.select([], [], [], 0.001)  # it may wait for a disk
    return True


def is_private(task: int, address: int) -> bool:
    """Whether an address lies in memory that is no file's and not shared."""
    with open(f"/proc/{task}/maps", "rb") as file:
        for line in file.read().splitlines():
            region, mode, _, _, inode, *_ = line.split()
            start, end = (int(part, 16) for part in region.split(b"-"))
            if start <= address and address + 32 <= end:
                return mode.endswith(b"p") and inode == b"0"
    return False
