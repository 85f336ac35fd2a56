"""Finds out which backend works here by trying."""

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mars_env.errors import ConfigError, SandboxError
from mars_env.sandbox.backends import OFFERED, Backend, Bubblewrap, Landlock, Unsafe
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import Guarantee, Limits, Result
from mars_env.sandbox.remote import Remote
from mars_env.sandbox.service import on_service_loop

BACKENDS: Mapping[str, Callable[[], Backend]] = {kind.name: kind for kind in (Bubblewrap, Landlock, Unsafe)}
"""Backends by name, best first."""
AUTOMATIC = ("bubblewrap", "landlock")
"""What ``"auto"`` tries, in this order."""
ADVICE = (
    "install bubblewrap (apt install bubblewrap) on a kernel that allows name spaces, or use Linux 6.2 or "
    "newer with Landlock, or name a remote executor (remote:<address>), or the sandbox 'unsafe' for programs "
    "that you trust"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a backend works here, if not why, and what it does not guarantee."""

    name: str
    works: bool
    why: str = ""
    missing: frozenset[Guarantee] = frozenset()


_CHECK = """
import os, socket
seen = []
try: open({canary!r}).read(); seen.append("host_files")
except OSError: pass
try: socket.create_connection(("127.0.0.1", {port}), 1).close(); seen.append("network")
except OSError: pass
if {secret!r} in repr(dict(os.environ)):
    seen.append("environment")
print("saw", *seen)
"""


async def run_once(
    backend: Backend, job: Job, limits: Limits, channel: socket.socket | None = None
) -> Result:
    """Run one job with a backend started for it alone."""

    async def run() -> Result:
        async with AsyncExitStack() as stack:
            spawner = await backend.start({})
            stack.push_async_callback(spawner.close)
            box = await spawner.box()
            stack.push_async_callback(box.close)
            return await box.run(job, limits, channel)

    return await on_service_loop(run())


async def probe(backend: Backend) -> Probe:
    """Start a sandbox, run a program in it that tries to reach the host, and report what it found."""
    missing = frozenset(Guarantee) - backend.guarantees
    secret = secrets.token_hex(8)
    with tempfile.NamedTemporaryFile("w") as canary, socket.create_server(("127.0.0.1", 0)) as server:
        canary.write(secret)
        canary.flush()
        source = _CHECK.format(canary=canary.name, port=server.getsockname()[1], secret=secret)
        canary_variable = f"MARS_ENV_PROBE_{secret}"  # a unique name: several probes may run at once
        os.environ[canary_variable] = secret
        try:
            result = await run_once(backend, Job(source=source), Limits(cpu_seconds=5))
        except SandboxError as error:
            return Probe(backend.name, False, str(error), missing)
        finally:
            del os.environ[canary_variable]
    word, *seen = result.stdout.decode(errors="replace").split() or [""]
    broken = sorted(set(seen) & {str(g) for g in backend.guarantees})
    why = f"a program in it could reach: {', '.join(broken)}" if broken else ""
    if word != "saw":
        errors = result.stderr.decode(errors="replace").strip().splitlines()
        why = f"a program in it did not run: {errors[-1] if errors else result.detail or result.ended.value}"
    return Probe(backend.name, not why, why, missing)


_IMPORT = """
for name in {names!r}:
    try: print(name, __import__(name).__version__)
    except ImportError: pass
"""


async def importable(backend: str | Backend = "auto") -> dict[str, str]:
    """What programs can import in addition to the standard library, with versions."""
    job = Job(source=_IMPORT.format(names=OFFERED))
    result = await run_once(await find_backend(backend), job, Limits(cpu_seconds=60))
    lines = (line.split() for line in result.stdout.decode("utf-8", "replace").splitlines())
    return {line[0]: line[1] for line in lines if len(line) == 2}


async def probe_all() -> list[Probe]:
    """A probe of every backend on this machine, best first; ``unsafe`` is not tried."""
    return [await probe(BACKENDS[name]()) for name in AUTOMATIC]


async def find_backend(backend: str | Backend) -> Backend:
    """The backend that a name stands for; ``"auto"`` is the best one that works.

    A `SandboxError` says why none works, and what to do.
    """
    if not isinstance(backend, str):
        return backend
    if backend.startswith("remote:"):
        return Remote(backend.removeprefix("remote:"))
    if backend in BACKENDS:
        return BACKENDS[backend]()
    if backend != "auto":
        names = ", ".join(BACKENDS)
        raise ConfigError(f"there is no sandbox {backend!r}; there are auto, {names} and remote:<address>")
    failures = []
    for name in AUTOMATIC:
        state = await probe(candidate := BACKENDS[name]())
        if state.works:
            return candidate
        failures.append(f"{name}: {state.why}")
    raise SandboxError(f"no sandbox works here ({'; '.join(failures)}): {ADVICE}")
