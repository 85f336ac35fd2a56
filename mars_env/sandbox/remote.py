"""Runs programs on a remote HTTP executor that offers SandboxFusion's ``/run_code``."""

import base64
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import aiohttp
from pydantic import BaseModel, Field, FiniteFloat, StrictInt

from mars_env.errors import ConfigError
from mars_env.net import NETWORK_ERRORS, BodyTooLong, request
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import Ended, Guarantee, Limits, Result

_TRIALS = 3  # how often a program must fail there, each time while an empty one succeeds, to count as broken

DATA_FILE = "mars_env_data"
"""The file to which a program writes what it would elsewhere write to file descriptor 3."""
PROGRAM_FILE = "mars_env_program.py"
"""The file that holds a program with arguments or an environment, which a launcher then runs."""
_LAUNCH = """
import os, runpy, sys
os.environ.update({2!r})
sys.argv[1:] = {1!r}
runpy.run_path({0!r}, run_name="__main__")
"""

MOST_ANSWER = 20 * 2**20  # bytes that are read: 16 MiB of plain text and a little more
MOST_STRUCTURE = 2**14  # bytes outside of an answer's strings; an executor's has about ten values
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class _Run(BaseModel, hide_input_in_errors=True):
    status: str | None = None
    return_code: StrictInt | None = None
    execution_time: FiniteFloat | None = None
    stdout: str | None = None
    stderr: str | None = None


class _Answer(BaseModel, hide_input_in_errors=True):
    """An executor's answer; fields that are not read here are skipped without being built."""

    status: str | None = None
    message: str | None = None
    run_result: _Run | None = None
    files: dict[str, str] | None = Field(default=None, max_length=100)


_GUARANTEED = frozenset({Guarantee.WALL, Guarantee.HOST_FILES, Guarantee.ENVIRONMENT, Guarantee.SIGNALS})


@dataclass(frozen=True)
class Remote:
    """A remote executor at ``http://host:port``; how it contains programs is up to it.

    It reports neither CPU time nor memory, and its time-out counts wall-clock time, so a verdict may depend
    on its load. It runs only Python source. An answer of more than 20 MiB of JSON counts as too much output.
    """

    address: str
    name, guarantees, channels = "remote", _GUARANTEED, False

    def __post_init__(self) -> None:
        if not self.address.startswith(("http://", "https://")):
            raise ConfigError(f"a remote sandbox needs an http address, got {self.address!r}")

    async def start(self, modules: Mapping[str, str]) -> "_RemoteBox":
        """Nothing is started, because each run is a request."""
        return _RemoteBox(self, modules)


class _RemoteBox:
    """Sends each job as one request; keeps nothing, so it is its own spawner."""

    spent = False

    def __init__(self, backend: Remote, modules: Mapping[str, str]) -> None:
        self._url = f"{backend.address.rstrip('/')}/run_code"
        self._result = partial(
            Result, backend=backend.name, missing=frozenset(Guarantee) - backend.guarantees
        )
        packages = {name.rpartition(".")[0] for name in modules}
        self._modules = {
            name.replace(".", "/") + ("/__init__.py" if name in packages else ".py"): source.encode()
            for name, source in modules.items()
        }

    async def box(self) -> "_RemoteBox":
        return self

    async def close(self) -> None:
        """Nothing is kept."""

    async def run(self, job: Job, limits: Limits, channel: socket.socket | None = None) -> Result:
        """Run one job; if only this program, and no empty one, fails each time, the result is not LOST."""
        if channel is not None or job.source_bytes is None:
            raise ConfigError("a remote sandbox runs Python source without a channel")
        for _ in range(_TRIALS):
            result, ended = await self._ask(job, limits)
            if result.ended is not Ended.LOST or ended is None:
                return result
            control, _ = await self._ask(replace(job, source=b""), limits)
            if control.ended is Ended.LOST:
                return result
            failed = replace(result, ended=ended)
        return failed

    async def _ask(self, job: Job, limits: Limits) -> tuple[Result, Ended | None]:
        """Send one request; if it is lost and the program may be to blame, also say how the program ended."""
        assert job.source_bytes is not None
        files = {**self._modules, **job.files}
        code = job.source_bytes.decode("utf-8", "replace")
        if job.arguments or job.environment:  # the protocol has neither
            files[PROGRAM_FILE] = job.source_bytes
            code = _LAUNCH.format(PROGRAM_FILE, [*job.arguments], {**job.environment})
        body = {
            "code": code,
            "language": "python",
            "stdin": job.stdin.decode("utf-8", "replace"),
            "run_timeout": limits.wall,
            "compile_timeout": limits.wall,
            "files": {path: base64.b64encode(content).decode() for path, content in files.items()},
            "fetch_files": [DATA_FILE],
        }
        most = min(16 * limits.output_bytes + 65536, MOST_ANSWER)
        try:
            answer = await request("POST", self._url, most, limits.wall * 2 + 30, json=body)
            if 300 <= answer.status < 400:  # programs and tests go only to the given address
                target = ascii(answer.headers.get("Location", ""))[:200]
                return self._lost(f"it redirects to {target}, which is not followed: use that address"), None
            if answer.status != 200:
                lost = self._lost(f"it answered with status {answer.status}")
                return lost, Ended.KILLED if answer.status >= 500 else None
            return self._read(answer.body, limits), None
        except BodyTooLong:
            return self._lost("it answered without end"), Ended.OUTPUT
        except (*NETWORK_ERRORS, ValueError) as error:
            connected = not isinstance(error, aiohttp.ClientConnectorError)
            lost = self._lost(" ".join(f"{type(error).__name__}: {error}".split())[:300])
            return lost, Ended.KILLED if connected else None

    def _read(self, body: bytes, limits: Limits) -> Result:
        if len(_STRING.sub(b"", body)) > MOST_STRUCTURE:
            raise ValueError("its answer holds too many values")
        answer = _Answer.model_validate_json(body)
        run = answer.run_result
        if run is None or answer.status == "SandboxError":
            return self._lost(f"it reported an internal fault: {str(answer.message)[:200]}")
        stdout, stderr = ((text or "").encode("utf-8", "replace") for text in (run.stdout, run.stderr))
        data = base64.b64decode((answer.files or {}).get(DATA_FILE, ""))
        code = run.return_code
        ended = Ended.EXITED
        if run.status == "TimeLimitExceeded":
            ended = Ended.WALL
        elif max(len(stdout), len(stderr), len(data)) > limits.output_bytes:
            ended = Ended.OUTPUT
        elif code is None or not -64 <= code <= 255:
            return self._lost(f"it gave no exit status ({str(run.status)[:50]})")
        elif code < 0:
            ended = Ended.KILLED
        return self._result(
            ended,
            exit_code=code if ended is Ended.EXITED else None,
            signal=-code if code is not None and ended is Ended.KILLED else None,
            stdout=stdout[: limits.output_bytes],
            stderr=stderr[: limits.output_bytes],
            data=data[: limits.output_bytes],
            wall_seconds=run.execution_time or 0.0,
        )

    def _lost(self, detail: str) -> Result:
        return self._result(Ended.LOST, detail=f"the remote sandbox: {detail}")
