"""The event loop of the sandboxes, in a forked process."""

import asyncio
import os
import signal

from kills import fork

from mars_env.sandbox import service


def test_a_child_forked_while_a_thread_holds_the_lock_runs_on():
    def run():
        signal.alarm(20)  # ends a child that waits for the lock
        assert asyncio.run(service.on_service_loop(asyncio.sleep(0, 4))) == 4

    with service._lock:
        child = fork(run)
    assert os.waitpid(child, 0)[1] == 0
