"""Tests of what the sandbox's box measures."""

import os
import signal

from mars_env.sandbox.inside.watch import share


def test_a_process_that_waits_to_be_collected_has_no_memory():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still listed
    try:
        assert share(f"/proc/{pid}", 150 << 20) == 0
    finally:
        os.waitpid(pid, 0)
    assert share(f"/proc/{pid}", 150 << 20) == 0  # nor one that is gone


def test_a_live_process_is_charged_its_share():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    try:
        assert 0 < share(f"/proc/{pid}", 1 << 40) < 1 << 40
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
