"""The system calls that a sandboxed program may not make, as a classic BPF program.

Written here rather than taken from a package: pyseccomp only wraps libseccomp, which slim
images lack, and has had no release since 2021, while the filter itself is a list of numbers.
It is a second wall behind the name spaces of bubblewrap, and behind Landlock the first for all
that Landlock does not cover (signals, sockets, new processes, modes and owners of files).
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from collections.abc import Iterable

OWN_PID = 0x6D617273
"""Stands in the filter for the pid of the process that loads it, which `boot` puts in its place."""

# <asm/unistd_64.h> of x86-64, and <asm-generic/unistd.h> that arm64 uses; above 424 they agree.
_X86 = """
clone 56 fork 57 vfork 58 kill 62 shmget 29 shmat 30 shmctl 31 semget 64 semop 65 semctl 66 msgget 68
msgsnd 69 msgrcv 70 msgctl 71 semtimedop 220 socket 41 connect 42 accept 43 accept4 288 bind 49 listen 50
socketpair 53 ioctl 16 fcntl 72 chmod 90 fchmod 91 chown 92 fchown 93 lchown 94 fchmodat 268 fchownat 260
utime 132 utimes 235 futimesat 261 utimensat 280 setxattr 188 lsetxattr 189 fsetxattr 190 removexattr 197
lremovexattr 198 fremovexattr 199 ptrace 101 syslog 103 setpriority 141 sched_setparam 142
sched_setscheduler 144 sched_setaffinity 203 sched_setattr 314 ioprio_set 251 prctl 157 adjtimex 159
chroot 161 acct 163 settimeofday 164 mount 165 umount2 166 pivot_root 155 swapon 167 swapoff 168 reboot 169
sethostname 170 setdomainname 171 iopl 172 ioperm 173 init_module 175 delete_module 176 quotactl 179
tkill 200 tgkill 234 clock_settime 227 clock_adjtime 305 kexec_load 246 kexec_file_load 320 mbind 237
set_mempolicy 238 migrate_pages 256 move_pages 279 mq_open 240 mq_unlink 241 add_key 248 request_key 249
keyctl 250 inotify_init 253 inotify_init1 294 inotify_add_watch 254 unshare 272 setns 308
perf_event_open 298 rt_sigqueueinfo 129 rt_tgsigqueueinfo 297 fanotify_init 300 prlimit64 302
name_to_handle_at 303 open_by_handle_at 304 process_vm_readv 310 process_vm_writev 311 kcmp 312
finit_module 313 seccomp 317 memfd_create 319 bpf 321 userfaultfd 323 modify_ldt 154 uselib 134 vhangup 153
"""
_ARM = """
clone 220 kill 129 shmget 194 shmat 196 shmctl 195 semget 190 semop 193 semctl 191 msgget 186 msgsnd 189
msgrcv 188 msgctl 187 semtimedop 192 socket 198 connect 203 accept 202 accept4 242 bind 200 listen 201
socketpair 199 ioctl 29 fcntl 25 fchmod 52 fchown 55 fchmodat 53 fchownat 54 utimensat 88 setxattr 5
lsetxattr 6 fsetxattr 7 removexattr 14 lremovexattr 15 fremovexattr 16 ptrace 117 syslog 116 setpriority 140
sched_setparam 118 sched_setscheduler 119 sched_setaffinity 122 sched_setattr 274 ioprio_set 30 prctl 167
adjtimex 171 chroot 51 acct 89 settimeofday 170 mount 40 umount2 39 pivot_root 41 swapon 224 swapoff 225
reboot 142 sethostname 161 setdomainname 162 init_module 105 delete_module 106 quotactl 60 tkill 130
tgkill 131 clock_settime 112 clock_adjtime 266 kexec_load 104 kexec_file_load 294 mbind 235
set_mempolicy 237 migrate_pages 238 move_pages 239 mq_open 180 mq_unlink 181 add_key 217 request_key 218
keyctl 219 inotify_init1 26 inotify_add_watch 27 unshare 97 setns 268 perf_event_open 241
rt_sigqueueinfo 138 rt_tgsigqueueinfo 240 fanotify_init 262 prlimit64 261 name_to_handle_at 264
open_by_handle_at 265 process_vm_readv 270 process_vm_writev 271 kcmp 272 finit_module 273 seccomp 277
memfd_create 279 bpf 280 userfaultfd 282 vhangup 58
"""
_COMMON = """
pidfd_send_signal 424 io_uring_setup 425 io_uring_enter 426 io_uring_register 427 open_tree 428
move_mount 429 fsopen 430 fsconfig 431 fsmount 432 fspick 433 pidfd_open 434 clone3 435 pidfd_getfd 438
process_madvise 440 mount_setattr 442 quotactl_fd 443 memfd_secret 447 process_mrelease 448
set_mempolicy_home_node 450 fchmodat2 452 setxattrat 463 removexattrat 466 open_tree_attr 467 file_setattr 469
"""
_NEWEST = 470
"""Later calls are refused as if the kernel did not have them."""

_ARCHES = {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}

# Refused in every sandbox: nothing that computes needs them, and each has had holes or reaches out.
_ALWAYS = """
ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease
perf_event_open bpf userfaultfd keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
mount_setattr unshare setns swapon swapoff reboot sethostname setdomainname init_module finit_module
delete_module kexec_load kexec_file_load acct quotactl quotactl_fd syslog settimeofday clock_settime adjtimex
clock_adjtime iopl ioperm modify_ldt uselib vhangup name_to_handle_at open_by_handle_at fanotify_init
shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
memfd_create memfd_secret mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages seccomp
"""

# Refused besides where there are no name spaces: they would reach the host's processes and files.
_WITHOUT_NAMESPACES = """
fork vfork socket connect accept accept4 bind listen chmod fchmod chown fchown lchown fchmodat fchmodat2
fchownat utime utimes futimesat utimensat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr
fremovexattr removexattrat file_setattr setpriority sched_setparam sched_setscheduler sched_setaffinity
sched_setattr ioprio_set inotify_init inotify_init1 inotify_add_watch rt_sigqueueinfo rt_tgsigqueueinfo
pidfd_open pidfd_send_signal
"""

_LD, _AND, _JA, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ALLOWED = (_RET, 0, 0, _ALLOW)
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data

_CLONE_NEW = 0x7E020080  # CLONE_NEWNS ... CLONE_NEWNET, CLONE_NEWCGROUP, CLONE_NEWTIME
_CLONE_THREAD = 0x00010000
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_PR_SET_PDEATHSIG = 1

Instruction = tuple[int, int, int, int]
Body = tuple[Instruction, ...]
"""What is done with one system call: ends by a return."""


def supported() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return platform.machine() in _ARCHES


@functools.cache
def build(*, namespaces: bool, machine: str | None = None) -> bytes:
    """The filter, ready for ``prctl(PR_SET_SECCOMP)``; an array of ``struct sock_filter``.

    Args:
        namespaces: Whether processes, network and files are in name spaces of their own. If not,
            the filter also refuses new processes, sockets, signals to others and changes of modes.
        machine: As `platform.machine` says it; this machine's by default.

    Example:
        >>> len(build(namespaces=True, machine="x86_64")) % 8
        0
    """
    arch, table = _ARCHES[machine or platform.machine()]
    numbers = _parse(table + _COMMON)
    refused = _ALWAYS.split() + ([] if namespaces else _WITHOUT_NAMESPACES.split())
    bodies: dict[str, Body] = {name: (_fail(errno.EPERM),) for name in refused}
    bodies["clone3"] = (_fail(errno.ENOSYS),)  # its flags cannot be read here; libc falls back to clone
    bodies["clone"] = (_argument(0), (_JSET, 0, 1, _CLONE_NEW), _fail(errno.EPERM), _ALLOWED)
    bodies["prlimit64"] = _only(0, [0])
    if namespaces:
        bodies["ioctl"] = _all_but(1, [_TIOCSTI, _TIOCLINUX])
        # Netlink is per network name space; vsock and others are not.
        bodies["socket"] = _only(0, [1, 2, 10, 16])
    else:
        thread = ((_JSET, 1, 0, _CLONE_THREAD), _fail(errno.EPERM), _ALLOWED)
        bodies["clone"] = (*bodies["clone"][:-1], *thread)
        bodies["kill"] = _only(0, [0, OWN_PID])
        bodies["tkill"] = bodies["tgkill"] = _only(0, [OWN_PID])
        bodies["socketpair"] = _only(1, [1], mask=0xF)  # a datagram one could be sent elsewhere
        bodies["ioctl"] = _all_but(1, [_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP])
        bodies["fcntl"] = _all_but(1, [_F_SETOWN, _F_SETSIG, _F_SETOWN_EX])
        bodies["prctl"] = _all_but(0, [_PR_SET_PDEATHSIG])
    by_number = {numbers[name]: body for name, body in bodies.items() if name in numbers}
    code: list[Instruction] = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, arch),
        _fail(errno.ENOSYS),
        (_LD, 0, 0, _NR),
        *_search(_intervals(by_number)),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _all_but(argument: int, values: Iterable[int]) -> Body:
    """Refuse calls of which an argument is one of some values."""
    tests = [i for v in values for i in ((_JEQ, 0, 1, v), _fail(errno.EPERM))]
    return (_argument(argument), *tests, _ALLOWED)


def _only(argument: int, values: list[int], mask: int | None = None) -> Body:
    """Refuse calls of which an argument is none of some values."""
    masked = [] if mask is None else [(_AND, 0, 0, mask)]
    tests = [(_JEQ, len(values) - i, 0, v) for i, v in enumerate(values)]
    return (_argument(argument), *masked, *tests, _fail(errno.EPERM), _ALLOWED)


def _intervals(bodies: dict[int, Body]) -> list[tuple[int, Body]]:
    """What is done from which number on, in order, without neighbours that are the same."""
    steps: dict[int, Body] = {0: (_ALLOWED,)}
    for number in sorted(bodies):
        steps[number] = bodies[number]
        steps[number + 1] = (_ALLOWED,)
    steps[_NEWEST] = (_fail(errno.ENOSYS),)  # the x32 calls too, whose numbers start at 2**30
    found: list[tuple[int, Body]] = []
    for number, body in sorted(steps.items()):
        if not found or found[-1][1] != body:
            found.append((number, body))
    return found


def _search(intervals: list[tuple[int, Body]]) -> list[Instruction]:
    """A binary search: the kernel tries the filter on each number whenever it is loaded."""
    if len(intervals) == 1:
        return list(intervals[0][1])
    half = len(intervals) // 2
    below, above = _search(intervals[:half]), _search(intervals[half:])
    pivot = intervals[half][0]
    if len(below) < 256:
        return [(_JGE, len(below), 0, pivot), *below, *above]
    return [(_JGE, 0, 1, pivot), (_JA, 0, 0, len(below)), *below, *above]


def _parse(table: str) -> dict[str, int]:
    words = table.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _argument(index: int) -> Instruction:
    return (_LD, 0, 0, _ARGS + 8 * index)  # the low half; both machines are little-endian


def _fail(number: int) -> Instruction:
    return (_RET, 0, 0, _ERRNO | number)
