"""Kernel calls with integers and bytes: name spaces, Landlock, filters, resource limits."""

from __future__ import annotations

import _ctypes
import array
import os
import resource
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

PAGE = resource.getpagesize()

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446
SYS_PIDFD_OPEN = 434
SECCOMP_NEW_LISTENER = 8
OWN_PID = (0x6D617273).to_bytes(4, "little")  # see mars_env.sandbox.seccomp

# Importing ctypes takes half as long as starting the interpreter; calls with integers and bytes need only
# its C module.
_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
_functions: dict[str, int] = {}


def libc_call(name: str, *arguments: Any) -> int:
    """Call a function of libc with integers and bytes; raises an `OSError` if it reports a failure."""
    if name not in _functions:
        _functions[name] = _ctypes.dlsym(_libc, name)
    result: int = _ctypes.call_function(_functions[name], arguments)
    if result < 0:
        raise OSError(f"{name}{arguments[:1]} failed")
    return result


def prctl(option: int, argument: int, pointer: bytes | int = 0) -> None:
    libc_call("prctl", option, argument, pointer, 0, 0)


def open_pidfd(pid: int) -> int:
    """A file descriptor that becomes readable when the process has ended; old interpreters lack it."""
    return libc_call("syscall", SYS_PIDFD_OPEN, pid, 0)


def unshare(config: dict[str, Any], uid: int | None) -> None:
    """Enter new name spaces and mount empty folders to write to; the process name space exists already.

    The box becomes the user `uid`, or enters a user name space: the kernel counts processes by either.
    """
    libc_call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
    for arguments in config["mounts"]:
        libc_call("mount", *arguments)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        return
    user, group = os.getuid(), os.getgid()
    libc_call("unshare", CLONE_NEWUSER)
    for name, content in (
        ("setgroups", b"deny"),
        ("uid_map", b"%d %d 1" % (user, user)),
        ("gid_map", b"%d %d 1" % (group, group)),
    ):
        fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=config["proc"])
        os.write(fd, content)
        os.close(fd)


def drop_capabilities() -> None:
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last one, or not allowed
    libc_call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))


def landlock_rules(abi: int, read: list[str]) -> dict[str, Any]:
    """What the rulesets of all boxes share; its files stay open until a ruleset has been made from them."""
    files = (1 << 13) - 1  # EXECUTE ... MAKE_SYM (version 1)
    files |= (1 << 13 if abi >= 2 else 0) | (1 << 14 if abi >= 3 else 0) | (1 << 15 if abi >= 5 else 0)
    network = 3 if abi >= 4 else 0
    scoped = 3 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", files, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    execute, write, read_file, read_dir, truncate = 1, 2, 4, 8, 1 << 14
    paths = [(path, execute | read_file | read_dir) for path in read]
    paths += [(path, read_file) for path in ("/dev/random", "/dev/urandom")]
    paths += [("/dev/null", read_file | write | truncate), ("/dev/full", read_file | write)]
    fds, rules = [], []
    for path, rights in paths:
        try:
            fds.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            rights &= execute | write | read_file | truncate
        rules.append(struct.pack("=Qi", rights & files, fds[-1]))
    return {"attributes": attributes, "files": files, "rules": rules, "fds": (min(fds), max(fds) + 1)}


def landlock_ruleset(config: dict[str, Any], workdir: str) -> int:
    ruleset = libc_call("syscall", SYS_LANDLOCK_CREATE, config["attributes"], len(config["attributes"]), 0)
    fd = os.open(workdir, os.O_PATH | os.O_CLOEXEC)
    for rule in (*config["rules"], struct.pack("=Qi", config["files"], fd)):
        libc_call("syscall", SYS_LANDLOCK_ADD, ruleset, 1, rule, 0)
    os.close(fd)
    os.closerange(*config["fds"])
    return ruleset


def load_filter(template: bytes, flags: int = 0) -> int:
    """Filter system calls from now on; with `SECCOMP_NEW_LISTENER`, returns the descriptor that is asked."""
    program = array.array("B", template.replace(OWN_PID, os.getpid().to_bytes(4, "little")))
    header = struct.pack("HxxxxxxP", len(program) // 8, program.buffer_info()[0])
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    try:
        return libc_call("syscall", number, 1, flags, header)
    except OSError:
        raise OSError("the system call filter cannot be loaded: an outer sandbox may have one") from None


def set_limit(which: int, value: float) -> None:
    """Lower a resource limit; it cannot be raised again."""
    hard = resource.getrlimit(which)[1]
    value = int(value if hard == -1 else min(value, hard))
    resource.setrlimit(which, (value, value))
