"""A model server in a separate process that fails on command (see chaos_server.py)."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest


class ChaosServer:
    """Starts, kills and restarts a server on one port."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.process = None

    def start(self, *faults, rate=0.0, seconds=0.002):
        script = Path(__file__).with_name("chaos_server.py")
        command = [sys.executable, str(script), str(self.port), str(rate), ",".join(map(str, faults))]
        self.process = subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def kill(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):  # it may have been killed by the test
                self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def chaos():
    server = ChaosServer()
    yield server
    server.kill()
