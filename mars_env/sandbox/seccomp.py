"""The system calls that a sandboxed program may not make, as a classic BPF program.

With bubblewrap it is a second wall behind the name spaces, with Landlock the only one for all that Landlock
does not cover (signals, sockets, new processes, modes and owners of files).
"""

import errno
import functools
import platform
import struct
from collections.abc import Iterable, Mapping

OWN_PID = 0x6D617273
"""A placeholder in the filter; `boot` replaces it with the pid of the process that loads the filter."""

# From <asm/unistd_64.h> for x86-64, and <asm-generic/unistd.h>, which arm64 uses; from 424 on they agree.
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
mmap 9 rt_sigaction 13 flock 73 madvise 28 fallocate 285 sendmsg 46 sendmmsg 307 setsockopt 54 sync 162
syncfs 306 splice 275 tee 276 vmsplice 278 io_setup 206
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
memfd_create 279 bpf 280 userfaultfd 282 vhangup 58 mmap 222 rt_sigaction 134 flock 32 madvise 233
fallocate 47 sendmsg 211 sendmmsg 269 setsockopt 208 sync 81 syncfs 267 splice 76 tee 77 vmsplice 75
io_setup 0
"""
_COMMON = """
pidfd_send_signal 424 io_uring_setup 425 io_uring_enter 426 io_uring_register 427 open_tree 428
move_mount 429 fsopen 430 fsconfig 431 fsmount 432 fspick 433 pidfd_open 434 clone3 435 close_range 436
pidfd_getfd 438 process_madvise 440 mount_setattr 442 quotactl_fd 443 memfd_secret 447 process_mrelease 448
set_mempolicy_home_node 450 fchmodat2 452 setxattrat 463 removexattrat 466 open_tree_attr 467 file_setattr 469
"""
_NEWEST = 470  # later calls are refused as if the kernel lacked them

_ARCHES = {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}

# Refused in every sandbox: no computation needs them, and each has had security holes or reaches outside.
_ALWAYS = """
ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease
perf_event_open bpf userfaultfd keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
mount_setattr unshare setns swapon swapoff reboot sethostname setdomainname init_module finit_module
delete_module kexec_load kexec_file_load acct quotactl quotactl_fd syslog settimeofday clock_settime adjtimex
clock_adjtime iopl ioperm modify_ldt uselib vhangup name_to_handle_at open_by_handle_at fanotify_init
shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
memfd_create memfd_secret mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages seccomp
inotify_init inotify_init1 inotify_add_watch io_setup
"""

# Reported as missing: the filter cannot read the flags of `clone3`; the others leave pages in a pipe.
_UNKNOWN = "clone3 vmsplice splice tee"

# They report success and do nothing: no process outside waits for a lock, or gets a message through one.
_WITHOUT_EFFECT = "sync syncfs flock"

# Also refused where there are no name spaces: they would reach the host's processes and files.
_WITHOUT_NAMESPACES = """
fork vfork socket connect accept accept4 bind listen chmod fchmod chown fchown lchown fchmodat fchmodat2
fchownat utime utimes futimesat utimensat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr
fremovexattr removexattrat file_setattr setpriority sched_setparam sched_setscheduler sched_setaffinity
sched_setattr ioprio_set rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal sendmsg sendmmsg
"""

_LD, _AND, _JA, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ASK, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_ALLOWED, _ASKED = (_RET, 0, 0, _ALLOW), (_RET, 0, 0, _ASK)
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data

_CLONE_NEW = 0x7E020080  # CLONE_NEWNS ... CLONE_NEWNET, CLONE_NEWCGROUP, CLONE_NEWTIME
_CLONE_THREAD = 0x00010000
_CLONE_FILES, _CLONE_PARENT = 0x00000400, 0x00008000
_CLONE_VM, _CLONE_VFORK = 0x00000100, 0x00004000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_CLOSE_RANGE_UNSHARE = 2
_SIGCHLD = 17
_MAP_SHARED_ANONYMOUS, _MAP_HUGETLB = 0x21, 0x40000
_MADV_COLD, _MADV_PAGEOUT = 20, 21
_SOL_SOCKET, _SO_BUFFERS = 1, (7, 8, 32, 33)

# The operations allowed on a file descriptor; others may change or block a file of the host. fcntl: copies,
# flags, size of a pipe, seals. ioctl: questions about a terminal, bytes to read or write, non-blocking mode.
_FCNTL = (0, 1, 2, 3, 4, 9, 11, 16, 1030, 1032, 1034)
_FCNTL_OWNERS = (8, 10, 15)
_FCNTL_LOCKS = (6, 7, 37, 38)
_IOCTL = (0x5401, 0x802C542A, 0x5411, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_IOCTL_ANSWERS = (0xC0502100, 0xC0182101)  # for the box, which is behind the filter too

Instruction = tuple[int, int, int, int]
Body = tuple[Instruction, ...]
"""The instructions for one system call; the last one returns."""


def supported() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return platform.machine() in _ARCHES


@functools.cache
def build(*, namespaces: bool, machine: str = platform.machine()) -> bytes:
    """The filter, ready for ``seccomp``; without name spaces it also refuses processes and sockets."""
    refused = _ALWAYS.split() + ([] if namespaces else _WITHOUT_NAMESPACES.split())
    bodies: dict[str, Body] = dict.fromkeys(refused, (_REFUSED,))
    bodies |= dict.fromkeys(_UNKNOWN.split(), (_fail(errno.ENOSYS),))
    bodies |= dict.fromkeys(_WITHOUT_EFFECT.split(), (_DONE,))
    fcntls = dict.fromkeys((*_FCNTL, *(_FCNTL_OWNERS if namespaces else ())), _ALLOWED)
    sizes = _choose(2, dict.fromkeys(_SO_BUFFERS, _DONE))
    bodies |= {
        "clone": _clone(processes=namespaces),
        "prlimit64": _only(0, [0]),
        "mmap": _map(),
        "madvise": _choose(2, dict.fromkeys((_MADV_COLD, _MADV_PAGEOUT), _fail(errno.EINVAL))),
        # The contents of a socket's buffers are charged by the number of sockets.
        "setsockopt": (_argument(1), (_JEQ, 1, 0, _SOL_SOCKET), _ALLOWED, *sizes),
        "close_range": (_argument(2), (_JSET, 0, 1, _CLOSE_RANGE_UNSHARE), _REFUSED, _ALLOWED),
        "ioctl": _only(1, (*_IOCTL, *(_IOCTL_ANSWERS if namespaces else ())), _fail(errno.ENOTTY)),
        "fcntl": _choose(1, {**fcntls, **dict.fromkeys(_FCNTL_LOCKS, _DONE)}, _REFUSED),
        "prctl": _keep_readable({} if namespaces else {_PR_SET_PDEATHSIG: _REFUSED}),
    }
    if namespaces:
        bodies |= {"socket": _only(0, [1, 2, 10]), "rt_sigaction": _keep_children()}
    else:
        bodies |= {
            "kill": _only(0, [0, OWN_PID]),
            **dict.fromkeys(("tkill", "tgkill"), _only(0, [OWN_PID])),
            "socketpair": _only(1, [1], mask=0xF),  # a datagram socket could send elsewhere
            # It allocates the host's disk space in one step; libc falls back to writing.
            "fallocate": (_fail(errno.EOPNOTSUPP),),
        }
    return _assemble(bodies, machine)


def _assemble(bodies: Mapping[str, Body], machine: str) -> bytes:
    arch, table = _ARCHES[machine]
    words = (table + _COMMON).split()
    numbers = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    by_number = {numbers[name]: body for name, body in bodies.items() if name in numbers}
    code: list[Instruction] = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, arch),
        _fail(errno.ENOSYS),
        (_LD, 0, 0, _NR),
        *_search(_intervals(by_number)),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _fail(number: int) -> Instruction:
    return (_RET, 0, 0, _ERRNO | number)


_REFUSED = _fail(errno.EPERM)
_DONE = _fail(0)  # it has no effect


def _choose(
    argument: int,
    answers: Mapping[int, Instruction],
    otherwise: Instruction = _ALLOWED,
    mask: int | None = None,
) -> Body:
    masked = [] if mask is None else [(_AND, 0, 0, mask)]
    tests = [i for value, answer in answers.items() for i in ((_JEQ, 0, 1, value), answer)]
    return (_argument(argument), *masked, *tests, otherwise)


def _only(
    argument: int, values: Iterable[int], otherwise: Instruction = _REFUSED, mask: int | None = None
) -> Body:
    return _choose(argument, dict.fromkeys(values, _ALLOWED), otherwise, mask)


def _clone(*, processes: bool) -> Body:
    """Allow no new name spaces. Threads share everything; processes share only memory whose owner waits."""
    thread = _CLONE_THREAD | _CLONE_FILES
    return (
        _argument(0),
        (_JSET, 0, 1, _CLONE_NEW),
        _REFUSED,
        (_JSET, 5, 0, _CLONE_THREAD),
        (_JSET, 3, 0, _CLONE_PARENT),
        (_AND, 0, 0, _CLONE_VM | _CLONE_VFORK),
        (_JEQ, 1, 0, _CLONE_VM),
        _ALLOWED if processes else _REFUSED,
        _REFUSED,
        (_AND, 0, 0, thread),
        (_JEQ, 1, 0, thread),
        _REFUSED,
        _ALLOWED,
    )


def _keep_children() -> Body:
    """Ask before a program changes what happens when its children end: ignored ones lose their CPU time."""
    return (
        _argument(0),
        (_JEQ, 0, 5, _SIGCHLD),
        _argument(1),
        (_JEQ, 0, 2, 0),
        _argument(1, high=True),
        (_JEQ, 1, 0, 0),
        _ASKED,
        _ALLOWED,
    )


def _map() -> Body:
    """Refuse shared memory without a file: after unmapping it belongs to no process and no file."""
    return (
        _argument(3),
        (_JSET, 3, 0, _MAP_HUGETLB),
        (_AND, 0, 0, _MAP_SHARED_ANONYMOUS),
        (_JEQ, 1, 0, _MAP_SHARED_ANONYMOUS),
        _ALLOWED,
        _fail(errno.ENOMEM),
    )


def _keep_readable(options: Mapping[int, Instruction]) -> Body:
    """Keep a process dumpable; otherwise the box could no longer look at its memory and files."""
    return (*_choose(0, options)[:-1], (_JEQ, 1, 0, _PR_SET_DUMPABLE), _ALLOWED, *_only(1, [1]))


def _intervals(bodies: dict[int, Body]) -> list[tuple[int, Body]]:
    """The action from each number on, in order; equal neighbours are merged."""
    steps: dict[int, Body] = {0: (_ALLOWED,)}
    for number in sorted(bodies):
        steps[number] = bodies[number]
        steps[number + 1] = (_ALLOWED,)
    steps[_NEWEST] = (_fail(errno.ENOSYS),)  # also the x32 calls, whose numbers start at 2**30
    rules: list[tuple[int, Body]] = []
    for number, body in sorted(steps.items()):
        if not rules or rules[-1][1] != body:
            rules.append((number, body))
    return rules


def _search(intervals: list[tuple[int, Body]]) -> list[Instruction]:
    """A binary search, because the kernel tries the filter on every number each time it is loaded."""
    if len(intervals) == 1:
        return list(intervals[0][1])
    half = len(intervals) // 2
    below, above = _search(intervals[:half]), _search(intervals[half:])
    pivot = intervals[half][0]
    if len(below) < 256:
        return [(_JGE, len(below), 0, pivot), *below, *above]
    return [(_JGE, 0, 1, pivot), (_JA, 0, 0, len(below)), *below, *above]


def _argument(index: int, *, high: bool = False) -> Instruction:
    return (_LD, 0, 0, _ARGS + 8 * index + 4 * high)  # both machines are little-endian
