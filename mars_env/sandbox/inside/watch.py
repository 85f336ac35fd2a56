"""Measures what a program and all that it has started use, as the kernel reports it."""

from __future__ import annotations

import os
import resource
import stat

from mars_env.sandbox.inside import folders
from mars_env.sandbox.inside.kernel import PAGE

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
CORES = len(os.sched_getaffinity(0))

CALM_MS, TIGHT_MS = 20, 4
"""How long the box waits between two looks: usually, and when a limit is near."""
KERNEL_COUNTS = os.stat("/proc/self/fd").st_size > 0
"""Whether the kernel tells how many files a process holds open, as it does since Linux 6.2."""
FREE_DESCRIPTORS, FREE_SOCKETS = 8, 16
"""Uncharged: the files that each process may hold open, and the sockets that one program may."""
STREAM_BYTES, DATAGRAM_BYTES = 320 << 10, 2560 << 10
"""Kernel memory that one socket can hold: 1.5 times its usual buffer; a datagram socket, eleven buffers."""


class Usage:
    """CPU seconds and peak memory of ended processes."""

    cpu = 0.0
    peak_kib = 0

    def add(self, spent: resource.struct_rusage) -> None:
        self.cpu += spent.ru_utime + spent.ru_stime
        self.peak_kib = max(self.peak_kib, spent.ru_maxrss)


class Look:
    """What is in use at one time."""

    cpu = 0.0  # seconds of all live processes, and of ended ones that are not collected
    memory = 0  # bytes, without those that every warm interpreter has
    tasks = 0  # processes and threads
    descriptors = 0  # files held open, beyond `FREE_DESCRIPTORS` for each process
    disk = files = 0  # bytes in files; number of files and folders
    asleep = True  # whether no task is running or ready to run


class Watch:
    """Looks at all that the box `me` has started; a fork of it starts with `own_bytes` of memory."""

    def __init__(self, me: int, namespaces: bool, writable: list[str], own_bytes: int) -> None:
        self.me, self.namespaces, self.writable, self.own_bytes = me, namespaces, writable, own_bytes
        self.exclude_files()
        self.device = os.stat(writable[0]).st_dev
        self.mark = b" %s/" % os.fsencode(writable[0])

    def exclude_files(self) -> None:
        """Do not charge what is in the folders now: a job's own files are not the program's."""
        self.disk_before, self.files_before = self.disk_usage(1 << 30)

    def look(self, limits: dict[str, Any]) -> Look:
        seen = Look()
        resident: list[tuple[str, int]] = []
        sockets = 0
        held: dict[int, int] = {}
        for pid in self.members():
            try:
                path, fields = f"/proc/{pid}", read_stat(f"/proc/{pid}")
                seen.cpu += sum(map(int, fields[11:15])) / TICK
                threads = int(fields[17])
                if fields[0] in b"ZX":  # its first thread has ended: read its usage from another one
                    path, fields = living_task(pid)
                    threads -= 1
                if not path:
                    continue
                seen.tasks += threads
                resident.append((path, int(fields[21]) * PAGE))
                seen.asleep = seen.asleep and tasks_asleep(pid, fields[0], threads)
                seen.descriptors += max(0, count_descriptors(path, limits) - FREE_DESCRIPTORS)
                if not self.namespaces:
                    sockets += self.find_held(path, held, limits)
            except (OSError, IndexError):
                continue  # it has just ended
        seen.memory = self.charged_sockets() if self.namespaces else STREAM_BYTES * sockets
        seen.memory += sum(max(0, size - self.own_bytes) for _, size in resident)
        if seen.memory > limits["memory_bytes"] and len(resident) > 1:
            # Shared pages were counted in full for each fork. Count each process's share, which is slower.
            seen.memory += sum(share(path, size) - max(0, size - self.own_bytes) for path, size in resident)
        seen.disk, seen.files = self.disk_usage(self.files_before + limits["files"] + 1)
        seen.disk += sum(held.values()) - self.disk_before
        seen.files -= self.files_before
        return seen

    def members(self) -> list[int]:
        if self.namespaces:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != self.me]
        pids, frontier = [], [self.me]
        while frontier:
            for child in children(frontier.pop()):
                pids.append(child)
                frontier.append(child)
        return pids

    def disk_usage(self, limit: int) -> tuple[int, int]:
        if not self.namespaces:
            return folders.folder_usage(self.writable[0], limit)
        usages = [os.statvfs(folder) for folder in self.writable]
        used = sum((usage.f_blocks - usage.f_bfree) * usage.f_frsize for usage in usages)
        return used, sum(usage.f_files - usage.f_ffree for usage in usages)

    def charged_sockets(self) -> int:
        """Memory that all sockets in the name space may hold, even those that no process has open."""
        with open("/proc/self/net/unix", "rb") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
        kinds = [row[4] for row in rows if len(row) > 4]  # names of sockets may contain line breaks
        datagrams = kinds.count(b"0002")
        streams = max(0, len(kinds) - datagrams - FREE_SOCKETS)
        return STREAM_BYTES * streams + DATAGRAM_BYTES * datagrams

    def find_held(self, path: str, held: dict[int, int], limits: dict[str, Any]) -> int:
        """Record in `held` the deleted files still held: bytes by inode. Returns the number of sockets."""
        sockets = 0
        for name in os.listdir(f"{path}/fd"):
            try:
                status = os.stat(f"{path}/fd/{name}")
            except OSError:
                continue  # it has just been closed
            sockets += stat.S_ISSOCK(status.st_mode)
            if status.st_nlink == 0 and status.st_dev == self.device:
                held[status.st_ino] = status.st_blocks * 512
        # Last, because a mapped file cannot become open again. Nothing tells how large it is.
        with open(f"{path}/maps", "rb") as file:
            for line in file.read().splitlines():
                if self.mark in line and line.endswith(b" (deleted)"):
                    held.setdefault(int(line.split()[4]), limits["file_bytes"])
        return sockets


def exceeded(limits: dict[str, Any], look: Look, dead: Usage) -> str:
    """The name of the first exceeded limit; empty if none."""
    used = (
        ("cpu", look.cpu + dead.cpu, "cpu_seconds"),
        ("memory", look.memory, "memory_bytes"),
        ("processes", look.tasks, "processes"),
        ("output", max(map(output_bytes, (1, 2, 3))), "output_bytes"),
        ("disk", look.disk, "disk_bytes"),
        ("files", look.files, "files"),
        ("files", look.descriptors, "open_files"),
    )
    return next((name for name, amount, limit in used if amount > limits[limit]), "")


def pause(limits: dict[str, Any], look: Look) -> float:
    """Milliseconds until the next look; as far as is known, no limit is exceeded by a quarter by then."""
    near = (
        2 * look.memory > limits["memory_bytes"]
        or 2 * look.tasks > limits["processes"]
        or 4 * look.disk > limits["disk_bytes"]
        or 4 * look.files > limits["files"]
        or min(look.tasks, CORES) * CALM_MS > 250 * limits["cpu_seconds"]
    )
    return TIGHT_MS if near else CALM_MS


def idle_time(seconds: float, wait: float) -> float:
    """Seconds asleep since the last look: a box that was itself kept waiting has not seen the rest."""
    return min(seconds, 2 * wait / 1000)


def output_bytes(fd: int) -> int:
    status = os.fstat(fd)
    slack = 4 << 20  # the kernel may use large pages
    return max(status.st_size, status.st_blocks * 512 - slack)


def read_stat(path: str) -> list[bytes]:
    """The kernel's fields for a process or thread, from its state on."""
    with open(f"{path}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def living_task(pid: int) -> tuple[str, list[bytes]]:
    """The path and the kernel's fields of a live thread; an empty path if there is none."""
    for task in os.listdir(f"/proc/{pid}/task"):
        fields = read_stat(f"/proc/{pid}/task/{task}")
        if fields[0] not in b"ZX":
            return f"/proc/{pid}/task/{task}", fields
    return "", []


def share(path: str, resident: int) -> int:
    """Bytes of memory of a process; shared memory is divided among those that share it."""
    try:
        with open(f"{path}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file.read().splitlines()]
        return 1024 * sum(int(line[1]) for line in lines if line[0] in (b"Pss:", b"SwapPss:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended; a process that waits to be collected has no memory either
    except (OSError, IndexError):
        return resident


def count_descriptors(path: str, limits: dict[str, Any]) -> int:
    count = os.stat(f"{path}/fd").st_size
    if count or KERNEL_COUNTS:
        return count
    try:
        return len(os.listdir(f"{path}/fd"))
    except PermissionError:
        memory = int(read_stat(path)[20])
        return int(limits["open_files"]) if memory else 0


def children(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass  # it has just ended
    return pids


def tasks_asleep(pid: int, state: bytes, threads: int) -> bool:
    """Whether all threads of a process wait for something other than a processor."""
    states = [state]
    if threads > 1:
        states = [read_stat(f"/proc/{pid}/task/{task}")[0] for task in os.listdir(f"/proc/{pid}/task")]
    # In the state D it waits for a disk, or for a child that uses its memory.
    waiting = b"STtZXD" if b"D" in states and children(pid) else b"STtZX"
    return all(each in waiting for each in states)
