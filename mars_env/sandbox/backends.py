"""The backend protocol, and the three backends that run programs on this machine."""

import ctypes
import functools
import os
import platform
import re
import shutil
import socket
import sys
import sysconfig
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Protocol

from mars_env.errors import SandboxError
from mars_env.sandbox import seccomp
from mars_env.sandbox.forkserver import ForkServer, interpreter
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import DISK_CEILING, Guarantee, Limits, Result

ALL = frozenset(Guarantee)
OFFERED = ("mpmath", "networkx", "numpy", "scipy", "sortedcontainers", "sympy")
"""What programs may import if it is installed (extra ``judges``); each depends on others of these alone."""
_WRITABLE = {"/tmp": DISK_CEILING, "/dev/shm": 16 << 20}
"""Where programs can write with bubblewrap; in the second, multiprocessing keeps its locks."""
_PACKAGES = "/packages"


class Box(Protocol):
    """A started sandbox. Runs one job at a time."""

    @property
    def spent(self) -> bool:
        """Whether it should not be used again."""

    async def run(self, job: Job, limits: Limits, channel: socket.socket | None = None) -> Result:
        """Run one job to its end; `channel` becomes its file descriptor 4, and is shut down at its end.

        Never raises because of what the program does; a broken sandbox gives a LOST result.
        """

    async def close(self) -> None:
        """Kill everything in it and wait until all is gone. Idempotent."""


class Spawner(Protocol):
    """Starts boxes for one backend; a fork server is one."""

    @property
    def spent(self) -> bool:
        """Whether it can start no more boxes."""

    async def box(self) -> Box:
        """Start a box; raises a `SandboxError` that says why if it cannot be started."""

    async def close(self) -> None:
        """Start no more boxes, and end once all started ones are closed. Idempotent."""


class Backend(Protocol):
    """A way to run untrusted programs."""

    @property
    def name(self) -> str:
        """Its name in results and grades."""

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What it keeps programs from doing."""

    @property
    def channels(self) -> bool:
        """Whether its boxes can give a running program a socket to talk over."""

    async def start(self, modules: Mapping[str, str]) -> Spawner:
        """Start a spawner; a `SandboxError` says why it cannot be started here, and what to do."""


@dataclass(frozen=True)
class Bubblewrap:
    """Bubblewrap's name spaces: programs see nothing of the host but the interpreter and system libraries.

    Started by root, each program has a fresh user id; started by an ordinary user, a user name space. Python
    programs may import the installed `packages`.
    """

    packages: tuple[str, ...] = OFFERED
    name, guarantees, channels = "bubblewrap", ALL, True

    async def start(self, modules: Mapping[str, str]) -> ForkServer:
        """Start its fork server; see `Backend.start`."""
        executable = shutil.which("bwrap")
        if executable is None:
            raise SandboxError("bwrap was not found: install the package bubblewrap")
        if not seccomp.supported():
            raise SandboxError(f"bubblewrap is not supported on {platform.machine()} machines")
        root, packages = is_root(), folders_of(self.packages)
        kernel = [int(number) for number in re.findall("[0-9]+", platform.release())[:2]]
        wall = [executable, *_bubblewrap_options(root, tuple(packages.items()))]
        config = {
            "namespaces": True,
            "folders": list(_WRITABLE),
            "mounts": _mounts(),
            "asks": seccomp.build(namespaces=True),
            # Before 5.14 the kernel counts processes per user of the host, not of the name space.
            "count_processes": root or kernel >= [5, 14],
            "packages": {name: f"{_PACKAGES}/{name}" for name in packages},
        }
        return await ForkServer(self, wall, config, modules, own_users=root).ready()


def _mounts() -> list[tuple[bytes, bytes, bytes, int, bytes]]:
    """What each box mounts in its own name space: source, target, type, flags, options."""
    read_only, no_setuid, no_devices, no_execution, recursive, private = 1, 2, 4, 8, 1 << 14, 1 << 18
    mounts = [(b"none", b"/", b"", recursive | private, b"")]
    for folder, size in _WRITABLE.items():
        options = b"mode=1777,size=%d" % size
        mounts.append((b"tmpfs", folder.encode(), b"tmpfs", no_setuid | no_devices, options))
    flags = no_setuid | no_devices | no_execution | read_only
    return [*mounts, (b"proc", b"/proc", b"proc", flags, b"")]


@dataclass(frozen=True)
class Landlock:
    """Landlock, a system call filter and resource limits: needs no privileges at all.

    For containers that allow no name spaces. Programs may start threads but no processes, and may not open
    sockets. They can find out names and sizes of the host's files and pids of its processes, but no file
    contents and no process arguments. For `packages` see `Bubblewrap`.
    """

    packages: tuple[str, ...] = OFFERED
    name, guarantees, channels = "landlock", ALL - {Guarantee.PRIVATE_PROCESSES}, True

    async def start(self, modules: Mapping[str, str]) -> ForkServer:
        """Start its fork server; see `Backend.start`."""
        abi = landlock_abi()
        if abi < 3:
            raise SandboxError("Landlock is missing or too old: it needs Linux 6.2 with Landlock switched on")
        if not seccomp.supported():
            raise SandboxError(f"Landlock is not supported on {platform.machine()} machines")
        packages = folders_of(self.packages)
        config = {
            "namespaces": False,
            "landlock": {"abi": abi, "read": [*_visible_files(), *packages.values()]},
            "seccomp": seccomp.build(namespaces=False),
            "packages": packages,
        }
        return await ForkServer(self, [], config, modules, folders=True).ready()


@dataclass(frozen=True)
class Unsafe:
    """A plain subprocess with resource limits: the program can do everything that you can do.

    Its limits hold only for programs that do not try to break them. The probe never chooses this backend.
    Use it for programs that you trust, where nothing else works. For `packages` see `Bubblewrap`.
    """

    packages: tuple[str, ...] = OFFERED
    name, guarantees, channels = "unsafe", frozenset({Guarantee.WALL, Guarantee.OUTPUT}), True

    async def start(self, modules: Mapping[str, str]) -> ForkServer:
        """Start its fork server, with a warning (once); see `Backend.start`."""
        _warn_unsafe()
        config = {"namespaces": False, "confine": False, "packages": folders_of(self.packages)}
        return await ForkServer(self, [], config, modules, folders=True).ready()


@functools.cache
def _warn_unsafe() -> None:
    warnings.warn(
        "the sandbox 'unsafe' protects nothing: programs can read and change all that you can",
        RuntimeWarning,
        stacklevel=3,
    )


@functools.cache
def folders_of(names: tuple[str, ...]) -> dict[str, str]:
    """The folders of those packages that are installed, by name; ``name.libs`` is that of its libraries."""
    folders: dict[str, str] = {}
    for name in names:
        try:
            folder = Path(str(distribution(name).locate_file(name))).resolve()
        except PackageNotFoundError:
            continue
        if (folder / "__init__.py").is_file():
            folders[name] = str(folder)
            if Path(f"{folder}.libs").is_dir():
                folders[f"{name}.libs"] = f"{folder}.libs"
    return folders


def is_root() -> bool:
    """Whether this process is the machine's real root, not that of a user name space."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


@functools.cache
def landlock_abi() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    create_ruleset, version_flag = 444, 1
    return max(0, int(libc.syscall(create_ruleset, None, ctypes.c_size_t(0), ctypes.c_uint32(version_flag))))


def library_folder() -> Path:
    """The standard library of the interpreter that runs inside sandboxes."""
    prefix = os.path.realpath(sys.base_prefix)
    return Path(os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": prefix})))


@functools.cache
def _visible_files() -> list[str]:
    library = library_folder()
    roots = ["/usr/bin", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/lib", "/lib64", "/bin", interpreter()]
    entries = [e for e in _listed(str(library)) if Path(e).name not in ("site-packages", "dist-packages")]
    for folder in ("/usr/lib", "/usr/lib64", str(library.parent)):
        entries += [
            e for e in _listed(folder) if not Path(e).name.startswith("python") and Path(e) != library
        ]
    # With a merged /usr, /lib is /usr/lib; its entries are listed one by one, without packages.
    merged = {lib for lib in ("/lib", "/lib64") if os.path.realpath(lib).startswith("/usr/")}
    return [path for path in dict.fromkeys([*roots, *entries]) if Path(path).exists() and path not in merged]


def _listed(folder: str) -> list[str]:
    return sorted(str(p) for p in Path(folder).iterdir()) if Path(folder).is_dir() else []


@functools.cache
def _bubblewrap_options(root: bool, packages: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    options = _namespace_options(root)
    library, prefix = library_folder(), Path(os.path.realpath(sys.base_prefix))
    paths = ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache"]
    links = []
    for path in ("/bin", "/lib", "/lib64"):
        if Path(path).is_symlink():
            links += ["--symlink", str(Path(path).readlink()), path]
        else:
            paths.append(path)
    if prefix != Path("/usr"):
        paths += [interpreter(), str(library)]
        # The folder next to the interpreter holds libraries that it or its modules load.
        paths += map(str, sorted((prefix / "lib").glob("*.so*")))
    options += _bind_options([path for path in paths if Path(path).exists()])
    options += links
    # Hide what is installed next to the standard library: it may include this library's problems and
    # their tests.
    hidden = (library / "site-packages", library / "dist-packages", Path("/usr/lib/python3/dist-packages"))
    for folder in hidden:
        if folder.is_dir():
            options += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    options += ["--perms", "0755", "--dir", _PACKAGES]
    for name, place in packages:
        options += ["--ro-bind", place, f"{_PACKAGES}/{name}"]
    options += ["--proc", "/proc", *_device_options(), "--perms", "0755", "--dir", "/tmp"]
    return (*options, "--remount-ro", "/")


def _namespace_options(root: bool) -> list[str]:
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if root:
        options += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        options += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    # Needed for the name spaces of boxes; each box drops it before it takes a program.
    options += ["--cap-add", "CAP_SYS_ADMIN"]
    return [*options, "--die-with-parent", "--as-pid-1", "--hostname", "sandbox"]


def _device_options() -> list[str]:
    # No pseudo-terminals: no program needs them, and without them an ordinary user's fork server keeps its
    # rights over its mount name space.
    options = ["--perms", "0755", "--dir", "/dev", "--perms", "0755", "--dir", "/dev/shm"]
    for device in ("null", "full", "random", "urandom"):
        options += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for link, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        options += ["--symlink", f"/proc/self/fd{target}", f"/dev/{link}"]
    return options


def _bind_options(paths: list[str]) -> list[str]:
    parents = dict.fromkeys(str(parent) for path in paths for parent in reversed(Path(path).parents[:-1]))
    options = [option for parent in parents for option in ("--perms", "0755", "--dir", parent)]
    return options + [option for path in paths for option in ("--ro-bind", path, path)]
