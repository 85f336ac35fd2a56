"""The box's answers to the system call filter's questions about ends of children."""

import fcntl
import os
import select
import struct

from mars_env.sandbox.inside.watch import read_stat

RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, _SEND
CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
SIG_IGN, SA_NOCLDWAIT = 1, 2
ADDRESS_AT = 40  # of the second argument, in struct seccomp_notif


def answer(listener: int) -> None:
    """Answer whether a program may change what happens when its children end; if not, it does nothing."""
    question = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, question)
        identity, task = struct.unpack_from("QI", question)
        (address,) = struct.unpack_from("Q", question, ADDRESS_AT)
        flags = CONTINUE if _keeps_children(task, address) else 0
        fcntl.ioctl(listener, SEND, struct.pack("QqiI", identity, 0, 0, flags))
    except OSError:
        pass  # it was killed meanwhile


def _keeps_children(task: int, address: int) -> bool:
    """Whether a ``struct sigaction`` neither ignores children nor discards them.

    It could change between this look and the kernel's, so no other thread or process may be able to write to
    it: it is in private memory of a process that has one thread and shares its memory with no other process.
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
    with open(f"/proc/{task}/maps", "rb") as file:
        for line in file.read().splitlines():
            region, mode, _, _, inode, *_ = line.split()
            start, end = (int(part, 16) for part in region.split(b"-"))
            if start <= address and address + 32 <= end:
                return mode.endswith(b"p") and inode == b"0"
    return False
