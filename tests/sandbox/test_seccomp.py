import platform
import struct

import pytest

from mars_env.sandbox import seccomp


def run_filter(code, number, arguments=(0, 0, 0, 0, 0, 0), arch=0xC000003E):
    """A small interpreter of classic BPF, to see what the filter says."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *arguments)
    program = [struct.unpack_from("=HBBI", code, i) for i in range(0, len(code), 8)]
    at, value = 0, 0
    while True:
        operation, yes, no, k = program[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("=I", data, k)[0]
        elif operation == 0x05:
            at += k
        elif operation == 0x54:
            value &= k
        elif operation == 0x06:
            return k
        else:
            hit = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += yes if hit else no


ALLOW, EPERM, ENOSYS, ENOTTY, EINVAL = 0x7FFF0000, 0x50001, 0x50026, 0x50019, 0x50016
ENOMEM, DONE, ASK = 0x5000C, 0x50000, 0x7FC00000


@pytest.mark.parametrize(
    ("namespaces", "number", "arguments", "expected"),
    [
        (True, 0, (), ALLOW),  # read
        (True, 101, (), EPERM),  # ptrace
        (True, 435, (), ENOSYS),  # clone3
        (True, 0x40000000, (), ENOSYS),  # x32
        (True, 56, (0x3D0F00,), ALLOW),  # clone of a thread
        (True, 56, (0x11,), ALLOW),  # clone of a process
        (True, 56, (0x4111,), ALLOW),  # as vfork
        (True, 56, (0x111,), EPERM),  # which shares memory and does not wait
        (True, 56, (0x8011,), EPERM),  # a sibling
        (True, 56, (0x10000000,), EPERM),  # clone into a user name space
        (True, 57, (), ALLOW),  # fork
        (True, 302, (1,), EPERM),
        (True, 41, (40,), EPERM),  # vsock
        (True, 16, (0, 0x5412), ENOTTY),  # TIOCSTI
        (True, 16, (0, 0x40086602), ENOTTY),  # FS_IOC_SETFLAGS
        (False, 16, (0, 0x5421), ALLOW),  # FIONBIO
        (False, 57, (), EPERM),
        (False, 56, (17,), EPERM),  # clone of a process
        (False, 62, (seccomp.OWN_PID, 9), ALLOW),
        (False, 62, (0, 9), ALLOW),
        (False, 62, (0xFFFFFFFF, 9), EPERM),
        (False, 234, (1, 1, 9), EPERM),
        (False, 41, (2,), EPERM),
        (False, 53, (1, 0x80001), ALLOW),  # a stream pair
        (False, 53, (1, 0x80002), EPERM),
        (False, 72, (3, 8, 1), EPERM),  # F_SETOWN
        (False, 157, (1, 0), EPERM),  # PR_SET_PDEATHSIG
        (False, 90, (), EPERM),  # chmod
        (True, 13, (17, 0x7FFF12345678), ASK),  # ignoring children
        (True, 13, (17, 0), ALLOW),  # asking
        (True, 13, (16, 1), ALLOW),
        (True, 9, (0, 4096, 3, 0x22), ALLOW),  # private memory
        (True, 9, (0, 4096, 3, 0x21), ENOMEM),  # shared memory without a file
        (True, 9, (0, 4096, 3, 0x01), ALLOW),  # a file
        (True, 9, (0, 4096, 3, 0x40022), ENOMEM),  # MAP_HUGETLB
        (False, 28, (0, 4096, 4), ALLOW),  # MADV_DONTNEED
        (False, 28, (0, 4096, 21), EINVAL),  # MADV_PAGEOUT
        (True, 54, (3, 1, 7), DONE),  # SO_SNDBUF
        (True, 54, (3, 1, 2), ALLOW),
        (True, 56, (0x10000,), EPERM),  # a thread with file descriptors of its own
        (False, 56, (0x10000,), EPERM),
        (True, 436, (3, 9, 2), EPERM),  # CLOSE_RANGE_UNSHARE
        (True, 436, (3, 9, 4), ALLOW),
        (True, 72, (3, 1024), EPERM),  # F_SETLEASE
        (True, 72, (3, 1026), EPERM),  # F_NOTIFY
        (True, 72, (3, 5), EPERM),  # F_GETLK
        (True, 72, (3, 6), DONE),  # F_SETLK
        (True, 72, (3, 8, 1), ALLOW),  # F_SETOWN
        (True, 73, (3, 2), DONE),  # flock
        (True, 162, (), DONE),  # sync
        (True, 278, (), ENOSYS),  # vmsplice
        (True, 41, (16,), EPERM),  # netlink
        (False, 46, (), EPERM),
        (False, 285, (), 0x5005F),  # fallocate
        (True, 157, (4, 0), EPERM),  # PR_SET_DUMPABLE
        (False, 157, (4, 0), EPERM),
        (True, 157, (4, 1), ALLOW),
        (True, 157, (15, 1), ALLOW),  # PR_SET_NAME
    ],
)
def test_verdicts(namespaces, number, arguments, expected):
    code = seccomp.build(namespaces=namespaces, machine="x86_64")
    assert run_filter(code, number, (*arguments, *[0] * (6 - len(arguments)))) == expected


def test_another_architecture_is_refused():
    assert run_filter(seccomp.build(namespaces=True, machine="x86_64"), 0, arch=0x40000003) == ENOSYS


def test_both_machines():
    assert len(seccomp.build(namespaces=False, machine="aarch64")) < 8 * 4096
    assert seccomp.supported() == (platform.machine() in ("x86_64", "aarch64"))
