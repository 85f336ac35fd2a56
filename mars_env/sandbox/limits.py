"""What a run may use, its result, and what a backend promises."""

import math
from dataclasses import dataclass
from enum import StrEnum

from mars_env.errors import ConfigError

MIB = 1 << 20


class Guarantee(StrEnum):
    """Something that a backend keeps a program from doing, proven by `tests/helpers/sandbox_suite.py`.

    The first seven say that a limit holds; `FILES` is for those that it makes and those that it holds open.
    """

    CPU = "cpu"
    WALL = "wall"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"
    DISK = "disk"
    FILES = "files"
    NETWORK = "network"
    """No socket reaches the host or the world, loopback and abstract sockets included."""
    HOST_FILES = "host_files"
    """It reads no file of the host except the interpreter and the system libraries, and changes none."""
    ENVIRONMENT = "environment"
    """It sees none of the host's environment variables, not even through ``/proc``."""
    PRIVATE_PROCESSES = "private_processes"
    """It does not see the host's processes."""
    SIGNALS = "signals"
    """It cannot signal, trace or change a process outside."""
    TERMINAL = "terminal"
    """It cannot write into the terminal that started it."""
    NO_SURVIVORS = "no_survivors"
    """Everything that it started is dead when the call returns."""


class Ended(StrEnum):
    """Why a program ended."""

    EXITED = "exited"
    """By itself; `Result.exit_code` says how."""
    KILLED = "killed"
    """By a signal that no limit explains: a crash, an abort, or a kill from outside."""
    CPU = "cpu limit"
    WALL = "wall limit"
    MEMORY = "memory limit"
    OUTPUT = "output limit"
    DISK = "disk limit"
    FILES = "file limit"
    PROCESSES = "process limit"
    LOST = "lost"
    """The sandbox itself broke: nothing is known about the program."""


DISK_CEILING = 512 * MIB
"""Size of a sandbox's file system; `Limits.disk_bytes` cannot exceed it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use.

    CPU time decides a time-out, so a verdict does not depend on how busy the machine is; the other two times
    are ceilings against a program that does not compute at all.

    Attributes:
        cpu_seconds: CPU time of the program and all that it started, together.
        wall_seconds: Wall-clock time; None means ``10 * cpu_seconds + 20``.
        idle_seconds: Time for which the program was asleep (not ready to run); None means
            ``cpu_seconds + 2``, infinity switches it off.
        memory_bytes: Resident memory of everything it started, together. The address space of each
            process is bounded too, a quarter higher; this makes Python raise MemoryError.
        processes: Processes and threads at one time.
        disk_bytes: Bytes in the files that it made, together; `file_bytes`: in one file.
        files: Files that it may make; `open_files`: that it may hold open.
        output_bytes: Bytes of standard output, and as many again of standard error and of the result data.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float | None = None
    idle_seconds: float | None = None
    memory_bytes: int = 1024 * MIB
    processes: int = 64
    disk_bytes: int = 64 * MIB
    file_bytes: int = 64 * MIB
    files: int = 1000
    open_files: int = 256
    output_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"limit {name} must be above 0, got {value!r}")
        if not math.isfinite(self.cpu_seconds):
            raise ConfigError("limit cpu_seconds must be finite")
        if self.disk_bytes > DISK_CEILING:
            raise ConfigError(f"limit disk_bytes must be at most {DISK_CEILING}, got {self.disk_bytes}")

    @property
    def wall(self) -> float:
        """The ceiling on wall-clock time, in seconds."""
        return 10.0 * self.cpu_seconds + 20 if self.wall_seconds is None else float(self.wall_seconds)

    @property
    def idle(self) -> float:
        """The ceiling on time asleep, in seconds."""
        return self.cpu_seconds + 2 if self.idle_seconds is None else float(self.idle_seconds)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run.

    Attributes:
        exit_code: Its exit status; None unless it ended by itself.
        signal: The signal that ended it, if one did.
        stdout: What it printed, at most `Limits.output_bytes`; so are `stderr` and `data`.
        data: What it wrote to file descriptor 3.
        cpu_seconds: CPU time of everything it started.
        wall_seconds: From its start to its end; time in a queue does not count.
        peak_memory: Peak resident memory of its largest process, in bytes.
        missing: What the backend does not guarantee.
        detail: One more sentence for people: why the sandbox was lost, for example.
    """

    ended: Ended
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    data: bytes = b""
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_memory: int = 0
    backend: str = ""
    missing: frozenset[Guarantee] = frozenset()
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.ended is Ended.EXITED and self.exit_code == 0
