import platform
import struct
from pathlib import Path

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


VERDICTS = {
    "ALLOW": 0x7FFF0000, "ASK": 0x7FC00000, "DONE": 0x50000, "EPERM": 0x50001, "ENOMEM": 0x5000C,
    "EINVAL": 0x50016, "ENOTTY": 0x50019, "ENOSYS": 0x50026, "ENOTSUP": 0x5005F,
}  # fmt: skip
CALLS = Path(__file__).with_name("seccomp.txt").read_text("utf-8").splitlines()[1:]


@pytest.mark.parametrize("call", CALLS)
def test_verdicts(call):
    kind, number, verdict, *given = call.partition("#")[0].split()
    given = [seccomp.OWN_PID if each == "OWN_PID" else int(each, 0) for each in given]
    code = seccomp.build(namespaces=kind == "spaces", machine="x86_64")
    assert run_filter(code, int(number, 0), (*given, *[0] * (6 - len(given)))) == VERDICTS[verdict]


def test_another_architecture_is_refused():
    code = seccomp.build(namespaces=True, machine="x86_64")
    assert run_filter(code, 0, arch=0x40000003) == VERDICTS["ENOSYS"]


def test_both_machines():
    assert len(seccomp.build(namespaces=False, machine="aarch64")) < 8 * 4096
    assert seccomp.supported() == (platform.machine() in ("x86_64", "aarch64"))
